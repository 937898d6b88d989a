//! See `testing/targets/src/targets/symbols_file.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tapedb_testing::targets::symbols_file::run(input));
