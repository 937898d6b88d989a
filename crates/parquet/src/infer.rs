//! A schema for files that come from elsewhere.

use arrow_schema::{DataType, Field as Column, Schema as Columns, TimeUnit};
use tapedb_schema::{ElementType, Field, FieldType, MAX_SCALE, RecordType, Scalar, Schema};

/// A schema with one message type `record`, whose fields are the columns but for `time` and `symbol`.
///
/// Whole numbers and floats keep their types, decimals of up to 18 digits are `decimal(18,s)` and longer ones `decimal64`, texts are
/// `string`, lists arrays, and structs records named after their columns. What may be null there may be null here.
///
/// # Errors
/// For a column that is missing, of a type that has no counterpart, or whose name cannot be a field's.
pub fn schema(columns: &Columns, record: &str, time: &str, symbol: &str) -> Result<Schema, String> {
    for name in [time, symbol] {
        if columns.index_of(name).is_err() {
            let names: Vec<&str> = columns.fields().iter().map(|column| column.name().as_str()).collect();
            return Err(format!("there is no column {name:?}; there are {}", names.join(", ")));
        }
    }
    let mut inference = Inference::default();
    let mut fields = Vec::new();
    let is_field = |column: &&std::sync::Arc<Column>| {
        let name = column.name().as_str();
        name != time && name != symbol
    };
    for column in columns.fields().iter().filter(is_field) {
        fields.push(inference.field(column, &format!("{record}_{}", column.name()))?);
    }
    let message = RecordType { name: record.into(), message: true, fields, doc: String::new() };
    inference.records.push(message);
    let schema = Schema { enums: Vec::new(), records: inference.records };
    schema.validate().map_err(|error| format!("no schema can be made of the columns: {error}"))?;
    Ok(schema)
}

/// The nested records found.
#[derive(Default)]
struct Inference {
    records: Vec<RecordType>,
}

impl Inference {
    /// The field of a column; `path` names its record type, if it is a struct.
    fn field(&mut self, column: &Column, path: &str) -> Result<Field, String> {
        Ok(Field {
            name: column.name().clone(),
            ty: self.field_type(column, path)?,
            nullable: column.is_nullable(),
            default: None,
            aliases: Vec::new(),
            doc: String::new(),
        })
    }

    fn field_type(&mut self, column: &Column, path: &str) -> Result<FieldType, String> {
        use DataType as T;
        let scalar = FieldType::Scalar;
        Ok(match column.data_type() {
            T::Boolean => scalar(Scalar::Bool),
            T::Int8 => scalar(Scalar::I8),
            T::Int16 => scalar(Scalar::I16),
            T::Int32 => scalar(Scalar::I32),
            T::Int64 => scalar(Scalar::I64),
            T::UInt8 => scalar(Scalar::U8),
            T::UInt16 => scalar(Scalar::U16),
            T::UInt32 => scalar(Scalar::U32),
            T::UInt64 => scalar(Scalar::U64),
            T::Float32 => scalar(Scalar::F32),
            T::Float64 => scalar(Scalar::F64),
            T::Decimal32(_, scale) | T::Decimal64(_, scale) | T::Decimal128(_, scale) => {
                scalar(decimal(column.data_type(), *scale))
            }
            T::Timestamp(..) => scalar(Scalar::Timestamp),
            T::Time32(TimeUnit::Second | TimeUnit::Millisecond) | T::Time64(_) => scalar(Scalar::TimeOfDay),
            T::Utf8 | T::LargeUtf8 | T::Utf8View => FieldType::String,
            T::Binary | T::LargeBinary | T::BinaryView | T::FixedSizeBinary(_) => FieldType::Binary,
            T::Dictionary(_, values) => {
                let values = Column::new(column.name(), (**values).clone(), true);
                self.field_type(&values, path)?
            }
            T::List(item) | T::LargeList(item) | T::FixedSizeList(item, _) => {
                let ty = self.field_type(item, path)?;
                FieldType::Array(Box::new(ElementType { ty, nullable: item.is_nullable() }))
            }
            T::Struct(columns) => {
                let fields = columns.iter().map(|part| self.field(part, &format!("{path}_{}", part.name())));
                let fields = fields.collect::<Result<Vec<_>, _>>()?;
                let name = path.to_string();
                self.records.push(RecordType { name, message: false, fields, doc: String::new() });
                FieldType::Record(vec![path.into()])
            }
            other => {
                let name = column.name();
                return Err(format!(
                    "column {name:?} is of type {other}, which no field has; convert it, or leave it out of the file"
                ));
            }
        })
    }
}

/// Decimals of up to 18 digits fit an `i64` of their scale.
fn decimal(ty: &DataType, scale: i8) -> Scalar {
    let digits = match ty {
        DataType::Decimal32(digits, _) | DataType::Decimal64(digits, _) | DataType::Decimal128(digits, _) => {
            *digits
        }
        _ => u8::MAX,
    };
    match u8::try_from(scale) {
        Ok(scale) if digits <= 18 && scale <= MAX_SCALE => Scalar::Decimal(scale),
        _ => Scalar::Decimal64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn inferred(columns: Vec<Column>) -> Result<Schema, String> {
        let text = |name: &str| Column::new(name, DataType::Utf8, true);
        let time = Column::new("ts", DataType::Timestamp(TimeUnit::Microsecond, None), true);
        let columns = [vec![time, text("ticker")], columns].concat();
        schema(&Columns::new(columns), "Quote", "ts", "ticker")
    }

    #[test]
    fn columns_become_fields() {
        let dictionary = DataType::Dictionary(Box::new(DataType::UInt32), Box::new(DataType::LargeUtf8));
        let level = DataType::Struct(
            vec![Column::new("price", DataType::Float64, true), Column::new("size", DataType::Int64, false)]
                .into(),
        );
        let levels = DataType::List(Arc::new(Column::new("item", level, false)));
        let found = inferred(vec![
            Column::new("price", DataType::Decimal128(18, 4), false),
            Column::new("wide", DataType::Decimal128(38, 9), true),
            Column::new("venue", dictionary, true),
            Column::new("levels", levels, false),
        ]);
        let expected = "record Quote_levels { price: f64?, size: i64 }
            message Quote { price: decimal(18,4), wide: decimal64?, venue: string?, levels: array<record<Quote_levels>> }";
        assert_eq!(found.unwrap(), expected.parse().unwrap());
    }

    /// Sequence numbers of a venue are not those of the stream.
    #[test]
    fn columns_with_the_names_of_header_columns_are_fields_too() {
        let found = inferred(vec![
            Column::new("sequence", DataType::UInt32, false),
            Column::new("stream", DataType::Utf8, true),
        ]);
        assert_eq!(found.unwrap(), "message Quote { sequence: u32, stream: string? }".parse().unwrap());
    }

    #[test]
    fn what_cannot_be_a_field_is_named() {
        let error = inferred(vec![Column::new("day", DataType::Date32, true)]).unwrap_err();
        assert!(error.starts_with("column \"day\" is of type Date32"), "{error}");
        let error = inferred(vec![Column::new("best bid", DataType::Float64, true)]).unwrap_err();
        assert!(error.contains("best bid"), "{error}");
        let error = schema(&Columns::empty(), "Quote", "ts", "ticker").unwrap_err();
        assert!(error.contains("no column \"ts\""), "{error}");
    }
}
