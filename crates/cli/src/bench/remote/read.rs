//! History through a server: one stream for many consumers, or a stream for each; and loading it.

use super::worker::{Done, Task, Work, Worker, run_all};
use super::{Common, Transport, rate};
use crate::args::count;
use crate::bench::report::Report;
use crate::bench::svg::Scale;
use crate::failure::Failure;
use crate::ui::Ui;
use tapedb_codec::SchemaBuilder;
use tapedb_engine::{Database, StreamOptions};
use tapedb_market::Bar;

use super::serving::Serving;

/// History through a server: many consumers, each a process
///
/// A producer loads bars (`load.remote`); they are sealed; then consumers read them all, touching every field: one stream
/// together (`read.one-stream.N`), or each a stream of its own (--streams; `read.streams.N`). Rates are of all consumers
/// together, from when the first begins to when the last is done. Counts and checksums must be those of the producer.
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
            let loaded = load(&serving, &db, "bars", args.messages, *transport)?;
            rate(&mut report, &transport.case("load.remote"), &[loaded]);
            db.stream("bars")?.seal()?;
            for consumers in &args.consumers {
                ui.check_interrupt()?;
                read_one(args, &serving, *transport, (*consumers, &loaded), &mut report)?;
            }
            db.delete_stream("bars")?;
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

/// One stream, many consumers.
fn read_one(
    args: &Args,
    serving: &Serving,
    transport: Transport,
    (consumers, loaded): (u32, &Done),
    report: &mut Report,
) -> Result<(), Failure> {
    let url = serving.url(transport);
    let mut readers =
        Worker::start_all((0..consumers).map(|_| Task::Read(work(url, "bars", args.messages))))?;
    let before = serving.cpu_ms();
    let done = run_all(&mut readers)?;
    let cpu_ms = serving.cpu_ms() - before;
    done.iter().try_for_each(|done| done.check(loaded))?;
    rate(report, &transport.case(&format!("read.one-stream.{consumers}")), &done);
    if consumers == 1 {
        let case = transport.case("read.server-cpu");
        report.add(&case, "server", "ms/million messages", cpu_ms * 1e6 / args.messages as f64);
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
        loaded.push(load(serving, db, name, args.messages, Transport::Tcp)?);
        db.stream(name)?.seal()?;
    }
    for transport in &args.common.transport {
        let url = serving.url(*transport);
        for streams in &args.streams {
            ui.check_interrupt()?;
            let own = &names[..*streams as usize];
            let tasks = own.iter().map(|name| Task::Read(work(url, name, args.messages)));
            let done = run_all(&mut Worker::start_all(tasks)?)?;
            done.iter().zip(&loaded).try_for_each(|(done, loaded)| done.check(loaded))?;
            rate(report, &transport.case(&format!("read.streams.{streams}")), &done);
        }
    }
    names.iter().try_for_each(|name| db.delete_stream(name))?;
    Ok(())
}

/// Makes a stream and loads it, by a process of its own.
fn load(
    serving: &Serving,
    db: &Database,
    stream: &str,
    messages: u64,
    transport: Transport,
) -> Result<Done, Failure> {
    create(db, stream)?;
    let mut loader = Worker::start_all([Task::Load(work(serving.url(transport), stream, messages))])?;
    Ok(run_all(&mut loader)?[0])
}

/// Makes a stream of bars.
pub fn create(db: &Database, stream: &str) -> Result<(), Failure> {
    db.create_stream(stream, SchemaBuilder::new().with::<Bar>().finish(), StreamOptions::default())?;
    Ok(())
}

/// Bars of a stream.
pub fn work(url: &str, stream: &str, messages: u64) -> Work {
    Work { url: url.into(), stream: stream.into(), messages }
}
