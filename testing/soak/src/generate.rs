//! Writes Rust types for schemas: the source of [`crate::generated`].

use std::fmt::Write;
use tapedb_schema::{ElementType, EnumType, Field, FieldType, RecordType, Scalar, Schema};

const HEAD: &str = "\
//! Rust types for the sample schemas. Not written by hand: `generate.rs` makes them, and
//! `TAPEDB_GENERATE=1 cargo test -p tapedb-soak --test it generated` writes them here.

use crate::compiled::*;
";

/// A Rust source file with a module for each schema, and the table of all their record types.
pub fn source(schemas: &[&Schema]) -> String {
    let mut text = HEAD.to_string();
    for (number, schema) in schemas.iter().enumerate() {
        Module { schema, enums: Vec::new(), unions: Vec::new() }.write(number, &mut text);
    }
    text.push_str("\npub const CODECS: &[&[Codec]] = &[\n");
    for (number, schema) in schemas.iter().enumerate() {
        let codec = |record: &RecordType| format!("codec::<s{number}::{}>()", ident(&record.name));
        let codecs: Vec<String> = schema.records.iter().map(codec).collect();
        line(&mut text, format_args!("    &[{}],", codecs.join(", ")));
    }
    text.push_str("];\n");
    text
}

/// Appends a line.
fn line(text: &mut String, line: std::fmt::Arguments<'_>) {
    let _ = writeln!(text, "{line}");
}

/// The types of one schema.
struct Module<'a> {
    schema: &'a Schema,
    /// Enums that a field holds.
    enums: Vec<&'a str>,
    /// Alternatives of each polymorphic field, once each; the index names the Rust enum.
    unions: Vec<Vec<String>>,
}

impl<'a> Module<'a> {
    fn write(mut self, number: usize, text: &mut String) {
        line(text, format_args!("\nmod s{number} {{\n    use super::*;"));
        let schema = self.schema;
        for record in &schema.records {
            let fields: Vec<String> = record.fields.iter().map(|field| self.field(field)).collect();
            let (name, message) = (ident(&record.name), if record.message { "message " } else { "" });
            let fields = fields.join(", ");
            line(
                text,
                format_args!("    record!({message}{name} {name}View {:?} {{ {fields} }});", record.name),
            );
        }
        for found in schema.enums.iter().filter(|found| self.enums.contains(&&*found.name)) {
            line(text, format_args!("    enumeration!({});", enumeration(found)));
        }
        for (i, alternatives) in self.unions.iter().enumerate() {
            line(text, format_args!("    union!(Union{i} Union{i}View {{ {} }});", alternatives.join(", ")));
        }
        text.push_str("}\n");
    }

    fn field(&mut self, field: &'a Field) -> String {
        let ty = self.rust_type(&field.ty);
        let ty = match (&field.ty, field.nullable) {
            // Only nullable fields close circles, so that these boxes are enough.
            (FieldType::Record(_), true) => format!("Option<Box<{ty}>>"),
            (_, true) => format!("Option<{ty}>"),
            _ => ty,
        };
        format!("{}: {ty}", field.name)
    }

    fn rust_type(&mut self, ty: &'a FieldType) -> String {
        match ty {
            FieldType::Scalar(scalar) => match scalar {
                Scalar::Bool => "bool".into(),
                Scalar::I8 => "i8".into(),
                Scalar::I16 => "i16".into(),
                Scalar::I32 => "i32".into(),
                Scalar::I64 => "i64".into(),
                Scalar::U8 => "u8".into(),
                Scalar::U16 => "u16".into(),
                Scalar::U32 => "u32".into(),
                Scalar::U64 => "u64".into(),
                Scalar::F32 => "f32".into(),
                Scalar::F64 => "f64".into(),
                Scalar::Decimal64 => "Decimal64".into(),
                Scalar::Decimal(scale) => format!("Fixed<{scale}>"),
                Scalar::Timestamp => "Timestamp".into(),
                Scalar::TimeOfDay => "TimeOfDay".into(),
                Scalar::Char => "char".into(),
                Scalar::Ascii(width) => format!("Ascii<{width}>"),
            },
            FieldType::String => "String".into(),
            FieldType::Binary => "Binary".into(),
            FieldType::Enum(name) => {
                self.enums.push(name);
                ident(name)
            }
            FieldType::Array(item) => format!("Vec<{}>", self.item(item)),
            FieldType::Record(names) => self.record(names),
        }
    }

    fn item(&mut self, item: &'a ElementType) -> String {
        let ty = self.rust_type(&item.ty);
        if item.nullable { format!("Option<{ty}>") } else { ty }
    }

    fn record(&mut self, names: &[String]) -> String {
        let alternatives: Vec<String> = names.iter().map(|name| ident(name)).collect();
        if let [only] = &alternatives[..] {
            return only.clone();
        }
        let known = self.unions.iter().position(|union| *union == alternatives);
        let index = known.unwrap_or_else(|| {
            self.unions.push(alternatives);
            self.unions.len() - 1
        });
        format!("Union{index}")
    }
}

/// `SYMBOL_7` becomes `Symbol_7`, which the derive turns back.
fn enumeration(found: &EnumType) -> String {
    let symbol = |(name, number): &(String, i64)| format!("{} = {number}", name.replace("SYMBOL", "Symbol"));
    let symbols: Vec<String> = found.symbols.iter().map(symbol).collect();
    format!("{} {:?} {{ {} }}", ident(&found.name), found.name, symbols.join(", "))
}

/// `sample.market_2.Record2` becomes `Record2`.
fn ident(name: &str) -> String {
    name.rsplit('.').next().unwrap_or(name).to_string()
}
