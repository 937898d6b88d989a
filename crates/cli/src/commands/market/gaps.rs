//! `tapedb gaps`: what is missing in a stream.

use crate::args::{StreamArgs, TimeRange};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;
use tapedb_market_streams::{FoundGap, GapScan, GapSummary, Pass, cause_name};
use tapedb_schema::Timestamp;
use tapedb_terminal::{Failure, Ui, quantity, ui};

/// Messages between two checks for Ctrl-C.
const STEP: u64 = 100_000;

/// List what is missing in a stream: recorded gaps, holes in the venue's sequence numbers, and silence beyond a limit.
///
/// The last line is the verdict. `complete`: every message is a snapshot, or an update whose sequence numbers follow those before, which
/// proves that nothing is missing. `cannot be verified`: no gap was found, and nothing proves that there is none. What the recorder itself dropped is counted apart.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    stream: StreamArgs,

    #[command(flatten)]
    times: TimeRange,

    /// Only these symbols, for example AIG,BAC, and the gaps of channels and files, which concern all.
    #[arg(long, value_delimiter = ',', value_name = "A,B")]
    symbols: Vec<String>,

    /// A symbol without messages for longer than this has a gap, for example 10s [default: silence is not a gap].
    #[arg(long, value_parser = quantity::duration, value_name = "DURATION")]
    silence: Option<Duration>,
}

const EXAMPLES: &str = "\
Examples:
  tapedb gaps --db demo.tape feed
  tapedb gaps --db demo.tape feed --silence 1m --from 2024-01-02 --to 2024-01-03";

#[derive(Serialize)]
struct Line {
    time: String,
    symbol: String,
    cause: &'static str,
    from: Option<String>,
    to: Option<String>,
    length_ns: Option<i64>,
    first_missing: Option<u64>,
    last_missing: Option<u64>,
    messages: Option<u64>,
    exchange: Option<String>,
    detail: Option<String>,
    recorded: bool,
}

impl Line {
    fn of(found: FoundGap) -> Self {
        let FoundGap { time, symbol, gap, is_recorded } = found;
        let text = |time: Option<Timestamp>| time.map(|time| time.to_string());
        Self {
            time: time.to_string(),
            symbol,
            cause: cause_name(gap.cause),
            from: text(gap.from),
            to: text(gap.to),
            // One that has not ended is as long as it is known to be.
            length_ns: gap.from.and_then(|from| gap.to.unwrap_or(time).nanos().checked_sub(from.nanos())),
            first_missing: gap.first_missing,
            last_missing: gap.last_missing,
            messages: gap.messages,
            exchange: gap.exchange.map(|exchange| exchange.to_string()),
            detail: gap.detail,
            recorded: is_recorded,
        }
    }

    fn text(&self) -> String {
        let mut text = format!("{} {} {}", self.time, self.symbol, self.cause);
        if let Some(length) = self.length_ns {
            text.push_str(&format!(", {:.3} s", length as f64 / 1e9));
        }
        if self.to.is_none() && self.from.is_some() {
            text.push_str(" and on");
        }
        match (self.first_missing, self.last_missing) {
            (Some(first), Some(last)) if first != last => text.push_str(&format!(", {first} to {last}")),
            (Some(only), _) | (_, Some(only)) => text.push_str(&format!(", {only}")),
            _ => {}
        }
        if let Some(messages) = self.messages {
            text.push_str(&format!(", {} messages", ui::thousands(messages)));
        }
        for part in [&self.exchange, &self.detail].into_iter().flatten() {
            text.push_str(&format!(", {part}"));
        }
        text.push('\n');
        text
    }
}

#[derive(Serialize)]
struct Summary<'a> {
    verdict: &'static str,
    gaps: &'a BTreeMap<&'static str, u64>,
    own_drops: u64,
    messages: u64,
    messages_numbered: u64,
    messages_unnumbered: u64,
    symbols_complete: u64,
    symbols_with_gaps: u64,
    symbols_unverifiable: u64,
}

/// Lists the gaps.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    let stream = args.stream.open_to_read(ui)?;
    let cursor = args.times.of(stream.cursor());
    let mut scan = GapScan::open(&stream, cursor, &args.symbols, args.silence)?;
    let mut gaps = Vec::new();
    loop {
        let pass = scan.step(STEP, &mut gaps)?;
        for line in gaps.drain(..).map(Line::of) {
            if ui.json() { ui.print_json(&line)? } else { ui.print(&line.text())? }
        }
        ui.check_interrupt()?;
        if pass == Pass::UpToDate {
            break;
        }
    }
    summarize(scan.summary(), ui)
}

/// Prints the verdict.
fn summarize(found: &GapSummary, ui: &Ui) -> Result<(), Failure> {
    let summary = Summary {
        verdict: found.verdict().name(),
        gaps: &found.gaps,
        own_drops: found.own_drops,
        messages: found.messages,
        messages_numbered: found.numbered,
        messages_unnumbered: found.unnumbered,
        symbols_complete: found.complete,
        symbols_with_gaps: found.with_gaps,
        symbols_unverifiable: found.unverifiable,
    };
    if ui.json() {
        return ui.print_json(&summary);
    }
    let gaps: Vec<String> = summary.gaps.iter().map(|(cause, count)| format!("{count} {cause}")).collect();
    let gaps = if gaps.is_empty() { "none".to_string() } else { gaps.join(", ") };
    ui.print(&format!(
        "verdict: {}; gaps: {gaps}; own drops: {}; symbols: {} complete, {} with gaps, {} cannot be verified; \
         messages: {} numbered, {} not\n",
        summary.verdict,
        summary.own_drops,
        summary.symbols_complete,
        summary.symbols_with_gaps,
        summary.symbols_unverifiable,
        ui::thousands(summary.messages_numbered),
        ui::thousands(summary.messages_unnumbered)
    ))
}
