//! See `testing/targets/src/targets/log_recovery.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tapedb_testing::targets::log_recovery::run(input));
