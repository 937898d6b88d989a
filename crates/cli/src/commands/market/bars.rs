//! `tapedb bars`: bars of the trades or quotes of a stream.

use super::{failure, work};
use crate::args::{StreamArgs, open_stream};
use serde::Serialize;
use std::time::{Duration, Instant};
use tapedb_engine::Stream;
use tapedb_market::{BarRule, vwap};
use tapedb_market_streams::{BarCounts, BarInput, BarReader, BarWriter, Pass, SymbolBar};
use tapedb_schema::Decimal64;
use tapedb_terminal::{Failure, Ui, quantity, ui::thousands};

/// How long is waited between two checks for Ctrl-C and the end of `--for`.
const WAIT: Duration = Duration::from_millis(100);
/// Messages between two checks for Ctrl-C.
const STEP: u64 = 10_000;

/// Make bars of the trades or quotes of a stream: by time, number of trades, volume or turnover.
///
/// They are written into the stream STREAM.bars.RULE, such as feed.bars.1m, as IntervalBar with open, high, low, close, volume, turnover and
/// number of trades; the average price by volume (VWAP) is turnover divided by volume. What is there already stays; bars whose trades
/// have changed are replaced, so the command can be repeated. With --live it goes on with new messages: a bar by time ends
/// with the first later message of any symbol, and a late trade replaces the bar it belongs to.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLES)]
#[command(group = clap::ArgGroup::new("rule").required(true))]
pub struct Args {
    #[command(flatten)]
    stream: StreamArgs,

    /// Bars by time, for example 1s, 1m or 1h; they begin at multiples of it, counted from 1970, UTC.
    #[arg(long, value_parser = length, value_name = "DURATION", group = "rule")]
    every: Option<i64>,

    /// Bars of so many trades, for example 100 or 10k; with --quotes, of so many changes.
    #[arg(long, value_parser = trades, value_name = "N", group = "rule")]
    ticks: Option<u64>,

    /// A bar ends with the trade that brings its volume to this.
    #[arg(long, value_parser = size, value_name = "SIZE", group = "rule", conflicts_with = "quotes")]
    volume: Option<Decimal64>,

    /// A bar ends with the trade that brings its turnover, the sum of price times size, to this.
    #[arg(long, value_parser = size, value_name = "AMOUNT", group = "rule", conflicts_with = "quotes")]
    dollars: Option<Decimal64>,

    /// Of the middle between best bid and best offer, in place of trades; these bars have no volume.
    #[arg(long)]
    quotes: bool,

    /// Print the bars with their averages by volume, and write nothing.
    #[arg(long)]
    print: bool,

    /// Go on with new messages, until Ctrl-C.
    #[arg(long)]
    live: bool,

    /// With --live: end after this time, for example 10s or 5m [default: run until Ctrl-C].
    #[arg(long = "for", value_parser = quantity::duration, value_name = "DURATION", requires = "live")]
    duration: Option<Duration>,
}

const EXAMPLES: &str = "\
Examples:
  tapedb bars --db demo.tape feed --every 1m
  tapedb bars --db demo.tape feed --dollars 1000000 --print --json
  tapedb bars --db demo.tape feed --every 1s --quotes --live";

/// Parser of --every: nanoseconds.
fn length(text: &str) -> Result<i64, String> {
    let nanos = i64::try_from(quantity::duration(text)?.as_nanos()).ok().filter(|nanos| *nanos > 0);
    nanos.ok_or_else(|| format!("{text:?} is no length of a bar"))
}

/// Parser of --ticks.
fn trades(text: &str) -> Result<u64, String> {
    quantity::count(text)
        .and_then(|count| if count > 0 { Ok(count) } else { Err("a bar has a trade".into()) })
}

/// Parser of --volume and --dollars.
fn size(text: &str) -> Result<Decimal64, String> {
    let size: Decimal64 = text.parse().map_err(|error| format!("{error}"))?;
    let is_positive = size.numeric_cmp(&Decimal64::ZERO).is_some_and(|order| order.is_gt());
    is_positive.then_some(size).ok_or_else(|| format!("{text:?} is no number above zero"))
}

impl Args {
    fn rule(&self) -> BarRule {
        match (self.every, self.ticks, self.volume, self.dollars) {
            (Some(length), ..) => BarRule::Time(length),
            (_, Some(trades), ..) => BarRule::Ticks(trades),
            (_, _, Some(volume), _) => BarRule::Volume(volume),
            (.., dollars) => BarRule::Dollars(dollars.unwrap_or(Decimal64::ZERO)),
        }
    }

    /// Name of the stream of the bars: the same for equal rules.
    fn name(&self) -> String {
        let rule = match self.rule() {
            BarRule::Time(length) => short(length),
            BarRule::Ticks(trades) => format!("ticks-{trades}"),
            BarRule::Volume(volume) => format!("volume-{}", plain(volume)),
            BarRule::Dollars(dollars) => format!("dollars-{}", plain(dollars)),
        };
        let quotes = if self.quotes { "quotes." } else { "" };
        format!("{}.bars.{quotes}{rule}", self.stream.name)
    }
}

/// The same text for equal numbers, such as 500 for 5E2 and 500.0.
fn plain(number: Decimal64) -> String {
    let Some((mut digits, mut exponent)) = number.parts() else { return number.to_string() };
    while digits != 0 && digits % 10 == 0 {
        (digits, exponent) = (digits / 10, exponent + 1);
    }
    match exponent {
        0..=18 => format!("{digits}{}", "0".repeat(exponent as usize)),
        _ => Decimal64::from_parts(digits, exponent).unwrap_or(number).to_string(),
    }
}

/// A length in its largest unit, such as 1m for 60 seconds.
fn short(nanos: i64) -> String {
    let units = [
        (86_400_000_000_000, "d"),
        (3_600_000_000_000, "h"),
        (60_000_000_000, "m"),
        (1_000_000_000, "s"),
        (1_000_000, "ms"),
        (1_000, "us"),
    ];
    let unit = units.into_iter().find(|(unit, _)| nanos % unit == 0);
    let (unit, name) = unit.unwrap_or((1, "ns"));
    format!("{}{name}", nanos / unit)
}

/// Makes the bars.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    let deadline = args.duration.map(|duration| Instant::now() + duration);
    let for_reading =
        if args.live { args.stream.db.open_to_follow()? } else { args.stream.db.open_to_read()? };
    let mut db = for_reading;
    if !args.print {
        // For reading first: this creates no database, and its error names what is missing.
        db.stream(&args.stream.name)?;
        drop(db);
        db = args.stream.db.open_to_write()?;
    }
    let stream = open_stream(&db, &args.stream.name, ui)?;
    let cursor = if args.live { stream.cursor().live() } else { stream.cursor() };
    let input = if args.quotes { BarInput::Quotes } else { BarInput::Trades };
    let reader = work(ui, || BarReader::open(&stream, cursor, args.rule(), input))?;
    if args.print {
        return pump(&args, reader, deadline, ui, |bars| print(bars, ui)).map(drop);
    }
    let mut writer = BarWriter::open(&db, &args.name())?;
    let counts = pump(&args, reader, deadline, ui, |bars| {
        let is_up_to_date = bars.is_up_to_date;
        bars.bars.into_iter().try_for_each(|bar| writer.take(bar))?;
        if is_up_to_date {
            writer.flush()?;
        }
        Ok(())
    })?;
    summarize(writer.stream(), &writer, counts, ui)?;
    ui.check_interrupt()
}

/// Bars of a step.
struct Bars {
    bars: Vec<SymbolBar>,
    /// No more messages are there now.
    is_up_to_date: bool,
}

/// Gives the bars to `take`, step by step, until all are there, or with --live until Ctrl-C.
fn pump(
    args: &Args,
    mut reader: BarReader,
    deadline: Option<Instant>,
    ui: &Ui,
    mut take: impl FnMut(Bars) -> Result<(), Failure>,
) -> Result<BarCounts, Failure> {
    loop {
        let mut bars = Vec::new();
        let is_up_to_date = reader.step(STEP, &mut bars).map_err(failure)? == Pass::UpToDate;
        if is_up_to_date && !args.live {
            reader.finish(&mut bars);
        }
        take(Bars { bars, is_up_to_date })?;
        let left = deadline.map_or(WAIT, |deadline| deadline.saturating_duration_since(Instant::now()));
        let is_over = if args.live { left.is_zero() } else { is_up_to_date };
        if is_over || ui.is_interrupted() {
            return Ok(reader.counts());
        }
        if is_up_to_date {
            reader.wait(left.min(WAIT)).map_err(failure)?;
        }
    }
}

#[derive(Serialize)]
struct Line {
    time: String,
    symbol: String,
    start: Option<String>,
    open: Option<String>,
    high: Option<String>,
    low: Option<String>,
    close: Option<String>,
    volume: Option<String>,
    turnover: Option<String>,
    trades: Option<u64>,
    vwap: Option<f64>,
    correction: bool,
}

/// Prints bars.
fn print(bars: Bars, ui: &Ui) -> Result<(), Failure> {
    for SymbolBar { symbol, built } in bars.bars {
        let (bar, text) = (&built.bar, |number: Option<Decimal64>| number.map(|number| number.to_string()));
        let line = Line {
            time: built.time.to_string(),
            symbol,
            start: bar.start.map(|start| start.to_string()),
            open: text(bar.open),
            high: text(bar.high),
            low: text(bar.low),
            close: text(bar.close),
            volume: text(bar.volume),
            turnover: text(bar.turnover),
            trades: bar.trades,
            vwap: vwap(bar),
            correction: built.is_correction,
        };
        if ui.json() {
            ui.print_json(&line)?;
            continue;
        }
        let mut words = vec![line.time, line.symbol];
        let named = [
            ("open", line.open),
            ("high", line.high),
            ("low", line.low),
            ("close", line.close),
            ("volume", line.volume),
            ("turnover", line.turnover),
            ("trades", line.trades.map(|trades| trades.to_string())),
            ("vwap", line.vwap.map(|vwap| vwap.to_string())),
        ];
        words.extend(named.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", value?))));
        words.extend(line.correction.then(|| "correction".to_string()));
        ui.print(&format!("{}\n", words.join(" ")))?;
    }
    Ok(())
}

#[derive(Serialize)]
struct Summary<'a> {
    stream: &'a str,
    bars_written: u64,
    bars_replaced: u64,
    messages: u64,
    trades: u64,
    refused: u64,
    too_late: u64,
    unpriced: u64,
}

fn summarize(stream: &Stream, writer: &BarWriter, counts: BarCounts, ui: &Ui) -> Result<(), Failure> {
    let summary = Summary {
        stream: stream.name(),
        bars_written: writer.written(),
        bars_replaced: writer.replaced(),
        messages: counts.messages,
        trades: counts.trades,
        refused: counts.refused,
        too_late: counts.too_late,
        unpriced: counts.unpriced,
    };
    if ui.json() {
        return ui.print_json(&summary);
    }
    let mut text = format!(
        "{} bars written to {}, {} replaced; {} trades or changes of quotes in {} messages",
        thousands(summary.bars_written),
        summary.stream,
        thousands(summary.bars_replaced),
        thousands(summary.trades),
        thousands(summary.messages)
    );
    for (count, what) in [
        (summary.refused, "with numbers that no bar can have"),
        (summary.too_late, "too late for a bar that is kept"),
        (summary.unpriced, "without a price or size, in no bar"),
    ] {
        if count > 0 {
            text.push_str(&format!("; {} {what}", thousands(count)));
        }
    }
    text.push('\n');
    ui.print(&text)
}
