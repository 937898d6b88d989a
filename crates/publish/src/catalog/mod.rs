//! Catalogues: where a table's newest metadata is named, and replaced in one step.
//!
//! The crate `iceberg` and its catalogues are not used; `docs/DECISIONS.md` states why.

pub(crate) mod folder;
pub(crate) mod open;
pub(crate) mod rest;
pub(crate) mod sql;

use crate::error::Error;
use crate::fields::Schema;
use crate::format::CommitFailure;
use crate::place::Place;
use crate::settings::TableName;
use crate::spec::metadata::{Metadata, PartitionField};
use flate2::read::GzDecoder;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io::Read;

/// Where tables are found, made and changed.
///
/// Always true: [`Catalog::commit`] changes a table from the metadata that it was given to the next, or not at all; of two that begin with
/// the same, one gets [`CommitFailure::Conflict`].
pub trait Catalog: Debug + Send + Sync {
    /// The newest metadata of a table; `None`: there is no such table.
    ///
    /// # Errors
    /// [`Error::Away`] if the catalogue does not answer; when the metadata cannot be read.
    fn load(&self, name: &TableName) -> Result<Option<Loaded>, Error>;

    /// Makes a table, and the namespace where it does not exist.
    ///
    /// # Errors
    /// [`CommitFailure::Conflict`]: there is such a table by now.
    fn create(&self, name: &TableName, creation: &Creation) -> Result<Loaded, CommitFailure>;

    /// Changes a table from `base`: requirements and updates are those of Iceberg's REST protocol.
    ///
    /// # Errors
    /// [`CommitFailure`].
    fn commit(
        &self,
        name: &TableName,
        base: &Loaded,
        requirements: &[Json],
        updates: &[Json],
    ) -> Result<Loaded, CommitFailure>;

    /// What the catalogue is, for messages.
    fn describe(&self) -> String;
}

/// A table's metadata, and where the catalogue has it.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// What is in the table.
    pub metadata: Metadata,
    /// The file of the metadata.
    pub location: String,
}

/// A table to be made.
#[derive(Debug, Clone)]
pub struct Creation {
    pub(crate) schema: Schema,
    pub(crate) partitions: Vec<PartitionField>,
    /// The order of rows in files, as Iceberg writes it.
    pub(crate) order: Json,
    pub(crate) properties: BTreeMap<String, String>,
}

impl Creation {
    /// The first metadata of the table.
    pub(crate) fn metadata(&self, location: &str) -> Metadata {
        let Self { schema, partitions, order, properties } = self;
        Metadata::new(location, schema, partitions, order, properties)
    }
}

/// The metadata after some changes, and files of metadata that are not needed any more.
pub(crate) fn changed(
    base: &Loaded,
    requirements: &[Json],
    updates: &[Json],
) -> Result<(Metadata, Vec<String>), CommitFailure> {
    for requirement in requirements {
        base.metadata.check(requirement).map_err(CommitFailure::Conflict)?;
    }
    let changed = base.metadata.changed(&base.location, updates);
    changed.map_err(|what| CommitFailure::Failed(Error::Table(what)))
}

/// A file of metadata, which may be compressed; `None`: there is none.
pub(crate) fn read_metadata(place: &Place, location: &str) -> Result<Option<Metadata>, Error> {
    let Some(mut bytes) = place.read(location)? else { return Ok(None) };
    let wrong = |error: &dyn std::fmt::Display| {
        Error::Table(format!("{location} is no metadata of a table: {error}"))
    };
    if bytes.starts_with(&[0x1f, 0x8b]) {
        let mut text = Vec::new();
        GzDecoder::new(&bytes[..]).take(1 << 30).read_to_end(&mut text).map_err(|error| wrong(&error))?;
        bytes = text;
    }
    Metadata::parse(&bytes).map(Some).map_err(|error| wrong(&error))
}
