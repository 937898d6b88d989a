//! `docs/format/kdb.md` against the code: its tables of types and limits, its dump.

use crate::unhex;
use tapedb_kdb_ipc::{GREETING_BYTES_MAX, Kind, Limits, Type, Value, message};

fn page() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/format/kdb.md"))
        .expect("the page")
}

/// The cells of the table whose header begins with these.
fn table(header: &str) -> Vec<Vec<String>> {
    let page = page();
    let (_, rest) = page.split_once(header).expect("the table is there");
    let rows = rest.lines().skip(2).take_while(|line| line.starts_with('|'));
    rows.map(|row| row.trim_matches('|').split('|').map(|cell| cell.trim().to_string()).collect()).collect()
}

#[test]
fn the_page_has_the_real_types() {
    let shown: Vec<(u8, String, String)> = table("| code | type | letter |")
        .into_iter()
        .map(|cells| (cells[0].parse().expect("a code"), cells[1].clone(), cells[2].clone()))
        .collect();
    let real: Vec<(u8, String, String)> =
        Type::ALL.into_iter().map(|ty| (ty.code(), ty.name().to_string(), ty.letter().to_string())).collect();
    assert_eq!(shown, real);
}

#[test]
fn the_page_has_the_real_limits() {
    let Limits { message_bytes_max, expanded_bytes_max, values_max, depth_max } = Limits::default();
    let real = [message_bytes_max, expanded_bytes_max, values_max, depth_max, GREETING_BYTES_MAX];
    let shown: Vec<usize> = table("| what | most |").into_iter().map(|cells| number(&cells[1])).collect();
    assert_eq!(shown, real);
}

/// The number of a cell: the one in brackets, where there is one.
fn number(cell: &str) -> usize {
    let cell = cell.split_once('(').map_or(cell, |(_, exact)| exact);
    cell.chars().filter(char::is_ascii_digit).collect::<String>().parse().expect("a number")
}

#[test]
fn the_page_shows_a_real_message() {
    let page = page();
    let (_, rest) = page.split_once("39 bytes:\n\n```\n").unwrap_or_default();
    let hex: String =
        rest.lines().take_while(|line| *line != "```").flat_map(|line| line[6..].split(' ')).collect();
    let value = Value::list(vec![vec![1, 2].into(), Value::symbol("a")]);
    assert_eq!(unhex(&hex), message(Kind::Response, &value).expect("a message"));
}
