//! `tapedb rewrite`: replace the messages of a time range.

use crate::args::StreamArgs;
use crate::input::{BadLines, Input, Refusal, Sink, confirm};
use serde::Serialize;
use std::ops::Bound;
use std::time::Duration;
use tapedb_codec::dynamic::RecordValue;
use tapedb_engine::Rewriter;
use tapedb_schema::Timestamp;
use tapedb_terminal::{Failure, Ui, quantity, ui::thousands};

/// Replace the messages of a time range, of all symbols or of some, by messages from JSON lines: from files or standard input.
///
/// Readers see the change at once, and a power cut leaves either the old messages or the new ones. The lines are those of
/// `tapedb read --output json`; each must be in the range, otherwise nothing is changed. Empty input is refused unless --empty is
/// given.
///
/// Asks first; --yes skips the question and is required where standard input is not a terminal.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    stream: StreamArgs,

    #[command(flatten)]
    input: Input,

    /// First time to replace (UTC unless it names an offset).
    #[arg(long, value_parser = quantity::time, value_name = "TIME", allow_hyphen_values = true)]
    from: Timestamp,

    /// End of the range; messages at this time are not replaced.
    #[arg(long, value_parser = quantity::time, value_name = "TIME", allow_hyphen_values = true)]
    to: Timestamp,

    /// Only these symbols, for example AIG,BAC.
    #[arg(long, value_delimiter = ',', value_name = "A,B")]
    symbols: Vec<String>,

    /// Allow empty input, which deletes the messages of the range.
    #[arg(long)]
    empty: bool,

    /// Do not ask.
    #[arg(long)]
    yes: bool,

    /// The space of the stream.
    #[arg(long, value_name = "N", default_value_t = 0)]
    space: u32,
}

const EXAMPLES: &str = "\
Example:
  tapedb read --db my.tapedb ticks --from 2024-01-02T14:30 --to 2024-01-02T14:31 --output json > minute.jsonl
  (correct minute.jsonl)
  tapedb rewrite --db my.tapedb ticks minute.jsonl --from 2024-01-02T14:30 --to 2024-01-02T14:31
  tapedb rewrite --db my.tapedb ticks --from 2024-01-02T14:30 --to 2024-01-02T14:31 --empty --yes < /dev/null";

#[derive(Serialize)]
struct Rewritten<'a> {
    stream: &'a str,
    messages: u64,
    first_sequence: u64,
}

/// Runs `tapedb rewrite`.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    if args.to <= args.from {
        return Err(Failure::usage(format!("--to {} is not after --from {}", args.to, args.from)));
    }
    let stream = args.stream.open_to_write(ui)?;
    let symbols = (!args.symbols.is_empty()).then_some(&args.symbols);
    let times = (Bound::Included(args.from), Bound::Excluded(args.to));
    let mut rewriter = stream.rewrite_in(args.space, times, symbols)?;
    let read = args.input.read(stream.layouts(), &mut rewriter, &mut BadLines::stopping(), Duration::MAX, ui);
    let read = read.map_err(|failure| match failure {
        Failure::Failed(what) => Failure::new(format!("{what}; nothing was changed")),
        other => other,
    })?;
    ui.check_interrupt()?;
    args.check(read.messages, ui)?;
    let first_sequence = rewriter.commit()?.start;
    if ui.json() {
        let messages = read.messages;
        return ui.print_json(&Rewritten { stream: &args.stream.name, messages, first_sequence });
    }
    let (from, to, messages) = (args.from, args.to, thousands(read.messages));
    ui.print(&format!("rewrote stream {:?} from {from} to {to}: {messages} messages\n", args.stream.name))
}

impl Args {
    /// Asks for confirmation; refuses empty input without --empty.
    fn check(&self, messages: u64, ui: &Ui) -> Result<(), Failure> {
        if messages == 0 && !self.empty {
            return Err(Failure::new(
                "the input has no message, and nothing was changed; add --empty to delete the range",
            ));
        }
        let of_symbols = match &self.symbols[..] {
            [] => String::new(),
            symbols => format!(" of {}", symbols.join(", ")),
        };
        let subject = format!(
            "messages{of_symbols} of stream {:?} from {} to {}",
            self.stream.name, self.from, self.to
        );
        let question = format!("Replace the {subject} by {} messages", thousands(messages));
        if self.yes || confirm(&question, &subject, ui)? {
            return Ok(());
        }
        Err(Failure::new("nothing was changed; answer yes to replace them"))
    }
}

impl Sink for Rewriter {
    fn take(&mut self, symbol: &str, time: Timestamp, record: &RecordValue) -> Result<(), Refusal> {
        self.append_value(symbol, time, record).map_err(|error| Refusal::Sink(error.into()))
    }
}
