//! Time of the book of a symbol at a time, from a stream with checkpoints.

use super::Args;
use crate::pool::feed_pool;
use crate::report::Report;
use crate::storage::Scratch;
use std::time::Instant;
use tapedb_engine::{Stream, StreamOptions};
use tapedb_market::Package;
use tapedb_market_streams::{BookAt, BookError, BookStart, CheckpointWriter, Every, Pass, StreamBooks};
use tapedb_schema::Timestamp;
use tapedb_terminal::{Failure, Ui};

/// Books that are asked for.
const BOOKS: usize = 200;

/// Loads and seals a stream, writes its checkpoints, and asks for books at times all over it.
pub fn measure(args: &Args, scratch: &Scratch, report: &mut Report, ui: &Ui) -> Result<(), Failure> {
    const CASE: &str = "market.book_at";
    let stream = scratch.stream::<Package>("feed", StreamOptions::default())?;
    let pool = feed_pool(args.messages)?;
    let (mut loader, mut loaded) = (stream.loader()?, 0);
    let mut round = 0;
    while loaded < args.messages {
        for (time, symbol, package) in &pool.messages {
            if loaded == args.messages {
                break;
            }
            loader.append(symbol, Timestamp(time.nanos() + round * pool.span_ns()), package)?;
            loaded += 1;
        }
        ui.check_interrupt()?;
        round += 1;
    }
    loader.flush()?;
    stream.seal()?;
    let started = Instant::now();
    let mut writer =
        CheckpointWriter::open(&scratch.db, &stream, Every::Messages(args.every)).map_err(failure)?;
    while writer.step(100_000).map_err(failure)? == Pass::More {
        ui.check_interrupt()?;
    }
    report.add(CASE, "write", "messages/s", args.messages as f64 / started.elapsed().as_secs_f64());
    let checkpoints = scratch.db.stream(&tapedb_market_streams::checkpoints_of("feed"))?;
    checkpoints.seal()?;
    report.add(
        CASE,
        "checkpoints",
        "bytes/message",
        checkpoints.stats()?.bytes as f64 / args.messages as f64,
    );
    let symbols = stream.symbols();
    let Some((first, last)) = stream.stats()?.times else { return Ok(()) };
    let mut times = Vec::new();
    for number in 0..BOOKS {
        ui.check_interrupt()?;
        // Steps of the golden ratio are all over the range.
        let part = (number as f64 * 0.618_033_988_75).fract();
        let at = Timestamp(first.nanos() + ((last.nanos() - first.nanos()) as f64 * part) as i64);
        let symbol = &symbols[number * 7 % symbols.len()];
        let started = Instant::now();
        let found = stream.book_at(&scratch.db, symbol, at).map_err(failure)?;
        times.push(started.elapsed().as_secs_f64() * 1e3);
        if number % 50 == 0 {
            check(&stream, scratch, symbol, &found)?;
        }
    }
    times.iter().for_each(|time| report.add(CASE, "time", "ms", *time));
    times.sort_by(f64::total_cmp);
    report.add(CASE, "p99", "ms", times[times.len() * 99 / 100]);
    Ok(())
}

/// A little later, the book of a replay from the checkpoint before is the same.
fn check(stream: &Stream, scratch: &Scratch, symbol: &str, found: &BookAt) -> Result<(), Failure> {
    let BookStart::Checkpoint(time) = found.start else { return Ok(()) };
    let earlier = Timestamp(time.nanos() - 1);
    let mut replay = tapedb_market_streams::BookReplay::new(stream).map_err(failure)?;
    let before = stream.book_at(&scratch.db, symbol, earlier).map_err(failure)?;
    let id = stream.symbols().iter().position(|of| of == symbol).unwrap_or(0) as u32;
    replay.restore(id, before.books);
    let mut cursor =
        stream.cursor().symbols([symbol]).from(time).to(Timestamp(found.time.nanos() + 1)).open()?;
    while let Some(message) = cursor.next()? {
        replay.apply(&message)?;
    }
    let parts = |books: Option<&tapedb_market::SymbolBooks>| books.and_then(|books| books.checkpoint());
    if parts(replay.books().symbol(id)) != parts(Some(&found.books)) {
        return Err(Failure::new("market.book_at: the book is not that of a replay; please report this"));
    }
    Ok(())
}

fn failure(error: BookError) -> Failure {
    Failure::new(error.to_string())
}
