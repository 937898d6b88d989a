//! See `testing/targets/src/targets/batch_columns.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tapedb_testing::targets::batch_columns::run(input));
