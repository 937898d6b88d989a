//! `tapedb publish`: streams as tables of other engines.

use crate::args::DatabaseArgs;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};
use tapedb_arrow::Decimals;
use tapedb_engine::{Database, Stream, interruptible};
use tapedb_publish::{CatalogSettings, Error, Options, Progress, Published, Publisher, TableName, Target};
use tapedb_terminal::{Failure, Ui, location, quantity, signals, ui};

/// Publish sealed messages as tables of Iceberg or Delta Lake, which Spark, Trino, DuckDB, Polars, pyiceberg and delta-rs read: a table for
/// each record type.
///
/// Each commit adds a range of messages and states up to which sequence numbers all are in, in one step: so every version of a table has
/// each message at most once, whatever is killed when, and publishing goes on where it ended. What is published is what is sealed; a
/// server seals as log files become full, and `tapedb seal` does it at once.
///
/// The catalogue of --iceberg CATALOG.TABLE is set with --catalog, or in the environment as `TAPEDB_CATALOG_<CATALOG>`: folder:/data/lake
/// (a folder or s3://bucket/prefix: Hadoop's), sql:/data/catalog.db,warehouse=/data/lake (SQLite), rest:https://host:8181,warehouse=NAME.
/// A token for REST comes from `TAPEDB_CATALOG_<CATALOG>_TOKEN`, or client id and secret, as ID:SECRET, from
/// `TAPEDB_CATALOG_<CATALOG>_CREDENTIAL`. A table of Delta Lake has no catalogue: --delta names its folder, or s3://bucket/prefix.
///
/// A deletion, a rewrite, a lost part or a renamed symbol marks a table as stale, and publishing goes on; --repair writes what is stale again,
/// in one commit.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    db: DatabaseArgs,

    /// The stream.
    #[arg(value_name = "STREAM")]
    stream: String,

    /// A table of Iceberg: CATALOG.TABLE or CATALOG.NAMESPACE.TABLE. Where a stream has several record types, each has a table TABLE_TYPE.
    #[arg(long, value_name = "CATALOG.TABLE", required_unless_present = "delta")]
    iceberg: Option<String>,

    /// Where the catalogue is: folder:PLACE, sql:FILE,warehouse=PLACE or rest:URL,warehouse=NAME.
    #[arg(long, value_name = "KIND:PLACE", conflicts_with = "delta")]
    catalog: Option<String>,

    /// A table of Delta Lake: its folder, or s3://bucket/prefix. Where a stream has several record types, each has a table PLACE_TYPE.
    #[arg(long, value_name = "PLACE", conflicts_with = "iceberg")]
    delta: Option<String>,

    /// Only these record types.
    #[arg(long = "type", value_name = "TYPE", value_delimiter = ',')]
    types: Vec<String>,

    /// Digits and scale of decimals, as 18,4 for all or price=18,4 for a field; a value that does not fit is an error. Without it, decimals
    /// without a scale of their own are doubles.
    #[arg(long, value_name = "[FIELD=]DIGITS,SCALE")]
    scale: Vec<String>,

    /// A row for each entry of this array, instead of one for each message with a list.
    #[arg(long, value_name = "FIELD")]
    flatten: Option<String>,

    /// Partitions within a day: so many buckets of symbols. Only for Iceberg.
    #[arg(long, value_name = "N", default_value_t = 0)]
    symbol_buckets: u32,

    /// Size at which a file ends, if so much waits: 128 to 512 MB suit most engines.
    #[arg(long, value_parser = quantity::size, value_name = "SIZE", default_value = "128MB")]
    file_size: u64,

    /// Most rows of a row group: what a query of one symbol reads at least.
    #[arg(long, value_parser = quantity::count, value_name = "N", default_value = "131072")]
    row_group_rows: u64,

    /// Rows that are sorted together in memory: files are at most as large as they become.
    #[arg(long, value_parser = quantity::size, value_name = "SIZE", default_value = "1GiB")]
    memory: u64,

    /// Level of zstd, 1 (fast) to 22 (small).
    #[arg(long, value_parser = clap::value_parser!(i32).range(1..=22), default_value_t = 3, value_name = "N")]
    zstd_level: i32,

    /// Go on with what is sealed later, until Ctrl-C. A catalogue that is away is tried again.
    #[arg(long, conflicts_with_all = ["dry_run", "status", "repair"])]
    follow: bool,

    /// Time between two looks for sealed messages, with --follow: each makes a version of the table if there are some.
    #[arg(long, value_parser = quantity::duration, value_name = "TIME", default_value = "1m", requires = "follow")]
    every: Duration,

    /// Seal what is in the log first. This process has to be the writer, or a server.
    #[arg(long)]
    seal: bool,

    /// Show tables, columns and what would be published; change nothing.
    #[arg(long, conflicts_with_all = ["status", "repair"])]
    dry_run: bool,

    /// Show how far the tables are and what is stale; change nothing.
    #[arg(long, conflicts_with = "repair")]
    status: bool,

    /// Write again what is stale.
    #[arg(long)]
    repair: bool,

    /// With --repair: write everything again.
    #[arg(long, requires = "repair")]
    all: bool,
}

const EXAMPLES: &str = "\
Examples:
  tapedb publish --db market.tape bars --iceberg lake.bars --catalog folder:/data/lake
  tapedb publish --db market.tape quotes --iceberg lake.market.quotes --scale 18,4 --follow
  tapedb publish --db market.tape bars --delta s3://bucket/lake/bars
  tapedb publish --db market.tape feed --iceberg lake.entries --type Package --flatten entries
  tapedb publish --db market.tape bars --iceberg lake.bars --status
  tapedb publish --db market.tape bars --iceberg lake.bars --repair";

/// Publishes.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    ui.signals().give_time_to_finish()?;
    let target = target(&args)?;
    let options = options(&args)?;
    #[cfg(feature = "tier")]
    tapedb_publish::register_stores(tapedb_tier::open);
    if location::url_of(&args.db.db).is_some() {
        return Err(Failure::usage(
            "what is published is read from files: name the directory of the database, on the machine of its server (any number of processes may read it)",
        ));
    }
    let db = if args.seal { args.db.open_to_write()? } else { args.db.open_to_read()? };
    let stream = db.stream(&args.stream)?;
    if args.seal {
        stream.seal()?;
    }
    let mut publishers = publishers(&args, &db, &stream, &target, &options).map_err(usage)?;
    let ask = || signals::interrupted().load(Ordering::Relaxed);
    for publisher in &mut publishers {
        match (args.dry_run, args.status, args.repair) {
            (true, ..) => interruptible(ask, || plan(publisher, ui)),
            (_, true, _) => interruptible(ask, || status(publisher, ui)),
            (_, _, true) => interruptible(ask, || repair(publisher, args.all, ui)),
            _ if args.follow => break,
            _ => interruptible(ask, || once(publisher, ui)).map(drop),
        }
        .map_err(|error| failure(error, ui))?;
    }
    if args.follow {
        follow(&args, &db, stream, (&target, &options), publishers, ui)?;
    }
    ui.check_interrupt()
}

/// The table, and where it is.
fn target(args: &Args) -> Result<Target, Failure> {
    if let Some(place) = &args.delta {
        return Target::delta(place).map_err(usage);
    }
    let name: TableName = args.iceberg.as_deref().unwrap_or_default().parse().map_err(usage)?;
    let catalog = settings(args, &name)?;
    Ok(Target::Iceberg { name, catalog })
}

/// Where the catalogue is, from the command line or the environment.
fn settings(args: &Args, name: &TableName) -> Result<CatalogSettings, Failure> {
    let variable = format!("TAPEDB_CATALOG_{}", name.catalog.to_uppercase().replace('-', "_"));
    let text = args.catalog.clone().or_else(|| std::env::var(&variable).ok());
    let text = text.ok_or_else(|| {
        Failure::usage(format!(
            "nothing states where the catalogue {:?} is; add --catalog, such as --catalog folder:/data/lake, or set {variable}",
            name.catalog
        ))
    })?;
    let mut settings: CatalogSettings = text.parse().map_err(usage)?;
    for key in ["token", "credential"] {
        if let Ok(value) = std::env::var(format!("{variable}_{}", key.to_uppercase())) {
            settings.set_default(key, value);
        }
    }
    Ok(settings)
}

fn options(args: &Args) -> Result<Options, Failure> {
    let mut scales = BTreeMap::new();
    for text in &args.scale {
        let (field, scale) = text.split_once('=').unwrap_or(("", text));
        let scale: Decimals =
            scale.parse().map_err(|error| Failure::usage(format!("--scale {text}: {error}")))?;
        scales.insert(field.to_string(), scale);
    }
    let number = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
    Ok(Options {
        scales,
        flatten: args.flatten.clone(),
        symbol_buckets: args.symbol_buckets,
        file_bytes: args.file_size,
        row_group_rows: number(args.row_group_rows),
        memory_bytes: number(args.memory),
        zstd_level: args.zstd_level,
    })
}

/// A publisher for each record type that is wanted.
fn publishers(
    args: &Args,
    db: &Database,
    stream: &Stream,
    target: &Target,
    options: &Options,
) -> Result<Vec<Publisher>, Error> {
    let records = stream.schema().records.iter().filter(|record| record.message);
    let all: Vec<&str> = records.map(|record| record.name.as_str()).collect();
    if let Some(unknown) = args.types.iter().find(|name| !all.contains(&name.as_str())) {
        return Err(Error::Settings(format!(
            "stream {:?} has no record type {unknown:?}; it has {}",
            stream.name(),
            all.join(", ")
        )));
    }
    let wanted =
        all.iter().filter(|name| args.types.is_empty() || args.types.iter().any(|wanted| wanted == *name));
    let wanted: Vec<&str> = wanted.copied().collect();
    let mut publishers = Vec::new();
    for record in wanted {
        let open = |target: &Target| Publisher::open(db, stream, record, target, options);
        // A table of one record type keeps its name when the stream gets more of them.
        let plain = open(target)?;
        let is_only = all.len() == 1 || args.types.len() == 1;
        // Where that is not known, there is an error: a second table of the same messages would be made.
        let is_plain = is_only || plain.has_table()?;
        publishers.push(match is_plain {
            true => plain,
            false => open(&target.of_record(record))?,
        });
    }
    if publishers.is_empty() {
        return Err(Error::Settings(format!("stream {:?} has no record type of messages", stream.name())));
    }
    Ok(publishers)
}

/// Publishes all that is sealed.
fn once(publisher: &mut Publisher, ui: &Ui) -> Result<u64, Error> {
    let (mut messages, mut commits, started) = (0, 0u64, Instant::now());
    while let Some(published) = publisher.step()? {
        commits += 1;
        messages += published.messages;
        show(publisher, &published, ui);
    }
    for note in publisher.notes() {
        ui.warn(&note);
    }
    let progress = publisher.progress()?;
    warn_stale(publisher, progress.as_ref(), ui);
    if !ui.json() {
        let seconds = started.elapsed().as_secs_f64();
        let text = match progress {
            None => format!(
                "{}: nothing is sealed yet; `tapedb seal` seals what is in the log\n",
                publisher.name()
            ),
            Some(progress) => format!(
                "{}: {} messages in {commits} commits{}; {} are in the table, up to sequence number {}\n",
                publisher.name(),
                ui::thousands(messages),
                if messages > 0 { format!(", {}", ui::rate(messages, seconds)) } else { String::new() },
                ui::thousands(progress.messages),
                sequences(&progress)
            ),
        };
        let _ = ui.print(&text);
    }
    Ok(messages)
}

fn warn_stale(publisher: &Publisher, progress: Option<&Progress>, ui: &Ui) {
    if let Some(stale) = progress.and_then(|progress| progress.stale.as_ref()) {
        ui.warn(&format!(
            "{}: {stale}, so rows of the table are not those of the stream; `tapedb publish --repair` writes them again",
            publisher.name()
        ));
    }
}

fn sequences(progress: &Progress) -> String {
    let numbers: Vec<String> = progress.sequences.iter().map(u64::to_string).collect();
    numbers.join(", ")
}

fn show(publisher: &Publisher, published: &Published, ui: &Ui) {
    let Published { messages, rows, files, bytes, sequences, waiting, time } = *published;
    let seconds = time.as_secs_f64();
    if ui.json() {
        let object = json!({
            "table": publisher.name().to_string(), "messages": messages, "rows": rows, "files": files, "bytes": bytes,
            "sequences": sequences, "waiting": waiting, "seconds": seconds,
        });
        drop(ui.print_json(&object));
    } else if files > 0 {
        ui.note(&format!(
            "{}: {} messages in {files} files ({}, {:.1} bytes a row), {}; {} wait",
            publisher.name(),
            ui::thousands(messages),
            ui::bytes(bytes),
            bytes as f64 / rows.max(1) as f64,
            ui::rate(messages, seconds),
            ui::thousands(waiting)
        ));
    }
}

/// Shows what would be done.
fn plan(publisher: &mut Publisher, ui: &Ui) -> Result<(), Error> {
    let progress = publisher.progress()?;
    let waiting = publisher.waiting(progress.as_ref())?;
    let columns = publisher.described_columns();
    if ui.json() {
        let columns: Vec<_> = columns.iter().map(|(name, ty)| json!({ "name": name, "type": ty })).collect();
        let object = json!({
            "table": publisher.name().to_string(), "exists": progress.is_some(), "waiting": waiting, "columns": columns,
        });
        drop(ui.print_json(&object));
        return Ok(());
    }
    let rows: Vec<Vec<String>> = columns.into_iter().map(|(name, ty)| vec![name, ty]).collect();
    let state = match &progress {
        None => "would be made".to_string(),
        Some(progress) => format!("has {} messages", ui::thousands(progress.messages)),
    };
    let text = format!(
        "{} in {} {state}; {} sealed messages of all types would be read\n{}",
        publisher.name(),
        publisher.place(),
        ui::thousands(waiting),
        ui::table(&["column", "type"], &[], &rows)
    );
    let _ = ui.print(&text);
    Ok(())
}

/// Shows how far a table is.
fn status(publisher: &mut Publisher, ui: &Ui) -> Result<(), Error> {
    let progress = publisher.progress()?;
    let waiting = publisher.waiting(progress.as_ref())?;
    let stale = publisher.compare()?.unwrap_or_default();
    let Some(progress) = progress else {
        let text = format!(
            "{}: there is no such table yet; {} sealed messages wait\n",
            publisher.name(),
            ui::thousands(waiting)
        );
        let _ = match ui.json() {
            true => ui.print_json(
                &json!({ "table": publisher.name().to_string(), "exists": false, "waiting": waiting }),
            ),
            false => ui.print(&text),
        };
        return Ok(());
    };
    if ui.json() {
        let days = stale
            .days
            .iter()
            .map(|day| json!({ "day": day.date(), "in_table": day.in_table, "in_stream": day.in_stream }));
        let days = days.collect::<Vec<_>>();
        let object = json!({
            "table": publisher.name().to_string(), "exists": true, "messages": progress.messages, "rows": progress.rows,
            "sequences": progress.sequences, "lost": progress.lost, "waiting": waiting, "stale": !stale.is_none(),
            "reasons": stale.whole, "days": days,
        });
        drop(ui.print_json(&object));
        return Ok(());
    }
    let mut text = format!(
        "{}: {} messages, {} rows, up to sequence number {}; {} sealed messages of all types wait\n",
        publisher.name(),
        ui::thousands(progress.messages),
        ui::thousands(progress.rows),
        sequences(&progress),
        ui::thousands(waiting)
    );
    for why in &stale.whole {
        text.push_str(&format!("  stale: {why}\n"));
    }
    for day in &stale.days {
        text.push_str(&format!(
            "  stale: {} has {} rows, and the stream {} messages\n",
            day.date(),
            ui::thousands(day.in_table),
            ui::thousands(day.in_stream)
        ));
    }
    let _ = ui.print(&text);
    Ok(())
}

fn repair(publisher: &mut Publisher, all: bool, ui: &Ui) -> Result<(), Error> {
    let repaired = publisher.repair(all)?;
    if ui.json() {
        let object = json!({
            "table": publisher.name().to_string(), "reasons": repaired.reasons, "days": repaired.days,
            "removed": repaired.removed, "rows": repaired.rows, "files": repaired.files,
        });
        drop(ui.print_json(&object));
        return Ok(());
    }
    let text = match (&repaired.reasons[..], repaired.days) {
        ([], _) => format!("{}: nothing is stale\n", publisher.name()),
        (reasons, days) => format!(
            "{}: {}; wrote {} rows again in place of {}{}\n",
            publisher.name(),
            reasons.join("; "),
            ui::thousands(repaired.rows),
            ui::thousands(repaired.removed),
            days.map_or(String::new(), |days| format!(", of {days} days"))
        ),
    };
    let _ = ui.print(&text);
    Ok(())
}

/// Publishes until a signal arrives.
fn follow(
    args: &Args,
    db: &Database,
    mut stream: Stream,
    (target, options): (&Target, &Options),
    mut publishers: Vec<Publisher>,
    ui: &Ui,
) -> Result<(), Failure> {
    let ask = || signals::interrupted().load(Ordering::Relaxed);
    // What has failed, by table.
    let mut failed: BTreeMap<String, String> = BTreeMap::new();
    while !ui.is_interrupted() {
        // Another schema is another handle.
        let newest = db.stream(&args.stream)?;
        if newest.schema() != stream.schema() {
            match self::publishers(args, db, &newest, target, options) {
                Ok(newer) => (stream, publishers) = (newest, newer),
                // Those that are there state so, and it is tried again.
                Err(error) if error.is_temporary() => {}
                Err(error) => return Err(usage(error)),
            }
        }
        for publisher in &mut publishers {
            let stepped = interruptible(ask, || {
                while let Some(published) = publisher.step()? {
                    show(publisher, &published, ui);
                }
                Ok::<_, Error>(())
            });
            for note in publisher.notes() {
                ui.warn(&note);
            }
            let name = publisher.name().to_string();
            match stepped {
                Ok(()) if failed.remove(&name).is_some() => ui.warn(&format!("{name} is published again")),
                Ok(()) => {}
                Err(Error::Interrupted) => break,
                Err(error) if error.is_temporary() && !ui.is_interrupted() => {
                    // Once for each failure, not every minute.
                    let text = error.to_string();
                    if failed.get(&name) != Some(&text) {
                        ui.warn(&format!("{text}; trying again"));
                    }
                    failed.insert(name, text);
                }
                Err(error) => return Err(failure(error, ui)),
            }
        }
        let next = Instant::now()
            + if !failed.is_empty() { args.every.min(Duration::from_secs(10)) } else { args.every };
        while !ui.is_interrupted() && Instant::now() < next {
            thread::sleep(Duration::from_millis(50).min(next.saturating_duration_since(Instant::now())));
        }
    }
    Ok(())
}

fn usage(error: Error) -> Failure {
    match error {
        Error::Settings(what) => Failure::usage(what),
        error => Failure::new(error.to_string()),
    }
}

fn failure(error: Error, ui: &Ui) -> Failure {
    match ui.check_interrupt() {
        Err(interrupted) => interrupted,
        Ok(()) => usage(error),
    }
}
