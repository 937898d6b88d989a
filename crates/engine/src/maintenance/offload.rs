//! Moves segments that are old enough to the stream's object store.
//!
//! For each segment, each step on the disk or in the store before the next begins: its bytes are copied and read back; its foot is written
//! beside it; the stream's record in the store names it; the manifest names the object; the file is removed. Whatever is interrupted
//! leaves the file, and the next attempt finds what it had copied, for the names of objects have the checksum of their content.
//!
//! It runs in a thread of its own, and holds nothing that writing, sealing or reading needs: a store that does not answer delays
//! only this. Where a segment was replaced during the copy the copy is left over, and [`sweep`](crate::maintenance::sweep) removes it.

use crate::error::Error;
use crate::files::sync_dir;
use crate::maintenance::describe::{check_ours, facts, seen};
use crate::maintenance::retention::is_older;
use crate::maintenance::sweep::sweep_if_due;
use crate::objects::foot::Foot;
use crate::objects::record::{self, Offloading, Published};
use crate::objects::tier::{Digest, ObjectTier, read_range};
use crate::objects::{keys, record::CHECKPOINT_EVERY};
use crate::options::Offload;
use crate::space::catalog::{DRAFT_EXTENSION, Part};
use crate::space::parts::Totals;
use crate::space::reader::SegmentFile;
use crate::space::{Apart, Space};
use crate::stream::reader::StreamReader;
use crate::stream::writer::StreamWriter;
use std::path::{Path, PathBuf};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;
use tapedb_log::StorageFile;

/// Bytes that are read at a time for a checksum.
const READ_BYTES: usize = 1 << 20;

/// What was moved to an object store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Offloaded {
    /// Segments.
    pub segments: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// How [`offload`] works.
pub(crate) struct Work<'a> {
    /// Older segments are moved; `None`: the age in the stream's options decides.
    pub older_than: Option<Duration>,
    /// How long an object that nothing names is kept; `None`: an hour, and they are looked for once an hour.
    pub grace: Option<Duration>,
    /// Whether to go on.
    pub proceed: &'a dyn Fn() -> bool,
}

/// Moves all segments of a stream that are due, brings its record in the store up to date, and removes objects that are left over.
///
/// # Errors
/// When the store refuses, or a file cannot be read or written: nothing is lost, and the next call goes on.
pub(crate) fn offload(
    stream: &StreamReader,
    writer: &StreamWriter,
    work: &Work<'_>,
) -> Result<Offloaded, Error> {
    let mut moved = Offloaded::default();
    let Some(Offload { url, after }) = stream.settings.get().offload else { return Ok(moved) };
    let mut state = lock(writer);
    let mut tier: Option<Arc<ObjectTier>> = None;
    for space in &writer.spaces {
        // A part that cannot be moved does not keep others.
        let mut tried = Vec::new();
        while let Some(age) = work.older_than.or(after)
            && let Some(part) = due(writer, space, age, &tried)
        {
            check_usable(stream, writer)?;
            let tier = &*tier.get_or_insert(writer.objects.own_tier(url.as_str())?);
            let Some(bytes) = offload_part((stream, writer, space), &part, tier, &mut state, work.proceed)?
            else {
                if !(work.proceed)() {
                    return Ok(moved);
                }
                tried.extend(part.content.as_ref().map(|content| content.number));
                continue;
            };
            moved.segments += 1;
            moved.bytes += bytes;
        }
    }
    let has_objects = writer.spaces.iter().any(|space| space.catalog().parts.totals().objects > 0);
    let is_known = state.published.as_ref().is_some_and(Option::is_some);
    // Where all objects have been purged, the record still names them.
    if (has_objects || is_known || work.grace.is_some()) && (work.proceed)() {
        check_usable(stream, writer)?;
        let tier = &*tier.get_or_insert(writer.objects.own_tier(url.as_str())?);
        publish_if_changed(stream, writer, tier, &mut state)?;
        sweep_if_due(stream, writer, tier, &mut state, work.grace)?;
    }
    Ok(moved)
}

/// What is known of the stream's objects; held while they change.
pub(crate) fn lock(writer: &StreamWriter) -> MutexGuard<'_, Offloading> {
    writer.offloading.lock().unwrap_or_else(PoisonError::into_inner)
}

fn check_usable(stream: &StreamReader, writer: &StreamWriter) -> Result<(), Error> {
    writer.check_lock()?;
    stream.check_not_deleted()?;
    // The handle of the newest version of the schema does the work.
    stream.check_not_outdated()
}

/// The segment to be moved next: the oldest that is due.
fn due(writer: &StreamWriter, space: &Space, age: Duration, tried: &[u64]) -> Option<Arc<Part>> {
    let catalog = space.catalog();
    let apart = space.apart();
    let is_due = |part: &&Arc<Part>| {
        part.content.as_ref().is_some_and(|content| {
            content.object.is_none()
                && (age.is_zero() || is_older(writer, content.time_max, age))
                && apart.get(&content.number) != Some(&Apart::Damaged)
                && !tried.contains(&content.number)
        })
    };
    let oldest = |part: &&Arc<Part>| part.content.as_ref().map(|content| content.time_max);
    let may_be = |totals: &Totals| {
        totals.oldest_file < i64::MAX && (age.is_zero() || is_older(writer, totals.oldest_file, age))
    };
    catalog.parts.of_chunks(may_be).filter(is_due).min_by_key(oldest).cloned()
}

/// Moves a segment; returns its bytes, or `None` if it stays: it is damaged, was replaced during the copy, or the work was ended.
fn offload_part(
    (stream, writer, space): (&StreamReader, &StreamWriter, &Space),
    part: &Arc<Part>,
    tier: &ObjectTier,
    state: &mut Offloading,
    proceed: &dyn Fn() -> bool,
) -> Result<Option<u64>, Error> {
    let Some(content) = &part.content else { return Ok(None) };
    let opened = match space.open_segment(part, stream.schema_files()) {
        Err(error) if error.is_missing_file() && !space.catalog().has(part) => return Ok(None),
        Err(error) if error.is_damage() => None,
        opened => opened?,
    };
    let Some(opened) = opened.filter(|opened| opened.failure().is_none()) else {
        // It stays where `tapedb repair` can rebuild it.
        space.apart().insert(content.number, Apart::Damaged);
        return Ok(None);
    };
    let path = &opened.path;
    let file = space.storage.open_read(path).map_err(Error::io("open", path))?;
    let Some(checksum) = checksum_of(&file, path, content.bytes, proceed)? else { return Ok(None) };
    let (stream_id, number) = (stream.definition.id, space.number);
    let key = keys::segment(stream_id, number, part.sequences.start, content.number, checksum);
    if !tier.put_segment((&*file, path), (&key, content.bytes, checksum), proceed)? {
        return Ok(None);
    }
    let foot = Foot::of(&opened.segment, &SegmentFile(file), checksum)
        .map_err(|error| Error::not_written(path, error))?;
    let foot_path = write_foot(space, part, checksum, &foot)?;
    let published = publish_with(stream, writer, tier, state, Some((space, part, checksum)));
    let committed = match published {
        Ok(()) if proceed() => check_usable(stream, writer).and_then(|()| {
            space.change_catalog(|catalog| {
                stream.check_not_deleted().ok()?;
                catalog.with_place(part, Some(checksum))
            })
        }),
        published => published.map(|()| false),
    };
    let is_named = committed.as_ref().is_ok_and(|committed| *committed)
        || committed.is_err() && space.is_named(content.number);
    if !is_named {
        let _ = space.storage.remove(&foot_path);
    }
    Ok(committed?.then_some(content.bytes))
}

/// Checksum of a file that should have so many bytes; `None`: the work was ended.
fn checksum_of(
    file: &Arc<dyn StorageFile>,
    path: &Path,
    bytes: u64,
    proceed: &dyn Fn() -> bool,
) -> Result<Option<u64>, Error> {
    let (mut digest, mut buffer) = (Digest::new(), Vec::new());
    for start in (0..bytes).step_by(READ_BYTES) {
        if !proceed() {
            return Ok(None);
        }
        let len = (bytes - start).min(READ_BYTES as u64) as usize;
        read_range(&**file, start, len, &mut buffer).map_err(Error::io("read", path))?;
        digest.update(&buffer);
    }
    Ok(Some(digest.finish()))
}

/// Writes the foot of a segment beside it, and puts it on the disk.
fn write_foot(space: &Space, part: &Part, checksum: u64, foot: &Foot) -> Result<PathBuf, Error> {
    let content = part
        .content
        .clone()
        .map(|content| crate::space::catalog::Content { object: Some(checksum), ..content });
    let as_object = Part { sequences: part.sequences.clone(), lost: part.lost, content };
    let path = as_object.local_path(&space.directory).unwrap_or_default();
    let mut draft = path.clone().into_os_string();
    draft.push(format!(".{DRAFT_EXTENSION}"));
    let (draft, storage) = (PathBuf::from(draft), &*space.storage);
    storage.write(&draft, &foot.to_bytes()).map_err(Error::io("write", &draft))?;
    storage.sync_file(&draft).map_err(Error::io("sync", &draft))?;
    storage.rename(&draft, &path).map_err(Error::io("rename", &draft))?;
    sync_dir(storage, &space.directory)?;
    Ok(path)
}

/// Brings the record up to date if the stream has changed since: retention, deletions, its name, schema or options.
fn publish_if_changed(
    stream: &StreamReader,
    writer: &StreamWriter,
    tier: &ObjectTier,
    state: &mut Offloading,
) -> Result<(), Error> {
    if state.seen.as_ref() == Some(&seen(stream, writer)) {
        return Ok(());
    }
    publish_with(stream, writer, tier, state, None)
}

/// Writes a record, if the facts differ from those of the last one: with a part as if the manifest named its object.
fn publish_with(
    stream: &StreamReader,
    writer: &StreamWriter,
    tier: &ObjectTier,
    state: &mut Offloading,
    moved: Option<(&Space, &Arc<Part>, u64)>,
) -> Result<(), Error> {
    let stream_id = stream.definition.id;
    let seen_now = seen(stream, writer);
    if state.published.is_none() {
        let found = record::read(tier, stream_id)?;
        if let Some(found) = &found {
            check_ours(writer, tier, &found.facts, state.takes_over)?;
        }
        state.published = Some(found);
    }
    let before = state.published.as_ref().and_then(Option::as_ref);
    let facts = facts(stream, writer, moved)?;
    // What was sealed since changes the generation alone.
    let is_new = |before: &Published| {
        let essential =
            |(name, _): &(&String, &String)| !name.ends_with(" generation") && !name.ends_with(" next");
        let is_symbol = |(name, _): &(&String, &String)| name.starts_with("symbol ");
        let of = |facts| {
            record::Facts::iter(facts)
                .filter(move |fact| essential(fact) && (moved.is_some() || !is_symbol(fact)))
        };
        !of(&facts).eq(of(&before.facts))
    };
    if before.is_none_or(is_new) {
        let (number, text) = record::next(stream_id, before, &facts);
        let indexed =
            if number == 0 { tier.put(&keys::index(stream_id), keys::INDEX_CONTENT) } else { Ok(()) };
        let put = indexed.and_then(|()| tier.put(&keys::record(stream_id, number), text.as_bytes()));
        if let Err(error) = put {
            // The store is asked again: the record may be there all the same.
            state.published = None;
            return Err(error);
        }
        state.published = Some(Some(Published { number, facts }));
        if number.is_multiple_of(CHECKPOINT_EVERY) {
            remove_old_records(tier, stream_id, number)?;
        }
    }
    if moved.is_none() {
        state.seen = Some(seen_now);
    }
    Ok(())
}

/// Removes the records before the checkpoint before the last: readers may be at those after it.
fn remove_old_records(tier: &ObjectTier, stream_id: u64, checkpoint: u64) -> Result<(), Error> {
    let kept_from = checkpoint.saturating_sub(CHECKPOINT_EVERY);
    for key in tier.list(&keys::records(stream_id))? {
        if keys::number_of(&key).is_some_and(|number| number < kept_from) {
            tier.delete(&key)?;
        }
    }
    Ok(())
}
