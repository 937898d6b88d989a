//! The next snapshot of a table: files that are added, and files that they replace, in one commit with the table's properties.

use crate::catalog::Loaded;
use crate::error::Error;
use crate::fields::Schema;
use crate::files::NewFile;
use crate::format::Removed;
use crate::manifests;
use crate::place::Place;
use crate::progress::COMMIT;
use crate::spec::manifest::{self, Entry, Listed};
use crate::spec::metadata::{MAIN, now_ms};
use serde_json::{Map, Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};

/// What the next snapshot is made of.
#[derive(Debug)]
pub(crate) struct Change<'a> {
    pub base: &'a Loaded,
    /// The schema, where it is another one than the table's.
    pub schema: Option<&'a Schema>,
    pub added: &'a [NewFile],
    pub removed: &'a Removed,
    /// Properties that are set.
    pub properties: BTreeMap<String, String>,
    /// Properties that go.
    pub without: Vec<String>,
    /// Also in the snapshot's summary.
    pub summary: BTreeMap<String, String>,
    pub commit: &'a str,
}

/// A commit that has been prepared.
#[derive(Debug, Default)]
pub(crate) struct Prepared {
    pub requirements: Vec<Json>,
    pub updates: Vec<Json>,
    /// Manifests that nothing names if the commit fails.
    files: Vec<String>,
}

impl Prepared {
    /// Removes the manifests, of a commit that has certainly failed.
    pub fn discard(&self) {
        for url in &self.files {
            if let Ok(place) = Place::of(url) {
                place.remove(url);
            }
        }
    }
}

/// Makes a manifest that has a URL: its bytes, and what the list of manifests has of it.
type MakeManifest<'a> = dyn Fn(&str) -> Result<(Vec<u8>, Listed), String> + 'a;

/// What was added or removed.
#[derive(Debug, Default, Clone, Copy)]
struct Counts {
    files: u64,
    rows: u64,
    bytes: u64,
}

impl Counts {
    fn add(&mut self, rows: u64, bytes: u64) {
        *self = Self { files: self.files + 1, rows: self.rows + rows, bytes: self.bytes + bytes };
    }
}

impl Change<'_> {
    /// Writes the manifests, and lists what the catalogue has to change.
    ///
    /// # Errors
    /// When manifests cannot be read or written.
    pub fn prepare(self) -> Result<Prepared, Error> {
        let mut prepared = Prepared::default();
        match self.write(&mut prepared) {
            Ok(()) => Ok(prepared),
            Err(error) => {
                prepared.discard();
                Err(error)
            }
        }
    }

    fn write(&self, prepared: &mut Prepared) -> Result<(), Error> {
        let metadata = &self.base.metadata;
        if metadata.format_version() != 2 {
            return Err(Error::Table(format!(
                "the table has version {} of the format, and TapeDB writes version 2; publish to another table",
                metadata.format_version()
            )));
        }
        let parent = metadata.current_snapshot();
        let parent_id = parent.as_ref().map(|snapshot| snapshot.id);
        prepared.requirements = vec![
            json!({ "type": "assert-table-uuid", "uuid": metadata.uuid() }),
            json!({ "type": "assert-ref-snapshot-id", "ref": MAIN, "snapshot-id": parent_id }),
        ];
        let schema = self.schema(prepared)?;
        let id = new_id(metadata.snapshots().map(|snapshot| snapshot.id));
        let sequence = metadata.last_sequence() + 1;
        // Each attempt has names of its own.
        let attempt = uuid::Uuid::new_v4().simple().to_string();
        let folder = format!("{}/metadata", metadata.location());
        let put = |kind: &str, files: &mut Vec<String>, bytes: &MakeManifest<'_>| {
            let url = format!("{folder}/{}-{}-{kind}{}.avro", self.commit, &attempt[..8], files.len());
            let (bytes, listed) = bytes(&url).map_err(Error::Table)?;
            files.push(url.clone());
            manifests::create(&url, &bytes)?;
            Ok::<_, Error>((url, listed))
        };
        let (mut list, mut gone, mut new) = (Vec::new(), Counts::default(), Counts::default());
        for listed in parent.as_ref().map(manifests::list).transpose()?.unwrap_or_default() {
            // What it names is gone.
            if listed.files[0] == Some(0) && listed.files[1] == Some(0) {
                continue;
            }
            if *self.removed == Removed::Nothing {
                list.push(listed);
                continue;
            }
            let manifest = manifests::manifest(&listed)?;
            let entries: Vec<(Entry, bool)> = manifest
                .alive(&listed)
                .into_iter()
                .map(|entry| (entry.clone(), self.removed.contains(entry.day)))
                .collect();
            if !entries.iter().any(|(_, is_removed)| *is_removed) {
                list.push(listed);
                continue;
            }
            if listed.content == manifest::DATA {
                let removed = entries.iter().filter(|(_, is_removed)| *is_removed);
                removed.for_each(|(entry, _)| gone.add(entry.rows, entry.bytes));
            }
            let without = |url: &str| manifest.without(&listed, &entries, id, url);
            list.push(put("m", &mut prepared.files, &without)?.1);
        }
        if !self.added.is_empty() {
            self.added.iter().for_each(|file| new.add(file.rows, file.bytes));
            let order = metadata.sort_order();
            let partitions = metadata.partitions();
            let files: Vec<_> =
                self.added.iter().map(|file| file.entry(partitions.len() > 1, order)).collect();
            let added =
                |url: &str| manifest::added(&files, (&schema, metadata.spec_id(), &partitions), id, url);
            list.push(put("m", &mut prepared.files, &added)?.1);
        }
        let bytes =
            |_: &str| Ok((manifest::list_bytes(&list, (id, parent_id, sequence))?, Listed::default()));
        let (url, _) = put("snap", &mut prepared.files, &bytes)?;
        let mut snapshot = json!({
            "snapshot-id": id,
            "sequence-number": sequence,
            "timestamp-ms": now_ms().max(metadata.last_updated_ms()),
            "manifest-list": url,
            "summary": self.summary(new, gone),
            "schema-id": schema.id,
        });
        if let Some(parent) = parent_id {
            snapshot["parent-snapshot-id"] = parent.into();
        }
        prepared.updates.extend(property_updates(self.base, &self.properties, &self.without));
        prepared.updates.push(json!({ "action": "add-snapshot", "snapshot": snapshot }));
        prepared.updates.push(
            json!({ "action": "set-snapshot-ref", "ref-name": MAIN, "type": "branch", "snapshot-id": id }),
        );
        Ok(())
    }

    /// The table's schema afterwards.
    fn schema(&self, prepared: &mut Prepared) -> Result<Schema, Error> {
        let metadata = &self.base.metadata;
        let Some(schema) = self.schema else { return metadata.current_schema().map_err(Error::Table) };
        let last = metadata.last_column_id();
        let updates = [
            json!({ "action": "add-schema", "schema": schema.to_json(), "last-column-id": last.max(schema.last_id()) }),
            json!({ "action": "set-current-schema", "schema-id": -1 }),
        ];
        let id = metadata.current_schema_id();
        prepared.requirements.push(json!({ "type": "assert-current-schema-id", "current-schema-id": id }));
        prepared
            .requirements
            .push(json!({ "type": "assert-last-assigned-field-id", "last-assigned-field-id": last }));
        let (after, _) = metadata.changed(&self.base.location, &updates).map_err(Error::Table)?;
        prepared.updates.extend(updates);
        after.current_schema().map_err(Error::Table)
    }

    fn summary(&self, new: Counts, gone: Counts) -> Map<String, Json> {
        let before = self.base.metadata.current_snapshot().map(|snapshot| snapshot.summary);
        let number = |key: &str| match &before {
            None => Some(0),
            Some(before) => before.get(key)?.parse::<u64>().ok(),
        };
        let mut all: Map<String, Json> =
            self.summary.iter().map(|(key, value)| (key.clone(), value.clone().into())).collect();
        let operation = if gone.files == 0 { "append" } else { "overwrite" };
        all.insert("operation".into(), operation.into());
        all.insert(COMMIT.into(), self.commit.into());
        let mut set = |key: &str, value: u64| drop(all.insert(key.into(), value.to_string().into()));
        set("added-data-files", new.files);
        set("added-records", new.rows);
        set("added-files-size", new.bytes);
        let partitions: BTreeSet<_> = self.added.iter().map(|file| file.partition).collect();
        set("changed-partition-count", partitions.len() as u64);
        if gone.files > 0 {
            set("deleted-data-files", gone.files);
            set("deleted-records", gone.rows);
            set("removed-files-size", gone.bytes);
        }
        for (key, new, gone) in [
            ("total-data-files", new.files, gone.files),
            ("total-records", new.rows, gone.rows),
            ("total-files-size", new.bytes, gone.bytes),
        ] {
            let after = if *self.removed == Removed::All {
                Some(new)
            } else {
                number(key).map(|before| (before + new).saturating_sub(gone))
            };
            if let Some(after) = after {
                set(key, after);
            }
        }
        for key in ["total-delete-files", "total-position-deletes", "total-equality-deletes"] {
            let after = if *self.removed == Removed::All { Some(0) } else { number(key) };
            if let Some(after) = after {
                set(key, after);
            }
        }
        all
    }
}

/// The changes of a table's properties.
pub(crate) fn property_updates(
    base: &Loaded,
    properties: &BTreeMap<String, String>,
    without: &[String],
) -> Vec<Json> {
    let mut updates = vec![json!({ "action": "set-properties", "updates": properties })];
    let removals: Vec<&String> = without.iter().filter(|key| base.metadata.property(key).is_some()).collect();
    if !removals.is_empty() {
        updates.push(json!({ "action": "remove-properties", "removals": removals }));
    }
    updates
}

/// A number that no snapshot has.
fn new_id(taken: impl Iterator<Item = i64>) -> i64 {
    let taken: BTreeSet<i64> = taken.collect();
    loop {
        let (high, low) = uuid::Uuid::new_v4().as_u64_pair();
        let id = ((high ^ low) & i64::MAX as u64) as i64;
        if id > 0 && !taken.contains(&id) {
            return id;
        }
    }
}
