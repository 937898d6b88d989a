//! `tapedb topic publish`: messages from JSON lines.

use super::FolderArgs;
use crate::args;
use crate::failure::Failure;
use crate::jsonl::Input;
use crate::ui::{Ui, thousands};
use serde_json::json;
use std::time::{Duration, Instant};
use tapedb_topic::{Sent, Slowest};

/// How long it waits before Ctrl-C is looked at.
const WAIT: Duration = Duration::from_millis(100);

/// Publish messages to a topic from lines of JSON, as `tapedb read --output json` writes them: from files or standard input.
///
/// Each line is an object with "symbol", "timestamp", "$type" where the topic has several message types, and the fields of the
/// record. At a line that is no such message it ends: what came before it has been published.
///
/// Example: tapedb read --db market.tape quotes --output json | tapedb topic publish quotes
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    folder: FolderArgs,

    /// The topic, which must exist: see `tapedb topic create`.
    #[arg(value_name = "TOPIC")]
    topic: String,

    #[command(flatten)]
    input: Input,

    /// How long to wait for a reliable topic's slowest subscriber, before it is an error [default: for ever].
    #[arg(long, value_name = "DURATION", value_parser = args::duration)]
    patience: Option<Duration>,
}

/// Publishes.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    let topic = args.folder.open(&args.topic)?;
    let mut publisher = topic.publisher()?;
    publisher.set_patience(WAIT.min(args.patience.unwrap_or(WAIT)));
    let messages = args.input.read(topic.layouts(), ui, |symbol, time, record| {
        let began = Instant::now();
        loop {
            let Sent::BackPressured(slowest) = publisher.publish_value(symbol, time, record)? else {
                return Ok(());
            };
            ui.check_interrupt()?;
            if args.patience.is_some_and(|patience| began.elapsed() >= patience) {
                return Err(is_full(&slowest));
            }
        }
    })?;
    if ui.json() {
        return ui.print_json(&json!({ "topic": args.topic, "messages": messages }));
    }
    ui.print(&format!("published {} messages to topic {:?}\n", thousands(messages), args.topic))
}

fn is_full(slowest: &Slowest) -> Failure {
    let (process, behind) = (slowest.process, thousands(slowest.behind_bytes));
    Failure::new(format!(
        "process {process} is {behind} bytes behind and keeps the topic full; see `tapedb topic stat`"
    ))
}
