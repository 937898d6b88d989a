//! `tapedb topic stat`: show the state of a topic while it runs.

use super::folder::TopicArgs;
use super::list::delivery;
use serde_json::{Value, json};
use std::thread;
use std::time::{Duration, Instant};
use tapedb_terminal::{Failure, Ui, quantity, ui};
use tapedb_topic::{Topic, TopicStats};

/// Show a topic's positions, rates, lag and losses while it runs.
///
/// For each publisher: messages published, how often the ring was full, and how often one of its claims was passed over because
/// it stalled. For each subscriber: its lag in messages and bytes, and messages missed.
///
/// With --every it ends when the topic is deleted or created again.
///
/// Example: tapedb topic stat quotes --every 1s
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    topic: TopicArgs,

    /// Repeat at this interval, with rates, until Ctrl-C.
    #[arg(long, value_name = "DURATION", value_parser = quantity::duration)]
    every: Option<Duration>,

    /// Number of repetitions [default: one, with --every until Ctrl-C].
    #[arg(long, value_name = "N", requires = "every")]
    times: Option<u64>,
}

/// Shows the topic.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    let topic = args.topic.open()?;
    let mut before = None;
    let times = args.times.unwrap_or(if args.every.is_some() { u64::MAX } else { 1 });
    for repetition in 0..times {
        topic.check()?;
        let (stats, at) = (topic.stats(), Instant::now());
        let rate = before.replace((stats.next_sequence, at)).map(|(messages, since): (u64, Instant)| {
            (stats.next_sequence - messages) as f64 / (at - since).as_secs_f64()
        });
        print(&topic, &stats, rate, ui)?;
        if repetition + 1 < times {
            sleep(args.every.unwrap_or_default(), ui)?;
        }
    }
    Ok(())
}

/// Sleeps, and checks for Ctrl-C.
fn sleep(time: Duration, ui: &Ui) -> Result<(), Failure> {
    let until = Instant::now() + time;
    loop {
        ui.check_interrupt()?;
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        thread::sleep(left.min(Duration::from_millis(50)));
    }
}

fn print(topic: &Topic, stats: &TopicStats, rate: Option<f64>, ui: &Ui) -> Result<(), Failure> {
    if ui.json() { ui.print_json(&object(topic, stats, rate)) } else { ui.print(&text(topic, stats, rate)) }
}

fn object(topic: &Topic, stats: &TopicStats, rate: Option<f64>) -> Value {
    let publisher = |stats: &tapedb_topic::PublisherStats| {
        json!({
            "slot": stats.slot, "process": stats.process, "messages": stats.messages,
            "back_pressured": stats.back_pressured, "overtaken": stats.overtaken,
        })
    };
    let subscriber = |stats: &tapedb_topic::SubscriberStats| {
        json!({
            "slot": stats.slot, "process": stats.process, "is_waited_for": stats.is_waited_for, "behind": stats.behind,
            "behind_bytes": stats.behind_bytes, "missed": stats.missed,
        })
    };
    json!({
        "name": topic.name(), "delivery": delivery(topic.options().delivery),
        "ring_bytes": topic.options().ring_bytes, "next_sequence": stats.next_sequence, "bytes": stats.bytes,
        "messages_per_second": rate, "symbols": stats.symbols, "claims_passed_over": stats.claims_passed_over,
        "claims_taken_over": stats.claims_taken_over, "subscribers_passed_over": stats.subscribers_passed_over,
        "publishers": stats.publishers.iter().map(publisher).collect::<Vec<_>>(),
        "subscribers": stats.subscribers.iter().map(subscriber).collect::<Vec<_>>(),
        "schema": topic.schema().to_string(),
    })
}

fn text(topic: &Topic, stats: &TopicStats, rate: Option<f64>) -> String {
    let mut text = format!(
        "{} ({}, ring {}): {} messages, {} symbols, {}",
        topic.name(),
        delivery(topic.options().delivery),
        ui::bytes(topic.options().ring_bytes),
        ui::thousands(stats.next_sequence),
        stats.symbols,
        ui::bytes(stats.bytes)
    );
    if let Some(rate) = rate {
        text.push_str(&format!(", {} messages/s", ui::thousands(rate.round() as u64)));
    }
    let passed = [
        ("claims passed over", stats.claims_passed_over),
        ("claims taken over", stats.claims_taken_over),
        ("times a subscriber was not waited for", stats.subscribers_passed_over),
    ];
    for (what, count) in passed.into_iter().filter(|(_, count)| *count > 0) {
        text.push_str(&format!(", {count} {what}"));
    }
    text.push('\n');
    let mut rows: Vec<Vec<String>> = Vec::new();
    for publisher in &stats.publishers {
        let (messages, full) = (ui::thousands(publisher.messages), ui::thousands(publisher.back_pressured));
        rows.push(vec![
            "publisher".into(),
            publisher.process.to_string(),
            messages,
            full,
            String::new(),
            publisher.overtaken.to_string(),
        ]);
    }
    for subscriber in &stats.subscribers {
        let role = if subscriber.is_waited_for { "subscriber" } else { "watcher" };
        let (behind, bytes) = (ui::thousands(subscriber.behind), ui::bytes(subscriber.behind_bytes));
        rows.push(vec![
            role.into(),
            subscriber.process.to_string(),
            behind,
            String::new(),
            bytes,
            ui::thousands(subscriber.missed),
        ]);
    }
    let head = ["role", "process", "messages/behind", "ring full", "bytes behind", "overtaken/missed"];
    text.push_str(&ui::table(&head, &[1, 2, 3, 4, 5], &rows));
    text
}
