//! See `testing/targets/src/targets/row_layout.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tapedb_testing::targets::row_layout::run(input));
