//! `docs/format/message.md` against the code: its table of widths, its dump, its schema.

use tapedb_codec::dynamic::Layouts;
use tapedb_codec::{SchemaBuilder, encode};
use tapedb_market::{Aggressor, Entry, Package, PackageKind, Trade};
use tapedb_schema::{Ascii, Timestamp};

fn page() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/format/message.md")).unwrap()
}

/// First and second column of the table whose header begins with these.
fn table(header: &str) -> Vec<(String, String)> {
    let page = page();
    let (_, rest) = page.split_once(header).expect("the table is there");
    let rows = rest.lines().skip(2).take_while(|line| line.starts_with('|'));
    let cell = |cells: &mut std::str::Split<'_, &str>| cells.next().unwrap_or_default().trim().to_string();
    rows.map(|row| {
        let mut cells = row.trim_matches('|').split(" |");
        (cell(&mut cells), cell(&mut cells))
    })
    .collect()
}

/// Width of the slot of a type, by the interpreter.
fn width(ty: &str) -> usize {
    let text = format!("record A {{}} record B {{}} message M {{ field: {ty} }}");
    Layouts::new(text.parse().unwrap()).unwrap().records()[2].fields[0].width
}

/// Width of what a row of the page names.
fn real_width(name: &str) -> usize {
    match name {
        "enum, up to 256 symbols" => enum_width(256),
        "enum, more symbols" => enum_width(257),
        "decimal(18,s)" => width("decimal(18,4)"),
        "ascii(n)" => width("ascii(11)"),
        "array<…>" => width("array<u8>"),
        "record<…>" => width("record<A|B>"),
        plain => width(plain),
    }
}

fn enum_width(count: usize) -> usize {
    let symbols: Vec<String> = (0..count).map(|i| format!("S{i}")).collect();
    let text = format!("enum E {{ {} }} message M {{ field: E }}", symbols.join(", "));
    Layouts::new(text.parse().unwrap()).unwrap().records()[0].fields[0].width
}

#[test]
fn the_page_has_the_real_widths() {
    let mut types = 0;
    for (names, shown) in table("| type | width |") {
        let shown = if shown == "n" { 11 } else { shown.parse().unwrap() };
        for name in names.split("`, `") {
            assert_eq!(shown, real_width(name.trim_matches('`')), "{name}");
            types += 1;
        }
    }
    assert_eq!(types, 23, "every type has a row");
}

fn example() -> Package {
    let trade = Trade {
        exchange: Ascii::new("NYSE").ok(),
        price: "49.18".parse().unwrap(),
        size: "300".parse().unwrap(),
        aggressor: Some(Aggressor::Sell),
        ..Trade::default()
    };
    Package {
        kind: PackageKind::Update,
        source_time: Some(Timestamp(1_700_000_000_000_000_000)),
        match_time: None,
        sequence: Some(42),
        entries: vec![Entry::Trade(trade)],
    }
}

fn hex_dump(bytes: &[u8]) -> String {
    let line = |(i, row): (usize, &[u8])| {
        let hex: Vec<_> = row.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{:04x}  {}\n", i * 16, hex.join(" "))
    };
    bytes.chunks(16).enumerate().map(line).collect()
}

#[test]
fn the_page_shows_the_real_bytes() {
    let mut body = Vec::new();
    encode(&example(), &mut body);
    let dump = hex_dump(&body);
    assert!(page().contains(&dump), "docs/format/message.md must show:\n{dump}");
    let last = table("| bytes | what |").last().cloned().unwrap();
    assert_eq!(last.0, format!("{:#04x}", body.len() - 1));
}

/// The lines of the page's schema are those of the real one, which has documentation besides.
#[test]
fn the_page_has_the_real_schema() {
    let real = SchemaBuilder::new().with::<Package>().finish().to_string();
    let page = page();
    let (_, rest) = page.split_once("```tapedb\n").unwrap();
    let (shown, _) = rest.split_once("```").unwrap();
    for line in shown.lines() {
        assert!(real.lines().any(|known| known == line), "{line:?} is not in\n{real}");
    }
}

#[test]
fn the_page_has_every_error() {
    let page = page();
    let source = include_str!("../../../../crates/codec/src/error.rs");
    let (_, body) = source.split_once("pub enum DecodeErrorKind {").unwrap();
    let (body, _) = body.split_once("\n}").unwrap();
    let variants =
        body.lines().filter_map(|line| line.trim().strip_suffix(',')).filter(|line| !line.contains(' '));
    for kind in variants {
        assert!(page.contains(&format!("`{kind}`")), "docs/format/message.md lacks {kind}");
    }
}
