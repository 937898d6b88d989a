//! See `testing/targets/src/targets/schema_text.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tapedb_testing::targets::schema_text::run(input));
