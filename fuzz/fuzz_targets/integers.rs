//! See `testing/targets/src/targets/integers.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tapedb_testing::targets::integers::run(input));
