//! A table's metadata: its JSON, what publishing reads of it, and the changes of Iceberg's REST protocol, applied as a server does it.

use crate::fields::Schema;
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

/// Name of the branch that readers read.
pub(crate) const MAIN: &str = "main";

/// Versions of the metadata that are remembered unless the table states another number.
const VERSIONS_MAX: usize = 100;

/// A table at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Metadata(Map<String, Json>);

/// A state of a table's rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// Its number.
    pub id: i64,
    /// The one before it.
    pub parent: Option<i64>,
    /// The file that lists its manifests.
    pub manifest_list: String,
    /// What made it: `append`, `replace`, `overwrite` or `delete`.
    pub operation: String,
    /// What else it states, such as counts.
    pub summary: BTreeMap<String, String>,
}

/// A partition of a table by a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PartitionField {
    pub source: i64,
    pub id: i64,
    pub name: String,
    pub transform: String,
}

impl Metadata {
    /// From a file's text.
    ///
    /// # Errors
    /// When it is no metadata of a table.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let json = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        Self::of(json)
    }

    pub(crate) fn of(json: Json) -> Result<Self, String> {
        let Json::Object(object) = json else { return Err("it is no object".into()) };
        let metadata = Self(object);
        for key in ["format-version", "last-updated-ms", "last-column-id"] {
            metadata.number(key).ok_or_else(|| format!("it has no {key}"))?;
        }
        for key in ["table-uuid", "location"] {
            metadata.text(key).ok_or_else(|| format!("it has no {key}"))?;
        }
        if metadata.format_version() > 1 {
            metadata.current_schema()?;
        }
        Ok(metadata)
    }

    /// As a file's text.
    pub fn to_json(&self) -> Vec<u8> {
        Json::Object(self.0.clone()).to_string().into_bytes()
    }

    /// The first metadata of a table.
    pub(crate) fn new(
        location: &str,
        schema: &Schema,
        partitions: &[PartitionField],
        order: &Json,
        properties: &BTreeMap<String, String>,
    ) -> Self {
        let last = partitions.iter().map(|field| field.id).max().unwrap_or(999);
        let json = json!({
            "format-version": 2,
            "table-uuid": uuid::Uuid::new_v4().to_string(),
            "location": location,
            "last-sequence-number": 0,
            "last-updated-ms": now_ms(),
            "last-column-id": schema.last_id(),
            "current-schema-id": 0,
            "schemas": [Schema { id: 0, ..schema.clone() }.to_json()],
            "default-spec-id": 0,
            "partition-specs": [{ "spec-id": 0, "fields": partitions_json(partitions) }],
            "last-partition-id": last,
            "default-sort-order-id": 1,
            "sort-orders": [order],
            "properties": properties,
            "current-snapshot-id": -1,
            "refs": {},
            "snapshots": [],
            "statistics": [],
            "partition-statistics": [],
            "snapshot-log": [],
            "metadata-log": [],
        });
        match json {
            Json::Object(object) => Self(object),
            _ => Self(Map::new()),
        }
    }

    fn number(&self, key: &str) -> Option<i64> {
        self.0.get(key)?.as_i64()
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.as_str()
    }

    fn list(&self, key: &str) -> &[Json] {
        self.0.get(key).and_then(Json::as_array).map_or(&[], Vec::as_slice)
    }

    /// The version of the format.
    pub fn format_version(&self) -> i64 {
        self.number("format-version").unwrap_or(0)
    }

    /// What distinguishes the table from others, whatever they are called.
    pub fn uuid(&self) -> &str {
        self.text("table-uuid").unwrap_or_default()
    }

    /// Where its files are, without a slash at its end.
    pub fn location(&self) -> &str {
        self.text("location").unwrap_or_default().trim_end_matches('/')
    }

    pub(crate) fn last_sequence(&self) -> i64 {
        self.number("last-sequence-number").unwrap_or(0)
    }

    pub(crate) fn last_updated_ms(&self) -> i64 {
        self.number("last-updated-ms").unwrap_or(0)
    }

    pub(crate) fn last_column_id(&self) -> i32 {
        self.number("last-column-id").and_then(|id| i32::try_from(id).ok()).unwrap_or(0)
    }

    pub(crate) fn sort_order(&self) -> i64 {
        self.number("default-sort-order-id").unwrap_or(0)
    }

    /// A property.
    pub fn property(&self, key: &str) -> Option<&str> {
        self.0.get("properties")?.get(key)?.as_str()
    }

    pub(crate) fn current_schema_id(&self) -> i64 {
        self.number("current-schema-id").unwrap_or(0)
    }

    /// The names of the columns.
    pub fn columns(&self) -> Vec<String> {
        let schema = self.current_schema();
        schema.map_or(Vec::new(), |schema| schema.fields.into_iter().map(|field| field.name).collect())
    }

    pub(crate) fn current_schema(&self) -> Result<Schema, String> {
        let id = self.current_schema_id();
        let is_current = |schema: &&Json| schema.get("schema-id").and_then(Json::as_i64).unwrap_or(0) == id;
        Schema::of(self.list("schemas").iter().find(is_current).ok_or("its schema is missing")?)
    }

    pub(crate) fn spec_id(&self) -> i64 {
        self.number("default-spec-id").unwrap_or(0)
    }

    /// The partitions that rows are written in.
    pub(crate) fn partitions(&self) -> Vec<PartitionField> {
        let id = self.spec_id();
        let spec = self
            .list("partition-specs")
            .iter()
            .find(|spec| spec.get("spec-id").and_then(Json::as_i64) == Some(id));
        let fields = spec.and_then(|spec| spec.get("fields")?.as_array()).map_or(&[][..], Vec::as_slice);
        let field = |field: &Json| {
            Some(PartitionField {
                source: field.get("source-id")?.as_i64()?,
                id: field.get("field-id")?.as_i64()?,
                name: field.get("name")?.as_str()?.into(),
                transform: field.get("transform")?.as_str()?.into(),
            })
        };
        fields.iter().filter_map(field).collect()
    }

    /// All snapshots that there still are.
    pub fn snapshots(&self) -> impl Iterator<Item = Snapshot> {
        self.list("snapshots").iter().filter_map(Snapshot::of)
    }

    /// A snapshot by its number.
    pub fn snapshot(&self, id: i64) -> Option<Snapshot> {
        self.snapshots().find(|snapshot| snapshot.id == id)
    }

    /// The snapshot that readers read.
    pub fn current_snapshot(&self) -> Option<Snapshot> {
        let main = self.0.get("refs").and_then(|refs| refs.get(MAIN)?.get("snapshot-id")?.as_i64());
        self.snapshot(main.or_else(|| self.number("current-snapshot-id"))?)
    }

    /// The metadata after some changes, and files of metadata that are not remembered any more. `location` is where this metadata is.
    ///
    /// # Errors
    /// When a change is not one of those that are known, or does not fit.
    pub(crate) fn changed(&self, location: &str, updates: &[Json]) -> Result<(Self, Vec<String>), String> {
        let mut new = self.clone();
        let mut last_schema = None;
        for update in updates {
            let wrong = || format!("{update} is no change of a table");
            let part = |key: &str| update.get(key).ok_or_else(wrong);
            match part("action")?.as_str().ok_or_else(wrong)? {
                "add-schema" => {
                    let schema = Schema::of(part("schema")?)?;
                    let same = new.list("schemas").iter().filter_map(|known| Schema::of(known).ok());
                    let same =
                        same.into_iter().find(|known| known.fields == schema.fields).map(|known| known.id);
                    let last =
                        new.list("schemas").iter().filter_map(|known| known.get("schema-id")?.as_i64()).max();
                    let id = same.unwrap_or(last.unwrap_or(-1) + 1);
                    if same.is_none() {
                        new.push("schemas", Schema { id, ..schema.clone() }.to_json());
                    }
                    new.set("last-column-id", new.last_column_id().max(schema.last_id()));
                    last_schema = Some(id);
                }
                "set-current-schema" => {
                    let id = part("schema-id")?
                        .as_i64()
                        .filter(|id| *id >= 0)
                        .or(last_schema)
                        .ok_or_else(wrong)?;
                    new.set("current-schema-id", id);
                }
                "set-properties" => {
                    let updates = part("updates")?.as_object().ok_or_else(wrong)?.clone();
                    new.change_properties(|properties| properties.extend(updates));
                }
                "remove-properties" => {
                    let keys = part("removals")?.as_array().ok_or_else(wrong)?.clone();
                    new.change_properties(|properties| {
                        keys.iter().filter_map(Json::as_str).for_each(|key| drop(properties.remove(key)));
                    });
                }
                "add-snapshot" => {
                    let snapshot = part("snapshot")?.clone();
                    let sequence =
                        snapshot.get("sequence-number").and_then(Json::as_i64).ok_or_else(wrong)?;
                    new.set("last-sequence-number", new.last_sequence().max(sequence));
                    new.push("snapshots", snapshot);
                }
                "set-snapshot-ref" => {
                    let id = part("snapshot-id")?.as_i64().ok_or_else(wrong)?;
                    let name = part("ref-name")?.as_str().ok_or_else(wrong)?;
                    let snapshot = new
                        .list("snapshots")
                        .iter()
                        .find(|one| one.get("snapshot-id").and_then(Json::as_i64) == Some(id));
                    let time = snapshot
                        .and_then(|snapshot| snapshot.get("timestamp-ms").cloned())
                        .ok_or_else(wrong)?;
                    let mut reference = update.clone();
                    if let Json::Object(object) = &mut reference {
                        object.remove("action");
                        object.remove("ref-name");
                    }
                    if let Json::Object(refs) = new.0.entry("refs").or_insert_with(|| json!({})) {
                        refs.insert(name.into(), reference);
                    }
                    if name == MAIN {
                        new.set("current-snapshot-id", id);
                        new.push("snapshot-log", json!({ "timestamp-ms": time, "snapshot-id": id }));
                    }
                }
                _ => return Err(wrong()),
            }
        }
        new.push(
            "metadata-log",
            json!({ "timestamp-ms": self.last_updated_ms(), "metadata-file": location }),
        );
        new.set("last-updated-ms", now_ms().max(self.last_updated_ms()));
        let most = new.property("write.metadata.previous-versions-max").and_then(|text| text.parse().ok());
        let mut expired = Vec::new();
        if let Some(Json::Array(log)) = new.0.get_mut("metadata-log") {
            let gone = log.len().saturating_sub(most.unwrap_or(VERSIONS_MAX).max(1));
            let files =
                log.drain(..gone).filter_map(|entry| Some(entry.get("metadata-file")?.as_str()?.to_string()));
            expired = files.collect();
        }
        if self.property("write.metadata.delete-after-commit.enabled") != Some("true") {
            expired.clear();
        }
        Ok((new, expired))
    }

    /// Whether the table is what a change requires.
    pub(crate) fn check(&self, requirement: &Json) -> Result<(), String> {
        let stated = |key: &str| requirement.get(key).cloned().unwrap_or(Json::Null);
        let current = self.current_snapshot().map(|snapshot| snapshot.id);
        let fits = match requirement.get("type").and_then(Json::as_str) {
            Some("assert-table-uuid") => stated("uuid").as_str() == Some(self.uuid()),
            Some("assert-ref-snapshot-id") => stated("snapshot-id").as_i64() == current,
            Some("assert-current-schema-id") => {
                stated("current-schema-id").as_i64() == Some(self.current_schema_id())
            }
            Some("assert-last-assigned-field-id") => {
                stated("last-assigned-field-id").as_i64() == Some(i64::from(self.last_column_id()))
            }
            _ => false,
        };
        if fits { Ok(()) } else { Err(format!("the table is another one by now: {requirement}")) }
    }

    fn set(&mut self, key: &str, value: impl Into<Json>) {
        self.0.insert(key.into(), value.into());
    }

    fn push(&mut self, key: &str, value: Json) {
        match self.0.entry(key).or_insert_with(|| json!([])) {
            Json::Array(list) => list.push(value),
            other => *other = json!([value]),
        }
    }

    /// Changes the properties, which are an object.
    fn change_properties(&mut self, change: impl FnOnce(&mut Map<String, Json>)) {
        let mut properties = match self.0.remove("properties") {
            Some(Json::Object(object)) => object,
            _ => Map::new(),
        };
        change(&mut properties);
        self.set("properties", properties);
    }
}

impl Snapshot {
    fn of(json: &Json) -> Option<Self> {
        let summary = json.get("summary").and_then(Json::as_object);
        let text = |(key, value): (&String, &Json)| Some((key.clone(), value.as_str()?.to_string()));
        let mut summary: BTreeMap<String, String> = summary.into_iter().flatten().filter_map(text).collect();
        Some(Self {
            id: json.get("snapshot-id")?.as_i64()?,
            parent: json.get("parent-snapshot-id").and_then(Json::as_i64),
            manifest_list: json.get("manifest-list")?.as_str()?.into(),
            operation: summary.remove("operation").unwrap_or_default(),
            summary,
        })
    }
}

/// Partitions as they are in metadata.
pub(crate) fn partitions_json(partitions: &[PartitionField]) -> Json {
    let field = |field: &PartitionField| json!({ "source-id": field.source, "field-id": field.id, "name": field.name, "transform": field.transform });
    Json::Array(partitions.iter().map(field).collect())
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Metadata {
        let schema =
            json!({ "schema-id": 0, "fields": [{ "id": 1, "name": "a", "required": true, "type": "int" }] });
        let partition = PartitionField { source: 1, id: 1000, name: "d".into(), transform: "day".into() };
        let order = json!({ "order-id": 1, "fields": [] });
        let properties =
            BTreeMap::from([("write.metadata.previous-versions-max".to_string(), "2".to_string())]);
        Metadata::new("file:///t/", &Schema::of(&schema).unwrap(), &[partition], &order, &properties)
    }

    #[test]
    fn changes_are_applied() {
        let table = table();
        assert_eq!(table.location(), "file:///t");
        assert!(table.current_snapshot().is_none());
        let wider = json!({ "fields": [{ "id": 1, "name": "a", "required": true, "type": "long" }, { "id": 2, "name": "b", "required": false, "type": "int" }] });
        let snapshot = json!({ "snapshot-id": 7, "sequence-number": 1, "timestamp-ms": 5, "manifest-list": "l",
            "summary": { "operation": "append", "x": "y" } });
        let updates = [
            json!({ "action": "add-schema", "schema": wider }),
            json!({ "action": "set-current-schema", "schema-id": -1 }),
            json!({ "action": "set-properties", "updates": { "p": "q", "r": "s" } }),
            json!({ "action": "remove-properties", "removals": ["r"] }),
            json!({ "action": "add-snapshot", "snapshot": snapshot }),
            json!({ "action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 7 }),
        ];
        let (new, expired) = table.changed("one", &updates).unwrap();
        assert_eq!((new.current_schema_id(), new.last_column_id(), new.last_sequence()), (1, 2, 1));
        assert_eq!((new.property("p"), new.property("r"), expired.len()), (Some("q"), None, 0));
        let current = new.current_snapshot().unwrap();
        assert_eq!((current.id, &*current.operation, &*current.summary["x"]), (7, "append", "y"));
        let read = Metadata::parse(&new.to_json()).unwrap();
        assert_eq!(read, new);
        for requirement in [
            json!({ "type": "assert-table-uuid", "uuid": table.uuid() }),
            json!({ "type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 7 }),
            json!({ "type": "assert-current-schema-id", "current-schema-id": 1 }),
            json!({ "type": "assert-last-assigned-field-id", "last-assigned-field-id": 2 }),
        ] {
            assert!(new.check(&requirement).is_ok(), "{requirement}");
            assert_eq!(table.check(&requirement).is_ok(), requirement["type"] == "assert-table-uuid");
        }
        // The same schema is not added twice, and old metadata is forgotten.
        let (new, _) = new.changed("two", &updates[..2]).unwrap();
        assert_eq!(new.current_schema_id(), 1);
        let keep = json!({ "action": "set-properties", "updates": { "write.metadata.delete-after-commit.enabled": "true" } });
        let (new, _) = new.changed("three", &[keep]).unwrap();
        assert_eq!(new.changed("four", &[]).unwrap().1, ["two"]);
        assert!(new.changed("five", &[json!({ "action": "upgrade-format-version" })]).is_err());
    }

    #[test]
    fn what_is_no_metadata_is_refused() {
        for text in ["", "[]", "{}", r#"{"format-version": 2}"#] {
            assert!(Metadata::parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
