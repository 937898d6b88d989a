//! See `testing/targets/src/targets/captures.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tapedb_testing::targets::captures::run(input));
