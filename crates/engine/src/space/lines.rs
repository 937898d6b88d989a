//! The lines of a manifest: parts and deletions as text.

use crate::space::catalog::{Content, Part};
use crate::space::deletion::Deletion;
use std::fmt::Write;
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

/// A part, of its line without the first word. A database may have very many of them, and reads all when it is opened.
pub(crate) fn parse_part(rest: &str) -> Option<Part> {
    let mut words = Words(Some(rest.as_bytes()));
    let sequences = words.number()?..words.number()?;
    let mut word = words.next();
    let content = match word.filter(|word| *word != b"lost") {
        None => None,
        Some(number) => {
            let mut content = Content {
                number: number_of(number)?,
                messages: words.number()?,
                time_min: words.signed()?,
                time_max: words.signed()?,
                bytes: words.number()?,
                tier: words.next().and_then(tier_of_name)?,
                deleted_before: words.number()?,
                object: None,
            };
            word = words.next();
            if word == Some(b"object") {
                let checksum = words.next().filter(|checksum| checksum.len() == 16)?;
                content.object = Some(u64::from_str_radix(std::str::from_utf8(checksum).ok()?, 16).ok()?);
                word = words.next();
            }
            Some(content)
        }
    };
    let lost = match word {
        None => 0,
        Some(b"lost") => words.number()?,
        Some(_) => return None,
    };
    words.next().is_none().then_some(Part { sequences, lost, content })
}

/// The words of a line, each behind one space; `None` behind the last one.
struct Words<'a>(Option<&'a [u8]>);

impl<'a> Words<'a> {
    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.0?;
        let end = rest.iter().position(|byte| *byte == b' ');
        let (word, rest) = end.map_or((rest, None), |end| (&rest[..end], Some(&rest[end + 1..])));
        self.0 = rest;
        Some(word)
    }

    #[inline]
    fn number(&mut self) -> Option<u64> {
        number_of(self.next()?)
    }

    #[inline]
    fn signed(&mut self) -> Option<i64> {
        let word = self.next()?;
        match word.strip_prefix(b"-") {
            None => i64::try_from(number_of(word)?).ok(),
            Some(word) => 0_i64.checked_sub_unsigned(number_of(word)?),
        }
    }
}

/// A number of digits alone.
#[inline]
fn number_of(word: &[u8]) -> Option<u64> {
    let digit = |byte: u8| byte.is_ascii_digit().then(|| u64::from(byte - b'0'));
    match word.len() {
        0 => None,
        // No overflow.
        1..=19 => word.iter().try_fold(0, |number, byte| Some(number * 10 + digit(*byte)?)),
        _ => word.iter().try_fold(0_u64, |number, byte| number.checked_mul(10)?.checked_add(digit(*byte)?)),
    }
}

/// `hot` or `cold`.
pub(crate) fn tier_name(tier: Tier) -> &'static str {
    match tier {
        Tier::Hot => "hot",
        Tier::Cold => "cold",
    }
}

fn tier_of_name(name: &[u8]) -> Option<Tier> {
    [Tier::Hot, Tier::Cold].into_iter().find(|tier| tier_name(*tier).as_bytes() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_a_part_is_read_as_it_was_written() {
        let content = |number, times: (i64, i64), object| Content {
            number,
            messages: 3,
            time_min: times.0,
            time_max: times.1,
            bytes: u64::MAX,
            tier: if number == 0 { Tier::Hot } else { Tier::Cold },
            deleted_before: 7,
            object,
        };
        for (lost, content) in [
            (0, None),
            (9, None),
            (0, Some(content(0, (i64::MIN, i64::MAX), None))),
            (u64::MAX, Some(content(10_000_000_000_000_000_000, (-1, 0), Some(u64::MAX)))),
            (1, Some(content(5, (0, 1), None))),
            (0, Some(content(5, (0, 1), Some(0)))),
        ] {
            let (part, mut text) = (Part { sequences: 12..u64::MAX, lost, content }, String::new());
            write_part(&mut text, &part);
            let line = text.strip_prefix("part ").and_then(|line| line.strip_suffix('\n')).unwrap();
            assert_eq!(parse_part(line).as_ref(), Some(&part));
            for end in 0..line.len() {
                assert_ne!(parse_part(&line[..end]).as_ref(), Some(&part));
            }
            for bad in [format!("{line} "), format!(" {line}"), format!("{line} 1"), line.replace(' ', "  ")]
            {
                assert_eq!(parse_part(&bad), None, "{bad:?}");
            }
        }
        for bad in [
            "",
            "1",
            "1 ",
            "1 x",
            "1 -2",
            "+1 2",
            "1 18446744073709551616",
            "1 2 lost",
            "1 2 lost x",
            "1 2 3",
        ] {
            assert_eq!(parse_part(bad), None, "{bad:?}");
        }
    }
}
