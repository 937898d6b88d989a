//! See `testing/targets/src/targets/frames.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tapedb_testing::targets::frames::run(input));
