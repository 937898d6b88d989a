//! Versions of a stream's schema. Stored messages stay unchanged; readers convert them to the version that the stream was
//! opened with ([`tapedb_codec::evolve`]). Sealing and merging convert too, so old versions disappear over time; what cannot be
//! converted keeps its version.
//!
//! The newest version is in the stream's definition. Older ones are in separate files, each stored twice: batches in the
//! log contain only a number.

use crate::error::{Error, Invalid, Unreadable};
use crate::stream::copies;
use crate::stream::definition::{self, FILES};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tapedb_codec::dynamic::Layouts;
use tapedb_codec::evolve::{Evolution, IncompatibleSchema};
use tapedb_log::Storage;
use tapedb_schema::{MAX_TEXT_BYTES, Schema};

const MAGIC: &str = "tapedb-schema 1";
const TEMPORARY: &str = "schema.tmp";

/// Conversions of other versions to the version that a stream was opened with. Each version is compared once, also if that
/// fails.
#[derive(Debug, Default)]
pub(crate) struct Versions {
    known: Mutex<HashMap<u16, Result<Arc<Evolution>, IncompatibleSchema>>>,
}

/// The stream whose messages are read.
pub(crate) struct Reading<'a> {
    pub storage: &'a dyn Storage,
    pub directory: &'a Path,
    pub name: &'a str,
    /// The version of the converted messages.
    pub layouts: &'a Layouts,
}

impl Versions {
    /// The conversion of messages written with another version of the schema.
    ///
    /// # Errors
    /// When the version is not found, or its messages cannot be converted to this one.
    pub fn from(&self, version: u16, reading: &Reading<'_>) -> Result<Arc<Evolution>, Error> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(evolution) = known.get(&version) {
            return usable(evolution, reading.name);
        }
        let written = read(reading.storage, reading.directory, version)?;
        let evolution = Evolution::new(&Layouts::new(written)?, reading.layouts).map(Arc::new);
        usable(known.entry(version).or_insert(evolution), reading.name)
    }
}

/// The conversion, or why there is none.
fn usable(
    evolution: &Result<Arc<Evolution>, IncompatibleSchema>,
    stream: &str,
) -> Result<Arc<Evolution>, Error> {
    let error = |error: &IncompatibleSchema| {
        Error::Invalid(Invalid::Version { stream: stream.into(), error: Box::new(error.clone()) })
    };
    evolution.as_ref().cloned().map_err(error)
}

/// The schema of a version.
///
/// # Errors
/// When no file of the stream contains it.
pub(crate) fn read(storage: &dyn Storage, directory: &Path, version: u16) -> Result<Schema, Error> {
    let mut failed = None;
    for name in names(version) {
        let path = directory.join(name);
        let bad = |what: String| Error::Unreadable(Unreadable::Definition { path: path.clone(), what });
        match copies::read_text(storage, &path, MAX_TEXT_BYTES as u64 + 4096) {
            Ok(None) => {}
            Ok(Some(text)) => match copies::unsealed(MAGIC, &text).map(str::parse::<Schema>) {
                Ok(Ok(schema)) => return Ok(schema),
                Ok(Err(error)) => failed = Some(error.into()),
                Err(what) => failed = Some(bad(what)),
            },
            Err(error) => failed = Some(error),
        }
    }
    match definition::read(storage, directory)? {
        Some(found) if found.definition.schema_version == version => Ok(found.definition.schema),
        _ => Err(failed.unwrap_or_else(|| {
            Error::Unreadable(Unreadable::Definition {
                path: directory.join(FILES[0]),
                what: format!("lacks version {version} of the schema, and no file contains it"),
            })
        })),
    }
}

/// The fault of the copies of a version's schema.
pub(crate) fn bad_copies(storage: &dyn Storage, directory: &Path, version: u16) -> Vec<(PathBuf, String)> {
    let paths = names(version).map(|name| directory.join(name));
    let wrong = |path: &PathBuf| match copies::read_text(storage, path, MAX_TEXT_BYTES as u64 + 4096) {
        Ok(None) => Some("is missing".to_string()),
        Ok(Some(text)) => copies::unsealed(MAGIC, &text).err(),
        Err(error) => Some(error.to_string()),
    };
    paths.into_iter().filter_map(|path| wrong(&path).map(|what| (path, what))).collect()
}

/// Stores the schema of a version before a newer one replaces it.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn keep(
    storage: &dyn Storage,
    directory: &Path,
    version: u16,
    schema: &Schema,
) -> Result<(), Error> {
    let text = copies::sealed(MAGIC, &schema.to_string());
    names(version).iter().try_for_each(|name| copies::replace(storage, directory, name, TEMPORARY, &text))
}

/// The two copies.
fn names(version: u16) -> [String; 2] {
    [format!("schema-{version}"), format!("schema-{version}.copy")]
}

/// Checks that a stream with schema `old` can have `new`: every message that can be written under the old one can be read
/// under the new one.
///
/// The first field without a conversion rule; a message type that would no longer be one.
/// The first field without a rule; a message type that would no longer be one.
pub(crate) fn check_change(stream: &str, old: &Layouts, new: &Layouts) -> Result<(), Error> {
    let evolution = Evolution::new(old, new);
    let evolution = evolution.map_err(|error| {
        Error::Invalid(Invalid::Version { stream: stream.into(), error: Box::new(error) })
    })?;
    for (id, record) in (0u16..).zip(old.records()).filter(|(_, record)| record.message) {
        let target = evolution.target(id).and_then(|id| new.record(id).ok());
        if !target.is_some_and(|target| target.message) {
            let why =
                "the new schema has no such message type, and stored messages may be of it; keep the type";
            return Err(Error::Invalid(Invalid::Type {
                stream: stream.into(),
                record: (*record.name).into(),
                why,
            }));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tapedb_log::MemoryStorage;

    #[test]
    fn a_version_is_found_though_one_copy_is_damaged() {
        let (storage, directory) = (MemoryStorage::new(), Path::new("s"));
        storage.create_dir_all(directory).unwrap();
        let schema: Schema = "message Tick { price: i64 }".parse().unwrap();
        keep(&storage, directory, 3, &schema).unwrap();
        assert_eq!(read(&storage, directory, 3).unwrap(), schema);
        storage.write(&directory.join("schema-3"), b"damaged").unwrap();
        assert_eq!(read(&storage, directory, 3).unwrap(), schema);
        storage.write(&directory.join("schema-3.copy"), b"damaged").unwrap();
        assert!(read(&storage, directory, 3).unwrap_err().to_string().contains("schema-3.copy"));
        assert!(read(&storage, directory, 4).unwrap_err().to_string().contains("version 4"));
    }

    #[test]
    fn only_what_can_be_read_ever_after_may_change() {
        let layouts = |text: &str| Layouts::new(text.parse().unwrap()).unwrap();
        let old = layouts("message Tick { price: i32 } message Quote { bid: f64 }");
        let check = |new: &str| check_change("s", &old, &layouts(new));
        check("message Quote { bid: f64, ask: f64? } message Tick { price: i64, size: u32 = 7 }").unwrap();
        for (new, says) in [
            ("message Tick { price: i32 }", "Quote"),
            ("message Tick { price: i32 } record Quote { bid: f64 }", "Quote"),
            ("message Tick { price: string } message Quote { bid: f64 }", "price"),
        ] {
            assert!(check(new).unwrap_err().to_string().contains(says), "{new}");
        }
    }
}
