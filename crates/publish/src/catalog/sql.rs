//! An SQLite database with the tables of Iceberg's JDBC catalogue, which pyiceberg, Spark and others read and write too.

use crate::catalog::folder::url_of;
use crate::catalog::{Catalog, Creation, Loaded, changed, read_metadata};
use crate::error::Error;
use crate::format::CommitFailure;
use crate::place::Place;
use crate::settings::TableName;
use crate::spec::metadata::Metadata;
use rusqlite::{Connection, ErrorCode, OptionalExtension, params};
use serde_json::Value as Json;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a statement waits while another program writes.
const BUSY: Duration = Duration::from_secs(15);

/// The two tables that the catalogue consists of.
const TABLES: &str = "
create table if not exists iceberg_tables (
    catalog_name varchar(255) not null, table_namespace varchar(255) not null, table_name varchar(255) not null,
    metadata_location varchar(1000), previous_metadata_location varchar(1000), iceberg_type varchar(5),
    primary key (catalog_name, table_namespace, table_name));
create table if not exists iceberg_namespace_properties (
    catalog_name varchar(255) not null, namespace varchar(255) not null, property_key varchar(255) not null,
    property_value varchar(1000), primary key (catalog_name, namespace, property_key));";

/// A database with the names of tables.
#[derive(Debug)]
pub struct SqlCatalog {
    connection: Mutex<Connection>,
    path: String,
    /// Several catalogues may be in a database.
    name: String,
    /// Where new tables have their files.
    warehouse: String,
    /// Whether the database states what is a table and what a view; those that older programs made do not.
    has_types: bool,
}

impl SqlCatalog {
    /// Opens a database, which is created if there is none.
    ///
    /// # Errors
    /// When it cannot be opened or is no catalogue; when the warehouse's path is not absolute.
    pub fn open(path: &str, name: &str, warehouse: &str) -> Result<Self, Error> {
        let warehouse = url_of(warehouse)?;
        let failed = |error| away(path, &error);
        let connection = Connection::open(path).map_err(failed)?;
        connection.busy_timeout(BUSY).map_err(failed)?;
        connection.execute_batch(TABLES).map_err(failed)?;
        let has_types = connection.prepare("select iceberg_type from iceberg_tables limit 0").is_ok();
        let (path, name) = (path.to_string(), name.to_string());
        Ok(Self { connection: Mutex::new(connection), path, name, warehouse, has_types })
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn key(&self, name: &TableName) -> [String; 3] {
        [self.name.clone(), name.namespace.join("."), name.table.clone()]
    }

    /// Writes a new version of the metadata, which nothing names yet.
    fn write(&self, metadata: &Metadata, version: u64) -> Result<String, Error> {
        let table = metadata.location();
        let file = format!("{table}/metadata/{version:05}-{}.metadata.json", uuid::Uuid::new_v4());
        match Place::of(&file)?.create(&file, &metadata.to_json())? {
            true => Ok(file),
            false => Err(Error::File(format!("{file} exists already"))),
        }
    }

    fn failed(&self, error: &rusqlite::Error) -> Error {
        away(&self.path, error)
    }
}

impl Catalog for SqlCatalog {
    fn load(&self, name: &TableName) -> Result<Option<Loaded>, Error> {
        let [catalog, namespace, table] = self.key(name);
        let location: Option<Option<String>> = self
            .connection()
            .query_row(
                "select metadata_location from iceberg_tables where catalog_name = ?1 and table_namespace = ?2 and table_name = ?3",
                params![catalog, namespace, table],
                |row| row.get(0),
            )
            .optional()
            .map_err(|error| self.failed(&error))?;
        let Some(location) = location.flatten() else { return Ok(None) };
        let missing = || {
            Error::Table(format!(
                "{name}: {location}, which the catalogue names, does not exist; drop the table there"
            ))
        };
        let metadata = read_metadata(&Place::of(&location)?, &location)?.ok_or_else(missing)?;
        Ok(Some(Loaded { metadata, location }))
    }

    fn create(&self, name: &TableName, creation: &Creation) -> Result<Loaded, CommitFailure> {
        let [catalog, namespace, table] = self.key(name);
        // Not the same folder as that of a table of this name that was dropped: its files may be there.
        let unique = uuid::Uuid::new_v4().simple().to_string();
        let url = format!("{}/{}/{}-{}", self.warehouse, name.namespace.join("/"), name.table, &unique[..8]);
        let metadata = creation.metadata(&url);
        let location = self.write(&metadata, 0)?;
        let failed = |error| CommitFailure::Unknown(self.failed(&error));
        self.connection()
            .execute(
                "insert or ignore into iceberg_namespace_properties values (?1, ?2, 'exists', 'true')",
                params![catalog, namespace],
            )
            .map_err(failed)?;
        let made = match self.has_types {
            true => self.connection().execute(
                "insert or ignore into iceberg_tables (catalog_name, table_namespace, table_name, metadata_location, iceberg_type) \
                 values (?1, ?2, ?3, ?4, 'TABLE')",
                params![catalog, namespace, table, location],
            ),
            false => self.connection().execute(
                "insert or ignore into iceberg_tables (catalog_name, table_namespace, table_name, metadata_location) \
                 values (?1, ?2, ?3, ?4)",
                params![catalog, namespace, table, location],
            ),
        };
        match made.map_err(failed)? {
            1 => Ok(Loaded { metadata, location }),
            _ => {
                Place::of(&location)?.remove(&location);
                Err(CommitFailure::Conflict(format!("{name} exists")))
            }
        }
    }

    fn commit(
        &self,
        name: &TableName,
        base: &Loaded,
        requirements: &[Json],
        updates: &[Json],
    ) -> Result<Loaded, CommitFailure> {
        let [catalog, namespace, table] = self.key(name);
        let (metadata, expired) = changed(base, requirements, updates)?;
        let file = base.location.rsplit('/').next().unwrap_or_default();
        let version = file.split('-').next().and_then(|version| version.parse::<u64>().ok()).unwrap_or(0);
        let location = self.write(&metadata, version + 1)?;
        let replaced = self.connection().execute(
            "update iceberg_tables set metadata_location = ?1, previous_metadata_location = ?2 \
             where catalog_name = ?3 and table_namespace = ?4 and table_name = ?5 and metadata_location = ?2",
            params![location, base.location, catalog, namespace, table],
        );
        match replaced.map_err(|error| CommitFailure::Unknown(self.failed(&error)))? {
            1 => {
                for file in expired {
                    Place::of(&file)?.remove(&file);
                }
                Ok(Loaded { metadata, location })
            }
            _ => {
                Place::of(&location)?.remove(&location);
                Err(CommitFailure::Conflict(format!("{name} has been changed")))
            }
        }
    }

    fn describe(&self) -> String {
        format!("the SQL catalogue {}", self.path)
    }
}

fn away(path: &str, error: &rusqlite::Error) -> Error {
    let what = format!("the SQL catalogue {path}: {error}");
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt | ErrorCode::ReadOnly) => {
            Error::Table(what)
        }
        _ => Error::Away(what),
    }
}
