//! See `testing/targets/src/targets/itch.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tapedb_testing::targets::itch::run(input));
