//! The log file that cannot be sealed.

use crate::error::{Error, Unreadable};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tapedb_segment::{Mismatch, SegmentError};

/// The log file that cannot be sealed, if there is one. It is not tried again before the stream is opened again.
#[derive(Debug, Default)]
pub(crate) struct Refused(Mutex<Option<Refusal>>);

#[derive(Debug, Clone)]
struct Refusal {
    /// The first message that is not sealed.
    sequence: u64,
    path: PathBuf,
    mismatch: Mismatch,
}

impl Refused {
    /// Records that the messages from `sequence` on cannot be sealed, if the error means that.
    pub fn note(&self, sequence: u64, error: &Error) {
        if let Error::Unreadable(Unreadable::Segment(failure)) = error
            && let SegmentError::Unfaithful(mismatch) = &failure.error
        {
            // Without the dump, which is in a file.
            let mismatch = Mismatch { dump: Vec::new(), ..(**mismatch).clone() };
            *self.refusal() = Some(Refusal { sequence, path: failure.path.clone(), mismatch });
        }
    }

    /// Why the messages from `sequence` on cannot be sealed; `None`: no reason is known.
    pub fn why(&self, sequence: u64) -> Option<Error> {
        let refusal = self.refusal().clone().filter(|refusal| refusal.sequence == sequence)?;
        let error = SegmentError::Unfaithful(Box::new(refusal.mismatch));
        Some(Error::not_written(&refusal.path, error))
    }

    fn refusal(&self) -> MutexGuard<'_, Option<Refusal>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
