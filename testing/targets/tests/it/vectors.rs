//! Golden messages: `testing/vectors/messages.txt` against both codecs.

use std::fmt::Write;
use std::path::PathBuf;
use tapedb_codec::dynamic::Layouts;
use tapedb_codec::{Binary, Enumeration, Record, Union, decode, encode, view};
use tapedb_market::{Bar, Package};
use tapedb_schema::{Ascii, Decimal64, Fixed, TimeOfDay, Timestamp};

/// One message with the schema before it.
struct Vector<'a> {
    schema: &'a str,
    name: &'a str,
    json: &'a str,
    hex: &'a str,
}

fn path() -> PathBuf {
    concat!(env!("CARGO_MANIFEST_DIR"), "/../vectors/messages.txt").into()
}

fn vectors(text: &str) -> Vec<Vector<'_>> {
    let mut vectors = Vec::new();
    let mut schema = "";
    for block in text.split("\n=== ").skip(1) {
        let (head, rest) = block.split_once('\n').expect("a block has lines");
        match head.strip_prefix("message ") {
            None => schema = rest,
            Some(name) => {
                let mut lines = rest.lines();
                let mut line = || lines.next().expect("a message has JSON, then its body");
                let (json, hex) = (line(), line());
                vectors.push(Vector { schema, name, json, hex });
            }
        }
    }
    vectors
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn bytes(hex: &str) -> Vec<u8> {
    assert!(hex.len().is_multiple_of(2), "{hex}");
    (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).expect("hexadecimal")).collect()
}

fn encoded(vector: &Vector<'_>) -> (Layouts, u16, Vec<u8>) {
    let layouts = Layouts::new(vector.schema.parse().expect("a schema")).expect("a valid schema");
    let record = layouts.from_json(vector.json).unwrap_or_else(|e| panic!("{}: {e}", vector.name));
    let mut body = Vec::new();
    layouts.encode(&record, &mut body).unwrap_or_else(|e| panic!("{}: {e}", vector.name));
    (layouts, record.type_id, body)
}

#[test]
fn the_interpreter_writes_and_reads_them() {
    let mut text = std::fs::read_to_string(path()).expect("the vectors");
    if std::env::var("TAPEDB_VECTORS").is_ok_and(|what| what == "fill") {
        text = fill(&text);
        std::fs::write(path(), &text).expect("the vectors can be written");
    }
    let vectors = vectors(&text);
    assert!(vectors.len() >= 17);
    for vector in &vectors {
        let (layouts, type_id, body) = encoded(vector);
        assert_eq!(hex(&body), vector.hex, "{}", vector.name);
        let golden = bytes(vector.hex);
        let record = layouts.view(type_id, &golden).unwrap_or_else(|e| panic!("{}: {e}", vector.name));
        let mut json = Vec::new();
        record.write_json(&mut json);
        assert_eq!(String::from_utf8(json).unwrap(), as_utf8(vector.json), "{}", vector.name);
        let value = layouts.decode(type_id, &golden).unwrap_or_else(|e| panic!("{}: {e}", vector.name));
        let mut again = Vec::new();
        layouts.encode(&value, &mut again).unwrap();
        assert_eq!(again, golden, "{}", vector.name);
    }
}

/// The one character that the file writes as an escape, for the eyes of editors, and canonical JSON as itself.
fn as_utf8(json: &str) -> String {
    json.replace("\\udbff\\udfff", "\u{10ffff}")
}

/// Bodies for the messages that have none yet.
fn fill(text: &str) -> String {
    vectors(text).iter().filter(|vector| vector.hex == "?").fold(text.to_string(), |text, vector| {
        let open = format!("{}\n?\n", vector.json);
        text.replacen(&open, &format!("{}\n{}\n", vector.json, hex(&encoded(vector).2)), 1)
    })
}

#[derive(Enumeration, Debug, Clone, Copy, Default, PartialEq)]
enum Side {
    #[default]
    Bid,
    Ask = 5,
}

#[derive(Record, Debug, Default, PartialEq)]
#[record(message)]
struct Scalars {
    flag: bool,
    i1: i8,
    i2: i16,
    i4: i32,
    i8: i64,
    u1: u8,
    u2: u16,
    u4: u32,
    u8: u64,
    f4: f32,
    f8: f64,
    price: Decimal64,
    cents: Fixed<2>,
    moment: Timestamp,
    clock: TimeOfDay,
    letter: char,
    venue: Ascii<5>,
    side: Side,
}

#[derive(Record, Debug, Default, PartialEq)]
#[record(message)]
struct Nullable {
    flag: Option<bool>,
    i2: Option<i16>,
    u8: Option<u64>,
    f8: Option<f64>,
    price: Option<Decimal64>,
    cents: Option<Fixed<2>>,
    moment: Option<Timestamp>,
    clock: Option<TimeOfDay>,
    letter: Option<char>,
    venue: Option<Ascii<8>>,
    side: Option<Side>,
    text: Option<String>,
    raw: Option<Binary>,
    numbers: Option<Vec<u16>>,
    count: Option<u32>,
}

#[derive(Record, Debug, Default, PartialEq)]
struct Leg {
    ratio: i8,
    price: Option<Decimal64>,
}

#[derive(Record, Debug, Default, PartialEq)]
struct Note {
    text: String,
    tags: Vec<Option<String>>,
}

#[derive(Record, Debug, Default, PartialEq)]
struct Nothing {}

#[derive(Union, Debug, PartialEq)]
enum Item {
    Leg(Leg),
    Note(Note),
    Nothing(Nothing),
}

impl Default for Item {
    fn default() -> Self {
        Self::Nothing(Nothing {})
    }
}

#[derive(Record, Debug, Default, PartialEq)]
struct Node {
    id: u16,
    children: Vec<Node>,
    parent: Option<Box<Node>>,
}

#[derive(Record, Debug, Default, PartialEq)]
#[record(message)]
struct Nested {
    name: String,
    raw: Binary,
    bytes: Vec<u8>,
    maybe: Vec<Option<f64>>,
    names: Vec<String>,
    matrix: Vec<Vec<i32>>,
    leg: Leg,
    best: Option<Leg>,
    item: Item,
    other: Option<Item>,
    legs: Vec<Leg>,
    items: Vec<Item>,
    holes: Vec<Option<Item>>,
    empties: Vec<Nothing>,
    gaps: Vec<Option<Nothing>>,
    tree: Node,
}

#[derive(Record, Debug, Default, PartialEq)]
#[record(message)]
struct Empty {}

#[test]
fn the_derives_write_and_read_them() {
    let text = std::fs::read_to_string(path()).expect("the vectors");
    for vector in vectors(&text) {
        let golden = bytes(vector.hex);
        let (_, rest) = vector.json.split_once("\"$type\":\"").expect("a type");
        let again = match rest.split('"').next().unwrap_or_default() {
            "Scalars" => compiled::<Scalars>(&golden),
            "Nullable" => compiled::<Nullable>(&golden),
            "Nested" => compiled::<Nested>(&golden),
            "Empty" => compiled::<Empty>(&golden),
            "Package" => compiled::<Package>(&golden),
            "Bar" => compiled::<Bar>(&golden),
            other => panic!("no Rust type for {other}"),
        };
        assert_eq!(hex(&again), vector.hex, "{}", vector.name);
        let ours = layouts_of(rest.split('"').next().unwrap_or_default());
        let (theirs, type_id, _) = encoded(&vector);
        let own = ours.schema().record(&theirs.records()[usize::from(type_id)].name).expect("of that name").0;
        assert!(theirs.same_layout(type_id, &ours, own), "{}", vector.name);
    }
}

/// Decoded and encoded again.
fn compiled<T: Record>(golden: &[u8]) -> Vec<u8> {
    assert!(view::<T>(golden).is_ok());
    let value: T = decode(golden).unwrap_or_else(|e| panic!("{e}"));
    let mut again = Vec::new();
    encode(&value, &mut again);
    again
}

fn layouts_of(name: &str) -> Layouts {
    let schema = tapedb_codec::SchemaBuilder::new();
    let schema = match name {
        "Scalars" => schema.with::<Scalars>(),
        "Nullable" => schema.with::<Nullable>(),
        "Nested" => schema.with::<Nested>(),
        "Empty" => schema.with::<Empty>(),
        _ => schema.with::<Package>().with::<Bar>(),
    };
    Layouts::new(schema.finish()).expect("a valid schema")
}
