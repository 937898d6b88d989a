//! See `testing/targets/src/targets/json_text.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tapedb_testing::targets::json_text::run(input));
