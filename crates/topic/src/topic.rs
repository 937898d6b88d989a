//! Topics: created, opened, checked, deleted.

use crate::body::body_bytes_max;
use crate::error::{BadFile, TopicError};
use crate::file::{TopicFile, write_new};
use crate::folder::{Folder, failed};
use crate::format::{Delivery, Shape, check_schema};
use crate::position::TopicPosition;
use crate::publisher::Publisher;
use crate::stats::TopicStats;
use crate::subscriber::{Subscriber, SubscriberBuilder};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tapedb_codec::dynamic::Layouts;
use tapedb_schema::{Schema, Timestamp};

/// How a topic is created.
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
    /// How long the others wait for a publisher or subscriber that is alive and makes no progress; 0: without limit. A dead one
    /// is not waited for. Default: a second.
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
    inner: Arc<TopicFile>,
}

impl Topic {
    /// Creates a topic.
    ///
    /// # Errors
    /// [`TopicError::Exists`] when there is one, which is not changed; invalid options or an invalid schema; the system's.
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
        folder.create()?;
        write_new(&path, &shape, &text)?;
        Self::open_path(path)
    }

    /// Opens a topic.
    ///
    /// # Errors
    /// [`TopicError::NotFound`]; [`TopicError::File`] when the file is no topic, damaged or of another version; the system's.
    pub fn open(folder: &Folder, name: &str) -> Result<Self, TopicError> {
        let path = folder.file(name)?;
        folder.check()?;
        Self::open_path(path)
    }

    /// Opens a topic, or creates it if there is none.
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
                // Another process was faster.
                Err(TopicError::Exists { .. }) => {}
                Ok(topic) if topic.schema() != schema => {
                    return Err(TopicError::OtherSchema { path: topic.inner.path.clone() });
                }
                opened => return opened,
            }
        }
    }

    /// Removes a topic's file. Processes that have it open continue with each other; no other process finds it.
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
        Ok(Self { inner: Arc::new(TopicFile::open(path)?) })
    }

    /// A publisher that shares the topic with others.
    ///
    /// # Errors
    /// [`TopicError::PublisherThere`] when there is an exclusive publisher, [`TopicError::Full`], and the system's.
    pub fn publisher(&self) -> Result<Publisher, TopicError> {
        Publisher::open(self.inner.clone(), false)
    }

    /// The only publisher: publishing then costs less. A publisher that dies frees the topic at once; one that is stopped
    /// does not.
    ///
    /// # Errors
    /// [`TopicError::PublisherThere`] when there is one already, and the system's.
    pub fn exclusive_publisher(&self) -> Result<Publisher, TopicError> {
        Publisher::open(self.inner.clone(), true)
    }

    /// Builds a subscriber.
    pub fn subscriber(&self) -> SubscriberBuilder {
        SubscriberBuilder::new(self.inner.clone())
    }

    /// The publishers and subscribers, their positions, and what was lost.
    pub fn stats(&self) -> TopicStats {
        TopicStats::of(&self.inner)
    }

    /// How far it has been published.
    pub fn position(&self) -> TopicPosition {
        TopicPosition::of_end(&self.inner.ring)
    }

    /// Whether its file still has its name and its length. A process that only monitors a topic calls this now and then: a
    /// topic that has been deleted and created again has other memory, and touching the memory of a file that has been cut
    /// short ends the process (SIGBUS).
    ///
    /// # Errors
    /// [`TopicError::Deleted`]; [`TopicError::File`] when the file has another length; the system's.
    pub fn check(&self) -> Result<(), TopicError> {
        let path = &self.inner.path;
        let failed = |error| failed("check", path, error);
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
        Err(TopicError::Deleted { path: path.clone(), is_replaced })
    }

    /// Its schema.
    pub fn schema(&self) -> &Schema {
        self.inner.layouts.schema()
    }

    /// The schema, prepared for encoding and decoding.
    pub fn layouts(&self) -> &Layouts {
        &self.inner.layouts
    }

    /// How it was created.
    pub fn options(&self) -> TopicOptions {
        let shape = &self.inner.ring.shape;
        TopicOptions {
            delivery: shape.delivery,
            ring_bytes: shape.ring_bytes,
            symbols_bytes: shape.symbols_bytes,
            stall: Duration::from_millis(shape.stall_ms),
        }
    }

    /// When it was created.
    pub fn created(&self) -> Timestamp {
        Timestamp(self.inner.ring.shape.created)
    }

    /// Longest body of a message, in bytes.
    pub fn body_bytes_max(&self) -> usize {
        body_bytes_max(&self.inner.ring)
    }

    /// Distinguishes it from others, also from an earlier one of the same name.
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

impl Subscriber {
    /// The topic.
    pub fn topic(&self) -> Topic {
        Topic { inner: self.topic.clone() }
    }
}

fn shape_of(options: &TopicOptions, schema_bytes: u64) -> Shape {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
    Shape {
        delivery: options.delivery,
        // Enough to distinguish the topics of one machine, which is its only purpose.
        id: (now ^ u64::from(std::process::id()) << 48).wrapping_mul(0x9e37_79b9_7f4a_7c15),
        created: now as i64,
        ring_bytes: options.ring_bytes,
        symbols_bytes: options.symbols_bytes,
        schema_bytes,
        stall_ms: options.stall.as_millis().try_into().unwrap_or(u64::MAX),
    }
}
