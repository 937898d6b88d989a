//! See `testing/targets/src/targets/pg_wire.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tapedb_testing::targets::pg_wire::run(input));
