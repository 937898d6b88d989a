//! What a stream's records in an object store state: all that is needed to read its segments there, without the database's directory.
//! `docs/format/objects.md` describes them.
//!
//! A record is a text with a checksum, and a number; records are only created, never changed. Each 32nd is a checkpoint, which states all;
//! the others state what has changed since the one before.

use crate::error::{Error, Unreadable};
use crate::objects::keys;
use crate::objects::tier::ObjectTier;
use crate::stream::copies;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::time::Instant;

/// First words of a record, and its version.
const MAGIC: &str = "tapedb-record 1";
/// Records from one checkpoint to the next.
pub(crate) const CHECKPOINT_EVERY: u64 = 32;

/// The facts about a stream, by their names; no value has a line end.
pub(crate) type Facts = BTreeMap<String, String>;

/// The last record of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Published {
    pub number: u64,
    /// All facts that hold after it.
    pub facts: Facts,
}

/// What is known of a stream's objects in the process that writes it.
#[derive(Debug, Default)]
pub(crate) struct Offloading {
    /// `None`: the store has not been asked.
    pub published: Option<Option<Published>>,
    /// Objects that the manifest does not name, and when that was found.
    pub suspects: HashMap<String, Instant>,
    /// When it was looked for such objects.
    pub swept: Option<Instant>,
    /// Whether records that another copy of the database wrote are gone on with.
    pub takes_over: bool,
    /// What the facts were made from: they are made again when it differs.
    pub seen: Option<(Vec<u64>, u64, u64)>,
}

/// Reads the newest state of a stream; `None`: it has no record.
///
/// # Errors
/// When the store refuses, or a record is missing or damaged.
pub(crate) fn read(tier: &ObjectTier, stream_id: u64) -> Result<Option<Published>, Error> {
    let keys = tier.list(&keys::records(stream_id))?;
    let Some(last) = keys.iter().filter_map(|key| keys::number_of(key)).max() else { return Ok(None) };
    let mut facts = Facts::new();
    for number in last - last % CHECKPOINT_EVERY..=last {
        let key = keys::record(stream_id, number);
        let bad = |what: String| {
            let path = format!("{}/{key}", tier.url()).into();
            Error::Unreadable(Unreadable::Definition { path, what })
        };
        let text = tier
            .text(&key)?
            .ok_or_else(|| bad("is missing, and with it what became of the stream".into()))?;
        apply(&text, (stream_id, number), &mut facts).map_err(bad)?;
    }
    Ok(Some(Published { number: last, facts }))
}

/// The record that leads from some facts to others, with its number.
pub(crate) fn next(stream_id: u64, before: Option<&Published>, facts: &Facts) -> (u64, String) {
    let number = before.map_or(0, |before| before.number + 1);
    let none = Facts::new();
    let old = match before {
        Some(before) if !number.is_multiple_of(CHECKPOINT_EVERY) => &before.facts,
        _ => &none,
    };
    let mut body = format!("stream {stream_id:016x}\nnumber {number}\n");
    for (name, value) in facts {
        if old.get(name) != Some(value) {
            let _ = writeln!(body, "+{name}\t{value}");
        }
    }
    for name in old.keys().filter(|name| !facts.contains_key(*name)) {
        let _ = writeln!(body, "-{name}");
    }
    (number, copies::sealed(MAGIC, &body))
}

/// Changes facts as a record states; else its fault.
pub(crate) fn apply(text: &str, of: (u64, u64), facts: &mut Facts) -> Result<(), String> {
    let body = copies::unsealed(MAGIC, text)?;
    let mut lines = body.split_terminator('\n');
    let head = (lines.next(), lines.next());
    let (stream, number) = (format!("stream {:016x}", of.0), format!("number {}", of.1));
    if head != (Some(&stream), Some(&number)) {
        return Err(format!("begins with {head:?}, and should with {stream:?}, {number:?}"));
    }
    if of.1.is_multiple_of(CHECKPOINT_EVERY) {
        facts.clear();
    }
    for line in lines {
        let changed = match line.strip_prefix('+') {
            Some(line) => line.split_once('\t').map(|(name, value)| {
                facts.insert(name.into(), value.into());
            }),
            None => line.strip_prefix('-').map(|name| drop(facts.remove(name))),
        };
        changed.ok_or_else(|| format!("has a line that is not understood: {line:?}"))?;
    }
    Ok(())
}

/// A record with a right checksum and head: for the fuzzer.
pub(crate) fn sealed_for_tests(stream_id: u64, number: u64, body: &str) -> String {
    copies::sealed(MAGIC, &format!("stream {stream_id:016x}\nnumber {number}\n{body}"))
}

/// A text of any characters in one line.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('%', "%25").replace('\n', "%0A").replace('\r', "%0D")
}

/// The text that [`escaped`] was given.
pub(crate) fn unescaped(text: &str) -> String {
    text.replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%")
}

/// The facts whose names begin with a word, without it, in order of their names.
pub(crate) fn facts_of<'a>(facts: &'a Facts, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let from = facts.range::<str, _>((std::ops::Bound::Included(prefix), std::ops::Bound::Unbounded));
    from.map_while(move |(name, value)| Some((name.strip_prefix(prefix)?, &**value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(pairs: &[(&str, &str)]) -> Facts {
        pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    }

    #[test]
    fn records_lead_from_state_to_state_and_checkpoints_state_all() {
        let (mut published, mut read) = (None::<Published>, Facts::new());
        for number in 0..70 {
            let n = number.to_string();
            let mut state = facts(&[("name", "us quotes"), ("part 1", "a\tb"), ("changing", &n)]);
            if number % 3 == 0 {
                state.insert(format!("part {number}"), "x".into());
            }
            let (stated, text) = next(7, published.as_ref(), &state);
            assert_eq!(stated, number);
            assert_eq!(text.contains("us quotes"), number.is_multiple_of(CHECKPOINT_EVERY));
            assert!(apply(&text, (7, number + 1), &mut Facts::new()).is_err());
            assert!(apply(&text, (8, number), &mut Facts::new()).is_err());
            apply(&text, (7, number), &mut read).unwrap();
            assert_eq!(read, state);
            published = Some(Published { number, facts: state });
        }
        assert_eq!(facts_of(&read, "part ").collect::<Vec<_>>(), [("1", "a\tb"), ("69", "x")]);
    }

    #[test]
    fn the_page_shows_two_records() {
        let page = include_str!("../../../../docs/format/objects.md");
        let first = facts(&[("name", "bars"), ("space 000 sealed", "10"), ("symbol 0000000000", "AIG")]);
        let (number, text) = next(0x4c1d_9505_2de1_a1f5, None, &first);
        assert!(number == 0 && page.contains(&text), "it must show:\n{text}");
        let part = "0 10 5 10 1700000000000000000 1700000000000000009 4096 hot 4 object 2b6c9f30a1d4e857";
        let mut second = first.clone();
        second.insert("space 000 part 00000000000000000000".into(), part.into());
        second.remove("symbol 0000000000");
        let (_, text) = next(0x4c1d_9505_2de1_a1f5, Some(&Published { number, facts: first }), &second);
        assert!(page.contains(&text), "it must show:\n{text}");
    }

    #[test]
    fn texts_of_any_characters_are_one_line() {
        for text in ["", "a\nb", "%0A", "50 %\r\n%25", "ü"] {
            assert_eq!(unescaped(&escaped(text)), text);
            assert_eq!(escaped(text).lines().count().max(1), 1);
        }
    }
}
