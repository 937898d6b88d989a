//! `tapedb topic tail`: print messages as they arrive.

use super::folder::TopicArgs;
use crate::output::{self, Format, Output};
use std::time::{Duration, Instant};
use tapedb_terminal::{Failure, Ui, quantity};
use tapedb_topic::{Subscriber, Topic, TopicError};

/// Time between two checks for Ctrl-C and the end of `--for`.
const WAIT: Duration = Duration::from_millis(100);

/// Print the messages of a topic as they arrive.
///
/// Publishers never wait for this command: messages that it cannot print in time are missed, and their number is reported. Ends with
/// Ctrl-C, or when the topic is deleted.
///
/// Example: tapedb topic tail quotes --oldest --symbols AAPL,MSFT --for 10s
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    topic: TopicArgs,

    /// Begin with the oldest message in the ring.
    #[arg(long)]
    oldest: bool,

    /// Only these symbols, for example AIG,BAC.
    #[arg(long, value_delimiter = ',', value_name = "A,B")]
    symbols: Vec<String>,

    /// Only these record types, for example Trade,Quote.
    #[arg(long, value_delimiter = ',', value_name = "X,Y")]
    types: Vec<String>,

    /// End after this number of messages.
    #[arg(long, value_parser = quantity::count, value_name = "N")]
    limit: Option<u64>,

    /// End after this time, for example 250ms, 10s or 5m [default: run until Ctrl-C].
    #[arg(long = "for", value_parser = quantity::duration, value_name = "DURATION")]
    duration: Option<Duration>,
}

/// Follows the topic.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    let topic = args.topic.open()?;
    let mut subscriber = topic.subscriber().without_back_pressure();
    if args.oldest {
        subscriber = subscriber.from_oldest();
    }
    if !args.symbols.is_empty() {
        subscriber = subscriber.symbols(args.symbols);
    }
    if !args.types.is_empty() {
        subscriber = subscriber.types(args.types);
    }
    let deadline = args.duration.map(|duration| Instant::now() + duration);
    follow(&topic, subscriber.open()?, args.limit.unwrap_or(u64::MAX), deadline, ui)
}

fn follow(
    topic: &Topic,
    mut subscriber: Subscriber,
    limit: u64,
    deadline: Option<Instant>,
    ui: &Ui,
) -> Result<(), Failure> {
    let (format, mut out) = (Format::chosen(None, ui), Output::default());
    let mut printed = 0;
    while printed < limit && !ui.is_interrupted() {
        match subscriber.next() {
            Ok(Some(message)) => {
                let record = message.record()?;
                output::write_plain(format, message.symbol(), message.time(), record, &mut out.buffer);
                printed += 1;
                out.drain()?;
            }
            Ok(None) => {
                out.flush()?;
                let left = deadline.map_or(WAIT, |at| at.saturating_duration_since(Instant::now()));
                if left.is_zero() {
                    break;
                }
                // Without messages: the topic may have been deleted or created again.
                topic.check()?;
                subscriber.wait(left.min(WAIT));
            }
            Err(error @ TopicError::Missed { .. }) => ui.warn(&error.to_string()),
            Err(error) => return Err(error.into()),
        }
    }
    out.flush()?;
    ui.check_interrupt()
}
