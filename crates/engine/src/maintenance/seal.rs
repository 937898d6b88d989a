//! Makes segments: of log files that are complete, and of segments that are many and small or hold deleted messages.
//!
//! A segment is written under a temporary name, put on the disk, renamed, and named by the manifest; only then what it was
//! made from is removed. So whenever the power fails, the old or the new is there, and the manifest says which counts. Neither
//! readers nor writers wait: readers have open what they read, writers write to a file that is not complete.
//!
//! Whatever is written is proved to be what it was made from before it takes its place ([`crate::maintenance::verify`]).
//! Merging copies blocks that are about full and have lost no message; the rows of others are encoded again.
//!
//! Of a damaged log file is sealed what can be read; the part notes how many messages could not, and the file is kept
//! ([`crate::space::quarantine`]). A damaged segment is left as it is: who wants some of its columns may still get them.

use crate::error::Error;
use crate::maintenance::context::MaintenanceContext;
use crate::maintenance::pace::Pace;
use crate::maintenance::retention::{merged_max, tier_for};
use crate::maintenance::verify::{confirm, is_wrong_content, report, report_source};
use crate::read::filter::Filter;
use crate::read::history::History;
use crate::space::catalog::{Catalog, Content, DRAFT_EXTENSION, Part, segment_name};
use crate::space::quarantine::quarantine_damaged;
use std::collections::HashSet;
use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;
use tapedb_log::{CompleteFile, Granule, StorageFile};
use tapedb_segment::{
    BlockOptions, Plan, Proof, RowHeader, Rows, SegmentError, SegmentHeader, SegmentWriter, Tier, Written,
};

/// So many neighbours of about one size are merged into one.
const FAN_IN: usize = 8;
/// Parts are not merged into larger ones than this.
const MERGED_BYTES_MAX: u64 = 256 << 20;
/// Parts below this are all of one size.
const SMALL_BYTES: u64 = 8 << 20;

/// Seals every message that is in the log, the active file's too; returns how many.
pub(crate) fn seal_all(context: MaintenanceContext<'_>) -> Result<u64, Error> {
    let _maintenance = context.space.hold_maintenance();
    // Who deletes or renames the stream holds it too: nothing is written to files of another one of the name.
    context.stream.check_not_deleted()?;
    if context.space.writer.roll()? {
        // Rolling shows readers what loaders still wait for.
        context.stream.notify();
    }
    let (mut pace, sealed) = (Pace::unhurried(), seal_complete(context)?);
    while merge_next(context, &mut pace)? {}
    while chill_next(context, &mut pace)? {}
    Ok(sealed)
}

/// Seals all log files that are complete; returns how many messages they had. The caller holds the space's upkeep.
pub(crate) fn seal_complete(context: MaintenanceContext<'_>) -> Result<u64, Error> {
    let (mut pace, mut sealed) = (Pace::unhurried(), 0);
    while let Some(count) = seal_next(context, &mut pace)? {
        sealed += count;
    }
    context.space.refused.why(context.space.catalog().sealed).map_or(Ok(sealed), Err)
}

/// Seals the oldest complete log file; returns how many messages it had, `None` if there is no such file, it has been found
/// that it cannot be sealed, or the work was stopped. The caller holds the space's upkeep.
pub(crate) fn seal_next(context: MaintenanceContext<'_>, pace: &mut Pace<'_>) -> Result<Option<u64>, Error> {
    let catalog = context.space.catalog();
    if context.space.refused.why(catalog.sealed).is_some() {
        return Ok(None);
    }
    let files = context.space.log.complete_files();
    let Some(file) = files.iter().find(|file| file.next_sequence > catalog.sealed) else {
        // What an earlier attempt has sealed and could not remove.
        trim(context, catalog.sealed)?;
        return Ok(None);
    };
    pace.backlog(files.len());
    if file.first_sequence > catalog.sealed {
        // The files before it are not there.
        let (sequences, lost) = (catalog.sealed..file.first_sequence, file.first_sequence - catalog.sealed);
        return commit(context, Part { sequences, lost, content: None }, &[]).map(|_| Some(0));
    }
    let sequences = catalog.sealed..file.next_sequence;
    let granules = granules_of(context, file);
    let there: u64 = granules.iter().map(|granule| granule.count).sum();
    let lost = (sequences.end - sequences.start).saturating_sub(there);
    let time_max = granules.iter().map(|granule| granule.time_max).max();
    let tier = time_max.map_or(Tier::Hot, |time_max| tier_for(context, time_max));
    let work = Work { sequences, tier, lost, leaves_out_damage: true, copies_blocks: false };
    let history = History::of_granules(granules.iter().copied());
    let written = write_part(context, history, work, pace);
    written.as_ref().err().inspect(|error| context.space.refused.note(catalog.sealed, error));
    let Some(part) = written? else { return Ok(None) };
    let messages = part.content.as_ref().map_or(0, |content| content.messages);
    if commit(context, part, &[])? {
        trim(context, file.next_sequence)?;
    }
    Ok(Some(messages))
}

fn granules_of(context: MaintenanceContext<'_>, file: &CompleteFile) -> Vec<Granule> {
    let snapshot = context.space.log.snapshot();
    snapshot.iter().filter(|granule| granule.file == file.file).copied().collect()
}

/// Removes the log files that are sealed, but for damaged ones, which get another name.
fn trim(context: MaintenanceContext<'_>, sealed: u64) -> Result<(), Error> {
    let space = context.space;
    if space.log.first_sequence() < sealed {
        quarantine_damaged(&*space.storage, &space.directory, &space.catalog())?;
        space.writer.trim(sealed)?;
    }
    Ok(())
}

/// Merges the parts that most need it into one; `false`: none does, or the work was stopped. The caller holds the space's
/// upkeep.
pub(crate) fn merge_next(context: MaintenanceContext<'_>, pace: &mut Pace<'_>) -> Result<bool, Error> {
    let catalog = context.space.catalog();
    let most = merged_max(&context.stream.settings.get(), MERGED_BYTES_MAX);
    let Some(chosen) = choose(&catalog, most, &context.space.left_alone()) else { return Ok(false) };
    // They are all of one tier.
    let tier = catalog.parts[chosen.clone()].iter().find_map(|part| tier_of(part)).unwrap_or(Tier::Hot);
    write_anew(context, &catalog.parts[chosen], tier, pace)
}

/// Writes a segment anew whose messages have become old, smaller and slower to read; `false`: there is none, or the work
/// was stopped. The caller holds the space's upkeep.
pub(crate) fn chill_next(context: MaintenanceContext<'_>, pace: &mut Pace<'_>) -> Result<bool, Error> {
    let catalog = context.space.catalog();
    let is_due = |part: &Arc<Part>| {
        part.content.as_ref().is_some_and(|content| {
            content.tier == Tier::Hot
                && tier_for(context, content.time_max) == Tier::Cold
                && !context.space.left_alone().contains(&content.number)
        })
    };
    match catalog.parts.iter().position(is_due) {
        Some(index) => write_anew(context, &catalog.parts[index..=index], Tier::Cold, pace),
        None => Ok(false),
    }
}

/// Writes one segment in place of some parts that follow each other; `false`: the work was stopped.
fn write_anew(
    context: MaintenanceContext<'_>,
    parts: &[Arc<Part>],
    tier: Tier,
    pace: &mut Pace<'_>,
) -> Result<bool, Error> {
    let (Some(first), Some(last)) = (parts.first(), parts.last()) else { return Ok(false) };
    let sequences = first.sequences.start..last.sequences.end;
    let history = History::of_parts(parts.iter().cloned());
    let lost = parts.iter().map(|part| part.lost).sum();
    // Blocks of another tier are encoded in another way.
    let copies_blocks = parts.iter().filter_map(|part| tier_of(part)).all(|of| of == tier);
    let work = Work { sequences, tier, lost, leaves_out_damage: false, copies_blocks };
    match write_part(context, history, work, pace) {
        // Overtaken by a deletion that took one of them whole: there may be others to merge.
        Ok(Some(part)) => Ok(commit(context, part, parts)? || !has_all(context, parts)),
        Ok(None) => Ok(false),
        Err(error) if error.is_missing_file() && !has_all(context, parts) => Ok(true),
        Err(error) if error.is_damage() || error.is_missing_file() || error.is_unfaithful() => {
            if is_wrong_content(&error) {
                report_source(&error);
            }
            leave_alone(context, parts, &error);
            Ok(true)
        }
        Err(error) => Err(error),
    }
}

/// Whether the parts count still. Nobody else makes others of them, but a deletion may take one whole.
fn has_all(context: MaintenanceContext<'_>, parts: &[Arc<Part>]) -> bool {
    let catalog = context.space.catalog();
    parts.iter().all(|part| catalog.has(part))
}

fn tier_of(part: &Part) -> Option<Tier> {
    part.content.as_ref().map(|content| content.tier)
}

/// Leaves the parts alone that an error tells of.
fn leave_alone(context: MaintenanceContext<'_>, parts: &[Arc<Part>], error: &Error) {
    // A block that cannot be written is of any of them.
    let first = error.out_of_reach().0.filter(|_| !error.is_unfaithful());
    let named = |part: &&Arc<Part>| first.is_none_or(|first| part.sequences.contains(&first));
    let numbers = |part: &Arc<Part>| part.content.as_ref().map(|content| content.number);
    context.space.left_alone().extend(parts.iter().filter(named).filter_map(numbers));
}

/// The parts to merge next: one with deletions to carry out, or neighbours of one tier that are many and small, and together
/// have no more bytes and time than `most`.
fn choose(catalog: &Catalog, most: (u64, u64), left_alone: &HashSet<u64>) -> Option<Range<usize>> {
    let parts = &catalog.parts;
    let is_left =
        |part: &Part| part.content.as_ref().is_some_and(|content| left_alone.contains(&content.number));
    let is_touched = |part: &Arc<Part>| {
        !is_left(part) && catalog.deletions.iter().any(|deletion| part.is_affected_by(deletion))
    };
    // What is left alone is of no size, and neighbours of nobody.
    let level = |part: &Part| if is_left(part) { u32::MAX } else { level(part) };
    if let Some(index) = parts.iter().position(is_touched) {
        return Some(index..index + 1);
    }
    // The smallest first: they are the most.
    let mut levels: Vec<u32> = parts.iter().map(|part| level(part)).collect();
    levels.sort_unstable();
    levels.dedup();
    let merged = |levels: &u32| *levels < u32::MAX;
    levels.into_iter().filter(merged).find_map(|largest| run_of(parts, most, largest, level))
}

/// Parts of one level are of about one size; each level's are [`FAN_IN`] times as large as those of the level below.
fn level(part: &Part) -> u32 {
    let bytes = part.content.as_ref().map_or(0, |content| content.bytes);
    (bytes / SMALL_BYTES).checked_ilog(FAN_IN as u64).map_or(0, |level| level + 1)
}

/// The first [`FAN_IN`] neighbours of one tier that are of this level or below and do not become too large together, or
/// too long.
fn run_of(
    parts: &[Arc<Part>],
    (bytes_max, span_max): (u64, u64),
    largest: u32,
    level: impl Fn(&Part) -> u32,
) -> Option<Range<usize>> {
    let mut start = 0;
    for (i, part) in parts.iter().enumerate() {
        if level(part) > largest {
            start = i + 1;
            continue;
        }
        let fits = |run: &[Arc<Part>]| {
            let (bytes, span) = bytes_and_span(run);
            bytes <= bytes_max && span <= span_max && is_of_one_tier(run)
        };
        while start <= i && !fits(&parts[start..=i]) {
            start += 1;
        }
        if i + 1 - start == FAN_IN {
            return Some(start..i + 1);
        }
    }
    None
}

fn bytes_and_span(run: &[Arc<Part>]) -> (u64, u64) {
    let contents = || run.iter().filter_map(|part| part.content.as_ref());
    let times = contents().map(|content| (content.time_min, content.time_max));
    let times = times.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
    let span = times.map_or(0, |(first, last)| last.abs_diff(first));
    (contents().map(|content| content.bytes).sum(), span)
}

fn is_of_one_tier(run: &[Arc<Part>]) -> bool {
    let mut tiers = run.iter().filter_map(|part| tier_of(part));
    let first = tiers.next();
    tiers.all(|tier| Some(tier) == first)
}

/// A segment to be written.
struct Work {
    sequences: Range<u64>,
    tier: Tier,
    /// Messages that are known to be out of reach.
    lost: u64,
    /// What is found damaged is counted and left out; else it is an error.
    leaves_out_damage: bool,
    /// Blocks of segments that have all their messages still are taken as they are.
    copies_blocks: bool,
}

/// Writes what is left of a history into a segment that nobody knows yet. `None`: the work was stopped.
fn write_part(
    context: MaintenanceContext<'_>,
    mut history: History,
    work: Work,
    pace: &mut Pace<'_>,
) -> Result<Option<Part>, Error> {
    let sequences = work.sequences.clone();
    write_segment(context, sequences, |out, header| fill(context, &mut history, out, header, &work, pace))
}

/// What was written into a segment.
pub(crate) struct Filled {
    pub content: Content,
    /// Messages that are out of reach.
    pub lost: u64,
    pub written: Written,
    pub proof: Proof,
}

/// Writes a segment that nobody knows yet; `fill` says what was written, or `None` if it was stopped. The file is read back
/// before it gets its name.
pub(crate) fn write_segment(
    context: MaintenanceContext<'_>,
    sequences: Range<u64>,
    fill: impl FnOnce(Out, &SegmentHeader) -> Result<Option<Filled>, FillError>,
) -> Result<Option<Part>, Error> {
    let number = context.space.take_number();
    let name = segment_name(sequences.start, number);
    let path = context.space.directory.join(&name);
    let draft = context.space.directory.join(format!("{name}.{DRAFT_EXTENSION}"));
    let storage = &*context.space.storage;
    let file = storage.create_new(&draft).map_err(Error::io("create", &draft))?;
    let definition = &context.stream.definition;
    let header = SegmentHeader {
        stream_id: context.space.owner.stream_id,
        space: context.space.number,
        schema_version: definition.schema_version,
        first_sequence: sequences.start,
        next_sequence: sequences.end,
    };
    let filled = match fill(Out::new(file.clone()), &header) {
        Ok(Some(filled)) => filled,
        unfinished => {
            let _ = storage.remove(&draft);
            if let Err(FillError::Write(SegmentError::Unfaithful(mismatch))) = &unfinished {
                report(
                    context,
                    &path,
                    mismatch,
                    (1, "It is not written: what it was made from stays, and is not tried again."),
                );
            }
            return unfinished.map(|_| None).map_err(|error| error.on(&draft));
        }
    };
    let Filled { content, lost, written, proof } = filled;
    if let Some(mismatch) = &proof.mismatch {
        let became = "It is written in a plain encoding: nothing is lost.";
        report(context, &path, mismatch, (written.mismatches, became));
    }
    if content.messages == 0 {
        storage.remove(&draft).map_err(Error::io("remove", &draft))?;
        return Ok(Some(Part { sequences, lost, content: None }));
    }
    if let Err(error) = confirm(&file, &draft, &proof) {
        let _ = storage.remove(&draft);
        return Err(error);
    }
    // Whatever the stream's durability: the log files that hold the messages now will be removed.
    context.writer.sync_symbols()?;
    file.sync_data().map_err(Error::io("sync", &draft))?;
    storage.rename(&draft, &path).map_err(Error::io("rename", &draft))?;
    storage.sync_dir(&context.space.directory).map_err(Error::io("sync", &context.space.directory))?;
    Ok(Some(Part { sequences, lost, content: Some(Content { number, deleted_before: number, ..content }) }))
}

/// Writes all messages; what was written, and how many messages are out of reach. `None`: stopped.
fn fill(
    context: MaintenanceContext<'_>,
    history: &mut History,
    out: Out,
    header: &SegmentHeader,
    work: &Work,
    pace: &mut Pace<'_>,
) -> Result<Option<Filled>, FillError> {
    let tier = work.tier;
    let plan = Plan::new(context.stream.layouts.clone());
    let options = BlockOptions { tier, ..BlockOptions::default() };
    let (mut filter, mut times) = (Filter::all(), None);
    let mut writer = SegmentWriter::new(out, plan, header, options)?;
    let (mut rows, mut pause_at, mut lost) = (0u64, Pace::ROWS, work.lost);
    loop {
        let mut taken = None;
        if !history.advance_plainly() {
            match history.advance(&mut filter, context.reading()) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) if work.leaves_out_damage && error.is_damage() && !error.is_conversion() => {
                    lost += error.out_of_reach().1;
                    continue;
                }
                Err(error) => return Err(error.into()),
            }
            if work.copies_blocks {
                let write = |block: &_, rows: &Rows| writer.push_block(block, rows).map(|()| extent(rows));
                taken = history.take_block(write).transpose()?;
            }
        }
        let Some(block) = history.current() else { break };
        let (count, first, last) = match taken {
            Some(taken) => taken,
            None => {
                let (time, sequence, symbol, type_id) =
                    (block.time(), block.sequence(), block.symbol(), block.type_id());
                writer.push(RowHeader { time, sequence, symbol, type_id }, block.body())?;
                (1, time, time)
            }
        };
        times = Some((times.map_or(first, |(first, _)| first), last));
        rows += count;
        if rows >= pause_at {
            if !pace.go_on(context) {
                return Ok(None);
            }
            pause_at = rows + Pace::ROWS;
        }
    }
    let (_, written, proof) = writer.finish_with_proof()?;
    let (time_min, time_max) = times.unwrap_or_default();
    let (messages, bytes) = (written.messages, written.bytes);
    let content = Content { number: 0, messages, time_min, time_max, bytes, tier, deleted_before: 0 };
    Ok(Some(Filled { content, lost, written, proof }))
}

/// How many rows, and the times of the first and of the last.
fn extent(rows: &Rows) -> (u64, i64, i64) {
    let time = |time: Option<&i64>| time.copied().unwrap_or(0);
    (rows.len() as u64, time(rows.times().first()), time(rows.times().last()))
}

/// Lets the manifest name a part; what it takes the place of is removed. `false`: it has been overtaken, and is removed.
fn commit(context: MaintenanceContext<'_>, part: Part, made_from: &[Arc<Part>]) -> Result<bool, Error> {
    commit_with(context, part, |catalog, part| catalog.with_merged(part, made_from))
}

/// [`commit`], where the change is another.
pub(crate) fn commit_with(
    context: MaintenanceContext<'_>,
    part: Part,
    change: impl FnOnce(&Catalog, Part) -> Option<Catalog>,
) -> Result<bool, Error> {
    let path = part.path(&context.space.directory);
    let number = part.content.as_ref().map_or(0, |content| content.number);
    let committed = context.space.change_catalog(|catalog| {
        context.stream.check_not_deleted().ok()?;
        change(catalog, part)
    });
    // A manifest that could not be put on the disk for sure may yet be the one that is found there.
    let is_named =
        *committed.as_ref().unwrap_or(&false) || committed.is_err() && context.space.is_named(number);
    if !is_named && let Some(path) = path {
        let _ = context.space.storage.remove(&path);
    }
    committed
}

/// Writes a file from front to back.
pub(crate) struct Out {
    file: Arc<dyn StorageFile>,
    at: u64,
}

impl Out {
    /// Begins at the front.
    pub fn new(file: Arc<dyn StorageFile>) -> Self {
        Self { file, at: 0 }
    }

    /// The file.
    #[cfg(test)]
    pub fn file(&self) -> &Arc<dyn StorageFile> {
        &self.file
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write_at(bytes, self.at)?;
        self.at += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reading what is to be sealed failed, or writing it did.
pub(crate) enum FillError {
    Read(Error),
    Write(SegmentError),
}

impl FillError {
    fn on(self, path: &std::path::Path) -> Error {
        match self {
            Self::Read(error) => error,
            Self::Write(error) => Error::not_written(path, error),
        }
    }
}

impl From<Error> for FillError {
    fn from(error: Error) -> Self {
        Self::Read(error)
    }
}

impl From<SegmentError> for FillError {
    fn from(error: SegmentError) -> Self {
        Self::Write(error)
    }
}
