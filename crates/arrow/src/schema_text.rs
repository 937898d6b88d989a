//! Record types for the columns of a table.

use crate::error::Error;
use arrow_schema::{DataType, Field, Schema};
use std::fmt::Write;

/// The schema text of a message type of that name with the columns of a table as fields, but for `ignored` ones, which are columns of the
/// header. It is not checked: names of columns may be no names of fields.
///
/// # Errors
/// For a column of a type that no field has.
pub fn schema_text(schema: &Schema, name: &str, ignored: &[&str]) -> Result<String, Error> {
    let mut text = String::new();
    // A header's column has a longer name where there is a field of the usual one.
    let has = |name: &str| schema.field_with_name(name).is_ok();
    let is_header = |name: &str| match name.strip_prefix("message_") {
        Some(usual) if ignored.contains(&usual) && has(usual) => true,
        _ => ignored.contains(&name) && !has(&format!("message_{name}")),
    };
    let fields: Vec<&Field> =
        schema.fields().iter().map(|field| field.as_ref()).filter(|field| !is_header(field.name())).collect();
    record(&mut text, "message", name, &fields)?;
    Ok(text)
}

/// Writes a record type, behind those that are nested in it.
fn record(text: &mut String, kind: &str, name: &str, fields: &[&Field]) -> Result<(), Error> {
    let mut lines = String::new();
    for field in fields {
        let ty = type_of(text, &format!("{name}_{}", field.name()), field)?;
        let nullable = if field.is_nullable() { "?" } else { "" };
        let _ = writeln!(lines, "    {}: {ty}{nullable},", field.name());
    }
    let _ = writeln!(text, "{kind} {name} {{\n{lines}}}");
    Ok(())
}

fn type_of(text: &mut String, nested: &str, field: &Field) -> Result<String, Error> {
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
            return Err(Error::schema(field.name(), what));
        }
    })
}
