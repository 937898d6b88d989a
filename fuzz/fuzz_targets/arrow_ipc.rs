//! See `testing/targets/src/targets/arrow_ipc.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tapedb_testing::targets::arrow_ipc::run(input));
