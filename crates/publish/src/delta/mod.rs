//! Tables of Delta Lake: a folder whose log has a file for each version, which is created if it is absent: that is the commit.
//!
//! The crate `deltalake` is not used; `docs/DECISIONS.md` states why. Tables have version 1 of the protocol for readers and 2 for writers,
//! which everything reads. Progress is in the log's transaction numbers, which are part of each commit: unlike properties, they may
//! change while another program optimizes the table.

mod checkpoint;
mod log;
mod progress;
mod schema;
mod stats;

use crate::columns::{Column, Columns};
use crate::error::Error;
use crate::fields::Schema;
use crate::files::{DAY_PARTITION, NewFile, date};
use crate::format::{CommitFailure, Format, Removed, Step, Version};
use crate::place::Place;
use crate::progress::{Progress, SEQUENCES};
use crate::schema::{Misfits, Rules, Widening, evolved};
use crate::settings::Options;
use crate::spec::metadata::now_ms;
use checkpoint::INTERVAL;
use log::{Log, State};
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// What Delta's protocol requires of readers and of writers of our tables.
const PROTOCOL: (i64, i64) = (1, 2);

/// A table in a folder or below a prefix of a bucket.
#[derive(Debug, Clone)]
pub(crate) struct DeltaTable(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    log: Log,
    url: String,
    /// The newest version that was read or written.
    known: Mutex<Option<Arc<State>>>,
}

/// A version of the table.
#[derive(Debug)]
struct DeltaVersion {
    table: DeltaTable,
    state: Arc<State>,
}

impl DeltaTable {
    /// The table of a URL. It makes no request.
    ///
    /// # Errors
    /// When this program has no store of its scheme.
    pub fn open(url: &str) -> Result<Self, Error> {
        let log = Log { place: Place::of(url)?, url: format!("{url}/_delta_log") };
        Ok(Self(Arc::new(Inner { log, url: url.into(), known: Mutex::default() })))
    }

    fn version(&self, state: State) -> Box<dyn Version> {
        let state = Arc::new(state);
        *self.0.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(state.clone());
        Box::new(DeltaVersion { table: self.clone(), state })
    }

    /// Writes a version of the log.
    fn put(&self, base: Option<&State>, actions: &[Json]) -> Result<State, CommitFailure> {
        let version = base.map_or(0, |state| state.version + 1);
        let mut text = String::new();
        for action in actions {
            text.push_str(&action.to_string());
            text.push('\n');
        }
        match self.0.log.create(version, text.as_bytes()) {
            Ok(true) => {}
            Ok(false) => {
                return Err(CommitFailure::Conflict(format!("version {version} of {} exists", self.0.url)));
            }
            Err(error) => return Err(CommitFailure::Unknown(error)),
        }
        let mut state = base.cloned().unwrap_or_default();
        // What was written a moment ago is read as any other version is.
        state.apply(version, text.as_bytes()).map_err(|what| CommitFailure::Unknown(Error::Table(what)))?;
        if version > 0 && version.is_multiple_of(INTERVAL) {
            self.0.log.write_checkpoint(&state);
        }
        Ok(state)
    }
}

impl Format for DeltaTable {
    fn load(&self) -> Result<Option<Box<dyn Version>>, Error> {
        let known = self.0.known.lock().unwrap_or_else(PoisonError::into_inner).take();
        let state = self.0.log.newest(known)?;
        Ok(state.map(|state| self.version(state)))
    }

    fn create(
        &self,
        columns: &Columns,
        progress: &Progress,
        _options: &Options,
    ) -> Result<Box<dyn Version>, CommitFailure> {
        let fields = schema::of_columns(&columns.columns);
        if fields.fields.iter().filter(|field| field.name.eq_ignore_ascii_case(DAY_PARTITION)).count() > 1 {
            return Err(CommitFailure::Failed(Error::Settings(format!(
                "a field is called {DAY_PARTITION:?}, as the column of the partitions is; rename it (`tapedb alter --schema`)"
            ))));
        }
        let metadata = json!({
            "id": uuid::Uuid::new_v4().to_string(),
            "format": { "provider": "parquet", "options": {} },
            "schemaString": schema::to_json(&fields).to_string(),
            "partitionColumns": [DAY_PARTITION],
            "configuration": progress::properties(progress),
            "createdTime": now_ms(),
        });
        let (reader, writer) = PROTOCOL;
        let mut actions = vec![
            information("CREATE TABLE", json!({}), progress),
            json!({ "protocol": { "minReaderVersion": reader, "minWriterVersion": writer } }),
            json!({ "metaData": metadata }),
        ];
        actions.extend(progress::transactions(progress));
        self.put(None, &actions).map(|state| self.version(state))
    }

    fn describe(&self) -> String {
        format!("the folder {}", self.0.url.strip_prefix("file://").unwrap_or(&self.0.url))
    }

    fn described(&self, columns: &[Column]) -> Vec<(String, String)> {
        let fields = schema::of_columns(columns).fields;
        fields.into_iter().map(|field| (field.name, schema::name_of(&field.ty))).collect()
    }
}

impl DeltaVersion {
    /// The table's metadata as it is after a step; `None`: it is the same.
    fn changed_metadata(&self, progress: &Progress, schema: Option<&Schema>) -> Option<Json> {
        let mut metadata = self.state.metadata.clone();
        let mut configuration = self.state.configuration().cloned().unwrap_or_default();
        progress::set(&mut configuration, progress);
        metadata.insert("configuration".into(), Json::Object(configuration));
        if let Some(schema) = schema {
            metadata.insert("schemaString".into(), schema::to_json(schema).to_string().into());
        }
        (metadata != self.state.metadata).then_some(Json::Object(metadata))
    }

    /// What is not for rows: who has changed what, the metadata if it changes, and how far the table is.
    fn header(&self, operation: &str, progress: &Progress, schema: Option<&Schema>) -> Vec<Json> {
        let mode = if operation == "WRITE" { json!({ "mode": "Append" }) } else { json!({}) };
        let mut actions = vec![information(operation, mode, progress)];
        actions
            .extend(self.changed_metadata(progress, schema).map(|metadata| json!({ "metaData": metadata })));
        actions.extend(progress::transactions(progress));
        actions
    }
}

impl Version for DeltaVersion {
    fn identity(&self) -> &str {
        self.state.metadata.get("id").and_then(Json::as_str).unwrap_or_default()
    }

    fn progress(&self) -> Result<Option<Progress>, Error> {
        progress::of(&self.state)
    }

    fn check_layout(&self, columns: &Columns, _options: &Options) -> Result<(), String> {
        let (reader, writer) = self.state.protocol;
        if reader > PROTOCOL.0 || writer > PROTOCOL.1 {
            return Err(format!(
                "the table needs version {reader} of Delta's protocol to be read and {writer} to be written, and TapeDB writes tables of {} and \
                 {}: another program has upgraded it; publish to another table",
                PROTOCOL.0, PROTOCOL.1
            ));
        }
        if self.state.partition_columns() != [DAY_PARTITION] {
            return Err(
                "its partitions have been changed by another program; publish to another table".into()
            );
        }
        let schema = self.schema().map_err(|error| error.to_string())?;
        let limited =
            schema.fields.iter().find(|field| field.more.get("metadata").is_some_and(schema::has_invariant));
        if let Some(field) = limited {
            return Err(format!(
                "column {:?} has an invariant, which TapeDB does not check; remove it, or publish to another table",
                field.name
            ));
        }
        let is_column = columns.columns.iter().any(|column| column.name == DAY_PARTITION);
        if is_column {
            return Err(format!("a field is called {DAY_PARTITION:?}, as the column of the partitions is"));
        }
        Ok(())
    }

    fn foreign_change(&self, progress: &Progress) -> Option<String> {
        if let Some(what) = &self.state.changed {
            return Some(format!("another program has changed rows of the table ({what})"));
        }
        let rows = self.state.files.values().map(|file| file.day.and(file.rows)).sum::<Option<u64>>();
        match rows {
            None => Some("files of another program do not state their day or how many rows they have".into()),
            Some(rows) if rows != progress.rows => {
                Some(format!("the table has {rows} rows, and {} were published", progress.rows))
            }
            Some(_) => None,
        }
    }

    fn rows_of_days(&self) -> Result<BTreeMap<i32, u64>, Error> {
        let mut days = BTreeMap::new();
        // Files without either make the whole table stale.
        for (day, rows) in self.state.files.values().filter_map(|file| file.day.zip(file.rows)) {
            *days.entry(day).or_default() += rows;
        }
        Ok(days)
    }

    fn data(&self) -> String {
        self.table.0.url.clone()
    }

    fn schema(&self) -> Result<Schema, Error> {
        let text = self.state.metadata.get("schemaString").and_then(Json::as_str).unwrap_or_default();
        schema::of_text(text).map_err(Error::Table)
    }

    fn evolved(&self, columns: &[Column], misfits: Misfits) -> Result<Option<Schema>, Error> {
        // Fields have no numbers: one of another type in the place of an old one would be read from old files too.
        let misfits = match misfits {
            Misfits::Replace { is_all: false } => Misfits::Refuse,
            misfits => misfits,
        };
        let rules: Rules = (misfits, Widening::Misfit);
        let schema = self.schema()?;
        evolved(columns, &schema, schema.last_id(), rules)
    }

    fn commit(&self, step: &Step<'_>) -> Result<Box<dyn Version>, CommitFailure> {
        let now = now_ms();
        let is_append = step.removed == Removed::Nothing;
        if !is_append && self.state.property("delta.appendOnly") == Some("true") {
            return Err(CommitFailure::Failed(Error::Table(
                "the table's property delta.appendOnly forbids to replace rows; set it to false, then repair"
                    .into(),
            )));
        }
        let operation = if is_append { "WRITE" } else { "OVERWRITE" };
        let mut actions = self.header(operation, &step.progress, step.schema.as_ref());
        let gone = self.state.files.values().filter(|file| step.removed.contains(file.day));
        actions.extend(gone.map(|file| file.removal(now)));
        let schema = match &step.schema {
            Some(schema) => schema.clone(),
            None => self.schema()?,
        };
        for file in step.added {
            actions.push(added(file, &self.table.0.url, &schema, now)?);
        }
        self.table.put(Some(&*self.state), &actions).map(|state| self.table.version(state))
    }

    fn note(&self, progress: &Progress) -> Result<Box<dyn Version>, CommitFailure> {
        let actions = self.header("TAPEDB PROGRESS", progress, None);
        self.table.put(Some(&*self.state), &actions).map(|state| self.table.version(state))
    }
}

/// Who has changed what: for people who read the table's history.
fn information(operation: &str, parameters: Json, progress: &Progress) -> Json {
    let sequences = progress.properties().remove(SEQUENCES).unwrap_or_default();
    let mut information = Map::new();
    for (key, value) in [
        ("timestamp", json!(now_ms())),
        ("operation", json!(operation)),
        ("operationParameters", parameters),
        ("isolationLevel", json!("Serializable")),
        ("isBlindAppend", json!(operation == "WRITE")),
        ("engineInfo", json!(format!("TapeDB/{}", env!("CARGO_PKG_VERSION")))),
        ("txnId", json!(progress.commit)),
        ("userMetadata", json!(format!("{SEQUENCES}={sequences}"))),
    ] {
        information.insert(key.into(), value);
    }
    json!({ "commitInfo": information })
}

/// The action that adds a file.
fn added(file: &NewFile, table: &str, schema: &Schema, now: i64) -> Result<Json, Error> {
    let path = file.url.strip_prefix(table).map(|path| path.trim_start_matches('/'));
    let path = path.ok_or_else(|| Error::File(format!("{} is not below {table}", file.url)))?;
    Ok(json!({ "add": {
        "path": path,
        "partitionValues": { DAY_PARTITION: date(file.partition.day) },
        "size": file.bytes,
        "modificationTime": now,
        "dataChange": true,
        "stats": stats::text(file, schema),
    } }))
}
