//! See `testing/targets/src/targets/batch.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tapedb_testing::targets::batch::run(input));
