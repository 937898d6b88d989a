//! pyarrow and Polars read what is written, where Python has them.

use crate::round_trip::fill;
use crate::support::{read, streams};
use arrow_ipc::writer::StreamWriter;
use std::fs::File;
use std::path::Path;
use tapedb_arrow::{Decimals, ReadOptions};
use tapedb_skipped::{python, python_has};
use tapedb_testing::sample::schema;

const PYARROW: &str = "
import sys, pyarrow.ipc
for path, rows in zip(sys.argv[1::2], sys.argv[2::2]):
    with open(path, 'rb') as file:
        table = pyarrow.ipc.open_stream(file).read_all()
    table.validate(full=True)
    assert table.num_rows == int(rows), path
";

const POLARS: &str = "
import sys, polars
for path, rows in zip(sys.argv[1::2], sys.argv[2::2]):
    frame = polars.read_ipc_stream(path)
    assert frame.height == int(rows), path
";

/// Writes streams of random schemas as IPC; returns the files and their rows.
fn files(directory: &Path) -> Vec<String> {
    let mut arguments = Vec::new();
    for seed in 0..6 {
        // Every fourth schema has a field of every type.
        let (_directory, _db, stream, _) = streams(schema(seed * 4));
        fill(&stream, seed, 100);
        let options = ReadOptions { decimals: Decimals::Raw, sequences: true, ..ReadOptions::default() };
        for record in stream.layouts().records().iter().filter(|record| record.message) {
            let batches = read(&stream, &record.name, &options).unwrap();
            let Some(first) = batches.first() else { continue };
            let path = directory.join(format!("{seed}-{}.arrows", record.name));
            let mut writer = StreamWriter::try_new(File::create(&path).unwrap(), &first.schema()).unwrap();
            batches.iter().for_each(|batch| writer.write(batch).unwrap());
            writer.finish().unwrap();
            let rows: usize = batches.iter().map(|batch| batch.num_rows()).sum();
            arguments.extend([path.display().to_string(), rows.to_string()]);
        }
    }
    arguments
}

fn check(module: &str, program: &str) {
    if !python_has(module) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let arguments = files(directory.path());
    assert!(arguments.len() >= 12);
    let output = python().args(["-c", program]).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn pyarrow_finds_the_batches_valid() {
    check("pyarrow", PYARROW);
}

#[test]
fn polars_reads_the_batches() {
    check("polars", POLARS);
}
