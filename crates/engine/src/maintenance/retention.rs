//! Maintenance by age and size: purges the oldest parts, begins a new log file so that the last one can be sealed, and selects
//! segments for the cold tier.
//!
//! Ages are relative to the stream's latest message, or to the clock where that message is in the future: replayed data of last
//! year is not old, and one wrong time from a feed does not make all other messages old.

use crate::clock::now;
use crate::error::Error;
use crate::maintenance::context::MaintenanceContext;
use crate::options::{Retention, StreamOptions};
use crate::space::Space;
use crate::space::catalog::Content;
use crate::space::parts::Totals;
use crate::stream::reader::StreamReader;
use crate::stream::writer::StreamWriter;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tapedb_segment::Tier;

/// A merged part has at most the n-th fraction of the retained bytes or time: up to that much is retained too long.
const PARTS_RETAINED: u64 = 8;

/// Purges the parts that exceed the stream's retention. The part with the latest message stays, and so do messages in log
/// files. The caller does not hold maintenance of any space.
pub(crate) fn retire(stream: &StreamReader, writer: &StreamWriter) -> Result<(), Error> {
    if !is_retiring_due(stream, writer) {
        return Ok(());
    }
    let retention = stream.settings.get().retention;
    let Some(latest) = latest(writer) else { return Ok(()) };
    let expired = expired(writer, retention, latest);
    for space in &writer.spaces {
        let numbers: Vec<u64> =
            expired.iter().filter(|part| part.space == space.number).map(|part| part.number).collect();
        if !numbers.is_empty() {
            // Work on these parts is finished first, or its result would restore them.
            let _maintenance = space.hold_maintenance();
            space.change_catalog(|catalog| {
                stream.check_not_deleted().ok()?;
                catalog.without(&numbers)
            })?;
        }
    }
    Ok(())
}

/// Whether [`retire`] may have something to do.
pub(crate) fn is_retiring_due(stream: &StreamReader, writer: &StreamWriter) -> bool {
    let retention = stream.settings.get().retention;
    retention != Retention::default()
        && latest(writer).is_some_and(|latest| may_expire(writer, retention, latest))
}

/// Whether there may be something to purge, by totals alone.
fn may_expire(writer: &StreamWriter, retention: Retention, latest: i64) -> bool {
    let oldest = retention.age.map_or(i64::MIN, |age| before(reference(latest), age));
    let totals: Vec<Totals> = writer.spaces.iter().map(|space| space.catalog().parts.totals()).collect();
    let bytes = || {
        let in_log = writer.spaces.iter().map(|space| log_bytes(space)).sum::<u64>();
        totals.iter().fold(in_log, |bytes, totals| bytes.saturating_add(totals.bytes))
    };
    totals.iter().any(|totals| totals.oldest < oldest) || retention.bytes.is_some_and(|most| bytes() > most)
}

/// A segment that may be purged.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    space: u32,
    number: u64,
    time_max: i64,
    bytes: u64,
}

/// The parts to purge.
fn expired(writer: &StreamWriter, retention: Retention, latest: i64) -> Vec<Candidate> {
    let mut parts: Vec<Candidate> = writer.spaces.iter().flat_map(|space| candidates(space)).collect();
    parts.sort_unstable_by_key(|part| (part.time_max, part.space, part.number));
    let mut bytes = parts.iter().map(|part| part.bytes).sum::<u64>();
    bytes += writer.spaces.iter().map(|space| log_bytes(space)).sum::<u64>();
    let oldest = retention.age.map_or(i64::MIN, |age| before(reference(latest), age));
    let too_many = retention.bytes.unwrap_or(u64::MAX);
    let is_expired = |part: &Candidate| {
        let is_expired = part.time_max < latest && (part.time_max < oldest || bytes > too_many);
        bytes -= part.bytes;
        is_expired
    };
    // Sorted by age: all parts after one that stays also stay.
    parts.into_iter().take_while(is_expired).collect()
}

fn candidates(space: &Space) -> Vec<Candidate> {
    let catalog = space.catalog();
    let of = |content: &Content| {
        let Content { number, time_max, bytes, .. } = *content;
        Candidate { space: space.number, number, time_max, bytes }
    };
    catalog.contents().map(of).collect()
}

/// Bytes of messages in log files.
fn log_bytes(space: &Space) -> u64 {
    let (catalog, snapshot) = space.view();
    let unsealed = snapshot.iter().filter(|granule| granule.next_sequence() > catalog.sealed);
    unsealed.map(|granule| u64::from(granule.len)).sum()
}

/// Time of the latest message of a stream; `None` while there is none.
fn latest(writer: &StreamWriter) -> Option<i64> {
    let latest = writer.spaces.iter().map(|space| space.last_time.load(Ordering::Relaxed)).max();
    latest.filter(|latest| *latest > i64::MIN)
}

/// The time from which ages are measured.
fn reference(latest: i64) -> i64 {
    latest.min(now().0)
}

fn before(time: i64, age: Duration) -> i64 {
    time.saturating_sub(i64::try_from(age.as_nanos()).unwrap_or(i64::MAX))
}

/// Whether a message is older than an age.
pub(crate) fn is_older(writer: &StreamWriter, time: i64, age: Duration) -> bool {
    latest(writer).is_some_and(|latest| time < before(reference(latest), age))
}

/// The tier of a segment whose latest message has a time.
pub(crate) fn tier_for(context: MaintenanceContext<'_>, time_max: i64) -> Tier {
    let is_cold = match context.stream.settings.get().cold_after {
        None => false,
        Some(Duration::ZERO) => true,
        Some(age) => latest(context.writer).is_some_and(|latest| time_max < before(reference(latest), age)),
    };
    if is_cold { Tier::Cold } else { Tier::Hot }
}

/// Maximum bytes, and maximum time in nanoseconds, of parts that are merged.
pub(crate) fn merged_max(options: &StreamOptions, bytes_max: u64) -> (u64, u64) {
    let Retention { age, bytes } = options.retention;
    let span = age.map_or(u64::MAX, |age| u64::try_from(age.as_nanos()).unwrap_or(u64::MAX) / PARTS_RETAINED);
    (bytes.map_or(bytes_max, |bytes| bytes_max.min(bytes / PARTS_RETAINED)), span)
}

/// Whether the active log file has had messages for the time in the stream's options. The first call that finds one in it notes that.
pub(crate) fn is_roll_due(context: MaintenanceContext<'_>) -> bool {
    let MaintenanceContext { stream, space, .. } = context;
    let Some(after) = stream.settings.get().seal_after else { return false };
    match (active_start(space), &mut *space.active_since()) {
        (None, since) => {
            *since = None;
            false
        }
        (Some(start), Some((noted, since))) if *noted == start => since.elapsed() >= after,
        (Some(start), since) => {
            *since = Some((start, Instant::now()));
            after.is_zero()
        }
    }
}

/// Begins a new log file if the active one has had messages for the time in the stream's options.
pub(crate) fn roll_if_due(context: MaintenanceContext<'_>) -> Result<(), Error> {
    if is_roll_due(context) && context.space.writer.roll()? {
        // Rolling makes messages visible for which loaders still wait.
        context.stream.notify();
    }
    Ok(())
}

/// First sequence number in the active log file; `None` while it has no message.
fn active_start(space: &Space) -> Option<u64> {
    let complete = space.log.complete_files().last().map(|file| file.next_sequence);
    let start = complete.unwrap_or_else(|| space.log.first_sequence()).max(space.catalog().sealed);
    (space.log.next_sequence() > start).then_some(start)
}
