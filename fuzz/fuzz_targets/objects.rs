//! See `testing/targets/src/targets/objects.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tapedb_testing::targets::objects::run(input));
