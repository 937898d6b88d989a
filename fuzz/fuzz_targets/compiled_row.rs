//! See `testing/targets/src/targets/compiled_row.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tapedb_testing::targets::compiled_row::run(input));
