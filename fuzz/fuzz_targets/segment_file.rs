//! See `testing/targets/src/targets/segment_file.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tapedb_testing::targets::segment_file::run(input));
