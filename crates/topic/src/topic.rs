//! Topics as files: made, opened, checked, deleted.

use crate::error::{BadFile, TopicError};
use crate::folder::{Folder, failed};
use crate::format::{
    Delivery, PUBLISHERS_AT, PUBLISHING_AT, SLOT_BYTES, SUBSCRIBERS_AT, SYMBOLS_AT, Shape, check_schema,
};
use crate::publisher::Publisher;
use crate::ring::{Presence, Ring};
use crate::stats::TopicStats;
use crate::subscriber::SubscriberBuilder;
use crate::system::{self, Hold, Mapping};
use crate::words::Words;
use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tapedb_codec::dynamic::Layouts;
use tapedb_schema::{Schema, Timestamp};

/// How a topic is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicOptions {
    /// Whether publishers wait for subscribers. Default: reliable.
    pub delivery: Delivery,
    /// Bytes of the ring: 64 KiB to 1 GiB, a power of two. One claim (a message, or a batch) takes an eighth of it at most.
    /// Default: 8 MiB.
    pub ring_bytes: u64,
    /// Bytes of the dictionary of symbols, each of which takes 8 and its length rounded up to 8: 4 KiB to 8 MiB, a multiple
    /// of 4 KiB. Default: 1 MiB.
    pub symbols_bytes: u64,
    /// How long others wait for a publisher or subscriber that lives and stands still; 0: for ever. One that is dead is not
    /// waited for. Default: a second.
    pub stall: Duration,
}

impl Default for TopicOptions {
    fn default() -> Self {
        Self {
            delivery: Delivery::Reliable,
            ring_bytes: 8 << 20,
            symbols_bytes: 1 << 20,
            stall: Duration::from_secs(1),
        }
    }
}

/// A topic: a ring in shared memory, open in this process. Cheap to clone.
///
/// ```
/// use tapedb_codec::{Record, SchemaBuilder};
/// use tapedb_schema::Timestamp;
/// use tapedb_topic::{Folder, Topic, TopicOptions};
///
/// #[derive(Record, Default, Debug, PartialEq)]
/// #[record(message)]
/// struct Tick { price: f64 }
///
/// # let home = tempfile::tempdir()?;
/// # let folder = Folder::at(home.path());
/// let schema = SchemaBuilder::new().with::<Tick>().finish();
/// let topic = Topic::open_or_create(&folder, "ticks", &schema, &TopicOptions::default())?;
/// let mut subscriber = topic.subscriber().open()?;
/// let mut publisher = topic.publisher()?;
/// publisher.publish("AAPL", Timestamp(1), &Tick { price: 187.5 })?;
///
/// let message = subscriber.next()?.expect("what was published is there at once");
/// assert_eq!((message.symbol(), message.decode::<Tick>()?), ("AAPL", Tick { price: 187.5 }));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Topic {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub ring: Ring,
    pub layouts: Layouts,
    pub file: Arc<File>,
    pub path: PathBuf,
}

/// Bytes of what the system counts as a file's blocks.
const BLOCK_BYTES: u64 = 512;

/// How far somebody is in a topic, or the topic itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TopicPosition {
    /// Sequence number of the next message.
    pub next_sequence: u64,
    /// Bytes of the ring up to it, from the topic's beginning; headers and padding included.
    pub bytes: u64,
}

/// Slots are held by locks on their bytes.
#[derive(Debug)]
struct Locks(Arc<File>);

impl Presence for Locks {
    fn has_publisher(&self, slot: usize) -> bool {
        // What cannot be asked is waited for.
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

impl Topic {
    /// Makes a topic.
    ///
    /// # Errors
    /// [`TopicError::Exists`] when there is one, which stays as it is; options or a schema that cannot be; the system's.
    pub fn create(
        folder: &Folder,
        name: &str,
        schema: &Schema,
        options: &TopicOptions,
    ) -> Result<Self, TopicError> {
        let path = folder.file(name)?;
        let text = schema.to_string();
        let layouts = Layouts::new(schema.clone())?;
        check_schema(layouts.records().len(), &text)?;
        let shape = shape_of(options, text.len() as u64);
        shape.check().map_err(TopicError::Options)?;
        folder.make()?;
        write_new(&path, &shape, &text)?;
        Self::open_path(path)
    }

    /// Opens a topic.
    ///
    /// # Errors
    /// [`TopicError::NotFound`]; [`TopicError::File`] when the file is none, damaged or of another version; the system's.
    pub fn open(folder: &Folder, name: &str) -> Result<Self, TopicError> {
        let path = folder.file(name)?;
        folder.check()?;
        Self::open_path(path)
    }

    /// Opens a topic, or makes it if there is none: whoever comes first.
    ///
    /// # Errors
    /// As [`Topic::create`] and [`Topic::open`]; [`TopicError::OtherSchema`].
    pub fn open_or_create(
        folder: &Folder,
        name: &str,
        schema: &Schema,
        options: &TopicOptions,
    ) -> Result<Self, TopicError> {
        loop {
            let opened = match Self::open(folder, name) {
                Err(TopicError::NotFound { .. }) => Self::create(folder, name, schema, options),
                opened => opened,
            };
            match opened {
                // Somebody was faster.
                Err(TopicError::Exists { .. }) => {}
                Ok(topic) if topic.schema() != schema => {
                    return Err(TopicError::OtherSchema { path: topic.inner.path.clone() });
                }
                opened => return opened,
            }
        }
    }

    /// Removes a topic's file. Those who have it open go on among themselves; nobody else finds it.
    ///
    /// # Errors
    /// [`TopicError::NotFound`], and the system's.
    pub fn delete(folder: &Folder, name: &str) -> Result<(), TopicError> {
        let path = folder.file(name)?;
        folder.check()?;
        match fs::remove_file(&path) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound => Err(TopicError::NotFound { path }),
            Err(error) => Err(failed("delete", &path, error)),
        }
    }

    fn open_path(path: PathBuf) -> Result<Self, TopicError> {
        let file = match OpenOptions::new().read(true).write(true).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(TopicError::NotFound { path }),
            Err(error) => return Err(failed("open", &path, error)),
        };
        let bad = |bad| TopicError::File { path: path.clone(), bad };
        let found = file.metadata().map_err(|error| failed("look at", &path, error))?;
        let length = found.len();
        let shape = read_shape(&file, length, &path)?;
        // A hole that finds no room when it is written to would end the process.
        if found.blocks() * BLOCK_BYTES < length {
            system::fill_holes(&file, length).map_err(|error| failed("make room for", &path, error))?;
        }
        let layouts = read_schema(&file, &shape, &path)?;
        let usize_bytes = usize::try_from(length);
        let bytes = usize_bytes.map_err(|_| bad(BadFile::Field { field: "file_bytes", found: length }))?;
        let mapping = Mapping::new(&file, bytes).map_err(|error| failed("map", &path, error))?;
        let file = Arc::new(file);
        let ring = Ring::new(Words::mapped(mapping), shape, Box::new(Locks(file.clone())));
        Ok(Self { inner: Arc::new(Inner { ring, layouts, file, path }) })
    }

    /// A publisher among others.
    ///
    /// # Errors
    /// [`TopicError::PublisherThere`] when somebody publishes alone, [`TopicError::Full`], and the system's.
    pub fn publisher(&self) -> Result<Publisher, TopicError> {
        Publisher::open(self, false)
    }

    /// The only publisher: publishing then costs less. A publisher that dies frees the topic at once; one that is stopped
    /// keeps it.
    ///
    /// # Errors
    /// [`TopicError::PublisherThere`] when there is one already, and the system's.
    pub fn exclusive_publisher(&self) -> Result<Publisher, TopicError> {
        Publisher::open(self, true)
    }

    /// Builds a subscriber.
    pub fn subscriber(&self) -> SubscriberBuilder {
        SubscriberBuilder::new(self.clone())
    }

    /// Who publishes and subscribes, how far they are, and what was lost.
    pub fn stats(&self) -> TopicStats {
        TopicStats::of(&self.inner)
    }

    /// How far it has been published.
    pub fn position(&self) -> TopicPosition {
        crate::stats::end(&self.inner.ring)
    }

    /// Whether its file is still the one of its name, and as long as it was. Whoever looks at a topic from outside asks this
    /// now and then: one that has been deleted and made anew would be looked at in vain, and touching the memory of one that
    /// has been cut short ends the process (SIGBUS).
    ///
    /// # Errors
    /// [`TopicError::Gone`]; [`TopicError::File`] when the file has another length; the system's.
    pub fn check(&self) -> Result<(), TopicError> {
        let path = &self.inner.path;
        let failed = |error| failed("look at", path, error);
        let ours = self.inner.file.metadata().map_err(failed)?;
        let need = self.inner.ring.shape.file_bytes();
        if ours.len() != need {
            let bad = BadFile::Length { found: ours.len(), need };
            return Err(TopicError::File { path: path.clone(), bad });
        }
        let is_replaced = match fs::metadata(path) {
            Ok(found) if (found.dev(), found.ino()) == (ours.dev(), ours.ino()) => return Ok(()),
            Ok(_) => true,
            Err(error) if error.kind() == ErrorKind::NotFound => false,
            Err(error) => return Err(failed(error)),
        };
        Err(TopicError::Gone { path: path.clone(), is_replaced })
    }

    /// Its schema.
    pub fn schema(&self) -> &Schema {
        self.inner.layouts.schema()
    }

    /// The schema, prepared for work.
    pub fn layouts(&self) -> &Layouts {
        &self.inner.layouts
    }

    /// How it was made.
    pub fn options(&self) -> TopicOptions {
        let shape = &self.inner.ring.shape;
        TopicOptions {
            delivery: shape.delivery,
            ring_bytes: shape.ring_bytes,
            symbols_bytes: shape.symbols_bytes,
            stall: Duration::from_millis(shape.stall_ms),
        }
    }

    /// When it was made.
    pub fn created(&self) -> Timestamp {
        Timestamp(self.inner.ring.shape.created)
    }

    /// Longest body of a message, in bytes.
    pub fn body_bytes_max(&self) -> usize {
        crate::body::body_bytes_max(&self.inner.ring)
    }

    /// Tells it from others, also from one of the same name before it.
    pub fn id(&self) -> u64 {
        self.inner.ring.shape.id
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.inner.path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default()
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }
}

impl Inner {
    /// Takes a free slot for a publisher. The slot is its own while the file lives.
    ///
    /// # Errors
    /// [`TopicError::PublisherThere`], [`TopicError::Full`], and the system's.
    pub fn take_publisher(&self, alone: bool) -> Result<(File, usize), TopicError> {
        let file = self.open_again()?;
        let hold = if alone { Hold::Alone } else { Hold::Shared };
        if !self.lock(&file, PUBLISHING_AT, 8, hold)? {
            return Err(TopicError::PublisherThere);
        }
        for slot in 0..self.ring.publisher_slots() {
            if self.lock(&file, publisher_at(slot), SLOT_BYTES, Hold::Alone)? {
                return Ok((file, slot));
            }
        }
        Err(TopicError::Full { what: "publishers", most: self.ring.publisher_slots() })
    }

    /// Takes a free slot for a subscriber.
    ///
    /// # Errors
    /// [`TopicError::Full`], and the system's.
    pub fn take_subscriber(&self) -> Result<(File, usize), TopicError> {
        let file = self.open_again()?;
        for slot in 0..self.ring.subscriber_slots() {
            if self.lock(&file, subscriber_at(slot), SLOT_BYTES, Hold::Alone)? {
                return Ok((file, slot));
            }
        }
        Err(TopicError::Full { what: "subscribers", most: self.ring.subscriber_slots() })
    }

    /// Whether all of its memory may be touched.
    pub fn is_whole(&self) -> bool {
        self.file.metadata().is_ok_and(|found| found.len() >= self.ring.shape.file_bytes())
    }

    /// Another opening of the same file, whatever has become of its name: locks belong to openings.
    fn open_again(&self) -> Result<File, TopicError> {
        let path = self.path.clone();
        if !self.is_whole() {
            let found = self.file.metadata().map_err(|error| failed("look at", &path, error))?.len();
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

fn shape_of(options: &TopicOptions, schema_bytes: u64) -> Shape {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
    Shape {
        delivery: options.delivery,
        // Enough to tell the topics of one machine apart, which is all it has to.
        id: (now ^ u64::from(std::process::id()) << 48).wrapping_mul(0x9e37_79b9_7f4a_7c15),
        created: now as i64,
        ring_bytes: options.ring_bytes,
        symbols_bytes: options.symbols_bytes,
        schema_bytes,
        stall_ms: options.stall.as_millis().try_into().unwrap_or(u64::MAX),
    }
}

/// Writes a new topic beside its place, and gives it its name when it is whole: others see all of it or nothing.
fn write_new(path: &Path, shape: &Shape, schema: &str) -> Result<(), TopicError> {
    let temporary = path.with_extension(format!("{}.{:x}.new", std::process::id(), shape.id));
    let written = write_file(&temporary, shape, schema);
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

fn write_file(path: &Path, shape: &Shape, schema: &str) -> Result<(), TopicError> {
    let error = |error| failed("create", path, error);
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create_new(true).mode(0o600).open(path).map_err(error)?;
    system::allocate(&file, shape.file_bytes()).map_err(error)?;
    let header: Vec<u8> = shape.words().iter().flat_map(|word| word.to_le_bytes()).collect();
    file.write_all_at(&header, 0).map_err(error)?;
    file.write_all_at(schema.as_bytes(), shape.schema_at()).map_err(error)?;
    let tail = crate::format::Tail::free(shape.ring_bytes).word();
    file.write_all_at(&tail.to_le_bytes(), crate::format::word::TAIL as u64 * 8).map_err(error)?;
    let limit = shape.ring_bytes.to_le_bytes();
    file.write_all_at(&limit, crate::format::word::LIMIT as u64 * 8).map_err(error)
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
