//! The files of a snapshot, read and written where they are.

use crate::error::Error;
use crate::place::Place;
use crate::spec::manifest::{DATA, Listed, Manifest, parse_list};
use crate::spec::metadata::{Metadata, Snapshot};

/// The manifests of a snapshot.
///
/// # Errors
/// When the list is missing or damaged.
pub(crate) fn list(snapshot: &Snapshot) -> Result<Vec<Listed>, Error> {
    let url = &snapshot.manifest_list;
    parse_list(&read(url)?).map_err(|error| damaged(url, &error))
}

/// A manifest.
///
/// # Errors
/// When it is missing or damaged.
pub(crate) fn manifest(listed: &Listed) -> Result<Manifest, Error> {
    Manifest::parse(&read(&listed.path)?).map_err(|error| damaged(&listed.path, &error))
}

fn damaged(url: &str, error: &str) -> Error {
    Error::Table(format!("{url}: {error}"))
}

fn read(url: &str) -> Result<Vec<u8>, Error> {
    let missing = || {
        Error::Table(format!(
            "{url} is missing, which the table's newest snapshot names: it was removed by hand, or by a clean-up that is wrong; write the \
             table again under another name"
        ))
    };
    Place::of(url)?.read(url)?.ok_or_else(missing)
}

/// Writes a file that nothing names yet.
///
/// # Errors
/// When it cannot be written, or exists.
pub(crate) fn create(url: &str, bytes: &[u8]) -> Result<(), Error> {
    match Place::of(url)?.create(url, bytes)? {
        true => Ok(()),
        false => Err(Error::File(format!("{url} exists already"))),
    }
}

/// The files of rows of a table, as its newest snapshot names them: their URLs and rows.
///
/// # Errors
/// When a manifest is missing or damaged.
pub fn data_files(metadata: &Metadata) -> Result<Vec<(String, u64)>, Error> {
    let mut files = Vec::new();
    let Some(snapshot) = metadata.current_snapshot() else { return Ok(files) };
    for listed in list(&snapshot)?.iter().filter(|listed| listed.content == DATA) {
        files.extend(manifest(listed)?.alive(listed).into_iter().map(|entry| (entry.path, entry.rows)));
    }
    Ok(files)
}
