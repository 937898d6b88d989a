//! History through a server: one stream for many consumers, or a stream for each; and loading it, by one loader or many.

use super::common::{Common, rate};
use super::jobs::{Done, Load, Messages, Read, run_all};
use super::serving::Serving;
use super::transport::Transport;
use crate::content::Content;
use crate::report::Report;
use crate::svg::Scale;
use crate::worker::Worker;
use tapedb_engine::{Database, StreamOptions};
use tapedb_terminal::{Failure, Ui, quantity::count};

/// History through a server: many consumers, each a process
///
/// A producer loads a stream (`load.remote`); it is sealed; then consumers read it all, touching every field: one stream
/// together (`read.one-stream.N`), or each its own stream (--streams; `read.streams.N`). Rates are of all consumers together,
/// from the start of the first to the end of the last. Counts and checksums must equal those of the producer.
/// `load.remote.loaders.N`: a producer with N loaders, each in a thread, over one connection;
/// `load.remote.connections.N`: each over its own connection.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Messages of each stream, such as 20M or 500k
    #[arg(long, value_name = "N", default_value = "20M", value_parser = count)]
    messages: u64,
    /// Consumers of one stream
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,2,4,10", value_parser = clap::value_parser!(u32).range(1..=256))]
    consumers: Vec<u32>,
    /// Also this many streams, each with its own consumer, such as 4,8,16
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=256))]
    streams: Vec<u32>,
    /// Content of the streams: bars, all of one size, or mixed messages of a level-2 feed, a quarter as many (`….mixed`)
    #[arg(long, value_name = "WHAT,…", value_delimiter = ',', default_value = "bars,mixed")]
    content: Vec<Content>,
    /// Also load bars with this many loaders at once; 0: off
    #[arg(long, value_name = "N", default_value_t = 25, value_parser = clap::value_parser!(u32).range(0..=64))]
    loaders: u32,
    #[command(flatten)]
    common: Common,
}

/// Runs the benchmark.
pub fn run(args: &Args, ui: &Ui) -> Result<Report, Failure> {
    let mut report = args.common.report("read")?;
    for run in 0..args.common.runs {
        ui.note(&format!("run {} of {}", run + 1, args.common.runs));
        let serving = args.common.serve()?;
        let db = serving.connect()?;
        for transport in &args.common.transport {
            for content in &args.content {
                one_stream(args, (&serving, &db), (*transport, *content), &mut report, ui)?;
            }
            if args.loaders > 0 {
                many_loaders(args, (&serving, &db), *transport, &mut report, ui)?;
            }
        }
        read_own(args, &serving, &db, &mut report, ui)?;
    }
    args.common.draw(
        "History through a server, messages/s of all consumers",
        Scale::Linear,
        &report.bars("rate", None),
    )?;
    Ok(report)
}

/// The stream that all consumers read.
const STREAM: &str = "one";

/// One stream, loaded and read.
fn one_stream(
    args: &Args,
    (serving, db): (&Serving, &Database),
    (transport, content): (Transport, Content),
    report: &mut Report,
    ui: &Ui,
) -> Result<(), Failure> {
    let messages = messages(serving.url(transport), STREAM, content, content.share(args.messages));
    let loaded = load(db, load_job(messages.clone()))?;
    rate(report, &transport.case(&content.case("load.remote")), &[loaded]);
    db.stream(STREAM)?.seal()?;
    for consumers in &args.consumers {
        ui.check_interrupt()?;
        read_one(serving, (transport, &messages), (*consumers, &loaded), report)?;
    }
    db.delete_stream(STREAM)?;
    Ok(())
}

/// One stream, many loaders at once: over one connection, and over one for each loader.
fn many_loaders(
    args: &Args,
    (serving, db): (&Serving, &Database),
    transport: Transport,
    report: &mut Report,
    ui: &Ui,
) -> Result<(), Failure> {
    let loaders = args.loaders;
    for (what, connections) in [("loaders", 1), ("connections", loaders)] {
        ui.check_interrupt()?;
        let messages = messages(serving.url(transport), STREAM, Content::Bars, args.messages);
        let loaded = load(db, Load { messages: messages.clone(), loaders, connections })?;
        rate(report, &transport.case(&format!("load.remote.{what}.{loaders}")), &[loaded]);
        run_all(&mut Worker::start_all([Read(messages)])?)?[0].check(&loaded)?;
        db.delete_stream(STREAM)?;
    }
    Ok(())
}

/// One stream, many consumers.
fn read_one(
    serving: &Serving,
    (transport, messages): (Transport, &Messages),
    (consumers, loaded): (u32, &Done),
    report: &mut Report,
) -> Result<(), Failure> {
    let mut readers = Worker::start_all((0..consumers).map(|_| Read(messages.clone())))?;
    let before = serving.cpu_ms();
    let done = run_all(&mut readers)?;
    let cpu_ms = serving.cpu_ms() - before;
    done.iter().try_for_each(|done| done.check(loaded))?;
    let case = |case: &str| transport.case(&messages.content.case(case));
    rate(report, &case(&format!("read.one-stream.{consumers}")), &done);
    if consumers == 1 {
        let per_million = cpu_ms * 1e6 / messages.messages as f64;
        report.add(&case("read.server-cpu"), "server", "ms/million messages", per_million);
    }
    Ok(())
}

/// A stream for each consumer: the largest number of streams is loaded, and each case reads the first ones.
fn read_own(
    args: &Args,
    serving: &Serving,
    db: &Database,
    report: &mut Report,
    ui: &Ui,
) -> Result<(), Failure> {
    let most = args.streams.iter().copied().max().unwrap_or(0);
    let names: Vec<String> = (0..most).map(|number| format!("bars{number}")).collect();
    let mut loaded = Vec::new();
    for name in &names {
        ui.check_interrupt()?;
        let messages = messages(serving.url(Transport::Tcp), name, Content::Bars, args.messages);
        loaded.push(load(db, load_job(messages))?);
        db.stream(name)?.seal()?;
    }
    for transport in &args.common.transport {
        let url = serving.url(*transport);
        for streams in &args.streams {
            ui.check_interrupt()?;
            let own = &names[..*streams as usize];
            let tasks = own.iter().map(|name| Read(messages(url, name, Content::Bars, args.messages)));
            let done = run_all(&mut Worker::start_all(tasks)?)?;
            done.iter().zip(&loaded).try_for_each(|(done, loaded)| done.check(loaded))?;
            rate(report, &transport.case(&format!("read.streams.{streams}")), &done);
        }
    }
    names.iter().try_for_each(|name| db.delete_stream(name))?;
    Ok(())
}

/// Creates a stream and loads it in a worker process.
fn load(db: &Database, job: Load) -> Result<Done, Failure> {
    let Messages { stream, messages: expected, content, .. } = &job.messages;
    let expected = *expected;
    create(db, stream, *content)?;
    let loaded = run_all(&mut Worker::start_all([job])?)?[0];
    if loaded.messages == expected {
        return Ok(loaded);
    }
    Err(Failure::new(format!("{expected} messages were to be loaded, not {}", loaded.messages)))
}

/// Creates a stream.
pub fn create(db: &Database, stream: &str, content: Content) -> Result<(), Failure> {
    db.create_stream(stream, content.schema(), StreamOptions::default())?;
    Ok(())
}

/// Messages of a stream.
pub fn messages(url: &str, stream: &str, content: Content, messages: u64) -> Messages {
    Messages { url: url.into(), stream: stream.into(), messages, content }
}

/// The job to load with one loader.
pub fn load_job(messages: Messages) -> Load {
    Load { messages, loaders: 1, connections: 1 }
}
