//! `tapedb streams`: list the streams of a database.

use crate::args::{DatabaseArgs, open_stream};
use serde::Serialize;
use tapedb_engine::{Database, Durability, Late, Stream};
use tapedb_terminal::{Failure, Ui, ui};

/// List the streams of a database.
///
/// For each: its messages, symbols, bytes on disk, bytes per message, the times of the earliest and the latest
/// message (UTC), and its durability. Works while another process writes. A stream that cannot be opened is left out
/// with a warning; the exit code is then 1.
///
/// Example: tapedb streams --db demo.tape
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    db: DatabaseArgs,
}

/// A stream in JSON output.
#[derive(Serialize, Debug)]
pub struct Summary {
    name: String,
    messages: u64,
    symbols: u32,
    bytes: u64,
    bytes_per_message: Option<f64>,
    from: Option<String>,
    to: Option<String>,
    durability: &'static str,
    late: &'static str,
    next_sequence: u64,
    created: String,
}

impl Summary {
    /// The summary of a stream.
    pub fn of(stream: &Stream) -> Result<Self, Failure> {
        let stats = stream.stats()?;
        let per_message = stats.bytes as f64 / stats.messages as f64;
        Ok(Self {
            name: stream.name().into(),
            messages: stats.messages,
            symbols: stats.symbols,
            bytes: stats.bytes,
            bytes_per_message: (stats.messages > 0).then(|| (per_message * 100.0).round() / 100.0),
            from: stats.times.map(|(from, _)| from.to_string()),
            to: stats.times.map(|(_, to)| to.to_string()),
            durability: durability(stream.options().durability),
            late: late(stream.options().late),
            next_sequence: stats.next_sequence,
            created: stream.created().to_string(),
        })
    }

    /// Its content in one line.
    pub fn content(&self) -> String {
        let Self { messages, symbols, bytes, .. } = self;
        let mut text =
            format!("{} messages, {symbols} symbols, {}", ui::thousands(*messages), ui::bytes(*bytes));
        if let (Some(per_message), Some(from), Some(to)) = (self.bytes_per_message, &self.from, &self.to) {
            text.push_str(&format!(" ({per_message:.1} bytes/message), {from} to {to}"));
        }
        text
    }

    fn row(&self) -> Vec<String> {
        vec![
            self.name.clone(),
            ui::thousands(self.messages),
            ui::thousands(self.symbols.into()),
            ui::bytes(self.bytes),
            self.bytes_per_message.map_or("-".into(), |bytes| format!("{bytes:.1}")),
            self.from.clone().unwrap_or("-".into()),
            self.to.clone().unwrap_or("-".into()),
            self.durability.into(),
        ]
    }
}

/// Lists the streams.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    let db = args.db.open_to_read()?;
    let names = db.streams()?;
    let found: Vec<Summary> = names.iter().filter_map(|name| summary(&db, name, ui)).collect();
    print(&found, ui)?;
    match names.len() - found.len() {
        0 => Ok(()),
        left_out => Err(Failure::new(format!(
            "{left_out} of {} streams cannot be opened (see the warnings); restore their files from a copy, or delete \
             them",
            names.len()
        ))),
    }
}

/// The summary of a stream; warns if it cannot be opened.
fn summary(db: &Database, name: &str, ui: &Ui) -> Option<Summary> {
    let summary = open_stream(db, name, ui).and_then(|stream| Summary::of(&stream));
    summary.inspect_err(|failure| ui.warn(&format!("stream {name:?} cannot be opened: {failure}"))).ok()
}

fn print(found: &[Summary], ui: &Ui) -> Result<(), Failure> {
    if ui.json() {
        return found.iter().try_for_each(|summary| ui.print_json(summary));
    }
    let rows: Vec<Vec<String>> = found.iter().map(Summary::row).collect();
    let head = ["name", "messages", "symbols", "bytes", "bytes/msg", "from", "to", "durability"];
    ui.print(&ui::table(&head, &[1, 2, 3, 4], &rows))
}

fn durability(durability: Durability) -> &'static str {
    match durability {
        Durability::Transient => "transient",
        Durability::Async => "async",
        Durability::Sync => "sync",
    }
}

fn late(late: Late) -> &'static str {
    match late {
        Late::Accept => "accept",
        Late::Refuse => "refuse",
    }
}
