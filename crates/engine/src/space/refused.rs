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
    flaw: Flaw,
}

/// What is wrong with the segment that would replace it.
#[derive(Debug, Clone)]
enum Flaw {
    /// A block is not decoded to its rows. Without the dump, which is in a file.
    Mismatch(Mismatch),
    /// It has not as many messages as it needs.
    Incomplete { need: u64, have: u64 },
}

impl Flaw {
    fn of(error: &SegmentError) -> Option<Self> {
        match error {
            SegmentError::Unfaithful(mismatch) => {
                Some(Self::Mismatch(Mismatch { dump: Vec::new(), ..(**mismatch).clone() }))
            }
            SegmentError::Incomplete { need, have } => Some(Self::Incomplete { need: *need, have: *have }),
            _ => None,
        }
    }
}

impl From<Flaw> for SegmentError {
    fn from(flaw: Flaw) -> Self {
        match flaw {
            Flaw::Mismatch(mismatch) => Self::Unfaithful(Box::new(mismatch)),
            Flaw::Incomplete { need, have } => Self::Incomplete { need, have },
        }
    }
}

impl Refused {
    /// Records that the messages from `sequence` on cannot be sealed, if the error means that.
    pub fn note(&self, sequence: u64, error: &Error) {
        if let Error::Unreadable(Unreadable::Segment(failure)) = error
            && let Some(flaw) = Flaw::of(&failure.error)
        {
            *self.refusal() = Some(Refusal { sequence, path: failure.path.clone(), flaw });
        }
    }

    /// Why the messages from `sequence` on cannot be sealed; `None`: no reason is known.
    pub fn why(&self, sequence: u64) -> Option<Error> {
        let refusal = self.refusal().clone().filter(|refusal| refusal.sequence == sequence)?;
        Some(Error::not_written(&refusal.path, refusal.flaw.into()))
    }

    fn refusal(&self) -> MutexGuard<'_, Option<Refusal>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn an_incomplete_segment_is_not_tried_again() {
        let refused = Refused::default();
        let error = Error::not_written(Path::new("0.seg"), SegmentError::Incomplete { need: 3, have: 2 });
        refused.note(7, &error);
        assert!(refused.why(8).is_none());
        let why = refused.why(7).unwrap();
        assert!(why.is_unfaithful() && why.to_string().contains("its sources have 3"), "{why}");
        refused.note(9, &Error::not_written(Path::new("0.seg"), SegmentError::TooLong { need: 1, have: 2 }));
        assert!(refused.why(9).is_none());
    }
}
