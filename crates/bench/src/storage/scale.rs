//! How costs grow with the number of messages, and the cost of one symbol of many.

use super::args::Args;
use super::scratch::ScratchDir;
use super::stages::{Worker, bars};
use super::steps::{BATCH, check, rate, read_all};
use crate::content::fields_of;
use crate::pool::{Tally, bars_pool, load, tally_of_symbol};
use crate::report::Report;
use std::path::Path;
use std::time::Instant;
use tapedb_engine::Database;
use tapedb_market::Bar;
use tapedb_terminal::{Failure, Ui};

/// Each number of messages, smallest first.
pub fn measure(args: &Args, report: &mut Report, ui: &Ui) -> Result<(), Failure> {
    let mut amounts = args.scale.clone();
    amounts.sort_unstable();
    let largest = amounts.last().copied();
    for messages in amounts {
        ui.note(&format!("{messages} messages"));
        ui.check_interrupt()?;
        let suffix = if Some(messages) == largest { String::new() } else { format!(".{messages}") };
        one(args, messages, &suffix, report, ui)?;
    }
    Ok(())
}

fn one(args: &Args, messages: u64, suffix: &str, report: &mut Report, ui: &Ui) -> Result<(), Failure> {
    let dir = ScratchDir::beside(&args.db, "scale");
    let expected = {
        let db = Database::open(&dir.0)?;
        let (stream, pool, started) = (bars(&db)?, bars_pool(10), Instant::now());
        let expected = load(&stream, &pool, messages, BATCH, ui)?;
        rate(report, &format!("scale.load{suffix}"), messages, started);
        expected
    };
    // Maintenance that was not done when the database was closed is still to do.
    for _ in 0..args.runs {
        open(&dir.0, &format!("open.clean{suffix}"), expected, report)?;
    }
    {
        let stream = Database::open(&dir.0)?.stream(super::stages::STREAM)?;
        stream.seal()?;
        let started = Instant::now();
        check(&stream, expected, read_all::<Bar>(&stream)?)?;
        rate(report, &format!("scale.read.rows{suffix}"), messages, started);
    }
    for _ in 0..args.runs {
        let (_process, answer) = Worker::start("read", &dir.0, messages)?;
        let found = Tally { messages: answer[0], sum: answer[1] };
        if found != expected {
            return Err(Failure::new(format!("wrote {expected:?}, read {found:?}; please report this")));
        }
        report.add(&format!("rss.read{suffix}"), "memory", "MiB", answer[2] as f64 / f64::from(1 << 20));
    }
    drop(dir);
    let dir = ScratchDir::beside(&args.db, "killed");
    let (process, answer) = Worker::start("load", &dir.0, messages)?;
    drop(process);
    // Once: opening repairs the files after the kill, so a second time would measure something else.
    let expected = Tally { messages: answer[0], sum: answer[1] };
    open(&dir.0, &format!("open.killed{suffix}"), expected, report)?;
    let stream = Database::open_read_only(&dir.0)?.stream(super::stages::STREAM)?;
    check(&stream, expected, read_all::<Bar>(&stream)?)
}

/// Opens the database and its stream for writing.
fn open(path: &Path, case: &str, expected: Tally, report: &mut Report) -> Result<(), Failure> {
    let started = Instant::now();
    let db = Database::open_without_maintenance(path)?;
    let stream = db.stream(super::stages::STREAM)?;
    report.add(case, "time", "ms", started.elapsed().as_secs_f64() * 1e3);
    let found = stream.stats()?.messages;
    if found == expected.messages {
        return Ok(());
    }
    Err(Failure::new(format!(
        "{} messages were loaded, {found} were found; please report this",
        expected.messages
    )))
}

/// One symbol of many, compared with all.
pub fn symbol(args: &Args, report: &mut Report, ui: &Ui) -> Result<(), Failure> {
    let Some(&messages) = args.scale.iter().max() else { return Ok(()) };
    let dir = ScratchDir::beside(&args.db, "symbols");
    let db = Database::open(&dir.0)?;
    let (stream, pool) = (bars(&db)?, bars_pool(args.symbols));
    let all = load(&stream, &pool, messages, BATCH, ui)?;
    stream.seal()?;
    let wanted = pool.messages[pool.messages.len() / 2].1.clone();
    let expected = tally_of_symbol(&pool, messages, &wanted);
    for _ in 0..args.runs {
        let started = Instant::now();
        check(&stream, all, read_all::<Bar>(&stream)?)?;
        let all_seconds = started.elapsed().as_secs_f64();
        let mut found = Tally::default();
        let started = Instant::now();
        let mut cursor = stream.cursor().symbols([wanted.as_str()]).open()?;
        while let Some(message) = cursor.next()? {
            found.add(message.time(), fields_of::<Bar>(&message));
        }
        let seconds = started.elapsed().as_secs_f64();
        check(&stream, expected, found)?;
        report.add("read.symbol.all", "rate", "messages/s", all.messages as f64 / all_seconds);
        report.add("read.symbol", "time", "ms", seconds * 1e3);
        report.add("read.symbol", "faster", "times", all_seconds / seconds);
    }
    Ok(())
}
