//! Streams as tables of Apache Iceberg, for engines that are not TapeDB: Spark, Trino, DuckDB, Polars, pyiceberg.
//!
//! A [`Publisher`] keeps a table for one record type of a stream (`docs/PUBLISH.md`). It writes what is sealed as Parquet files, and commits
//! them with its progress, in one step of the catalogue: so every snapshot of the table has each message at most once, up to sequence
//! numbers that it states, whatever is killed when. [`Catalog`] is where the table is: a folder, an SQLite database, a REST server.
//!
//! The table format is written here, without the crate `iceberg`: `docs/DECISIONS.md` states why.

mod bounds;
mod catalog;
mod columns;
mod convert;
mod error;
mod files;
mod flatten;
mod manifests;
mod place;
mod progress;
mod publisher;
mod repair;
mod rows;
mod schema;
mod sealed;
mod settings;
mod snapshot;
mod spec;
mod stale;
mod table;
mod write;

pub use catalog::{Catalog, CommitFailure, Creation, Loaded};
pub use catalog::{folder::FolderCatalog, rest::RestCatalog, sql::SqlCatalog};
pub use error::Error;
pub use manifests::data_files;
pub use place::{Place, register_stores};
pub use progress::Progress;
pub use publisher::{Published, Publisher};
pub use repair::Repaired;
pub use settings::{CatalogKind, CatalogSettings, Options, TableName};
pub use spec::metadata::{Metadata, Snapshot};
pub use stale::{Stale, StaleDay};
