//! Texts and binaries as views: rows that share a text share its bytes, as they do in the file. Otherwise a page of a few bytes may
//! become gigabytes.

use arrow_schema::{DataType, FieldRef, Fields, Schema, SchemaRef};
use std::sync::Arc;

/// The schema with views in place of texts, binaries and dictionaries of them.
pub fn schema(schema: &Schema) -> SchemaRef {
    let fields: Fields = schema.fields().iter().map(field).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

fn field(field: &FieldRef) -> FieldRef {
    Arc::new(field.as_ref().clone().with_data_type(view(field.data_type())))
}

fn view(ty: &DataType) -> DataType {
    match ty {
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
        DataType::Dictionary(_, values) => match view(values) {
            texts @ (DataType::Utf8View | DataType::BinaryView) => texts,
            _ => ty.clone(),
        },
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(field).collect()),
        DataType::List(item) => DataType::List(field(item)),
        DataType::LargeList(item) => DataType::LargeList(field(item)),
        DataType::FixedSizeList(item, length) => DataType::FixedSizeList(field(item), *length),
        other => other.clone(),
    }
}
