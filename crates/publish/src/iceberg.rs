//! Iceberg's tables: found in a catalogue, changed by snapshots.

use crate::catalog::{Catalog, Creation, Loaded};
use crate::columns::{Column, Columns};
use crate::error::Error;
use crate::fields::Schema;
use crate::files::DAY_PARTITION;
use crate::format::{CommitFailure, Format, Step, Version};
use crate::manifests;
use crate::progress::{COMMIT, Progress, SEQUENCES, STALE};
use crate::schema::{self, Misfits, Widening};
use crate::settings::{Options, TableName};
use crate::snapshot::{Change, property_updates};
use crate::spec::manifest::DATA;
use crate::spec::metadata::{MAIN, PartitionField};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is set for new tables besides their progress: few files of metadata, and what readers and writers of others go by.
const PROPERTIES: [(&str, &str); 5] = [
    ("write.metadata.delete-after-commit.enabled", "true"),
    ("write.metadata.previous-versions-max", "20"),
    ("write.parquet.compression-codec", "zstd"),
    ("write.target-file-size-bytes", "268435456"),
    ("commit.retry.num-retries", "10"),
];

/// A table of a catalogue, by its name.
#[derive(Debug, Clone)]
pub(crate) struct IcebergTable {
    pub catalog: Arc<dyn Catalog>,
    pub name: TableName,
}

/// Its metadata at one moment.
#[derive(Debug)]
struct IcebergVersion {
    table: IcebergTable,
    loaded: Loaded,
}

impl IcebergTable {
    fn version(&self, loaded: Loaded) -> Box<dyn Version> {
        Box::new(IcebergVersion { table: self.clone(), loaded })
    }
}

impl Format for IcebergTable {
    fn load(&self) -> Result<Option<Box<dyn Version>>, Error> {
        Ok(self.catalog.load(&self.name)?.map(|loaded| self.version(loaded)))
    }

    fn create(
        &self,
        columns: &Columns,
        progress: &Progress,
        options: &Options,
    ) -> Result<Box<dyn Version>, CommitFailure> {
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
        self.catalog.create(&self.name, &creation).map(|loaded| self.version(loaded))
    }

    fn describe(&self) -> String {
        self.catalog.describe()
    }

    fn described(&self, columns: &[Column]) -> Vec<(String, String)> {
        let fields = schema::new(columns).fields;
        fields.into_iter().map(|field| (field.name, field.ty.to_string())).collect()
    }
}

impl Version for IcebergVersion {
    fn identity(&self) -> &str {
        self.loaded.metadata.uuid()
    }

    fn progress(&self) -> Result<Option<Progress>, Error> {
        Progress::of(|key| self.loaded.metadata.property(key))
    }

    fn check_layout(&self, columns: &Columns, options: &Options) -> Result<(), String> {
        let metadata = &self.loaded.metadata;
        let fields = metadata.current_schema()?;
        let wanted = transforms(options).into_iter().map(|(column, _, transform)| {
            let id = columns.columns.get(column).and_then(|column| fields.id_of(&column.name));
            (id.map(i64::from), transform)
        });
        match metadata.partitions().into_iter().map(|field| (Some(field.source), field.transform)).eq(wanted) {
            true => Ok(()),
            false => Err(
                "its partitions have been changed by another program; change them back to what they were, or publish to another table".into(),
            ),
        }
    }

    fn foreign_change(&self, progress: &Progress) -> Option<String> {
        let metadata = &self.loaded.metadata;
        let Some(current) = metadata.current_snapshot() else {
            return (!progress.commit.is_empty()).then(|| "the table has no snapshot any more".into());
        };
        let mut at = Some(current.clone());
        while let Some(snapshot) = at {
            if let Some(commit) = snapshot.summary.get(COMMIT) {
                if *commit != progress.commit {
                    return Some(format!("the table was set back to an earlier snapshot ({})", snapshot.id));
                }
                break;
            }
            if snapshot.operation != "replace" {
                return Some(format!(
                    "another program has changed rows of the table (snapshot {}, operation {})",
                    snapshot.id, snapshot.operation
                ));
            }
            at = snapshot.parent.and_then(|parent| metadata.snapshot(parent));
        }
        let number = |key: &str| current.summary.get(key)?.parse::<u64>().ok();
        let deletes = ["total-position-deletes", "total-equality-deletes"];
        let deletes = deletes.iter().filter_map(|key| number(key)).sum::<u64>();
        match number("total-records") {
            Some(rows) if rows != progress.rows => {
                Some(format!("the table has {rows} rows, and {} were published", progress.rows))
            }
            _ if deletes > 0 => Some(format!("another program has deleted {deletes} rows of the table")),
            _ => None,
        }
    }

    fn rows_of_days(&self) -> Result<BTreeMap<i32, u64>, Error> {
        let mut days = BTreeMap::new();
        let Some(snapshot) = self.loaded.metadata.current_snapshot() else { return Ok(days) };
        for listed in manifests::list(&snapshot)?.iter().filter(|listed| listed.content == DATA) {
            for entry in manifests::manifest(listed)?.alive(listed) {
                if let Some(day) = entry.day {
                    *days.entry(day).or_default() += entry.rows;
                }
            }
        }
        Ok(days)
    }

    fn data(&self) -> String {
        format!("{}/data", self.loaded.metadata.location())
    }

    fn schema(&self) -> Result<Schema, Error> {
        self.loaded.metadata.current_schema().map_err(Error::Table)
    }

    fn evolved(&self, columns: &[Column], misfits: Misfits) -> Result<Option<Schema>, Error> {
        let last = self.loaded.metadata.last_column_id();
        schema::evolved(columns, &self.schema()?, last, (misfits, Widening::Allowed))
    }

    fn commit(&self, step: &Step<'_>) -> Result<Box<dyn Version>, CommitFailure> {
        let progress = &step.progress;
        let sequences = progress.properties().remove(SEQUENCES).unwrap_or_default();
        let change = Change {
            base: &self.loaded,
            schema: step.schema.as_ref(),
            added: step.added,
            removed: &step.removed,
            properties: progress.properties(),
            without: without(progress),
            summary: BTreeMap::from([(SEQUENCES.to_string(), sequences)]),
            commit: &progress.commit,
        };
        let prepared = change.prepare()?;
        let IcebergTable { catalog, name } = &self.table;
        let result = catalog.commit(name, &self.loaded, &prepared.requirements, &prepared.updates);
        if let Err(CommitFailure::Conflict(_) | CommitFailure::Failed(_)) = &result {
            prepared.discard();
        }
        result.map(|loaded| self.table.version(loaded))
    }

    fn note(&self, progress: &Progress) -> Result<Box<dyn Version>, CommitFailure> {
        let current = self.loaded.metadata.current_snapshot().map(|snapshot| snapshot.id);
        let requirements: [Json; 2] = [
            json!({ "type": "assert-table-uuid", "uuid": self.identity() }),
            json!({ "type": "assert-ref-snapshot-id", "ref": MAIN, "snapshot-id": current }),
        ];
        let updates = property_updates(&self.loaded, &progress.properties(), &without(progress));
        let IcebergTable { catalog, name } = &self.table;
        let result = catalog.commit(name, &self.loaded, &requirements, &updates);
        result.map(|loaded| self.table.version(loaded))
    }
}

/// Properties that go.
fn without(progress: &Progress) -> Vec<String> {
    if progress.stale.is_none() { vec![STALE.to_string()] } else { Vec::new() }
}

/// The partitions of a table: column, name and transform of each.
fn transforms(options: &Options) -> Vec<(usize, &'static str, String)> {
    let mut transforms = vec![(0, DAY_PARTITION, "day".to_string())];
    if options.symbol_buckets > 0 {
        transforms.push((2, "symbol_bucket", format!("bucket[{}]", options.symbol_buckets)));
    }
    transforms
}
