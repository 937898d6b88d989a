//! Steps that the cases share: seal, read as rows, check, size, rate.

use crate::content::fields_of;
use crate::fields::Fields;
use crate::pool::Tally;
use crate::report::Report;
use std::thread;
use std::time::Instant;
use tapedb_engine::{Cursor, Stream};
use tapedb_terminal::Failure;

/// Messages of a batch in `load.async`.
pub const BATCH: u64 = 1_000;

/// Seals the rest that maintenance has not sealed during the load; reports the rate of all messages since loading began.
pub fn seal(stream: &Stream, case: &str, loading: Instant, report: &mut Report) -> Result<(), Failure> {
    stream.seal()?;
    rate(report, case, stream.stats()?.messages, loading);
    Ok(())
}

/// Reads all rows with several readers at once.
pub fn rows<T: Fields>(
    stream: &Stream,
    case: &str,
    readers: u64,
    expected: Tally,
    report: &mut Report,
) -> Result<(), Failure> {
    let started = Instant::now();
    let tallies = from_each(readers, |_| read_all::<T>(stream));
    let seconds = started.elapsed().as_secs_f64();
    for tally in tallies {
        check(stream, expected, tally?)?;
    }
    report.add(case, "rate", "messages/s", (expected.messages * readers) as f64 / seconds);
    Ok(())
}

/// The messages of a stream, read as rows.
pub fn read_all<T: Fields>(stream: &Stream) -> Result<Tally, Failure> {
    let mut cursor: Cursor = stream.cursor().open()?;
    let mut tally = Tally::default();
    while let Some(message) = cursor.next()? {
        tally.add(message.time(), fields_of::<T>(&message));
    }
    Ok(tally)
}

/// Fails unless the messages read equal those written.
pub fn check(stream: &Stream, expected: Tally, found: Tally) -> Result<(), Failure> {
    if found == expected {
        return Ok(());
    }
    let name = stream.name();
    Err(Failure::new(format!("stream {name:?}: wrote {expected:?}, read {found:?}; please report this")))
}

/// Bytes of the stream's files per message.
pub fn size(stream: &Stream, case: &str, report: &mut Report) -> Result<(), Failure> {
    let stats = stream.stats()?;
    report.add(case, "size", "bytes/message", stats.bytes as f64 / stats.messages as f64);
    Ok(())
}

/// Messages a second since `started`.
pub fn rate(report: &mut Report, case: &str, messages: u64, started: Instant) {
    report.add(case, "rate", "messages/s", messages as f64 / started.elapsed().as_secs_f64());
}

/// The results of `work` on each of several threads.
pub fn from_each<R: Send>(threads: u64, work: impl Fn(u64) -> R + Sync) -> Vec<R> {
    thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..threads).map(|thread| scope.spawn(move || work(thread))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread panicked")).collect()
    })
}
