//! See `testing/targets/src/targets/kdb.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tapedb_testing::targets::kdb::run(input));
