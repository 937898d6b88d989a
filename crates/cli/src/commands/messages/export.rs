//! `tapedb export`: history as files of another format.

use crate::args::{DatabaseArgs, Selection, TimeRange};
use crate::output::{Damage, arrow};
use clap::ValueEnum;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Instant;
use tapedb_arrow::{BatchReader, Decimals, Error, ReadOptions};
use tapedb_engine::Stream;
use tapedb_parquet::{FileWriter, Origin, WriteOptions, Written};
use tapedb_schema::Timestamp;
use tapedb_terminal::ui::{self, Progress};
use tapedb_terminal::{Failure, Ui, quantity};

/// Write history into files for other programs: one file for each record type.
///
/// parquet: STREAM.TYPE.parquet in the folder of --out, in time order: columns time and symbol, then the fields. Row groups have
/// statistics and a Bloom filter of the symbols, so that readers skip what they do not need. A file has its name only when it is
/// whole and on the disk; until then it is called NAME.part. Export again with --existing skip after an interruption: whole files
/// stay, the others are written.
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

    /// Type of decimal64 fields: float (the nearest), raw (lossless: the 64 bits), or digits and scale of an Arrow decimal, for
    /// example 18,4; a value that is not exact in it is an error.
    #[arg(long, default_value = "float", value_name = "TYPE")]
    decimals: String,

    /// With a column of sequence numbers.
    #[arg(long)]
    sequences: bool,

    /// Most rows of a row group.
    #[arg(long, value_parser = quantity::count, default_value = "1M", value_name = "N")]
    row_group_rows: u64,

    /// Level of zstd, 1 (fast) to 22 (small).
    #[arg(long, value_parser = clap::value_parser!(i32).range(1..=22), default_value_t = 3, value_name = "N")]
    zstd_level: i32,
}

const EXAMPLES: &str = "\
Examples:
  tapedb export --db demo.tape bars --format parquet --out parquet/
  tapedb export --db ticks.tape us --format parquet --out day/ --from 2024-01-02 --to 2024-01-03 --symbols AIG,BAC
  tapedb export --db ticks.tape us --format parquet --out copy/ --decimals raw --sequences --existing skip";

#[derive(ValueEnum, Debug, Clone, Copy)]
enum Format {
    /// Apache Parquet, for example for Polars, pandas, DuckDB, Spark
    Parquet,
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
    record: String,
    path: PathBuf,
    reader: BatchReader,
    origin: Origin,
}

/// The result for one file.
#[derive(Serialize)]
struct Exported {
    file: String,
    stream: String,
    #[serde(rename = "type")]
    record: String,
    /// `None`: the file was there.
    messages: Option<u64>,
    bytes: u64,
    row_groups: Option<usize>,
}

/// Exports.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    let Format::Parquet = args.format;
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
        let records = stream.layouts().records().iter().filter(|record| record.message);
        for record in records.map(|record| record.name.clone()) {
            if !args.selection.types.is_empty() && !args.selection.types.contains(&record) {
                continue;
            }
            let path = args.out.join(file_name(stream.name(), &record));
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

fn job<'a>(
    args: &Args,
    stream: &'a Stream,
    record: String,
    path: PathBuf,
    decimals: Decimals,
) -> Result<Job<'a>, Failure> {
    let mut cursor = args.range.of(stream.cursor());
    if !args.selection.symbols.is_empty() {
        cursor = cursor.symbols(&args.selection.symbols);
    }
    let sequences = args.sequences;
    let options = ReadOptions { decimals, sequences, in_time_order: true, ..ReadOptions::default() };
    let reader = BatchReader::open(std::slice::from_ref(stream), cursor.types([&record]), &record, &options);
    let reader = reader.map_err(|error| Failure::new(error.to_string()))?;
    let origin = Origin {
        stream: stream.name().into(),
        schema: stream.schema().to_string(),
        record: record.clone(),
        decimals: args.decimals.clone(),
        sequences: args.sequences,
    };
    Ok(Job { stream, record, path, reader, origin })
}

/// Names of streams may have slashes.
fn file_name(stream: &str, record: &str) -> String {
    format!("{}.{record}.parquet", stream.replace('/', "."))
}

fn found(stream: &Stream, record: String, path: &Path) -> Exported {
    let bytes = path.metadata().map_or(0, |metadata| metadata.len());
    let (file, stream) = (path.display().to_string(), stream.name().into());
    Exported { file, stream, record, messages: None, bytes, row_groups: None }
}

/// Writes one file.
fn write(
    mut job: Job<'_>,
    options: &WriteOptions,
    damage: &mut Damage,
    ui: &Ui,
) -> Result<Exported, Failure> {
    let failed = |error: tapedb_parquet::Error| Failure::new(error.to_string());
    let schema = arrow_array::RecordBatchReader::schema(&job.reader);
    let mut writer = FileWriter::create(&job.path, &schema, &job.origin, options).map_err(failed)?;
    let mut advance = Advance::of(&job, ui)?;
    loop {
        ui.check_interrupt()?;
        match job.reader.next_batch() {
            Ok(Some(batch)) => {
                writer.write(&batch).map_err(failed)?;
                advance.note(&batch);
            }
            Ok(None) => break,
            Err(Error::Engine(error)) => damage.note(&error, ui)?,
            Err(error) => return Err(Failure::new(format!("{}: {error}", job.path.display()))),
        }
    }
    let Written { rows, row_groups, bytes } = writer.finish().map_err(failed)?;
    let (file, stream) = (job.path.display().to_string(), job.stream.name().into());
    let (messages, row_groups) = (Some(rows), Some(row_groups));
    Ok(Exported { file, stream, record: job.record, messages, bytes, row_groups })
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
        Ok(Self { line: ui.progress(&format!("exporting {}", job.record), total), first, messages: 0 })
    }

    fn note(&mut self, batch: &arrow_array::RecordBatch) {
        use arrow_array::cast::AsArray;
        use arrow_array::types::TimestampNanosecondType;
        self.messages += batch.num_rows() as u64;
        let times = batch.column(0).as_primitive::<TimestampNanosecondType>().values();
        let last = times.last().copied().unwrap_or(self.first.0);
        self.line.update(last.abs_diff(self.first.0), self.messages);
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
