//! What DataFusion finds tables in: a stream is a schema, and its message types are its tables.
//!
//! The schema [`MAIN`], where names without a stream are looked up, has streams of one message type as tables.

use crate::as_of;
use crate::book;
use crate::cluster;
use crate::error::{Error, Reason, wrapped};
use crate::open::OpenStream;
use crate::snapshot::Snapshot;
use crate::spelling;
use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, SchemaProvider, TableProvider};
use datafusion::error::{DataFusionError, Result};
use std::sync::Arc;

/// Name of the catalog.
pub(crate) const CATALOG: &str = "tapedb";

/// Name of the schema of names that have none.
pub(crate) const MAIN: &str = "main";

/// Functions that are tables. They are looked up here first.
const FUNCTIONS: [&str; 3] = [book::FUNCTION, "generate_series", "range"];

/// The streams of a query.
#[derive(Debug)]
pub(crate) struct Streams(pub Arc<Snapshot>);

/// The same streams, with only the last message of each symbol.
#[derive(Debug)]
pub(crate) struct Latest(pub Arc<Snapshot>);

impl CatalogProvider for Latest {
    fn schema_names(&self) -> Vec<String> {
        // They are listed once.
        Vec::new()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        Some(Arc::new(Types { snapshot: self.0.clone(), name: name.into(), is_latest: true, ends: None }))
    }
}

/// The same streams, with the messages below given sequence numbers alone.
#[derive(Debug)]
pub(crate) struct AsOf {
    pub snapshot: Arc<Snapshot>,
    /// Only the last message of each symbol.
    pub is_latest: bool,
}

impl CatalogProvider for AsOf {
    fn schema_names(&self) -> Vec<String> {
        Vec::new()
    }

    fn schema(&self, key: &str) -> Option<Arc<dyn SchemaProvider>> {
        let (ends, name) = as_of::parts(key)?;
        let Self { snapshot, is_latest } = self;
        let (snapshot, is_latest) = (snapshot.clone(), *is_latest);
        Some(Arc::new(Types { snapshot, name: name.into(), is_latest, ends: Some(ends) }))
    }
}

impl CatalogProvider for Streams {
    fn schema_names(&self) -> Vec<String> {
        self.0.names().to_vec()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        let snapshot = self.0.clone();
        if name == MAIN && !snapshot.has(MAIN) {
            return Some(Arc::new(Bare(snapshot)));
        }
        // Whether there is such a stream is known when a table is asked for, with a better error.
        Some(Arc::new(Types { snapshot, name: name.into(), is_latest: false, ends: None }))
    }
}

/// The message types of a stream.
#[derive(Debug)]
struct Types {
    snapshot: Arc<Snapshot>,
    name: String,
    /// Only the last message of each symbol.
    is_latest: bool,
    /// Only messages below these sequence numbers, one for each space.
    ends: Option<Vec<u64>>,
}

impl Types {
    fn stream(&self) -> std::result::Result<Arc<OpenStream>, Error> {
        let snapshot = &self.snapshot;
        if snapshot.has(&self.name) {
            let stream = snapshot.stream(&self.name)?;
            return match &self.ends {
                None => Ok(stream),
                Some(_) if !stream.parts.is_empty() => {
                    let what =
                        "sequence numbers are those of one server; ask that server instead of the cluster";
                    Err(Error::new(Reason::Query, what))
                }
                Some(ends) => stream.until(ends).map(Arc::new),
            };
        }
        Err(snapshot.no_stream(&self.name))
    }
}

#[async_trait]
impl SchemaProvider for Types {
    fn table_names(&self) -> Vec<String> {
        self.stream().map(|stream| stream.tables()).unwrap_or_default()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        let stream = self.stream().map_err(wrapped)?;
        let tables = stream.tables();
        if !tables.iter().any(|table| table == name) {
            let near = spelling::near(name, tables.iter().map(String::as_str));
            let what = format!("stream {:?} has no message type {name:?}{near}", self.name);
            return Err(wrapped(Error::new(Reason::Query, what)));
        }
        cluster::table::provider(stream, name, self.is_latest).map(Some).map_err(wrapped)
    }

    fn table_exist(&self, name: &str) -> bool {
        self.table_names().iter().any(|table| table == name)
    }
}

/// Streams of one message type, by their names alone.
#[derive(Debug)]
struct Bare(Arc<Snapshot>);

#[async_trait]
impl SchemaProvider for Bare {
    fn table_names(&self) -> Vec<String> {
        // They are listed once, with their streams.
        Vec::new()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        if !self.0.has(name) {
            if FUNCTIONS.contains(&name) {
                return Ok(None);
            }
            let near = spelling::near(name, self.0.names().iter().map(String::as_str));
            let what = format!(
                "there is no table {name:?}{near}; a table is a stream and a message type, such as {}",
                self.example()
            );
            return Err(wrapped(Error::new(Reason::Query, what)));
        }
        let stream = self.0.stream(name).map_err(wrapped)?;
        match &stream.messages()[..] {
            [only] => cluster::table::provider(stream.clone(), only, false).map(Some).map_err(wrapped),
            several => {
                let tables = several.iter().map(|table| format!("{name}.{table}"));
                let what = format!(
                    "stream {name:?} has several message types; name one of {}",
                    tables.collect::<Vec<_>>().join(", ")
                );
                Err(wrapped(Error::new(Reason::Query, what)))
            }
        }
    }

    fn table_exist(&self, name: &str) -> bool {
        self.0.has(name)
    }
}

impl Bare {
    /// A table that exists, or one that could.
    fn example(&self) -> String {
        let first = self.0.names().first();
        let stream = first.and_then(|name| self.0.stream(name).ok());
        let table = stream.and_then(|stream| stream.messages().first().cloned());
        match (first, table) {
            (Some(stream), Some(table)) => format!("{stream}.{table}"),
            _ => "ticks.Trade".into(),
        }
    }
}
