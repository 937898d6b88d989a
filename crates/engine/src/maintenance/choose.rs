//! Chooses the parts to merge next: one with deletions to carry out, or neighbours that are many and small.
//!
//! It is asked after every change. So it looks at the parts around what has changed since it last found none, not at all of them.

use crate::space::catalog::{Catalog, Part};
use crate::space::deletion::Deletion;
use crate::space::parts::Parts;
use crate::space::{Apart, Merging, Space};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use tapedb_segment::Tier;

/// Number of neighbours of similar size that are merged into one.
const FAN_IN: usize = 8;
/// Parts below this count as equal in size.
const SMALL_BYTES: u64 = 8 << 20;

/// What decides which parts are merged, besides the catalog.
pub(super) fn merging(apart: &HashMap<u64, Apart>, limits: (u64, u64)) -> Merging {
    let damaged = apart.values().filter(|apart| **apart == Apart::Damaged).count();
    (limits, [apart.len(), damaged])
}

/// The version of the schema that a part keeps, if not the newest.
pub(super) fn kept_version(apart: &HashMap<u64, Apart>, part: &Part) -> Option<u16> {
    match apart.get(&part.content.as_ref()?.number)? {
        Apart::OfVersion(version) => Some(*version),
        Apart::Damaged => None,
    }
}

/// The parts to merge next, of a space.
pub(super) fn next_of(space: &Space, catalog: &Arc<Catalog>, limits: (u64, u64)) -> Option<Vec<Arc<Part>>> {
    let apart = space.apart();
    let of = merging(&apart, limits);
    let parts = candidates(space.merged(of).as_deref(), catalog);
    let chosen = choose(&parts, &catalog.deletions, limits, &apart);
    if chosen.is_none() {
        space.note_merged(of, catalog);
    }
    chosen.map(|chosen| parts[chosen].to_vec())
}

/// Neighbours among which are all parts that may be merged: of a catalog of which `known` is an earlier one, with nothing to merge, those that
/// have changed since, with what is beside them.
fn candidates(known: Option<&Catalog>, catalog: &Catalog) -> Vec<Arc<Part>> {
    match known.filter(|known| known.deletions == catalog.deletions) {
        None => catalog.parts.iter().cloned().collect(),
        Some(known) if known.generation == catalog.generation => Vec::new(),
        Some(known) => {
            let (first, _, new) = Parts::difference(&known.parts, &catalog.parts);
            // Where parts have gone, those beside them are neighbours now.
            let end = new.last().map_or(first, |last| last.sequences.end);
            catalog.parts.around(&(first..end), FAN_IN)
        }
    }
}

/// The parts to merge next: one with deletions to carry out, or neighbours of one tier and one version of the schema that are many and
/// small, and together are within `limits` of bytes and time.
fn choose(
    parts: &[Arc<Part>],
    deletions: &[Arc<Deletion>],
    limits: (u64, u64),
    apart: &HashMap<u64, Apart>,
) -> Option<Range<usize>> {
    let is_left = |part: &Part| {
        let content = part.content.as_ref();
        content.is_some_and(|content| {
            // What is in an object store stays as it is: deletions are carried out for each reader.
            content.object.is_some() || apart.get(&content.number) == Some(&Apart::Damaged)
        })
    };
    let is_of_one_version = |run: &[Arc<Part>]| {
        let mut versions =
            run.iter().filter(|part| part.content.is_some()).map(|part| kept_version(apart, part));
        let first = versions.next();
        versions.all(|version| Some(version) == first)
    };
    let is_affected =
        |part: &Arc<Part>| !is_left(part) && deletions.iter().any(|deletion| part.is_affected_by(deletion));
    // An excluded part is merged with no neighbour.
    let level = |part: &Part| if is_left(part) { u32::MAX } else { level(part) };
    if let Some(index) = parts.iter().position(is_affected) {
        return Some(index..index + 1);
    }
    // The smallest first: they are the most numerous.
    let mut levels: Vec<u32> = parts.iter().map(|part| level(part)).collect();
    levels.sort_unstable();
    levels.dedup();
    let merged = |levels: &u32| *levels < u32::MAX;
    let may_join = |run: &[Arc<Part>]| is_of_one_tier(run) && is_of_one_version(run);
    levels.into_iter().filter(merged).find_map(|largest| run_of(parts, limits, largest, level, may_join))
}

/// The size class of a part: each level is [`FAN_IN`] times as large as the one below.
fn level(part: &Part) -> u32 {
    let bytes = part.content.as_ref().map_or(0, |content| content.bytes);
    (bytes / SMALL_BYTES).checked_ilog(FAN_IN as u64).map_or(0, |level| level + 1)
}

/// The first [`FAN_IN`] neighbours that may join, are of this level or below and are together within the limits.
fn run_of(
    parts: &[Arc<Part>],
    (bytes_max, span_max): (u64, u64),
    largest: u32,
    level: impl Fn(&Part) -> u32,
    may_join: impl Fn(&[Arc<Part>]) -> bool,
) -> Option<Range<usize>> {
    let mut start = 0;
    for (i, part) in parts.iter().enumerate() {
        if level(part) > largest {
            start = i + 1;
            continue;
        }
        let fits = |run: &[Arc<Part>]| {
            let (bytes, span) = bytes_and_span(run);
            bytes <= bytes_max && span <= span_max && may_join(run)
        };
        while start <= i && !fits(&parts[start..=i]) {
            start += 1;
        }
        if i + 1 - start == FAN_IN {
            return Some(start..i + 1);
        }
    }
    None
}

fn bytes_and_span(run: &[Arc<Part>]) -> (u64, u64) {
    let contents = || run.iter().filter_map(|part| part.content.as_ref());
    let times = contents().map(|content| (content.time_min, content.time_max));
    let times = times.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
    let span = times.map_or(0, |(first, last)| last.abs_diff(first));
    (contents().map(|content| content.bytes).sum(), span)
}

fn is_of_one_tier(run: &[Arc<Part>]) -> bool {
    let mut tiers = run.iter().filter_map(|part| tier_of(part));
    let first = tiers.next();
    tiers.all(|tier| Some(tier) == first)
}

/// The tier of a part's segment.
pub(super) fn tier_of(part: &Part) -> Option<Tier> {
    part.content.as_ref().map(|content| content.tier)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::catalog::Content;

    fn part(sequences: Range<u64>, number: u64, bytes: u64) -> Part {
        let (time_min, time_max) = (sequences.start as i64, sequences.end as i64);
        let messages = sequences.end - sequences.start;
        let (tier, deleted_before) = (Tier::Hot, number);
        let content =
            Content { number, messages, time_min, time_max, bytes, tier, deleted_before, object: None };
        Part { sequences, lost: 0, content: Some(content) }
    }

    /// What is found around changes is there exactly when a look at all parts finds something.
    #[test]
    fn what_has_changed_shows_whether_there_is_something_to_merge() {
        let (limits, apart) = ((300 << 20, u64::MAX), HashMap::new());
        let choose_of = |parts: &[Arc<Part>], catalog: &Catalog| {
            choose(parts, &catalog.deletions, limits, &apart).map(|chosen| parts[chosen].to_vec())
        };
        let (mut catalog, mut known, mut random, mut merges) =
            (Catalog::default(), None::<Catalog>, 7_u64, 0);
        let mut next = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % below
        };
        for _ in 0..2_000 {
            let number = catalog.next_number;
            let bytes = [1, 9 << 20, 80 << 20, 400 << 20][next(4) as usize];
            catalog = match next(10) {
                0 if !catalog.parts.is_empty() => {
                    let purged = next(number);
                    catalog.without(&[purged]).unwrap_or(catalog)
                }
                1 if !catalog.parts.is_empty() => {
                    let from = next(catalog.sealed) as i64;
                    let sequences = 0..catalog.sealed;
                    let deletion = Deletion { number, from, last: from + 2, sequences, symbols: None };
                    catalog.with_deletion(deletion)
                }
                _ => catalog.with(part(catalog.sealed..catalog.sealed + 3, number, bytes)).unwrap(),
            };
            loop {
                let all: Vec<_> = catalog.parts.iter().cloned().collect();
                let found = choose_of(&candidates(known.as_ref(), &catalog), &catalog);
                assert_eq!(found.is_some(), choose_of(&all, &catalog).is_some());
                let Some(found) = found else { break };
                merges += 1;
                let sequences = found[0].sequences.start..found[found.len() - 1].sequences.end;
                let bytes =
                    found.iter().filter_map(|part| part.content.as_ref()).map(|content| content.bytes).sum();
                catalog = catalog.with_merged(part(sequences, catalog.next_number, bytes), &found).unwrap();
            }
            known = Some(catalog.clone());
        }
        assert!(merges > 200, "{merges}");
    }
}
