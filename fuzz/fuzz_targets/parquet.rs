//! See `testing/targets/src/targets/parquet.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tapedb_testing::targets::parquet::run(input));
