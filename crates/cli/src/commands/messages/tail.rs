//! `tapedb tail`: print the last messages, then new ones.

use crate::args::{DatabaseArgs, LastValues, Selection};
use crate::output::{Damage, Format, Output, Writer};
use std::time::{Duration, Instant};
use tapedb_engine::Cursor;
use tapedb_terminal::{Failure, Ui, quantity};

/// How long the cursor waits between two checks for Ctrl-C and the end of `--for`.
const WAIT: Duration = Duration::from_millis(100);

/// Print the last messages of one stream or of several, then every new one as it arrives.
///
/// Works while another process writes; nothing is missed or printed twice between the last messages and the new ones.
/// The last messages are in time order, new ones in order of arrival. Ends with Ctrl-C.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    db: DatabaseArgs,

    #[command(flatten)]
    selection: Selection,

    /// Number of last messages, over all streams.
    #[arg(long, value_parser = quantity::count, default_value = "10", value_name = "N")]
    last: u64,

    #[command(flatten)]
    last_values: LastValues,

    /// Format of the output, as in `tapedb read` [default: text, json with --json].
    #[arg(long, value_enum, value_name = "FORMAT")]
    output: Option<Format>,

    /// No names of columns in csv.
    #[arg(long)]
    no_header: bool,

    /// End after this time, for example 250ms, 10s or 5m [default: run until Ctrl-C].
    #[arg(long = "for", value_parser = quantity::duration, value_name = "DURATION")]
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
        return Err(Failure::usage("tail prints messages; to count them, use `tapedb read --output none`"));
    }
    let deadline = args.duration.map(|duration| Instant::now() + duration);
    let db = args.db.open_to_follow()?;
    let streams = args.selection.open(&db, ui)?;
    let mut writer = Writer::new(format, &streams, &args.selection.types)?;
    let mut out = Output::default();
    if !args.no_header {
        writer.header(&mut out.buffer);
    }
    let cursor = args.selection.cursor(&db)?;
    let cursor = match args.last_values.last_values {
        true => args.last_values.of(cursor)?,
        false => cursor.last(args.last),
    };
    follow(cursor.live().open()?, &mut writer, &mut out, deadline, ui)
}

/// Prints messages as they arrive, until the deadline or Ctrl-C.
fn follow(
    mut cursor: Cursor,
    writer: &mut Writer,
    out: &mut Output,
    deadline: Option<Instant>,
    ui: &Ui,
) -> Result<(), Failure> {
    let mut damage = Damage::default();
    loop {
        let left = deadline.map_or(WAIT, |deadline| deadline.saturating_duration_since(Instant::now()));
        let written = match cursor.next() {
            Ok(Some(message)) => writer.write(&message, &mut out.buffer),
            Ok(None) => {
                out.flush()?;
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
        out.drain()?;
        let is_over = left.is_zero() && cursor.is_live();
        if is_over || ui.is_interrupted() {
            out.flush()?;
            ui.check_interrupt()?;
            return damage.finish();
        }
    }
}
