//! `tapedb export`: history as files of another format.

mod columns;
mod part;
mod text;

use crate::args::{DatabaseArgs, Selection, TimeRange};
use crate::output::{self, Damage, Writer, arrow};
use clap::ValueEnum;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Instant;
use tapedb_arrow::{BatchReader, Decimals, ReadOptions};
use tapedb_engine::{Cursor, Stream};
use tapedb_parquet::{Origin, WriteOptions};
use tapedb_schema::Timestamp;
use tapedb_terminal::ui::{self, Progress};
use tapedb_terminal::{Failure, Ui, quantity};

/// Write history into files for other programs, in time order, into the folder of --out.
///
/// parquet: STREAM.TYPE.parquet for each record type: columns time and symbol, then the fields. Row groups have statistics and a
/// Bloom filter of the symbols, so that readers skip what they do not need. arrow: STREAM.TYPE.arrows, an Arrow IPC stream with the same
/// columns. csv: STREAM.TYPE.csv with a header, as `tapedb read` writes it: fields of nested records are columns field.name, each item
/// of the first array is a row. jsonl: STREAM.jsonl, an object a line for the messages of all record types, which `tapedb load` reads.
///
/// A file has its name only when it is whole and on the disk; until then it is called NAME.part. Export again with --existing skip
/// after an interruption: whole files stay, the others are written.
///
/// With --decimals raw --sequences, `tapedb import --format parquet` restores the stream exactly: each value, the schema, and the order
/// of messages with equal times.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    db: DatabaseArgs,

    #[command(flatten)]
    selection: Selection,

    #[command(flatten)]
    range: TimeRange,

    /// Format of the files.
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Format,

    /// Folder for the files, which is created if it does not exist.
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,

    /// What to do when a file exists.
    #[arg(long, value_enum, default_value_t = Existing::Refuse)]
    existing: Existing,

    /// Type of decimal64 fields in parquet and arrow: float (the nearest), raw (lossless: the 64 bits), or digits and scale of an Arrow decimal, for
    /// example 18,4; a value that is not exact in it is an error.
    #[arg(long, default_value = "float", value_name = "TYPE")]
    decimals: String,

    /// With a column of sequence numbers, in parquet and arrow.
    #[arg(long)]
    sequences: bool,

    /// Most rows of a row group of parquet.
    #[arg(long, value_parser = quantity::count, default_value = "1M", value_name = "N")]
    row_group_rows: u64,

    /// Level of zstd of parquet, 1 (fast) to 22 (small).
    #[arg(long, value_parser = clap::value_parser!(i32).range(1..=22), default_value_t = 3, value_name = "N")]
    zstd_level: i32,
}

const EXAMPLES: &str = "\
Examples:
  tapedb export --db demo.tape bars --format parquet --out parquet/
  tapedb export --db ticks.tape us --format parquet --out day/ --from 2024-01-02 --to 2024-01-03 --symbols AIG,BAC
  tapedb export --db ticks.tape us --format parquet --out copy/ --decimals raw --sequences --existing skip
  tapedb export --db demo.tape feed --format jsonl --out text/
  tapedb export --db demo.tape bars --format csv --out text/ --symbols S000000";

#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    /// Apache Parquet, for example for Polars, pandas, DuckDB, Spark
    Parquet,
    /// Arrow IPC streams, for example for Polars, pyarrow
    Arrow,
    /// Comma-separated values with a header
    Csv,
    /// JSON, an object a line
    Jsonl,
}

impl Format {
    fn extension(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Arrow => "arrows",
            Self::Csv => "csv",
            Self::Jsonl => "jsonl",
        }
    }
}

/// What to do when a file exists.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
enum Existing {
    /// Write nothing
    Refuse,
    /// Leave it as it is, and write the others
    Skip,
    /// Replace it, when the new file is whole
    Replace,
}

/// A file to write.
struct Job<'a> {
    stream: &'a Stream,
    /// `None`: all that are selected.
    record: Option<String>,
    path: PathBuf,
    content: Content,
}

/// What becomes a file's content.
enum Content {
    Parquet(BatchReader, Origin),
    Arrow(BatchReader, Origin),
    Text(Cursor, Writer),
}

/// The result for one file.
#[derive(Serialize)]
struct Exported {
    file: String,
    stream: String,
    #[serde(rename = "type")]
    record: Option<String>,
    /// `None`: the file was there.
    messages: Option<u64>,
    bytes: u64,
    row_groups: Option<usize>,
}

/// Exports.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    let decimals = arrow::decimals(&args.decimals).map_err(Failure::usage)?;
    let row_group_rows = usize::try_from(args.row_group_rows).ok().filter(|rows| *rows > 0);
    let row_group_rows = row_group_rows.ok_or_else(|| Failure::usage("--row-group-rows is at least 1"))?;
    let options = WriteOptions { row_group_rows, zstd_level: args.zstd_level };
    let db = args.db.open_to_read()?;
    let streams = args.selection.open(&db, ui)?;
    let cannot =
        |error: std::io::Error| Failure::new(format!("cannot create {}: {error}", args.out.display()));
    std::fs::create_dir_all(&args.out).map_err(cannot)?;
    let started = Instant::now();
    let (mut files, mut damage) = (Vec::new(), Damage::default());
    for job in jobs(&args, &streams, decimals, &mut files)? {
        ui.check_interrupt()?;
        files.push(write(job, &options, &mut damage, ui)?);
    }
    report(&files, started.elapsed().as_secs_f64(), ui)?;
    damage.finish()
}

/// The files to write. All of them are opened first, so that they end at the same message; those that exist are in `files`.
fn jobs<'a>(
    args: &Args,
    streams: &'a [Stream],
    decimals: Decimals,
    files: &mut Vec<Exported>,
) -> Result<Vec<Job<'a>>, Failure> {
    let mut jobs = Vec::new();
    for stream in streams {
        for record in records(args, stream) {
            let path = args.out.join(file_name(args.format, stream.name(), record.as_deref()));
            if path.exists() && args.existing != Existing::Replace {
                if args.existing == Existing::Refuse {
                    let path = path.display();
                    return Err(Failure::new(format!(
                        "{path} exists; name another folder with --out, or add --existing skip or --existing replace"
                    )));
                }
                files.push(found(stream, record, &path));
                continue;
            }
            jobs.push(job(args, stream, record, path, decimals)?);
        }
    }
    if jobs.is_empty() && files.is_empty() {
        return Err(Failure::usage("no stream has a record type of --types; `tapedb desc` shows them"));
    }
    Ok(jobs)
}

/// The record types that have a file each; lines of JSON are one file for all of them.
fn records(args: &Args, stream: &Stream) -> Vec<Option<String>> {
    let types = &args.selection.types;
    let records = stream.layouts().records().iter().filter(|record| record.message);
    let wanted = records.filter(|record| types.is_empty() || types.contains(&record.name));
    let mut names: Vec<_> = wanted.map(|record| Some(record.name.clone())).collect();
    if args.format == Format::Jsonl && !names.is_empty() {
        names = vec![None];
    }
    names
}

fn job<'a>(
    args: &Args,
    stream: &'a Stream,
    record: Option<String>,
    path: PathBuf,
    decimals: Decimals,
) -> Result<Job<'a>, Failure> {
    let mut cursor = args.range.of(stream.cursor());
    if !args.selection.symbols.is_empty() {
        cursor = cursor.symbols(&args.selection.symbols);
    }
    let streams = std::slice::from_ref(stream);
    let types = record.as_ref().map_or(&args.selection.types[..], std::slice::from_ref);
    if !types.is_empty() {
        // Of several streams, each has only some of them.
        let known = |name: &&String| stream.layouts().records().iter().any(|record| record.name == **name);
        cursor = cursor.types(types.iter().filter(known));
    }
    let content = match (args.format, &record) {
        (Format::Csv, _) => Content::Text(cursor.open()?, Writer::new(output::Format::Csv, streams, types)?),
        (Format::Parquet | Format::Arrow, Some(record)) => {
            let sequences = args.sequences;
            let options = ReadOptions { decimals, sequences, in_time_order: true, ..ReadOptions::default() };
            let reader = BatchReader::open(streams, cursor, record, &options);
            let reader = reader.map_err(|error| Failure::new(error.to_string()))?;
            let origin = Origin {
                stream: stream.name().into(),
                schema: stream.schema().to_string(),
                record: record.clone(),
                decimals: args.decimals.clone(),
                sequences,
            };
            if args.format == Format::Arrow {
                Content::Arrow(reader, origin)
            } else {
                Content::Parquet(reader, origin)
            }
        }
        _ => Content::Text(cursor.open()?, Writer::new(output::Format::Json, streams, types)?),
    };
    Ok(Job { stream, record, path, content })
}

/// Names of streams may have slashes.
fn file_name(format: Format, stream: &str, record: Option<&str>) -> String {
    let record = record.map_or(String::new(), |record| format!(".{record}"));
    format!("{}{record}.{}", stream.replace('/', "."), format.extension())
}

fn found(stream: &Stream, record: Option<String>, path: &Path) -> Exported {
    let bytes = path.metadata().map_or(0, |metadata| metadata.len());
    let (file, stream) = (path.display().to_string(), stream.name().into());
    Exported { file, stream, record, messages: None, bytes, row_groups: None }
}

/// Writes one file.
fn write(job: Job<'_>, options: &WriteOptions, damage: &mut Damage, ui: &Ui) -> Result<Exported, Failure> {
    let advance = Advance::of(&job, ui)?;
    let (file, stream) = (job.path.display().to_string(), job.stream.name().into());
    let (messages, bytes, row_groups) = match job.content {
        Content::Parquet(reader, origin) => {
            let written = columns::parquet((reader, &origin), &job.path, options, advance, damage, ui)?;
            (written.rows, written.bytes, Some(written.row_groups))
        }
        Content::Arrow(reader, origin) => {
            let (messages, bytes) = columns::arrow((reader, &origin), &job.path, advance, damage, ui)?;
            (messages, bytes, None)
        }
        Content::Text(cursor, writer) => {
            let (messages, bytes) = text::write((cursor, writer), &job.path, advance, damage, ui)?;
            (messages, bytes, None)
        }
    };
    Ok(Exported { file, stream, record: job.record, messages: Some(messages), bytes, row_groups })
}

/// The progress line: how far the time has advanced.
struct Advance {
    line: Progress,
    first: Timestamp,
    messages: u64,
}

impl Advance {
    fn of(job: &Job<'_>, ui: &Ui) -> Result<Self, Failure> {
        let (first, last) = job.stream.stats()?.times.unwrap_or((Timestamp(0), Timestamp(0)));
        let total = last.0.abs_diff(first.0);
        let name = job.record.as_deref().unwrap_or(job.stream.name());
        Ok(Self { line: ui.progress(&format!("exporting {name}"), total), first, messages: 0 })
    }

    /// More messages are written, up to one of this time.
    fn note(&mut self, messages: u64, last: Timestamp) {
        self.messages += messages;
        self.line.update(last.0.abs_diff(self.first.0), self.messages);
    }
}

fn report(files: &[Exported], seconds: f64, ui: &Ui) -> Result<(), Failure> {
    if ui.json() {
        return files.iter().try_for_each(|file| ui.print_json(file));
    }
    let row = |file: &Exported| {
        let messages = file.messages.map_or("was there".into(), ui::thousands);
        vec![file.file.clone(), messages, ui::thousands(file.bytes)]
    };
    let rows: Vec<Vec<String>> = files.iter().map(row).collect();
    ui.print(&ui::table(&["file", "messages", "bytes"], &[1, 2], &rows))?;
    let messages = files.iter().filter_map(|file| file.messages).sum();
    let count = files.iter().filter(|file| file.messages.is_some()).count();
    let rate = ui::rate(messages, seconds);
    ui.print(&format!("{} messages in {count} files in {seconds:.2} s, {rate}\n", ui::thousands(messages)))
}
