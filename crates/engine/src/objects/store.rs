//! What the engine asks of an object store, and the stores that a process has, by the scheme of their URLs.

use crate::objects::folder::FolderStore;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::{fmt, io};

/// Objects with names and a content that does not change.
///
/// Each call ends in bounded time: an implementation limits the time of a request and how often it repeats one. It repeats what may
/// succeed later; what is returned as an error has been given up. Calls come from several threads at once.
pub trait ObjectStore: fmt::Debug + Send + Sync {
    /// Creates an object, whole or not at all; `false`: there is an object of this name, which stays as it is.
    ///
    /// # Errors
    /// [`ObjectError`]. The object may have been created all the same.
    fn put_if_absent(&self, key: &str, content: &[u8]) -> Result<bool, ObjectError>;

    /// The bytes of a range, or fewer where the object ends; the range begins inside it.
    ///
    /// # Errors
    /// [`ObjectFault::Missing`] if there is no such object.
    fn get_range(&self, key: &str, range: Range<u64>) -> Result<Vec<u8>, ObjectError>;

    /// Bytes of an object; `None`: there is none.
    ///
    /// # Errors
    /// [`ObjectError`].
    fn size(&self, key: &str) -> Result<Option<u64>, ObjectError>;

    /// Names of all objects that begin with `prefix`, which ends with a slash, sorted.
    ///
    /// # Errors
    /// [`ObjectError`].
    fn list(&self, prefix: &str) -> Result<Vec<String>, ObjectError>;

    /// Removes an object; that there is none is no error.
    ///
    /// # Errors
    /// [`ObjectError`].
    fn delete(&self, key: &str) -> Result<(), ObjectError>;
}

/// A request to an object store that failed.
#[derive(Debug, Clone)]
pub struct ObjectError {
    /// What kind of failure it is.
    pub fault: ObjectFault,
    /// What happened, and what to do.
    pub what: String,
}

/// Kinds of failures of an object store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectFault {
    /// There is no such object, bucket or folder.
    Missing,
    /// The store refuses the credentials, or they lack a right.
    Denied,
    /// The store does not answer, or answers that it cannot now: try again later.
    Unavailable,
    /// Anything else: the store works otherwise than it must, or holds what it should not.
    Wrong,
}

impl ObjectError {
    /// A failure of a kind.
    pub fn new(fault: ObjectFault, what: impl Into<String>) -> Self {
        Self { fault, what: what.into() }
    }

    /// The same as an error of the system, for files that are read from the store.
    pub(crate) fn into_io(self) -> io::Error {
        let kind = match self.fault {
            ObjectFault::Missing => io::ErrorKind::NotFound,
            ObjectFault::Denied => io::ErrorKind::PermissionDenied,
            ObjectFault::Unavailable => io::ErrorKind::TimedOut,
            ObjectFault::Wrong => io::ErrorKind::InvalidData,
        };
        io::Error::new(kind, self)
    }
}

impl fmt::Display for ObjectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for ObjectError {}

/// Opens the store of a URL. It makes no request.
pub type OpenObjectStore = fn(url: &str) -> Result<Arc<dyn ObjectStore>, ObjectError>;

/// The stores of this process besides folders, by scheme.
static OPENERS: Mutex<Option<HashMap<&'static str, OpenObjectStore>>> = Mutex::new(None);

/// Makes the stores of a scheme, such as `s3`, known to this process. A later call replaces an earlier one.
pub fn register_object_store(scheme: &'static str, open: OpenObjectStore) {
    let mut openers = OPENERS.lock().unwrap_or_else(PoisonError::into_inner);
    openers.get_or_insert_default().insert(scheme, open);
}

/// Opens the store of a URL.
pub(crate) fn open(url: &str) -> Result<Arc<dyn ObjectStore>, ObjectError> {
    let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
    let opener = {
        let openers = OPENERS.lock().unwrap_or_else(PoisonError::into_inner);
        openers.as_ref().and_then(|openers| openers.get(scheme).copied())
    };
    match opener {
        Some(open) => open(url),
        None if scheme == "file" => Ok(Arc::new(FolderStore::open(url)?)),
        None => Err(ObjectError::new(
            ObjectFault::Wrong,
            format!(
                "this program has no object store for {scheme}:// URLs; the `tapedb` command has s3, gs and az (feature `tier`), and \
                 every program file:///folder"
            ),
        )),
    }
}
