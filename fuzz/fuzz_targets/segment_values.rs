//! See `testing/targets/src/targets/segment_values.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tapedb_testing::targets::segment_values::run(input));
