//! Writes the file of a part of history, and commits it.
//!
//! A segment is written under a temporary name, synced, renamed, and added to the manifest; only then its sources are removed.
//! So after a power cut at any moment the old or the new files exist, and the manifest states which are valid. Neither readers
//! nor writers wait: readers have their files open, writers write to a file that is not complete.
//!
//! Every segment is proved to hold the messages of its sources before it replaces them ([`crate::maintenance::verify`]).

use crate::error::Error;
use crate::maintenance::context::MaintenanceContext;
use crate::maintenance::pace::Pace;
use crate::maintenance::verify::{confirm, report, report_incomplete};
use crate::read::block::BatchRun;
use crate::read::filter::Filter;
use crate::read::history::History;
use crate::space::catalog::{Catalog, Content, DRAFT_EXTENSION, Part, segment_name};
use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;
use tapedb_log::StorageFile;
use tapedb_segment::{
    BlockOptions, Plan, Proof, RowHeader, Rows, SegmentError, SegmentHeader, SegmentWriter, Strands, Tier,
    Written,
};

/// A segment to be written.
pub(crate) struct Work {
    pub sequences: Range<u64>,
    pub tier: Tier,
    /// Messages that the sources are recorded to have, deleted and damaged ones too.
    pub messages: u64,
    /// Further messages, which are known to be unreadable.
    pub lost: u64,
    /// Damaged messages are counted and left out; otherwise they are an error.
    pub leaves_out_damage: bool,
    /// Blocks of segments that still have all their messages are copied.
    pub copies_blocks: bool,
    /// The strands of its blocks, if they are in several.
    pub strands: Option<Strands>,
}

/// Writes the messages of a history into a segment that is not in the manifest yet. `None`: the work was stopped.
pub(crate) fn write_part(
    context: MaintenanceContext<'_>,
    mut history: History,
    work: Work,
    pace: &mut Pace<'_>,
) -> Result<Option<Part>, Error> {
    let sequences = work.sequences.clone();
    write_segment(context, sequences, |out, header| fill(context, &mut history, out, header, &work, pace))
}

/// What was written into a segment.
pub(crate) struct FilledSegment {
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
    fill: impl FnOnce(Out, &SegmentHeader) -> Result<Option<FilledSegment>, FillError>,
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
            match &unfinished {
                Err(FillError::Write(SegmentError::Unfaithful(mismatch))) => report(
                    context,
                    &path,
                    mismatch,
                    (1, "It is not written: its source stays, and is not tried again."),
                ),
                Err(FillError::Write(error @ SegmentError::Incomplete { .. })) => {
                    report_incomplete(&path, error)
                }
                _ => {}
            }
            return unfinished.map(|_| None).map_err(|error| error.on(&draft));
        }
    };
    let FilledSegment { content, lost, written, proof } = filled;
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

impl Work {
    /// How many messages could not be read, if all others were written or are deleted. `is_damaged`: some of the sources are
    /// damaged.
    ///
    /// # Errors
    /// [`SegmentError::Incomplete`]: readable messages are missing, or there are too many.
    fn account(&self, written: u64, history: &History, is_damaged: bool) -> Result<u64, SegmentError> {
        let (removed, is_exact) = history.removed();
        let incomplete =
            SegmentError::Incomplete { need: self.messages.saturating_sub(removed), have: written };
        let Some(left) = self.messages.checked_sub(written) else { return Err(incomplete) };
        match left.checked_sub(removed) {
            Some(0) => Ok(self.lost),
            Some(lost) if is_damaged => Ok(self.lost + lost),
            None if !is_exact => Ok(self.lost),
            _ => Err(incomplete),
        }
    }
}

/// Writes all messages; what was written, and how many messages could not be read. `None`: stopped.
pub(super) fn fill(
    context: MaintenanceContext<'_>,
    history: &mut History,
    out: Out,
    header: &SegmentHeader,
    work: &Work,
    pace: &mut Pace<'_>,
) -> Result<Option<FilledSegment>, FillError> {
    let tier = work.tier;
    let plan = Plan::new(context.stream.layouts.clone());
    let options = BlockOptions { tier, ..BlockOptions::default() };
    let (mut filter, mut times) = (Filter::all(), None);
    let learned = context.space.learned(header.schema_version, tier);
    let writer = match work.strands {
        Some(strands) => SegmentWriter::in_strands(out, plan, header, (options, strands))?,
        None => SegmentWriter::new(out, plan, header, options)?,
    };
    let mut writer = writer.with_learned(learned);
    let copies_blocks = work.copies_blocks && work.strands.is_none();
    let (mut rows, mut pause_at, mut is_damaged) = (0u64, Pace::ROWS, false);
    loop {
        let mut taken = None;
        if !history.advance_plainly() {
            match history.advance(&mut filter, context.reading()) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) if work.leaves_out_damage && error.is_damage() && !error.is_conversion() => {
                    is_damaged = true;
                    continue;
                }
                Err(error) => return Err(error.into()),
            }
            if copies_blocks {
                let write = |block: &_, rows: &Rows| writer.push_block(block, rows).map(|()| extent(rows));
                taken = history.take_block(write).transpose()?;
            }
        }
        if !work.copies_blocks {
            let write = |run: BatchRun<'_>| match run {
                BatchRun::Rows(run) => writer.push_run(&run).map(|()| extent_of_run(run.times)),
                BatchRun::Columns(run) => writer.push_columns(&run).map(|()| extent_of_run(run.times)),
            };
            taken = history.take_run((pause_at - rows) as usize, context.reading(), write).transpose()?;
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
    context.space.note_learned(header.schema_version, tier, writer.learned());
    let (_, written, proof) = writer.finish_with_proof()?;
    let lost = work.account(written.messages, history, is_damaged)?;
    let (time_min, time_max) = times.unwrap_or_default();
    let (messages, bytes) = (written.messages, written.bytes);
    let content =
        Content { number: 0, messages, time_min, time_max, bytes, tier, deleted_before: 0, object: None };
    Ok(Some(FilledSegment { content, lost, written, proof }))
}

/// Number of rows, and the times of the first and the last.
fn extent(rows: &Rows) -> (u64, i64, i64) {
    let time = |time: Option<&i64>| time.copied().unwrap_or(0);
    (rows.len() as u64, time(rows.times().first()), time(rows.times().last()))
}

/// The same of a run.
fn extent_of_run(times: &[i64]) -> (u64, i64, i64) {
    let time = |time: Option<&i64>| time.copied().unwrap_or(0);
    (times.len() as u64, time(times.first()), time(times.last()))
}

/// Adds a part to the manifest, and removes what it replaces. `false`: its sources have changed, and it is removed.
pub(crate) fn commit(
    context: MaintenanceContext<'_>,
    part: Part,
    made_from: &[Arc<Part>],
) -> Result<bool, Error> {
    commit_with(context, part, |catalog, part| catalog.with_merged(part, made_from))
}

/// Adds parts that follow each other to the end of the manifest, in one change. `false`: they do not belong there, and are removed.
pub(crate) fn commit_sealed(context: MaintenanceContext<'_>, parts: Vec<Part>) -> Result<bool, Error> {
    commit_all(context, parts, |catalog, parts| catalog.with_sealed(parts))
}

/// [`commit`] with another change of the catalog.
pub(crate) fn commit_with(
    context: MaintenanceContext<'_>,
    part: Part,
    change: impl FnOnce(&Catalog, Part) -> Option<Catalog>,
) -> Result<bool, Error> {
    commit_all(context, vec![part], |catalog, mut parts| change(catalog, parts.pop()?))
}

fn commit_all(
    context: MaintenanceContext<'_>,
    parts: Vec<Part>,
    change: impl FnOnce(&Catalog, Vec<Part>) -> Option<Catalog>,
) -> Result<bool, Error> {
    let file = |part: &Part| Some((part.content.as_ref()?.number, part.path(&context.space.directory)?));
    let files: Vec<_> = parts.iter().filter_map(file).collect();
    let committed = context.space.change_catalog(|catalog| {
        context.stream.check_not_deleted().ok()?;
        change(catalog, parts)
    });
    for (number, path) in files {
        // A manifest whose sync failed may nevertheless be on the disk.
        let is_named =
            *committed.as_ref().unwrap_or(&false) || committed.is_err() && context.space.is_named(number);
        if !is_named {
            let _ = context.space.storage.remove(&path);
        }
    }
    committed
}

/// Removes the file of a part that is not committed.
pub(crate) fn discard(context: MaintenanceContext<'_>, part: &Part) {
    if let Some(path) = part.path(&context.space.directory) {
        // What cannot be removed now is removed when the stream is opened next.
        let _ = context.space.storage.remove(&path);
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Access, Database, StreamOptions};
    use tapedb_log::{MemoryStorage, Snapshot};
    use tapedb_schema::Timestamp;

    const MESSAGES: u64 = 1_000;

    /// Writes the messages of a log of which the first hundred are deleted, as if it was known to have so many.
    fn write(known: u64, has_lost_some: bool) -> (Result<Option<Part>, Error>, Vec<String>) {
        let storage = Arc::new(MemoryStorage::new());
        let db = Database::open_on(storage, "db", Access::WriteWithoutMaintenance).unwrap();
        let schema = "message M { value: i64 }".parse().unwrap();
        let stream = db.create_stream("s", schema, StreamOptions::default()).unwrap();
        let mut loader = stream.loader().unwrap();
        for i in 0..MESSAGES {
            loader.append_body("A", Timestamp(i as i64), 0, &i.to_le_bytes()).unwrap();
        }
        loader.close().unwrap();
        stream.delete(Timestamp(0)..Timestamp(100), None::<[&str; 0]>).unwrap();
        let (reader, writer) = (&*stream.state.reader, &**stream.state.writer().unwrap());
        let context = MaintenanceContext { stream: reader, writer, space: &writer.spaces[0] };
        context.space.writer.roll().unwrap();
        let snapshot: Snapshot = context.space.log.snapshot();
        let work = Work {
            sequences: 0..MESSAGES,
            tier: Tier::Hot,
            messages: known,
            lost: 0,
            leaves_out_damage: has_lost_some,
            copies_blocks: false,
            strands: None,
        };
        let history = History::of_granules(snapshot.iter().copied());
        let part = write_part(context, history, work, &mut Pace::immediate());
        (part, context.space.storage.list(&context.space.directory).unwrap())
    }

    #[test]
    fn a_segment_has_every_message_of_its_sources_that_is_not_deleted() {
        let part = write(MESSAGES, false).0.unwrap().unwrap();
        assert_eq!((part.messages(), part.lost), (MESSAGES - 100, 0));
    }

    #[test]
    fn a_segment_that_has_not_as_many_messages_as_its_sources_gets_no_name() {
        for (known, leaves_out_damage) in [(MESSAGES + 1, false), (MESSAGES - 1, false), (MESSAGES + 1, true)]
        {
            let (part, names) = write(known, leaves_out_damage);
            let error = part.unwrap_err();
            assert!(error.is_unfaithful() && error.to_string().contains("would have 900"), "{error}");
            assert!(names.iter().all(|name| !name.contains(".seg") && !name.ends_with("tmp")), "{names:?}");
        }
    }
}
