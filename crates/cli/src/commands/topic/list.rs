//! `tapedb topic list`: list the topics.

use super::folder::FolderArgs;
use serde::Serialize;
use tapedb_terminal::{Failure, Ui, ui};
use tapedb_topic::{Delivery, Topic};

/// List the topics.
///
/// For each: its delivery, the size of its ring, messages published, and its publishers and subscribers.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    folder: FolderArgs,
}

/// A topic in JSON output.
#[derive(Serialize, Debug)]
pub struct Summary {
    name: String,
    delivery: &'static str,
    ring_bytes: u64,
    messages: u64,
    symbols: usize,
    publishers: usize,
    subscribers: usize,
    created: String,
    path: String,
}

impl Summary {
    /// The summary of a topic.
    pub fn of(topic: &Topic) -> Self {
        let stats = topic.stats();
        Self {
            name: topic.name().into(),
            delivery: delivery(topic.options().delivery),
            ring_bytes: topic.options().ring_bytes,
            messages: stats.next_sequence,
            symbols: stats.symbols,
            publishers: stats.publishers.len(),
            subscribers: stats.subscribers.len(),
            created: topic.created().to_string(),
            path: topic.path().display().to_string(),
        }
    }

    fn row(&self) -> Vec<String> {
        vec![
            self.name.clone(),
            self.delivery.into(),
            ui::bytes(self.ring_bytes),
            ui::thousands(self.messages),
            self.symbols.to_string(),
            self.publishers.to_string(),
            self.subscribers.to_string(),
            self.created.clone(),
        ]
    }
}

/// Lists the topics.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    let folder = args.folder.folder()?;
    let mut found = Vec::new();
    let mut left_out = 0;
    for name in folder.list()? {
        match Topic::open(&folder, &name) {
            Ok(topic) => found.push(Summary::of(&topic)),
            Err(error) => {
                ui.warn(&format!("topic {name:?} cannot be opened: {error}"));
                left_out += 1;
            }
        }
    }
    if ui.json() {
        found.iter().try_for_each(|summary| ui.print_json(summary))?;
    } else {
        let rows: Vec<Vec<String>> = found.iter().map(Summary::row).collect();
        let head =
            ["name", "delivery", "ring", "messages", "symbols", "publishers", "subscribers", "created"];
        ui.print(&ui::table(&head, &[2, 3, 4, 5, 6], &rows))?;
    }
    match left_out {
        0 => Ok(()),
        _ => Err(Failure::new(format!("{left_out} topics cannot be opened (see the warnings); delete them"))),
    }
}

/// The name of a delivery.
pub fn delivery(delivery: Delivery) -> &'static str {
    match delivery {
        Delivery::Reliable => "reliable",
        Delivery::Lossy => "lossy",
    }
}
