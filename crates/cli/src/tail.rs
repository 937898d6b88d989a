//! `tapedb tail`: the last messages, then those that come.

use crate::args::{self, DatabaseArgs, LastValues, Selection};
use crate::failure::Failure;
use crate::output::{Damage, Format, Output, Writer};
use crate::ui::Ui;
use std::collections::HashMap;
use std::time::{Duration, Instant};
use tapedb_engine::{Cursor, Database, Position, Stream};

/// Most messages of `--last`: they are held in memory, because they are found backwards.
const LAST_MAX: u64 = 100_000;
/// How long the cursor waits before Ctrl-C and the end of `--for` are looked at.
const WAIT: Duration = Duration::from_millis(100);

/// Print the last messages of one stream or of several, then every new one as it comes.
///
/// Works while another process writes; nothing is missed or printed twice between the last messages and the new ones.
/// The last messages come in time order, new ones in the order in which they arrive. Ends with Ctrl-C.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    db: DatabaseArgs,

    #[command(flatten)]
    selection: Selection,

    /// Messages to begin with, over all streams; at most 100k.
    #[arg(long, value_parser = args::count, default_value = "10", value_name = "N")]
    last: u64,

    #[command(flatten)]
    last_values: LastValues,

    /// How messages are printed, as in `tapedb read` [default: text, json with --json].
    #[arg(long, value_enum, value_name = "FORMAT")]
    output: Option<Format>,

    /// No names of columns in csv.
    #[arg(long)]
    no_header: bool,

    /// End after this time, for example 250ms, 10s or 5m [default: go on until Ctrl-C].
    #[arg(long = "for", value_parser = args::duration, value_name = "DURATION")]
    duration: Option<Duration>,
}

const EXAMPLES: &str = "\
Examples:
  tapedb tail --db demo.tape feed
  tapedb tail --db demo.tape feed --last-values
  tapedb tail --db demo.tape feed --last 0 --symbols AAAH4 --output json --for 1m";

/// Follows the streams.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    let format = Format::chosen(args.output, ui);
    if format == Format::None {
        return Err(Failure::usage("tail prints what it reads; to count, use `tapedb read --output none`"));
    }
    if args.last > LAST_MAX {
        return Err(Failure::usage(format!(
            "--last {} is more than {LAST_MAX}; use `tapedb read`",
            args.last
        )));
    }
    let deadline = args.duration.map(|duration| Instant::now() + duration);
    let db = args.db.open_to_read()?;
    let streams = args.selection.open(&db, ui)?;
    let mut tail = Tail {
        writer: Writer::new(format, &streams, &args.selection.types)?,
        out: Output::default(),
        ends: ends(&streams)?,
    };
    if !args.no_header {
        tail.writer.header(&mut tail.out.buffer);
    }
    let cursor = match args.last_values.last_values {
        true => args.last_values.of(args.selection.cursor(&db)?)?.live().open()?,
        false => {
            tail.last(&args, &db, ui)?;
            let position = tail.position(&args.selection.streams)?;
            args.selection.cursor(&db)?.live().resume(&position).open()?
        }
    };
    tail.live(cursor, deadline, ui)
}

/// Always true: messages below `ends` belong to the last ones, the others to the live ones.
struct Tail {
    writer: Writer,
    out: Output,
    ends: HashMap<String, u64>,
}

impl Tail {
    /// Prints the last messages.
    fn last(&mut self, args: &Args, db: &Database, ui: &Ui) -> Result<(), Failure> {
        let mut cursor = args.selection.cursor(db)?.reverse().open()?;
        let mut found: Vec<Vec<u8>> = Vec::new();
        let mut damage = Damage::default();
        while (found.len() as u64) < args.last {
            ui.check_interrupt()?;
            let mut line = Vec::new();
            let written = match cursor.next() {
                Ok(Some(message)) if message.sequence() >= self.end(message.stream().name()) => continue,
                Ok(Some(message)) => self.writer.write(&message, &mut line),
                Ok(None) => break,
                Err(error) => Err(error),
            };
            match written {
                Ok(()) => found.push(line),
                Err(error) => damage.note(&error, ui)?,
            }
        }
        found.iter().rev().for_each(|line| self.out.buffer.extend_from_slice(line));
        self.out.flush()
    }

    /// Prints what comes, until the deadline or Ctrl-C.
    fn live(&mut self, mut cursor: Cursor, deadline: Option<Instant>, ui: &Ui) -> Result<(), Failure> {
        let mut damage = Damage::default();
        loop {
            let left = deadline.map_or(WAIT, |deadline| deadline.saturating_duration_since(Instant::now()));
            let written = match cursor.next() {
                Ok(Some(message)) => self.writer.write(&message, &mut self.out.buffer),
                Ok(None) => {
                    self.out.flush()?;
                    if !left.is_zero() {
                        cursor.wait(left.min(WAIT))?;
                    }
                    Ok(())
                }
                Err(error) => Err(error),
            };
            if let Err(error) = written {
                damage.note(&error, ui)?;
            }
            self.out.drain()?;
            let is_over = left.is_zero() && cursor.is_live();
            if is_over || ui.is_interrupted() {
                self.out.flush()?;
                ui.check_interrupt()?;
                return damage.finish();
            }
        }
    }

    fn end(&self, stream: &str) -> u64 {
        self.ends.get(stream).copied().unwrap_or(u64::MAX)
    }

    /// Where the live messages begin.
    fn position(&self, streams: &[String]) -> Result<Position, Failure> {
        let lines = streams.iter().map(|stream| format!("live {} {stream}\n", self.end(stream)));
        Ok(lines.collect::<String>().parse()?)
    }
}

/// The sequence number after the last message of each stream, now.
fn ends(streams: &[Stream]) -> Result<HashMap<String, u64>, Failure> {
    streams.iter().map(|stream| Ok((stream.name().to_string(), stream.stats()?.next_sequence))).collect()
}
