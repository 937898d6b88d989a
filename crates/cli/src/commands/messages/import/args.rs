//! The arguments of `tapedb import`.

use crate::args::DatabaseArgs;
use crate::creation::CreateArgs;
use clap::ValueEnum;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use tapedb_schema::TimeUnit;
use tapedb_terminal::quantity;
use tapedb_venue::{Format, FxProvider, UnknownFormat};

/// Import files of venues and vendors, merged by time.
///
/// Reads files, and folders recursively, and writes one message for each row. The stream is created if it does not exist. What becomes
/// of which format is in docs/IMPORT.md. A file is open only while its day is read, so memory does not grow with the number of days; files without
/// a day in their name, such as HistData's, are all open at once.
///
/// The stream records which files it has, by their content. A file that it has is refused unless --again is given. An import that
/// was interrupted, by Ctrl-C, a bad line or a crash, continues where it stopped when the same files are imported again, in any
/// order: no message is lost or duplicated.
///
#[cfg_attr(
    feature = "parquet",
    doc = "parquet, arrow: files of `tapedb export`, with their schema, or files of others with a column of times and one of symbols. Their",
    doc = "schema is inferred and shown before anything is written, if the stream does not exist; to change it, create the stream",
    doc = "first.",
    doc = ""
)]
/// csv: tables with a header, or with --columns, plain, .gz or .zip. Columns become the fields of their names, or those of --map. If the stream
/// does not exist, a schema is inferred from the first 100,000 rows and shown before anything is written; --dry-run shows it alone. Values
/// are converted exactly or refused, with file and line.
///
/// For a stream of a server this holds for one user's imports on one machine: the record is in a folder of this machine
/// (--ledgers), not beside the stream.
#[derive(clap::Args, Debug)]
#[command(after_long_help = [EXAMPLES, PARQUET_EXAMPLES].concat())]
pub struct Args {
    #[command(flatten)]
    pub db: DatabaseArgs,

    #[command(flatten)]
    pub creation: CreateArgs,

    /// The stream to write to. For kdb+ files: the stream of their only table, or the prefix of the streams' names, as in
    /// STREAM/quote [default: the table's name].
    #[cfg_attr(
        feature = "parquet",
        doc = "For parquet and arrow files of `tapedb export` [default: the stream they are of]."
    )]
    #[arg(long)]
    pub stream: Option<String>,

    /// Format of the files: us-equity-ticks (zipped CSV), fx-ticks (zipped or gzipped CSV), binance-raw-ws (gzip), dbn (Databento),
    /// lobster, futures-ticks (zipped CSV), itch (NASDAQ), iex and mdp3 (CME; captures), tardis (CSV), bybit-ob (JSON lines),
    /// coinbase-snapshot (JSON), capture (frames of crypto venues), kdb-log (logs of a tickerplant), kdb-splayed (folders of splayed
    /// tables), kdb-hdb (databases partitioned by date), csv (any tables with a header).
    #[cfg_attr(
        feature = "parquet",
        doc = "Or parquet (files of Apache Parquet), arrow (Arrow IPC streams and files)."
    )]
    ///
    /// Without it, the format is found out by names and first bytes; files of kdb+ need it.
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<AnyFormat>,

    /// Files, or folders with files of the format.
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,

    /// What to do with files that the stream already has.
    #[arg(long, value_enum, default_value_t = Again::Refuse)]
    pub again: Again,

    /// What to do with a line that cannot be read, or whose row no stream can hold. Damaged and truncated files always stop the
    /// import.
    #[arg(long, value_enum, default_value_t = BadLine::Stop)]
    pub on_bad_line: BadLine,

    /// Bad lines of one file that --on-bad-line skip skips before the import stops.
    #[arg(long, value_parser = quantity::count, default_value = "1000", value_name = "N")]
    pub bad_lines_max: u64,

    /// Provider of the FX quotes: fxcm, oanda or histdata [default: from the folders' names].
    #[arg(long, value_name = "NAME")]
    pub fx_provider: Option<FxProvider>,

    /// Zone of the times in FX files: local time minus UTC in seconds [default: the provider's].
    #[arg(long, value_name = "SECONDS", allow_hyphen_values = true)]
    pub fx_utc_offset_seconds: Option<i32>,

    /// Symbol of the FX quotes [default: from the file's name].
    #[arg(long, value_name = "SYMBOL")]
    pub fx_symbol: Option<String>,

    /// Round numbers of more than 16 digits to the nearest of 16, and count them; without it they are bad lines. In captures and
    /// files of crypto venues.
    #[arg(long)]
    pub round_numbers: bool,

    /// Unit of the receive times in captures (binance-raw-ws, capture), and of times of csv files that are numbers: s, ms, us or ns
    /// since 1970, or since midnight with --date-column [default: the unit in which the first time of a file is not before 1973].
    #[arg(long, value_name = "UNIT")]
    pub time_unit: Option<TimeUnit>,

    /// Only these tables of kdb+ files, for example trade,quote [default: all].
    #[arg(long, value_delimiter = ',', value_name = "A,B")]
    pub tables: Vec<String>,

    /// Date of the times of day in kdb+ files [default: from the partition's folder, or from the end of the log's name].
    #[arg(long, value_name = "DATE")]
    pub date: Option<String>,

    /// Folder for the records of imports into streams of servers [default: ~/.tapedb_imports].
    #[arg(long, value_name = "DIR")]
    pub ledgers: Option<PathBuf>,

    /// Names and types of the columns of a kdb+ log, which may lack them: a sym.q, or a schema.
    #[arg(long, value_name = "FILE")]
    pub schema: Option<PathBuf>,

    #[command(flatten)]
    pub parquet: ParquetArgs,

    #[command(flatten)]
    pub table: TableArgs,
}

/// What the columns of CSV files are.
#[derive(clap::Args, Debug)]
pub struct TableArgs {
    /// A column of csv files whose field has another name, for example "Last Price=price"; with nothing behind the = the column is
    /// left out. May be given several times [default: names in lower case with underscores].
    #[arg(long, value_name = "COLUMN=FIELD")]
    pub map: Vec<String>,

    /// The column of csv files that is the date, where --time is a time of day.
    #[arg(long, value_name = "COL")]
    pub date_column: Option<String>,

    /// Zone of the times in csv files that have none, by its IANA name, for example America/New_York or UTC. Without this they are
    /// refused.
    #[arg(long, value_name = "ZONE")]
    pub zone: Option<String>,

    /// The symbol of all rows of csv files that have no column of symbols.
    #[arg(long, value_name = "SYMBOL", conflicts_with = "symbol")]
    pub symbol_is: Option<String>,

    /// Names of the columns of csv files without a header.
    #[arg(long, value_delimiter = ',', value_name = "A,B")]
    pub columns: Vec<String>,

    /// What separates the cells of csv files: one character, or tab.
    #[arg(long, value_name = "CHAR", default_value = ",")]
    pub delimiter: String,

    /// With csv: show the schema that a new stream would have, or prove that the files fit the stream, and write nothing.
    #[arg(long)]
    pub dry_run: bool,
}

/// What the columns of Parquet, Arrow and CSV files are.
#[derive(clap::Args, Debug)]
pub struct ParquetArgs {
    /// The column of parquet, arrow and csv files that is the time.
    #[arg(long, value_name = "COL", default_value = "time")]
    pub time: String,

    /// The column of parquet, arrow and csv files that is the symbol.
    #[arg(long, value_name = "COL", default_value = "symbol")]
    pub symbol: String,

    /// The record type of the rows of parquet, arrow and csv files [default: that of the export, or the stream's only one; for a new stream of csv
    /// Row].
    #[arg(long = "type", value_name = "NAME")]
    pub record: Option<String>,

    /// Times of parquet, arrow and csv files without a time zone are UTC. Without this they are refused.
    #[arg(long)]
    pub naive_utc: bool,

    /// Create a stream with the schema inferred from parquet, arrow or csv files without asking.
    #[arg(long)]
    pub yes: bool,
}

const EXAMPLES: &str = "\
Examples:
  tapedb import --db ticks.tape --create --stream us --format us-equity-ticks us-equity-ticks/
  tapedb import --db ticks.tape --stream eurusd --format fx-ticks fxcm-eurusd/*.zip --again skip
  tapedb import --db tape://loader@ticks:7847 --stream us --format us-equity-ticks us-equity-ticks/
  tapedb import --db ticks.tape --stream tp --format kdb-log --schema sym.q tplog/sym2022.06.16
  tapedb import --db ticks.tape --format kdb-hdb --tables trade,quote hdb/
  tapedb import --db ticks.tape --create --stream fx --format csv --time ts --symbol pair --type Quote --zone UTC quotes.csv.gz
  tapedb import --db ticks.tape --stream es --format csv --symbol-is ES --map \"Last Price=price\" --dry-run es.csv";
const PARQUET_EXAMPLES: &str = if cfg!(feature = "parquet") {
    "
  tapedb import --db copy.tape --create --format parquet parquet/
  tapedb import --db copy.tape --create bars.arrows
  tapedb import --db ticks.tape --stream fx --format parquet --time ts --symbol pair --type Quote --naive-utc fx.parquet"
} else {
    ""
};

/// Format of the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnyFormat {
    /// Files of venues and vendors: packages.
    Market(Format),
    /// Files of kdb+: tables.
    Kdb(tapedb_tick::kdb::import::Format),
    /// Parquet files: record batches.
    Parquet,
    /// Arrow IPC streams and files: record batches.
    Arrow,
    /// CSV of any origin: rows of one record type.
    Table,
}

#[cfg(feature = "web")]
impl AnyFormat {
    /// Whether one file is all that an import of the format reads.
    pub fn is_file(self) -> bool {
        !matches!(self, Self::Kdb(_))
    }
}

/// How names of Parquet files end.
pub const PARQUET_ENDS: &[&str] = &["parquet"];
/// How names of Arrow files end.
pub const ARROW_ENDS: &[&str] = &["arrow", "arrows"];

/// Whether a file's name ends so.
pub fn ends_with(path: &Path, ends: &[&str]) -> bool {
    path.extension().and_then(|extension| extension.to_str()).is_some_and(|found| ends.contains(&found))
}

impl FromStr for AnyFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let kdb = tapedb_tick::kdb::import::Format::ALL;
        if let Some(format) = kdb.into_iter().find(|format| format.name() == text) {
            return Ok(Self::Kdb(format));
        }
        if text == "parquet" {
            return Ok(Self::Parquet);
        }
        if text == "csv" {
            return Ok(Self::Table);
        }
        if text == "arrow" {
            return Ok(Self::Arrow);
        }
        let names = || kdb.map(|format| format.name()).join(", ");
        let parquet = if cfg!(feature = "parquet") { ", csv, parquet, arrow" } else { ", csv" };
        text.parse()
            .map(Self::Market)
            .map_err(|error: UnknownFormat| format!("{error}, {}{parquet}", names()))
    }
}

/// What to do with files that the stream already has.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// Import nothing
    Refuse,
    /// Skip them
    Skip,
    /// Import them once more; also abandons an interrupted import
    Import,
}

/// What to do with a line that cannot be read.
#[derive(ValueEnum, Debug, Clone, Copy)]
pub enum BadLine {
    /// Stop; messages before it stay
    Stop,
    /// Skip it and count it
    Skip,
}
