//! The files of a stream, read without opening the stream, repairing files or trusting them.

use crate::database::Database;
use crate::error::{Error, SegmentFailure, Unreadable};
use crate::files::{SYMBOLS_FILE, check_there, space_directory};
use crate::objects::tier::Objects;
use crate::objects::url::StoreUrl;
use crate::options::StreamOptions;
use crate::space::catalog::{Catalog, Part};
use crate::space::manifest::Owner;
use crate::space::reader::{SegmentFile, read_catalog, segment_header};
use crate::space::salvage::SchemaFiles;
use crate::stream::definition::Definition;
use crate::stream::identity::{Identity, Seen};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, io};
use tapedb_codec::dynamic::Layouts;
use tapedb_log::{Storage, StorageFile, SymbolFile, SymbolRecovery, Walk};
use tapedb_schema::Timestamp;
use tapedb_segment::{Damage, ReadAt, Segment, SegmentError, SegmentHeader, Tier};

/// The files of a stream; only its definition has been read. See [`Database::stored`].
pub struct StoredStream {
    pub(crate) storage: Arc<dyn Storage>,
    objects: Option<Arc<Objects>>,
    /// Whether a check reads segments that are in an object store.
    pub(crate) checks_objects: bool,
    name: String,
    directory: PathBuf,
    definition: Definition,
    layouts: Layouts,
    identity: Identity,
    /// Damage of one of the copies of the definition.
    pub(crate) definition_damage: Option<Error>,
}

impl fmt::Debug for StoredStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredStream").field("directory", &self.directory).finish_non_exhaustive()
    }
}

impl StoredStream {
    pub(crate) fn open(
        storage: Arc<dyn Storage>,
        objects: Option<Arc<Objects>>,
        name: &str,
        directory: PathBuf,
    ) -> Result<Self, Error> {
        let (identity, definition, copies) = Identity::open(storage.clone(), &directory)?;
        let layouts = Layouts::new(definition.schema.clone())?;
        let definition_damage = copies.damage;
        let name = name.into();
        let checks_objects = false;
        Ok(Self {
            storage,
            objects,
            checks_objects,
            name,
            directory,
            definition,
            layouts,
            identity,
            definition_damage,
        })
    }

    /// Whether a check reads all segments that are in an object store; otherwise it checks what is here of them. It does not, unless
    /// this is called.
    #[must_use]
    pub fn checking_objects(mut self, checks_objects: bool) -> Self {
        self.checks_objects = checks_objects;
        if checks_objects {
            // What the store has is to be checked.
            self.objects = self.objects.map(|objects| Arc::new(objects.uncached()));
        }
        self
    }

    /// Name.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn options(&self) -> StreamOptions {
        self.definition.options
    }

    pub(crate) fn id(&self) -> u64 {
        self.definition.id
    }

    /// The directory of the stream's files.
    pub fn path(&self) -> &Path {
        &self.directory
    }

    /// The schema prepared for the interpreted codec.
    pub fn layouts(&self) -> &Layouts {
        &self.layouts
    }

    /// Version of the schema; each batch names the version with which it was written.
    pub fn schema_version(&self) -> u16 {
        self.definition.schema_version
    }

    /// The symbol file.
    pub fn symbols_path(&self) -> PathBuf {
        self.directory.join(SYMBOLS_FILE)
    }

    /// Number of spaces of the stream.
    pub fn spaces(&self) -> u32 {
        self.definition.options.spaces
    }

    /// The directory of a space: its log files, segments and manifest.
    pub fn space_path(&self, space: u32) -> PathBuf {
        self.directory.join(space_directory(space))
    }

    /// Reads the symbol file.
    ///
    /// # Errors
    /// When it is missing, cannot be read, or belongs to another stream.
    pub fn symbols(&self) -> Result<(SymbolFile, SymbolRecovery), Error> {
        let path = self.symbols_path();
        check_there(&*self.storage, &path, "is missing, and with it the names of all symbols")?;
        Ok(SymbolFile::open_read(&*self.storage, &path, self.definition.id)?)
    }

    /// Begins a walk through the log files of a space, after the sealed history.
    ///
    /// # Errors
    /// When their directory is missing or cannot be listed, or there is no good copy of the manifest.
    pub fn walk(&self, space: u32) -> Result<Walk, Error> {
        let sealed = self.catalog(space)?.sealed;
        self.walk_from(space, sealed)
    }

    pub(crate) fn walk_from(&self, space: u32, sealed: u64) -> Result<Walk, Error> {
        let path = self.space_path(space);
        check_there(&*self.storage, &path, "is missing, and with it all messages")?;
        let walk = Walk::open(self.storage.clone(), &path, self.definition.id, space)?;
        Ok(walk.beginning_with(sealed))
    }

    /// The sealed history of a space, as its manifest states it, in order of sequence numbers.
    ///
    /// # Errors
    /// When there is no good copy of the manifest.
    pub fn parts(&self, space: u32) -> Result<Vec<StoredPart>, Error> {
        let (catalog, directory, owner) = (self.catalog(space)?, self.space_path(space), self.owner(space));
        Ok(catalog.parts.iter().map(|part| StoredPart::of(part, owner, &directory)).collect())
    }

    /// Opens the segment of a part, and returns the damage to its header and index; `None` for a part of which nothing is left.
    ///
    /// # Errors
    /// [`Unreadable::Segment`].
    pub fn segment(&self, part: &StoredPart) -> Result<Option<(StoredSegment, Vec<Damage>)>, Error> {
        let Some(path) = &part.path else { return Ok(None) };
        let failed = |error| {
            let (first_sequence, next_sequence) = (part.first_sequence, part.next_sequence);
            let (path, messages) = (path.clone(), part.messages);
            Error::from(SegmentFailure { path, first_sequence, next_sequence, messages, error })
        };
        let file = match &part.object {
            None => self.storage.open_read(path),
            Some(object) => self.open_object(part, object),
        };
        let file = file.map_err(|source| failed(SegmentError::Io { offset: 0, source }))?;
        let schema_version = self.definition.schema_version;
        let expected = segment_header(
            self.owner(part.space),
            &(part.first_sequence..part.next_sequence),
            schema_version,
        );
        let file: SharedFile = Arc::new(SegmentFile(file));
        let schemas =
            SchemaFiles { storage: &*self.storage, directory: &self.directory, version: schema_version };
        let opened = schemas.open_segment(file, &expected).map_err(failed)?;
        let header = opened.0.header();
        if (SegmentHeader { schema_version, ..header.clone() }) != expected {
            let what = "is a segment of other messages than the manifest states".into();
            return Err(Error::Unreadable(Unreadable::Definition { path: path.clone(), what }));
        }
        Ok(Some(opened))
    }

    fn open_object(&self, part: &StoredPart, object: &StoredObject) -> io::Result<Arc<dyn StorageFile>> {
        let url = self.definition.options.offload.map(|offload| offload.url);
        let (Some(objects), Some(foot)) = (&self.objects, &part.local_path) else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        // All of it comes from the store in a check.
        let foot = if self.checks_objects { Path::new("") } else { foot.as_path() };
        let named = (&*object.key, part.bytes, object.checksum);
        Ok(objects.open_segment(url.as_ref().map(StoreUrl::as_str), foot, named)?)
    }

    pub(crate) fn catalog(&self, space: u32) -> Result<Catalog, Error> {
        read_catalog(&*self.storage, &self.space_path(space), self.owner(space))
    }

    pub(crate) fn owner(&self, space: u32) -> Owner {
        Owner { stream_id: self.id(), space }
    }

    /// Whether the stream has been deleted since, or replaced by another stream of its name.
    pub fn is_gone(&self) -> bool {
        matches!(self.identity.look(), Seen::Gone)
    }
}

/// A segment that is open for inspection.
pub type StoredSegment = Segment<SharedFile>;
/// A file that segments are read from.
pub type SharedFile = Arc<dyn ReadAt + Send + Sync>;

/// A segment in an object store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredObject {
    /// Its name below the URL of the stream's object tier; its pieces are called so, with `.0`, `.1` … appended.
    pub key: String,
    /// CRC-64/NVME of its content.
    pub checksum: u64,
}

/// Messages with sequence numbers in a range, as the manifest states them: in a segment, or purged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredPart {
    /// The space.
    pub space: u32,
    /// First sequence number.
    pub first_sequence: u64,
    /// The one after the last.
    pub next_sequence: u64,
    /// Messages that could not be read when the part was sealed.
    pub lost: u64,
    /// The segment's file, also where it is an object; `None`: nothing is left.
    pub path: Option<PathBuf>,
    /// The part's file in the directory: the segment, or its foot.
    pub local_path: Option<PathBuf>,
    /// Where the segment is in the stream's object store, if it is there.
    pub object: Option<StoredObject>,
    /// Messages in the segment.
    pub messages: u64,
    /// Times of the earliest and the latest of them.
    pub times: Option<(Timestamp, Timestamp)>,
    /// Bytes of the segment's file.
    pub bytes: u64,
    /// Whether it is of the cold tier.
    pub is_cold: bool,
}

impl StoredPart {
    pub(crate) fn of(part: &Part, owner: Owner, directory: &Path) -> Self {
        let Owner { stream_id, space } = owner;
        let content = part.content.as_ref();
        Self {
            space,
            first_sequence: part.sequences.start,
            next_sequence: part.sequences.end,
            lost: part.lost,
            path: part.path(directory),
            local_path: part.local_path(directory),
            object: part.object_key(stream_id, space).map(|key| StoredObject {
                key,
                checksum: content.and_then(|content| content.object).unwrap_or_default(),
            }),
            messages: content.map_or(0, |content| content.messages),
            times: content.map(|content| (Timestamp(content.time_min), Timestamp(content.time_max))),
            bytes: content.map_or(0, |content| content.bytes),
            is_cold: content.is_some_and(|content| content.tier == Tier::Cold),
        }
    }
}

impl Database {
    /// The files of a stream, also where [`Database::stream`] would fail to open them, or would have to read much first.
    ///
    /// # Errors
    /// [`NotFound::Stream`](crate::NotFound::Stream), or what is wrong with its definition.
    pub fn stored(&self, name: &str) -> Result<StoredStream, Error> {
        let (storage, objects) = (self.storage().clone(), self.objects().cloned());
        StoredStream::open(storage, objects, name, self.existing_directory_of(name)?)
    }
}
