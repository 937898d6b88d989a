//! Writes segments: from complete log files, and from segments that are many and small or hold deleted messages.
//!
//! A segment is written under a temporary name, synced, renamed, and added to the manifest; only then its sources are removed.
//! So after a power cut at any moment the old or the new files exist, and the manifest states which are valid. Neither readers
//! nor writers wait: readers have their files open, writers write to a file that is not complete.
//!
//! Every segment is proved to hold the messages of its sources before it replaces them ([`crate::maintenance::verify`]).
//! Merging copies blocks that are about full and have lost no message; the rows of others are encoded again.
//!
//! Of a damaged log file the readable messages are sealed; the part records how many could not be read, and the file is kept
//! ([`crate::space::quarantine`]). A damaged segment is left as it is: some of its columns may still be readable.

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

/// Number of neighbours of similar size that are merged into one.
const FAN_IN: usize = 8;
/// Parts are not merged into larger ones than this.
const MERGED_BYTES_MAX: u64 = 256 << 20;
/// Parts below this count as equal in size.
const SMALL_BYTES: u64 = 8 << 20;

/// Seals all messages of the log, also those in the active file; returns their number.
pub(crate) fn seal_all(context: MaintenanceContext<'_>) -> Result<u64, Error> {
    let _maintenance = context.space.hold_maintenance();
    // A deletion or a rename of the stream holds it too: nothing is written to files of another stream with the name.
    context.stream.check_not_deleted()?;
    if context.space.writer.roll()? {
        // Rolling makes messages visible for which loaders still wait.
        context.stream.notify();
    }
    let (mut pace, sealed) = (Pace::immediate(), seal_complete(context)?);
    while merge_next(context, &mut pace)? {}
    while chill_next(context, &mut pace)? {}
    Ok(sealed)
}

/// Seals all complete log files; returns their number of messages. The caller holds the space's maintenance.
pub(crate) fn seal_complete(context: MaintenanceContext<'_>) -> Result<u64, Error> {
    let (mut pace, mut sealed) = (Pace::immediate(), 0);
    while let Some(count) = seal_next(context, &mut pace)? {
        sealed += count;
    }
    context.space.refused.why(context.space.catalog().sealed).map_or(Ok(sealed), Err)
}

/// Seals the oldest complete log file; returns its number of messages, or `None` if there is no such file, it could not be
/// sealed before, or the work was stopped. The caller holds the space's maintenance.
pub(crate) fn seal_next(context: MaintenanceContext<'_>, pace: &mut Pace<'_>) -> Result<Option<u64>, Error> {
    let catalog = context.space.catalog();
    if context.space.refused.why(catalog.sealed).is_some() {
        return Ok(None);
    }
    let files = context.space.log.complete_files();
    let Some(file) = files.iter().find(|file| file.next_sequence > catalog.sealed) else {
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

/// Removes the sealed log files, except damaged ones, which are renamed.
fn trim(context: MaintenanceContext<'_>, sealed: u64) -> Result<(), Error> {
    let space = context.space;
    if space.log.first_sequence() < sealed {
        quarantine_damaged(&*space.storage, &space.directory, &space.catalog())?;
        space.writer.trim(sealed)?;
    }
    Ok(())
}

/// Merges the parts that need it most into one; `false`: none does, or the work was stopped. The caller holds the space's
/// maintenance.
pub(crate) fn merge_next(context: MaintenanceContext<'_>, pace: &mut Pace<'_>) -> Result<bool, Error> {
    let catalog = context.space.catalog();
    let limits = merged_max(&context.stream.settings.get(), MERGED_BYTES_MAX);
    let Some(chosen) = choose(&catalog, limits, &context.space.left_alone()) else { return Ok(false) };
    // They are all of one tier.
    let tier = catalog.parts[chosen.clone()].iter().find_map(|part| tier_of(part)).unwrap_or(Tier::Hot);
    replace_parts(context, &catalog.parts[chosen], tier, pace)
}

/// Rewrites a segment whose messages have become old: smaller, and slower to read. `false`: there is none, or the work was
/// stopped. The caller holds the space's maintenance.
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
        Some(index) => replace_parts(context, &catalog.parts[index..=index], Tier::Cold, pace),
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
    let history = History::of_parts(parts.iter().cloned());
    let lost = parts.iter().map(|part| part.lost).sum();
    // Blocks of another tier have other encodings.
    let copies_blocks = parts.iter().filter_map(|part| tier_of(part)).all(|of| of == tier);
    let work = Work { sequences, tier, lost, leaves_out_damage: false, copies_blocks };
    match write_part(context, history, work, pace) {
        // A deletion may have emptied one of the parts since: there may be others to merge.
        Ok(Some(part)) => Ok(commit(context, part, parts)? || !has_all(context, parts)),
        Ok(None) => Ok(false),
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

fn tier_of(part: &Part) -> Option<Tier> {
    part.content.as_ref().map(|content| content.tier)
}

/// Excludes the parts that an error is about from further maintenance.
fn exclude(context: MaintenanceContext<'_>, parts: &[Arc<Part>], error: &Error) {
    // A block that cannot be written may be of any of them.
    let first = error.out_of_reach().0.filter(|_| !error.is_unfaithful());
    let named = |part: &&Arc<Part>| first.is_none_or(|first| part.sequences.contains(&first));
    let numbers = |part: &Arc<Part>| part.content.as_ref().map(|content| content.number);
    context.space.left_alone().extend(parts.iter().filter(named).filter_map(numbers));
}

/// The parts to merge next: one with deletions to carry out, or neighbours of one tier that are many and small, and together
/// are within `limits` of bytes and time.
fn choose(catalog: &Catalog, limits: (u64, u64), left_alone: &HashSet<u64>) -> Option<Range<usize>> {
    let parts = &catalog.parts;
    let is_left =
        |part: &Part| part.content.as_ref().is_some_and(|content| left_alone.contains(&content.number));
    let is_affected = |part: &Arc<Part>| {
        !is_left(part) && catalog.deletions.iter().any(|deletion| part.is_affected_by(deletion))
    };
    // An excluded part is merged with no neighbour.
    let level = |part: &Part| if is_left(part) { u32::MAX } else { level(part) };
    if let Some(index) = parts.iter().position(is_affected) {
        return Some(index..index + 1);
    }
    // The smallest first: they are the most numerous.
    let mut levels: Vec<u32> = parts.iter().map(|part| level(part)).collect();
    levels.sort_unstable();
    levels.dedup();
    let merged = |levels: &u32| *levels < u32::MAX;
    levels.into_iter().filter(merged).find_map(|largest| run_of(parts, limits, largest, level))
}

/// The size class of a part: each level is [`FAN_IN`] times as large as the one below.
fn level(part: &Part) -> u32 {
    let bytes = part.content.as_ref().map_or(0, |content| content.bytes);
    (bytes / SMALL_BYTES).checked_ilog(FAN_IN as u64).map_or(0, |level| level + 1)
}

/// The first [`FAN_IN`] neighbours of one tier that are of this level or below and are together within the limits.
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
    /// Messages that are known to be unreadable.
    lost: u64,
    /// Damaged messages are counted and left out; otherwise they are an error.
    leaves_out_damage: bool,
    /// Blocks of segments that still have all their messages are copied.
    copies_blocks: bool,
}

/// Writes the messages of a history into a segment that is not in the manifest yet. `None`: the work was stopped.
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
    /// Messages that could not be read.
    pub lost: u64,
    pub written: Written,
    pub proof: Proof,
}

/// Writes a segment that is not in the manifest yet; `fill` returns what was written, or `None` if it was stopped. The file is
/// read back before it gets its name.
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
                    (1, "It is not written: its source stays, and is not tried again."),
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

/// Writes all messages; what was written, and how many messages could not be read. `None`: stopped.
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
            if !pace.proceed(context) {
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

/// Number of rows, and the times of the first and the last.
fn extent(rows: &Rows) -> (u64, i64, i64) {
    let time = |time: Option<&i64>| time.copied().unwrap_or(0);
    (rows.len() as u64, time(rows.times().first()), time(rows.times().last()))
}

/// Adds a part to the manifest, and removes what it replaces. `false`: its sources have changed, and it is removed.
fn commit(context: MaintenanceContext<'_>, part: Part, made_from: &[Arc<Part>]) -> Result<bool, Error> {
    commit_with(context, part, |catalog, part| catalog.with_merged(part, made_from))
}

/// [`commit`] with another change of the catalog.
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
    // A manifest whose sync failed may nevertheless be on the disk.
    let is_named =
        *committed.as_ref().unwrap_or(&false) || committed.is_err() && context.space.is_named(number);
    if !is_named && let Some(path) = path {
        let _ = context.space.storage.remove(&path);
    }
    committed
}

/// Writes a file sequentially.
pub(crate) struct Out {
    file: Arc<dyn StorageFile>,
    at: u64,
}

impl Out {
    /// Begins at offset 0.
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

/// A failure to read the messages to be sealed, or to write them.
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
