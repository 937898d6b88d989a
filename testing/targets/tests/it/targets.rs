//! Every target: its kept inputs, then nearly right inputs and random bytes, seeded and bounded.
//!
//! `TAPEDB_FUZZ_RUNS` sets how many inputs each target gets, `TAPEDB_FUZZ_SEED` where they begin. A failure prints the
//! input as a file: copy it to `testing/corpus/<target>/` to keep it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use tapedb_testing::mutate::{mutate, noise};
use tapedb_testing::sample::SplitMix64;
use tapedb_testing::{TARGETS, Target, target};

const RUNS: u64 = 20_000;
/// For targets that write or read files.
const RUNS_ON_DISK: u64 = 2_000;
/// For targets that compare in every way, at every level of SIMD.
const RUNS_COMPARED: u64 = 1_000;

/// The number in an environment variable.
fn setting(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text:?} is not a number")),
        Err(_) => default,
    }
}

fn fuzz(name: &str, runs: u64) {
    let target = target(name).expect("a target of that name");
    kept_inputs(target);
    let (runs, first) = (setting("TAPEDB_FUZZ_RUNS", runs), setting("TAPEDB_FUZZ_SEED", 0));
    for number in first..first + runs {
        let input = input(target, number);
        try_one(target, &input, &format!("TAPEDB_FUZZ_SEED={number} TAPEDB_FUZZ_RUNS=1"));
    }
}

fn input(target: &Target, number: u64) -> Vec<u8> {
    let mut random = SplitMix64::new(number.wrapping_mul(0x1_0001));
    match number % 16 {
        0 => (target.seed)(number),
        1 => noise(&mut random),
        _ => {
            let mut input = (target.seed)(random.next_u64() >> 40);
            let other =
                if random.once_in(4) { (target.seed)(random.next_u64() >> 40) } else { input.clone() };
            mutate(&mut input, &other, &mut random);
            input
        }
    }
}

fn try_one(target: &Target, input: &[u8], origin: &str) {
    if catch_unwind(AssertUnwindSafe(|| (target.run)(input))).is_err() {
        let file = std::env::temp_dir().join(format!("tapedb-{}-failure", target.name));
        let kept = std::fs::write(&file, input).is_ok();
        let file = if kept { file.display().to_string() } else { format!("{input:02x?}") };
        panic!("target {} fails on {origin}; the input is {file}", target.name);
    }
}

fn corpus(target: &Target) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus").join(target.name)
}

fn kept_inputs(target: &Target) {
    let dir = corpus(target);
    let entries = std::fs::read_dir(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    for entry in entries {
        let path = entry.expect("a readable directory").path();
        let input = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        try_one(target, &input, &path.display().to_string());
    }
}

#[test]
fn every_target_has_a_test_and_a_corpus() {
    let source = include_str!("targets.rs");
    for target in TARGETS {
        assert!(source.contains(&format!("fuzz(\"{}\", ", target.name)), "{} has no test", target.name);
        assert!(corpus(target).is_dir(), "{} has no corpus", target.name);
    }
}

#[test]
fn schema_text() {
    fuzz("schema_text", RUNS);
}

#[test]
fn row_layout() {
    fuzz("row_layout", RUNS);
}

#[test]
fn compiled_row() {
    fuzz("compiled_row", RUNS);
}

#[test]
fn json_text() {
    fuzz("json_text", RUNS);
}

#[test]
fn evolve() {
    fuzz("evolve", RUNS);
}

#[test]
fn batch() {
    fuzz("batch", RUNS);
}

#[test]
fn batch_columns() {
    fuzz("batch_columns", RUNS);
}

#[test]
fn log_file() {
    fuzz("log_file", RUNS);
}

#[test]
fn log_recovery() {
    fuzz("log_recovery", RUNS);
}

#[test]
fn segment_file() {
    fuzz("segment_file", RUNS_ON_DISK);
}

#[test]
fn segment_columns() {
    fuzz("segment_columns", RUNS_COMPARED);
}

#[test]
fn segment_values() {
    fuzz("segment_values", RUNS_COMPARED / 20);
}

#[test]
fn symbols_file() {
    fuzz("symbols_file", RUNS);
}

#[test]
fn dbn() {
    fuzz("dbn", RUNS_ON_DISK);
}

#[test]
fn itch() {
    fuzz("itch", RUNS_ON_DISK / 4);
}

#[test]
fn captures() {
    fuzz("captures", RUNS_ON_DISK / 4);
}

#[test]
fn frames() {
    fuzz("frames", RUNS_ON_DISK);
}

#[test]
fn tables() {
    fuzz("tables", RUNS_ON_DISK / 4);
}

#[test]
fn importers() {
    fuzz("importers", RUNS_ON_DISK);
}

#[test]
fn pg_wire() {
    fuzz("pg_wire", RUNS);
}

#[test]
fn objects() {
    fuzz("objects", RUNS);
}

#[test]
fn wire() {
    fuzz("wire", RUNS);
}

#[test]
fn ilp() {
    fuzz("ilp", RUNS);
}

#[test]
fn kdb() {
    fuzz("kdb", RUNS);
}

#[test]
fn arrow_ipc() {
    fuzz("arrow_ipc", RUNS);
}

#[test]
fn parquet() {
    fuzz("parquet", RUNS_ON_DISK / 4);
}
