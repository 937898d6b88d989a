//! A stream's definition: the file `stream.tape`, text for people and programs, with a checksum, stored twice.
//!
//! ```text
//! tapedb-stream 1
//! checksum 9ae0daaf
//! id 4c1d95052de1a1f5
//! created 2026-03-01T08:00:00Z
//! revision 0
//! durability async
//! late accept
//! file_bytes_max 67108864
//! spaces 1
//! retention_age none
//! retention_bytes none
//! seal_after 1h
//! cold_after none
//! schema 1
//!
//! message Tick {
//!     price: decimal64,
//! }
//! ```

use crate::error::{Error, Unreadable};
use crate::options::{
    BYTES_MAX_DEFAULT, Late, Offload, Retention, SPACES_MAX, StreamOptions, duration_text, parse_duration,
};
use crate::stream::copies;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tapedb_log::{Durability, Storage, StorageFile};
use tapedb_schema::{MAX_TEXT_BYTES, Schema, Timestamp};

/// First words of the file, and its version.
const MAGIC: &str = "tapedb-stream 1";
/// The two copies, in the order in which they are written.
pub(crate) const FILES: [&str; 2] = ["stream.tape", "stream.tape.copy"];
const TEMPORARY: &str = "stream.tape.tmp";
/// No definition is longer: a schema and some lines.
const BYTES_MAX: u64 = MAX_TEXT_BYTES as u64 + 4096;

/// The definition of a stream: all but its options is fixed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Definition {
    pub id: u64,
    pub created: Timestamp,
    /// Counts the changes of the options.
    pub revision: u64,
    pub options: StreamOptions,
    pub schema_version: u16,
    pub schema: Schema,
}

impl Definition {
    /// The content of the file.
    pub fn to_text(&self) -> String {
        copies::sealed(MAGIC, &self.body())
    }

    fn body(&self) -> String {
        let Self { id, created, revision, options, schema_version, schema } = self;
        let options = options_text(options);
        format!(
            "id {id:016x}\ncreated {created}\nrevision {revision}\n{options}schema {schema_version}\n\n{schema}"
        )
    }

    /// Reads the content of the file at `path`.
    pub fn parse(text: &str, path: &Path) -> Result<Self, Error> {
        let bad = |what: String| Error::Unreadable(Unreadable::Definition { path: path.into(), what });
        Self::parse_body(copies::unsealed(MAGIC, text).map_err(bad)?, path)
    }

    fn parse_body(body: &str, path: &Path) -> Result<Self, Error> {
        let bad = |what: String| Error::Unreadable(Unreadable::Definition { path: path.into(), what });
        let (head, schema) = body.split_once("\n\n").ok_or_else(|| bad("has no schema".into()))?;
        let value = |key: &str| value_in(head, key);
        let options = parse_options(&value).map_err(bad)?;
        let number = |key: &str| value(key)?.parse::<u64>().map_err(|e| format!("{key}: {e}"));
        let whole = || {
            Ok(Self {
                id: u64::from_str_radix(value("id")?, 16).map_err(|e| format!("id: {e}"))?,
                created: value("created")?.parse().map_err(|e| format!("created: {e}"))?,
                revision: number("revision")?,
                options,
                schema_version: value("schema")?.parse().map_err(|e| format!("schema: {e}"))?,
                schema: schema.parse().map_err(|e| format!("schema: {e}"))?,
            })
        };
        whole().map_err(bad)
    }
}

/// The text after a key in lines of keys and values.
fn value_in<'a>(lines: &'a str, key: &str) -> Result<&'a str, String> {
    let line = lines.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
    line.ok_or_else(|| format!("has no line {key:?}"))
}

/// Options as lines of keys and values.
pub(crate) fn options_text(options: &StreamOptions) -> String {
    let (durability, late) = (durability_name(options.durability), late_name(options.late));
    let StreamOptions { file_bytes_max, spaces, retention, seal_after, cold_after, .. } = options;
    let [age, seal_after, cold_after] = [retention.age, *seal_after, *cold_after].map(duration_text);
    let bound = match options.is_transient() {
        true => format!("bytes_max {}\n", options.bytes_max),
        false => String::new(),
    };
    let bytes = retention.bytes.map_or("none".into(), |bytes| bytes.to_string());
    let offload = options.offload.map_or(String::new(), |Offload { url, after }| {
        format!("offload_to {url}\noffload_after {}\n", duration_text(after))
    });
    format!(
        "durability {durability}\nlate {late}\nfile_bytes_max {file_bytes_max}\nspaces {spaces}\n{bound}\
         retention_age {age}\nretention_bytes {bytes}\nseal_after {seal_after}\ncold_after {cold_after}\n\
         {offload}"
    )
}

/// Reads what [`options_text`] writes; else the fault.
pub(crate) fn options_of_text(text: &str) -> Result<StreamOptions, String> {
    parse_options(&|key: &str| value_in(text, key))
}

/// Reads the lines of a stream's options; else the fault of one.
fn parse_options<'a>(value: &impl Fn(&str) -> Result<&'a str, String>) -> Result<StreamOptions, String> {
    let unknown = |key: &str, value: &str| format!("has an unknown {key} {value:?}");
    let duration = |key: &str| {
        let text = value(key)?;
        parse_duration(text).ok_or_else(|| unknown(key, text))
    };
    let number = |key: &str| value(key)?.parse::<u64>().map_err(|e| format!("{key}: {e}"));
    let durability = match value("durability")? {
        "transient" => Durability::Transient,
        "async" => Durability::Async,
        "sync" => Durability::Sync,
        other => return Err(unknown("durability", other)),
    };
    let late = match value("late")? {
        "accept" => Late::Accept,
        "refuse" => Late::Refuse,
        other => return Err(unknown("late", other)),
    };
    // Streams of before 0.3, and those without, lack the lines.
    let offload = match value("offload_to") {
        Err(_) => None,
        Ok(url) => {
            let url = url.parse().map_err(|_| unknown("offload_to", url))?;
            Some(Offload { url, after: duration("offload_after")? })
        }
    };
    let spaces = value("spaces")?.parse().ok().filter(|spaces| (1..=SPACES_MAX).contains(spaces));
    let bytes = match value("retention_bytes")? {
        "none" => None,
        _ => Some(number("retention_bytes")?),
    };
    Ok(StreamOptions {
        durability,
        late,
        file_bytes_max: number("file_bytes_max")?,
        bytes_max: if durability == Durability::Transient { number("bytes_max")? } else { BYTES_MAX_DEFAULT },
        spaces: spaces.ok_or_else(|| format!("spaces: not from 1 to {SPACES_MAX}"))?,
        retention: Retention { age: duration("retention_age")?, bytes },
        seal_after: duration("seal_after")?,
        cold_after: duration("cold_after")?,
        offload,
    })
}

/// A definition as it was found.
pub(crate) struct StoredDefinition {
    pub definition: Definition,
    /// The file whose identity shows whether the definition has been replaced.
    pub file: Arc<dyn StorageFile>,
    /// The fault of a copy that is damaged or missing; the stream opens without it.
    pub damage: Option<Error>,
    /// Whether a copy is missing or the copies differ, as when writing them was interrupted.
    pub is_uneven: bool,
}

/// Reads the definition in a stream's directory; `None` if both copies are missing. Of two good copies the newer one is
/// valid.
///
/// # Errors
/// When no copy is good: the fault of the first.
pub(crate) fn read(storage: &dyn Storage, directory: &Path) -> Result<Option<StoredDefinition>, Error> {
    // Opened first, so that a replacement of the file is noticed.
    let file = FILES.iter().find_map(|name| storage.open_read(&directory.join(name)).ok());
    let copies = FILES.map(|name| read_copy(storage, &directory.join(name)));
    if copies.iter().all(|copy| matches!(copy, Ok(None))) {
        return Ok(None);
    }
    let newest = copies.iter().flatten().flatten().max_by_key(|copy| copy.revision).cloned();
    let is_newest = |copy: &Result<Option<Definition>, Error>| matches!(copy, Ok(copy) if *copy == newest);
    let is_uneven = !copies.iter().all(is_newest);
    let damage = copies.into_iter().zip(FILES).find_map(|(copy, name)| match copy {
        Ok(Some(_)) => None,
        Ok(None) => Some(missing(directory.join(name))),
        Err(error) => Some(error),
    });
    match (newest, file, damage) {
        (Some(definition), Some(file), damage) => {
            Ok(Some(StoredDefinition { definition, file, damage, is_uneven }))
        }
        (_, _, Some(error)) => Err(error),
        // It was removed between the two reads.
        _ => Ok(None),
    }
}

fn read_copy(storage: &dyn Storage, path: &Path) -> Result<Option<Definition>, Error> {
    let text = copies::read_text(storage, path, BYTES_MAX)?;
    text.map(|text| Definition::parse(&text, path)).transpose()
}

/// The error for a missing definition.
pub(crate) fn missing(path: PathBuf) -> Error {
    Error::Unreadable(Unreadable::Definition { path, what: "is missing, and with it the schema".into() })
}

/// Writes both copies, each whole or not at all, and puts them on the disk.
///
/// # Errors
/// When the first cannot be written: the old definition is still there. The next writer writes the second again.
pub(crate) fn write(storage: &dyn Storage, directory: &Path, definition: &Definition) -> Result<(), Error> {
    let text = definition.to_text();
    copies::replace(storage, directory, FILES[0], TEMPORARY, &text)?;
    // The first copy is valid by itself.
    let _ = copies::replace(storage, directory, FILES[1], TEMPORARY, &text);
    Ok(())
}

/// `transient`, `async` or `sync`.
pub(crate) fn durability_name(durability: Durability) -> &'static str {
    match durability {
        Durability::Transient => "transient",
        Durability::Async => "async",
        Durability::Sync => "sync",
    }
}

/// `accept` or `refuse`.
pub(crate) fn late_name(late: Late) -> &'static str {
    match late {
        Late::Accept => "accept",
        Late::Refuse => "refuse",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tapedb_log::MemoryStorage;

    fn sample() -> Definition {
        Definition {
            id: 0x4c1d_9505_2de1_a1f5,
            created: "2026-03-01T08:00:00Z".parse().unwrap(),
            revision: 3,
            options: StreamOptions {
                durability: Durability::Sync,
                late: Late::Refuse,
                file_bytes_max: 1 << 20,
                spaces: 4,
                bytes_max: BYTES_MAX_DEFAULT,
                retention: Retention { age: Some(Duration::from_secs(30 * 86_400)), bytes: None },
                seal_after: Some(Duration::from_secs(3600)),
                cold_after: Some(Duration::from_secs(90)),
                offload: Some(Offload {
                    url: "s3://bucket/prefix".parse().unwrap(),
                    after: Some(Duration::from_secs(7 * 86_400)),
                }),
            },
            schema_version: 1,
            schema: "enum Side { BID, ASK }\nmessage Tick { side: Side, price: decimal64 }".parse().unwrap(),
        }
    }

    #[test]
    fn a_transient_stream_states_its_bound() {
        let mut transient = sample();
        (transient.options.durability, transient.options.bytes_max) = (Durability::Transient, 1 << 20);
        let text = transient.to_text();
        assert!(
            text.contains("\ndurability transient\n") && text.contains("\nbytes_max 1048576\n"),
            "{text}"
        );
        assert_eq!(Definition::parse(&text, Path::new("stream.tape")).unwrap(), transient);
    }

    #[test]
    fn round_trips() {
        let text = sample().to_text();
        assert_eq!(Definition::parse(&text, Path::new("stream.tape")).unwrap(), sample(), "{text}");
    }

    #[test]
    fn the_page_shows_a_definition() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/format/database.md");
        let (page, text) = (std::fs::read_to_string(path).unwrap(), sample().to_text());
        assert!(page.contains(&text), "docs/format/database.md must show:\n{text}");
    }

    #[test]
    fn one_good_copy_is_enough_and_the_newer_counts() {
        let storage = MemoryStorage::new();
        let directory = Path::new("s");
        storage.create_dir_all(directory).unwrap();
        assert!(read(&storage, directory).unwrap().is_none());
        write(&storage, directory, &sample()).unwrap();
        let later = Definition { revision: 4, ..sample() };
        let [first, copy] = FILES.map(|name| directory.join(name));
        copies::replace(&storage, directory, FILES[0], TEMPORARY, &later.to_text()).unwrap();
        assert_eq!(read(&storage, directory).unwrap().unwrap().definition, later);
        storage.write(&first, b"damaged").unwrap();
        let found = read(&storage, directory).unwrap().unwrap();
        assert_eq!(found.definition, sample());
        assert!(found.damage.unwrap().to_string().contains("stream.tape:"));
        storage.remove(&first).unwrap();
        assert_eq!(read(&storage, directory).unwrap().unwrap().definition, sample());
        storage.write(&copy, b"damaged too").unwrap();
        assert!(read(&storage, directory).is_err());
    }

    #[test]
    fn every_changed_bit_is_noticed() {
        let text = sample().to_text();
        for at in 0..text.len() {
            for bit in 0..7 {
                let mut bytes = text.clone().into_bytes();
                bytes[at] ^= 1 << bit;
                let hostile = String::from_utf8(bytes).unwrap();
                let error = Definition::parse(&hostile, Path::new("stream.tape")).unwrap_err();
                assert!(error.to_string().contains("stream.tape"), "{error}");
            }
        }
    }
}
