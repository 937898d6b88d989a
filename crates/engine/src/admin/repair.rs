//! Repairs damaged files of a stream, as far as other files hold the same facts.
//!
//! What could be read before can be read after. A damaged file is kept under its name with `.damaged` appended. The stream is
//! not open during the repair: its database is open for writing here, so there is no other writer, and readers continue with
//! the files that they have open.

use crate::admin::stored::{StoredPart, StoredSegment, StoredStream};
use crate::clock::now;
use crate::database::Database;
use crate::error::{Error, Unreadable};
use crate::files::space_directory;
use crate::maintenance::verify::confirm;
use crate::objects::foot::{self, Foot};
use crate::objects::keys::FOOT_EXTENSION;
use crate::options::StreamOptions;
use crate::space::catalog::{Catalog, Content, DRAFT_EXTENSION, Part, SEGMENT_EXTENSION};
use crate::space::manifest::{self, Owner};
use crate::space::quarantine::DAMAGED_EXTENSION;
use crate::space::reader::SegmentFile;
use crate::space::salvage::SchemaFiles;
use crate::stream::definition::{self, Definition};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tapedb_log::{Kind, Storage, Walk};
use tapedb_segment::{
    Block, BlockOptions, Decoder, ReadAt, RowHeader, Rows, Segment, SegmentError, SegmentHeader,
    SegmentWriter, Selection, Strands, Tier,
};

/// A change that a repair makes, or would make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repair {
    /// The file that is rebuilt or renamed.
    pub path: PathBuf,
    /// What is wrong, and what is done about it.
    pub what: String,
    /// Messages that could not be read before and are recorded as lost from now on.
    pub messages_lost: u64,
}

impl Database {
    /// Repairs the files of a stream, or, unless `is_done`, returns what there is to do and changes nothing. The stream must
    /// not have been opened from this database before.
    ///
    /// In this order: a definition without a good copy is rebuilt from a segment's schema (with default options); a manifest
    /// without a good copy, from the headers of segments and the log: deletions in it that had not been carried out are lost,
    /// so such messages reappear; damaged segments are rewritten without their damaged blocks. A second call may find more to
    /// do, in files that the repaired ones name.
    ///
    /// # Errors
    /// [`Error::ReadOnly`], [`NotFound::Stream`](crate::NotFound::Stream), and failures to read or write files. Repairs made
    /// before the error remain.
    pub fn repair(&self, name: &str, is_done: bool) -> Result<Vec<Repair>, Error> {
        if self.is_read_only() {
            return Err(Error::ReadOnly);
        }
        let directory = self.existing_directory_of(name)?;
        let storage = self.storage().clone();
        let mut repairer = Repairer { storage: storage.clone(), is_done, repairs: Vec::new() };
        repairer.definition(&directory)?;
        let Ok(stream) = StoredStream::open(storage, None, name, directory) else {
            // The repair of the definition is planned; the rest can be examined when it is done.
            return Ok(repairer.repairs);
        };
        for space in 0..stream.spaces() {
            repairer.space(&stream, space)?;
        }
        Ok(repairer.repairs)
    }
}

/// A repair in progress.
struct Repairer {
    storage: Arc<dyn Storage>,
    is_done: bool,
    repairs: Vec<Repair>,
}

impl Repairer {
    /// Records a repair; whether it is to be made.
    fn plan(&mut self, path: &Path, what: impl Into<String>, messages_lost: u64) -> bool {
        self.repairs.push(Repair { path: path.into(), what: what.into(), messages_lost });
        self.is_done
    }

    /// Repairs the copies of the definition.
    fn definition(&mut self, directory: &Path) -> Result<(), Error> {
        let path = directory.join(definition::FILES[0]);
        let what = match definition::read(&*self.storage, directory) {
            Ok(Some(found)) if !found.is_uneven => return Ok(()),
            Ok(Some(found)) => {
                if self.plan(&path, "one of its copies is damaged: both are rewritten from the other", 0) {
                    self.keep(directory, &definition::FILES)?;
                    definition::write(&*self.storage, directory, &found.definition)?;
                }
                return Ok(());
            }
            Ok(None) => "is missing".to_string(),
            Err(Error::Unreadable(Unreadable::Definition { what, .. })) => what,
            Err(error) => return Err(error),
        };
        let Some((definition, segment)) = self.definition_of_segments(directory)? else {
            self.repairs.push(Repair {
                path,
                what: format!("{what}, and no segment holds the schema: restore it from a copy"),
                messages_lost: 0,
            });
            return Ok(());
        };
        let from = segment.display();
        if self.plan(&path, format!("{what}: rebuilt with the schema of {from} and default options"), 0) {
            self.keep(directory, &definition::FILES)?;
            definition::write(&*self.storage, directory, &definition)?;
        }
        Ok(())
    }

    /// A definition with the newest schema of all segments.
    fn definition_of_segments(&self, directory: &Path) -> Result<Option<(Definition, PathBuf)>, Error> {
        let entries = self.storage.entries(directory).map_err(Error::io("list", directory))?;
        let is_space = |name: &str| name.parse().is_ok_and(|space: u32| space_directory(space) == name);
        let spaces = entries.iter().filter(|entry| entry.kind == Kind::Directory && is_space(&entry.name));
        let (mut best, mut count): (Option<(Definition, PathBuf)>, u32) = (None, 0);
        for space in spaces {
            count += 1;
            for (path, segment) in self.whole_segments(&directory.join(&space.name))? {
                let header = segment.header();
                let is_newer =
                    |(found, _): &(Definition, PathBuf)| found.schema_version < header.schema_version;
                if best.as_ref().is_none_or(is_newer) {
                    let definition = Definition {
                        id: header.stream_id,
                        created: now(),
                        revision: 0,
                        options: StreamOptions::default(),
                        schema_version: header.schema_version,
                        schema: segment.plan().layouts().schema().clone(),
                    };
                    best = Some((definition, path));
                }
            }
        }
        Ok(best.map(|(mut definition, path)| {
            definition.options.spaces = count;
            (definition, path)
        }))
    }

    /// The segments in a space's directory whose headers and indexes are whole.
    fn whole_segments(&self, directory: &Path) -> Result<Vec<(PathBuf, Segment<SegmentFile>)>, Error> {
        let mut found = Vec::new();
        for name in self.storage.list(directory).map_err(Error::io("list", directory))? {
            let path = directory.join(&name);
            if path.extension().is_none_or(|extension| extension != SEGMENT_EXTENSION) {
                continue;
            }
            let file = self.storage.open_read(&path).map_err(Error::io("open", &path))?;
            if let Ok(segment) = Segment::open(SegmentFile(file)) {
                found.push((path, segment));
            }
        }
        Ok(found)
    }

    fn space(&mut self, stream: &StoredStream, space: u32) -> Result<(), Error> {
        let (directory, owner) = (stream.space_path(space), stream.owner(space));
        let path = directory.join(manifest::FILES[0]);
        let catalog = match manifest::read(&*self.storage, &directory, owner) {
            Ok(Some(catalog)) => {
                let is_good = |name: &str| {
                    let copy = manifest::read_copy(&*self.storage, &directory.join(name), owner);
                    copy.is_ok_and(|copy| copy.as_ref() == Some(&catalog))
                };
                if !manifest::FILES.iter().all(|name| is_good(name))
                    && self.plan(&path, "one of its copies is damaged: both are rewritten from the other", 0)
                {
                    self.keep(&directory, &manifest::FILES)?;
                    manifest::write(&*self.storage, &directory, owner, &catalog)?;
                }
                catalog
            }
            lost => {
                let what = match lost {
                    Err(Error::Unreadable(Unreadable::Definition { what, .. })) => what,
                    Err(error) => return Err(error),
                    Ok(_) => "is missing".into(),
                };
                let catalog = self.catalog_of_files(stream, space)?;
                let (parts, gone) =
                    (catalog.contents().count(), catalog.parts.iter().map(|part| part.lost).sum());
                let what = format!(
                    "{what}: rebuilt from {parts} segments; the log continues with message {}. Messages that had been \
                     deleted and were still in files reappear",
                    catalog.sealed
                );
                if self.plan(&path, what, gone) {
                    self.keep(&directory, &manifest::FILES)?;
                    manifest::write(&*self.storage, &directory, owner, &catalog)?;
                }
                catalog
            }
        };
        self.segments(stream, space, catalog)
    }

    /// A catalog of the existing segments and log files. Of segments that overlap, the larger one has replaced the others, for
    /// only neighbours are merged.
    fn catalog_of_files(&self, stream: &StoredStream, space: u32) -> Result<Catalog, Error> {
        let (directory, owner) = (stream.space_path(space), stream.owner(space));
        let mut parts = Vec::new();
        for name in self.storage.list(&directory).map_err(Error::io("list", &directory))? {
            if let Some(part) = self.part_of_foot(stream, owner, &directory.join(&name))? {
                parts.push(part);
                continue;
            }
            let Some((first, number)) = numbers_of(&name) else { continue };
            if let Some(part) = self.part_of(stream, owner, &directory.join(&name), first, number)? {
                parts.push(part);
            }
        }
        let numbers = parts.iter().filter_map(|part| part.content.as_ref()).map(|content| content.number + 1);
        let next_number = numbers.max().unwrap_or(0);
        // The widest first; of equal ones, the newest.
        parts.sort_by_key(|part| {
            let number = part.content.as_ref().map_or(0, |content| content.number);
            (part.sequences.start, std::cmp::Reverse(part.sequences.end), std::cmp::Reverse(number))
        });
        let walk = Walk::open(self.storage.clone(), &directory, owner.stream_id, space)?;
        let mut catalog = Catalog { generation: 1, next_number, ..Catalog::default() };
        let gone = |from: u64, to: u64| Part { sequences: from..to, lost: to - from, content: None };
        for part in parts {
            if part.sequences.start < catalog.sealed {
                continue;
            }
            if part.sequences.start > catalog.sealed {
                catalog.parts.push(Arc::new(gone(catalog.sealed, part.sequences.start)));
            }
            catalog.sealed = part.sequences.end;
            catalog.parts.push(Arc::new(part));
        }
        // Log files that begin later than the segments end: the messages between are lost. Files of a log that was never
        // sealed begin at 0, or at the end of what has been deleted.
        if let Some(&first) = walk.files().iter().find(|file| **file >= catalog.sealed)
            && first > catalog.sealed
            && !walk.files().iter().any(|file| *file < catalog.sealed)
        {
            catalog.parts.push(Arc::new(gone(catalog.sealed, first)));
            catalog.sealed = first;
        }
        Ok(catalog)
    }

    /// The part whose segment is in an object store, according to its foot; `None`: it is none, or damaged.
    fn part_of_foot(&self, stream: &StoredStream, owner: Owner, path: &Path) -> Result<Option<Part>, Error> {
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return Ok(None) };
        let Some(stem) = name.strip_suffix(FOOT_EXTENSION) else { return Ok(None) };
        let Some((first, number)) = numbers_of(&format!("{stem}{SEGMENT_EXTENSION}")) else {
            return Ok(None);
        };
        let bytes = self.storage.read(path, foot::BYTES_MAX).map_err(Error::io("read", path))?;
        let Some(foot) = Foot::parse(&bytes) else { return Ok(None) };
        let checksum = foot.checksum;
        let part = self.part_of_file(stream, owner, path, (first, number), Arc::new(foot))?;
        Ok(part.map(|part| {
            let content = part.content.map(|content| Content { object: Some(checksum), ..content });
            Part { content, ..part }
        }))
    }

    /// The part that a segment's file holds, according to its header.
    fn part_of(
        &self,
        stream: &StoredStream,
        owner: Owner,
        path: &Path,
        first: u64,
        number: u64,
    ) -> Result<Option<Part>, Error> {
        let file = self.storage.open_read(path).map_err(Error::io("open", path))?;
        self.part_of_file(stream, owner, path, (first, number), SegmentFile(file))
    }

    fn part_of_file<R: ReadAt + Clone>(
        &self,
        stream: &StoredStream,
        owner: Owner,
        path: &Path,
        (first, number): (u64, u64),
        file: R,
    ) -> Result<Option<Part>, Error> {
        let schemas = SchemaFiles {
            storage: &*self.storage,
            directory: stream.path(),
            version: stream.schema_version(),
        };
        // With a damaged header the end of the segment is unknown.
        let expected = SegmentHeader {
            stream_id: owner.stream_id,
            space: owner.space,
            schema_version: stream.schema_version(),
            first_sequence: first,
            next_sequence: u64::MAX,
        };
        let (segment, _) = match schemas.open_segment(file, &expected) {
            Ok(opened) => opened,
            Err(SegmentError::Damaged(_)) => return Ok(None),
            Err(SegmentError::Io { source, .. }) => return Err(Error::io("read", path)(source)),
            Err(_) => return Ok(None),
        };
        let header = segment.header();
        if (header.stream_id, header.space) != (owner.stream_id, owner.space) || segment.messages() == 0 {
            return Ok(None);
        }
        let last = segment.blocks().iter().map(|block| block.sequence_max).max().unwrap_or(first);
        let end = if header.next_sequence == u64::MAX { last + 1 } else { header.next_sequence };
        let (time_min, time_max) = segment.time_range().unwrap_or_default();
        let content = Content {
            number,
            messages: segment.messages(),
            time_min,
            time_max,
            bytes: segment.bytes(),
            tier: Tier::Hot,
            deleted_before: number,
            object: None,
        };
        Ok(Some(Part { sequences: first..end, lost: 0, content: Some(content) }))
    }

    /// Rewrites damaged segments.
    fn segments(&mut self, stream: &StoredStream, space: u32, mut catalog: Catalog) -> Result<(), Error> {
        let (directory, owner) = (stream.space_path(space), stream.owner(space));
        for index in 0..catalog.parts.len() {
            let part = catalog.parts[index].clone();
            if part.is_object() {
                // It never changes; readers skip what is damaged of it.
                continue;
            }
            let stored = StoredPart::of(&part, owner, &directory);
            let (Some(content), Some(path)) = (&part.content, &stored.path) else { continue };
            let (segment, damaged) = match stream.segment(&stored) {
                Ok(Some(opened)) => opened,
                Ok(None) => continue,
                Err(error) => {
                    let what = format!("{error}: no part of it can be read; restore it from a copy");
                    self.repairs.push(Repair { path: path.clone(), what, messages_lost: 0 });
                    continue;
                }
            };
            let mut reader = Reader::default();
            let blocks = 0..segment.blocks().len();
            if damaged.is_empty() && blocks.clone().all(|index| reader.is_whole(&segment, index)) {
                continue;
            }
            let left: u64 = blocks.map(|index| reader.read(&segment, index).len() as u64).sum();
            let lost = content.messages.saturating_sub(left);
            let what = format!(
                "is damaged or decoded wrongly: rewritten with the {left} messages that can be read correctly; the file is kept \
                 with .damaged appended to its name"
            );
            if !self.plan(path, what, lost) {
                continue;
            }
            let number = catalog.next_number;
            let copy = Part {
                sequences: part.sequences.clone(),
                lost: part.lost + lost,
                content: Some(Content { number, ..content.clone() }),
            };
            let copy = if left > 0 {
                self.rewrite(&segment, copy, left, &directory)?
            } else {
                Part { content: None, ..copy }
            };
            let replaced = catalog.with(copy).ok_or_else(|| {
                Error::Unreadable(Unreadable::Definition {
                    path: directory.join(manifest::FILES[0]),
                    what: "has other parts than it had a moment ago".into(),
                })
            })?;
            let replaced = Catalog { next_number: number + 1, ..replaced };
            manifest::write(&*self.storage, &directory, owner, &replaced)?;
            self.keep_file(path)?;
            if replaced.parts.len() != catalog.parts.len() {
                // Adjacent empty parts have become one: begin again with the new catalog.
                return self.segments(stream, space, replaced);
            }
            catalog = replaced;
        }
        Ok(())
    }

    /// Writes a segment with the readable messages of another, of which there are `left`, and returns its part.
    fn rewrite(
        &self,
        segment: &StoredSegment,
        part: Part,
        left: u64,
        directory: &Path,
    ) -> Result<Part, Error> {
        let (Some(path), Some(content)) = (part.path(directory), part.content.clone()) else {
            return Ok(part);
        };
        let mut name = path.clone().into_os_string();
        name.push(format!(".{DRAFT_EXTENSION}"));
        let draft = PathBuf::from(name);
        self.remove(&draft)?;
        let file = self.storage.create_new(&draft).map_err(Error::io("create", &draft))?;
        let failed = |error| Error::not_written(&draft, error);
        let options = BlockOptions { tier: content.tier, ..BlockOptions::default() };
        let out = crate::maintenance::part::Out::new(file.clone());
        let (plan, header) = (segment.plan().clone(), segment.header());
        let writer = match segment.has_strands() {
            true => SegmentWriter::in_strands(out, plan, header, (options, Strands::default())),
            false => SegmentWriter::new(out, plan, header, options),
        };
        let (mut writer, mut reader) = (writer.map_err(failed)?, Reader::default());
        let mut times = None::<(i64, i64)>;
        for index in 0..segment.blocks().len() {
            // Those of one symbol are in order of time, also where blocks are in strands.
            for (row, body) in reader.read(segment, index) {
                writer.push(row, &body).map_err(failed)?;
                let (first, last) = times.unwrap_or((row.time, row.time));
                times = Some((first.min(row.time), last.max(row.time)));
            }
        }
        let (_, written, proof) = writer.finish_with_proof().map_err(failed)?;
        if written.messages != left {
            return Err(failed(SegmentError::Incomplete { need: left, have: written.messages }));
        }
        confirm(&file, &draft, &proof)?;
        file.sync_data().map_err(Error::io("sync", &draft))?;
        self.storage.rename(&draft, &path).map_err(Error::io("rename", &draft))?;
        self.storage.sync_dir(directory).map_err(Error::io("sync", directory))?;
        let (time_min, time_max) = times.unwrap_or((content.time_min, content.time_max));
        let (messages, bytes) = (written.messages, written.bytes);
        let content = Content { messages, bytes, time_min, time_max, ..content };
        Ok(Part { content: Some(content), ..part })
    }

    /// Keeps copies of the existing files under other names.
    fn keep(&self, directory: &Path, names: &[&str]) -> Result<(), Error> {
        for name in names {
            let path = directory.join(name);
            if self.storage.kind(&path).map_err(Error::io("look for", &path))?.is_some() {
                self.keep_copy(&path)?;
            }
        }
        Ok(())
    }

    /// Copies a small file that is about to be replaced: its name must never be missing.
    fn keep_copy(&self, path: &Path) -> Result<(), Error> {
        let bytes = self.storage.read(path, 1 << 30).map_err(Error::io("read", path))?;
        let kept = self.free_name(path)?;
        self.storage.write(&kept, &bytes).map_err(Error::io("write", &kept))?;
        self.storage.sync_file(&kept).map_err(Error::io("sync", &kept))
    }

    fn keep_file(&self, path: &Path) -> Result<(), Error> {
        let kept = self.free_name(path)?;
        self.storage.rename(path, &kept).map_err(Error::io("rename", path))
    }

    /// An unused name that ends with `.damaged`.
    fn free_name(&self, path: &Path) -> Result<PathBuf, Error> {
        let named = |middle: String| {
            let mut name = path.as_os_str().to_os_string();
            name.push(format!("{middle}.{DAMAGED_EXTENSION}"));
            PathBuf::from(name)
        };
        let mut kept = named(String::new());
        let mut number = 1u32;
        while self.storage.kind(&kept).map_err(Error::io("look for", &kept))?.is_some() {
            number += 1;
            kept = named(format!(".{number}"));
        }
        Ok(kept)
    }

    fn remove(&self, path: &Path) -> Result<(), Error> {
        match self.storage.remove(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io("remove", path)(error)),
            _ => Ok(()),
        }
    }
}

/// Reads the readable messages of blocks.
#[derive(Default)]
struct Reader {
    decoder: Decoder,
    block: Block,
    rows: Rows,
}

impl Reader {
    fn is_whole(&mut self, segment: &StoredSegment, index: usize) -> bool {
        segment.read_block(index, &mut self.block).is_ok()
            && self.block.damaged_columns().is_empty()
            && !self.is_misread(segment)
    }

    /// Whether only the reference decoder returns the messages that were sealed. A block that neither decodes is left to
    /// `tapedb check`: a rewrite would lose it.
    fn is_misread(&mut self, segment: &StoredSegment) -> bool {
        let Self { decoder, block, rows } = self;
        let decoded = decoder.rows(segment.plan(), block, &Selection::default(), rows);
        let is_right = decoded.is_ok() && block.check_content(rows).is_ok();
        !is_right && block.rows_by_reference(segment.plan()).is_some()
    }

    /// The messages of a block, of all record types or of those whose columns are whole, in order.
    fn read(&mut self, segment: &StoredSegment, index: usize) -> Vec<(RowHeader, Vec<u8>)> {
        let mut found = Vec::new();
        if segment.read_block(index, &mut self.block).is_err() {
            return found;
        }
        let is_decoded = self.take(segment, &Selection::default(), &mut found);
        if is_decoded && self.block.check_content(&self.rows).is_ok() {
            return found;
        }
        if is_decoded || self.block.damaged_columns().is_empty() {
            // Only messages that were sealed.
            return self.block.rows_by_reference(segment.plan()).unwrap_or_default();
        }
        let mut types: Vec<u16> = self.block.head().groups.iter().map(|group| group.type_id).collect();
        // A record type of many symbols has several groups.
        types.dedup();
        for type_id in types {
            let types = [type_id];
            self.take(segment, &Selection { types: Some(&types), ..Selection::default() }, &mut found);
        }
        found.sort_by_key(|(row, _)| (row.time, row.sequence));
        found
    }

    /// Adds the selected messages; `false`: they cannot be read.
    fn take(
        &mut self,
        segment: &StoredSegment,
        selection: &Selection<'_>,
        found: &mut Vec<(RowHeader, Vec<u8>)>,
    ) -> bool {
        let Self { decoder, block, rows } = self;
        let decoded = decoder.rows(segment.plan(), block, selection, rows);
        found.extend((0..rows.len()).map(|row| (rows.header(row), rows.body(row).to_vec())));
        decoded.is_ok()
    }
}

/// First sequence number and number in the name of a segment's file.
fn numbers_of(name: &str) -> Option<(u64, u64)> {
    let (first, number) = name.strip_suffix(&format!(".{SEGMENT_EXTENSION}"))?.split_once('-')?;
    let numbers = (first.parse().ok()?, number.parse().ok()?);
    (crate::space::catalog::segment_name(numbers.0, numbers.1) == name).then_some(numbers)
}
