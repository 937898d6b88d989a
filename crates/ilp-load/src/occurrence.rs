//! Which request a request is, among those with the same bytes, and how much of it the streams have.
//!
//! Streams have how much of each request they store ([`Stream::stored_of_request`](tapedb_engine::Stream::stored_of_request)), by a number that follows
//! from the request and its occurrence. That outlives the process: after a kill or on a disk that was full, a request that is sent again goes on where
//! it ended. Occurrences are numbered from 0 without holes, and only the last one can be stored in part: it is sent again until it is whole, or
//! its client gives it up, and then the next request with these bytes is the rest of it.

use crate::retries::{Key, Known};
use crc_fast::{CrcAlgorithm, checksum};
use std::hash::{BuildHasher, RandomState};

/// Occurrences that are counted.
const COUNTED_MAX: u64 = 256;

/// How much of a request the streams have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    Nothing,
    Part,
    Whole,
}

/// What is to be done with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    pub occurrence: u64,
    /// The number of the occurrence in the streams.
    pub id: u64,
    /// Whether it is stored already.
    pub is_stored: bool,
}

/// Finds the occurrence that a request is. `may_be_retry`: whether a request of which nothing is recorded, and which the streams have, is one
/// that is sent again. `extent`: how much of an occurrence the streams have.
pub(crate) fn find<E>(
    key: &Key,
    sum: u64,
    (known, may_be_retry): (Known, bool),
    extent: impl Fn(u64) -> Result<Extent, E>,
) -> Result<Found, E> {
    let first = match known {
        Known::Next(first) => first,
        Known::Nothing | Known::Overflowed => 0,
    };
    let mut whole = None;
    for occurrence in (first..).take(COUNTED_MAX as usize) {
        let found = Found { occurrence, id: id(key, sum, occurrence), is_stored: false };
        match (extent(found.id)?, whole) {
            (Extent::Whole, _) => whole = Some(Found { is_stored: true, ..found }),
            (Extent::Nothing, Some(whole)) if may_be_retry && !matches!(known, Known::Next(_)) => {
                return Ok(whole);
            }
            (Extent::Nothing | Extent::Part, _) => return Ok(found),
        }
    }
    // Any number that no other has: it is not found again.
    let occurrence = RandomState::new().hash_one(sum) >> 1;
    Ok(Found { occurrence, id: id(key, sum, occurrence), is_stored: false })
}

/// The number of an occurrence of a request; never 0.
fn id(key: &Key, sum: u64, occurrence: u64) -> u64 {
    let mut bytes = Vec::with_capacity(64);
    let (user, name, length) = match key {
        Key::Bytes { user, length, .. } => (user, None, *length),
        Key::Named { user, name } => (user, Some(name), 0),
    };
    for part in [Some(user), name].into_iter().flatten() {
        bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
        bytes.extend_from_slice(part.as_bytes());
    }
    for number in [length as u64, sum, occurrence] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    checksum(CrcAlgorithm::Crc64Nvme, &bytes).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn key() -> Key {
        Key::Bytes { user: "ann".into(), length: 3, checksum: 5 }
    }

    /// What is found where the streams have these occurrences.
    fn found(stored: &[Extent], known: Known, may_be_retry: bool) -> (u64, bool) {
        let by_id: HashMap<u64, Extent> =
            stored.iter().zip(0..).map(|(extent, occurrence)| (id(&key(), 5, occurrence), *extent)).collect();
        let extent = |id: u64| Ok::<_, ()>(by_id.get(&id).copied().unwrap_or(Extent::Nothing));
        let found = find(&key(), 5, (known, may_be_retry), extent).unwrap();
        (found.occurrence, found.is_stored)
    }

    #[test]
    fn a_request_goes_on_where_it_ended() {
        use Extent::{Part, Whole};
        assert_eq!(found(&[], Known::Nothing, true), (0, false));
        assert_eq!(found(&[Part], Known::Nothing, true), (0, false));
        assert_eq!(found(&[Whole], Known::Nothing, true), (0, true));
        assert_eq!(found(&[Whole, Part], Known::Nothing, true), (1, false));
        assert_eq!(found(&[Whole, Whole], Known::Nothing, true), (1, true));
        // It is known to be another one.
        assert_eq!(found(&[Whole], Known::Nothing, false), (1, false));
        assert_eq!(found(&[Whole], Known::Overflowed, false), (1, false));
        assert_eq!(found(&[Whole], Known::Overflowed, true), (0, true), "it has a name");
        assert_eq!(found(&[Whole], Known::Next(1), true), (1, false));
        assert_eq!(found(&[Whole, Part], Known::Next(1), true), (1, false));
        assert_eq!(found(&[Whole, Whole], Known::Next(1), true), (2, false));
        let many = [Whole; COUNTED_MAX as usize];
        assert!(found(&many, Known::Nothing, false).0 > COUNTED_MAX);
    }

    #[test]
    fn ids_differ_in_everything_that_requests_differ_in() {
        let named = |user: &str, name: &str| Key::Named { user: user.into(), name: name.into() };
        let ids = [
            id(&key(), 5, 0),
            id(&key(), 5, 1),
            id(&key(), 6, 0),
            id(&Key::Bytes { user: "ann".into(), length: 4, checksum: 5 }, 5, 0),
            id(&Key::Bytes { user: "bob".into(), length: 3, checksum: 5 }, 5, 0),
            id(&named("ann", "b"), 5, 0),
            id(&named("an", "nb"), 5, 0),
        ];
        let distinct: std::collections::HashSet<u64> = ids.into_iter().collect();
        assert_eq!(distinct.len(), ids.len());
    }
}
