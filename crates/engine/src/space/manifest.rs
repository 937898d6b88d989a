//! A space's manifest: the file that lists its segments. Text for people and programs, with a checksum, in two copies, so that
//! damage to one file does not make a stream unreadable.
//!
//! ```text
//! tapedb-space 1
//! checksum 9ae0daaf
//! stream 4c1d95052de1a1f5
//! space 0
//! generation 17
//! sealed 3932170
//! next 9
//! delete 4 1700000000000000000 1700000000999999999 0 1310720 *
//! part 0 1310720
//! part 1310720 3932160 5 2621440 1700000000000000000 1700000000999999999 5034234 hot 4
//! part 3932160 3932170 lost 10
//! part 3932170 3932180 8 10 1700000001000000000 1700000001000000009 4096 hot 8 object 2b6c9f30a1d4e857
//! ```

use crate::error::{Error, Unreadable};
use crate::space::catalog::{Catalog, Content, Part};
use crate::space::deletion::Deletion;
use crate::space::reserve;
use crate::stream::copies;
use std::fmt::Write;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use tapedb_log::Storage;
use tapedb_segment::Tier;

/// First words of the file, and its version.
const MAGIC: &str = "tapedb-space 1";
/// The two copies, in the order in which they are written.
pub(crate) const FILES: [&str; 2] = ["manifest", "manifest.copy"];
const TEMPORARY: &str = "manifest.tmp";
/// Limit of a manifest's size, about a million parts.
const BYTES_MAX: u64 = 256 << 20;

/// The stream and space of a manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner {
    pub stream_id: u64,
    pub space: u32,
}

/// Reads the manifest of a space; `None` if there is none. Of two good copies the newer one is valid.
///
/// # Errors
/// When there is one and no copy of it is good.
pub(crate) fn read(storage: &dyn Storage, directory: &Path, owner: Owner) -> Result<Option<Catalog>, Error> {
    let (mut found, mut failed): (Option<Catalog>, _) = (None, None);
    for name in FILES {
        match read_copy(storage, &directory.join(name), owner) {
            Ok(Some(copy)) if found.as_ref().is_none_or(|found| found.generation < copy.generation) => {
                found = Some(copy);
            }
            Ok(_) => {}
            Err(error) => failed = Some(error),
        }
    }
    match (found, failed) {
        (None, Some(error)) => Err(error),
        (found, _) => Ok(found),
    }
}

/// One copy; `None` if it does not exist.
pub(crate) fn read_copy(storage: &dyn Storage, path: &Path, owner: Owner) -> Result<Option<Catalog>, Error> {
    let Some(text) = copies::read_text(storage, path, BYTES_MAX)? else { return Ok(None) };
    parse(&text, owner)
        .map(Some)
        .map_err(|what| Error::Unreadable(Unreadable::Definition { path: path.into(), what }))
}

/// Writes both copies, each whole or not at all, and syncs them.
///
/// # Errors
/// When the first cannot be written: the old manifest is still valid. If the second cannot be written it is removed, for it
/// names files that are removed because of the first; the next change or open of the space writes it again ([`renew`]).
pub(crate) fn write(
    storage: &dyn Storage,
    directory: &Path,
    owner: Owner,
    catalog: &Catalog,
) -> Result<(), Error> {
    let text = to_text(catalog, owner);
    let replace = || copies::replace(storage, directory, FILES[0], TEMPORARY, &text);
    match replace() {
        Err(Error::Io { source, .. }) if reserve::is_full(&source) => {
            // The first copy stays good throughout; the change may be a deletion, which frees space.
            let _ = storage.remove(&directory.join(TEMPORARY));
            let _ = storage.remove(&directory.join(FILES[1]));
            replace().or_else(|error| match reserve::release(storage, directory) {
                true => storage.remove(&directory.join(TEMPORARY)).map_or_else(|_| replace(), |()| replace()),
                false => Err(error),
            })?;
        }
        replaced => replaced?,
    }
    // The first copy is valid.
    if copies::replace(storage, directory, FILES[1], TEMPORARY, &text).is_err() {
        let _ = storage.remove(&directory.join(FILES[1]));
    }
    Ok(())
}

/// Rewrites copies that do not hold the valid catalog: one that a killed writer had not replaced, or a damaged one. A copy that
/// cannot be written is left to the next change.
pub(crate) fn renew(storage: &dyn Storage, directory: &Path, owner: Owner, catalog: &Catalog) {
    let text = to_text(catalog, owner);
    for name in FILES {
        let is_good =
            read_copy(storage, &directory.join(name), owner).is_ok_and(|copy| copy.as_ref() == Some(catalog));
        if !is_good {
            let _ = copies::replace(storage, directory, name, TEMPORARY, &text);
        }
    }
}

/// The content of the file.
pub(crate) fn to_text(catalog: &Catalog, owner: Owner) -> String {
    copies::sealed(MAGIC, &body(catalog, owner))
}

/// The lines of the file behind its checksum.
pub(crate) fn body(catalog: &Catalog, owner: Owner) -> String {
    let Catalog { generation, sealed, parts, deletions, next_number } = catalog;
    let Owner { stream_id, space } = owner;
    let mut body = format!(
        "stream {stream_id:016x}\nspace {space}\ngeneration {generation}\nsealed {sealed}\nnext {next_number}\n"
    );
    for deletion in deletions {
        let Deletion { number, from, last, sequences, symbols } = &**deletion;
        let _ = write!(body, "delete {number} {from} {last} {} {} ", sequences.start, sequences.end);
        match symbols {
            None => body.push('*'),
            Some(symbols) => {
                debug_assert!(!symbols.is_empty(), "such a line could not be read again");
                let ids: Vec<String> = symbols.iter().map(u32::to_string).collect();
                body.push_str(&ids.join(","));
            }
        }
        body.push('\n');
    }
    for part in parts {
        let _ = write!(body, "part {} {}", part.sequences.start, part.sequences.end);
        if let Some(content) = &part.content {
            let Content { number, messages, time_min, time_max, bytes, tier, deleted_before, object } =
                content;
            let tier = tier_name(*tier);
            let _ =
                write!(body, " {number} {messages} {time_min} {time_max} {bytes} {tier} {deleted_before}");
            if let Some(checksum) = object {
                let _ = write!(body, " object {checksum:016x}");
            }
        }
        if part.lost > 0 {
            let _ = write!(body, " lost {}", part.lost);
        }
        body.push('\n');
    }
    body
}

/// Reads the content of the file; what is wrong with it otherwise.
pub(crate) fn parse(text: &str, owner: Owner) -> Result<Catalog, String> {
    parse_body(copies::unsealed(MAGIC, text)?, owner)
}

/// Reads the lines behind the checksum; what is wrong with them otherwise.
pub(crate) fn parse_body(body: &str, owner: Owner) -> Result<Catalog, String> {
    let mut catalog = Catalog::default();
    let mut stated = Owner { stream_id: 0, space: 0 };
    for (i, line) in body.lines().enumerate() {
        let parsed = parse_line(line, &mut catalog, &mut stated);
        parsed.ok_or_else(|| format!("has a line {} that is not understood: {line:?}", i + 3))?;
    }
    if stated != owner {
        return Err(format!(
            "belongs to stream {:016x}, space {}, not to {:016x}, space {}",
            stated.stream_id, stated.space, owner.stream_id, owner.space
        ));
    }
    check(&catalog)?;
    Ok(catalog)
}

fn parse_line(line: &str, catalog: &mut Catalog, owner: &mut Owner) -> Option<()> {
    let (key, rest) = line.split_once(' ')?;
    match key {
        "stream" => owner.stream_id = u64::from_str_radix(rest, 16).ok()?,
        "space" => owner.space = rest.parse().ok()?,
        "generation" => catalog.generation = rest.parse().ok()?,
        "sealed" => catalog.sealed = rest.parse().ok()?,
        "next" => catalog.next_number = rest.parse().ok()?,
        "delete" => catalog.deletions.push(Arc::new(parse_deletion(rest)?)),
        "part" => catalog.parts.push(Arc::new(parse_part(rest)?)),
        _ => return None,
    }
    Some(())
}

fn parse_deletion(rest: &str) -> Option<Deletion> {
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

fn parse_part(rest: &str) -> Option<Part> {
    let words: Vec<&str> = rest.split(' ').collect();
    let (sequences, content) = words.split_at_checked(2)?;
    let sequences: Range<u64> = sequences[0].parse().ok()?..sequences[1].parse().ok()?;
    let (content, lost) = match content {
        [content @ .., "lost", lost] => (content, lost.parse().ok()?),
        content => (content, 0),
    };
    let (content, object) = match content {
        [content @ .., "object", checksum] => {
            let checksum = u64::from_str_radix(checksum, 16).ok().filter(|_| checksum.len() == 16);
            (content, Some(checksum.filter(|_| !content.is_empty())?))
        }
        content => (content, None),
    };
    let content = match content {
        [] => None,
        &[number, messages, time_min, time_max, bytes, tier, deleted_before] => Some(Content {
            number: number.parse().ok()?,
            messages: messages.parse().ok()?,
            time_min: time_min.parse().ok()?,
            time_max: time_max.parse().ok()?,
            bytes: bytes.parse().ok()?,
            tier: [Tier::Hot, Tier::Cold].into_iter().find(|candidate| tier_name(*candidate) == tier)?,
            deleted_before: deleted_before.parse().ok()?,
            object,
        }),
        _ => return None,
    };
    Some(Part { sequences, lost, content })
}

/// Checks the invariants of a catalog.
fn check(catalog: &Catalog) -> Result<(), String> {
    let mut next = 0;
    for part in &catalog.parts {
        if part.sequences.start != next || part.sequences.end <= next {
            return Err(format!("has a part of messages {:?} where {next} should begin one", part.sequences));
        }
        next = part.sequences.end;
        let left = part.content.as_ref().map_or(0, |content| content.messages);
        if left.saturating_add(part.lost) > part.sequences.end - part.sequences.start {
            let lost = part.lost;
            return Err(format!("has a part {:?} of {left} messages and {lost} lost ones", part.sequences));
        }
    }
    if next != catalog.sealed {
        return Err(format!("has parts up to message {next}, but {} are sealed", catalog.sealed));
    }
    let segments = catalog.contents().map(|content| content.number);
    let largest = segments.chain(catalog.deletions.iter().map(|deletion| deletion.number)).max();
    match largest {
        Some(largest) if largest >= catalog.next_number => {
            Err(format!("has a number {largest}, but the next one is {}", catalog.next_number))
        }
        _ => Ok(()),
    }
}

/// `hot` or `cold`.
pub(crate) fn tier_name(tier: Tier) -> &'static str {
    match tier {
        Tier::Hot => "hot",
        Tier::Cold => "cold",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tapedb_log::sim::SimStorage;

    const OWNER: Owner = Owner { stream_id: 0x4c1d_9505_2de1_a1f5, space: 0 };

    fn sample() -> Catalog {
        let content = Content {
            number: 5,
            messages: 2_621_440,
            time_min: 1_700_000_000_000_000_000,
            time_max: 1_700_000_000_999_999_999,
            bytes: 5_034_234,
            tier: Tier::Hot,
            deleted_before: 4,
            object: None,
        };
        let delete = |number, symbols| Deletion {
            number,
            from: 1_700_000_000_000_000_000,
            last: 1_700_000_000_999_999_999,
            sequences: 0..1_310_720,
            symbols,
        };
        let object = Content {
            number: 8,
            messages: 10,
            time_min: 1_700_000_001_000_000_000,
            time_max: 1_700_000_001_000_000_009,
            bytes: 4096,
            tier: Tier::Hot,
            deleted_before: 8,
            object: Some(0x2b6c_9f30_a1d4_e857),
        };
        Catalog {
            generation: 17,
            sealed: 3_932_180,
            parts: vec![
                Arc::new(Part { sequences: 0..1_310_720, lost: 0, content: None }),
                Arc::new(Part { sequences: 1_310_720..3_932_160, lost: 0, content: Some(content) }),
                Arc::new(Part { sequences: 3_932_160..3_932_170, lost: 10, content: None }),
                Arc::new(Part { sequences: 3_932_170..3_932_180, lost: 0, content: Some(object) }),
            ],
            deletions: vec![Arc::new(delete(4, None)), Arc::new(delete(7, Some(vec![0, 12])))],
            next_number: 9,
        }
    }

    #[test]
    fn round_trips_and_the_page_shows_it() {
        let text = to_text(&sample(), OWNER);
        assert_eq!(parse(&text, OWNER).unwrap(), sample(), "{text}");
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/format/database.md");
        let page = std::fs::read_to_string(path).unwrap();
        assert!(page.contains(&text), "docs/format/database.md must show:\n{text}");
        assert!(parse(&text, Owner { space: 1, ..OWNER }).unwrap_err().contains("space 0"));
    }

    #[test]
    fn a_changed_bit_is_detected_and_the_other_copy_is_used() {
        let text = to_text(&sample(), OWNER);
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            assert!(parse(&String::from_utf8(bytes).unwrap(), OWNER).is_err(), "byte {at}");
        }
        let (disk, directory) = (SimStorage::new(1), Path::new("/space"));
        disk.create_dir_all(directory).unwrap();
        assert_eq!(read(&disk, directory, OWNER).unwrap(), None);
        write(&disk, directory, OWNER, &sample()).unwrap();
        write(&disk, directory, OWNER, &sample().next()).unwrap();
        assert_eq!(read(&disk, directory, OWNER).unwrap().unwrap().generation, 18);
        for name in FILES {
            let file = disk.open_write(&directory.join(name)).unwrap();
            let mut byte = [0];
            file.read_at(&mut byte, 40).unwrap();
            file.write_at(&[byte[0] ^ 4], 40).unwrap();
            if name == FILES[0] {
                assert_eq!(read(&disk, directory, OWNER).unwrap().unwrap().generation, 18);
            }
        }
        assert!(read(&disk, directory, OWNER).unwrap_err().to_string().contains("checksum"));
    }

    #[test]
    fn no_copy_stays_behind_the_other() {
        let (disk, directory) = (SimStorage::new(1), Path::new("/space"));
        disk.create_dir_all(directory).unwrap();
        write(&disk, directory, OWNER, &sample()).unwrap();
        let copy = || read_copy(&disk, &directory.join(FILES[1]), OWNER).unwrap();
        let before = disk.operations();
        write(&disk, directory, OWNER, &sample().next()).unwrap();
        let steps = disk.operations() - before;
        let mut newest = sample().next();
        for step in 1..=steps {
            disk.fail_at(disk.operations() + step, std::io::ErrorKind::Other);
            let is_written = write(&disk, directory, OWNER, &newest.next()).is_ok();
            assert!(!is_written || copy().is_none_or(|copy| copy == newest.next()), "step {step} of {steps}");
            newest = read(&disk, directory, OWNER).unwrap().unwrap();
            renew(&disk, directory, OWNER, &newest);
            assert_eq!(copy().as_ref(), Some(&newest), "step {step} of {steps}");
        }
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let mut holes = sample();
        holes.parts.remove(0);
        let mut short = sample();
        short.sealed += 1;
        let mut lost = sample();
        lost.parts[2] = Arc::new(Part { sequences: 3_932_160..3_932_170, lost: 11, content: None });
        let mut numbers = sample();
        numbers.next_number = 5;
        for bad in [holes, short, lost, numbers] {
            assert!(parse(&to_text(&bad, OWNER), OWNER).is_err(), "{bad:?}");
        }
    }
}
