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
//!
//! A file of version 2, where there are many parts, is not replaced at each change: the [changes] are appended to both copies, each behind
//! a line with its checksum and its bytes, until they are many.

use crate::error::{Error, Unreadable};
use crate::maintenance::forced;
use crate::space::catalog::Catalog;
use crate::space::changes;
use crate::space::lines::{parse_deletion, parse_part, write_deletion, write_part};
use crate::space::reserve;
use crate::stream::copies;
use std::io;
use std::path::Path;
use std::sync::Arc;
use tapedb_log::{Storage, StorageFile};

/// First words of a file that has the whole catalog, and its version.
const MAGIC: &str = "tapedb-space 1";
/// The same of a file that changes may follow: behind the checksum is the number of bytes that it is of.
const MAGIC_2: &str = "tapedb-space 2";
/// First word of the line before a change.
const CHANGE: &str = "change ";
/// First words of changes that are sent to a client.
const MAGIC_CHANGES: &str = "tapedb-space-changes 1";
/// The two copies, in the order in which they are written.
pub(crate) const FILES: [&str; 2] = ["manifest", "manifest.copy"];
const TEMPORARY: &str = "manifest.tmp";
/// Limit of a manifest's size, about a million parts.
const BYTES_MAX: u64 = 256 << 20;
/// A manifest of fewer bytes is replaced at each change; changes are appended to a larger one.
const WHOLE_BYTES_MAX: usize = 64 << 10;
/// So many bytes of changes follow, or a quarter of those before them, until the file is replaced.
const CHANGE_BYTES_MIN: u64 = 64 << 10;

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
    read_copies(storage, directory, owner).map(|(found, _)| found)
}

/// Reads the manifest of a space for its writer, which rewrites copies that do not hold the valid catalog: one that a killed writer
/// had not replaced, or a damaged one. A copy that cannot be written is left to the next change.
///
/// # Errors
/// As [`read`].
pub(crate) fn read_to_write(
    storage: &dyn Storage,
    directory: &Path,
    owner: Owner,
) -> Result<Option<Catalog>, Error> {
    let (found, is_good) = read_copies(storage, directory, owner)?;
    if let Some(catalog) = &found {
        let text = if is_good == [true; 2] { String::new() } else { to_file(catalog, owner) };
        for (name, _) in FILES.iter().zip(is_good).filter(|(_, is_good)| !is_good) {
            let _ = copies::replace(storage, directory, name, TEMPORARY, &text);
        }
    }
    Ok(found)
}

/// The valid catalog, and which of the copies hold it.
fn read_copies(
    storage: &dyn Storage,
    directory: &Path,
    owner: Owner,
) -> Result<(Option<Catalog>, [bool; 2]), Error> {
    let texts = FILES.map(|name| copies::read_text(storage, &directory.join(name), BYTES_MAX));
    // Most often they are the same.
    if let [Ok(Some(first)), Ok(Some(second))] = &texts
        && first == second
    {
        let path = directory.join(FILES[0]);
        return Ok((Some(parse_copy(first, &path, owner)?), [true; 2]));
    }
    let (mut found, mut failed) = ([None, None], None);
    for ((name, text), found) in FILES.iter().zip(texts).zip(&mut found) {
        let copy = text
            .and_then(|text| text.map(|text| parse_copy(&text, &directory.join(name), owner)).transpose());
        match copy {
            Ok(copy) => *found = copy,
            Err(error) => failed = Some(error),
        }
    }
    let newest = match &found {
        [Some(first), Some(second)] if first.generation < second.generation => 1,
        [None, Some(_)] => 1,
        [Some(_), _] => 0,
        [None, None] => return failed.map_or(Ok((None, [false; 2])), Err),
    };
    let is_good = found.each_ref().map(|copy| *copy == found[newest]);
    Ok((found.into_iter().nth(newest).flatten(), is_good))
}

/// One copy; `None` if it does not exist.
pub(crate) fn read_copy(storage: &dyn Storage, path: &Path, owner: Owner) -> Result<Option<Catalog>, Error> {
    let Some(text) = copies::read_text(storage, path, BYTES_MAX)? else { return Ok(None) };
    parse_copy(&text, path, owner).map(Some)
}

fn parse_copy(text: &str, path: &Path, owner: Owner) -> Result<Catalog, Error> {
    parse(text, owner).map_err(|what| Error::Unreadable(Unreadable::Definition { path: path.into(), what }))
}

/// The manifest of a space that this process writes. Only it changes the files.
#[derive(Default)]
pub(crate) struct Writer {
    /// The two copies, if changes are appended to them.
    open: Option<Open>,
}

/// Two copies of the same bytes.
struct Open {
    copies: [Arc<dyn StorageFile>; 2],
    bytes: u64,
    bytes_max: u64,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("appends", &self.open.is_some()).finish()
    }
}

impl Writer {
    /// Records a change on the disk: `change` is its text, if there is one.
    ///
    /// # Errors
    /// As [`write`].
    pub fn change(
        &mut self,
        storage: &dyn Storage,
        directory: &Path,
        owner: Owner,
        (catalog, change): (&Catalog, Option<&str>),
    ) -> Result<(), Error> {
        // What follows an append that has failed is a new file.
        if let (Some(mut open), Some(record)) = (self.open.take(), change.map(to_record))
            && open.append(&record).is_ok()
        {
            match open.append_to_copy(&record) {
                true => self.open = Some(open),
                false => drop(storage.remove(&directory.join(FILES[1]))),
            }
            return Ok(());
        }
        let text = to_file(catalog, owner);
        write_text(storage, directory, &text)?;
        let may_follow = text.starts_with(MAGIC_2);
        self.open = may_follow.then(|| Open::of(storage, directory, text.len() as u64)).flatten();
        Ok(())
    }
}

impl Open {
    /// The files that were just written, if changes may follow: of `bytes`.
    fn of(storage: &dyn Storage, directory: &Path, bytes: u64) -> Option<Self> {
        let [first, second] = FILES.map(|name| {
            storage
                .open_write(&directory.join(name))
                .ok()
                .filter(|file| file.len().is_ok_and(|len| len == bytes))
        });
        let bytes_max = bytes.saturating_add(CHANGE_BYTES_MIN.max(bytes / 4)).min(BYTES_MAX);
        Some(Self { copies: [first?, second?], bytes, bytes_max })
    }

    /// Appends a change to the first copy. An error: it is not the end of the file that changes may follow.
    fn append(&mut self, record: &str) -> io::Result<()> {
        if self.bytes + record.len() as u64 > self.bytes_max {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.copies[0].write_at(record.as_bytes(), self.bytes)?;
        self.copies[0].sync_data()
    }

    /// Appends the same to the second copy; `false`: it names files that are removed because of the change.
    fn append_to_copy(&mut self, record: &str) -> bool {
        let written = self.copies[1].write_at(record.as_bytes(), self.bytes);
        self.bytes += record.len() as u64;
        written.and_then(|()| self.copies[1].sync_data()).is_ok()
    }
}

/// Writes both copies, each whole or not at all, and syncs them.
///
/// # Errors
/// When the first cannot be written: the old manifest is still valid. If the second cannot be written it is removed, for it
/// names files that are removed because of the first; the next change or open of the space writes it again.
pub(crate) fn write(
    storage: &dyn Storage,
    directory: &Path,
    owner: Owner,
    catalog: &Catalog,
) -> Result<(), Error> {
    write_text(storage, directory, &to_file(catalog, owner))
}

fn write_text(storage: &dyn Storage, directory: &Path, text: &str) -> Result<(), Error> {
    let replace = || copies::replace(storage, directory, FILES[0], TEMPORARY, text);
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
    if copies::replace(storage, directory, FILES[1], TEMPORARY, text).is_err() {
        let _ = storage.remove(&directory.join(FILES[1]));
    }
    Ok(())
}

/// The content of a file: of the first version while that is small.
fn to_file(catalog: &Catalog, owner: Owner) -> String {
    let body = body(catalog, owner);
    match body.len() <= WHOLE_BYTES_MAX && !forced::are_changes_appended() {
        true => copies::sealed(MAGIC, &body),
        false => format!("{MAGIC_2}\nchecksum {:08x} {}\n{body}", copies::checksum(&body), body.len()),
    }
}

/// A change, as it is appended.
fn to_record(change: &str) -> String {
    format!("{CHANGE}{:08x} {}\n{change}", copies::checksum(change), change.len())
}

/// The catalog, for a client.
pub(crate) fn to_text(catalog: &Catalog, owner: Owner) -> String {
    copies::sealed(MAGIC, &body(catalog, owner))
}

/// Changes of a catalog, for a client that has the one before them.
pub(crate) fn changes_to_text(changes: &str, owner: Owner) -> String {
    let Owner { stream_id, space } = owner;
    copies::sealed(MAGIC_CHANGES, &format!("stream {stream_id:016x}\nspace {space}\n{changes}"))
}

/// The lines of a whole catalog, behind its checksum.
pub(crate) fn body(catalog: &Catalog, owner: Owner) -> String {
    let Catalog { generation, sealed, parts, deletions, next_number } = catalog;
    let Owner { stream_id, space } = owner;
    let mut body = format!(
        "stream {stream_id:016x}\nspace {space}\ngeneration {generation}\nsealed {sealed}\nnext {next_number}\n"
    );
    deletions.iter().for_each(|deletion| write_deletion(&mut body, deletion));
    parts.iter().for_each(|part| write_part(&mut body, part));
    body
}

/// What a server has sent: a catalog, or changes of the one that the client has. What is wrong with it otherwise.
pub(crate) fn received(text: &str, owner: Owner, known: &Catalog) -> Result<Catalog, String> {
    if !text.starts_with(MAGIC_CHANGES) {
        return parse(text, owner);
    }
    let body = copies::unsealed(MAGIC_CHANGES, text)?;
    let mut lines = body.splitn(3, '\n');
    let stated = (lines.next().and_then(|line| line.strip_prefix("stream ")))
        .and_then(|id| u64::from_str_radix(id, 16).ok())
        .zip(lines.next().and_then(|line| line.strip_prefix("space ")?.parse().ok()));
    let (stream_id, space) = stated.ok_or("does not state its stream and space")?;
    check_owner(Owner { stream_id, space }, owner)?;
    let mut catalog = known.clone();
    changes::apply(&mut catalog, lines.next().unwrap_or_default())?;
    check(&catalog)?;
    Ok(catalog)
}

/// Reads the content of a file; what is wrong with it otherwise. A change at the end whose writing was cut off is left out.
pub(crate) fn parse(text: &str, owner: Owner) -> Result<Catalog, String> {
    let (body, mut records) = match text.strip_prefix(MAGIC_2) {
        None => (copies::unsealed(MAGIC, text)?, ""),
        Some(rest) => split(rest).ok_or("is damaged: its checksum is not the stated one")?,
    };
    let mut catalog = parse_lines(body, owner)?;
    while !records.is_empty() {
        match next_record(records) {
            Record::Whole(change, rest) => {
                changes::apply(&mut catalog, change)?;
                records = rest;
            }
            Record::CutOff => break,
            Record::Damaged => {
                return Err("is damaged: the checksum of a change is not the stated one".into());
            }
        }
    }
    check(&catalog)?;
    Ok(catalog)
}

/// Reads the lines of a whole catalog; what is wrong with them otherwise.
pub(crate) fn parse_body(body: &str, owner: Owner) -> Result<Catalog, String> {
    let catalog = parse_lines(body, owner)?;
    check(&catalog)?;
    Ok(catalog)
}

fn parse_lines(body: &str, owner: Owner) -> Result<Catalog, String> {
    let mut catalog = Catalog::default();
    let mut stated = Owner { stream_id: 0, space: 0 };
    for (i, line) in body.lines().enumerate() {
        let parsed = parse_line(line, &mut catalog, &mut stated);
        parsed.ok_or_else(|| format!("has a line {} that is not understood: {line:?}", i + 3))?;
    }
    check_owner(stated, owner)?;
    Ok(catalog)
}

/// The body of a file of version 2, and the changes behind it.
fn split(rest: &str) -> Option<(&str, &str)> {
    let (line, rest) = rest.strip_prefix("\nchecksum ")?.split_once('\n')?;
    let (checksum, bytes) = line.split_once(' ')?;
    let (body, records) = rest.split_at_checked(bytes.parse().ok()?)?;
    (checksum == format!("{:08x}", copies::checksum(body))).then_some((body, records))
}

/// What follows in a file of version 2.
enum Record<'a> {
    /// A change, and what follows it.
    Whole(&'a str, &'a str),
    /// The beginning of a change, maybe with zeros behind it: nothing was removed because of it.
    CutOff,
    Damaged,
}

fn next_record(rest: &str) -> Record<'_> {
    let Some((line, after)) = rest.split_once('\n') else {
        let begun = rest.trim_end_matches('\0');
        let is_begin = CHANGE.starts_with(begun) || begun.starts_with(CHANGE);
        return if is_begin { Record::CutOff } else { Record::Damaged };
    };
    let stated = line.strip_prefix(CHANGE).and_then(|line| {
        let (checksum, bytes) = line.split_once(' ')?;
        Some((checksum, bytes.parse::<usize>().ok()?))
    });
    let Some((checksum, bytes)) = stated else { return Record::Damaged };
    match after.split_at_checked(bytes) {
        Some((change, rest)) if checksum == format!("{:08x}", copies::checksum(change)) => {
            Record::Whole(change, rest)
        }
        Some((_, rest)) if !rest.trim_end_matches('\0').is_empty() => Record::Damaged,
        _ => Record::CutOff,
    }
}

fn check_owner(stated: Owner, owner: Owner) -> Result<(), String> {
    if stated == owner {
        return Ok(());
    }
    Err(format!(
        "belongs to stream {:016x}, space {}, not to {:016x}, space {}",
        stated.stream_id, stated.space, owner.stream_id, owner.space
    ))
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
    let largest =
        catalog.deletions.iter().map(|deletion| deletion.number).max().max(catalog.parts.totals().number);
    match largest {
        Some(largest) if largest >= catalog.next_number => {
            Err(format!("has a number {largest}, but the next one is {}", catalog.next_number))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::catalog::{Content, Part};
    use crate::space::deletion::Deletion;
    use std::ops::Range;
    use tapedb_log::sim::{SimStorage, Stop};
    use tapedb_segment::Tier;

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
            parts: [
                Arc::new(Part { sequences: 0..1_310_720, lost: 0, content: None }),
                Arc::new(Part { sequences: 1_310_720..3_932_160, lost: 0, content: Some(content) }),
                Arc::new(Part { sequences: 3_932_160..3_932_170, lost: 10, content: None }),
                Arc::new(Part { sequences: 3_932_170..3_932_180, lost: 0, content: Some(object) }),
            ]
            .into_iter()
            .collect(),
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
            disk.fail_at(disk.operations() + step, io::ErrorKind::Other);
            let is_written = write(&disk, directory, OWNER, &newest.next()).is_ok();
            assert!(!is_written || copy().is_none_or(|copy| copy == newest.next()), "step {step} of {steps}");
            newest = read(&disk, directory, OWNER).unwrap().unwrap();
            read_to_write(&disk, directory, OWNER).unwrap();
            assert_eq!(copy().as_ref(), Some(&newest), "step {step} of {steps}");
        }
    }

    /// A file of version 2 with two changes, and the catalogs before, between and after them.
    fn changed() -> (String, [Catalog; 3]) {
        let part = |sequences: Range<u64>, number| {
            let (messages, time_min, time_max) = (10, 1_700_000_001_000_000_000, 1_700_000_001_999_999_999);
            let (bytes, tier, deleted_before) = (120, Tier::Hot, 8);
            let content =
                Content { number, messages, time_min, time_max, bytes, tier, deleted_before, object: None };
            Part { sequences, lost: 0, content: Some(content) }
        };
        let first = sample().with(part(3_932_170..3_932_180, 9)).unwrap();
        let second = first.with(part(1_310_720..3_932_180, 10)).unwrap();
        let mut text = forced::changes(|| to_file(&sample(), OWNER));
        text += &to_record(&changes::between(&sample(), &first).unwrap());
        text += &to_record(&changes::between(&first, &second).unwrap());
        (text, [sample(), first, second])
    }

    #[test]
    fn changes_follow_a_large_manifest_and_the_page_shows_it() {
        let (text, catalogs) = changed();
        assert_eq!(parse(&text, OWNER).unwrap(), catalogs[2], "{text}");
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/format/database.md");
        let page = std::fs::read_to_string(path).unwrap();
        assert!(page.contains(&text), "docs/format/database.md must show:\n{text}");
        let changes = changes_to_text(&changes::between(&catalogs[0], &catalogs[1]).unwrap(), OWNER);
        assert_eq!(received(&changes, OWNER, &catalogs[0]).unwrap(), catalogs[1]);
        assert_eq!(received(&to_text(&catalogs[1], OWNER), OWNER, &catalogs[2]).unwrap(), catalogs[1]);
        assert!(received(&changes, OWNER, &catalogs[1]).is_err());
        assert!(received(&changes, Owner { space: 1, ..OWNER }, &catalogs[0]).is_err());
    }

    /// What readers of every version have to read.
    #[test]
    fn golden_files_are_read() {
        let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testing/vectors");
        let (second, catalogs) = changed();
        // Those of the first version had no objects.
        let mut first = sample();
        first.parts.pop();
        first.sealed = 3_932_170;
        for (name, expected, catalog) in
            [("manifest_v1.txt", to_text(&first, OWNER), &first), ("manifest_v2.txt", second, &catalogs[2])]
        {
            let path = vectors.join(name);
            if std::env::var_os("TAPEDB_WRITE_VECTORS").is_some() {
                std::fs::write(&path, &expected).unwrap();
            }
            let text = std::fs::read_to_string(&path).unwrap();
            assert_eq!(&parse(&text, OWNER).unwrap(), catalog, "{name}");
            assert_eq!(text, expected, "{name}");
        }
    }

    #[test]
    fn a_change_that_was_cut_off_is_left_out() {
        let (text, catalogs) = changed();
        let starts: Vec<usize> = text.match_indices(CHANGE).map(|(at, _)| at).collect();
        for end in starts[0]..=text.len() {
            let whole = if end == text.len() { 2 } else { usize::from(end >= starts[1]) };
            for zeros in [0, 1, 100] {
                let cut = text[..end].to_string() + &"\0".repeat(zeros);
                assert_eq!(parse(&cut, OWNER).as_ref(), Ok(&catalogs[whole]), "{end} and {zeros}");
            }
        }
        // A change before another was written whole.
        for at in starts[0]..starts[1] {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            let read = parse(&String::from_utf8(bytes).unwrap(), OWNER);
            assert!(read.is_err() || read.is_ok_and(|catalog| catalog == catalogs[0]), "byte {at}");
        }
    }

    /// Changes are made one after the other; each operation of the disk fails once, and ends the process or cuts the power once.
    #[test]
    fn no_change_that_was_made_is_lost() {
        let directory = Path::new("/space");
        let (_, catalogs) = changed();
        let change = |writer: &mut Writer, disk: &SimStorage, index: usize| {
            let change =
                index.checked_sub(1).and_then(|old| changes::between(&catalogs[old], &catalogs[index]));
            writer.change(disk, directory, OWNER, (&catalogs[index], change.as_deref()))
        };
        let begin = |seed| {
            let disk = SimStorage::new(seed);
            disk.create_dir_all(directory).unwrap();
            disk.sync_dir(Path::new("/")).unwrap();
            write(&disk, directory, OWNER, &Catalog { generation: 16, ..Catalog::default() }).unwrap();
            disk
        };
        let steps = {
            let (disk, mut writer) = (begin(1), Writer::default());
            let before = disk.operations();
            forced::changes(|| (0..3).for_each(|index| change(&mut writer, &disk, index).unwrap()));
            assert!(writer.open.is_some(), "they were appended");
            disk.operations() - before
        };
        for (step, stop) in
            (1..=steps).flat_map(|step| [(step, None), (step, Some(Stop::Kill)), (step, Some(Stop::Power))])
        {
            let (disk, mut writer, mut made) = (begin(step), Writer::default(), 16);
            match stop {
                None => disk.fail_at(disk.operations() + step, io::ErrorKind::Other),
                Some(_) => disk.crash_at(disk.operations() + step),
            }
            forced::changes(|| {
                for (index, catalog) in catalogs.iter().enumerate() {
                    match change(&mut writer, &disk, index) {
                        Ok(()) => made = catalog.generation,
                        // It may be on the disk nevertheless; the process goes on with a whole file.
                        Err(_) if stop.is_none() => {
                            change(&mut writer, &disk, index).map_or((), |()| made = catalog.generation)
                        }
                        Err(_) => break,
                    }
                }
            });
            if let Some(stop) = stop {
                disk.restart(stop);
            }
            let found = read_to_write(&disk, directory, OWNER).unwrap().unwrap();
            assert!(
                (made..=made + 1).contains(&found.generation),
                "{} after {made}: {step} {stop:?}",
                found.generation
            );
            assert!(found.generation == 16 || catalogs.contains(&found), "{step} {stop:?}");
            for name in FILES {
                assert_eq!(
                    read_copy(&disk, &directory.join(name), OWNER).unwrap().as_ref(),
                    Some(&found),
                    "{name} {step} {stop:?}"
                );
            }
        }
    }

    /// After so many changes the file is replaced.
    #[test]
    fn a_manifest_does_not_grow_without_limit() {
        let (disk, directory) = (SimStorage::new(1), Path::new("/space"));
        disk.create_dir_all(directory).unwrap();
        let (mut writer, mut catalog) = (Writer::default(), Catalog { generation: 0, ..sample() });
        forced::changes(|| {
            writer.change(&disk, directory, OWNER, (&catalog, None)).unwrap();
            for _ in 0..2000 {
                let next = catalog.next();
                let change = changes::between(&catalog, &next);
                writer.change(&disk, directory, OWNER, (&next, change.as_deref())).unwrap();
                catalog = next;
            }
        });
        assert_eq!(read(&disk, directory, OWNER).unwrap(), Some(catalog));
        assert!(disk.size(&directory.join(FILES[0])).unwrap() < 2 * CHANGE_BYTES_MIN);
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let mut holes = sample();
        holes.parts = holes.parts.iter().skip(1).cloned().collect();
        let mut short = sample();
        short.sealed += 1;
        let mut lost = sample();
        let more = Arc::new(Part { sequences: 3_932_160..3_932_170, lost: 11, content: None });
        assert!(lost.parts.replace(&(3_932_160..3_932_170), [more]));
        let mut numbers = sample();
        numbers.next_number = 5;
        for bad in [holes, short, lost, numbers] {
            assert!(parse(&to_text(&bad, OWNER), OWNER).is_err(), "{bad:?}");
        }
    }
}
