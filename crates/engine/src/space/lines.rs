//! The lines of a manifest: parts and deletions as text.

use crate::space::catalog::{Content, Part};
use crate::space::deletion::Deletion;
use std::fmt::Write;
use std::ops::Range;
use tapedb_segment::Tier;

/// Adds the line of a deletion.
pub(crate) fn write_deletion(text: &mut String, deletion: &Deletion) {
    let Deletion { number, from, last, sequences, symbols } = deletion;
    let _ = write!(text, "delete {number} {from} {last} {} {} ", sequences.start, sequences.end);
    match symbols {
        None => text.push('*'),
        Some(symbols) => {
            debug_assert!(!symbols.is_empty(), "such a line could not be read again");
            let ids: Vec<String> = symbols.iter().map(u32::to_string).collect();
            text.push_str(&ids.join(","));
        }
    }
    text.push('\n');
}

/// Adds the line of a part.
pub(crate) fn write_part(text: &mut String, part: &Part) {
    let _ = write!(text, "part {} {}", part.sequences.start, part.sequences.end);
    if let Some(content) = &part.content {
        let Content { number, messages, time_min, time_max, bytes, tier, deleted_before, object } = content;
        let tier = tier_name(*tier);
        let _ = write!(text, " {number} {messages} {time_min} {time_max} {bytes} {tier} {deleted_before}");
        if let Some(checksum) = object {
            let _ = write!(text, " object {checksum:016x}");
        }
    }
    if part.lost > 0 {
        let _ = write!(text, " lost {}", part.lost);
    }
    text.push('\n');
}

/// A deletion, of its line without the first word.
pub(crate) fn parse_deletion(rest: &str) -> Option<Deletion> {
    let words: Vec<&str> = rest.split(' ').collect();
    let &[number, from, last, start, end, symbols] = &words[..] else { return None };
    let symbols = match symbols {
        "*" => None,
        ids => Some(ids.split(',').map(|id| id.parse().ok()).collect::<Option<Vec<u32>>>()?),
    };
    if symbols.as_ref().is_some_and(|ids| !ids.is_sorted_by(|a, b| a < b)) {
        return None;
    }
    Some(Deletion {
        number: number.parse().ok()?,
        from: from.parse().ok()?,
        last: last.parse().ok()?,
        sequences: start.parse().ok()?..end.parse().ok()?,
        symbols,
    })
}

/// A part, of its line without the first word.
pub(crate) fn parse_part(rest: &str) -> Option<Part> {
    let mut words = rest.split(' ');
    let sequences: Range<u64> = words.next()?.parse().ok()?..words.next()?.parse().ok()?;
    let mut word = words.next();
    let content = match word.filter(|word| *word != "lost") {
        None => None,
        Some(number) => {
            let mut content = Content {
                number: number.parse().ok()?,
                messages: words.next()?.parse().ok()?,
                time_min: words.next()?.parse().ok()?,
                time_max: words.next()?.parse().ok()?,
                bytes: words.next()?.parse().ok()?,
                tier: words.next().and_then(tier_of_name)?,
                deleted_before: words.next()?.parse().ok()?,
                object: None,
            };
            word = words.next();
            if word == Some("object") {
                let checksum = words.next().filter(|checksum| checksum.len() == 16)?;
                content.object = Some(u64::from_str_radix(checksum, 16).ok()?);
                word = words.next();
            }
            Some(content)
        }
    };
    let lost = match word {
        None => 0,
        Some("lost") => words.next()?.parse().ok()?,
        Some(_) => return None,
    };
    words.next().is_none().then_some(Part { sequences, lost, content })
}

/// `hot` or `cold`.
pub(crate) fn tier_name(tier: Tier) -> &'static str {
    match tier {
        Tier::Hot => "hot",
        Tier::Cold => "cold",
    }
}

fn tier_of_name(name: &str) -> Option<Tier> {
    [Tier::Hot, Tier::Cold].into_iter().find(|tier| tier_name(*tier) == name)
}
