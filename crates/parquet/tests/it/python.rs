//! Files that pyarrow, pandas, Polars and DuckDB write, where Python has them; and theirs of ours.

use crate::support::{export, fill, streams};
use std::path::Path;
use tapedb_arrow::{AppendOptions, RowEncoder};
use tapedb_codec::dynamic::Layouts;
use tapedb_parquet::{Merge, ParquetFile, Source, WriteOptions, infer};
use tapedb_skipped::{python, python_has};
use tapedb_testing::sample::schema;

/// Each writes the same three rows: times, tickers, prices, sizes, one of them null.
const WRITERS: [(&str, &str); 4] = [
    (
        "pyarrow",
        "import pyarrow as pa, pyarrow.parquet as pq
pq.write_table(pa.table({
    'ts': pa.array([1_000_000, 2_000_000, 3_000_000], pa.timestamp('us', 'UTC')),
    'ticker': pa.array(['A', 'B', 'A']).dictionary_encode(),
    'price': pa.array([1.5, 2.25, -0.1]),
    'size': pa.array([7, None, 9], pa.int64()),
}), path)",
    ),
    (
        "pandas",
        "import pandas
pandas.DataFrame({
    'ts': pandas.to_datetime([1_000_000_000, 2_000_000_000, 3_000_000_000]),
    'ticker': ['A', 'B', 'A'],
    'price': [1.5, 2.25, -0.1],
    'size': pandas.array([7, None, 9], dtype='Int64'),
}).to_parquet(path)",
    ),
    (
        "polars",
        "import polars
polars.DataFrame({
    'ts': polars.Series([1_000_000, 2_000_000, 3_000_000]).cast(polars.Datetime('us')),
    'ticker': ['A', 'B', 'A'],
    'price': [1.5, 2.25, -0.1],
    'size': polars.Series([7, None, 9], dtype=polars.Int64),
}).write_parquet(path)",
    ),
    (
        "duckdb",
        "import duckdb
duckdb.sql(f\"\"\"COPY (SELECT * FROM (VALUES
    (TIMESTAMP '1970-01-01 00:00:01', 'A', 1.5::DOUBLE, 7::BIGINT),
    (TIMESTAMP '1970-01-01 00:00:02', 'B', 2.25::DOUBLE, NULL),
    (TIMESTAMP '1970-01-01 00:00:03', 'A', (-0.1)::DOUBLE, 9::BIGINT)
) AS t(ts, ticker, price, size)) TO '{path}' (FORMAT parquet)\"\"\")",
    ),
];

fn run(program: &str, path: &Path) -> Result<(), String> {
    let output = python().args(["-c", program]).arg(path).output();
    let output = output.map_err(|error| error.to_string())?;
    output.status.success().then_some(()).ok_or_else(|| String::from_utf8_lossy(&output.stderr).into())
}

#[test]
fn files_of_others_become_messages() {
    let directory = tempfile::tempdir().unwrap();
    for (module, program) in WRITERS {
        // pandas writes with the help of pyarrow.
        if !python_has(module) || module == "pandas" && !python_has("pyarrow") {
            continue;
        }
        let path = directory.path().join(format!("{module}.parquet"));
        run(&format!("import sys\npath = sys.argv[1]\n{program}"), &path).unwrap();
        let file = ParquetFile::open(&path).unwrap();
        assert_eq!(file.origin(), None);
        let schema = infer::schema(file.schema(), "Trade", "ts", "ticker").unwrap();
        assert_eq!(schema, "message Trade { price: f64?, size: i64? }".parse().unwrap(), "{module}");
        let layouts = Layouts::new(schema).unwrap();
        let options = AppendOptions { record: None, naive_is_utc: module != "pyarrow" };
        let encoder = RowEncoder::new("s", &layouts, &options).unwrap();
        let source = Source { file: file.into(), encoder, time: "ts".into(), symbol: "ticker".into() };
        let mut merge = Merge::new(vec![source]);
        let mut rows = Vec::new();
        while let Some(row) = merge.next().unwrap() {
            let mut json = Vec::new();
            layouts.view(row.type_id, row.body).unwrap().write_json(&mut json);
            rows.push((row.time, row.symbol.to_string(), String::from_utf8(json).unwrap()));
        }
        let found: Vec<_> = rows.iter().map(|(time, symbol, _)| (*time, symbol.as_str())).collect();
        let second = 1_000_000_000;
        assert_eq!(found, [(second, "A"), (2 * second, "B"), (3 * second, "A")], "{module}");
        for (part, (_, _, json)) in ["1.5", "2.25", "-0.1"].iter().zip(&rows) {
            assert!(json.contains(part), "{module}: {json}");
        }
        // JSON leaves nulls out.
        assert!(rows[0].2.contains("\"size\"") && !rows[1].2.contains("\"size\""), "{module}: {rows:?}");
    }
}

#[test]
fn others_read_our_files() {
    let readers = [
        ("pyarrow", "import pyarrow.parquet as pq\nrows = pq.read_table(path).num_rows"),
        ("polars", "import polars\nrows = polars.read_parquet(path).height"),
        ("duckdb", "import duckdb\nrows = duckdb.sql(f\"SELECT count(*) FROM '{path}'\").fetchall()[0][0]"),
    ];
    for (module, program) in readers {
        if !python_has(module) {
            continue;
        }
        for seed in 0..4 {
            let (directory, stream, _) = streams(schema(seed * 4));
            fill(&stream, seed, 100);
            for (path, written) in export(&stream, directory.path(), &WriteOptions::default()) {
                let check =
                    format!("import sys\npath = sys.argv[1]\n{program}\nassert rows == {}", written.rows);
                run(&check, &path).unwrap_or_else(|error| panic!("{module}: {error}"));
            }
        }
    }
}
