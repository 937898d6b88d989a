//! Messages that are recorded as lost, by holes in the log's index or by the manifest: a reader of the remaining messages would
//! not notice them.

use crate::error::{Error, LostMessages, Unreadable};
use crate::space::catalog::{Catalog, Part};
use std::collections::VecDeque;
use std::path::Path;
use tapedb_log::{Damage, FILE_HEADER_BYTES, Granule, Log, Reason, Snapshot};

/// An error for each part of sealed history before `end` that was sealed with losses.
pub(crate) fn sealed(end: u64, directory: &Path, catalog: &Catalog) -> impl Iterator<Item = Error> {
    catalog.parts_between(0..end).filter(|part| part.lost > 0).filter_map(|part| of_part(directory, part))
}

/// The error for the messages that were lost when a part was sealed.
pub(crate) fn of_part(directory: &Path, part: &Part) -> Option<Error> {
    let (first_sequence, next_sequence) = (part.sequences.start, part.sequences.end);
    let lost = LostMessages { path: directory.into(), first_sequence, next_sequence, messages: part.lost };
    (part.lost > 0).then(|| Error::Unreadable(Unreadable::Lost(Box::new(lost))))
}

/// An error for each hole in the sequence numbers of the log, from what is sealed to `end`.
pub(crate) fn below(end: u64, log: &Log, (catalog, snapshot): (&Catalog, &Snapshot)) -> VecDeque<Error> {
    let mut found = VecDeque::new();
    // A transient log begins where its memory does, which is not damage.
    let (mut next, mut before) = (catalog.sealed.max(snapshot.first_sequence()), None);
    let in_log = |granule: &&Granule| granule.next_sequence() > catalog.sealed;
    for granule in snapshot.iter().filter(in_log).take_while(|granule| granule.first_sequence < end) {
        if granule.first_sequence > next {
            let damage = hole(next, granule.first_sequence, before, Some(granule), snapshot);
            found.push_back(Error::damaged(log, damage));
        }
        (next, before) = (granule.next_sequence(), Some(granule));
    }
    if end > next {
        let after = snapshot.get(snapshot.find(next));
        found.push_back(Error::damaged(log, hole(next, end, before, after, snapshot)));
    }
    found
}

/// The hole of messages from `first` to `end`, which should be between these granules.
fn hole(
    first: u64,
    end: u64,
    before: Option<&Granule>,
    after: Option<&Granule>,
    snapshot: &Snapshot,
) -> Damage {
    let first_file = snapshot.get(0).map_or(snapshot.first_sequence(), |granule| granule.file);
    let start = (first_file, FILE_HEADER_BYTES);
    let (file, offset) = before.map_or(start, |granule| (granule.file, granule.end()));
    let bytes = after.filter(|granule| granule.file == file).map_or(0, |granule| granule.offset - offset);
    let reason = if bytes > 0 { Reason::Unindexed } else { Reason::Gap };
    Damage { file, offset, bytes, first_sequence: first, count: Some(end - first), reason }
}
