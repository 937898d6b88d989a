//! Changes of a catalog as text: they are appended to a large manifest, and sent to clients that have the catalog before.
//!
//! ```text
//! generation 18
//! sealed 3932180
//! next 10
//! from 3932170 3932170
//! part 3932170 3932180 9 10 1700000001000000000 1700000001999999999 120 hot 8
//! ```

use crate::space::catalog::{Catalog, Part};
use crate::space::lines::{parse_deletion, parse_part, write_deletion, write_part};
use crate::space::parts::Parts;
use std::collections::VecDeque;
use std::fmt::Write;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The text of a change from one catalog to the next; `None` where the new one is not the next generation.
pub(crate) fn between(old: &Catalog, new: &Catalog) -> Option<String> {
    if old.generation.checked_add(1) != Some(new.generation) {
        return None;
    }
    let Catalog { generation, sealed, next_number, .. } = new;
    let mut text = format!("generation {generation}\nsealed {sealed}\nnext {next_number}\n");
    if old.deletions != new.deletions {
        text.push_str("deletions\n");
        new.deletions.iter().for_each(|deletion| write_deletion(&mut text, deletion));
    }
    let (first, removed, added) = replaced(old, new);
    if !removed.is_empty() || !added.is_empty() {
        let start = removed.first().map_or(first, |part| part.sequences.start);
        let end = removed.last().map_or(start, |part| part.sequences.end);
        let _ = writeln!(text, "from {start} {end}");
        added.iter().for_each(|part| write_part(&mut text, part));
    }
    Some(text)
}

/// The parts that the new catalog has not, and those that it has in their place; before them, where they begin.
pub(crate) fn replaced(old: &Catalog, new: &Catalog) -> (u64, Vec<Arc<Part>>, Vec<Arc<Part>>) {
    Parts::difference(&old.parts, &new.parts)
}

/// Applies changes, which follow each other, and the catalog; what is wrong with them otherwise. The catalog has to be checked then.
pub(crate) fn apply(catalog: &mut Catalog, text: &str) -> Result<(), String> {
    let mut open = None;
    for line in text.lines() {
        apply_line(catalog, &mut open, line)
            .ok_or_else(|| format!("has a line of a change that does not fit: {line:?}"))?;
    }
    close(catalog, &mut open).ok_or_else(|| "has a change of parts that does not fit".into())
}

/// What a change puts in place of the parts of a range.
type Replacing = (Range<u64>, Vec<Arc<Part>>);

fn close(catalog: &mut Catalog, open: &mut Option<Replacing>) -> Option<()> {
    let Some((sequences, with)) = open.take() else { return Some(()) };
    catalog.parts.replace(&sequences, with).then_some(())
}

fn apply_line(catalog: &mut Catalog, open: &mut Option<Replacing>, line: &str) -> Option<()> {
    let (key, rest) = line.split_once(' ').unwrap_or((line, ""));
    match key {
        "generation" => {
            close(catalog, open)?;
            catalog.generation =
                rest.parse().ok().filter(|next| catalog.generation.checked_add(1) == Some(*next))?;
        }
        "sealed" => catalog.sealed = rest.parse().ok()?,
        "next" => catalog.next_number = rest.parse().ok()?,
        "deletions" => catalog.deletions.clear(),
        "delete" => catalog.deletions.push(Arc::new(parse_deletion(rest)?)),
        "from" => {
            close(catalog, open)?;
            let (start, end) = rest.split_once(' ')?;
            let (start, end): (u64, u64) = (start.parse().ok()?, end.parse().ok()?);
            // Whether it fits is found here, so that the line is named.
            catalog.parts.are_ends(&(start..end)).then_some(())?;
            *open = Some((start..end, Vec::new()));
        }
        "part" => open.as_mut()?.1.push(Arc::new(parse_part(rest)?)),
        _ => return None,
    }
    Some(())
}

/// Bytes of changes that are kept for clients, of each space.
const RECENT_BYTES_MAX: usize = 64 << 10;

/// The last changes of a catalog.
#[derive(Debug, Default)]
pub(crate) struct Recent(Mutex<Changes>);

#[derive(Debug, Default)]
struct Changes {
    /// Each one's generation and text: they follow each other.
    changes: VecDeque<(u64, String)>,
    bytes: usize,
}

impl Recent {
    /// Notes a change, or that there was one that no text is kept of.
    pub fn note(&self, generation: u64, change: Option<&str>) {
        let mut recent = self.lock();
        let follows = recent.changes.back().is_none_or(|(last, _)| last.checked_add(1) == Some(generation));
        let change = change.filter(|change| change.len() <= RECENT_BYTES_MAX / 4);
        if change.is_none() || !follows {
            (recent.changes, recent.bytes) = (VecDeque::new(), 0);
        }
        let Some(change) = change else { return };
        recent.bytes += change.len();
        recent.changes.push_back((generation, change.into()));
        while recent.bytes > RECENT_BYTES_MAX {
            recent.bytes -= recent.changes.pop_front().map_or(0, |(_, change)| change.len());
        }
    }

    /// The changes from after one generation up to another, if all are kept.
    pub fn between(&self, from: u64, to: u64) -> Option<String> {
        let recent = self.lock();
        let first = recent.changes.front()?.0;
        let last = recent.changes.back()?.0;
        if from >= to || from.checked_add(1)? < first || to > last {
            return None;
        }
        let wanted = recent.changes.iter().filter(|(generation, _)| (from + 1..=to).contains(generation));
        Some(wanted.map(|(_, change)| change.as_str()).collect())
    }

    fn lock(&self) -> MutexGuard<'_, Changes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::catalog::Content;
    use crate::space::deletion::Deletion;
    use tapedb_segment::Tier;

    fn part(sequences: Range<u64>, number: u64) -> Part {
        let (time_min, time_max) = (sequences.start as i64, sequences.end as i64 - 1);
        let messages = sequences.end - sequences.start;
        let content = Content {
            number,
            messages,
            time_min,
            time_max,
            bytes: 100,
            tier: Tier::Hot,
            deleted_before: number,
            object: number.is_multiple_of(3).then_some(number),
        };
        Part { sequences, lost: 0, content: Some(content) }
    }

    /// Catalogs that follow each other: seals, merges, deletions, purges.
    fn history() -> Vec<Catalog> {
        let mut all = vec![Catalog::default()];
        for end in 1..=6 {
            let last = &all[all.len() - 1];
            all.push(last.with(part(last.sealed..end * 10, last.next_number)).unwrap());
        }
        let last = |all: &Vec<Catalog>| all[all.len() - 1].clone();
        let merged = last(&all).with(part(10..40, 20)).unwrap();
        all.push(merged);
        let delete = |number| Deletion { number, from: 5, last: 45, sequences: 0..70, symbols: None };
        all.push(last(&all).with_deletion(delete(21)));
        all.push(last(&all).with_sealed(vec![part(60..65, 22), part(65..70, 23)]).unwrap());
        all.push(last(&all).without_deletions_from(66).unwrap());
        let oldest: Vec<u64> = last(&all).contents().take(2).map(|content| content.number).collect();
        all.push(last(&all).without(&oldest).unwrap());
        all.push(last(&all).rewritten(part(70..71, 25), delete(24)).unwrap());
        all
    }

    #[test]
    fn changes_lead_from_each_catalog_to_the_next() {
        let (all, recent) = (history(), Recent::default());
        for pair in all.windows(2) {
            let change = between(&pair[0], &pair[1]).unwrap();
            let mut changed = pair[0].clone();
            apply(&mut changed, &change).unwrap();
            assert_eq!(changed, pair[1], "{change}");
            recent.note(pair[1].generation, Some(&change));
        }
        let newest = &all[all.len() - 1];
        for old in &all[..all.len() - 1] {
            let mut changed = old.clone();
            let changes = recent.between(old.generation, newest.generation).unwrap();
            apply(&mut changed, &changes).unwrap();
            assert_eq!(&changed, newest);
        }
        assert!(recent.between(newest.generation, newest.generation).is_none());
        assert!(recent.between(0, newest.generation + 1).is_none());
        assert!(between(&all[0], &all[2]).is_none());
    }

    #[test]
    fn changes_of_another_catalog_are_refused() {
        let all = history();
        let change = between(&all[6], &all[7]).unwrap();
        for (index, other) in all.iter().enumerate().filter(|(index, _)| *index != 6) {
            assert!(apply(&mut other.clone(), &change).is_err(), "{index}");
        }
        for bad in ["part 0 1", "generation 8", "generation 7\nfrom 5 10", "generation 7\nfrom 20 10", "x"] {
            assert!(apply(&mut all[6].clone(), bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn few_changes_are_kept() {
        let recent = Recent::default();
        let text = "x".repeat(1000);
        (1..=200).for_each(|generation| recent.note(generation, Some(&text)));
        assert!(recent.between(100, 200).is_none() && recent.between(150, 200).is_some());
        assert!(recent.lock().bytes <= RECENT_BYTES_MAX);
        recent.note(201, None);
        recent.note(202, Some("a"));
        assert_eq!((recent.between(200, 202), recent.between(201, 202)), (None, Some("a".into())));
        recent.note(205, Some("b"));
        assert_eq!((recent.between(201, 205), recent.between(204, 205)), (None, Some("b".into())));
    }
}
