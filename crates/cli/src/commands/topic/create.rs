//! `tapedb topic create`: create a topic.

use super::folder::TopicArgs;
use crate::commands::streams::create::read_schema;
use clap::ValueEnum;
use std::path::PathBuf;
use std::time::Duration;
use tapedb_terminal::{Failure, Ui, quantity};
use tapedb_topic::{Delivery, Topic, TopicOptions};

/// Create a topic.
///
/// Not required: the first program that opens a topic can create it.
///
/// Example: tapedb topic create quotes --schema quotes.schema --delivery lossy --ring 64MiB
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    topic: TopicArgs,

    /// File with the schema; - reads standard input.
    #[arg(long, value_name = "FILE")]
    schema: PathBuf,

    /// What happens to a subscriber that is too slow.
    #[arg(long, value_enum, default_value_t = DeliveryArg::Reliable)]
    delivery: DeliveryArg,

    /// Size of the ring, a power of two from 64KiB to 1GiB; a message takes at most a sixteenth of it.
    #[arg(long, value_name = "SIZE", value_parser = quantity::size, default_value = "8MiB")]
    ring: u64,

    /// Size of the dictionary of symbols, each of which takes 8 bytes and its length rounded up to 8.
    #[arg(long, value_name = "SIZE", value_parser = quantity::size, default_value = "1MiB")]
    symbols: u64,

    /// How long others wait for a publisher or subscriber that is alive but stalled; 0s: without limit.
    #[arg(long, value_name = "DURATION", value_parser = quantity::duration, default_value = "1s")]
    stall: Duration,
}

#[derive(ValueEnum, Debug, Clone, Copy)]
enum DeliveryArg {
    /// Publishers wait for it
    Reliable,
    /// It misses messages, and receives their number
    Lossy,
}

/// Creates the topic.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    let schema = read_schema(&args.schema, ui)?;
    let delivery = match args.delivery {
        DeliveryArg::Reliable => Delivery::Reliable,
        DeliveryArg::Lossy => Delivery::Lossy,
    };
    let Args { ring: ring_bytes, symbols: symbols_bytes, stall, .. } = args;
    let options = TopicOptions { delivery, ring_bytes, symbols_bytes, stall };
    let topic = Topic::create(&args.topic.folder()?, &args.topic.name, &schema, &options)?;
    if ui.json() {
        return ui.print_json(&super::list::Summary::of(&topic));
    }
    ui.print(&format!("created topic {:?}, {}\n", topic.name(), topic.path().display()))
}
