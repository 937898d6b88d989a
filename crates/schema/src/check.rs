//! Proves that a schema is whole: names, references, limits, defaults, and that every value can end.

use std::collections::{HashMap, HashSet};
use std::fmt::{self, Write};

use crate::text::{MAX_TEXT_BYTES, RESERVED_TYPE_NAMES, RESERVED_WORDS};
use crate::{
    Decimal64, EnumType, Field, FieldType, Literal, MAX_ALTERNATIVES, MAX_ARRAY_DEPTH, MAX_ASCII,
    MAX_ENUM_SYMBOLS, MAX_FIELDS, MAX_NAME_BYTES, MAX_SCALE, MAX_TYPES, RecordType, Scalar, Schema,
    SchemaError, TimeOfDay, Timestamp,
};

const PLAIN_NAME: &str = "a letter or '_', then letters, digits and '_', ASCII only";
const DOTTED_NAME: &str =
    "letters, digits and '_', ASCII only, in parts joined by dots that start with no digit";
const NOT_RESERVED: &str = "it is a word of the schema language";
const NOT_IN_HEADER: &str = "every message has it in its header";

/// What a message has besides its fields, by all the names that JSON and CSV give it.
const HEADER_NAMES: [&str; 4] = ["symbol", "time", "timestamp", "type"];

pub(crate) fn check(schema: &Schema) -> Result<(), SchemaError> {
    limit("the schema", "enums", schema.enums.len(), 0, MAX_TYPES)?;
    limit("the schema", "record types", schema.records.len(), 0, MAX_TYPES)?;
    limit("the schema", "bytes of its text", text_bytes(schema), 0, MAX_TEXT_BYTES)?;
    let names = Names::of(schema)?;
    schema.enums.iter().try_for_each(check_enum)?;
    schema.records.iter().try_for_each(|record| check_record(record, &names))?;
    check_finite(schema, &names)
}

/// Every type by name.
struct Names<'a> {
    /// The symbols of each enum.
    enums: HashMap<&'a str, HashSet<&'a str>>,
    records: HashMap<&'a str, usize>,
}

impl<'a> Names<'a> {
    fn of(schema: &'a Schema) -> Result<Self, SchemaError> {
        let names = schema.enums.iter().map(|e| &e.name).chain(schema.records.iter().map(|r| &r.name));
        let mut seen = HashSet::new();
        for name in names {
            check_type_name(name)?;
            unique(&mut seen, name.as_str(), "the schema", "type name")?;
        }
        Ok(Self {
            enums: schema.enums.iter().map(|e| (e.name.as_str(), symbols(e))).collect(),
            records: schema.records.iter().enumerate().map(|(i, r)| (r.name.as_str(), i)).collect(),
        })
    }
}

fn symbols(e: &EnumType) -> HashSet<&str> {
    e.symbols.iter().map(|(name, _)| name.as_str()).collect()
}

fn check_enum(e: &EnumType) -> Result<(), SchemaError> {
    check_doc(&e.name, &e.doc)?;
    limit(&e.name, "symbols", e.symbols.len(), 1, MAX_ENUM_SYMBOLS)?;
    let (mut names, mut numbers) = (HashSet::new(), HashSet::new());
    for (name, number) in &e.symbols {
        check_plain_name(&e.name, name)?;
        if RESERVED_WORDS.contains(&name.as_str()) {
            return Err(SchemaError::Name { place: e.name.clone(), name: name.clone(), rule: NOT_RESERVED });
        }
        unique(&mut names, name.as_str(), &e.name, "symbol")?;
        unique(&mut numbers, *number, &e.name, "number")?;
    }
    Ok(())
}

fn check_record(record: &RecordType, names: &Names<'_>) -> Result<(), SchemaError> {
    check_doc(&record.name, &record.doc)?;
    limit(&record.name, "fields", record.fields.len(), 0, MAX_FIELDS)?;
    let mut seen = HashSet::new();
    for field in &record.fields {
        for name in std::iter::once(&field.name).chain(&field.aliases) {
            check_plain_name(&record.name, name)?;
            unique(&mut seen, name.as_str(), &record.name, "field name or alias")?;
        }
        if record.message && HEADER_NAMES.contains(&field.name.as_str()) {
            let (place, name) = (record.name.clone(), field.name.clone());
            return Err(SchemaError::Name { place, name, rule: NOT_IN_HEADER });
        }
    }
    record
        .fields
        .iter()
        .try_for_each(|field| check_field(&format!("{}.{}", record.name, field.name), field, names))
}

fn check_field(place: &str, field: &Field, names: &Names<'_>) -> Result<(), SchemaError> {
    check_doc(place, &field.doc)?;
    check_type(place, &field.ty, names)?;
    let Some(default) = &field.default else { return Ok(()) };
    check_literal(default)
        .and_then(|()| match default {
            Literal::Null if field.nullable => Ok(()),
            Literal::Null => Err("null, but the field is not nullable".to_string()),
            literal => check_default(&field.ty, literal, names),
        })
        .map_err(|why| SchemaError::Default { place: place.to_string(), why })
}

fn check_type(place: &str, ty: &FieldType, names: &Names<'_>) -> Result<(), SchemaError> {
    let (mut ty, mut depth) = (ty, 0);
    while let FieldType::Array(element) = ty {
        depth += 1;
        limit(place, "nested arrays", depth, 0, MAX_ARRAY_DEPTH)?;
        ty = &element.ty;
    }
    match ty {
        FieldType::Scalar(Scalar::Ascii(n)) => {
            limit(place, "bytes of ascii", usize::from(*n), 1, MAX_ASCII.into())
        }
        FieldType::Scalar(Scalar::Decimal(scale)) => {
            limit(place, "scale of decimal", usize::from(*scale), 0, MAX_SCALE.into())
        }
        FieldType::Enum(name) if !names.enums.contains_key(name.as_str()) => {
            Err(unknown(place, "enum", name))
        }
        FieldType::Record(alternatives) => check_alternatives(place, alternatives, names),
        _ => Ok(()),
    }
}

fn check_alternatives(place: &str, alternatives: &[String], names: &Names<'_>) -> Result<(), SchemaError> {
    limit(place, "alternatives", alternatives.len(), 1, MAX_ALTERNATIVES)?;
    let mut seen = HashSet::new();
    alternatives.iter().try_for_each(|name| {
        if !names.records.contains_key(name.as_str()) {
            return Err(unknown(place, "record", name));
        }
        unique(&mut seen, name.as_str(), place, "alternative")
    })
}

/// Whether the literal is the one that its own text reads back as.
fn check_literal(literal: &Literal) -> Result<(), String> {
    match literal {
        Literal::Number(number) if !number.is_finite() => Err(format!("{number} is not a finite number")),
        Literal::Number(number) if !number.is_canonical() => Err(format!("{number} has stray bits")),
        Literal::Integer(integer) if integer.to_string().parse::<Decimal64>().is_ok() => {
            Err(format!("{integer} fits decimal64 and must be a Literal::Number"))
        }
        _ => Ok(()),
    }
}

/// `literal` is not null.
fn check_default(ty: &FieldType, literal: &Literal, names: &Names<'_>) -> Result<(), String> {
    match (ty, literal) {
        (FieldType::String, Literal::Text(_)) => Ok(()),
        (FieldType::Enum(name), Literal::Symbol(symbol)) => match names.enums.get(name.as_str()) {
            Some(symbols) if symbols.contains(symbol.as_str()) => Ok(()),
            _ => Err(format!("{name} has no symbol {symbol}")),
        },
        (FieldType::Scalar(scalar), _) => check_scalar_default(*scalar, literal),
        _ => Err(format!("{literal} is no {ty}")),
    }
}

fn check_scalar_default(ty: Scalar, literal: &Literal) -> Result<(), String> {
    use Scalar as T;
    match (ty, literal) {
        (T::Bool, Literal::Bool(_)) | (T::Decimal64, Literal::Number(_)) => Ok(()),
        (T::F32, _) => in_float_range(literal, f32::MAX.into()),
        (T::F64, _) => in_float_range(literal, f64::MAX),
        (T::Decimal(scale), _) => literal.scaled(scale).map(drop),
        (T::Char, Literal::Text(text)) if text.chars().count() == 1 => Ok(()),
        (T::Char, Literal::Text(text)) => Err(format!("{text:?} is not one character")),
        (T::Ascii(n), Literal::Text(text)) => check_ascii(n, text),
        (T::Timestamp, Literal::Text(text)) => text.parse::<Timestamp>().map(drop).map_err(|e| e.to_string()),
        (T::TimeOfDay, Literal::Text(text)) => text.parse::<TimeOfDay>().map(drop).map_err(|e| e.to_string()),
        _ => match integer_range(ty) {
            Some((min, max)) => in_range(literal, min, max),
            None => Err(format!("{literal} is no {ty}")),
        },
    }
}

/// Range of the types that have whole numbers as defaults.
fn integer_range(ty: Scalar) -> Option<(i128, i128)> {
    Some(match ty {
        Scalar::I8 => (i8::MIN.into(), i8::MAX.into()),
        Scalar::I16 => (i16::MIN.into(), i16::MAX.into()),
        Scalar::I32 => (i32::MIN.into(), i32::MAX.into()),
        Scalar::I64 | Scalar::Timestamp => (i64::MIN.into(), i64::MAX.into()),
        Scalar::U8 => (0, u8::MAX.into()),
        Scalar::U16 => (0, u16::MAX.into()),
        Scalar::U32 => (0, u32::MAX.into()),
        Scalar::U64 => (0, u64::MAX.into()),
        Scalar::TimeOfDay => (0, TimeOfDay::MAX.nanos().into()),
        _ => return None,
    })
}

fn in_range(literal: &Literal, min: i128, max: i128) -> Result<(), String> {
    match literal.integer() {
        Some(value) if (min..=max).contains(&value) => Ok(()),
        Some(value) => Err(format!("{value} is outside {min} to {max}")),
        None => Err(format!("{literal} is no whole number in range")),
    }
}

fn in_float_range(literal: &Literal, max: f64) -> Result<(), String> {
    match literal.float() {
        Some(value) if value.abs() <= max => Ok(()),
        Some(_) => Err(format!("{literal} is too large")),
        None => Err(format!("{literal} is no number")),
    }
}

fn check_ascii(n: u8, text: &str) -> Result<(), String> {
    if text.len() > usize::from(n) {
        return Err(format!("{text:?} has {} bytes, ascii({n}) holds {n}", text.len()));
    }
    match text.chars().find(|&c| c == '\0' || !c.is_ascii()) {
        Some(c) => Err(format!("{c:?} is not an ASCII character other than zero")),
        None => Ok(()),
    }
}

/// Refuses records that hold themselves through plain record fields. Records whose fields hold no remaining record are
/// removed, repeatedly; the rest is on a cycle or leads to one.
fn check_finite(schema: &Schema, names: &Names<'_>) -> Result<(), SchemaError> {
    let held: Vec<HashSet<usize>> = schema.records.iter().map(|record| held_records(record, names)).collect();
    let mut holders = vec![Vec::new(); held.len()];
    for (holder, records) in held.iter().enumerate() {
        records.iter().for_each(|&record| holders[record].push(holder));
    }
    let mut open: Vec<usize> = held.iter().map(HashSet::len).collect();
    let mut done: Vec<usize> = (0..held.len()).filter(|&record| open[record] == 0).collect();
    while let Some(record) = done.pop() {
        for &holder in &holders[record] {
            open[holder] -= 1;
            if open[holder] == 0 {
                done.push(holder);
            }
        }
    }
    match open.iter().position(|&count| count > 0) {
        None => Ok(()),
        Some(start) => Err(SchemaError::Infinite { cycle: name_cycle(schema, &held, &open, start) }),
    }
}

/// Records that every value of `record` may hold directly and cannot leave out.
fn held_records(record: &RecordType, names: &Names<'_>) -> HashSet<usize> {
    let alternatives =
        record.fields.iter().filter(|field| !field.nullable).filter_map(|field| match &field.ty {
            FieldType::Record(alternatives) => Some(alternatives),
            _ => None,
        });
    alternatives.flatten().filter_map(|name| names.records.get(name.as_str()).copied()).collect()
}

/// Walks from an open record over open records until one repeats.
fn name_cycle(schema: &Schema, held: &[HashSet<usize>], open: &[usize], start: usize) -> Vec<String> {
    let mut path = vec![start];
    let mut at = start;
    // Every open record holds an open one, and the smallest makes the message the same each time.
    while let Some(next) = held[at].iter().copied().filter(|&record| open[record] > 0).min() {
        let again = path.iter().position(|&record| record == next);
        path.push(next);
        if let Some(first) = again {
            path.drain(..first);
            break;
        }
        at = next;
    }
    path.into_iter().map(|record| schema.records[record].name.clone()).collect()
}

fn check_type_name(name: &str) -> Result<(), SchemaError> {
    let refuse = |rule| Err(SchemaError::Name { place: "the schema".into(), name: name.into(), rule });
    if name.len() > MAX_NAME_BYTES || !name.split('.').all(is_plain_name) {
        return refuse(if name.len() > MAX_NAME_BYTES { "at most 255 bytes" } else { DOTTED_NAME });
    }
    if RESERVED_TYPE_NAMES.contains(&name) { refuse(NOT_RESERVED) } else { Ok(()) }
}

fn check_plain_name(place: &str, name: &str) -> Result<(), SchemaError> {
    let rule = if name.len() > MAX_NAME_BYTES { "at most 255 bytes" } else { PLAIN_NAME };
    if name.len() <= MAX_NAME_BYTES && is_plain_name(name) {
        return Ok(());
    }
    Err(SchemaError::Name { place: place.into(), name: name.into(), rule })
}

fn is_plain_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Line breaks and tabs are the only control characters that `///` lines preserve.
fn check_doc(place: &str, doc: &str) -> Result<(), SchemaError> {
    match doc.chars().find(|&c| c.is_control() && c != '\n' && c != '\t') {
        Some(character) => Err(SchemaError::Doc { place: place.to_string(), character }),
        None => Ok(()),
    }
}

fn limit(place: &str, what: &'static str, have: usize, min: usize, max: usize) -> Result<(), SchemaError> {
    if (min..=max).contains(&have) {
        return Ok(());
    }
    Err(SchemaError::Limit { place: place.to_string(), what, have, min, max })
}

fn unique<T: std::hash::Hash + Eq + ToString>(
    seen: &mut HashSet<T>,
    item: T,
    place: &str,
    what: &'static str,
) -> Result<(), SchemaError> {
    if seen.contains(&item) {
        return Err(SchemaError::Duplicate { place: place.to_string(), what, name: item.to_string() });
    }
    seen.insert(item);
    Ok(())
}

fn unknown(place: &str, what: &'static str, name: &str) -> SchemaError {
    SchemaError::Unknown { place: place.to_string(), what, name: name.to_string() }
}

/// Length of the printed schema, without keeping the text.
fn text_bytes(schema: &Schema) -> usize {
    struct Counter(usize);
    impl Write for Counter {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0 = self.0.saturating_add(text.len());
            if self.0 > MAX_TEXT_BYTES { Err(fmt::Error) } else { Ok(()) }
        }
    }
    let mut counter = Counter(0);
    // The only error is the counter's own: the text is too long.
    let _ = write!(counter, "{schema}");
    counter.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ElementType;

    fn error(text: &str) -> String {
        text.parse::<Schema>().expect_err(text).to_string()
    }

    #[track_caller]
    fn refused(text: &str, part: &str) {
        let error = error(text);
        assert!(error.contains(part), "{text}: {error}");
    }

    #[test]
    fn a_message_has_its_header_once() {
        for name in HEADER_NAMES {
            let text = format!("message M {{ {name}: i64 }}");
            let error = text.parse::<Schema>().unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("header"), "{error}");
            // Nested records have no header.
            assert!(format!("record R {{ {name}: i64 }}").parse::<Schema>().is_ok());
        }
    }

    #[test]
    fn refuses_bad_names_and_references() {
        refused("enum E { A.B }", "\"A.B\"");
        refused("record a..b {}", "\"a..b\"");
        refused("record a.1b {}", "\"a.1b\"");
        refused("record R { a.b: u8 }", "\"a.b\"");
        refused("record u32 {}", "word of the schema language");
        refused("enum E { true }", "word of the schema language");
        refused(&format!("record {} {{}}", "x".repeat(256)), "255");
        refused("record R {} enum R { A }", "type name R");
        refused("record R { a: u8, a: u8 }", "name or alias a");
        refused("record R { a: u8 [alias b], b: u8 }", "name or alias b");
        refused("enum E { A, A }", "symbol A");
        refused("enum E { A = 1, B = 1 }", "number 1");
        refused("enum E {}", "symbols: 0");
        refused("record R { a: Nothing }", "R.a: there is no enum named Nothing");
        refused("record R { a: array<record<X>> }", "no record named X");
        refused("enum X { A } record R { a: array<record<X>> }", "no record named X");
        refused("record X {} record R { a: X }", "no enum named X");
        refused("record X {} record R { a: record<X|X> }", "alternative X");
    }

    #[test]
    fn refuses_sizes_outside_their_limits() {
        refused("record R { a: ascii(0) }", "bytes of ascii: 0");
        refused("record R { a: ascii(17) }", "bytes of ascii: 17");
        refused("record R { a: decimal(18,19) }", "scale of decimal: 19");
        let fields: String = (0..=MAX_FIELDS).map(|i| format!("f{i}: u8,")).collect();
        refused(&format!("record R {{ {fields} }}"), "fields: 1025");
        let records: String = (0..=MAX_TYPES).map(|i| format!("record R{i} {{}}")).collect();
        refused(&records, "record types: 1025");
        let mut element = ElementType { ty: Scalar::U8.into(), nullable: false };
        for _ in 0..=MAX_ARRAY_DEPTH {
            element = ElementType { ty: FieldType::Array(Box::new(element)), nullable: false };
        }
        let mut schema: Schema = "record R { a: u8 }".parse().unwrap();
        schema.records[0].fields[0].ty = element.ty;
        assert!(matches!(schema.validate(), Err(SchemaError::Limit { what: "nested arrays", .. })));
    }

    #[test]
    fn defaults_fit_their_fields() {
        let enums = "enum E { A, B } record X {}";
        for ok in [
            "bool = true",
            "i8 = -128",
            "u8 = 255.0",
            "u64 = 18446744073709551615",
            "f32 = 1E38",
            "f64 = -0",
            "decimal64 = 1.50",
            "decimal(18,2) = 1.50",
            "decimal(18,0) = 123456789012345678",
            "timestamp = 0",
            "timestamp = \"2024-02-29\"",
            "time_of_day = \"09:30\"",
            "char = \"ü\"",
            "ascii(2) = \"AB\"",
            "string = \"\"",
            "E = B",
            "u8? = null",
            "array<u8>? = null",
            "binary? = null",
            "record<X>? = null",
        ] {
            let text = format!("{enums} record R {{ a: {ok} }}");
            assert!(text.parse::<Schema>().is_ok(), "{ok}: {}", error(&text));
        }
        for wrong in [
            "bool = 1",
            "i8 = 128",
            "u8 = -1",
            "u8 = 1.5",
            "u64 = 18446744073709551616",
            "f32 = 1E39",
            "f64 = 1E309",
            "decimal64 = 18446744073709551615",
            "decimal(18,2) = 1.505",
            "decimal(18,18) = 10",
            "timestamp = 1.5",
            "timestamp = \"2023-02-29\"",
            "time_of_day = \"24:00\"",
            "time_of_day = -1",
            "char = \"\"",
            "char = \"ab\"",
            "ascii(2) = \"ABC\"",
            "ascii(2) = \"ü\"",
            "ascii(2) = \"\\u{0}\"",
            "string = 1",
            "E = C",
            "E = \"A\"",
            "E = 0",
            "u8 = null",
            "array<u8> = 0",
            "binary = \"\"",
            "record<X> = X",
            "u8 = A",
        ] {
            refused(&format!("{enums} record R {{ a: {wrong} }}"), "default does not fit");
        }
    }

    #[test]
    fn refuses_literals_and_docs_that_would_not_read_back() {
        let with = |literal| {
            let mut schema: Schema = "record R { a: i64 }".parse().unwrap();
            schema.records[0].fields[0].default = Some(literal);
            schema.validate()
        };
        assert!(with(Literal::Integer(5)).is_err());
        assert!(with(Literal::Integer(12_345_678_901_234_567)).is_ok());
        assert!(with(Literal::Number(Decimal64::NAN)).is_err());
        assert!(with(Literal::Number(Decimal64::from_bits(0x6C77_FFFF_FFFF_FFFF))).is_err());
        let mut schema: Schema = "record R { a: i64 }".parse().unwrap();
        schema.records[0].doc = "a\r".into();
        assert!(matches!(schema.validate(), Err(SchemaError::Doc { character: '\r', .. })));
    }

    #[test]
    fn records_hold_themselves_only_where_a_value_can_end() {
        refused("record A { a: record<A> }", "A holds A");
        refused(
            "record A { b: record<B> } record B { c: record<C> } record C { b: record<B> }",
            "B holds C holds B",
        );
        refused("record X {} record A { a: record<X|A> }", "A holds A");
        assert!("record A { a: record<A>?, b: array<record<A>> }".parse::<Schema>().is_ok());
        assert!("record A { b: record<B> } record B { a: record<A>? }".parse::<Schema>().is_ok());
        assert!(
            "record A { b: record<B>, c: record<B|C> } record B {} record C { b: record<B> }"
                .parse::<Schema>()
                .is_ok()
        );
    }

    #[test]
    fn long_chains_of_records_are_checked_without_recursion() {
        let chain = |end: &str| -> String {
            let links = (0..MAX_TYPES - 1).map(|i| format!("record R{i} {{ a: record<R{}> }}", i + 1));
            links.chain([format!("record R{} {{ {end} }}", MAX_TYPES - 1)]).collect()
        };
        assert!(chain("").parse::<Schema>().is_ok());
        refused(&chain("a: record<R0>"), "could never end");
    }
}
