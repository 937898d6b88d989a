//! See `testing/targets/src/targets/evolve.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tapedb_testing::targets::evolve::run(input));
