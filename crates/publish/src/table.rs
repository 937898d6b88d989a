//! A table of a catalogue: made, verified, and changed in steps that happen once.

use crate::catalog::{Catalog, CommitFailure, Creation, Loaded};
use crate::columns::Columns;
use crate::error::{Error, check_interrupt};
use crate::files::NewFile;
use crate::progress::{COMMIT, Progress, SEQUENCES, STALE};
use crate::schema;
use crate::settings::{Options, TableName};
use crate::snapshot::{Change, Removed, property_updates};
use crate::spec::metadata::{MAIN, Metadata, PartitionField};
use crate::spec::schema::Schema;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

/// How often a commit is tried again after others were first, or its outcome is not certain.
const ATTEMPTS: u32 = 8;

/// What is set for new tables besides their progress: few files of metadata, and what readers and writers of others go by.
const PROPERTIES: [(&str, &str); 5] = [
    ("write.metadata.delete-after-commit.enabled", "true"),
    ("write.metadata.previous-versions-max", "20"),
    ("write.parquet.compression-codec", "zstd"),
    ("write.target-file-size-bytes", "268435456"),
    ("commit.retry.num-retries", "10"),
];

/// A table by its name.
#[derive(Debug)]
pub(crate) struct Table {
    pub catalog: Box<dyn Catalog>,
    pub name: TableName,
    pub with_buckets: bool,
}

/// What is committed.
#[derive(Debug)]
pub(crate) struct Step<'a> {
    pub progress: Progress,
    pub schema: Option<Schema>,
    pub added: &'a [NewFile],
    pub removed: Removed,
}

/// What became of a commit.
#[derive(Debug)]
pub(crate) enum Outcome {
    Done,
    /// The table has another progress by now: nothing was changed.
    Overtaken,
}

impl Table {
    /// Makes the table, without rows.
    ///
    /// # Errors
    /// When the catalogue does not answer or refuses.
    pub fn create(&self, columns: &Columns, progress: &Progress, options: &Options) -> Result<Loaded, Error> {
        let fields = schema::new(&columns.columns);
        let source = |index: usize| fields.fields.get(index).map_or(0, |field| field.id);
        let partitions =
            transforms(options).into_iter().zip(1000..).map(|((column, name, transform), id)| {
                PartitionField { source: i64::from(source(column)), id, name: name.into(), transform }
            });
        // By symbol, nanoseconds and sequence number.
        let order = [2, 1, 3].map(|column| {
            json!({ "transform": "identity", "source-id": source(column), "direction": "asc", "null-order": "nulls-first" })
        });
        let mut properties = progress.properties();
        properties.extend(PROPERTIES.map(|(key, value)| (key.to_string(), value.to_string())));
        let creation = Creation {
            partitions: partitions.collect(),
            order: json!({ "order-id": 1, "fields": order }),
            schema: fields,
            properties,
        };
        match self.catalog.create(&self.name, &creation) {
            Ok(loaded) => Ok(loaded),
            Err(CommitFailure::Failed(error)) => Err(error),
            Err(CommitFailure::Conflict(what)) => self.catalog.load(&self.name)?.ok_or(Error::Away(what)),
            Err(CommitFailure::Unknown(error)) => match self.catalog.load(&self.name) {
                Ok(Some(loaded)) => Ok(loaded),
                _ => Err(error),
            },
        }
    }

    /// Checks that a table is one of this stream and record type, and has the partitions that it was made with.
    ///
    /// # Errors
    /// When it is not, or has others.
    pub fn verify(
        &self,
        loaded: &Loaded,
        expected: &Progress,
        options: &Options,
        columns: &Columns,
    ) -> Result<Progress, Error> {
        let (name, metadata) = (&self.name, &loaded.metadata);
        let wrong = |what: String| Err(Error::Table(format!("{name}: {what}")));
        let Some(found) = Progress::of(metadata).map_err(|error| in_table(name, &error))? else {
            return wrong(
                "this table was not made by `tapedb publish`; choose another name, or drop it".into(),
            );
        };
        if (found.stream_id, &found.record) != (expected.stream_id, &expected.record) {
            let Progress { stream, stream_id, record, .. } = &found;
            return wrong(format!(
                "this table has {record} messages of stream {stream:?} with the id {stream_id:016x}, which is another one; choose another name, or drop it"
            ));
        }
        if found.shape != expected.shape {
            let text = |shape: &str| if shape.is_empty() { "none".to_string() } else { format!("{shape:?}") };
            return wrong(format!(
                "this table was made with other options for its columns and partitions ({}, not {}); use the same, or another table",
                text(&found.shape),
                text(&expected.shape)
            ));
        }
        if found.sequences.len() != expected.sequences.len() {
            return wrong(format!(
                "the stream has {} spaces, and the table {}; publish to another table",
                expected.sequences.len(),
                found.sequences.len()
            ));
        }
        let fields = metadata.current_schema().map_err(Error::Table)?;
        let wanted = transforms(options).into_iter().map(|(column, _, transform)| {
            let id = columns.columns.get(column).and_then(|column| fields.id_of(&column.name));
            (id.map(i64::from), transform)
        });
        if !metadata.partitions().into_iter().map(|field| (Some(field.source), field.transform)).eq(wanted) {
            return wrong(
                "its partitions have been changed by another program; change them back to what they were, or publish to another table".into(),
            );
        }
        Ok(found)
    }

    /// Commits a step: the files, and the progress that counts them. What others did to the table in between stays, as long as they left
    /// its rows and its progress as they were.
    ///
    /// # Errors
    /// When the catalogue does not answer or refuses, or others changed the rows. With [`Error::Away`] the commit may have happened.
    pub fn commit(&self, base: &Loaded, before: &Progress, step: &Step<'_>) -> Result<Outcome, Error> {
        let mut base = base.clone();
        let mut uncertain = None;
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                thread::sleep(Duration::from_millis(50 << attempt.min(6)));
                check_interrupt()?;
                let loaded = match self.catalog.load(&self.name) {
                    Ok(Some(loaded)) => loaded,
                    Ok(None) => return Err(dropped(&self.name)),
                    Err(error) if error.is_temporary() => {
                        uncertain.get_or_insert(error);
                        continue;
                    }
                    Err(error) => return Err(error),
                };
                if loaded.metadata.uuid() != base.metadata.uuid() {
                    return Err(dropped(&self.name));
                }
                let found = Progress::of(&loaded.metadata).map_err(|error| in_table(&self.name, &error))?;
                let found = found.unwrap_or_default();
                if found.commit == step.progress.commit {
                    return Ok(Outcome::Done);
                }
                if (&found.sequences, &found.commit) != (&before.sequences, &before.commit) {
                    return Ok(Outcome::Overtaken);
                }
                if step.removed != Removed::All {
                    check_rows(&self.name, &loaded.metadata, &found)?;
                }
                base = loaded;
            }
            match self.attempt(&base, step) {
                Ok(_) => return Ok(Outcome::Done),
                Err(CommitFailure::Failed(error)) if uncertain.is_none() && !error.is_temporary() => {
                    return Err(error);
                }
                Err(CommitFailure::Failed(error) | CommitFailure::Unknown(error)) => uncertain = Some(error),
                Err(CommitFailure::Conflict(_)) => {}
            }
        }
        Err(uncertain.unwrap_or_else(|| {
            Error::Away(format!(
                "{}: other programs change the table all the time; try again later",
                self.name
            ))
        }))
    }

    fn attempt(&self, base: &Loaded, step: &Step<'_>) -> Result<Loaded, CommitFailure> {
        let progress = &step.progress;
        let sequences = progress.properties().remove(SEQUENCES).unwrap_or_default();
        let change = Change {
            base,
            schema: step.schema.as_ref(),
            added: step.added,
            removed: &step.removed,
            with_buckets: self.with_buckets,
            properties: progress.properties(),
            without: if progress.stale.is_none() { vec![STALE.into()] } else { Vec::new() },
            summary: BTreeMap::from([(SEQUENCES.to_string(), sequences)]),
            commit: &progress.commit,
        };
        let prepared = change.prepare()?;
        let result = self.catalog.commit(&self.name, base, &prepared.requirements, &prepared.updates);
        if let Err(CommitFailure::Conflict(_) | CommitFailure::Failed(_)) = &result {
            prepared.discard();
        }
        result
    }

    /// Changes the progress alone: where a range has no rows of the record type, and to state that the table is stale.
    ///
    /// # Errors
    /// When the catalogue does not answer or refuses. Nothing is lost then.
    pub fn note(&self, base: &Loaded, progress: &Progress) -> Result<Loaded, Error> {
        let current = base.metadata.current_snapshot().map(|snapshot| snapshot.id);
        let requirements: [Json; 2] = [
            json!({ "type": "assert-table-uuid", "uuid": base.metadata.uuid() }),
            json!({ "type": "assert-ref-snapshot-id", "ref": MAIN, "snapshot-id": current }),
        ];
        let without = if progress.stale.is_none() { vec![STALE.to_string()] } else { Vec::new() };
        let updates = property_updates(base, &progress.properties(), &without);
        match self.catalog.commit(&self.name, base, &requirements, &updates) {
            Ok(loaded) => Ok(loaded),
            // It is noted the next time.
            Err(CommitFailure::Conflict(_)) => Ok(base.clone()),
            Err(CommitFailure::Failed(error) | CommitFailure::Unknown(error)) => Err(error),
        }
    }
}

/// Checks that the rows of a table are those that its progress counts: since our last snapshot others have at most rewritten files.
///
/// # Errors
/// When they have added or deleted rows, or gone back to an earlier snapshot.
pub(crate) fn check_rows(name: &TableName, metadata: &Metadata, progress: &Progress) -> Result<(), Error> {
    let repair = "`tapedb publish --repair` writes what the stream has";
    let Some(current) = metadata.current_snapshot() else {
        return match progress.commit.is_empty() {
            true => Ok(()),
            false => Err(Error::Table(format!("{name}: the table has no snapshot any more; {repair}"))),
        };
    };
    let mut at = Some(current.clone());
    while let Some(snapshot) = at {
        if let Some(commit) = snapshot.summary.get(COMMIT) {
            if *commit != progress.commit {
                return Err(Error::Table(format!(
                    "{name}: the table was set back to an earlier snapshot ({}); {repair}",
                    snapshot.id
                )));
            }
            break;
        }
        if snapshot.operation != "replace" {
            return Err(Error::Table(format!(
                "{name}: another program has changed rows of the table (snapshot {}, operation {}); {repair}",
                snapshot.id, snapshot.operation
            )));
        }
        at = snapshot.parent.and_then(|parent| metadata.snapshot(parent));
    }
    let number = |key: &str| current.summary.get(key)?.parse::<u64>().ok();
    let deletes = ["total-position-deletes", "total-equality-deletes"]
        .iter()
        .filter_map(|key| number(key))
        .sum::<u64>();
    match number("total-records") {
        Some(rows) if rows != progress.rows => Err(Error::Table(format!(
            "{name}: the table has {rows} rows, and {} were published; {repair}",
            progress.rows
        ))),
        _ if deletes > 0 => Err(Error::Table(format!(
            "{name}: another program has deleted {deletes} rows of the table; {repair}"
        ))),
        _ => Ok(()),
    }
}

/// The partitions of a table: column, name and transform of each.
fn transforms(options: &Options) -> Vec<(usize, &'static str, String)> {
    let mut transforms = vec![(0, "time_day", "day".to_string())];
    if options.symbol_buckets > 0 {
        transforms.push((2, "symbol_bucket", format!("bucket[{}]", options.symbol_buckets)));
    }
    transforms
}

pub(crate) fn dropped(name: &TableName) -> Error {
    Error::Table(format!(
        "{name}: the table has been dropped or replaced since; start `tapedb publish` again to make it again from the beginning of the stream"
    ))
}

fn in_table(name: &TableName, error: &Error) -> Error {
    Error::Table(format!("{name}: {error}"))
}
