//! Schemas: texts checked, and Arrow's as TapeDB's.

use crate::failure::Failure;
use arrow_schema::{DataType, Field};
use pyo3::prelude::*;
use pyo3_arrow::PySchema;
use pyo3_arrow::input::AnyRecordBatch;
use std::fmt::Write;
use tapedb_engine::Error;
use tapedb_schema::Schema;

/// The canonical text of a schema, which is checked.
#[pyfunction]
pub fn check_schema(text: &str) -> PyResult<String> {
    let schema: Schema = text.parse().map_err(Error::from).map_err(Failure::from)?;
    schema.validate().map_err(Error::from).map_err(Failure::from)?;
    Ok(schema.to_string())
}

/// The schema text of a message type with the fields of an Arrow schema, but for `ignored` ones.
#[pyfunction]
pub fn schema_of_arrow(schema: &Bound<'_, PyAny>, name: &str, ignored: Vec<String>) -> PyResult<String> {
    let schema = match schema.extract::<PySchema>() {
        Ok(schema) => schema.into_inner(),
        // A table: it has the schema of its columns.
        Err(error) => schema.extract::<AnyRecordBatch>().map_err(|_| error)?.schema()?,
    };
    let mut text = String::new();
    // A header's column has a longer name where there is a field of the usual one.
    let has = |name: &str| schema.field_with_name(name).is_ok();
    let is_header = |name: &String| match name.strip_prefix("message_") {
        Some(usual) if ignored.iter().any(|name| name == usual) && has(usual) => true,
        _ => ignored.contains(name) && !has(&format!("message_{name}")),
    };
    let fields: Vec<&Field> =
        schema.fields().iter().map(|field| field.as_ref()).filter(|field| !is_header(field.name())).collect();
    record(&mut text, "message", name, &fields)?;
    check_schema(&text)
}

/// Writes a record type, behind those that are nested in it.
fn record(text: &mut String, kind: &str, name: &str, fields: &[&Field]) -> Result<(), Failure> {
    let mut lines = String::new();
    for field in fields {
        let ty = type_of(text, &format!("{name}_{}", field.name()), field)?;
        let nullable = if field.is_nullable() { "?" } else { "" };
        let _ = writeln!(lines, "    {}: {ty}{nullable},", field.name());
    }
    let _ = writeln!(text, "{kind} {name} {{\n{lines}}}");
    Ok(())
}

fn type_of(text: &mut String, nested: &str, field: &Field) -> Result<String, Failure> {
    use DataType as T;
    let is_bits = field.metadata().get("tapedb.type").is_some_and(|ty| ty == "decimal64");
    Ok(match field.data_type() {
        T::UInt64 if is_bits => "decimal64".into(),
        T::Boolean => "bool".into(),
        T::Int8 => "i8".into(),
        T::Int16 => "i16".into(),
        T::Int32 => "i32".into(),
        T::Int64 => "i64".into(),
        T::UInt8 => "u8".into(),
        T::UInt16 => "u16".into(),
        T::UInt32 => "u32".into(),
        T::UInt64 => "u64".into(),
        T::Float16 | T::Float32 => "f32".into(),
        T::Float64 => "f64".into(),
        T::Decimal32(digits, scale) | T::Decimal64(digits, scale) | T::Decimal128(digits, scale)
            if *digits <= 18 && (0..=18).contains(scale) =>
        {
            format!("decimal(18,{scale})")
        }
        T::Decimal32(..) | T::Decimal64(..) | T::Decimal128(..) => "decimal64".into(),
        T::Timestamp(..) | T::Date32 | T::Date64 => "timestamp".into(),
        T::Time32(_) | T::Time64(_) => "time_of_day".into(),
        T::Utf8 | T::LargeUtf8 | T::Utf8View => "string".into(),
        T::Binary | T::LargeBinary | T::BinaryView | T::FixedSizeBinary(_) => "binary".into(),
        T::Dictionary(_, value) => type_of(text, nested, &Field::new(field.name(), (**value).clone(), true))?,
        T::List(item) | T::LargeList(item) | T::FixedSizeList(item, _) => {
            let ty = type_of(text, nested, item)?;
            format!("array<{ty}{}>", if item.is_nullable() { "?" } else { "" })
        }
        T::Struct(fields) => {
            let fields: Vec<&Field> = fields.iter().map(|field| field.as_ref()).collect();
            record(text, "record", nested, &fields)?;
            format!("record<{nested}>")
        }
        other => {
            let what = format!("Arrow's type {other} has no counterpart in TapeDB; convert the column first");
            return Err(Failure::mismatch(field.name(), what));
        }
    })
}
