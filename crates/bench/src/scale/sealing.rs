//! One symbol of a sealed stream, and threads that seal.

use super::args::Args;
use super::crowd::{STREAM, Tick, symbol as symbol_name};
use crate::report::Report;
use crate::storage::ScratchDir;
use std::path::Path;
use std::thread;
use std::time::Instant;
use tapedb_codec::SchemaBuilder;
use tapedb_engine::{Database, ReadCounts, Stream, StreamOptions, SymbolId};
use tapedb_schema::Timestamp;
use tapedb_terminal::{Failure, Ui};

/// Nanoseconds between two messages: 100 million are a day.
const STEP_NS: u64 = 864_000;

/// Bytes that one symbol of many takes to read.
pub fn symbol(args: &Args, report: &mut Report, ui: &Ui) -> Result<(), Failure> {
    let dir = ScratchDir::beside(&args.db, "symbol");
    let db = Database::open(&dir.0)?;
    let stream = load(&db, args, ui)?;
    stream.seal()?;
    let bytes = |of: Option<&str>| -> Result<(u64, u64), Failure> {
        let before = ReadCounts::of_this_thread();
        let mut cursor = match of {
            Some(symbol) => stream.cursor().symbols([symbol]).open()?,
            None => stream.cursor().open()?,
        };
        let mut messages = 0;
        while let Some(message) = cursor.next()? {
            let tick: Tick = message.decode()?;
            if tick != Tick::of(message.sequence() / u64::from(args.symbols)) {
                return Err(Failure::new(format!(
                    "message {} is {tick:?}; please report this",
                    message.sequence()
                )));
            }
            messages += 1;
        }
        Ok((messages, ReadCounts::of_this_thread().since(before).bytes))
    };
    let wanted = symbol_name(u64::from(args.symbols) / 2);
    let ((all, all_bytes), (of_one, of_one_bytes)) = (bytes(None)?, bytes(Some(&wanted))?);
    let expected = args.messages / u64::from(args.symbols);
    if all != args.messages || !(expected..=expected + 1).contains(&of_one) {
        return Err(Failure::new(format!(
            "{all} messages, of which {of_one} are of {wanted}, are not {}; please report this",
            args.messages
        )));
    }
    report.add("scale.symbol", "bytes", "% of all", of_one_bytes as f64 * 100.0 / all_bytes.max(1) as f64);
    Ok(())
}

/// The rate at which callers seal together.
pub fn threads(args: &Args, threads: u32, report: &mut Report, ui: &Ui) -> Result<(), Failure> {
    let dir = ScratchDir::beside(&args.db, "seal");
    load(&Database::open_without_maintenance(&dir.0)?, args, ui)?;
    let stream = open(&dir.0)?;
    let started = Instant::now();
    thread::scope(|scope| {
        let sealing: Vec<_> = (0..threads).map(|_| scope.spawn(|| stream.seal())).collect();
        let ended = |_| panic!("a thread that seals has panicked");
        sealing.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(ended).map(drop))
    })?;
    let seconds = started.elapsed().as_secs_f64();
    let found = stream.cursor().count()?;
    if found != args.messages {
        return Err(Failure::new(format!("{found} messages are not {}; please report this", args.messages)));
    }
    report.add(&format!("scale.seal.threads.{threads}"), "rate", "messages/s", found as f64 / seconds);
    Ok(())
}

fn open(path: &Path) -> Result<Stream, Failure> {
    Ok(Database::open_without_maintenance(path)?.stream(STREAM)?)
}

/// Loads messages of all symbols in turn.
fn load(db: &Database, args: &Args, ui: &Ui) -> Result<Stream, Failure> {
    let schema = SchemaBuilder::new().with::<Tick>().finish();
    let stream = db.create_stream(STREAM, schema, StreamOptions::default())?;
    let mut loader = stream.loader()?;
    let symbols = u64::from(args.symbols);
    let names: Vec<String> = (0..symbols).map(symbol_name).collect();
    let ids: Vec<SymbolId> = loader.symbol_ids(&names)?;
    for number in 0..args.messages {
        if number % 100_000 == 0 {
            ui.check_interrupt()?;
        }
        let time = Timestamp((number * STEP_NS) as i64);
        loader.append_by_id(ids[(number % symbols) as usize], time, &Tick::of(number / symbols))?;
    }
    loader.flush()?;
    Ok(stream)
}
