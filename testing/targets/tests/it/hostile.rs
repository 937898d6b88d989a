//! Bytes and JSON made to hurt: each gives the error it should, at the place it should, from both codecs.

use tapedb_codec::dynamic::{JsonError, Layouts, RecordValue, Value};
use tapedb_codec::{Binary, DecodeError, DecodeErrorKind as Kind, Enumeration, Record, SchemaBuilder, Union};
use tapedb_codec::{MAX_DEPTH, decode, encode, view};
use tapedb_schema::{Ascii, Decimal64, TimeOfDay};

#[derive(Enumeration, Debug, Clone, Copy, Default, PartialEq)]
enum Side {
    #[default]
    Bid,
    Ask,
}

#[derive(Record, Debug, Default, PartialEq)]
struct Leg {
    ratio: u16,
}

#[derive(Record, Debug, Default, PartialEq)]
struct Note {
    text: String,
}

#[derive(Union, Debug, PartialEq)]
enum Item {
    Leg(Leg),
    Note(Note),
}

impl Default for Item {
    fn default() -> Self {
        Self::Leg(Leg::default())
    }
}

#[derive(Record, Debug, Default, PartialEq)]
#[record(message)]
struct Everything {
    flag: bool,
    side: Side,
    letter: char,
    clock: TimeOfDay,
    price: Decimal64,
    venue: Ascii<4>,
    f4: f32,
    f8: f64,
    maybe: Option<u32>,
    text: String,
    raw: Binary,
    list: Vec<u16>,
    holes: Vec<Option<u16>>,
    item: Item,
    items: Vec<Item>,
    names: Vec<Vec<String>>,
}

/// Where the slots lie, and where the contents of [`body`] end.
mod at {
    pub const BITMAP: usize = 0;
    pub const FLAG: usize = 1;
    pub const SIDE: usize = 2;
    pub const LETTER: usize = 3;
    pub const CLOCK: usize = 7;
    pub const PRICE: usize = 15;
    pub const VENUE: usize = 23;
    pub const F4: usize = 27;
    pub const F8: usize = 31;
    pub const MAYBE: usize = 39;
    pub const FIXED: usize = 71;
    /// Slot and end of each variable field.
    pub const ENDS: [(usize, usize); 7] =
        [(43, 77), (47, 79), (51, 89), (55, 100), (59, 103), (63, 116), (67, 145)];
    pub const TEXT: usize = 71;
    pub const LIST: usize = 79;
    pub const HOLES: usize = 89;
    pub const ITEM: usize = 100;
    pub const ITEMS: usize = 103;
    pub const NAMES: usize = 116;
    pub const END: usize = 145;
}

fn body() -> Vec<u8> {
    let value = Everything {
        text: "héllo".into(),
        raw: Binary(vec![1, 2]),
        list: vec![7, 8, 9],
        holes: vec![Some(1), None, Some(3)],
        item: Item::Leg(Leg { ratio: 5 }),
        items: vec![Item::Note(Note { text: "x".into() }), Item::Leg(Leg { ratio: 1 })],
        names: vec![vec!["a".into()], vec!["".into()]],
        ..Everything::default()
    };
    let mut body = Vec::new();
    encode(&value, &mut body);
    body
}

/// [`body`] with other bytes from `offset` on.
fn patched(offset: usize, bytes: &[u8]) -> Vec<u8> {
    let mut body = body();
    body[offset..offset + bytes.len()].copy_from_slice(bytes);
    body
}

fn layouts<T: Record>() -> (Layouts, u16) {
    let layouts = Layouts::new(SchemaBuilder::new().with::<T>().finish()).expect("a valid schema");
    let (id, _) = layouts.schema().record(T::NAME).expect("of that name");
    (layouts, id)
}

/// What validation and decoding say; the two codecs say the same.
fn verdicts<T: Record>(body: &[u8]) -> (Result<(), DecodeError>, Result<(), DecodeError>) {
    let (layouts, id) = layouts::<T>();
    let (checked, decoded) = (view::<T>(body).map(|_| ()), decode::<T>(body).map(|_| ()));
    assert_eq!(layouts.check(id, body), checked, "validation differs");
    assert_eq!(layouts.view(id, body).map(|_| ()), checked, "viewing differs");
    assert_eq!(layouts.decode(id, body).map(|_| ()), decoded, "decoding differs");
    (checked, decoded)
}

#[track_caller]
fn refused<T: Record>(body: &[u8], kind: Kind, offset: usize, need: u64, have: u64) {
    let error = Err(DecodeError::new(kind, offset, need, have));
    assert_eq!(verdicts::<T>(body), (error, error));
}

/// Only validation minds.
#[track_caller]
fn not_canonical(body: &[u8], kind: Kind, offset: usize, need: u64, have: u64) {
    let error = Err(DecodeError::new(kind, offset, need, have));
    assert_eq!(verdicts::<Everything>(body), (error, Ok(())));
}

#[test]
fn the_body_lies_as_the_tests_below_think() {
    assert_eq!(Everything::FIXED, at::FIXED);
    assert_eq!(Everything::OFFSETS, [1, 2, 3, 7, 15, 23, 27, 31, 39, 43, 47, 51, 55, 59, 63, 67]);
    let body = body();
    for (slot, end) in at::ENDS {
        assert_eq!(body[slot..slot + 4], (end as u32).to_le_bytes());
    }
    assert_eq!(body.len(), at::END);
    assert_eq!(verdicts::<Everything>(&body), (Ok(()), Ok(())));
}

#[test]
fn scalars_out_of_range() {
    refused::<Everything>(&patched(at::FLAG, &[2]), Kind::Bool, at::FLAG, 2, 2);
    refused::<Everything>(&patched(at::FLAG, &[255]), Kind::Bool, at::FLAG, 255, 2);
    refused::<Everything>(&patched(at::SIDE, &[2]), Kind::Enum, at::SIDE, 2, 2);
    for scalar in [0xd800u32, 0xdfff, 0x11_0000, u32::MAX] {
        let body = patched(at::LETTER, &scalar.to_le_bytes());
        refused::<Everything>(&body, Kind::Char, at::LETTER, scalar.into(), 0);
    }
    let day = 86_400_000_000_000;
    for ns in [day, -1, i64::MIN, i64::MAX] {
        let body = patched(at::CLOCK, &ns.to_le_bytes());
        refused::<Everything>(&body, Kind::TimeOfDay, at::CLOCK, ns as u64, day as u64);
    }
    refused::<Everything>(&patched(at::VENUE, b"A\0B\0"), Kind::Ascii, at::VENUE + 2, 4, b'B'.into());
    refused::<Everything>(&patched(at::VENUE, b"AB\x80\0"), Kind::Ascii, at::VENUE + 2, 4, 0x80);
}

#[test]
fn decimals_that_are_not_canonical() {
    // A coefficient of more than sixteen digits, stray bits of an infinity and of a NaN, a payload too large.
    for bits in
        [0x6C77_FFFF_FFFF_FFFFu64, 0x7800_0000_0000_0001, 0x7C04_0000_0000_0000, 0x7C03_FFFF_FFFF_FFFF]
    {
        not_canonical(&patched(at::PRICE, &bits.to_le_bytes()), Kind::Decimal, at::PRICE, bits, 0);
    }
}

#[test]
fn every_float_is_kept_bit_for_bit() {
    for bits in
        [0x7ff8_0000_0000_0001u64, 0xfff0_dead_beef_0001, 0x7ff0_0000_0000_0000, 0x8000_0000_0000_0000, 1]
    {
        let body = patched(at::F8, &bits.to_le_bytes());
        assert_eq!(verdicts::<Everything>(&body), (Ok(()), Ok(())));
        assert_eq!(both_encode_again(&body), body);
    }
    for bits in [0x7fc0_0001u32, 0xff80_beef, 0x7f80_0000, 0x8000_0000, 1] {
        assert_eq!(
            both_encode_again(&patched(at::F4, &bits.to_le_bytes())),
            patched(at::F4, &bits.to_le_bytes())
        );
    }
}

/// Decoded and encoded by both codecs, which agree.
fn both_encode_again(body: &[u8]) -> Vec<u8> {
    let (layouts, id) = layouts::<Everything>();
    let (mut compiled, mut interpreted) = (Vec::new(), Vec::new());
    encode(&decode::<Everything>(body).expect("a body"), &mut compiled);
    layouts
        .encode(&layouts.decode(id, body).expect("a body"), &mut interpreted)
        .expect("values of the schema");
    assert_eq!(compiled, interpreted);
    compiled
}

#[test]
fn what_belongs_to_nulls_is_zero() {
    not_canonical(&patched(at::BITMAP, &[0b10]), Kind::NullSlot, at::BITMAP, 0b10, 0);
    not_canonical(&patched(at::BITMAP, &[0x80]), Kind::NullSlot, at::BITMAP, 0x80, 0);
    let mut body = patched(at::BITMAP, &[1]);
    assert_eq!(verdicts::<Everything>(&body), (Ok(()), Ok(())));
    body[at::MAYBE + 2] = 9;
    not_canonical(&body, Kind::NullSlot, at::MAYBE + 2, 9, 0);
    not_canonical(&patched(at::HOLES + 4, &[0b1010]), Kind::NullSlot, at::HOLES + 4, 0b1010, 0);
    not_canonical(&patched(at::HOLES + 8, &[7]), Kind::NullSlot, at::HOLES + 8, 7, 0);
}

#[test]
fn ends_that_overlap_descend_or_lie_outside() {
    let mut start = at::FIXED;
    for (slot, end) in at::ENDS {
        for bad in [0, start - 1] {
            let body = patched(slot, &(bad as u32).to_le_bytes());
            refused::<Everything>(&body, Kind::End, slot, bad as u64, start as u64);
        }
        for bad in [at::END as u32 + 1, 1 << 31, u32::MAX] {
            let body = patched(slot, &bad.to_le_bytes());
            refused::<Everything>(&body, Kind::End, slot, bad.into(), at::END as u64);
        }
        start = end;
    }
}

#[test]
fn truncation_at_every_byte() {
    let body = body();
    for length in 0..body.len() {
        let short = &body[..length];
        match at::ENDS.iter().find(|(_, end)| *end > length) {
            Some((slot, end)) if length >= at::FIXED => {
                refused::<Everything>(short, Kind::End, *slot, *end as u64, length as u64);
            }
            _ => refused::<Everything>(short, Kind::Short, 0, at::FIXED as u64, length as u64),
        }
    }
}

#[test]
fn bytes_left_over() {
    let mut body = body();
    body.push(0);
    refused::<Everything>(&body, Kind::Trailing, at::END, at::END as u64, 1);
    // One item fewer than there are.
    refused::<Everything>(&patched(at::LIST, &[2]), Kind::Trailing, at::LIST + 8, 8, 2);
    let mut leg = vec![1, 0];
    leg.extend([9; 100]);
    refused::<Leg>(&leg, Kind::Trailing, 2, 2, 100);
}

#[test]
fn counts_and_lengths_that_lie() {
    for lie in [1u32 << 31, u32::MAX, 7] {
        let bytes = lie.to_le_bytes();
        refused::<Everything>(&patched(at::LIST, &bytes), Kind::Count, at::LIST, lie.into(), 6);
        refused::<Everything>(&patched(at::HOLES, &bytes), Kind::Count, at::HOLES, lie.into(), 7);
    }
    // As many as there are bytes, but an item takes two.
    refused::<Everything>(&patched(at::LIST, &[4]), Kind::Short, at::LIST + 10, 2, 0);
    // The lengths of the inner array and of its string.
    let (array, text) = (at::NAMES + 4, at::NAMES + 12);
    for lie in [1u32 << 31, u32::MAX] {
        let bytes = lie.to_le_bytes();
        refused::<Everything>(&patched(array, &bytes), Kind::Short, array + 4, lie.into(), 21);
        refused::<Everything>(&patched(array + 4, &bytes), Kind::Count, array + 4, lie.into(), 5);
        refused::<Everything>(&patched(text, &bytes), Kind::Short, text + 4, lie.into(), 1);
    }
}

#[test]
fn tags_and_the_records_behind_them() {
    refused::<Everything>(&patched(at::ITEM, &[2]), Kind::Tag, at::ITEM, 2, 2);
    refused::<Everything>(&patched(at::ITEMS + 4, &[255]), Kind::Tag, at::ITEMS + 4, 255, 2);
    // A field without even a tag: its content ends where it begins.
    let empty = patched(59, &(at::ITEM as u32).to_le_bytes());
    refused::<Everything>(&empty, Kind::Short, at::ITEM, 1, 0);
    // The note's only slot, which tells its length.
    let note = at::ITEMS + 5;
    refused::<Everything>(&patched(note, &[3]), Kind::End, note, 3, 4);
    for lie in [1u32 << 31, u32::MAX] {
        refused::<Everything>(&patched(note, &lie.to_le_bytes()), Kind::Short, note, lie.into(), 8);
    }
    let (layouts, id) = layouts::<Everything>();
    let types = layouts.records().len() as u64;
    let unknown = Err(DecodeError::new(Kind::UnknownType, 0, 99, types));
    assert_eq!(layouts.check(99, &body()), unknown);
    assert_eq!(layouts.view(99, &body()).map(|_| ()), unknown);
    assert_eq!(layouts.decode(99, &body()).map(|_| ()), unknown);
    assert!(u64::from(id) < types);
}

#[test]
fn text_that_is_not_utf8() {
    refused::<Everything>(&patched(at::TEXT + 2, b"x"), Kind::Utf8, at::TEXT, 6, 1);
    refused::<Everything>(&patched(at::TEXT, &[0xff]), Kind::Utf8, at::TEXT, 6, 0);
    // A surrogate, and a NUL in two bytes.
    refused::<Everything>(&patched(at::TEXT + 3, &[0xed, 0xa0, 0x80]), Kind::Utf8, at::TEXT, 6, 3);
    refused::<Everything>(&patched(at::TEXT + 3, &[0xc0, 0x80]), Kind::Utf8, at::TEXT, 6, 3);
}

#[derive(Record, Debug, Default, PartialEq)]
#[record(message)]
struct Chain {
    next: Option<Box<Chain>>,
}

#[derive(Record, Debug, Default, PartialEq)]
#[record(message)]
struct Tree {
    children: Vec<Tree>,
}

/// A chain of `levels` records in another.
fn chain(levels: usize) -> Vec<u8> {
    let width = Chain::FIXED;
    let total = (levels + 1) * width;
    (0..=levels)
        .flat_map(|level| {
            let end = (total - level * width) as u32;
            [&[u8::from(level == levels)][..], &end.to_le_bytes()].concat()
        })
        .collect()
}

/// A tree of `levels` only children.
fn tree(levels: usize) -> Vec<u8> {
    let total = (levels + 1) * 8;
    (0..=levels)
        .flat_map(|level| {
            [((total - level * 8) as u32).to_le_bytes(), u32::from(level < levels).to_le_bytes()].concat()
        })
        .collect()
}

#[test]
fn nesting_beyond_all_bounds() {
    let most = MAX_DEPTH as usize;
    assert_eq!(verdicts::<Chain>(&chain(most)), (Ok(()), Ok(())));
    assert_eq!(verdicts::<Tree>(&tree(most / 2 - 1)), (Ok(()), Ok(())));
    for levels in [most + 1, most + 2, 10_000, 1_000_000] {
        let at = (most + 1) * Chain::FIXED;
        refused::<Chain>(&chain(levels), Kind::Depth, at, MAX_DEPTH as u64 + 1, MAX_DEPTH.into());
    }
    for levels in [most / 2, most / 2 + 1, 10_000, 1_000_000] {
        let at = most / 2 * 8 + Tree::FIXED;
        refused::<Tree>(&tree(levels), Kind::Depth, at, MAX_DEPTH as u64 + 1, MAX_DEPTH.into());
    }
}

#[test]
fn values_nested_too_deep_are_not_written() {
    let (layouts, id) = layouts::<Chain>();
    let mut value = RecordValue { type_id: id, fields: vec![Value::Null] };
    for _ in 0..MAX_DEPTH {
        value = RecordValue { type_id: id, fields: vec![Value::Record(value)] };
    }
    let mut out = Vec::new();
    layouts.encode(&value, &mut out).expect("just deep enough");
    assert_eq!(out, chain(MAX_DEPTH as usize));
    value = RecordValue { type_id: id, fields: vec![Value::Record(value)] };
    let error = layouts.encode(&value, &mut out).unwrap_err();
    assert_eq!((error.need.as_str(), error.have.as_str()), ("at most 32 levels", "33"));
    assert_eq!(out.len(), chain(MAX_DEPTH as usize).len(), "nothing of it has been written");
}

/// Path, need and have of JSON that is no `T`.
#[track_caller]
fn mismatch<T: Record>(json: &str) -> (String, String, String) {
    match layouts::<T>().0.from_json(json) {
        Err(JsonError::Mismatch(error)) => (error.path, error.need, error.have),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn no_json<T: Record>(json: &str, what: &str) {
    match layouts::<T>().0.from_json(json) {
        Err(JsonError::Syntax(error)) => assert!(error.to_string().contains(what), "{error}"),
        other => panic!("{other:?}"),
    }
}

/// The JSON of [`body`] with one field's value replaced.
fn json_with(field: &str, value: &str) -> String {
    let (layouts, id) = layouts::<Everything>();
    let mut json = Vec::new();
    layouts.view(id, &body()).expect("a body").write_json(&mut json);
    let mut object: serde_json::Map<_, _> = serde_json::from_slice(&json).expect("JSON");
    object.remove(field);
    let rest = serde_json::to_string(&object).expect("JSON");
    format!("{{\"{field}\":{value},{}", &rest[1..])
}

#[test]
fn json_of_the_wrong_kind_names_the_place() {
    for (field, value, path) in [
        ("flag", "1", "Everything.flag"),
        ("side", "\"MID\"", "Everything.side"),
        ("side", "0", "Everything.side"),
        ("letter", "\"ab\"", "Everything.letter"),
        ("clock", "\"24:00\"", "Everything.clock"),
        ("price", "\"12345678901234567\"", "Everything.price"),
        ("venue", "\"NASDAQ\"", "Everything.venue"),
        ("f4", "1e39", "Everything.f4"),
        ("maybe", "4294967296", "Everything.maybe"),
        ("maybe", "-1", "Everything.maybe"),
        ("maybe", "1.5", "Everything.maybe"),
        ("maybe", "99999999999999999999999", "Everything.maybe"),
        ("text", "null", "Everything.text"),
        ("text", "{}", "Everything.text"),
        ("raw", "\"0g\"", "Everything.raw"),
        ("raw", "\"0é\"", "Everything.raw"),
        ("list", "[1, 65536]", "Everything.list[1]"),
        ("list", "[1, null]", "Everything.list[1]"),
        ("holes", "[null, \"x\"]", "Everything.holes[1]"),
        ("item", "{\"ratio\": 1}", "Everything.item"),
        ("item", "{\"$type\": \"Everything\"}", "Everything.item"),
        ("items", "[{\"$type\": \"Leg\", \"ratio\": true}]", "Everything.items[0].Leg.ratio"),
        ("items", "[{\"$type\": \"Leg\", \"ratio\": 1, \"more\": 1}]", "Everything.items[0].Leg"),
        ("names", "[[\"a\"], [\"b\", 7]]", "Everything.names[1][1]"),
        ("unknown", "1", "Everything"),
    ] {
        let (layouts, _) = layouts::<Everything>();
        let json = json_with(field, value);
        // What fits JSON's types but not the field's range is found when it is encoded.
        let error = match layouts.from_json(&json) {
            Err(JsonError::Mismatch(error)) => error,
            Err(other) => panic!("{json}: {other}"),
            Ok(record) => layouts.encode(&record, &mut Vec::new()).expect_err(&json),
        };
        assert_eq!(error.path, path, "{error}");
        assert!(!error.need.is_empty() && !error.have.is_empty(), "{error}");
    }
}

#[test]
fn json_that_is_none() {
    no_json::<Everything>("", "EOF");
    no_json::<Everything>("{\"flag\": tru", "EOF");
    no_json::<Everything>(&json_with("text", "\"\\ud800\""), "hex escape");
    no_json::<Everything>(&json_with("text", "\"\\udc00x\""), "surrogate");
    no_json::<Everything>(&json_with("f8", "1e999"), "out of range");
    no_json::<Everything>(&json_with("text", "\"a\nb\""), "control character");
    no_json::<Everything>("{} {}", "trailing");
    assert_eq!(mismatch::<Everything>("[1]"), (String::new(), "an object".into(), "[1]".into()));
}

#[test]
fn json_nested_beyond_all_bounds() {
    let nested = |levels: usize| format!("{}{}{}", "{\"next\":".repeat(levels), "{}", "}".repeat(levels));
    let (layouts, _) = layouts::<Chain>();
    let record = layouts.from_json(&nested(MAX_DEPTH as usize)).expect("just deep enough");
    layouts.encode(&record, &mut Vec::new()).expect("just deep enough");
    for levels in [33, 100] {
        let (path, need, have) = mismatch::<Chain>(&nested(levels));
        assert!(path.starts_with("Chain.next.Chain.next."), "{path}");
        assert_eq!((need.as_str(), have.as_str()), ("at most 32 levels", "33"));
    }
    no_json::<Chain>(&nested(10_000), "recursion limit");
    no_json::<Everything>(&"[".repeat(1_000_000), "recursion limit");
}

#[test]
fn of_a_key_that_comes_twice_the_last_counts() {
    let json = json_with("maybe", "1,\"maybe\":2");
    let record = layouts::<Everything>().0.from_json(&json).expect("JSON");
    assert_eq!(record.fields[8], Value::UInt(2));
}

#[test]
fn floats_that_json_has_no_number_for() {
    for (value, float) in
        [("\"Infinity\"", f64::INFINITY), ("\"-Infinity\"", f64::NEG_INFINITY), ("-0.0", -0.0)]
    {
        for field in ["f4", "f8"] {
            let (layouts, id) = layouts::<Everything>();
            let mut body = Vec::new();
            layouts
                .encode(&layouts.from_json(&json_with(field, value)).expect("JSON"), &mut body)
                .expect("valid");
            let decoded = decode::<Everything>(&body).expect("valid");
            let got = if field == "f4" { decoded.f4.into() } else { decoded.f8 };
            assert_eq!(got.to_bits(), float.to_bits());
            let mut json = Vec::new();
            layouts.view(id, &body).expect("valid").write_json(&mut json);
            assert!(String::from_utf8(json).unwrap().contains(&format!("\"{field}\":{value}")));
        }
    }
    // JSON has one NaN: without sign and payload.
    let (layouts, id) = layouts::<Everything>();
    let mut json = Vec::new();
    let nan = patched(at::F8, &0xfff0_dead_beef_0001u64.to_le_bytes());
    layouts.view(id, &nan).expect("valid").write_json(&mut json);
    let record = layouts.from_json(str::from_utf8(&json).expect("UTF-8")).expect("JSON");
    assert!(matches!(record.fields[7], Value::F64(x) if x.to_bits() == f64::NAN.to_bits()));
}

#[test]
fn long_texts_make_no_long_errors() {
    let long = "x".repeat(8 << 20);
    let quoted = format!("\"{long}\"");
    let record =
        layouts::<Everything>().0.from_json(&json_with("text", &quoted)).expect("a string of any length");
    assert_eq!(record.fields[9], Value::Text(long.clone()));
    let unknown = json_with(&long, "1");
    let wrong_type = format!("{{\"$type\":{quoted}}}");
    let fields = ["flag", "side", "letter", "clock", "price", "venue", "f8", "maybe", "raw", "list", "item"];
    for json in fields.map(|field| json_with(field, &quoted)).iter().chain([&unknown, &wrong_type]) {
        let error = layouts::<Everything>().0.from_json(json).unwrap_err().to_string();
        assert!(error.len() < 400, "{} bytes: {}…", error.len(), &error[..100]);
    }
}
