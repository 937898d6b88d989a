//! Each rule by itself, errors in full, hostile bytes. (Random schemas against values: `testing/targets`.)

use super::*;
use crate::dynamic::Value;
use crate::error::DecodeErrorKind;

fn layouts(text: &str) -> Layouts {
    Layouts::new(text.parse().unwrap()).unwrap()
}

fn evolution(written: &str, read: &str) -> (Layouts, Layouts, Evolution) {
    let (written, read) = (layouts(written), layouts(read));
    let evolution = Evolution::new(&written, &read).unwrap();
    (written, read, evolution)
}

/// What a message in JSON becomes, as JSON.
fn convert(written: &str, read: &str, json: &str) -> Result<String, EvolveError> {
    let (written, read, evolution) = evolution(written, read);
    let record = written.from_json(json).unwrap();
    let (mut body, mut out) = (Vec::new(), b"kept".to_vec());
    written.encode(&record, &mut body).unwrap();
    let result = evolution.convert(record.type_id, &body, &mut out);
    assert!(out.starts_with(b"kept") && (result.is_ok() || out == b"kept"));
    let mut json = Vec::new();
    read.view(result?, &out[4..]).unwrap().write_json(&mut json);
    Ok(String::from_utf8(json).unwrap())
}

/// The same for one field `a` and its value, both in JSON.
fn field(written: &str, read: &str, json: &str) -> Result<String, EvolveError> {
    let message = |ty: &str| format!("enum E {{ A, B, C }} enum F {{ C, X, A }} message M {{ a: {ty} }}");
    let json = convert(&message(written), &message(read), &format!("{{\"a\":{json}}}"))?;
    // Canonical JSON leaves nulls out.
    Ok(json.get(r#"{"$type":"M","a":"#.len()..json.len() - 1).unwrap_or("null").into())
}

fn refused(written: &str, read: &str) -> IncompatibleSchema {
    Evolution::new(&layouts(written), &layouts(read)).unwrap_err()
}

#[test]
fn every_conversion_keeps_the_value() {
    let cases = [
        ("i8", "i64", "-5", "-5"),
        ("u8", "i16", "255", "255"),
        ("u32", "u64", "4294967295", "4294967295"),
        ("u32", "i64", "4294967295", "4294967295"),
        ("f32", "f64", "0.5", "0.5"),
        ("i16", "decimal64", "-32768", r#""-32768""#),
        ("u64", "decimal64", "18446744073709550000", r#""1844674407370955E4""#),
        ("u8", "decimal(18,2)", "7", r#""7.00""#),
        ("decimal(18,2)", "decimal(18,4)", r#""1.25""#, r#""1.2500""#),
        ("decimal(18,2)", "decimal64", r#""1.50""#, r#""1.50""#),
        ("ascii(4)", "ascii(6)", r#""ABCD""#, r#""ABCD""#),
        ("ascii(4)", "string", r#""AB""#, r#""AB""#),
        ("char", "string", r#""€""#, r#""€""#),
        ("E", "F", r#""C""#, r#""C""#),
        ("E?", "F?", r#""B""#, "null"),
        ("i32", "i32?", "1", "1"),
        ("i32?", "i32 = 9", "null", "9"),
        ("i32?", "i64 = 9", "-1", "-1"),
        ("string?", "string = \"none\"", "null", r#""none""#),
        ("ascii(2)?", "string = \"none\"", "null", r#""none""#),
        ("array<u8>", "array<i32?>", "[1,255]", "[1,255]"),
        ("array<E?>", "array<F?>", r#"["B",null,"A"]"#, r#"[null,null,"A"]"#),
        ("array<array<char>>", "array<array<string>>", r#"[[],["x","y"]]"#, r#"[[],["x","y"]]"#),
    ];
    for (written, read, json, expected) in cases {
        assert_eq!(field(written, read, json).as_deref(), Ok(expected), "{written} as {read}");
    }
}

#[test]
fn a_field_without_a_counterpart_is_an_error_with_its_path() {
    let text = |written, read, json| field(written, read, json).unwrap_err().to_string();
    assert_eq!(
        text("E", "F", r#""B""#),
        "M.a: the reading schema has no symbol B: add it to the enum, or make the field nullable"
    );
    // The default is for what was not written; it would turn a new symbol into a wrong one.
    assert!(matches!(field("E", "F = A", r#""B""#), Err(EvolveError::UnknownSymbol { .. })));
    assert!(text("array<array<E>>", "array<array<F>>", r#"[[],["A","B"]]"#).starts_with("M.a[1][1]: "));
    assert_eq!(
        text("i64", "decimal64", "-9007199254740993001"),
        "M.a: -9007199254740993001 is not exact as decimal64: read it as the type it was written as"
    );
    assert!(text("decimal(18,2)", "decimal(18,18)", r#""-10.05""#).starts_with("M.a: -10.05 is not exact"));
    assert!(text("decimal(18,2)", "decimal64", "\"90071992547409930.01\"").contains("90071992547409930.01"));
}

#[test]
fn fields_are_found_by_name_then_by_alias_on_either_side() {
    let written = "message M { a: u8, b: u8 [alias new_b], c: u8 }";
    let read = "message M { new_b: u8, a: u8?, d: u8 [alias c, b], e: u8 = 5, f: string? }";
    assert_eq!(
        convert(written, read, r#"{"a":1,"b":2,"c":3}"#).unwrap(),
        r#"{"$type":"M","new_b":2,"a":1,"d":3,"e":5}"#
    );
}

#[test]
fn records_of_unions_are_found_by_name() {
    let written = "message M { x: array<record<A|B>> } record A { a: u8 } record B { b: string }";
    let read =
        "record C {} record B { b: string, n: u16 = 7 } message M { x: array<record<C|B|A>?> } record A {}";
    assert_eq!(
        convert(written, read, r#"{"x":[{"$type":"B","b":"x"},{"$type":"A","a":1}]}"#).unwrap(),
        r#"{"$type":"M","x":[{"$type":"B","b":"x","n":7},{"$type":"A"}]}"#
    );
    let older = "message M { x: array<record<B>> } record B { b: string }";
    let error = convert(written, older, r#"{"x":[{"$type":"B","b":"x"},{"$type":"A","a":1}]}"#).unwrap_err();
    assert_eq!(error, EvolveError::UnknownRecord { path: "M.x[1]".into(), record: "A".into() });
    let nullable = "message M { x: array<record<B>?> } record B { b: string }";
    assert_eq!(
        convert(written, nullable, r#"{"x":[{"$type":"A","a":1},{"$type":"B","b":"x"}]}"#).unwrap(),
        r#"{"$type":"M","x":[null,{"b":"x"}]}"#
    );
}

#[test]
fn a_plan_that_cannot_be_names_the_way_from_a_message() {
    let error = refused(
        "record T { price: string } message Package { entries: array<record<T>> }",
        "record T { price: decimal64? } message Package { entries: array<record<T>> }",
    );
    assert_eq!(
        error.to_string(),
        "Package.entries.price: written as string, read as decimal64?: values cannot be converted exactly; \
         use the written type, or give the field a new name"
    );
    let cases = [
        ("", "a: u8", "M.a: written as nothing, read as u8: give it a default or make it nullable"),
        ("", "a: array<u8>", "M.a: written as nothing, read as array<u8>: make it nullable"),
        ("b: u16", "a: u8 [alias b]", "M.a: written as b: u16, read as u8: values cannot"),
        ("a: u8?", "a: u8", "M.a: written as u8?, read as u8: make it nullable, or give it a default"),
        ("a: array<u8?>", "a: array<u8>", "M.a: written as array<u8?>, read as array<u8>: make the items"),
        ("a: i8", "a: u64", "M.a: written as i8, read as u64: values cannot"),
        ("a: u64", "a: i64", "M.a: written as u64, read as i64: values cannot"),
        ("a: ascii(3)", "a: ascii(2)", "M.a: written as ascii(3), read as ascii(2): values cannot"),
        ("a: decimal(18,3)", "a: decimal(18,2)", "M.a: written as decimal(18,3), read as decimal(18,2)"),
        ("a: E", "a: F", "M.a: written as E, read as F: the enums have no symbol in common"),
        ("a: record<R>", "a: record<S>", "M.a: written as record<R>, read as record<S>: they have no record"),
    ];
    for (written, read, expected) in cases {
        let around = "enum E { A } enum F { B } record R {} record S {}";
        let message = |fields| format!("{around} message M {{ {fields} }}");
        let error = refused(&message(written), &message(read)).to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn types_that_the_reader_lacks_can_be_skipped() {
    let (written, _, evolution) = evolution("message A {} message B { x: u8 }", "message B { x: u8 }");
    assert_eq!((evolution.target(0), evolution.target(1), evolution.target(2)), (None, Some(0), None));
    let mut out = Vec::new();
    let error = evolution.convert(0, &[], &mut out).unwrap_err();
    assert_eq!(error, EvolveError::NoTarget { record: "A".into() });
    let unknown = written.record(2).map(|_| ()).unwrap_err();
    assert_eq!(evolution.convert(2, &[], &mut out), Err(unknown.into()));
    assert_eq!(evolution.convert(1, &[9], &mut out), Ok(0));
    assert_eq!(out, [9]);
}

#[test]
fn the_same_layout_is_copied() {
    let tree = "record Node { id: u16, children: array<record<Node>> } ";
    let written = format!("{tree} message A {{ root: record<Node>, side: E }} enum E {{ BID, ASK }}");
    let renamed =
        "message A { top: record<Node> [alias root], e: F [alias side] } enum F { BID = 7, ASK, MID } ";
    let (_, _, same) = evolution(&written, &format!("{renamed}{tree}"));
    assert!(same.is_identity(0) && same.is_identity(1) && !same.is_identity(2));
    let other = tree.replace("u16", "u32");
    let (_, _, other) = evolution(&written, &format!("{renamed}{other}"));
    assert!(!other.is_identity(0) && !other.is_identity(1));
    let (_, _, other) = evolution("message A { x: array<u8> }", "message A { x: array<u8?> }");
    assert!(!other.is_identity(0));
}

#[test]
fn damaged_bytes_are_refused() {
    use DecodeErrorKind as Kind;
    let (_, _, evolution) = evolution(
        "message M { e: E?, s: string, t: string, c: char } enum E { A }",
        "message M { e: E = A, t: string, n: char? [alias c] } enum E { B, A }",
    );
    let kind = |body: &[u8]| match evolution.convert(0, body, &mut Vec::new()) {
        Err(EvolveError::Decode(error)) => Some((error.kind, error.offset)),
        _ => None,
    };
    let body = |e, s: u32, t: u32, c: u32, heap: &[u8]| {
        [&[0, e][..], &s.to_le_bytes(), &t.to_le_bytes(), &c.to_le_bytes(), heap].concat()
    };
    assert_eq!(kind(&body(0, 14, 15, 97, b"x")), None);
    assert_eq!(kind(&body(1, 14, 15, 97, b"x")), Some((Kind::Enum, 1)));
    assert_eq!(kind(&body(0, 13, 15, 97, b"x")), Some((Kind::End, 2)));
    assert_eq!(kind(&body(0, 15, 14, 97, b"x")), Some((Kind::End, 6)));
    assert_eq!(kind(&body(0, 14, 16, 97, b"x")), Some((Kind::End, 6)));
    assert_eq!(kind(&body(0, 14, 14, 97, b"x")), Some((Kind::Trailing, 14)));
    assert_eq!(kind(&body(0, 14, 14, 97, b"")[..13]), Some((Kind::Short, 0)));
    assert_eq!(kind(&[]), Some((Kind::Short, 0)));
}

#[test]
fn too_deep_nesting_is_refused() {
    let (written, _, evolution) =
        evolution("message N { n: record<N>? }", "message N { n: record<N>?, x: u8? }");
    let nested = |depth| {
        (0..depth).fold(Value::Null, |n, _| {
            Value::Record(crate::dynamic::RecordValue { type_id: 0, fields: vec![n] })
        })
    };
    let body = |depth| {
        let Value::Record(record) = nested(depth) else { unreachable!("a record was made") };
        let mut body = Vec::new();
        written.encode(&record, &mut body).unwrap();
        body
    };
    assert!(evolution.convert(0, &body(33), &mut Vec::new()).is_ok());
    // One more around it: a bitmap, an end, the body.
    let deepest = body(33);
    let too_deep = [&[0][..], &(deepest.len() as u32 + 5).to_le_bytes(), &deepest].concat();
    let error = evolution.convert(0, &too_deep, &mut Vec::new()).unwrap_err();
    assert!(matches!(error, EvolveError::Decode(e) if e.kind == DecodeErrorKind::Depth), "{error}");
}

#[test]
fn a_small_body_does_not_become_a_huge_one() {
    let text = "x".repeat(1 << 16);
    let (written, _, evolution) = evolution(
        "message M { x: array<record<A>> } record A {}",
        &format!("message M {{ x: array<record<A>> }} record A {{ a: string = \"{text}\" }}"),
    );
    let record = |items: usize| {
        let item = Value::Record(crate::dynamic::RecordValue { type_id: 1, fields: Vec::new() });
        let mut body = Vec::new();
        let fields = vec![Value::Array(vec![item; items])];
        written.encode(&crate::dynamic::RecordValue { type_id: 0, fields }, &mut body).unwrap();
        body
    };
    let mut out = Vec::new();
    assert_eq!(evolution.convert(0, &record(1_000), &mut out), Ok(0));
    assert!(out.len() > 1_000 << 16);
    out.clear();
    let error = evolution.convert(0, &record(1_100), &mut out).unwrap_err();
    assert_eq!((error, out.len()), (EvolveError::TooLong(EVOLVED_BYTES_MAX), 0));
    assert!(out.capacity() < 3 * EVOLVED_BYTES_MAX);
}
