//! The parts of a catalog, in chunks. A catalog that differs from the one before in a few parts shares all other chunks with it: so a
//! change costs the same however many parts there are. Each chunk has totals, by which most of them are skipped where few parts are
//! looked for.

use crate::space::catalog::Part;
use crate::space::deletion::Deletion;
use std::fmt;
use std::iter::FusedIterator;
use std::ops::{Index, Range};
use std::sync::Arc;
use tapedb_segment::Tier;

/// Parts of a chunk at most.
const CHUNK_PARTS: usize = 256;

/// Parts in order of sequence numbers, each where the one before ends.
#[derive(Clone, Default)]
pub(crate) struct Parts {
    /// None is empty.
    chunks: Vec<Arc<Chunk>>,
    len: usize,
}

#[derive(Clone, Default)]
struct Chunk {
    parts: Vec<Arc<Part>>,
    totals: Totals,
}

/// What some parts have together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Totals {
    /// Messages in segments.
    pub messages: u64,
    /// Messages that could not be read when they were sealed.
    pub lost: u64,
    /// Parts of which something is left, and their bytes.
    pub segments: u64,
    pub bytes: u64,
    /// Those of them that are in an object store.
    pub objects: u64,
    pub object_bytes: u64,
    /// Times of the earliest and the latest message.
    pub times: Option<(i64, i64)>,
    /// The smallest time of a segment's latest message, of segments that are files, and of those of the hot tier; `i64::MAX` without one.
    pub oldest_file: i64,
    pub oldest_hot_file: i64,
    /// The smallest time of a segment's latest message; `i64::MAX` without one.
    pub oldest: i64,
    /// The smallest number below which deletions have been carried out; `u64::MAX` without a segment.
    pub deleted_before: u64,
    /// The largest number of a segment.
    pub number: Option<u64>,
}

impl Default for Totals {
    fn default() -> Self {
        Self {
            messages: 0,
            lost: 0,
            segments: 0,
            bytes: 0,
            objects: 0,
            object_bytes: 0,
            times: None,
            oldest_file: i64::MAX,
            oldest_hot_file: i64::MAX,
            oldest: i64::MAX,
            deleted_before: u64::MAX,
            number: None,
        }
    }
}

impl Totals {
    fn of(part: &Part) -> Self {
        let mut of = Self { lost: part.lost, ..Self::default() };
        let Some(content) = &part.content else { return of };
        let is_file = content.object.is_none();
        of.messages = content.messages;
        (of.segments, of.bytes) = (1, content.bytes);
        (of.objects, of.object_bytes) = if is_file { (0, 0) } else { (1, content.bytes) };
        of.times = Some((content.time_min, content.time_max));
        of.oldest = content.time_max;
        if is_file {
            of.oldest_file = content.time_max;
            of.oldest_hot_file = if content.tier == Tier::Hot { content.time_max } else { i64::MAX };
        }
        (of.deleted_before, of.number) = (content.deleted_before, Some(content.number));
        of
    }

    fn add(&mut self, other: &Self) {
        self.messages = self.messages.saturating_add(other.messages);
        self.lost = self.lost.saturating_add(other.lost);
        self.segments += other.segments;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.objects += other.objects;
        self.object_bytes = self.object_bytes.saturating_add(other.object_bytes);
        self.times = match (self.times, other.times) {
            (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
            (a, b) => a.or(b),
        };
        self.oldest_file = self.oldest_file.min(other.oldest_file);
        self.oldest_hot_file = self.oldest_hot_file.min(other.oldest_hot_file);
        self.oldest = self.oldest.min(other.oldest);
        self.deleted_before = self.deleted_before.min(other.deleted_before);
        self.number = self.number.max(other.number);
    }

    fn of_all<'a>(parts: impl IntoIterator<Item = &'a Arc<Part>>) -> Self {
        let mut all = Self::default();
        parts.into_iter().for_each(|part| all.add(&Self::of(part)));
        all
    }
}

impl Chunk {
    fn of(parts: Vec<Arc<Part>>) -> Arc<Self> {
        let totals = Totals::of_all(&parts);
        Arc::new(Self { parts, totals })
    }

    /// Sequence number after the last part.
    fn end(&self) -> u64 {
        self.parts.last().map_or(0, |part| part.sequences.end)
    }
}

/// Where a part is: its chunk, and its place there. After the last part: the number of chunks, and 0.
type Place = (usize, usize);

impl Parts {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn last(&self) -> Option<&Arc<Part>> {
        self.chunks.last()?.parts.last()
    }

    pub fn iter(&self) -> Iter<'_> {
        self.from((0, 0))
    }

    /// What all parts have together.
    pub fn totals(&self) -> Totals {
        let mut all = Totals::default();
        self.chunks.iter().for_each(|chunk| all.add(&chunk.totals));
        all
    }

    /// The parts of those chunks whose totals are wanted: these hold all parts that are looked for.
    pub fn of_chunks(&self, wants: impl Fn(&Totals) -> bool) -> impl Iterator<Item = &Arc<Part>> {
        self.chunks.iter().filter(move |chunk| wants(&chunk.totals)).flat_map(|chunk| &chunk.parts)
    }

    /// Parts that overlap a range of sequence numbers, found by binary search.
    pub fn between(&self, sequences: Range<u64>) -> impl Iterator<Item = &Arc<Part>> + Clone {
        let end = sequences.end;
        self.from(self.after(sequences.start)).take_while(move |part| part.sequences.start < end)
    }

    /// Messages that could not be read when they were sealed, in parts that begin before `end`.
    pub fn lost_below(&self, end: u64) -> u64 {
        let whole = self.chunks.partition_point(|chunk| chunk.end() <= end);
        let before = self.chunks[..whole].iter().map(|chunk| chunk.totals.lost).sum::<u64>();
        let rest = self.from((whole, 0)).take_while(|part| part.sequences.start < end);
        before + rest.map(|part| part.lost).sum::<u64>()
    }

    /// Whether a deletion may cover messages that are still in a file.
    pub fn is_affected_by(&self, deletion: &Deletion) -> bool {
        self.affected_by(deletion).next().is_some()
    }

    /// The parts of which it may cover messages.
    pub fn affected_by<'a>(&'a self, deletion: &'a Deletion) -> impl Iterator<Item = &'a Arc<Part>> {
        let may_be = |totals: &Totals| {
            deletion.number >= totals.deleted_before
                && totals.times.is_some_and(|(first, last)| deletion.from <= last && first <= deletion.last)
        };
        self.of_chunks(may_be).filter(|part| part.is_affected_by(deletion))
    }

    /// Parts that overlap a range of sequence numbers, and so many neighbours on both sides.
    pub fn around(&self, sequences: &Range<u64>, neighbours: usize) -> Vec<Arc<Part>> {
        let mut at = self.after(sequences.start);
        for _ in 0..neighbours {
            at = match at {
                (chunk, index) if index > 0 => (chunk, index - 1),
                (chunk, _) if chunk > 0 => (chunk - 1, self.chunks[chunk - 1].parts.len() - 1),
                first => first,
            };
        }
        let (mut left, end) = (neighbours, sequences.end);
        let is_in = |part: &&Arc<Part>| {
            part.sequences.start < end
                || left.checked_sub(1).is_some_and(|less| {
                    left = less;
                    true
                })
        };
        self.from(at).take_while(is_in).cloned().collect()
    }

    /// Adds a part at the end.
    pub fn push(&mut self, part: Arc<Part>) {
        self.len += 1;
        match self.chunks.last_mut().filter(|chunk| chunk.parts.len() < CHUNK_PARTS) {
            Some(chunk) => {
                let chunk = Arc::make_mut(chunk);
                chunk.totals.add(&Totals::of(&part));
                chunk.parts.push(part);
            }
            None => self.chunks.push(Chunk::of(vec![part])),
        }
    }

    /// Removes the last part.
    pub fn pop(&mut self) -> Option<Arc<Part>> {
        let chunk = Arc::make_mut(self.chunks.last_mut()?);
        let part = chunk.parts.pop();
        chunk.totals = Totals::of_all(&chunk.parts);
        self.len -= 1;
        self.chunks.pop_if(|chunk| chunk.parts.is_empty());
        part
    }

    /// Whether no part lies across an end of a range of sequence numbers, and none is missing there.
    pub fn are_ends(&self, sequences: &Range<u64>) -> bool {
        let are_there = [sequences.start, sequences.end].iter().all(|end| self.begins_at(*end).is_some());
        are_there && sequences.start <= sequences.end
    }

    /// Replaces the parts of a range of sequence numbers, maybe of none; `false`: a part lies across an end of the range.
    pub fn replace(&mut self, sequences: &Range<u64>, with: impl IntoIterator<Item = Arc<Part>>) -> bool {
        let (Some(mut from), Some(to)) = (self.begins_at(sequences.start), self.begins_at(sequences.end))
        else {
            return false;
        };
        if sequences.start > sequences.end {
            return false;
        }
        // The end of a chunk rather than the start of the next one: so chunks are filled.
        if from.1 == 0 && from.0 > 0 {
            from = (from.0 - 1, self.chunks[from.0 - 1].parts.len());
        }
        let head = self.chunks.get(from.0).map_or(&[][..], |chunk| &chunk.parts[..from.1]);
        let tail = self.chunks.get(to.0).map_or(&[][..], |chunk| &chunk.parts[to.1..]);
        let mut parts: Vec<Arc<Part>> =
            head.iter().cloned().chain(with).chain(tail.iter().cloned()).collect();
        let mut end = self.chunks.len().min(to.0 + usize::from(!tail.is_empty()));
        if parts.len() < CHUNK_PARTS / 2
            && let Some(next) = self.chunks.get(end).filter(|next| next.parts.len() <= CHUNK_PARTS / 2)
        {
            parts.extend(next.parts.iter().cloned());
            end += 1;
        }
        let replaced = self.chunks[from.0.min(end)..end].iter().map(|chunk| chunk.parts.len()).sum::<usize>();
        self.len = self.len - replaced + parts.len();
        let chunks: Vec<_> = parts.chunks(CHUNK_PARTS).map(|parts| Chunk::of(parts.to_vec())).collect();
        self.chunks.splice(from.0.min(end)..end, chunks);
        true
    }

    /// With some parts replaced, each by one of the same sequence numbers; adjacent empty ones become one. `None`: none is replaced.
    /// Only in chunks whose totals are wanted.
    pub fn changed(
        &self,
        wants: impl Fn(&Totals) -> bool,
        change: impl Fn(&Part) -> Option<Part>,
    ) -> Option<Self> {
        let (mut new, mut is_changed) = (Self::default(), false);
        for chunk in &self.chunks {
            let changed: Vec<Option<Part>> = match wants(&chunk.totals) {
                true => chunk.parts.iter().map(|part| change(part)).collect(),
                false => Vec::new(),
            };
            let joins = new.last().is_some_and(|last| last.content.is_none())
                && chunk.parts.first().is_some_and(|first| first.content.is_none());
            if !joins && changed.iter().all(Option::is_none) {
                new.len += chunk.parts.len();
                new.chunks.push(chunk.clone());
                continue;
            }
            let mut changed = changed.into_iter();
            for part in &chunk.parts {
                let change = changed.next().flatten();
                is_changed |= change.is_some();
                new.push_joined(change.map_or_else(|| part.clone(), Arc::new));
            }
        }
        is_changed.then_some(new)
    }

    fn push_joined(&mut self, part: Arc<Part>) {
        match self.last().filter(|last| last.content.is_none() && part.content.is_none()) {
            Some(last) => {
                let joined = last.joined(&part);
                self.pop();
                self.push(Arc::new(joined));
            }
            None => self.push(part),
        }
    }

    /// The parts that the new ones have not, and those that are in their place; before them, where they begin.
    pub fn difference(old: &Self, new: &Self) -> (u64, Vec<Arc<Part>>, Vec<Arc<Part>>) {
        let is_shared = |(old, new): &(&Arc<Chunk>, &Arc<Chunk>)| Arc::ptr_eq(old, new);
        let head = old.chunks.iter().zip(&new.chunks).take_while(is_shared).count();
        let start = head.checked_sub(1).map_or(0, |last| old.chunks[last].end());
        let (old, new) = (&old.chunks[head..], &new.chunks[head..]);
        let tail = old.iter().rev().zip(new.iter().rev()).take_while(is_shared).count();
        let parts = |chunks: &[Arc<Chunk>]| -> Vec<Arc<Part>> {
            chunks[..chunks.len() - tail].iter().flat_map(|chunk| chunk.parts.iter().cloned()).collect()
        };
        let (mut old, mut new) = (parts(old), parts(new));
        let is_same = |(old, new): &(&Arc<Part>, &Arc<Part>)| Arc::ptr_eq(old, new) || old == new;
        let before = old.iter().zip(&new).take_while(is_same).count();
        let first = before.checked_sub(1).map_or(start, |last| old[last].sequences.end);
        let after = old[before..].iter().rev().zip(new[before..].iter().rev()).take_while(is_same).count();
        for parts in [&mut old, &mut new] {
            parts.truncate(parts.len() - after);
            parts.drain(..before);
        }
        (first, old, new)
    }

    fn from(&self, at: Place) -> Iter<'_> {
        let (rest, parts) = match self.chunks.get(at.0..).unwrap_or_default().split_first() {
            Some((chunk, rest)) => (rest, chunk.parts.get(at.1..).unwrap_or_default()),
            None => (&[][..], &[][..]),
        };
        Iter { parts: parts.iter(), rest: rest.iter() }
    }

    /// The first part that ends after a sequence number.
    fn after(&self, sequence: u64) -> Place {
        let chunk = self.chunks.partition_point(|chunk| chunk.end() <= sequence);
        let parts = self.chunks.get(chunk).map_or(&[][..], |chunk| &chunk.parts);
        (chunk, parts.partition_point(|part| part.sequences.end <= sequence))
    }

    /// The part that begins at a sequence number, or the end where the last one ends with it.
    fn begins_at(&self, sequence: u64) -> Option<Place> {
        let place = self.after(sequence);
        let begins = match self.chunks.get(place.0) {
            Some(chunk) => chunk.parts.get(place.1)?.sequences.start,
            None => self.last().map_or(0, |last| last.sequences.end),
        };
        (begins == sequence).then_some(place)
    }
}

impl Index<usize> for Parts {
    type Output = Arc<Part>;

    fn index(&self, mut index: usize) -> &Arc<Part> {
        for chunk in &self.chunks {
            match chunk.parts.get(index) {
                Some(part) => return part,
                None => index -= chunk.parts.len(),
            }
        }
        panic!("there is no part {index} behind the last one")
    }
}

impl FromIterator<Arc<Part>> for Parts {
    fn from_iter<I: IntoIterator<Item = Arc<Part>>>(parts: I) -> Self {
        let mut all = Self::default();
        parts.into_iter().for_each(|part| all.push(part));
        all
    }
}

impl<'a> IntoIterator for &'a Parts {
    type Item = &'a Arc<Part>;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl PartialEq for Parts {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.iter().eq(other)
    }
}

impl Eq for Parts {}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

/// Parts, in order.
#[derive(Debug, Clone)]
pub(crate) struct Iter<'a> {
    parts: std::slice::Iter<'a, Arc<Part>>,
    rest: std::slice::Iter<'a, Arc<Chunk>>,
}

impl fmt::Debug for Chunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts.fmt(f)
    }
}

impl<'a> Iterator for Iter<'a> {
    type Item = &'a Arc<Part>;

    fn next(&mut self) -> Option<&'a Arc<Part>> {
        loop {
            if let Some(part) = self.parts.next() {
                return Some(part);
            }
            self.parts = self.rest.next()?.parts.iter();
        }
    }
}

impl FusedIterator for Iter<'_> {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::catalog::Content;

    fn part(sequences: Range<u64>, number: Option<u64>) -> Arc<Part> {
        let content = number.map(|number| Content {
            number,
            messages: sequences.end - sequences.start,
            time_min: sequences.start as i64,
            time_max: sequences.end as i64 - 1,
            bytes: 10 + number,
            tier: if number.is_multiple_of(2) { Tier::Hot } else { Tier::Cold },
            deleted_before: number,
            object: number.is_multiple_of(5).then_some(number),
        });
        Arc::new(Part { sequences, lost: u64::from(number.is_none()), content })
    }

    /// What the chunks must be, and what a plain list of the parts says.
    fn check(parts: &Parts, plain: &[Arc<Part>]) {
        assert!(parts.iter().eq(plain) && parts.len() == plain.len() && parts.is_empty() == plain.is_empty());
        assert!(parts.chunks.iter().all(|chunk| (1..=CHUNK_PARTS).contains(&chunk.parts.len())));
        for chunk in &parts.chunks {
            assert_eq!(chunk.totals, Totals::of_all(&chunk.parts));
        }
        assert_eq!(parts.totals(), Totals::of_all(plain));
        assert_eq!(parts.last(), plain.last());
        let end = plain.last().map_or(0, |part| part.sequences.end);
        for from in [0, 1, end / 3, end.saturating_sub(1), end, end + 5] {
            for to in [from, from + 1, from + 7, end / 2, end, end + 9] {
                let wanted =
                    plain.iter().filter(|part| part.sequences.end > from && part.sequences.start < to);
                assert!(parts.between(from..to).eq(wanted), "{from} {to}");
            }
            let lost =
                plain.iter().filter(|part| part.sequences.start < from).map(|part| part.lost).sum::<u64>();
            assert_eq!(parts.lost_below(from), lost);
        }
    }

    #[test]
    fn parts_in_chunks_are_as_parts_in_a_list() {
        let (mut parts, mut plain, mut random) = (Parts::default(), Vec::<Arc<Part>>::new(), 1_u64);
        let mut next = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % below.max(1)
        };
        for step in 0..3_000_u64 {
            let end = plain.last().map_or(0, |part| part.sequences.end);
            let before = parts.clone();
            let (mut from, mut until) = (plain.len(), plain.len());
            match next(16) {
                0 => {
                    // Some become one, or go.
                    from = next(plain.len() as u64 + 1) as usize;
                    until = (from + next(12) as usize).min(plain.len());
                    let at = |index: usize| plain.get(index).map_or(end, |part| part.sequences.start);
                    let sequences = at(from)..at(until);
                    let new = (from < until).then(|| part(sequences.clone(), Some(step)));
                    assert!(parts.replace(&sequences, new.clone()));
                    plain.splice(from..until, new);
                }
                1 if !plain.is_empty() => {
                    let of = |list: &[Arc<Part>]| list.last().map(|last| last.sequences.clone());
                    assert_eq!(parts.pop().map(|part| part.sequences.clone()), of(&plain));
                    plain.pop();
                }
                _ => {
                    let new = part(end..end + 3, (step % 7 > 0).then_some(step));
                    match next(2) {
                        0 => parts.push(new.clone()),
                        _ => assert!(parts.replace(&(end..end), [new.clone()])),
                    }
                    plain.push(new);
                }
            }
            if step % 50 == 0 {
                check(&parts, &plain);
                let across =
                    plain.first().map_or(0..2, |first| first.sequences.start + 1..first.sequences.end);
                assert!(!parts.replace(&across, []));
            }
            let (first, old, new) = Parts::difference(&before, &parts);
            let mut changed = before;
            let end = old.last().map_or(first, |last| last.sequences.end);
            assert!(changed.replace(&(first..end), new) && changed == parts, "step {step}: {from} {until}");
        }
        assert!(parts.chunks.len() > 3);
        check(&parts, &plain);
        let middle = plain[plain.len() / 2].sequences.clone();
        let around = plain.len() / 2 - 4..plain.len() / 2 + 5;
        assert_eq!(parts.around(&middle, 4), plain[around]);
        assert_eq!(parts.around(&(0..1), 2).len(), 3);
        assert_eq!(parts[300], plain[300]);
    }

    #[test]
    fn chunks_in_which_nothing_changes_are_shared() {
        let all: Parts = (0..2_000_u64).map(|i| part(i..i + 1, Some(i))).collect();
        let gone = |part: &Part| (700..800).contains(&part.sequences.start);
        let empty = |part: &Part| {
            gone(part).then(|| Part { sequences: part.sequences.clone(), lost: 2, content: None })
        };
        let changed = all.changed(|totals| totals.number >= Some(700), empty).unwrap();
        assert_eq!((changed.len(), changed.totals().lost), (1901, 200));
        let shared =
            all.chunks.iter().filter(|chunk| changed.chunks.iter().any(|new| Arc::ptr_eq(chunk, new)));
        assert!(shared.count() >= all.chunks.len() - 2);
        assert!(changed.changed(|_| true, |_| None).is_none());
        let (first, old, new) = Parts::difference(&all, &changed);
        assert_eq!((first, old.len(), new.len()), (700, 100, 1));
        let one = Deletion { number: 1_999, from: 5, last: 5, sequences: 0..2_000, symbols: None };
        assert_eq!(all.affected_by(&one).count(), 1);
        assert!(!all.is_affected_by(&Deletion { number: 4, ..one }));
    }
}
