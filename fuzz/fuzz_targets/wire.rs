//! See `testing/targets/src/targets/wire.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tapedb_testing::targets::wire::run(input));
