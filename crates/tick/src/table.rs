//! Tables: their columns, and the schema of their streams.
//!
//! The first two columns of every table are `time` and `sym`, as in kdb+tick: a message's time and symbol. The others are
//! the fields of the one message type that the table's stream has, in their order.

use crate::error::TickError;
use crate::kind::Kind;
use tapedb_schema::{EnumType, FieldType, RecordType, Scalar, Schema};

/// Name of every table's first column.
pub const TIME: &str = "time";
/// Name of every table's second column.
pub const SYM: &str = "sym";
/// The symbol for kdb+'s empty one, because a message needs a symbol: no symbol of kdb+ has a zero byte.
pub const NO_SYMBOL: &str = "\0";

/// One column of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnDef {
    /// Name, unique in the table.
    pub name: String,
    /// The type in the stream; for `time` a timestamp, for `sym` a string.
    pub ty: FieldType,
    /// Whether the stream has nulls of it.
    pub nullable: bool,
    /// Its type for clients that speak kdb+.
    pub kind: Kind,
}

/// A table of a plant.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    name: String,
    columns: Vec<ColumnDef>,
    record: RecordType,
    enums: Vec<EnumType>,
}

impl Table {
    /// The table that a stream of this schema is: of its one message type.
    ///
    /// # Errors
    /// [`TickError::Definition`] for a schema with several message types, or with fields that are no columns.
    pub fn of_schema(schema: &Schema) -> Result<Self, TickError> {
        let mut tables = Self::all_of_schema(schema)?;
        match (tables.pop(), tables.is_empty()) {
            (Some(table), true) => Ok(table),
            _ => refused("the stream of a table has one message type; give each its own stream"),
        }
    }

    /// A table for each message type of a schema.
    ///
    /// # Errors
    /// [`TickError::Definition`] for fields that are no columns.
    pub fn all_of_schema(schema: &Schema) -> Result<Vec<Self>, TickError> {
        let messages = schema.records.iter().filter(|record| record.message);
        messages.map(|record| Self::of_record(record, &schema.enums)).collect()
    }

    fn of_record(record: &RecordType, enums: &[EnumType]) -> Result<Self, TickError> {
        let named = |field: &tapedb_schema::Field| matches!(&field.ty, FieldType::Enum(name) if enums.iter().any(|e| e.name == *name));
        let mut columns = vec![time_column(record), sym_column()];
        for field in &record.fields {
            let is_sound = !matches!(field.ty, FieldType::Enum(_)) || named(field);
            let Some(kind) = Kind::of_field(field).filter(|_| is_sound) else {
                let name = format!("{}.{}", record.name, field.name);
                return refused(format!(
                    "{name} is an array or a record, which no column holds; give each of its fields a column, or keep it in a stream beside the plant"
                ));
            };
            let (name, ty, nullable) = (field.name.clone(), field.ty.clone(), field.nullable);
            columns.push(ColumnDef { name, ty, nullable, kind });
        }
        if columns[2..].iter().any(|column| column.name == SYM) {
            return refused(format!(
                "{}: every table has a column sym; leave it out of the fields",
                record.name
            ));
        }
        let used =
            |e: &&EnumType| record.fields.iter().any(|field| field.ty == FieldType::Enum(e.name.clone()));
        let enums = enums.iter().filter(used).cloned().collect();
        Ok(Self { name: record.name.clone(), columns, record: record.clone(), enums })
    }

    /// A table of these kdb+ columns, after `time`, which is of the kind `time`, and `sym`.
    ///
    /// # Errors
    /// [`TickError::Definition`] for names that are invalid in a schema, such as `type` and duplicates.
    pub fn of_kinds(name: &str, time: Kind, columns: &[(String, Kind)]) -> Result<Self, TickError> {
        if !time.is_time() {
            return refused(format!(
                "{name}: the first column, time, is a {}; it must be a time",
                time.name()
            ));
        }
        let fields = columns.iter().map(|(name, kind)| kind.field(name)).collect();
        let doc = if time == Kind::Timestamp { String::new() } else { time_line(time) };
        let record = RecordType { name: name.into(), message: true, fields, doc };
        let schema = Schema { enums: Vec::new(), records: vec![record] };
        schema.validate().map_err(|error| TickError::Definition { line: 0, what: error.to_string() })?;
        Self::of_schema(&schema)
    }

    /// The same under another name: a table has the name of its stream.
    pub(crate) fn named(self, name: &str) -> Self {
        Self { name: name.into(), ..self }
    }

    /// Name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Name of the message type of its stream.
    pub(crate) fn record_name(&self) -> &str {
        &self.record.name
    }

    /// All columns: `time`, `sym`, and those of the fields.
    pub fn columns(&self) -> &[ColumnDef] {
        &self.columns
    }

    /// Index of the column of that name.
    ///
    /// # Errors
    /// [`TickError::NoColumn`].
    pub fn column(&self, name: &str) -> Result<usize, TickError> {
        self.columns.iter().position(|column| column.name == name).ok_or_else(|| TickError::NoColumn {
            table: self.name.clone(),
            name: name.into(),
            known: self.columns.iter().map(|column| column.name.clone()).collect(),
        })
    }

    /// Kind of `time`.
    pub fn time_kind(&self) -> Kind {
        self.columns[0].kind
    }

    /// The symbols of an enum's column, by ordinal; none for other columns.
    pub(crate) fn enum_symbols(&self, ty: &FieldType) -> Vec<String> {
        let FieldType::Enum(name) = ty else { return Vec::new() };
        let found = self.enums.iter().find(|e| e.name == *name);
        found.map(|e| e.symbols.iter().map(|(symbol, _)| symbol.clone()).collect()).unwrap_or_default()
    }

    /// The schema of its stream.
    pub fn schema(&self) -> Schema {
        Schema { enums: self.enums.clone(), records: vec![self.record.clone()] }
    }
}

fn refused<T>(what: impl Into<String>) -> Result<T, TickError> {
    Err(TickError::Definition { line: 0, what: what.into() })
}

/// The line of a record's documentation with the kind of its time.
fn time_line(kind: Kind) -> String {
    format!("{TIME} {}", kind.line())
}

fn time_column(record: &RecordType) -> ColumnDef {
    let named = record.doc.lines().find_map(|line| Kind::of_doc(line.trim().strip_prefix(TIME)?));
    let kind = named.filter(|kind| kind.is_time()).unwrap_or(Kind::Timestamp);
    ColumnDef { name: TIME.into(), ty: FieldType::Scalar(Scalar::Timestamp), nullable: false, kind }
}

fn sym_column() -> ColumnDef {
    ColumnDef { name: SYM.into(), ty: FieldType::String, nullable: false, kind: Kind::Symbol }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_go_through_the_text_of_the_schema() {
        let columns =
            [("price".to_string(), Kind::Float), ("day".into(), Kind::Date), ("ex".into(), Kind::Symbol)];
        let table = Table::of_kinds("trade", Kind::Timespan, &columns).unwrap();
        let text = table.schema().to_string();
        assert_eq!(Table::of_schema(&text.parse().unwrap()).unwrap(), table, "{text}");
        let kinds: Vec<_> = table.columns().iter().map(|column| column.kind).collect();
        assert_eq!(kinds, [Kind::Timespan, Kind::Symbol, Kind::Float, Kind::Date, Kind::Symbol]);
    }

    #[test]
    fn what_is_no_column_is_named() {
        let schema: Schema = "message Book { levels: array<f64> }".parse().unwrap();
        assert!(Table::of_schema(&schema).unwrap_err().to_string().contains("Book.levels"));
        let schema: Schema = "message A { sym: string } message B { x: f64 }".parse().unwrap();
        assert!(Table::all_of_schema(&schema).unwrap_err().to_string().contains("sym"));
        assert!(Table::of_kinds("t", Kind::Long, &[]).is_err());
        assert!(Table::of_kinds("t", Kind::Time, &[("type".into(), Kind::Long)]).is_err());
    }
}
