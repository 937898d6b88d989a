//! See `testing/targets/src/targets/dbn.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tapedb_testing::targets::dbn::run(input));
