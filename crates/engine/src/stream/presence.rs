//! Whether a stream still exists under its name.

use crate::error::{Error, Stale};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Shared by all handles of a stream.
#[derive(Debug, Default)]
pub(crate) struct Presence {
    is_gone: AtomicBool,
    /// The new name of a renamed stream.
    renamed: Mutex<Option<String>>,
}

impl Presence {
    /// Whether the stream is known to be deleted or renamed.
    #[inline]
    pub fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::SeqCst)
    }

    /// The new name, if the stream has been renamed.
    pub fn renamed(&self) -> Option<String> {
        self.renamed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Records the new name before the stream is marked as gone; returns the previous record.
    pub fn set_renamed(&self, new: Option<String>) -> Option<String> {
        std::mem::replace(&mut *self.renamed.lock().unwrap_or_else(PoisonError::into_inner), new)
    }

    /// Marks the stream as gone, or as present again where removing it failed.
    pub fn set_gone(&self, is_gone: bool) {
        self.is_gone.store(is_gone, Ordering::SeqCst);
    }

    /// Records that the stream has been deleted or renamed.
    pub fn note_gone(&self, renamed: Option<String>) {
        self.set_renamed(renamed);
        self.set_gone(true);
    }

    /// The error of a stream that has been deleted or renamed. `name`: its old name.
    pub fn error(&self, name: &str) -> Error {
        let name = name.to_string();
        match self.renamed() {
            Some(new) => Error::Stale(Stale::Renamed { name, new }),
            None => Error::Stale(Stale::Deleted { name }),
        }
    }

    /// # Errors
    /// [`Stale::Deleted`] and [`Stale::Renamed`].
    pub fn check(&self, name: &str) -> Result<(), Error> {
        if self.is_gone() { Err(self.error(name)) } else { Ok(()) }
    }
}
