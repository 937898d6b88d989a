//! See `testing/targets/src/targets/importers.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tapedb_testing::targets::importers::run(input));
