//! What a space holds besides its log, at one moment: its sealed history in parts, and deletions that are not yet carried out
//! in files.

use crate::objects::keys::{self, FOOT_EXTENSION};
use crate::space::deletion::Deletion;
use crate::space::parts::{Parts, Totals};
use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tapedb_segment::Tier;

/// The sealed history of a space. Immutable: a change replaces it by a new one.
///
/// Always true: the parts follow each other without holes or overlaps, from message 0 to before `sealed`; every number in
/// use is below `next_number`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Catalog {
    /// Number of changes.
    pub generation: u64,
    /// Messages below this are in `parts`, or purged; the log has the rest.
    pub sealed: u64,
    /// In order of sequence numbers.
    pub parts: Parts,
    /// In the order in which they were made.
    pub deletions: Vec<Arc<Deletion>>,
    /// Number of the next segment file or deletion.
    pub next_number: u64,
}

/// Messages with sequence numbers in a range: in a segment, or purged.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub sequences: Range<u64>,
    /// How many of them could not be read, because of damage, when the part was made.
    pub lost: u64,
    /// `None`: nothing is left.
    pub content: Option<Content>,
}

/// What is left of a part, in a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Content {
    /// Distinguishes the file from others of the same sequence numbers.
    pub number: u64,
    pub messages: u64,
    pub time_min: i64,
    pub time_max: i64,
    pub bytes: u64,
    pub tier: Tier,
    /// Deletions with numbers below this have been carried out in the file.
    pub deleted_before: u64,
    /// Checksum of the file, where the file is in the object store of the stream; `None`: it is in the directory of the space.
    pub object: Option<u64>,
}

impl Catalog {
    /// Parts that overlap a range of sequence numbers, found by binary search.
    pub fn parts_between(&self, sequences: Range<u64>) -> impl Iterator<Item = &Arc<Part>> + Clone {
        self.parts.between(sequences)
    }

    /// Messages in segments, including deleted ones that are still there.
    pub fn messages(&self) -> u64 {
        self.parts.totals().messages
    }

    /// Messages that could not be read when they were sealed, in parts that begin before `end`.
    pub fn lost_below(&self, end: u64) -> u64 {
        self.parts.lost_below(end)
    }

    /// Times of the earliest and the latest message in segments.
    pub fn times(&self) -> Option<(i64, i64)> {
        self.parts.totals().times
    }

    pub fn contents(&self) -> impl Iterator<Item = &Content> {
        self.parts.iter().filter_map(|part| part.content.as_ref())
    }

    /// With `part` added to the end, or in place of those it covers. Adjacent empty parts become one. Deletions that have been
    /// carried out in all files are dropped.
    ///
    /// `None`: the parts are not those it was made from.
    pub fn with(&self, part: Part) -> Option<Self> {
        let mut new = self.next();
        new.next_number = new.next_number.max(part.content.as_ref().map_or(0, |content| content.number + 1));
        let mut replaced = part.sequences.clone();
        if part.sequences.start == new.sealed {
            new.sealed = part.sequences.end;
            replaced = part.sequences.start..part.sequences.start;
        } else if part.sequences.is_empty() {
            return None;
        }
        let part = new.joined(part, &mut replaced);
        if !new.parts.replace(&replaced, [Arc::new(part)]) {
            return None;
        }
        new.drop_carried_out();
        Some(new)
    }

    /// An empty part, and its empty neighbours, as one.
    fn joined(&self, mut part: Part, replaced: &mut Range<u64>) -> Part {
        if part.content.is_some() {
            return part;
        }
        let is_empty = |part: &&Arc<Part>| part.content.is_none();
        let before = replaced.start.checked_sub(1).and_then(|last| self.parts.between(last..last + 1).next());
        if let Some(before) = before.filter(is_empty) {
            part = before.joined(&part);
            replaced.start = before.sequences.start;
        }
        let end = replaced.end;
        if let Some(after) = self.parts.between(end..end.saturating_add(1)).next().filter(is_empty) {
            part = part.joined(after);
            replaced.end = after.sequences.end;
        }
        part
    }

    /// With parts added to the end, in one change. `None`: they do not follow each other, or the last part.
    pub fn with_sealed(&self, parts: Vec<Part>) -> Option<Self> {
        let mut new = self.clone();
        for part in parts {
            new = Some(part)
                .filter(|part| part.sequences.start == new.sealed)
                .and_then(|part| new.with(part))?;
        }
        Some(Self { generation: self.generation + 1, ..new })
    }

    /// With one more deletion. Parts that it covers completely become empty at once.
    pub fn with_deletion(&self, deletion: Deletion) -> Self {
        let mut new = self.next();
        new.next_number = new.next_number.max(deletion.number + 1);
        let may_cover = |totals: &Totals| {
            totals.times.is_some_and(|(first, last)| deletion.from <= last && first <= deletion.last)
        };
        let covered = |part: &Part| {
            let content = part.content.as_ref()?;
            let is_covered = deletion.covers_all(&part.sequences, content.time_min, content.time_max);
            is_covered.then(|| part.emptied(part.lost))
        };
        new.parts = new.parts.changed(may_cover, covered).unwrap_or(new.parts);
        new.deletions.push(Arc::new(deletion));
        new.drop_carried_out();
        new
    }

    /// With `part` added to the end, in place of what `deletion` covers: in one change.
    ///
    /// `None`: the part does not begin where the others end.
    pub fn rewritten(&self, part: Part, deletion: Deletion) -> Option<Self> {
        let is_next = part.sequences.start == self.sealed;
        let new = self.with_deletion(deletion).with(part).filter(|_| is_next)?;
        Some(Self { generation: self.generation + 1, ..new })
    }

    /// Without the content of some segments, by number. `None`: it has none of them.
    pub fn without(&self, numbers: &[u64]) -> Option<Self> {
        let numbers: HashSet<u64> = numbers.iter().copied().collect();
        let emptied = |part: &Part| {
            part.content
                .as_ref()
                .is_some_and(|content| numbers.contains(&content.number))
                .then(|| part.emptied(0))
        };
        let mut new =
            Self { parts: self.parts.changed(|totals| totals.segments > 0, emptied)?, ..self.next() };
        new.drop_carried_out();
        Some(new)
    }

    /// With deletions that end at `next_sequence`, the next message to be appended; `None` if they already do. A power cut may
    /// have removed deleted messages from the log: their numbers are assigned again, to messages that are not deleted.
    pub fn without_deletions_from(&self, next_sequence: u64) -> Option<Self> {
        if self.deletions.iter().all(|deletion| deletion.sequences.end <= next_sequence) {
            return None;
        }
        let mut new = self.next();
        for deletion in &mut new.deletions {
            let mut ended = Deletion::clone(deletion);
            ended.sequences.end = ended.sequences.end.min(next_sequence);
            *deletion = Arc::new(ended);
        }
        new.drop_carried_out();
        Some(new)
    }

    /// The same, as if all segments were files.
    pub fn as_files(&self) -> Cow<'_, Self> {
        let as_file = |part: &Part| {
            let content = part.content.as_ref().filter(|content| content.object.is_some())?;
            let content = Some(Content { object: None, ..content.clone() });
            Some(Part { sequences: part.sequences.clone(), lost: part.lost, content })
        };
        match self.parts.changed(|totals| totals.objects > 0, as_file) {
            Some(parts) => Cow::Owned(Self { parts, ..self.clone() }),
            None => Cow::Borrowed(self),
        }
    }

    /// What a reader of the object store alone finds: all that is not there is as if it was removed.
    pub fn in_store(&self) -> Self {
        let elsewhere = |part: &Part| (!part.is_object()).then(|| part.emptied(0));
        let mut new = self.clone();
        new.parts = new
            .parts
            .changed(|totals| totals.objects < totals.segments || totals.lost > 0, elsewhere)
            .unwrap_or(new.parts);
        while new.parts.last().is_some_and(|part| part.content.is_none()) {
            new.parts.pop();
        }
        new.sealed = new.parts.last().map_or(0, |part| part.sequences.end);
        for deletion in &mut new.deletions {
            let mut ended = Deletion::clone(deletion);
            ended.sequences.end = ended.sequences.end.min(new.sealed);
            *deletion = Arc::new(ended);
        }
        new.drop_carried_out();
        new
    }

    /// With a part's segment at another place: an object, or a file again. `None`: the part has been replaced since.
    pub fn with_place(&self, part: &Part, object: Option<u64>) -> Option<Self> {
        let content = Content { object, ..part.content.clone()? };
        let mut new = self.next();
        let placed = Part { sequences: part.sequences.clone(), lost: part.lost, content: Some(content) };
        let is_here = self.has(part) && new.parts.replace(&part.sequences, [Arc::new(placed)]);
        is_here.then_some(new)
    }

    /// [`Catalog::with`] for a part that was made from others. `None` also where one of those has been replaced since: what a
    /// deletion has removed from it would reappear.
    pub fn with_merged(&self, part: Part, made_from: &[Arc<Part>]) -> Option<Self> {
        made_from.iter().all(|part| self.has(part)).then(|| self.with(part)).flatten()
    }

    /// Whether the part is in the catalog, and has not been replaced.
    pub fn has(&self, part: &Part) -> bool {
        self.parts_between(part.sequences.clone()).next().is_some_and(|found| **found == *part)
    }

    /// A copy of the next generation.
    pub fn next(&self) -> Self {
        Self { generation: self.generation + 1, ..self.clone() }
    }

    /// Drops deletions that have been carried out.
    fn drop_carried_out(&mut self) {
        let (sealed, parts) = (self.sealed, &self.parts);
        self.deletions.retain(|deletion| deletion.sequences.end > sealed || parts.is_affected_by(deletion));
    }
}

impl Part {
    /// The same without anything that is left.
    pub fn emptied(&self, lost: u64) -> Self {
        Self { sequences: self.sequences.clone(), lost, content: None }
    }

    /// Two empty parts, one after the other, as one.
    pub fn joined(&self, next: &Self) -> Self {
        Self {
            sequences: self.sequences.start..next.sequences.end,
            lost: self.lost + next.lost,
            content: None,
        }
    }

    /// Whether a deletion may cover messages in the part's file that it still holds.
    pub fn is_affected_by(&self, deletion: &Deletion) -> bool {
        self.content.as_ref().is_some_and(|content| {
            deletion.number >= content.deleted_before
                && deletion.overlaps(&self.sequences, content.time_min, content.time_max)
        })
    }

    /// Number of messages in the file.
    pub fn messages(&self) -> u64 {
        self.content.as_ref().map_or(0, |content| content.messages)
    }

    /// The segment's file in the directory of the space, also where it is an object; `None` for an empty part.
    pub fn path(&self, directory: &Path) -> Option<PathBuf> {
        let content = self.content.as_ref()?;
        Some(directory.join(segment_name(self.sequences.start, content.number)))
    }

    /// The part's file that must be in the directory of the space: its segment, or the foot of the segment if that is an object.
    pub fn local_path(&self, directory: &Path) -> Option<PathBuf> {
        let path = self.path(directory)?;
        Some(if self.is_object() { path.with_extension(FOOT_EXTENSION) } else { path })
    }

    /// Whether the segment is in an object store.
    pub fn is_object(&self) -> bool {
        self.content.as_ref().is_some_and(|content| content.object.is_some())
    }

    /// The name of the segment in an object store, if it is there.
    pub fn object_key(&self, stream_id: u64, space: u32) -> Option<String> {
        let content = self.content.as_ref()?;
        Some(keys::segment(stream_id, space, self.sequences.start, content.number, content.object?))
    }
}

/// Name of a segment's file.
pub(crate) fn segment_name(first_sequence: u64, number: u64) -> String {
    format!("{first_sequence:020}-{number}.{SEGMENT_EXTENSION}")
}

pub(crate) const SEGMENT_EXTENSION: &str = "seg";
/// Extension of a segment that is being written.
pub(crate) const DRAFT_EXTENSION: &str = "tmp";

#[cfg(test)]
mod tests {
    use super::*;

    fn part(sequences: Range<u64>, number: u64) -> Part {
        let (time_min, time_max) = (sequences.start as i64, sequences.end as i64 - 1);
        let (messages, tier) = (sequences.end - sequences.start, Tier::Hot);
        let content = Content {
            number,
            messages,
            time_min,
            time_max,
            bytes: 100,
            tier,
            deleted_before: number,
            object: None,
        };
        Part { sequences, lost: 1, content: Some(content) }
    }

    fn catalog(ends: &[u64]) -> Catalog {
        let mut catalog = Catalog::default();
        for end in ends {
            catalog = catalog.with(part(catalog.sealed..*end, catalog.next_number)).unwrap();
        }
        catalog
    }

    fn ranges(catalog: &Catalog) -> Vec<Range<u64>> {
        catalog.parts.iter().map(|part| part.sequences.clone()).collect()
    }

    #[test]
    fn parts_follow_each_other_and_are_replaced_by_one_that_covers_them() {
        let three = catalog(&[10, 20, 30]);
        assert_eq!((ranges(&three), three.sealed, three.generation), (vec![0..10, 10..20, 20..30], 30, 3));
        assert_eq!(three.parts_between(10..21).count(), 2);
        assert_eq!(three.parts_between(30..99).count(), 0);
        let merged = three.with(part(0..20, 7)).unwrap();
        assert_eq!((ranges(&merged), merged.next_number), (vec![0..20, 20..30], 8));
        assert!(three.with(part(5..20, 7)).is_none() && three.with(part(0..15, 7)).is_none());
        assert!(three.with(part(31..40, 7)).is_none());
        assert!(three.has(&part(10..20, 1)) && !merged.has(&part(10..20, 1)) && merged.has(&part(0..20, 7)));
    }

    #[test]
    fn a_deletion_during_a_merge_is_not_undone_by_it() {
        let three = catalog(&[10, 20, 30]);
        let parts: Vec<_> = three.parts.iter().cloned().collect();
        let all = Deletion { number: 4, from: 0, last: 9, sequences: 0..30, symbols: None };
        let cut = three.with_deletion(all);
        assert!(cut.deletions.is_empty() && cut.parts[0].content.is_none(), "nothing is left to carry out");
        assert!(three.with_merged(part(0..20, 3), &parts[..2]).is_some());
        assert!(cut.with_merged(part(0..20, 3), &parts[..2]).is_none());
        assert!(cut.with_merged(part(10..30, 3), &parts[1..]).is_some());
    }

    #[test]
    fn segments_are_removed_and_their_sequence_numbers_stay() {
        let three = catalog(&[10, 20, 30]);
        let numbers: Vec<u64> = three.contents().map(|content| content.number).collect();
        let rest = three.without(&numbers[..2]).unwrap();
        assert_eq!((ranges(&rest), rest.sealed, rest.messages()), (vec![0..20, 20..30], 30, 10));
        assert!(rest.without(&numbers[..2]).is_none());
    }

    #[test]
    fn messages_are_replaced_in_one_change() {
        let three = catalog(&[10, 20, 30]);
        let deletion =
            Deletion { number: three.next_number, from: 5, last: 14, sequences: 0..30, symbols: None };
        let new = Part { sequences: 30..32, ..part(10..12, three.next_number + 1) };
        let rewritten = three.rewritten(new, deletion.clone()).unwrap();
        assert_eq!(ranges(&rewritten), [0..10, 10..20, 20..30, 30..32]);
        assert_eq!((rewritten.generation, rewritten.sealed), (three.generation + 1, 32));
        let affected: Vec<bool> =
            rewritten.parts.iter().map(|part| part.is_affected_by(&rewritten.deletions[0])).collect();
        assert_eq!(affected, [true, true, false, false]);
        assert!(three.rewritten(part(31..33, 9), deletion).is_none());
    }

    #[test]
    fn a_deletion_does_not_cover_messages_that_get_its_numbers_again() {
        let all = |sequences| Deletion { number: 3, from: 0, last: 99, sequences, symbols: None };
        let cut = catalog(&[10]).with_deletion(all(0..30)).with_deletion(all(0..12));
        assert!(cut.without_deletions_from(30).is_none());
        let ended = cut.without_deletions_from(12).unwrap();
        let ends: Vec<u64> = ended.deletions.iter().map(|deletion| deletion.sequences.end).collect();
        assert_eq!((ends, ended.generation), (vec![12, 12], cut.generation + 1));
        assert!(cut.without_deletions_from(10).unwrap().deletions.is_empty());
    }

    #[test]
    fn a_deletion_empties_whole_parts_at_once_and_is_dropped_when_carried_out() {
        let all = |sequences| Deletion { number: 3, from: 10, last: 24, sequences, symbols: None };
        let cut = catalog(&[10, 20, 30]).with_deletion(all(0..30));
        assert_eq!(
            cut.parts.iter().map(|part| part.content.is_some()).collect::<Vec<_>>(),
            [true, false, true]
        );
        let number = cut.next_number;
        assert_eq!((cut.deletions.len(), number), (1, 4));
        let done = cut.with(part(20..30, number)).unwrap();
        assert_eq!((done.deletions.len(), done.sealed), (0, 30));
        // One that reaches into the log stays.
        assert_eq!(
            catalog(&[10, 20, 30]).with_deletion(all(0..31)).with(part(20..30, 9)).unwrap().deletions.len(),
            1
        );
        let gone = catalog(&[10, 20, 30]).with_deletion(Deletion { from: 0, last: 99, ..all(0..30) });
        assert_eq!(gone.parts.len(), 1);
        assert_eq!((&gone.parts[0].sequences, gone.messages(), gone.deletions.len()), (&(0..30), 0, 0));
        assert_eq!(gone.parts[0].lost, 3);
    }
}
