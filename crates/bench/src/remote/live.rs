//! Pairs of a producer and a consumer, each pair with its own durable stream, at full speed.

use super::common::{Common, rate};
use super::jobs::{Done, Follow};
use super::read::{create, load_job, messages};
use super::serving::Serving;
use super::transport::Transport;
use crate::content::Content;
use crate::report::Report;
use crate::svg::Scale;
use crate::worker::Worker;
use tapedb_terminal::{Failure, Ui, quantity::count};

/// Durable live streams at full speed: pairs of a producer and a consumer
///
/// Every producer and every consumer is a process; a pair has its own stream, of durability `async`. The consumer opens its live
/// cursor before the producer begins. Rates are of all messages delivered, from the start of the first producer to the last
/// message of the last consumer.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Messages of all pairs together, such as 20M or 500k
    #[arg(long, value_name = "N", default_value = "20M", value_parser = count)]
    messages: u64,
    /// Pairs
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,4,8,16,24", value_parser = clap::value_parser!(u32).range(1..=256))]
    pairs: Vec<u32>,
    /// Content of the streams: bars, all of one size, or mixed messages of a level-2 feed, a quarter as many (`….mixed`)
    #[arg(long, value_name = "WHAT,…", value_delimiter = ',', default_value = "bars,mixed")]
    content: Vec<Content>,
    #[command(flatten)]
    common: Common,
}

/// Runs the benchmark.
pub fn run(args: &Args, ui: &Ui) -> Result<Report, Failure> {
    let mut report = args.common.report("live")?;
    for run in 0..args.common.runs {
        ui.note(&format!("run {} of {}", run + 1, args.common.runs));
        let serving = args.common.serve()?;
        for transport in &args.common.transport {
            let cases =
                args.content.iter().flat_map(|content| args.pairs.iter().map(|pairs| (*content, *pairs)));
            for (content, pairs) in cases {
                ui.check_interrupt()?;
                let each = content.share(args.messages / u64::from(pairs));
                let done = run_pairs(&serving, *transport, pairs, (content, each))?;
                rate(&mut report, &transport.case(&content.case(&format!("live.pairs.{pairs}"))), &done);
            }
        }
    }
    args.common.draw(
        "Durable live streams, messages/s of all pairs",
        Scale::Linear,
        &report.bars("rate", None),
    )?;
    Ok(report)
}

/// Results of the consumers, counted from the start of the first producer.
fn run_pairs(
    serving: &Serving,
    transport: Transport,
    pairs: u32,
    (content, each): (Content, u64),
) -> Result<Vec<Done>, Failure> {
    let db = serving.connect()?;
    let names: Vec<String> = (0..pairs).map(|pair| format!("live{pair}")).collect();
    names.iter().try_for_each(|name| create(&db, name, content))?;
    let url = serving.url(transport);
    let of_each = || names.iter().map(|name| messages(url, name, content, each));
    let mut consumers = Worker::start_all(of_each().map(Follow))?;
    let mut producers = Worker::start_all(of_each().map(load_job))?;
    consumers.iter_mut().chain(&mut producers).try_for_each(Worker::go)?;
    let sent: Vec<Done> = producers.iter_mut().map(Worker::receive).collect::<Result<_, _>>()?;
    let began_ns = sent.iter().map(|done| done.began_ns).min().unwrap_or(0);
    let mut received = Vec::new();
    for (consumer, sent) in consumers.iter_mut().zip(&sent) {
        let done: Done = consumer.receive()?;
        done.check(sent)?;
        received.push(Done { began_ns, ..done });
    }
    names.iter().try_for_each(|name| db.delete_stream(name))?;
    Ok(received)
}
