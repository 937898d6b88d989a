//! Checkpoints: all that a table is after a version, as rows of a Parquet file, one for each action.

use arrow_array::builder::{BooleanBuilder, Int32Builder, Int64Builder, StringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, ListArray, MapArray, RecordBatch, StructArray};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field, Fields, Schema};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use serde_json::{Map, Value as Json};
use std::sync::Arc;

/// Versions between two checkpoints.
pub(crate) const INTERVAL: u64 = 10;

/// The kinds of actions, and their fields.
fn schema() -> Schema {
    let text = |name| Field::new(name, DataType::Utf8, true);
    let long = |name| Field::new(name, DataType::Int64, true);
    let int = |name| Field::new(name, DataType::Int32, true);
    let flag = |name| Field::new(name, DataType::Boolean, true);
    let map = |name| Field::new(name, map_type(), true);
    let record = |name, fields: Vec<Field>| Field::new(name, DataType::Struct(fields.into()), true);
    let list = DataType::List(Arc::new(Field::new("element", DataType::Utf8, true)));
    Schema::new(vec![
        record("txn", vec![text("appId"), long("version"), long("lastUpdated")]),
        record(
            "add",
            vec![
                text("path"),
                map("partitionValues"),
                long("size"),
                long("modificationTime"),
                flag("dataChange"),
                text("stats"),
                map("tags"),
            ],
        ),
        record(
            "remove",
            vec![
                text("path"),
                long("deletionTimestamp"),
                flag("dataChange"),
                flag("extendedFileMetadata"),
                map("partitionValues"),
                long("size"),
            ],
        ),
        record(
            "metaData",
            vec![
                text("id"),
                text("name"),
                text("description"),
                record("format", vec![text("provider"), map("options")]),
                text("schemaString"),
                Field::new("partitionColumns", list, true),
                map("configuration"),
                long("createdTime"),
            ],
        ),
        record("protocol", vec![int("minReaderVersion"), int("minWriterVersion")]),
    ])
}

fn map_type() -> DataType {
    let entries = Fields::from(vec![
        Field::new("key", DataType::Utf8, false),
        Field::new("value", DataType::Utf8, true),
    ]);
    DataType::Map(Arc::new(Field::new("key_value", DataType::Struct(entries), false)), false)
}

/// The file of some actions.
pub(crate) fn write(actions: &[Json]) -> Result<Vec<u8>, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let schema = Arc::new(schema());
    let columns = schema.fields().iter().map(|field| {
        let bodies: Vec<Option<&Json>> = actions.iter().map(|action| action.get(field.name())).collect();
        array_of(field.data_type(), &bodies)
    });
    let columns = columns.collect::<Option<Vec<_>>>().ok_or("an action does not fit")?;
    let batch = RecordBatch::try_new(schema.clone(), columns).map_err(|error| text(&error))?;
    let level = ZstdLevel::try_new(3).map_err(|error| text(&error))?;
    let properties = WriterProperties::builder().set_compression(Compression::ZSTD(level)).build();
    let mut bytes = Vec::new();
    let mut writer =
        ArrowWriter::try_new(&mut bytes, schema, Some(properties)).map_err(|error| text(&error))?;
    writer.write(&batch).and_then(|()| writer.close()).map_err(|error| text(&error))?;
    Ok(bytes)
}

/// Values of a type; what has another type is null.
fn array_of(ty: &DataType, values: &[Option<&Json>]) -> Option<ArrayRef> {
    Some(match ty {
        DataType::Boolean => {
            let mut builder = BooleanBuilder::new();
            values.iter().for_each(|value| builder.append_option(value.and_then(Json::as_bool)));
            Arc::new(builder.finish())
        }
        DataType::Int32 => {
            let mut builder = Int32Builder::new();
            let int = |value: &Json| i32::try_from(value.as_i64()?).ok();
            values.iter().for_each(|value| builder.append_option(value.and_then(int)));
            Arc::new(builder.finish())
        }
        DataType::Int64 => {
            let mut builder = Int64Builder::new();
            values.iter().for_each(|value| builder.append_option(value.and_then(Json::as_i64)));
            Arc::new(builder.finish())
        }
        DataType::Utf8 => {
            let mut builder = StringBuilder::new();
            values.iter().for_each(|value| builder.append_option(value.and_then(Json::as_str)));
            Arc::new(builder.finish())
        }
        DataType::Struct(fields) => {
            let nulls: NullBuffer = values.iter().map(|value| value.is_some_and(Json::is_object)).collect();
            let columns = fields.iter().map(|field| {
                let parts: Vec<_> =
                    values.iter().map(|value| value.and_then(|value| value.get(field.name()))).collect();
                array_of(field.data_type(), &parts)
            });
            Arc::new(StructArray::try_new(fields.clone(), columns.collect::<Option<_>>()?, Some(nulls)).ok()?)
        }
        DataType::List(item) => {
            let lists: Vec<_> = values.iter().map(|value| value.and_then(Json::as_array)).collect();
            let parts: Vec<_> = lists.iter().flatten().flat_map(|list| list.iter().map(Some)).collect();
            let lengths = lists.iter().map(|list| list.map_or(0, Vec::len));
            let nulls: NullBuffer = lists.iter().map(Option::is_some).collect();
            let parts = array_of(item.data_type(), &parts)?;
            Arc::new(
                ListArray::try_new(item.clone(), OffsetBuffer::from_lengths(lengths), parts, Some(nulls))
                    .ok()?,
            )
        }
        DataType::Map(entry, _) => {
            let DataType::Struct(fields) = entry.data_type() else { return None };
            let maps: Vec<_> = values.iter().map(|value| value.and_then(Json::as_object)).collect();
            let (mut keys, mut texts) = (StringBuilder::new(), StringBuilder::new());
            for (key, value) in maps.iter().flatten().flat_map(|map| map.iter()) {
                keys.append_value(key);
                texts.append_option(value.as_str());
            }
            let columns: Vec<ArrayRef> = vec![Arc::new(keys.finish()), Arc::new(texts.finish())];
            let entries = StructArray::try_new(fields.clone(), columns, None).ok()?;
            let lengths = maps.iter().map(|map| map.map_or(0, Map::len));
            let nulls: NullBuffer = maps.iter().map(Option::is_some).collect();
            let offsets = OffsetBuffer::from_lengths(lengths);
            Arc::new(MapArray::try_new(entry.clone(), offsets, entries, Some(nulls), false).ok()?)
        }
        _ => return None,
    })
}

/// The actions of a file.
pub(crate) fn read(bytes: Vec<u8>) -> Result<Vec<Json>, String> {
    let failed = |error: parquet::errors::ParquetError| error.to_string();
    let reader = ParquetRecordBatchReaderBuilder::try_new(bytes::Bytes::from(bytes)).map_err(failed)?;
    let reader = reader.build().map_err(failed)?;
    let mut actions = Vec::new();
    for batch in reader {
        let batch = batch.map_err(|error| error.to_string())?;
        let schema = batch.schema();
        for row in 0..batch.num_rows() {
            let mut columns = schema.fields().iter().zip(batch.columns());
            let action = columns.find_map(|(field, column)| {
                let body = json_of(column, row).filter(Json::is_object)?;
                Some(Json::Object(Map::from_iter([(field.name().clone(), body)])))
            });
            actions.extend(action);
        }
    }
    Ok(actions)
}

/// A value; `None`: it is null, or has a type that is not needed.
fn json_of(array: &dyn Array, row: usize) -> Option<Json> {
    if array.is_null(row) {
        return None;
    }
    Some(match array.data_type() {
        DataType::Boolean => array.as_boolean().value(row).into(),
        DataType::Int32 => array.as_primitive::<Int32Type>().value(row).into(),
        DataType::Int64 => array.as_primitive::<Int64Type>().value(row).into(),
        DataType::Utf8 => array.as_string::<i32>().value(row).into(),
        DataType::LargeUtf8 => array.as_string::<i64>().value(row).into(),
        DataType::Utf8View => array.as_string_view().value(row).into(),
        DataType::Struct(fields) => {
            let columns = fields.iter().zip(array.as_struct().columns());
            // Others repeat statistics in columns of their own types.
            let columns = columns.filter(|(field, _)| !field.name().ends_with("_parsed"));
            let parts =
                columns.filter_map(|(field, column)| Some((field.name().clone(), json_of(column, row)?)));
            Json::Object(parts.collect())
        }
        DataType::List(_) => list_of(&array.as_list::<i32>().value(row)),
        DataType::LargeList(_) => list_of(&array.as_list::<i64>().value(row)),
        DataType::Map(..) => {
            let entries = array.as_map().value(row);
            let (keys, values) = (entries.column(0), entries.column(1));
            let pair = |entry| {
                let key = json_of(keys, entry)?.as_str()?.to_string();
                Some((key, json_of(values, entry).unwrap_or(Json::Null)))
            };
            Json::Object((0..entries.len()).filter_map(pair).collect())
        }
        _ => return None,
    })
}

fn list_of(values: &dyn Array) -> Json {
    Json::Array((0..values.len()).filter_map(|entry| json_of(values, entry)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn actions_and_back() {
        let actions = vec![
            json!({ "protocol": { "minReaderVersion": 1, "minWriterVersion": 2 } }),
            json!({ "metaData": { "id": "x", "format": { "provider": "parquet", "options": {} }, "schemaString": "s",
                "partitionColumns": ["a", "b"], "configuration": { "k": "v" }, "createdTime": 5 } }),
            json!({ "txn": { "appId": "a", "version": -3 } }),
            json!({ "add": { "path": "p", "partitionValues": { "d": null, "e": "f" }, "size": 1, "modificationTime": 2,
                "dataChange": false, "stats": "{}" } }),
            json!({ "remove": { "path": "p", "deletionTimestamp": 3, "dataChange": false } }),
        ];
        assert_eq!(read(write(&actions).unwrap()).unwrap(), actions);
        assert!(read(vec![1, 2, 3]).is_err());
        assert_eq!(read(write(&[]).unwrap()).unwrap(), Vec::<Json>::new());
    }
}
