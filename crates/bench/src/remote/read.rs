//! History through a server: one stream for many consumers, or a stream for each; and loading it, by one loader or many.

use super::worker::{Done, Loading, Task, Work, Worker, run_all};
use super::{Common, Transport, rate};
use crate::content::Content;
use crate::report::Report;
use crate::svg::Scale;
use tapedb_engine::{Database, StreamOptions};
use tapedb_terminal::{Failure, Ui, quantity::count};

use super::serving::Serving;

/// History through a server: many consumers, each a process
///
/// A producer loads a stream (`load.remote`); it is sealed; then consumers read it all, touching every field: one stream
/// together (`read.one-stream.N`), or each a stream of its own (--streams; `read.streams.N`). Rates are of all consumers
/// together, from when the first begins to when the last is done. Counts and checksums must be those of the producer.
/// `load.remote.loaders.N`: a producer with N loaders at once, each in a thread, over one connection;
/// `load.remote.connections.N`: each over a connection of its own.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Messages of each stream, such as 20M or 500k
    #[arg(long, value_name = "N", default_value = "20M", value_parser = count)]
    messages: u64,
    /// Consumers of one stream
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,2,4,10", value_parser = clap::value_parser!(u32).range(1..=256))]
    consumers: Vec<u32>,
    /// Also so many streams, each with a consumer of its own, such as 4,8,16
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=256))]
    streams: Vec<u32>,
    /// What streams hold: bars, which are all alike, or mixed messages of a level-2 feed, a quarter as many (`….mixed`)
    #[arg(long, value_name = "WHAT,…", value_delimiter = ',', default_value = "bars,mixed")]
    content: Vec<Content>,
    /// Also load bars with so many loaders at once; 0: not
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

/// The stream that all read.
const STREAM: &str = "one";

/// One stream, loaded and read.
fn one_stream(
    args: &Args,
    (serving, db): (&Serving, &Database),
    (transport, content): (Transport, Content),
    report: &mut Report,
    ui: &Ui,
) -> Result<(), Failure> {
    let work = work(serving.url(transport), STREAM, content, content.share(args.messages));
    let loaded = load(db, load_task(work.clone()), &work)?;
    rate(report, &transport.case(&content.case("load.remote")), &[loaded]);
    db.stream(STREAM)?.seal()?;
    for consumers in &args.consumers {
        ui.check_interrupt()?;
        read_one(serving, (transport, &work), (*consumers, &loaded), report)?;
    }
    db.delete_stream(STREAM)?;
    Ok(())
}

/// One stream, many loaders at once: over one connection, and over as many.
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
        let work = work(serving.url(transport), STREAM, Content::Bars, args.messages);
        let loading = Loading { work: work.clone(), loaders, connections };
        let loaded = load(db, Task::Load(loading), &work)?;
        rate(report, &transport.case(&format!("load.remote.{what}.{loaders}")), &[loaded]);
        run_all(&mut Worker::start_all([Task::Read(work)])?)?[0].check(&loaded)?;
        db.delete_stream(STREAM)?;
    }
    Ok(())
}

/// One stream, many consumers.
fn read_one(
    serving: &Serving,
    (transport, work): (Transport, &Work),
    (consumers, loaded): (u32, &Done),
    report: &mut Report,
) -> Result<(), Failure> {
    let mut readers = Worker::start_all((0..consumers).map(|_| Task::Read(work.clone())))?;
    let before = serving.cpu_ms();
    let done = run_all(&mut readers)?;
    let cpu_ms = serving.cpu_ms() - before;
    done.iter().try_for_each(|done| done.check(loaded))?;
    let case = |case: &str| transport.case(&work.content.case(case));
    rate(report, &case(&format!("read.one-stream.{consumers}")), &done);
    if consumers == 1 {
        let per_million = cpu_ms * 1e6 / work.messages as f64;
        report.add(&case("read.server-cpu"), "server", "ms/million messages", per_million);
    }
    Ok(())
}

/// A stream for each consumer: as many streams as are asked for at most, of which each case reads the first ones.
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
        let work = work(serving.url(Transport::Tcp), name, Content::Bars, args.messages);
        loaded.push(load(db, load_task(work.clone()), &work)?);
        db.stream(name)?.seal()?;
    }
    for transport in &args.common.transport {
        let url = serving.url(*transport);
        for streams in &args.streams {
            ui.check_interrupt()?;
            let own = &names[..*streams as usize];
            let tasks = own.iter().map(|name| Task::Read(work(url, name, Content::Bars, args.messages)));
            let done = run_all(&mut Worker::start_all(tasks)?)?;
            done.iter().zip(&loaded).try_for_each(|(done, loaded)| done.check(loaded))?;
            rate(report, &transport.case(&format!("read.streams.{streams}")), &done);
        }
    }
    names.iter().try_for_each(|name| db.delete_stream(name))?;
    Ok(())
}

/// Makes a stream and has it loaded, by a process of its own.
fn load(db: &Database, task: Task, work: &Work) -> Result<Done, Failure> {
    create(db, &work.stream, work.content)?;
    let loaded = run_all(&mut Worker::start_all([task])?)?[0];
    if loaded.messages == work.messages {
        return Ok(loaded);
    }
    Err(Failure::new(format!("{} messages were to be loaded, not {}", work.messages, loaded.messages)))
}

/// Makes a stream.
pub fn create(db: &Database, stream: &str, content: Content) -> Result<(), Failure> {
    db.create_stream(stream, content.schema(), StreamOptions::default())?;
    Ok(())
}

/// Messages of a stream.
pub fn work(url: &str, stream: &str, content: Content, messages: u64) -> Work {
    Work { url: url.into(), stream: stream.into(), messages, content }
}

/// Loads with one loader.
pub fn load_task(work: Work) -> Task {
    Task::Load(Loading { work, loaders: 1, connections: 1 })
}
