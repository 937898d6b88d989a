//! `tapedb topic publish`: publish messages from JSON lines.

use super::folder::TopicArgs;
use crate::input::{BadLineArgs, Input, Refusal, Sink};
use serde_json::json;
use std::time::{Duration, Instant};
use tapedb_codec::dynamic::RecordValue;
use tapedb_schema::Timestamp;
use tapedb_terminal::{Failure, Ui, quantity, ui::thousands};
use tapedb_topic::{Publisher, Sent, Slowest, TopicError};

/// Time between two checks for Ctrl-C.
const WAIT: Duration = Duration::from_millis(100);

/// Publish messages to a topic from lines of JSON, as `tapedb read --output json` writes them: from files or standard input.
///
/// Each line is an object with "symbol", "timestamp", "$type" if the topic has several message types, and the fields of the
/// record. Reads pipes as data arrives: each message is visible at once. Ctrl-C and SIGTERM end the command after all data sent
/// before them is published. A line that is not a message ends the command, unless --on-bad-line is given: the messages before it
/// are published.
///
/// Example: tapedb read --db market.tape quotes --output json | tapedb topic publish quotes
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    topic: TopicArgs,

    #[command(flatten)]
    input: Input,

    #[command(flatten)]
    bad: BadLineArgs,

    /// How long to wait for a reliable topic's slowest subscriber, before it is an error [default: without limit].
    #[arg(long, value_name = "DURATION", value_parser = quantity::duration)]
    patience: Option<Duration>,
}

/// Publishes.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    ui.signals().give_time_to_finish()?;
    let topic = args.topic.open()?;
    let mut publisher = topic.publisher()?;
    publisher.set_timeout(WAIT.min(args.patience.unwrap_or(WAIT)));
    let mut sink = Publishing { publisher, patience: args.patience, published: 0, ui };
    let mut bad = args.bad.open()?;
    let read = args.input.read(topic.layouts(), &mut sink, &mut bad, Duration::MAX, ui);
    let messages = sink.published;
    match read {
        Ok(taken) if taken.cut_bytes > 0 => {
            let bytes = taken.cut_bytes;
            ui.warn(&format!("the input ended inside a line: its first {bytes} bytes are not published"));
        }
        Ok(_) => {}
        Err(Failure::Interrupted { .. }) => {
            ui.warn("the topic was full: the rest of the received messages is not published");
        }
        Err(Failure::Failed(what)) => {
            let messages = thousands(messages);
            return Err(Failure::new(format!("{what}; the {messages} messages before it are published")));
        }
        Err(failure) => return Err(failure),
    }
    if ui.json() {
        ui.print_json(&json!({ "topic": args.topic.name, "messages": messages, "bad_lines": bad.count }))?;
    } else {
        let (messages, bad) = (thousands(messages), bad.summary());
        ui.print(&format!("published {messages} messages to topic {:?}{bad}\n", args.topic.name))?;
    }
    bad.finish()?;
    ui.check_interrupt()
}

/// The topic that takes the messages: each is visible at once.
struct Publishing<'a> {
    publisher: Publisher,
    patience: Option<Duration>,
    published: u64,
    ui: &'a Ui,
}

impl Sink for Publishing<'_> {
    fn take(&mut self, symbol: &str, time: Timestamp, record: &RecordValue) -> Result<(), Refusal> {
        let began = Instant::now();
        loop {
            let sent = self.publisher.publish_value(symbol, time, record).map_err(refusal)?;
            let Sent::BackPressured(slowest) = sent else {
                self.published += 1;
                return Ok(());
            };
            // Messages that fit are published, also after a signal.
            self.ui.check_interrupt().map_err(Refusal::Sink)?;
            if self.patience.is_some_and(|patience| began.elapsed() >= patience) {
                return Err(Refusal::Sink(is_full(&slowest)));
            }
        }
    }
}

/// Whether an error concerns the message or the topic.
#[cold]
fn refusal(error: TopicError) -> Refusal {
    use TopicError::{Encode, Symbol, SymbolsFull, TooLarge, Type};
    match error {
        Encode(_) | Symbol { .. } | SymbolsFull { .. } | TooLarge { .. } | Type { .. } => {
            Refusal::Line(error.to_string())
        }
        error => Refusal::Sink(error.into()),
    }
}

fn is_full(slowest: &Slowest) -> Failure {
    let (process, behind) = (slowest.process, thousands(slowest.behind_bytes));
    Failure::new(format!(
        "process {process} is {behind} bytes behind and keeps the topic full; see `tapedb topic stat`"
    ))
}
