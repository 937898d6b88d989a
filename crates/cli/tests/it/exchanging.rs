//! Record batches and Parquet files, in and out: `load --format arrow`, `export`, `import --format parquet|arrow`.

use crate::support::{Place, Run, end, signal};
use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Maximum time of every wait.
const PATIENCE: Duration = Duration::from_secs(120);

/// A place with a feed, bars, and empty streams of the same schemas.
fn place() -> Place {
    let place = Place::new();
    place.run("generate --stream feed --messages 3k").good();
    place.run("generate --stream bars --kind bars --messages 2k --interval 1ms").good();
    for stream in ["feed", "bars"] {
        let schema = place.path(&format!("{stream}.schema"));
        std::fs::write(&schema, place.run(&format!("desc {stream}")).good()).unwrap();
        place.run(&format!("create {stream}2 --schema {}", schema.display())).good();
    }
    place
}

/// Runs a command with bytes as its input.
fn piped(place: &Place, line: &str, input: &[u8]) -> Run {
    let mut child = place.start(place.command(line).stdin(Stdio::piped()));
    // It may end before it has read all.
    let _ = child.stdin.take().unwrap().write_all(input);
    end(child)
}

fn arrow(place: &Place, stream: &str) -> Vec<u8> {
    let line = format!("read {stream} --output arrow --decimals raw");
    let output = place.command(&line).output().unwrap();
    assert!(output.status.success());
    output.stdout
}

/// A folder inside the place, as an argument.
fn folder(place: &Place, name: &str) -> String {
    place.path(name).display().to_string()
}

#[test]
fn arrow_is_loaded_from_pipes_and_files() {
    let place = place();
    for stream in ["feed", "bars"] {
        let run = piped(&place, &format!("load {stream}2 --format arrow"), &arrow(&place, stream));
        assert!(run.good().contains(" messages into stream "));
        assert_eq!(place.totals(&format!("{stream}2")), place.totals(stream));
    }
    let path = place.path("bars.arrows");
    std::fs::write(&path, arrow(&place, "bars")).unwrap();
    // The name implies the format.
    let run = place.run(&format!("load bars2 {} --json", path.display())).json().remove(0);
    assert_eq!((run["messages"].as_u64(), run["stream"].as_str()), (Some(2000), Some("bars2")));
    assert_eq!(place.messages("bars2"), 4000);
}

#[test]
fn arrow_that_is_damaged_or_does_not_fit_is_an_error() {
    let place = place();
    let bytes = arrow(&place, "bars");
    let error = piped(&place, "load bars2 --format arrow", &bytes[..bytes.len() / 2]).bad(1);
    assert!(error.contains("standard input") && error.contains("truncated"), "{error}");
    assert!(error.contains("the 0 messages before it are in the stream"), "{error}");
    let error = piped(&place, "load bars2 --format arrow", b"{\"symbol\": \"A\"}\n").bad(1);
    assert!(error.contains("not Arrow's IPC format"), "{error}");
    let error = piped(&place, "load feed2 --format arrow", &bytes).bad(1);
    assert!(error.contains("batch 1 of standard input: column"), "{error}");
    assert!(piped(&place, "load bars2 --format arrow --type Bart", &bytes).bad(1).contains("Bart"));
    assert!(place.run("load bars2 --format arrow --on-bad-line skip").bad(2).contains("no lines"));
    assert!(place.run("load bars2 --type Bar").bad(2).contains("--format arrow"));
    assert_eq!((place.messages("bars2"), place.messages("feed2")), (0, 0));
}

#[test]
fn arrow_before_a_pause_is_visible_and_a_signal_ends_it() {
    let place = place();
    let bytes = arrow(&place, "bars");
    let mut command = place.command("load bars2 --format arrow");
    let mut child = place.start(command.stdin(Stdio::piped()));
    // Without the message that ends the stream, and with the beginning of another one.
    let mut input = child.stdin.take().unwrap();
    input
        .write_all(&bytes[..bytes.len() - 8])
        .and_then(|()| input.write_all(&bytes[bytes.len() - 8..][..5]))
        .unwrap();
    let began = Instant::now();
    while place.messages("bars2") < 2000 {
        assert!(began.elapsed() < PATIENCE);
        sleep(Duration::from_millis(5));
    }
    signal(&child, "TERM");
    let run = end(child);
    assert_eq!(run.code, 143);
    assert!(run.out.starts_with("loaded 2,000 messages into stream \"bars2\" in "), "{}", run.out);
    assert!(run.err.contains("its first 5 bytes are not stored"), "{}", run.err);
}

#[test]
#[cfg(feature = "parquet")]
fn an_export_restores_the_stream() {
    let place = place();
    let out = folder(&place, "out");
    let line = format!("export feed bars --format parquet --out {out} --decimals raw --sequences");
    let text = place.run(&line).good();
    assert!(text.contains("feed.Package.parquet") && text.contains("5,000 messages in 2 files"), "{text}");
    assert!(place.run(&line).bad(1).contains("--existing skip"));
    std::fs::remove_file(place.path("out/bars.Bar.parquet")).unwrap();
    let again = place.run(&format!("{line} --existing skip --json")).json();
    assert_eq!(again.iter().filter(|file| file["messages"].is_null()).count(), 1, "{again:?}");
    place.run(&format!("{line} --existing replace")).good();

    // Into a new database, with the schema of the files.
    let other = Place::new();
    let file = Path::new(&out).join("feed.Package.parquet");
    let import = |place: &Place, options: &str, file: &Path| {
        let mut command = place.command(&format!("import --format parquet {options}"));
        Run::of(command.arg(file).output().unwrap())
    };
    assert!(import(&other, "", &file).good().contains("3,000 messages"));
    assert_eq!(other.totals("feed"), place.totals("feed"));
    let error = import(&other, "", &file).bad(1);
    assert!(error.contains("was imported into this stream before"), "{error}");
    import(&other, "--again skip", &file).good();
    assert_eq!(other.messages("feed"), 3000);
    let error = import(&other, "--stream both", Path::new(&out)).bad(1);
    assert!(error.contains("different schemas"), "{error}");
    let error = import(&other, "--stream feed", &Path::new(&out).join("bars.Bar.parquet")).bad(1);
    assert!(error.contains("no such message type"), "{error}");
    assert_eq!(other.messages("feed"), 3000);
}

#[test]
#[cfg(feature = "parquet")]
fn exports_of_text_and_arrow_are_what_load_and_import_read() {
    let place = place();
    let out = folder(&place, "out");
    let read = |name: &str| std::fs::read_to_string(Path::new(&out).join(name)).unwrap();
    let text = place.run(&format!("export feed bars --format jsonl --out {out}")).good();
    assert!(text.contains("feed.jsonl") && text.contains("5,000 messages in 2 files"), "{text}");
    assert_eq!(read("feed.jsonl"), place.run("read feed --output json").good());
    place.run(&format!("export bars --format csv --out {out}")).good();
    assert_eq!(read("bars.Bar.csv"), place.run("read bars --output csv").good());
    place.run(&format!("export bars --format arrow --decimals raw --out {out}")).good();
    assert!(place.run(&format!("export bars --format arrow --out {out}")).bad(1).contains("--existing"));
    assert!(
        std::fs::read_dir(&out)
            .unwrap()
            .all(|file| file.unwrap().path().extension() != Some("part".as_ref()))
    );

    let totals = place.totals("bars");
    for (stream, file, format) in [("a", "bars.Bar.arrows", "arrow"), ("b", "bars.jsonl", "json")] {
        let schema = place.path(stream);
        std::fs::write(&schema, place.run("desc bars").good()).unwrap();
        place.run(&format!("create {stream} --schema {}", schema.display())).good();
        place.run(&format!("load {stream} {out}/{file} --format {format}")).good();
        assert_eq!(place.totals(stream), totals);
    }
    let line = format!("import --stream c --format csv --map type= --yes {out}/bars.Bar.csv");
    // The schema is shown on standard error.
    let run = place.run(&line);
    assert!(run.code == 0 && run.out.contains("2,000 messages"), "{} {}", run.out, run.err);
}

#[test]
#[cfg(feature = "parquet")]
fn an_export_takes_the_filters_of_read() {
    let place = place();
    let out = folder(&place, "out");
    let line = format!(
        "export bars --format parquet --out {out} --json --from 2024-01-02T14:30:00.1 --to 2024-01-02T14:30:00.6 \
         --symbols S000000 --types Bar"
    );
    let file = place.run(&line).json().remove(0);
    let rows = place
        .run("read bars --from 2024-01-02T14:30:00.1 --to 2024-01-02T14:30:00.6 --symbols S000000")
        .good()
        .lines()
        .count();
    assert_eq!(file["messages"].as_u64(), Some(rows as u64), "{file}");
    assert!(rows > 0 && file["bytes"].as_u64() > Some(0));
    let error = place.run(&format!("export bars --format parquet --out {out} --types Nothing")).bad(2);
    assert!(error.contains("--types"), "{error}");
    assert!(
        place.run(&format!("export bars --format parquet --out {out} --decimals x")).bad(2).contains("float")
    );
}

#[test]
#[cfg(feature = "parquet")]
fn files_of_others_show_their_schema_before_anything_is_written() {
    let place = place();
    let out = folder(&place, "out");
    place.run(&format!("export bars --format parquet --out {out}")).good();
    let ours = place.path("out/bars.Bar.parquet");
    let theirs = place.path("theirs.parquet");
    without_origin(&ours, &theirs);
    let import = |options: &str| {
        let mut command = place.command(&format!("import --stream new --format parquet {options}"));
        Run::of(command.arg(&theirs).output().unwrap())
    };
    assert!(import("").bad(2).contains("--type"));
    assert!(import("--type Bar --symbol ticker").bad(1).contains("no column \"ticker\""));
    let run = import("--type Bar");
    assert_eq!((run.code, run.out.as_str()), (1, ""));
    assert!(run.err.contains("message Bar") && run.err.contains("open: f64"), "{}", run.err);
    assert!(run.err.contains("--yes"), "{}", run.err);
    assert_eq!(place.run("streams --json").json().iter().filter(|stream| stream["name"] == "new").count(), 0);
    let run = import("--type Bar --yes");
    assert_eq!(run.code, 0, "{}", run.err);
    assert_eq!(place.messages("new"), 2000);
}

/// An IPC file of the batches of an IPC stream, without the stream's metadata, as others write it.
#[cfg(feature = "parquet")]
fn ipc_file(stream: &Path, to: &Path) {
    use arrow_ipc::reader::StreamReader;
    use arrow_ipc::writer::FileWriter;
    let reader = StreamReader::try_new(std::fs::File::open(stream).unwrap(), None).unwrap();
    let schema = reader.schema().as_ref().clone().with_metadata(Default::default());
    let mut writer = FileWriter::try_new(std::fs::File::create(to).unwrap(), &schema).unwrap();
    reader.for_each(|batch| writer.write(&batch.unwrap()).unwrap());
    writer.finish().unwrap();
}

#[test]
#[cfg(feature = "parquet")]
fn arrow_files_are_imported_as_parquet_files_are() {
    let place = place();
    let out = folder(&place, "out");
    place.run(&format!("export feed bars --format arrow --out {out} --decimals raw --sequences")).good();
    let feed = place.path("out/feed.Package.arrows");
    let bars = place.path("out/bars.Bar.arrows");
    let import = |place: &Place, options: &str, file: &Path| {
        Run::of(place.command(&format!("import {options}")).arg(file).output().unwrap())
    };
    // The name says the format, the file the stream and its schema.
    let other = Place::new();
    assert!(import(&other, "", &feed).good().contains("3,000 messages"));
    assert_eq!(other.totals("feed"), place.totals("feed"));
    let error = import(&other, "", &feed).bad(1);
    assert!(error.contains("was imported into this stream before"), "{error}");
    import(&other, "--again skip", &feed).good();
    let error = import(&other, "--stream feed", &bars).bad(1);
    assert!(error.contains("no such message type"), "{error}");
    let error = import(&other, "--format arrow --stream both", Path::new(&out)).bad(1);
    assert!(error.contains("different schemas"), "{error}");
    assert_eq!(other.messages("feed"), 3000);

    // The other form of the format, of other programs and under any name: its first bytes say what it is.
    let file = place.path("theirs.bin");
    place.run(&format!("export bars --format arrow --out {}", folder(&place, "floats"))).good();
    ipc_file(&place.path("floats/bars.Bar.arrows"), &file);
    assert!(import(&other, "", &file).bad(2).contains("--stream"));
    let run = import(&other, "--stream new --type Bar", &file);
    assert!(run.code == 1 && run.err.contains("message Bar") && run.err.contains("--yes"), "{}", run.err);
    let run = import(&other, "--stream new --type Bar --yes", &file);
    assert_eq!(run.code, 0, "{}", run.err);
    assert_eq!(other.messages("new"), 2000);

    // What is damaged is named, and what came before it stays.
    let bytes = std::fs::read(&bars).unwrap();
    let cut = place.path("cut.arrows");
    std::fs::write(&cut, &bytes[..bytes.len() - 100]).unwrap();
    let error = import(&other, "--stream cut", &cut).bad(1);
    assert!(error.contains("cut.arrows: the message at byte") && error.contains("truncated"), "{error}");
    std::fs::write(&cut, &bytes[..100]).unwrap();
    let error = import(&other, "--stream cut", &cut).bad(1);
    assert!(error.contains("cut.arrows") && error.contains("truncated"), "{error}");
    let error = import(&other, "--format arrow --stream cut", &place.path("bars.schema")).bad(1);
    assert!(error.contains("not Arrow's IPC format"), "{error}");
}

/// Rows of several files are in time order; a value that does not fit has its file, column and row.
#[test]
#[cfg(feature = "parquet")]
fn arrow_files_are_merged_by_time_and_errors_name_the_row() {
    use std::sync::Arc;
    let place = Place::new();
    let file = |name: &str, times: &[i64], prices: &[Option<i64>]| {
        use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray};
        let path = place.path(name);
        let columns: [(&str, ArrayRef); 3] = [
            ("ts", Arc::new(TimestampNanosecondArray::from(times.to_vec()).with_timezone("UTC"))),
            ("ticker", Arc::new(StringArray::from(vec!["A"; times.len()]))),
            ("price", Arc::new(Int64Array::from(prices.to_vec()))),
        ];
        let batch =
            RecordBatch::try_from_iter_with_nullable(columns.map(|(n, c)| (n, c, n == "price"))).unwrap();
        let out = std::fs::File::create(&path).unwrap();
        let mut writer = arrow_ipc::writer::StreamWriter::try_new(out, &batch.schema()).unwrap();
        (0..batch.num_rows()).for_each(|row| writer.write(&batch.slice(row, 1)).unwrap());
        writer.finish().unwrap();
        path
    };
    let paths = [
        file("late.arrows", &[30, 40, 41], &[Some(3), Some(5), Some(6)]),
        file("early.arrows", &[10, 20, 40], &[Some(1), Some(2), Some(7)]),
    ];
    let import = |options: &str, paths: &[std::path::PathBuf]| {
        let line = format!("import --time ts --symbol ticker {options}");
        Run::of(place.command(&line).args(paths).output().unwrap())
    };
    let run = import("--stream s --type Row --yes", &paths);
    assert_eq!(run.code, 0, "{}", run.err);
    let rows = place.run("read s --output csv").good();
    let prices: Vec<&str> = rows.lines().skip(1).map(|line| line.rsplit(',').next().unwrap()).collect();
    assert_eq!(prices, ["1", "2", "3", "5", "7", "6"], "{rows}");
    std::fs::write(place.path("s.schema"), "message Row { price: i64 }").unwrap();
    place.run(&format!("create strict --schema {}", place.path("s.schema").display())).good();
    let bad = file("bad.arrows", &[1, 2, 3], &[Some(1), Some(2), None]);
    let error = import("--stream strict", &[bad]).bad(1);
    assert!(error.contains("bad.arrows: column \"price\", row 2: "), "{error}");
    assert!(error.contains("2 messages before it are in the stream"), "{error}");
}

/// A copy of a Parquet file without metadata of its own, as others write it.
#[cfg(feature = "parquet")]
fn without_origin(from: &Path, to: &Path) {
    use parquet::arrow::ArrowWriter;
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
    let builder = ParquetRecordBatchReaderBuilder::try_new(std::fs::File::open(from).unwrap()).unwrap();
    let schema = builder.schema().clone();
    let mut writer = ArrowWriter::try_new(std::fs::File::create(to).unwrap(), schema, None).unwrap();
    builder.build().unwrap().for_each(|batch| writer.write(&batch.unwrap()).unwrap());
    writer.close().unwrap();
}

#[test]
fn arrow_and_parquet_go_through_a_server() {
    let place = place();
    let bytes = arrow(&place, "bars");
    let totals = place.totals("bars");
    let schema = place.path("bars.schema");
    let served = tempfile::tempdir().unwrap();
    let (_server, ready) = crate::serving::Served::start(served.path(), &[]);
    let url = format!("tape://{}", ready["tcp"].as_str().unwrap());
    let run = |line: &str, input: &[u8]| {
        let mut command = Run::command(line);
        command.args(["--db", &url]).env("HOME", place.path("home")).stdin(Stdio::piped());
        let mut child = place.start(&mut command);
        let _ = child.stdin.take().unwrap().write_all(input);
        end(child)
    };
    run(&format!("create bars --schema {}", schema.display()), b"").good();
    run("load bars --format arrow", &bytes).good();
    let found = run("read bars --output none --json", b"").json().remove(0);
    assert_eq!((&found["checksum"], &found["messages"]), (&totals["checksum"], &totals["messages"]));
    if cfg!(feature = "parquet") {
        let out = folder(&place, "remote");
        run(&format!("export bars --format parquet --decimals raw --out {out}"), b"").good();
        let ledgers = folder(&place, "ledgers");
        let line = format!("import --format parquet --stream again --ledgers {ledgers} {out}");
        run(&line, b"").good();
        let found = run("read again --output none --json", b"").json().remove(0);
        assert_eq!(found["checksum"], totals["checksum"]);
    }
}
