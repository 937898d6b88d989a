//! Columns of one record type.
//!
//! First `time`, `symbol` and `type` (before them `stream` when several are read), then the fields. A nested record's
//! fields are columns `field.name`; where several record types are possible, `field.type` names the type, and columns of the
//! same name are shared. Each item of the first array is a row: all other columns repeat; an empty array
//! gives one row. Deeper records and further arrays are JSON in one column.

use super::head::Head;
use super::value::write_plain;
use tapedb_codec::dynamic::{Layouts, RecordRef, TypeLayout, ValueRef};
use tapedb_engine::Stream;
use tapedb_terminal::Failure;

/// Prints rows of comma-separated values, quoted as in RFC 4180.
#[derive(Debug, Clone)]
pub struct CsvWriter {
    several: bool,
    groups: Vec<Group>,
    /// The group with one row per item.
    exploded: Option<usize>,
    /// Buffer for one cell.
    cell: Vec<u8>,
}

/// The columns of one field.
#[derive(Debug, Clone)]
enum Group {
    /// One column.
    Plain(String),
    /// The fields of nested records.
    Nested(Nested),
}

#[derive(Debug, Clone)]
struct Nested {
    /// Name of the column with the record type, if there are several.
    tag: Option<String>,
    columns: Vec<String>,
    /// For each alternative its type id, and the field in each column.
    alternatives: Vec<(u16, Vec<Option<usize>>)>,
}

impl CsvWriter {
    /// Columns for the selected record type of these streams.
    ///
    /// # Errors
    /// When several types are selected, or the type differs between the streams.
    pub fn new(streams: &[Stream], types: &[String]) -> Result<Self, Failure> {
        let mut wanted = streams.iter().flat_map(|stream| wanted_types(stream, types));
        let Some((first, id)) = wanted.next() else {
            return Err(Failure::usage("no stream has this message type; `tapedb desc` lists the types"));
        };
        for (stream, other) in wanted {
            if !first.layouts().same_layout(id, stream.layouts(), other) {
                let names = [(first, id), (stream, other)].map(|(stream, id)| type_name(stream, id));
                return Err(Failure::usage(format!(
                    "csv has the columns of one record type, but the selection has {} and {}; choose one with --types, or use \
                     --output json",
                    names[0], names[1]
                )));
            }
        }
        Ok(Self::of(first.layouts(), id, streams.len() > 1))
    }

    fn of(layouts: &Layouts, id: u16, several: bool) -> Self {
        let fields = &layouts.records()[usize::from(id)].fields;
        let exploded = fields.iter().position(|field| matches!(field.ty, TypeLayout::Array(_)));
        let group = |(i, field): (usize, &tapedb_codec::dynamic::FieldLayout)| match &field.ty {
            TypeLayout::Array(item) if exploded == Some(i) => Group::new(layouts, &field.name, &item.ty),
            ty => Group::new(layouts, &field.name, ty),
        };
        let groups = fields.iter().enumerate().map(group).collect();
        Self { several, groups, exploded, cell: Vec::new() }
    }

    /// Appends the names of the columns.
    pub fn header(&self, out: &mut Vec<u8>) {
        if self.several {
            out.extend_from_slice(b"stream,");
        }
        out.extend_from_slice(b"time,symbol,type");
        for name in self.groups.iter().flat_map(Group::names) {
            out.push(b',');
            write_cell(name.as_bytes(), out);
        }
        out.push(b'\n');
    }

    /// Appends the rows of one message.
    pub fn write(&mut self, head: Head<'_>, record: RecordRef<'_>, out: &mut Vec<u8>) {
        let items = self.exploded.map(|field| record.at(field));
        match items {
            Some(ValueRef::Array(items)) if !items.is_empty() => {
                for item in items.iter() {
                    self.write_row(head, record, item, out);
                }
            }
            _ => self.write_row(head, record, ValueRef::Null, out),
        }
    }

    fn write_row(&mut self, head: Head<'_>, record: RecordRef<'_>, item: ValueRef<'_>, out: &mut Vec<u8>) {
        if self.several {
            write_cell(head.stream.as_bytes(), out);
            out.push(b',');
        }
        head.time.write_to(out);
        out.push(b',');
        write_cell(head.symbol.as_bytes(), out);
        out.push(b',');
        write_cell(record.layout().name.as_bytes(), out);
        for (i, group) in self.groups.iter().enumerate() {
            let value = if self.exploded == Some(i) { item } else { record.at(i) };
            group.write(value, &mut self.cell, out);
        }
        out.push(b'\n');
    }
}

impl Group {
    fn new(layouts: &Layouts, name: &str, ty: &TypeLayout) -> Self {
        match ty {
            TypeLayout::Record(types) => Self::Nested(Nested::new(layouts, name, types)),
            _ => Self::Plain(name.into()),
        }
    }

    fn names(&self) -> impl Iterator<Item = &String> {
        let (tag, columns) = match self {
            Self::Plain(name) => (Some(name), [].as_slice()),
            Self::Nested(nested) => (nested.tag.as_ref(), nested.columns.as_slice()),
        };
        tag.into_iter().chain(columns)
    }

    /// Appends the cells, a comma before each.
    fn write(&self, value: ValueRef<'_>, cell: &mut Vec<u8>, out: &mut Vec<u8>) {
        match self {
            Self::Plain(_) => write_value(value, cell, out),
            Self::Nested(nested) => nested.write(value, cell, out),
        }
    }
}

impl Nested {
    fn new(layouts: &Layouts, name: &str, types: &[u16]) -> Self {
        let records = || types.iter().map(|&id| (id, &layouts.records()[usize::from(id)]));
        let mut fields: Vec<&str> = Vec::new();
        for field in records().flat_map(|(_, record)| &record.fields) {
            if !fields.contains(&field.name.as_str()) {
                fields.push(&field.name);
            }
        }
        let alternatives =
            records().map(|(id, record)| (id, fields.iter().map(|field| record.field(field)).collect()));
        Self {
            tag: (types.len() > 1).then(|| format!("{name}.type")),
            alternatives: alternatives.collect(),
            columns: fields.iter().map(|field| format!("{name}.{field}")).collect(),
        }
    }

    fn write(&self, value: ValueRef<'_>, cell: &mut Vec<u8>, out: &mut Vec<u8>) {
        let record = match value {
            ValueRef::Record(record) => Some(record),
            _ => None,
        };
        if self.tag.is_some() {
            out.push(b',');
            write_cell(record.map_or("", |record| &record.layout().name).as_bytes(), out);
        }
        let places = |record: RecordRef<'_>| {
            self.alternatives.iter().find(|(id, _)| *id == record.type_id()).map(|(_, places)| places)
        };
        let places = record.and_then(places);
        for column in 0..self.columns.len() {
            let field = places.and_then(|places| places[column]);
            let value = record.zip(field).map_or(ValueRef::Null, |(record, field)| record.at(field));
            write_value(value, cell, out);
        }
    }
}

/// Message types of a stream that are wanted.
fn wanted_types<'a>(stream: &'a Stream, types: &[String]) -> impl Iterator<Item = (&'a Stream, u16)> {
    let records = stream.schema().records.iter().enumerate();
    let wanted = move |name: &String| types.is_empty() || types.contains(name);
    records
        .filter(move |(_, record)| record.message && wanted(&record.name))
        .map(|(id, _)| id as u16)
        .collect::<Vec<_>>()
        .into_iter()
        .map(move |id| (stream, id))
}

fn type_name(stream: &Stream, id: u16) -> String {
    format!("{} of {:?}", stream.schema().records[usize::from(id)].name, stream.name())
}

/// Appends a comma and a value.
#[inline]
fn write_value(value: ValueRef<'_>, cell: &mut Vec<u8>, out: &mut Vec<u8>) {
    out.push(b',');
    match value {
        ValueRef::Text(_)
        | ValueRef::Ascii(_)
        | ValueRef::Char(_)
        | ValueRef::Array(_)
        | ValueRef::Record(_) => {
            cell.clear();
            write_plain(value, cell);
            write_cell(cell, out);
        }
        // Numbers, times and names of enums have nothing to quote.
        plain => write_plain(plain, out),
    }
}

/// Appends a cell, in quotes if it needs them.
fn write_cell(cell: &[u8], out: &mut Vec<u8>) {
    if !cell.iter().any(|byte| matches!(byte, b',' | b'"' | b'\n' | b'\r')) {
        return out.extend_from_slice(cell);
    }
    out.push(b'"');
    for &byte in cell {
        if byte == b'"' {
            out.push(b'"');
        }
        out.push(byte);
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: &str = "enum Side { BID, ASK }
        record Trade { price: decimal64, size: u32? }
        record Quote { side: Side, price: decimal64 }
        record Where { venue: string }
        message Package { sequence: u64?, place: record<Where>, entries: array<record<Trade|Quote>>, tags: array<u8> }";

    fn rows(json: &str) -> String {
        let layouts = Layouts::new(SCHEMA.parse().unwrap()).unwrap();
        let value = layouts.from_json(json).unwrap();
        let mut body = Vec::new();
        layouts.encode(&value, &mut body).unwrap();
        let record = layouts.view(value.type_id, &body).unwrap();
        let csv = CsvWriter::of(&layouts, value.type_id, false);
        let (mut out, mut cell) = (Vec::new(), Vec::new());
        csv.header(&mut out);
        let ValueRef::Array(items) = record.at(2) else { panic!("entries are an array") };
        for item in items.iter() {
            for (i, group) in csv.groups.iter().enumerate() {
                group.write(if i == 2 { item } else { record.at(i) }, &mut cell, &mut out);
            }
            out.push(b'\n');
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn entries_are_rows() {
        let json = r#"{"sequence": 7, "place": {"venue": "a,\"b\""}, "tags": [1, 2], "entries": [
            {"$type": "Trade", "price": "1.50", "size": 3}, {"$type": "Quote", "side": "ASK", "price": "2"}]}"#;
        let text = "time,symbol,type,sequence,place.venue,entries.type,entries.price,entries.size,entries.side,tags\n\
            ,7,\"a,\"\"b\"\"\",Trade,1.50,3,,\"[1,2]\"\n,7,\"a,\"\"b\"\"\",Quote,2,,ASK,\"[1,2]\"\n";
        assert_eq!(rows(json), text);
    }
}
