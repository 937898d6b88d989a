//! A schema for a file of which no stream has one.

use super::file::TableFile;
use super::mapping::TableOptions;
use super::times::{Times, is_number};
use crate::error::{ImportError, excerpt};
use csv::ByteRecord;
use tapedb_schema::{Decimal64, Field, FieldType, RecordType, Scalar, Schema};

/// Rows that a schema is made of.
pub const ROWS_LOOKED_AT: usize = 100_000;

/// What all cells of a column can be.
#[derive(Debug, Clone)]
struct Candidates {
    bool: bool,
    integer: bool,
    decimal: bool,
    time: bool,
    /// There was a cell that is not empty.
    any: bool,
    times: Times,
}

/// A schema with one message type `record` of the file's columns but for time and symbol, as its first [`ROWS_LOOKED_AT`] rows show them:
/// `bool`, `i64`, `decimal64`, `timestamp` for texts of times, `string` for everything else. Every field may be null.
///
/// # Errors
/// As [`TableRows::open`](super::TableRows::open); [`ImportError::Line`] for a row whose time cannot be read.
pub fn infer_schema(file: &TableFile, options: &TableOptions, record: &str) -> Result<Schema, ImportError> {
    let mut records = file.records(options.delimiter)?;
    let header = options.header(&mut records)?;
    let mut times = options.times(&records)?;
    let first =
        Candidates { bool: true, integer: true, decimal: true, time: true, any: false, times: times.clone() };
    let mut columns = vec![first; header.fields.len()];
    let (mut row, mut seen) = (ByteRecord::new(), 0);
    while seen < ROWS_LOOKED_AT && records.next(&mut row)? {
        let cell = |at: usize| std::str::from_utf8(row.get(at).unwrap_or_default()).unwrap_or("\u{fffd}");
        let time = match header.date {
            Some(date) => times.parse_parts(cell(date), cell(header.time)),
            None => times.parse(cell(header.time)),
        };
        if let (Err(expected), 0) = (time, seen) {
            let excerpt = excerpt(cell(header.time).as_bytes(), 0);
            return Err(ImportError::Line { place: records.place.clone(), expected, excerpt });
        }
        for (column, (at, _)) in columns.iter_mut().zip(&header.fields) {
            column.see(cell(*at));
        }
        seen += 1;
    }
    let wrong = |reason: String| ImportError::WrongFormat { path: file.path.clone(), reason };
    let field = |(column, (_, name)): (&Candidates, &(usize, String))| Field {
        name: name.clone(),
        ty: column.field_type(),
        nullable: true,
        default: None,
        aliases: Vec::new(),
        doc: String::new(),
    };
    let fields = columns.iter().zip(&header.fields).map(field).collect();
    let message = RecordType { name: record.into(), message: true, fields, doc: String::new() };
    let schema = Schema { enums: Vec::new(), records: vec![message] };
    schema.validate().map_err(|error| {
        wrong(format!("no schema can be made of the columns: {error}; rename with --map"))
    })?;
    Ok(schema)
}

impl Candidates {
    fn see(&mut self, cell: &str) {
        if cell.is_empty() {
            return;
        }
        self.any = true;
        let text = cell.trim_ascii();
        self.bool &= matches!(text.to_ascii_lowercase().as_str(), "true" | "false");
        self.integer &= !is_code(text) && text.parse::<i64>().is_ok();
        self.decimal &=
            !is_code(text) && text.parse::<Decimal64>().is_ok_and(|value| value.parts().is_some());
        self.time &= !is_number(text) && self.times.parse(text).is_ok();
    }

    fn field_type(&self) -> FieldType {
        FieldType::Scalar(match self {
            Self { any: false, .. } => return FieldType::String,
            Self { bool: true, .. } => Scalar::Bool,
            Self { integer: true, .. } => Scalar::I64,
            Self { decimal: true, .. } => Scalar::Decimal64,
            Self { time: true, .. } => Scalar::Timestamp,
            _ => return FieldType::String,
        })
    }
}

/// Whether a text would lose characters as a number: a sign or zeros that say nothing, as in `007`.
fn is_code(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text).as_bytes();
    digits.starts_with(b"+") || (digits.len() > 1 && digits[0] == b'0' && digits[1].is_ascii_digit())
}
