//! The place of a database's old segments: an object store, what is known of it, and what is copied there.

use crate::admin::identity::DatabaseIdentity;
use crate::clock::random;
use crate::error::Error;
use crate::objects::cache::DiskCache;
use crate::objects::chunks::{CHUNK_BYTES, Chunks};
use crate::objects::counts::note_put;
use crate::objects::file::ObjectFile;
use crate::objects::foot::{self, Foot};
use crate::objects::keys;
use crate::objects::store::{self, ObjectError, ObjectFault, ObjectStore};
use crate::stream::copies;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tapedb_log::{Storage, StorageFile};

/// The file in a database's directory that no backup has: with it a process may go on with the records in the store.
pub(crate) const WRITER_FILE: &str = "object-writer";
const WRITER_MAGIC: &str = "tapedb-object-writer 1";
/// First words of the owner's object, and its version.
const MAGIC: &str = "tapedb-owner 1";
/// Owners and records are not longer.
const TEXT_BYTES_MAX: u64 = 1 << 30;

/// The object stores of a database, by their URLs: opened when they are first used.
pub(crate) struct Objects {
    storage: Arc<dyn Storage>,
    database: PathBuf,
    /// Whether chunks are kept on the disk.
    has_cache: bool,
    tiers: Mutex<HashMap<String, Arc<ObjectTier>>>,
}

impl Objects {
    pub fn new(storage: Arc<dyn Storage>, database: &Path, has_cache: bool) -> Self {
        Self { storage, database: database.into(), has_cache, tiers: Mutex::default() }
    }

    /// The same stores, of which nothing is read from memory or the disk: for a check.
    pub fn uncached(&self) -> Self {
        Self::new(self.storage.clone(), &self.database, false)
    }

    /// The tier of a URL. No request is made.
    ///
    /// # Errors
    /// When there is no store for such URLs, or its settings are not valid.
    pub fn tier(&self, url: &str) -> Result<Arc<ObjectTier>, Error> {
        let mut tiers = lock(&self.tiers);
        if let Some(found) = tiers.get(url) {
            return Ok(found.clone());
        }
        let opened = store::open(url).map_err(|error| failed("open", url.into(), error))?;
        let disk = self.has_cache.then(|| DiskCache::new(self.storage.clone(), &self.database));
        let chunks = Arc::new(Chunks::new(opened.clone(), url, disk));
        let tier =
            Arc::new(ObjectTier { url: url.into(), store: opened, chunks, is_claimed: Mutex::new(false) });
        tiers.insert(url.into(), tier.clone());
        Ok(tier)
    }

    /// Opens a segment that is in the store of a URL. Where its foot, which should be at a path, is missing, it comes from the store.
    ///
    /// # Errors
    /// When there is no URL, or no store for it.
    pub fn open_segment(
        &self,
        url: Option<&str>,
        foot: &Path,
        (key, bytes, checksum): (&str, u64, u64),
    ) -> std::io::Result<Arc<ObjectFile>> {
        let url = url.ok_or_else(|| {
            let what = format!(
                "the segment {key} is in an object store, and the stream's definition does not name one"
            );
            std::io::Error::new(std::io::ErrorKind::InvalidInput, what)
        })?;
        let tier =
            self.tier(url).map_err(|error| std::io::Error::new(std::io::ErrorKind::InvalidInput, error))?;
        let foot = self.storage.read(foot, foot::BYTES_MAX).ok().and_then(|bytes| Foot::parse(&bytes));
        let foot = foot.filter(|foot| (foot.bytes, foot.checksum) == (bytes, checksum)).unwrap_or_default();
        Ok(Arc::new(tier.file(key, bytes, foot)))
    }

    /// A number that distinguishes this directory from copies of it that a backup has made; created if there is none.
    ///
    /// # Errors
    /// When it cannot be read or written.
    pub fn writer(&self) -> Result<u64, Error> {
        let (storage, path) = (&*self.storage, self.database.join(WRITER_FILE));
        if let Some(text) = copies::read_text(storage, &path, 1 << 10)?
            && let Ok(body) = copies::unsealed(WRITER_MAGIC, &text)
            && let Ok(number) = u64::from_str_radix(body.trim_end(), 16)
        {
            return Ok(number);
        }
        let number = random();
        let text = copies::sealed(WRITER_MAGIC, &format!("{number:016x}\n"));
        copies::replace(storage, &self.database, WRITER_FILE, "streams/.new-object-writer", &text)?;
        Ok(number)
    }

    /// The tier of a URL, for a database that writes to it: see [`ObjectTier::claim`].
    ///
    /// # Errors
    /// As [`Self::tier`] and [`ObjectTier::claim`].
    pub fn own_tier(&self, url: &str) -> Result<Arc<ObjectTier>, Error> {
        let tier = self.tier(url)?;
        tier.claim(DatabaseIdentity::read_or_create(&*self.storage, &self.database)?.id)?;
        Ok(tier)
    }
}

/// A place in an object store.
#[derive(Debug)]
pub(crate) struct ObjectTier {
    url: String,
    store: Arc<dyn ObjectStore>,
    chunks: Arc<Chunks>,
    /// Whether this process has found that the place is this database's.
    is_claimed: Mutex<bool>,
}

impl ObjectTier {
    pub fn url(&self) -> &str {
        &self.url
    }

    fn at<'a>(&'a self, operation: &'static str, key: &'a str) -> impl Fn(ObjectError) -> Error + 'a {
        move |error| failed(operation, format!("{}/{key}", self.url), error)
    }

    /// Makes the place that of a database, or finds that it is. Before, the store is probed: it must not replace an object.
    ///
    /// # Errors
    /// When the store overwrites objects, when the place is another database's, when the store refuses.
    pub fn claim(&self, database: u64) -> Result<(), Error> {
        let mut is_claimed = lock(&self.is_claimed);
        if *is_claimed {
            return Ok(());
        }
        let owner = match self.owner()? {
            Some(owner) => owner,
            None => {
                self.probe()?;
                let text = copies::sealed(MAGIC, &format!("database {database:016x}\n"));
                self.store
                    .put_if_absent(keys::OWNER, text.as_bytes())
                    .map_err(self.at("store", keys::OWNER))?;
                // Another database may have been quicker.
                self.owner()?.unwrap_or(0)
            }
        };
        if owner != database {
            let what = format!(
                "it is the place of database {owner:016x}, and this is {database:016x}; choose another prefix for each database"
            );
            return Err(self.at("use", keys::OWNER)(ObjectError::new(ObjectFault::Wrong, what)));
        }
        *is_claimed = true;
        Ok(())
    }

    /// The database that has the place; `None`: nothing has.
    pub fn owner(&self) -> Result<Option<u64>, Error> {
        let Some(text) = self.text(keys::OWNER)? else { return Ok(None) };
        let id = copies::unsealed(MAGIC, &text)
            .and_then(|body| {
                let id = body
                    .strip_prefix("database ")
                    .and_then(|rest| u64::from_str_radix(rest.trim_end(), 16).ok());
                id.ok_or_else(|| "has an unknown line".into())
            })
            .map_err(|what| {
                self.at("read", keys::OWNER)(ObjectError::new(ObjectFault::Wrong, format!("it {what}")))
            })?;
        Ok(Some(id))
    }

    /// Checks that the store creates an object only where there is none.
    fn probe(&self) -> Result<(), Error> {
        let key = format!("{}{:016x}", keys::PROBES, random());
        let failed = self.at("probe", &key);
        // It may have been repeated by the store's client, and the answer then be that there is one.
        self.store.put_if_absent(&key, b"1").map_err(&failed)?;
        let replaced = self.store.put_if_absent(&key, b"2").map_err(&failed)?;
        let content = self.store.get_range(&key, 0..8).map_err(&failed)?;
        self.store.delete(&key).map_err(&failed)?;
        if !replaced && content == b"1" {
            return Ok(());
        }
        let what = "the store replaces an object that exists in spite of a conditional put, so two writers could \
                    destroy each other's data; use a store that supports `If-None-Match: *`";
        Err(failed(ObjectError::new(ObjectFault::Wrong, what)))
    }

    /// A small object as text; `None`: there is none.
    pub fn text(&self, key: &str) -> Result<Option<String>, Error> {
        let failed = self.at("read", key);
        match self.store.get_range(key, 0..TEXT_BYTES_MAX) {
            Ok(bytes) => String::from_utf8(bytes)
                .map(Some)
                .map_err(|_| failed(ObjectError::new(ObjectFault::Wrong, "it is damaged: not UTF-8"))),
            Err(error) if error.fault == ObjectFault::Missing => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    /// Creates an object, and reads it back. One that is there must have the same content.
    ///
    /// # Errors
    /// When the store refuses, or what is read back differs.
    pub fn put(&self, key: &str, content: &[u8]) -> Result<(), Error> {
        let created = self.store.put_if_absent(key, content).map_err(self.at("store", key))?;
        note_put(if created { content.len() } else { 0 });
        let failed = self.at("read back", key);
        let wrong = |what: String| failed(ObjectError::new(ObjectFault::Wrong, what));
        let of = if created { "what was just stored" } else { "an object that was there before" };
        let size = self.store.size(key).map_err(&failed)?;
        if size != Some(content.len() as u64) {
            return Err(wrong(format!("{of} has {size:?} bytes, not {}", content.len())));
        }
        for (index, chunk) in content.chunks(CHUNK_BYTES as usize).enumerate() {
            let start = index as u64 * CHUNK_BYTES;
            let back = self.store.get_range(key, start..start + chunk.len() as u64).map_err(&failed)?;
            if back != chunk {
                return Err(wrong(format!(
                    "{of} differs from byte {start} on; nothing here is removed because of it"
                )));
            }
        }
        Ok(())
    }

    /// Copies a segment's file to the pieces of an object, and reads them back. `false`: `proceed` has ended it.
    ///
    /// # Errors
    /// As [`Self::put`]; when the file cannot be read or is not what `checksum` states.
    pub fn put_segment(
        &self,
        (file, path): (&dyn StorageFile, &Path),
        (key, bytes, checksum): (&str, u64, u64),
        proceed: &dyn Fn() -> bool,
    ) -> Result<bool, Error> {
        let mut digest = Digest::new();
        let mut content = Vec::new();
        for (piece, range) in keys::pieces(bytes) {
            if !proceed() {
                return Ok(false);
            }
            read_range(file, range.start, (range.end - range.start) as usize, &mut content)
                .map_err(Error::io("read", path))?;
            digest.update(&content);
            self.put(&keys::piece(key, piece), &content)?;
        }
        if digest.finish() == checksum {
            return Ok(true);
        }
        let changed =
            std::io::Error::other("its bytes have changed since they were read before; nothing is removed");
        Err(Error::io("read", path)(changed))
    }

    /// A segment that is in the store.
    pub fn file(&self, key: &str, bytes: u64, foot: Foot) -> ObjectFile {
        ObjectFile::new(key, bytes, foot, self.chunks.clone())
    }

    /// Copies a segment from the store, without the cache: reads, checks and gives it piece by piece.
    ///
    /// # Errors
    /// When the store refuses, the content is not what `checksum` states, or `write` fails.
    pub fn fetch_segment(
        &self,
        (key, bytes, checksum): (&str, u64, u64),
        mut write: impl FnMut(&[u8], u64) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut digest = Digest::new();
        for (piece, range) in keys::pieces(bytes) {
            let name = keys::piece(key, piece);
            let failed = self.at("read", &name);
            let len = range.end - range.start;
            for start in (0..len).step_by(CHUNK_BYTES as usize) {
                let end = len.min(start + CHUNK_BYTES);
                let content = self.store.get_range(&name, start..end).map_err(&failed)?;
                if content.len() as u64 != end - start {
                    let what = format!(
                        "it has {} bytes from {start} on, where there must be {}",
                        content.len(),
                        end - start
                    );
                    return Err(failed(ObjectError::new(ObjectFault::Wrong, what)));
                }
                digest.update(&content);
                write(&content, range.start + start)?;
            }
        }
        if digest.finish() == checksum {
            return Ok(());
        }
        let what =
            "its content does not have the checksum in its name: it was damaged or replaced in the store";
        Err(self.at("read", key)(ObjectError::new(ObjectFault::Wrong, what)))
    }

    /// Names of objects, sorted.
    ///
    /// # Errors
    /// When the store refuses.
    pub fn list(&self, prefix: &str) -> Result<Vec<String>, Error> {
        self.store.list(prefix).map_err(self.at("list", prefix))
    }

    /// Removes an object.
    ///
    /// # Errors
    /// When the store refuses.
    pub fn delete(&self, key: &str) -> Result<(), Error> {
        self.store.delete(key).map_err(self.at("remove", key))
    }
}

fn failed(operation: &'static str, path: String, error: ObjectError) -> Error {
    Error::Io { operation, path: path.into(), source: error.into_io() }
}

/// CRC-64/NVME of bytes that come one after the other.
pub(crate) struct Digest(crc_fast::Digest);

impl Digest {
    pub fn new() -> Self {
        Self(crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc64Nvme))
    }

    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub fn finish(&self) -> u64 {
        self.0.finalize()
    }
}

/// Replaces `content` by a range of a file.
pub(crate) fn read_range(
    file: &dyn StorageFile,
    start: u64,
    len: usize,
    content: &mut Vec<u8>,
) -> std::io::Result<()> {
    content.resize(len, 0);
    let mut done = 0;
    while done < len {
        match file.read_at(&mut content[done..], start + done as u64) {
            Ok(0) => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => done += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
