//! Manifests, which name files, and lists of manifests, which are snapshots. Fields are found by their numbers in the specification.

use crate::fields::Schema;
use crate::spec::avro::{AvroFile, Type, Value};
use crate::spec::metadata::{PartitionField, partitions_json};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;

/// States of an entry.
pub(crate) const EXISTING: i64 = 0;
pub(crate) const ADDED: i64 = 1;
pub(crate) const DELETED: i64 = 2;

/// A manifest's files are of rows; others are of deletions.
pub(crate) const DATA: i64 = 0;

/// Numbers of fields of an entry.
mod entry {
    pub const STATUS: i64 = 0;
    pub const SNAPSHOT: i64 = 1;
    pub const DATA_FILE: i64 = 2;
    pub const SEQUENCE: i64 = 3;
    pub const FILE_SEQUENCE: i64 = 4;
    pub const PATH: i64 = 100;
    pub const PARTITION: i64 = 102;
    pub const RECORDS: i64 = 103;
    pub const BYTES: i64 = 104;
}

/// A manifest, as the list of a snapshot has it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Listed {
    pub path: String,
    pub length: i64,
    pub spec: i64,
    pub content: i64,
    pub sequence: i64,
    pub min_sequence: i64,
    pub snapshot: i64,
    /// Files that are added, that existed, that are deleted, and their rows.
    pub files: [Option<i64>; 3],
    pub rows: [Option<i64>; 3],
    pub partitions: Vec<PartitionSummary>,
}

/// What the files of a manifest have in one column of the partitions.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct PartitionSummary {
    has_null: bool,
    has_nan: Option<bool>,
    /// The least and the most, as single values are serialised.
    lower: Option<Vec<u8>>,
    upper: Option<Vec<u8>>,
}

/// A file that a manifest names: what is needed of it to write a new one.
#[derive(Debug, Clone, Default)]
pub(crate) struct DataFile {
    pub path: String,
    /// Days, and buckets.
    pub partition: Vec<i32>,
    pub rows: u64,
    pub bytes: u64,
    pub column_sizes: BTreeMap<i32, i64>,
    pub value_counts: BTreeMap<i32, i64>,
    pub null_counts: BTreeMap<i32, i64>,
    pub lower: BTreeMap<i32, Vec<u8>>,
    pub upper: BTreeMap<i32, Vec<u8>>,
    pub split_offsets: Vec<i64>,
    pub sort_order: i64,
}

/// A manifest that was read.
#[derive(Debug)]
pub(crate) struct Manifest {
    file: AvroFile,
}

/// An entry of a manifest.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub path: String,
    pub rows: u64,
    pub bytes: u64,
    /// The first value of the partition, which is the day in tables of TapeDB.
    pub day: Option<i32>,
    status: i64,
    snapshot: i64,
    sequence: i64,
    file_sequence: i64,
    /// Its place in the manifest.
    at: usize,
}

impl Manifest {
    /// Reads a manifest.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let file = AvroFile::parse(bytes)?;
        match file.schema.place(entry::DATA_FILE) {
            Some(_) => Ok(Self { file }),
            None => Err("this is no manifest".into()),
        }
    }

    /// The files that it names and that are not deleted.
    pub fn alive(&self, listed: &Listed) -> Vec<Entry> {
        let ty = &self.file.schema;
        let Some(data_type) = ty.part(entry::DATA_FILE) else { return Vec::new() };
        let records = self.file.records.iter().enumerate();
        let entries = records.map(|(at, record)| {
            let data = record.get(ty, entry::DATA_FILE);
            let number = |id| data.get(data_type, id).as_long().unwrap_or(0).max(0) as u64;
            let own = |id, otherwise| record.get(ty, id).as_long().unwrap_or(otherwise);
            let day = match data.get(data_type, entry::PARTITION) {
                Value::Record(values) => values.first().and_then(Value::as_long),
                _ => None,
            };
            Entry {
                path: data.get(data_type, entry::PATH).as_text().unwrap_or_default().into(),
                rows: number(entry::RECORDS),
                bytes: number(entry::BYTES),
                day: day.and_then(|day| i32::try_from(day).ok()),
                status: own(entry::STATUS, ADDED),
                snapshot: own(entry::SNAPSHOT, listed.snapshot),
                sequence: own(entry::SEQUENCE, listed.sequence),
                file_sequence: own(entry::FILE_SEQUENCE, listed.sequence),
                at,
            }
        });
        entries.filter(|entry| entry.status != DELETED).collect()
    }

    /// A manifest of the same files, some of which are deleted in a snapshot; what else is stated of them stays. Returns its bytes, and
    /// how it is listed at `path`.
    pub fn without(
        &self,
        listed: &Listed,
        entries: &[(Entry, bool)],
        snapshot: i64,
        path: &str,
    ) -> Result<(Vec<u8>, Listed), String> {
        let ty = &self.file.schema;
        let (mut files, mut rows) = ([0; 3], [0; 3]);
        let mut min_sequence = None;
        let records = entries.iter().map(|(entry, is_deleted)| {
            let mut record = self.file.records[entry.at].clone();
            let (status, of) = if *is_deleted { (DELETED, snapshot) } else { (EXISTING, entry.snapshot) };
            record.set(ty, entry::STATUS, Value::Long(status));
            record.set(ty, entry::SNAPSHOT, Value::Long(of));
            record.set(ty, entry::SEQUENCE, Value::Long(entry.sequence));
            record.set(ty, entry::FILE_SEQUENCE, Value::Long(entry.file_sequence));
            let place = if *is_deleted { 2 } else { 1 };
            files[place] += 1;
            rows[place] += entry.rows as i64;
            if !is_deleted {
                min_sequence =
                    Some(min_sequence.map_or(entry.sequence, |least: i64| least.min(entry.sequence)));
            }
            record
        });
        let records = records.collect();
        let file = AvroFile { metadata: self.file.metadata.clone(), schema: ty.clone(), records };
        let bytes = file.to_bytes()?;
        let listed = Listed {
            path: path.into(),
            length: bytes.len() as i64,
            sequence: UNASSIGNED,
            min_sequence: min_sequence.unwrap_or(UNASSIGNED),
            snapshot,
            files: files.map(Some),
            rows: rows.map(Some),
            ..listed.clone()
        };
        Ok((bytes, listed))
    }
}

/// The snapshot's own number takes its place.
const UNASSIGNED: i64 = -1;

/// A manifest of new files. Returns its bytes, and how it is listed at `path`.
pub(crate) fn added(
    files: &[DataFile],
    (schema, spec, partitions): (&Schema, i64, &[PartitionField]),
    snapshot: i64,
    path: &str,
) -> Result<(Vec<u8>, Listed), String> {
    let text = entry_schema(partitions).to_string();
    let ty = Type::parse(text.as_bytes())?;
    let record = |file: &DataFile| {
        let values = [Value::Long(ADDED), Value::Long(snapshot), Value::Null, Value::Null, data_value(file)];
        Value::Record(values.to_vec())
    };
    let metadata = [
        ("avro.schema", text),
        ("schema", schema.to_json().to_string()),
        ("schema-id", schema.id.to_string()),
        ("partition-spec", partitions_json(partitions).to_string()),
        ("partition-spec-id", spec.to_string()),
        ("format-version", "2".to_string()),
        ("content", "data".to_string()),
    ];
    let metadata = metadata.into_iter().map(|(key, value)| (key.to_string(), value.into_bytes())).collect();
    let file = AvroFile { metadata, schema: ty, records: files.iter().map(record).collect() };
    let bytes = file.to_bytes()?;
    let bounds = |at: usize| {
        let values = files.iter().filter_map(|file| file.partition.get(at).copied());
        let bytes = |value: Option<i32>| value.map(|value| value.to_le_bytes().to_vec());
        let (lower, upper) = (bytes(values.clone().min()), bytes(values.max()));
        PartitionSummary { has_null: false, has_nan: Some(false), lower, upper }
    };
    let rows = files.iter().map(|file| file.rows as i64).sum();
    let listed = Listed {
        path: path.into(),
        length: bytes.len() as i64,
        spec,
        content: DATA,
        sequence: UNASSIGNED,
        min_sequence: UNASSIGNED,
        snapshot,
        files: [Some(files.len() as i64), Some(0), Some(0)],
        rows: [Some(rows), Some(0), Some(0)],
        partitions: (0..partitions.len()).map(bounds).collect(),
    };
    Ok((bytes, listed))
}

fn data_value(file: &DataFile) -> Value {
    let counts = |map: &BTreeMap<i32, i64>| pairs(map, |count| Value::Long(*count));
    let bounds = |map: &BTreeMap<i32, Vec<u8>>| pairs(map, |bytes| Value::Bytes(bytes.clone()));
    Value::Record(vec![
        Value::Long(DATA),
        Value::text(&file.path),
        Value::text("PARQUET"),
        Value::Record(file.partition.iter().map(|value| Value::Long(i64::from(*value))).collect()),
        Value::Long(file.rows as i64),
        Value::Long(file.bytes as i64),
        counts(&file.column_sizes),
        counts(&file.value_counts),
        counts(&file.null_counts),
        Value::Null,
        bounds(&file.lower),
        bounds(&file.upper),
        Value::Null,
        Value::Array(file.split_offsets.iter().map(|offset| Value::Long(*offset)).collect()),
        Value::Null,
        Value::Long(file.sort_order),
    ])
}

fn pairs<T>(map: &BTreeMap<i32, T>, value: impl Fn(&T) -> Value) -> Value {
    let pair = |(key, item): (&i32, &T)| Value::Record(vec![Value::Long(i64::from(*key)), value(item)]);
    Value::Array(map.iter().map(pair).collect())
}

/// Avro's schema of entries.
fn entry_schema(partitions: &[PartitionField]) -> Json {
    let optional = |name: &str, ty: Json, id: i64| json!({ "name": name, "type": ["null", ty], "default": null, "field-id": id });
    let required = |name: &str, ty: Json, id: i64| json!({ "name": name, "type": ty, "field-id": id });
    let map = |name: &str, ty: &str, id: i64, key: i64| {
        let fields = [required("key", json!("int"), key), required("value", json!(ty), key + 1)];
        let item = json!({ "type": "record", "name": format!("k{key}_v{}", key + 1), "fields": fields });
        optional(name, json!({ "type": "array", "items": item, "logicalType": "map" }), id)
    };
    let list = |name: &str, ty: &str, id: i64| {
        optional(name, json!({ "type": "array", "items": ty, "element-id": id + 1 }), id)
    };
    let partition: Vec<Json> = partitions
        .iter()
        .map(|field| {
            let is_day = field.transform == "day";
            let ty = if is_day { json!({ "type": "int", "logicalType": "date" }) } else { json!("int") };
            optional(&field.name, ty, field.id)
        })
        .collect();
    let data = json!({ "type": "record", "name": "r2", "fields": [
        required("content", json!("int"), 134),
        required("file_path", json!("string"), 100),
        required("file_format", json!("string"), 101),
        required("partition", json!({ "type": "record", "name": "r102", "fields": partition }), 102),
        required("record_count", json!("long"), 103),
        required("file_size_in_bytes", json!("long"), 104),
        map("column_sizes", "long", 108, 117),
        map("value_counts", "long", 109, 119),
        map("null_value_counts", "long", 110, 121),
        map("nan_value_counts", "long", 137, 138),
        map("lower_bounds", "bytes", 125, 126),
        map("upper_bounds", "bytes", 128, 129),
        optional("key_metadata", json!("bytes"), 131),
        list("split_offsets", "long", 132),
        list("equality_ids", "int", 135),
        optional("sort_order_id", json!("int"), 140),
    ] });
    json!({ "type": "record", "name": "manifest_entry", "fields": [
        required("status", json!("int"), entry::STATUS),
        optional("snapshot_id", json!("long"), entry::SNAPSHOT),
        optional("sequence_number", json!("long"), entry::SEQUENCE),
        optional("file_sequence_number", json!("long"), entry::FILE_SEQUENCE),
        required("data_file", data, entry::DATA_FILE),
    ] })
}

/// Numbers of a listed manifest's fields, in the order in which they are written.
const LIST: [(&str, &str, i64); 13] = [
    ("manifest_path", "string", 500),
    ("manifest_length", "long", 501),
    ("partition_spec_id", "int", 502),
    ("content", "int", 517),
    ("sequence_number", "long", 515),
    ("min_sequence_number", "long", 516),
    ("added_snapshot_id", "long", 503),
    ("added_files_count", "int", 504),
    ("existing_files_count", "int", 505),
    ("deleted_files_count", "int", 506),
    ("added_rows_count", "long", 512),
    ("existing_rows_count", "long", 513),
    ("deleted_rows_count", "long", 514),
];

fn list_schema() -> Json {
    let mut fields: Vec<Json> =
        LIST.iter().map(|(name, ty, id)| json!({ "name": name, "type": ty, "field-id": id })).collect();
    let optional = |name: &str, ty: &str, id: i64| json!({ "name": name, "type": ["null", ty], "default": null, "field-id": id });
    let summary = json!({ "type": "record", "name": "r508", "fields": [
        { "name": "contains_null", "type": "boolean", "field-id": 509 },
        optional("contains_nan", "boolean", 518),
        optional("lower_bound", "bytes", 510),
        optional("upper_bound", "bytes", 511),
    ] });
    let summaries = json!({ "type": "array", "items": summary, "element-id": 508 });
    fields
        .push(json!({ "name": "partitions", "type": ["null", summaries], "default": null, "field-id": 507 }));
    json!({ "type": "record", "name": "manifest_file", "fields": fields })
}

/// The manifests of a snapshot.
pub(crate) fn parse_list(bytes: &[u8]) -> Result<Vec<Listed>, String> {
    let AvroFile { schema, records, .. } = AvroFile::parse(bytes)?;
    if schema.place(500).is_none() {
        return Err("this is no list of manifests".into());
    }
    let listed = |record: &Value| {
        let number = |id| record.get(&schema, id).as_long();
        let partitions = match (record.get(&schema, 507), schema.part(507)) {
            (Value::Array(all), Some(Type::Array(ty))) => all.iter().map(|one| summary(one, ty)).collect(),
            _ => Vec::new(),
        };
        Listed {
            path: record.get(&schema, 500).as_text().unwrap_or_default().into(),
            length: number(501).unwrap_or(0),
            spec: number(502).unwrap_or(0),
            content: number(517).unwrap_or(DATA),
            sequence: number(515).unwrap_or(0),
            min_sequence: number(516).unwrap_or(0),
            snapshot: number(503).unwrap_or(0),
            files: [504, 505, 506].map(number),
            rows: [512, 513, 514].map(number),
            partitions,
        }
    };
    Ok(records.iter().map(listed).collect())
}

fn summary(value: &Value, ty: &Type) -> PartitionSummary {
    let truth = |id| match value.get(ty, id) {
        Value::Bool(truth) => Some(*truth),
        _ => None,
    };
    let bytes = |id| match value.get(ty, id) {
        Value::Bytes(bytes) => Some(bytes.clone()),
        _ => None,
    };
    PartitionSummary {
        has_null: truth(509).unwrap_or(true),
        has_nan: truth(518),
        lower: bytes(510),
        upper: bytes(511),
    }
}

/// The list of a snapshot's manifests, as a file.
pub(crate) fn list_bytes(
    manifests: &[Listed],
    (snapshot, parent, sequence): (i64, Option<i64>, i64),
) -> Result<Vec<u8>, String> {
    let assigned = |number: i64| if number == UNASSIGNED { sequence } else { number };
    let record = |one: &Listed| {
        let bytes = |bytes: &Option<Vec<u8>>| bytes.clone().map_or(Value::Null, Value::Bytes);
        let summary = |column: &PartitionSummary| {
            let nan = column.has_nan.map_or(Value::Null, Value::Bool);
            Value::Record(vec![Value::Bool(column.has_null), nan, bytes(&column.lower), bytes(&column.upper)])
        };
        let numbers = [
            one.length,
            one.spec,
            one.content,
            assigned(one.sequence),
            assigned(one.min_sequence),
            one.snapshot,
        ];
        let counts = one.files.iter().chain(&one.rows).map(|count| Value::Long(count.unwrap_or(0)));
        let values = std::iter::once(Value::text(&one.path)).chain(numbers.map(Value::Long)).chain(counts);
        let partitions = Value::Array(one.partitions.iter().map(summary).collect());
        Value::Record(values.chain([partitions]).collect())
    };
    let text = list_schema().to_string();
    let schema = Type::parse(text.as_bytes())?;
    let metadata = [
        ("avro.schema", text),
        ("snapshot-id", snapshot.to_string()),
        ("parent-snapshot-id", parent.map_or("null".into(), |parent| parent.to_string())),
        ("sequence-number", sequence.to_string()),
        ("format-version", "2".to_string()),
    ];
    let metadata = metadata.into_iter().map(|(key, value)| (key.to_string(), value.into_bytes())).collect();
    AvroFile { metadata, schema, records: manifests.iter().map(record).collect() }.to_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(day: i32) -> DataFile {
        DataFile {
            path: format!("file:///{day}"),
            partition: vec![day, 3],
            rows: 10,
            bytes: 100,
            lower: BTreeMap::from([(1, vec![1])]),
            split_offsets: vec![4],
            sort_order: 1,
            ..DataFile::default()
        }
    }

    #[test]
    fn files_are_added_and_deleted() {
        let schema = Schema { id: 0, fields: Vec::new() };
        let field = |id, transform: &str| PartitionField {
            source: 1,
            id,
            name: format!("p{id}"),
            transform: transform.into(),
        };
        let partitions = [field(1000, "day"), field(1001, "bucket[4]")];
        let (bytes, listed) = added(&[file(5), file(6)], (&schema, 0, &partitions), 77, "m0").unwrap();
        assert_eq!((listed.length as usize, listed.rows), (bytes.len(), [Some(20), Some(0), Some(0)]));
        assert_eq!(listed.partitions[0].lower, Some(5i32.to_le_bytes().to_vec()));
        let list = list_bytes(&[listed], (77, None, 4)).unwrap();
        let listed = parse_list(&list).unwrap().remove(0);
        assert_eq!((listed.sequence, listed.min_sequence, listed.snapshot, listed.content), (4, 4, 77, DATA));
        let manifest = Manifest::parse(&bytes).unwrap();
        let entries = manifest.alive(&listed);
        assert_eq!(entries.iter().map(|entry| entry.day).collect::<Vec<_>>(), [Some(5), Some(6)]);
        assert_eq!((entries[0].sequence, entries[0].snapshot, entries[0].rows), (4, 77, 10));
        let marked: Vec<_> = entries.into_iter().map(|entry| (entry.clone(), entry.day == Some(5))).collect();
        let (bytes, listed) = manifest.without(&listed, &marked, 88, "m1").unwrap();
        assert_eq!(listed.files, [Some(0), Some(1), Some(1)]);
        let list = list_bytes(&[listed], (88, Some(77), 5)).unwrap();
        let listed = parse_list(&list).unwrap().remove(0);
        assert_eq!((listed.sequence, listed.min_sequence), (5, 4));
        let left = Manifest::parse(&bytes).unwrap().alive(&listed);
        assert_eq!((left.len(), left[0].day, left[0].sequence, left[0].snapshot), (1, Some(6), 4, 77));
        assert!(Manifest::parse(&list).is_err() && parse_list(&bytes).is_err());
    }
}
