//! The files of a stream elsewhere, as a read-only storage.

use crate::upstream::Upstream;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tapedb_log::{Entry, Kind, Storage, StorageFile, StorageLock};

/// Files of one stream, by their paths below its virtual directory.
#[derive(Debug)]
pub(crate) struct UpstreamStorage {
    pub upstream: Arc<dyn Upstream>,
    pub stream_id: u64,
    pub directory: PathBuf,
}

/// The files of a whole database elsewhere: none.
#[derive(Debug)]
pub(crate) struct NoStorage;

fn unsupported<T>() -> io::Result<T> {
    let what = "the database is remote; open it where its files are";
    Err(io::Error::new(io::ErrorKind::Unsupported, what))
}

impl UpstreamStorage {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>> {
        let name = path.strip_prefix(&self.directory).ok().and_then(Path::to_str);
        let name = name.ok_or(io::ErrorKind::NotFound)?;
        self.upstream.open_file(self.stream_id, name)
    }
}

macro_rules! read_only_storage {
    ($storage:ty, $this:ident, $path:ident, $open:expr) => {
        impl Storage for $storage {
            fn open_read(&self, $path: &Path) -> io::Result<Arc<dyn StorageFile>> {
                let $this = self;
                $open
            }

            fn create_new(&self, _: &Path) -> io::Result<Arc<dyn StorageFile>> {
                unsupported()
            }

            fn open_write(&self, _: &Path) -> io::Result<Arc<dyn StorageFile>> {
                unsupported()
            }

            fn entries(&self, _: &Path) -> io::Result<Vec<Entry>> {
                unsupported()
            }

            fn kind(&self, _: &Path) -> io::Result<Option<Kind>> {
                unsupported()
            }

            fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
                unsupported()
            }

            fn remove(&self, _: &Path) -> io::Result<()> {
                unsupported()
            }

            fn create_dir(&self, _: &Path) -> io::Result<()> {
                unsupported()
            }

            fn create_dir_all(&self, _: &Path) -> io::Result<()> {
                unsupported()
            }

            fn remove_dir_all(&self, _: &Path) -> io::Result<()> {
                unsupported()
            }

            fn sync_dir(&self, _: &Path) -> io::Result<()> {
                unsupported()
            }

            fn try_lock(&self, _: &Path) -> io::Result<Option<StorageLock>> {
                unsupported()
            }
        }
    };
}

read_only_storage!(UpstreamStorage, storage, path, storage.open(path));
read_only_storage!(NoStorage, _storage, _path, unsupported());
