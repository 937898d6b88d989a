//! One symbol of a sealed stream, and threads that seal.

use super::args::Args;
use super::crowd::{STREAM, Tick, symbol as symbol_name};
use crate::report::Report;
use crate::storage::ScratchDir;
use std::time::{Duration, Instant};
use tapedb_codec::SchemaBuilder;
use tapedb_engine::{Database, ReadCounts, Stream, StreamOptions, SymbolId, set_maintenance_threads};
use tapedb_schema::Timestamp;
use tapedb_terminal::{Failure, Ui};

/// Nanoseconds between two messages, on average: 100 million are a day.
const STEP_NS: u64 = 864_000;

/// A message: symbols in any order, at times that are not even.
struct Sent {
    symbol: u64,
    time: i64,
    tick: Tick,
}

impl Sent {
    fn of(number: u64, symbols: u64) -> Self {
        // The end of SplitMix64.
        let mut random = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        random = (random ^ random >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        random = (random ^ random >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        random ^= random >> 31;
        let time = (number * STEP_NS + (random >> 32) % STEP_NS) as i64;
        Self { symbol: random % symbols, time, tick: Tick::of(number / symbols) }
    }
}

/// Bytes that one symbol of many takes to read, and what all take.
pub fn symbol(args: &Args, report: &mut Report, ui: &Ui) -> Result<(), Failure> {
    let dir = ScratchDir::beside(&args.db, "symbol");
    let db = Database::open(&dir.0)?;
    let stream = load(&db, (STREAM, args.messages), StreamOptions::default(), args, ui)?;
    let started = Instant::now();
    stream.seal()?;
    report.add("scale.symbol", "sealed after loading", "s", started.elapsed().as_secs_f64());
    let names: Vec<String> = (0..u64::from(args.symbols)).map(symbol_name).collect();
    let wanted = u64::from(args.symbols) / 2;
    let started = Instant::now();
    let (all, all_bytes) = read(&stream, args, &names, None)?;
    let seconds = started.elapsed().as_secs_f64();
    let (of_one, of_one_bytes) = read(&stream, args, &names, Some(wanted))?;
    let expected =
        (0..args.messages).filter(|number| Sent::of(*number, u64::from(args.symbols)).symbol == wanted);
    if all != args.messages || of_one != expected.count() as u64 {
        return Err(Failure::new(format!(
            "{all} messages, of which {of_one} are of {}, are not {}; please report this",
            names[wanted as usize], args.messages
        )));
    }
    report.add("scale.symbol", "bytes", "% of all", of_one_bytes as f64 * 100.0 / all_bytes.max(1) as f64);
    let per_message = |bytes: u64| bytes as f64 / args.messages.max(1) as f64;
    report.add("scale.symbol", "size", "bytes/message", per_message(stream.stats()?.bytes));
    report.add("scale.symbol", "rows", "messages/s", all as f64 / seconds);
    for (metric, in_order) in [("columns", true), ("columns by symbol", false)] {
        let columns = stream.columns("Tick", ["number", "price", "size"]);
        let mut columns = if in_order { columns.in_time_order() } else { columns }.open()?;
        let (started, mut found) = (Instant::now(), 0);
        while let Some(chunk) = columns.next()? {
            found += chunk.len() as u64;
        }
        if found != all {
            return Err(Failure::new(format!("{found} rows as columns are not {all}; please report this")));
        }
        report.add("scale.symbol", metric, "messages/s", found as f64 / started.elapsed().as_secs_f64());
    }
    Ok(())
}

/// Reads and checks all messages, or those of one symbol; returns how many, and the bytes that were read for it.
fn read(stream: &Stream, args: &Args, names: &[String], wanted: Option<u64>) -> Result<(u64, u64), Failure> {
    let before = ReadCounts::of_this_thread();
    let mut cursor = match wanted {
        Some(symbol) => stream.cursor().symbols([&names[symbol as usize]]).open()?,
        None => stream.cursor().open()?,
    };
    let (mut messages, mut next) = (0, 0);
    while let Some(message) = cursor.next()? {
        let (number, tick): (u64, Tick) = (message.sequence(), message.decode()?);
        let sent = Sent::of(number, u64::from(args.symbols));
        let is_right = tick == sent.tick
            && message.time().0 == sent.time
            && message.symbol() == names[sent.symbol as usize]
            && number >= next
            && wanted.is_none_or(|wanted| wanted == sent.symbol);
        if !is_right {
            return Err(Failure::new(format!("message {number} is {tick:?}; please report this")));
        }
        next = number + 1;
        messages += 1;
    }
    Ok((messages, ReadCounts::of_this_thread().since(before).bytes))
}

/// The rate at which maintenance with so many threads seals streams.
pub fn threads(args: &Args, threads: u32, report: &mut Report, ui: &Ui) -> Result<(), Failure> {
    let dir = ScratchDir::beside(&args.db, "seal");
    let names: Vec<String> = (0..SEALED_STREAMS).map(|number| format!("{STREAM}{number}")).collect();
    let messages = args.messages / SEALED_STREAMS;
    {
        let db = Database::open_without_maintenance(&dir.0)?;
        for name in &names {
            // The file that is appended to is complete at once.
            let options = StreamOptions { seal_after: Some(Duration::ZERO), ..StreamOptions::default() };
            load(&db, (name, messages), options, args, ui)?;
        }
    }
    set_maintenance_threads(threads as usize);
    let db = Database::open(&dir.0)?;
    let streams = names.iter().map(|name| db.stream(name)).collect::<Result<Vec<_>, _>>()?;
    let started = Instant::now();
    for name in &names {
        while sealed(&db, name)? < messages {
            ui.check_interrupt()?;
            if started.elapsed() > SEALING_MAX {
                return Err(Failure::new(format!("{name} is not sealed after {SEALING_MAX:?}")));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    let mut found = 0;
    for stream in &streams {
        found += stream.cursor().count()?;
    }
    if found != messages * SEALED_STREAMS {
        return Err(Failure::new(format!("{found} messages are not {}; please report this", args.messages)));
    }
    report.add(&format!("scale.seal.threads.{threads}"), "rate", "messages/s", found as f64 / seconds);
    Ok(())
}

/// Each is sealed by one thread at a time, which another one helps where a processor is idle.
const SEALED_STREAMS: u64 = 2;
/// Sealing takes no longer, whatever the machine.
const SEALING_MAX: Duration = Duration::from_secs(3600);

/// Messages of a stream that are in segments.
fn sealed(db: &Database, name: &str) -> Result<u64, Failure> {
    Ok(db.stored(name)?.parts(0)?.iter().map(|part| part.messages).sum())
}

/// Loads messages of all symbols.
fn load(
    db: &Database,
    (name, messages): (&str, u64),
    options: StreamOptions,
    args: &Args,
    ui: &Ui,
) -> Result<Stream, Failure> {
    let schema = SchemaBuilder::new().with::<Tick>().finish();
    let stream = db.create_stream(name, schema, options)?;
    let mut loader = stream.loader()?;
    let symbols = u64::from(args.symbols);
    let names: Vec<String> = (0..symbols).map(symbol_name).collect();
    let ids: Vec<SymbolId> = loader.symbol_ids(&names)?;
    for number in 0..messages {
        if number % 100_000 == 0 {
            ui.check_interrupt()?;
        }
        let sent = Sent::of(number, symbols);
        loader.append_by_id(ids[sent.symbol as usize], Timestamp(sent.time), &sent.tick)?;
    }
    loader.flush()?;
    Ok(stream)
}
