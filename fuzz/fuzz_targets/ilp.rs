//! See `testing/targets/src/targets/ilp.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tapedb_testing::targets::ilp::run(input));
