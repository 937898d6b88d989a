//! Streams as tables of Apache Iceberg or Delta Lake, for engines that are not TapeDB: Spark, Trino, DuckDB, Polars, pyiceberg, delta-rs.
//!
//! A [`Publisher`] keeps a table for one record type of a stream (`docs/PUBLISH.md`). It writes what is sealed as Parquet files, and commits
//! them with its progress, in one step of the catalogue: so every snapshot of the table has each message at most once, up to sequence
//! numbers that it states, whatever is killed when. A [`Target`] names the table: a folder, or a [`Catalog`] that is a folder, an SQLite database or a REST server.
//!
//! Both formats are written here, without the crates `iceberg` and `deltalake`: `docs/DECISIONS.md` states why.

mod bounds;
mod catalog;
mod columns;
mod convert;
mod delta;
mod error;
mod fields;
mod files;
mod flatten;
mod format;
mod iceberg;
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
mod target;
mod write;

pub use catalog::{Catalog, Creation, Loaded};
pub use catalog::{folder::FolderCatalog, rest::RestCatalog, sql::SqlCatalog};
pub use error::Error;
pub use format::CommitFailure;
pub use manifests::data_files;
pub use place::{Place, register_stores};
pub use progress::Progress;
pub use publisher::{Published, Publisher};
pub use repair::Repaired;
pub use settings::{CatalogKind, CatalogSettings, Options, TableName};
pub use spec::metadata::{Metadata, Snapshot};
pub use stale::{Stale, StaleDay};
pub use target::Target;
