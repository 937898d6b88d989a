//! What is sealed of a stream: it is on the disk at every level of durability, and does not change any more but for deletions and renamed
//! symbols.

use crate::error::Error;
use tapedb_engine::{Database, StoredPart, Stream};

/// The sealed parts of each space, one after the other, from message 0.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sealed(pub Vec<Vec<StoredPart>>);

/// A range of sequence numbers in each space, and the times of its messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Range {
    pub ends: Vec<u64>,
    /// The first and the last; `None`: nothing is left of it.
    pub times: Option<(i64, i64)>,
}

impl Sealed {
    /// Reads the stream's manifests.
    ///
    /// # Errors
    /// When the database is not one of this machine, or its files cannot be read.
    pub fn of(db: &Database, stream: &Stream) -> Result<Self, Error> {
        let stored = db.stored(stream.name())?;
        let spaces = (0..stored.spaces()).map(|space| stored.parts(space));
        Ok(Self(spaces.collect::<Result<_, _>>()?))
    }

    /// Sequence numbers behind what is sealed.
    pub fn ends(&self) -> Vec<u64> {
        self.0.iter().map(|parts| parts.last().map_or(0, |part| part.next_sequence)).collect()
    }

    /// The next range behind these numbers: whole parts, with about `wanted` messages.
    pub fn next(&self, from: &[u64], wanted: u64) -> Range {
        let wanted = wanted / self.0.len().max(1) as u64;
        let mut times = None;
        let mut end = |(parts, from): (&Vec<StoredPart>, &u64)| {
            let (mut end, mut messages) = (*from, 0);
            for part in parts.iter().filter(|part| part.next_sequence > *from) {
                if messages >= wanted && end > *from {
                    break;
                }
                (end, messages) = (part.next_sequence, messages + part.messages);
                if let Some((first, last)) = part.times {
                    let (least, most) = times.unwrap_or((first.0, last.0));
                    times = Some((least.min(first.0), most.max(last.0)));
                }
            }
            end
        };
        let ends = self.0.iter().zip(from).map(&mut end).collect();
        Range { ends, times }
    }

    /// Messages behind these numbers, of all record types.
    pub fn waiting(&self, from: &[u64]) -> u64 {
        let from = from.iter().copied().chain(std::iter::repeat(0));
        self.ends().into_iter().zip(from).map(|(end, from)| end.saturating_sub(from)).sum()
    }

    /// Messages before these numbers that could not be read when they were sealed.
    pub fn lost(&self, ends: &[u64]) -> u64 {
        let lost = |(parts, end): (&Vec<StoredPart>, &u64)| -> u64 {
            parts.iter().filter(|part| part.next_sequence <= *end).map(|part| part.lost).sum()
        };
        self.0.iter().zip(ends).map(lost).sum()
    }
}
