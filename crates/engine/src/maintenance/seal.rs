//! Makes segments: from complete log files, and from segments that are many and small or hold deleted messages.
//!
//! Merging copies blocks that are about full and have lost no message; the rows of others are encoded again.
//!
//! Of a damaged log file the readable messages are sealed; the part records how many could not be read, and the file is kept
//! ([`crate::space::quarantine`]). A damaged segment is left as it is: some of its columns may still be readable.

use crate::error::Error;
use crate::interrupt;
use crate::maintenance::choose::{self, kept_version, merging, tier_of};
use crate::maintenance::context::MaintenanceContext;
use crate::maintenance::cut::{Cut, cut};
use crate::maintenance::forced;
use crate::maintenance::pace::{Pace, has_two_processors};
use crate::maintenance::part::{Work, commit, commit_sealed, discard, write_part};
use crate::maintenance::retention::{merged_max, tier_for};
use crate::maintenance::strands::{strands_for, write_merged};
use crate::maintenance::verify::{is_wrong_content, report_source};
use crate::options::Retention;
use crate::read::history::History;
use crate::space::Apart;
use crate::space::catalog::Part;
use crate::space::parts::Totals;
use crate::space::quarantine::quarantine_damaged;
use crate::space::seal_queue::{FILES_TOGETHER, Taken, Written};
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};
use std::thread;
use std::time::Duration;
use tapedb_log::{CompleteFile, Granule};
use tapedb_segment::Tier;

/// Parts are not merged into larger ones than this: eight of what sealing makes, and eight of those.
const MERGED_BYTES_MAX: u64 = 4 << 30;

/// Seals all messages of the log, also those in the active file; returns their number.
pub(crate) fn seal_all(context: MaintenanceContext<'_>) -> Result<u64, Error> {
    let _waiting = context.space.seal_queue.wait();
    let (_maintenance, helped) = hold_or_help(context)?;
    // A deletion, a rename and a change of the schema hold it too: nothing is written to files of another stream with the name,
    // and nothing of a new version of the schema is sealed as of an old one.
    context.stream.check_not_deleted()?;
    context.stream.check_not_outdated()?;
    if context.space.writer.roll()? {
        // Rolling makes messages visible for which loaders still wait.
        context.stream.notify();
    }
    let (mut pace, sealed) = (Pace::immediate(), seal_complete(context)?);
    while merge_next(context, &mut pace)? {}
    while chill_next(context, &mut pace)? {}
    interrupt::check()?;
    Ok(helped + sealed)
}

/// Holds the space's maintenance. While another thread holds it and seals, this one seals files beside it; returns how many
/// messages.
///
/// # Errors
/// When the calling thread is interrupted.
fn hold_or_help(context: MaintenanceContext<'_>) -> Result<(MutexGuard<'_, ()>, u64), Error> {
    let helped = Arc::new(AtomicU64::new(0));
    loop {
        if let Some(held) = context.space.try_hold_maintenance() {
            return Ok((held, helped.load(Ordering::Relaxed)));
        }
        interrupt::check()?;
        // A thread that stops maintenance waits for the leader alone.
        let may_help = has_two_processors() && !context.space.is_interrupted();
        let taken = if may_help { take(context) } else { None };
        let Some(taken) = taken else {
            // The leader has committed what it could.
            let held = hold(context)?;
            return Ok((held, helped.load(Ordering::Relaxed)));
        };
        let parts = write(context, &taken, &mut Pace::helping());
        taken.finish_helped(parts, &helped);
    }
}

/// Waits for the space's maintenance.
///
/// # Errors
/// When the calling thread is interrupted.
fn hold(context: MaintenanceContext<'_>) -> Result<MutexGuard<'_, ()>, Error> {
    // A thread that cannot be interrupted sleeps until it has its turn.
    while interrupt::slice(Duration::MAX) < Duration::MAX {
        interrupt::check()?;
        match context.space.try_hold_maintenance() {
            Some(held) => return Ok(held),
            None => thread::sleep(HOLD_INTERVAL),
        }
    }
    Ok(context.space.hold_maintenance())
}

/// How often an interruptible thread tries to hold maintenance.
const HOLD_INTERVAL: Duration = Duration::from_millis(2);

/// Seals all complete log files; returns their number of messages. The caller holds the space's maintenance.
pub(crate) fn seal_complete(context: MaintenanceContext<'_>) -> Result<u64, Error> {
    let (mut pace, mut sealed) = (Pace::immediate(), 0);
    while let Some(count) = seal_next(context, &mut pace)? {
        sealed += count;
    }
    // What was sealed before stays.
    interrupt::check()?;
    context.space.refused.why(context.space.catalog().sealed).map_or(Ok(sealed), Err)
}

/// Seals the oldest complete log file, and those that other threads seal beside it, where a processor has nothing else to do or a
/// caller waits; without pauses all. Returns the number of messages, or `None` if there is no such file, it could not be sealed
/// before, or the work was stopped. The caller holds the space's maintenance.
pub(crate) fn seal_next(context: MaintenanceContext<'_>, pace: &mut Pace<'_>) -> Result<Option<u64>, Error> {
    let catalog = context.space.catalog();
    if context.space.refused.why(catalog.sealed).is_some() {
        return Ok(None);
    }
    let files = context.space.log.complete_files();
    let mut unsealed = files.iter().filter(|file| file.next_sequence > catalog.sealed);
    let Some(file) = unsealed.next() else {
        // Files that an earlier attempt sealed and could not remove.
        trim(context, catalog.sealed)?;
        return Ok(None);
    };
    pace.backlog(files.len());
    if file.first_sequence > catalog.sealed {
        // The files before it are missing.
        let (sequences, lost) = (catalog.sealed..file.first_sequence, file.first_sequence - catalog.sealed);
        return commit(context, Part { sequences, lost, content: None }, &[]).map(|_| Some(0));
    }
    let has_thread = unsealed.next().is_some_and(is_worth_a_thread) && pace.has_second_processor(context);
    seal_together(context, has_thread, pace)
}

/// Whether [`seal_next`] may have something to do.
pub(crate) fn is_sealing_due(context: MaintenanceContext<'_>) -> bool {
    // There is always the one that is appended to, which is not complete.
    let sealed = context.space.catalog().sealed;
    !context.space.log.complete_files().is_empty() && context.space.refused.why(sealed).is_none()
}

/// Whether [`merge_next`] or [`chill_next`] may have something to do.
pub(crate) fn is_tidying_due(context: MaintenanceContext<'_>) -> bool {
    let (catalog, settings) = (context.space.catalog(), context.stream.settings.get());
    let of = merging(&context.space.apart(), merged_max(&settings, MERGED_BYTES_MAX));
    let is_merged = context.space.merged(of).is_some_and(|known| Arc::ptr_eq(&known, &catalog));
    let may_be = |totals: &Totals| may_chill(context, totals);
    !is_merged || settings.cold_after.is_some() && catalog.parts.of_chunks(may_be).next().is_some()
}

/// Whether a segment of these may have become old.
fn may_chill(context: MaintenanceContext<'_>, totals: &Totals) -> bool {
    totals.oldest_hot_file < i64::MAX && tier_for(context, totals.oldest_hot_file) == Tier::Cold
}

/// Seals files from the queue, and with a second thread if `has_thread`.
fn seal_together(
    context: MaintenanceContext<'_>,
    has_thread: bool,
    pace: &mut Pace<'_>,
) -> Result<Option<u64>, Error> {
    let queue = &context.space.seal_queue;
    let leftovers = Leftovers(context);
    queue.open(context.stream.definition.schema_version, context.space.catalog().sealed);
    let ended = AtomicBool::new(false);
    let mut beside = pace.beside(&ended);
    let led = thread::scope(|scope| {
        let closing = queue.closing();
        // The oldest one is this thread's.
        let first = take(context);
        let work = || {
            while let Some(taken) = take(context) {
                let parts = write(context, &taken, &mut beside);
                taken.finish(parts);
            }
            beside.end();
        };
        // Without a thread all files are left to this one.
        let thread =
            has_thread.then(|| thread::Builder::new().name("tapedb-seal".into()).spawn_scoped(scope, work));
        let led = lead(context, first, pace);
        drop(closing);
        ended.store(interrupt::is_interrupted(), Ordering::Relaxed);
        if let Some(Ok(thread)) = thread {
            thread.join().unwrap_or_else(|panic| resume_unwind(panic));
        }
        led
    });
    pace.note_beside(&beside);
    drop(leftovers);
    led
}

/// When it is dropped, also by a panic, what the queue holds is discarded: there is something only where a file before it could not be
/// sealed.
struct Leftovers<'a>(MaintenanceContext<'a>);

impl Drop for Leftovers<'_> {
    fn drop(&mut self) {
        for left in self.0.space.seal_queue.end() {
            let parts = left.parts.ok().flatten().unwrap_or_default();
            parts.iter().for_each(|part| discard(self.0, part));
        }
    }
}

/// Seals files, and commits what all threads have written, in order: parts follow each other without holes. Returns the number
/// of messages; `None`: the work was stopped. Where only the work of another thread was, its file is left to the next call.
fn lead<'a>(
    context: MaintenanceContext<'a>,
    first: Option<Taken<'a>>,
    pace: &mut Pace<'_>,
) -> Result<Option<u64>, Error> {
    let queue = &context.space.seal_queue;
    let (mut next, mut messages, mut files, mut is_stopped) = (first, 0, 0, false);
    loop {
        if let Some(taken) = next.take() {
            let parts = write(context, &taken, pace);
            is_stopped |= matches!(parts, Ok(None));
            files += taken.files.len();
            taken.finish(parts);
        }
        let unless_stopped = |messages: u64| (!is_stopped).then_some(messages);
        while let Some(written) = queue.written_at(context.space.catalog().sealed) {
            match commit_written(context, written)? {
                Some(count) => messages += count,
                None => return Ok(unless_stopped(messages)),
            }
        }
        let is_enough = pace.is_in_background() && (files >= FILES_AT_ONCE || !queue.is_shared());
        if !is_enough {
            next = take(context);
            if next.is_some() {
                continue;
            }
        }
        queue.close();
        match queue.wait_for(context.space.catalog().sealed) {
            Some(written) => match commit_written(context, written)? {
                Some(count) => messages += count,
                None => return Ok(unless_stopped(messages)),
            },
            None => return Ok(Some(messages)),
        }
    }
}

/// Log files that are sealed in the background before other maintenance has its turn.
const FILES_AT_ONCE: usize = 16;

/// Whether a file is large enough to be sealed in a thread of its own.
fn is_worth_a_thread(file: &CompleteFile) -> bool {
    file.bytes >= THREAD_BYTES_MIN || forced::are_two_threads()
}

/// Files of fewer bytes are sealed sooner than a thread starts.
const THREAD_BYTES_MIN: u64 = 1 << 20;

/// Takes the next files from the queue: one, if segments are purged one by one.
fn take(context: MaintenanceContext<'_>) -> Option<Taken<'_>> {
    let version = context.stream.definition.schema_version;
    let Retention { age, bytes } = context.stream.settings.get().retention;
    let most = if age.is_none() && bytes.is_none() { FILES_TOGETHER } else { 1 };
    context.space.seal_queue.take(version, most, || context.space.log.complete_files())
}

/// Writes the segment of the messages of some files, or several: where one of the files is damaged, and where not all messages can be
/// converted to the newest version of the schema. They are not in the manifest yet. `None`: the work was stopped.
fn write(
    context: MaintenanceContext<'_>,
    taken: &Taken<'_>,
    pace: &mut Pace<'_>,
) -> Result<Option<Vec<Part>>, Error> {
    let written = write_files(context, taken.sequences.clone(), &taken.files, pace)?;
    let is_damaged = |parts: &Vec<Part>| parts.iter().any(|part| part.lost > 0);
    if taken.files.len() == 1 || !written.as_ref().is_some_and(is_damaged) {
        return Ok(written);
    }
    // One by one, so that only the damaged files are kept beside the segments.
    written.iter().flatten().for_each(|part| discard(context, part));
    let mut parts = Vec::new();
    for file in &taken.files {
        let sequences = file.first_sequence.max(taken.sequences.start)..file.next_sequence;
        match write_files(context, sequences, std::slice::from_ref(file), pace) {
            Ok(Some(of_file)) => parts.extend(of_file),
            unfinished => {
                parts.iter().for_each(|part| discard(context, part));
                return unfinished;
            }
        }
    }
    Ok(Some(parts))
}

/// Writes the segment of the messages of some files, or several where not all can be converted to the newest version of the schema.
/// `None`: the work was stopped.
fn write_files(
    context: MaintenanceContext<'_>,
    sequences: Range<u64>,
    files: &[CompleteFile],
    pace: &mut Pace<'_>,
) -> Result<Option<Vec<Part>>, Error> {
    let granules = granules_of(context, files);
    match write_granules(context, sequences.clone(), granules.clone(), pace) {
        Err(error) if error.is_conversion() => {
            let Some(cuts) = cut(context, sequences, &granules, pace)? else { return Ok(None) };
            write_cuts(context, cuts, pace)
        }
        written => Ok(written?.map(|part| vec![part])),
    }
}

/// Writes a segment of each cut. `None`: the work was stopped.
fn write_cuts(
    context: MaintenanceContext<'_>,
    cuts: Vec<Cut>,
    pace: &mut Pace<'_>,
) -> Result<Option<Vec<Part>>, Error> {
    let mut parts = Vec::with_capacity(cuts.len());
    for Cut { version, sequences, granules } in cuts {
        match as_of(context, version, |context| write_granules(context, sequences, granules, pace)) {
            Ok(Some(part)) => {
                keep_version(context, &part, version);
                parts.push(part);
            }
            unfinished => {
                parts.iter().for_each(|part| discard(context, part));
                return unfinished.map(|_| None);
            }
        }
    }
    Ok(Some(parts))
}

/// Does some work with another version of the schema, or with the newest.
fn as_of<T>(
    context: MaintenanceContext<'_>,
    version: u16,
    work: impl FnOnce(MaintenanceContext<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    if version == context.stream.definition.schema_version {
        return work(context);
    }
    let stream = context.stream.as_of(version)?;
    work(MaintenanceContext { stream: &stream, ..context })
}

/// Notes that a segment keeps a version of the schema, if it is not the newest.
fn keep_version(context: MaintenanceContext<'_>, part: &Part, version: u16) {
    if version != context.stream.definition.schema_version
        && let Some(content) = &part.content
    {
        context.space.apart().insert(content.number, Apart::OfVersion(version));
    }
}

/// Writes the segment of these messages of the log.
fn write_granules(
    context: MaintenanceContext<'_>,
    sequences: Range<u64>,
    granules: Vec<Granule>,
    pace: &mut Pace<'_>,
) -> Result<Option<Part>, Error> {
    let messages: u64 = granules.iter().map(|granule| granule.count).sum();
    let lost = (sequences.end - sequences.start).saturating_sub(messages);
    let time_max = granules.iter().map(|granule| granule.time_max).max();
    let tier = time_max.map_or(Tier::Hot, |time_max| tier_for(context, time_max));
    let strands = strands_for(context, messages);
    let work =
        Work { sequences, tier, messages, lost, leaves_out_damage: true, copies_blocks: false, strands };
    let history = History::of_granules(granules);
    // Strands take rows.
    let history = if strands.is_none() { history.keeping_columns() } else { history };
    write_part(context, history, work, pace)
}

/// Commits the segment of some files, and removes them; returns the number of messages that no other thread counts, or `None` if the
/// work was stopped.
fn commit_written(context: MaintenanceContext<'_>, written: Written) -> Result<Option<u64>, Error> {
    let Written { sequences, parts, helper } = written;
    parts.as_ref().err().inspect(|error| context.space.refused.note(sequences.start, error));
    let Some(parts) = parts? else { return Ok(None) };
    let messages = parts.iter().map(Part::messages).sum();
    let is_committed = commit_sealed(context, parts)?;
    let counted = if is_committed { messages } else { 0 };
    let counted_here = match helper {
        Some(helper) => {
            helper.fetch_add(counted, Ordering::Relaxed);
            0
        }
        None => counted,
    };
    if is_committed {
        trim(context, sequences.end)?;
    }
    Ok(Some(counted_here))
}

fn granules_of(context: MaintenanceContext<'_>, files: &[CompleteFile]) -> Vec<Granule> {
    let snapshot = context.space.log.snapshot();
    let is_in = |granule: &&Granule| files.iter().any(|file| granule.file == file.file);
    snapshot.iter().filter(is_in).copied().collect()
}

/// Removes the sealed log files, except damaged ones, which are renamed.
fn trim(context: MaintenanceContext<'_>, sealed: u64) -> Result<(), Error> {
    let space = context.space;
    if space.log.first_sequence() < sealed {
        let catalog = space.catalog();
        // Of the files that are removed; others were renamed when the stream was opened, or when they were sealed.
        let first = space.log.files().first().copied().unwrap_or(0).min(space.log.first_sequence());
        if catalog.parts_between(first..sealed).any(|part| part.lost > 0) {
            quarantine_damaged(&*space.storage, &space.directory, &catalog)?;
        }
        space.writer.trim(sealed)?;
    }
    Ok(())
}

/// Merges the parts that need it most into one; `false`: none does, or the work was stopped. The caller holds the space's
/// maintenance.
pub(crate) fn merge_next(context: MaintenanceContext<'_>, pace: &mut Pace<'_>) -> Result<bool, Error> {
    let catalog = context.space.catalog();
    let limits = merged_max(&context.stream.settings.get(), MERGED_BYTES_MAX);
    let Some(chosen) = choose::next_of(context.space, &catalog, limits) else { return Ok(false) };
    // They are all of one tier.
    let tier = chosen.iter().find_map(|part| tier_of(part)).unwrap_or(Tier::Hot);
    replace_parts(context, &chosen, tier, pace)
}

/// Rewrites a segment whose messages have become old: smaller, and slower to read. `false`: there is none, or the work was
/// stopped. The caller holds the space's maintenance.
pub(crate) fn chill_next(context: MaintenanceContext<'_>, pace: &mut Pace<'_>) -> Result<bool, Error> {
    if context.stream.settings.get().cold_after.is_none() {
        return Ok(false);
    }
    let catalog = context.space.catalog();
    let is_due = |part: &Arc<Part>| {
        part.content.as_ref().is_some_and(|content| {
            content.object.is_none()
                && content.tier == Tier::Hot
                && tier_for(context, content.time_max) == Tier::Cold
                && context.space.apart().get(&content.number) != Some(&Apart::Damaged)
        })
    };
    let may_be = |totals: &Totals| may_chill(context, totals);
    match catalog.parts.of_chunks(may_be).find(|part| is_due(part)) {
        Some(part) => replace_parts(context, std::slice::from_ref(part), Tier::Cold, pace),
        None => Ok(false),
    }
}

/// Replaces consecutive parts by one segment; `false`: the work was stopped.
fn replace_parts(
    context: MaintenanceContext<'_>,
    parts: &[Arc<Part>],
    tier: Tier,
    pace: &mut Pace<'_>,
) -> Result<bool, Error> {
    let (Some(first), Some(last)) = (parts.first(), parts.last()) else { return Ok(false) };
    let sequences = first.sequences.start..last.sequences.end;
    let lost = parts.iter().map(|part| part.lost).sum();
    let messages = parts.iter().map(|part| part.messages()).sum();
    let strands = strands_for(context, messages);
    // Blocks of another tier have other encodings.
    let copies_blocks = parts.iter().filter_map(|part| tier_of(part)).all(|of| of == tier);
    let work = Work { sequences, tier, messages, lost, leaves_out_damage: false, copies_blocks, strands };
    // It is the same of all.
    let kept = parts.iter().find_map(|part| kept_version(&context.space.apart(), part));
    let version = kept.unwrap_or(context.stream.definition.schema_version);
    match as_of(context, version, |context| write_merged(context, parts, &work, pace)) {
        // A deletion may have emptied one of the parts since: there may be others to merge.
        Ok(Some(part)) => {
            keep_version(context, &part, version);
            Ok(commit(context, part, parts)? || !has_all(context, parts))
        }
        Ok(None) => Ok(false),
        Err(error) if error.is_conversion() => {
            keep_versions(context, parts, &error);
            Ok(true)
        }
        Err(error) if error.is_missing_file() && !has_all(context, parts) => Ok(true),
        Err(error) if error.is_damage() || error.is_missing_file() || error.is_unfaithful() => {
            if is_wrong_content(&error) {
                report_source(&error);
            }
            exclude(context, parts, &error);
            Ok(true)
        }
        Err(error) => Err(error),
    }
}

/// Whether the parts are still in the catalog. Nothing else replaces them, but a deletion may empty one.
fn has_all(context: MaintenanceContext<'_>, parts: &[Arc<Part>]) -> bool {
    let catalog = context.space.catalog();
    parts.iter().all(|part| catalog.has(part))
}

/// Excludes the parts that an error is about from further maintenance.
fn exclude(context: MaintenanceContext<'_>, parts: &[Arc<Part>], error: &Error) {
    // A block that cannot be written may be of any of them.
    let first = error.out_of_reach().0.filter(|_| !error.is_unfaithful());
    let named = |part: &&Arc<Part>| first.is_none_or(|first| part.sequences.contains(&first));
    let numbers = |part: &Arc<Part>| part.content.as_ref().map(|content| content.number);
    let numbers = parts.iter().filter(named).filter_map(numbers);
    context.space.apart().extend(numbers.map(|number| (number, Apart::Damaged)));
}

/// Notes the versions of parts that the error of a conversion is about: they are merged without it from now on.
fn keep_versions(context: MaintenanceContext<'_>, parts: &[Arc<Part>], error: &Error) {
    let sequence = error.unconverted();
    for part in parts.iter().filter(|part| sequence.is_none_or(|of| part.sequences.contains(&of))) {
        let Some(content) = &part.content else { continue };
        let opened = context.space.open_segment(part, context.stream.schema_files());
        let version = opened.ok().flatten().map(|segment| segment.segment.header().schema_version);
        let apart = match version.filter(|version| *version != context.stream.definition.schema_version) {
            Some(version) => Apart::OfVersion(version),
            None if sequence.is_none() => continue,
            None => Apart::Damaged,
        };
        context.space.apart().insert(content.number, apart);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Stale;
    use crate::space::Space;
    use crate::{Access, Database, MessageColumns, Stream, StreamOptions, Symbols};
    use std::sync::atomic::AtomicBool;
    use tapedb_log::MemoryStorage;
    use tapedb_segment::fault::with_fault;

    /// Rows of a file: more than a block has, and several steps after it.
    const ROWS: u64 = 70_000;

    fn database() -> Database {
        let storage = Arc::new(MemoryStorage::new());
        Database::open_on(storage, "db", Access::WriteWithoutMaintenance).unwrap()
    }

    fn space_of(stream: &Stream) -> Arc<Space> {
        stream.state.writer().unwrap().spaces[0].clone()
    }

    /// Appends these rows, and completes the log file.
    fn append_file(stream: &Stream) {
        append_rows(stream, ROWS);
    }

    fn append_rows(stream: &Stream, rows: u64) {
        let times: Vec<i64> = (0..rows as i64).collect();
        let mut loader = stream.loader().unwrap();
        // Wide numbers: as many bytes as they have bits.
        let numbers: Vec<i64> = times.iter().map(|time| time.wrapping_mul(i64::MAX / 7)).collect();
        let columns = MessageColumns::new("M", &times, Symbols::One("A")).field("n", &numbers);
        loader.append_columns(&columns).unwrap();
        loader.close().unwrap();
        space_of(stream).writer.roll().unwrap();
    }

    fn wait_until(is: impl Fn() -> bool) {
        while !is() {
            thread::yield_now();
        }
    }

    /// The helper is in the middle of its file when the schema is to be changed, and stops: its change waits for the caller
    /// that leads, which has promised to seal all.
    #[test]
    fn a_caller_seals_what_an_interrupted_helper_has_left() {
        if !has_two_processors() {
            return;
        }
        let db = database();
        let schema = "message M { n: i64 }".parse().unwrap();
        let stream = db.create_stream("s", schema, StreamOptions::default()).unwrap();
        (0..3).for_each(|_| append_file(&stream));
        let space = space_of(&stream);
        let [leads, helps] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        thread::scope(|scope| {
            let (leads_now, helps_now) = (leads.clone(), helps.clone());
            let leader = scope.spawn(|| {
                let in_block = move |_: bool, _: &mut Vec<u8>| {
                    leads_now.store(true, Ordering::SeqCst);
                    wait_until(|| helps_now.load(Ordering::SeqCst));
                };
                with_fault(in_block, || stream.seal())
            });
            wait_until(|| leads.load(Ordering::SeqCst));
            let (helps_now, interrupted) = (helps.clone(), space.clone());
            let helper = scope.spawn(|| {
                let in_block = move |_: bool, _: &mut Vec<u8>| {
                    if !helps_now.swap(true, Ordering::SeqCst) {
                        wait_until(|| interrupted.is_interrupted());
                    }
                };
                with_fault(in_block, || stream.seal())
            });
            wait_until(|| helps.load(Ordering::SeqCst));
            let changed = "message M { n: i64, more: i64? }".parse().unwrap();
            db.change_schema("s", changed).unwrap();
            assert_eq!(leader.join().unwrap().unwrap(), 3 * ROWS);
            assert_eq!(space.catalog().sealed, 3 * ROWS);
            match helper.join().unwrap() {
                Ok(sealed) => assert_eq!(sealed, 0),
                Err(error) => assert!(matches!(error, Error::Stale(Stale::Outdated { .. })), "{error}"),
            }
        });
    }

    /// Half of what waits is taken at once, so the number of segments does not depend on how many threads seal.
    #[test]
    fn large_files_become_one_segment_together() {
        let rows = 200_000;
        for (retention, expected) in [
            (Retention::default(), [2, 1, 1].as_slice()),
            (Retention { bytes: Some(1 << 40), age: None }, &[1; 4]),
        ] {
            let db = database();
            let options = StreamOptions { retention, ..StreamOptions::default() };
            let stream = db.create_stream("s", "message M { n: i64 }".parse().unwrap(), options).unwrap();
            (0..4).for_each(|_| append_rows(&stream, rows));
            assert_eq!(stream.seal().unwrap(), 4 * rows);
            let files: Vec<u64> =
                space_of(&stream).catalog().parts.iter().map(|part| part.messages() / rows).collect();
            assert_eq!(files, expected);
            let (mut cursor, mut messages, mut last) = (stream.cursor().open().unwrap(), 0, i64::MIN);
            while let Some(message) = cursor.next().unwrap() {
                assert!(message.time().0 >= last);
                (messages, last) = (messages + 1, message.time().0);
            }
            assert_eq!(messages, 4 * rows);
        }
    }

    /// A caller may have waited while the schema was changed.
    #[test]
    fn messages_of_a_new_schema_are_not_sealed_as_of_an_old_one() {
        let db = database();
        let schema = "message M { n: i64 }".parse().unwrap();
        let old = db.create_stream("s", schema, StreamOptions::default()).unwrap();
        let new = db.change_schema("s", "message M { n: i64, more: i64? }".parse().unwrap()).unwrap();
        let mut loader = new.loader().unwrap();
        let columns = MessageColumns::new("M", &[7], Symbols::One("A")).field("n", &[1i64][..]);
        loader.append_columns(&columns.field("more", &[5i64][..])).unwrap();
        loader.close().unwrap();
        let (stream, writer) = (&*old.state.reader, &**old.state.writer().unwrap());
        let sealed = seal_all(MaintenanceContext { stream, writer, space: &writer.spaces[0] });
        assert!(matches!(sealed, Err(Error::Stale(Stale::Outdated { .. }))), "{sealed:?}");
        assert_eq!(new.seal().unwrap(), 1);
        let mut cursor = new.cursor().open().unwrap();
        let message = cursor.next().unwrap().unwrap();
        let more = new.layouts().decode(message.type_id(), message.body()).unwrap().fields[1].clone();
        assert_eq!(more, tapedb_codec::dynamic::Value::Int(5));
    }
}
