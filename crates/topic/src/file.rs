//! A topic's file, open and mapped, and the slots in it, which are held by locks.

use crate::error::{BadFile, TopicError};
use crate::folder::failed;
use crate::format::{
    PUBLISHERS_AT, PUBLISHING_AT, SLOT_BYTES, SUBSCRIBERS_AT, SYMBOLS_AT, Shape, Tail, word,
};
use crate::ring::{Presence, Ring};
use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tapedb_codec::dynamic::Layouts;
use tapedb_schema::Schema;
use tapedb_shm::Words;
use tapedb_shm::system::{self, Hold, Mapping};

/// What all publishers, subscribers and handles of one topic in this process share.
#[derive(Debug)]
pub(crate) struct TopicFile {
    pub ring: Ring,
    pub layouts: Layouts,
    pub file: Arc<File>,
    pub path: PathBuf,
}

/// Bytes of what the system counts as a file's blocks.
const BLOCK_BYTES: u64 = 512;

/// A slot is held by a lock on its bytes.
#[derive(Debug)]
struct Locks(Arc<File>);

impl Presence for Locks {
    fn has_publisher(&self, slot: usize) -> bool {
        // After an error the holder is taken for alive.
        system::is_locked(&self.0, publisher_at(slot), SLOT_BYTES).unwrap_or(true)
    }

    fn has_subscriber(&self, slot: usize) -> bool {
        system::is_locked(&self.0, subscriber_at(slot), SLOT_BYTES).unwrap_or(true)
    }
}

fn publisher_at(slot: usize) -> u64 {
    PUBLISHERS_AT + slot as u64 * SLOT_BYTES
}

fn subscriber_at(slot: usize) -> u64 {
    SUBSCRIBERS_AT + slot as u64 * SLOT_BYTES
}

impl TopicFile {
    /// Opens and maps a file, after checking it.
    ///
    /// # Errors
    /// [`TopicError::NotFound`]; [`TopicError::File`] when the file is no topic, damaged or of another version; the system's.
    pub fn open(path: PathBuf) -> Result<Self, TopicError> {
        let file = match OpenOptions::new().read(true).write(true).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(TopicError::NotFound { path }),
            Err(error) => return Err(failed("open", &path, error)),
        };
        let bad = |bad| TopicError::File { path: path.clone(), bad };
        let found = file.metadata().map_err(|error| failed("check", &path, error))?;
        let length = found.len();
        let shape = read_shape(&file, length, &path)?;
        // A write to a hole on a full file system would end the process.
        if found.blocks() * BLOCK_BYTES < length {
            system::fill_holes(&file, length).map_err(|error| failed("allocate", &path, error))?;
        }
        let layouts = read_schema(&file, &shape, &path)?;
        let usize_bytes = usize::try_from(length);
        let bytes = usize_bytes.map_err(|_| bad(BadFile::Field { field: "file_bytes", found: length }))?;
        let mapping = Mapping::new(&file, bytes).map_err(|error| failed("map", &path, error))?;
        let file = Arc::new(file);
        let ring = Ring::new(Words::mapped(mapping), shape, Box::new(Locks(file.clone())));
        Ok(Self { ring, layouts, file, path })
    }

    /// Takes a free slot for a publisher. It is held until the file is closed.
    ///
    /// # Errors
    /// [`TopicError::PublisherThere`], [`TopicError::Full`], and the system's.
    pub fn take_publisher(&self, exclusive: bool) -> Result<(File, usize), TopicError> {
        let file = self.open_again()?;
        let hold = if exclusive { Hold::Exclusive } else { Hold::Shared };
        if !self.lock(&file, PUBLISHING_AT, 8, hold)? {
            return Err(TopicError::PublisherThere);
        }
        for slot in 0..self.ring.publisher_slots() {
            if self.lock(&file, publisher_at(slot), SLOT_BYTES, Hold::Exclusive)? {
                return Ok((file, slot));
            }
        }
        Err(TopicError::Full { what: "publishers", most: self.ring.publisher_slots() })
    }

    /// Takes a free slot for a subscriber. It is held until the file is closed.
    ///
    /// # Errors
    /// [`TopicError::Full`], and the system's.
    pub fn take_subscriber(&self) -> Result<(File, usize), TopicError> {
        let file = self.open_again()?;
        for slot in 0..self.ring.subscriber_slots() {
            if self.lock(&file, subscriber_at(slot), SLOT_BYTES, Hold::Exclusive)? {
                return Ok((file, slot));
            }
        }
        Err(TopicError::Full { what: "subscribers", most: self.ring.subscriber_slots() })
    }

    /// Whether all of its memory may be touched.
    pub fn is_whole(&self) -> bool {
        self.file.metadata().is_ok_and(|found| found.len() >= self.ring.shape.file_bytes())
    }

    /// Another opening of the same file, whatever its name is now: locks belong to openings.
    fn open_again(&self) -> Result<File, TopicError> {
        let path = self.path.clone();
        if !self.is_whole() {
            let found = self.file.metadata().map_err(|error| failed("check", &path, error))?.len();
            let bad = BadFile::Length { found, need: self.ring.shape.file_bytes() };
            return Err(TopicError::File { path, bad });
        }
        let itself = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        let opened = OpenOptions::new().read(true).write(true).open(itself);
        opened.map_err(|error| failed("open", &self.path, error))
    }

    fn lock(&self, file: &File, at: u64, bytes: u64, hold: Hold) -> Result<bool, TopicError> {
        system::try_lock(file, at, bytes, hold).map_err(|error| failed("lock", &self.path, error))
    }
}

/// Writes a new topic under another name and links it to its own: other processes see all of it or nothing.
pub(crate) fn write_new(path: &Path, shape: &Shape, schema: &str) -> Result<(), TopicError> {
    let temporary = path.with_extension(format!("{}.{:x}.new", std::process::id(), shape.id));
    let written = write(&temporary, shape, schema);
    let linked = written.and_then(|()| match fs::hard_link(&temporary, path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            Err(TopicError::Exists { path: path.to_path_buf() })
        }
        Err(error) => Err(failed("create", path, error)),
    });
    let _ = fs::remove_file(&temporary);
    linked
}

fn write(path: &Path, shape: &Shape, schema: &str) -> Result<(), TopicError> {
    let error = |error| failed("create", path, error);
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create_new(true).mode(0o600).open(path).map_err(error)?;
    system::allocate(&file, shape.file_bytes()).map_err(error)?;
    let header: Vec<u8> = shape.words().iter().flat_map(|word| word.to_le_bytes()).collect();
    file.write_all_at(&header, 0).map_err(error)?;
    file.write_all_at(schema.as_bytes(), shape.schema_at()).map_err(error)?;
    let tail = Tail::free(shape.ring_bytes).word();
    file.write_all_at(&tail.to_le_bytes(), word::TAIL as u64 * 8).map_err(error)?;
    file.write_all_at(&shape.ring_bytes.to_le_bytes(), word::LIMIT as u64 * 8).map_err(error)
}

fn read_shape(file: &File, length: u64, path: &Path) -> Result<Shape, TopicError> {
    let bad = |bad| TopicError::File { path: path.to_path_buf(), bad };
    if length < SYMBOLS_AT {
        return Err(bad(BadFile::Length { found: length, need: SYMBOLS_AT }));
    }
    let mut bytes = [0; 128];
    file.read_exact_at(&mut bytes, 0).map_err(|error| failed("read", path, error))?;
    let (words, _) = bytes.as_chunks::<8>();
    let words: [u64; 16] = std::array::from_fn(|at| u64::from_le_bytes(words[at]));
    Shape::parse(&words, length).map_err(bad)
}

fn read_schema(file: &File, shape: &Shape, path: &Path) -> Result<Layouts, TopicError> {
    let bad = |what: String| TopicError::File { path: path.to_path_buf(), bad: BadFile::Schema(what) };
    let mut text = vec![0; shape.schema_bytes as usize];
    file.read_exact_at(&mut text, shape.schema_at()).map_err(|error| failed("read", path, error))?;
    let text = String::from_utf8(text).map_err(|error| bad(error.to_string()))?;
    let schema: Schema = text.parse().map_err(|error: tapedb_schema::SchemaError| bad(error.to_string()))?;
    Layouts::new(schema).map_err(|error| bad(error.to_string()))
}
