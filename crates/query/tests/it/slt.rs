//! Files in the form of sqllogictest (`tests/slt/*.slt`): statements, queries, and what they answer.
//!
//! `stream NAME` is ours: a schema, a line `----`, and messages as at the end of `docs/SQL.md`.

use crate::cluster::{Servers, Split};
use crate::support::*;
use std::path::Path;
use tapedb_query::Sql;
use tapedb_schema::Timestamp;

/// Set to write what queries answer into the files.
const WRITE: &str = "TAPEDB_WRITE_SLT";

/// A record of a file: lines until an empty one.
struct Record<'a> {
    line: usize,
    /// Such as `query TI rowsort`.
    head: Vec<&'a str>,
    text: String,
    /// What is behind `----`.
    answer: Vec<&'a str>,
}

impl<'a> Record<'a> {
    fn of((line, lines): (usize, Vec<&'a str>)) -> Self {
        let end = lines.iter().position(|line| *line == "----").unwrap_or(lines.len());
        let answer = lines.get(end + 1..).unwrap_or_default().to_vec();
        Self { line, head: lines[0].split_whitespace().collect(), text: lines[1..end].join("\n"), answer }
    }
}

/// The records of a file, each with its first line. Lines that begin with `#` are comments.
fn records(file: &str) -> Vec<Record<'_>> {
    let mut found: Vec<(usize, Vec<&str>)> = Vec::new();
    let mut is_inside = false;
    for (number, line) in (1..).zip(file.lines()).filter(|(_, line)| !line.starts_with('#')) {
        match (line.is_empty(), is_inside) {
            (false, true) => found.last_mut().expect("a record has begun").1.push(line),
            (false, false) => found.push((number, vec![line])),
            (true, _) => {}
        }
        is_inside = !line.is_empty();
    }
    found.into_iter().map(Record::of).collect()
}

/// A stream: its schema, and messages with times of 2024-01-02.
fn create(record: &Record, make: impl Fn(&str, &str, &[(i64, &str, &str)], bool)) {
    let message = |line: &&str| {
        let mut parts = line.splitn(3, ' ');
        let mut part = || parts.next().unwrap_or_else(|| panic!("line {}: {line}", record.line)).to_string();
        let time: Timestamp = format!("2024-01-02T{}Z", part()).parse().unwrap();
        (time.0, part(), part())
    };
    let messages: Vec<_> = record.answer.iter().map(message).collect();
    let messages: Vec<_> =
        messages.iter().map(|(time, symbol, text)| (*time, symbol.as_str(), text.as_str())).collect();
    make(record.head[1], &record.text, &messages, record.head.get(2) == Some(&"sealed"));
}

/// What a query answers: a line for each row, in the order of the lines where rows have none.
fn answer(sql: &Sql, record: &Record) -> Vec<String> {
    let lines = match sql.query(&record.text).and_then(rows_of) {
        Ok(lines) => lines,
        Err(error) => panic!("line {}: {error}", record.line),
    };
    let cell = |cell: &str| if cell.is_empty() { "(empty)".to_string() } else { cell.to_string() };
    let mut lines: Vec<String> =
        lines.iter().map(|line| line.split('|').map(cell).collect::<Vec<_>>().join(" ")).collect();
    if record.head.get(2) == Some(&"rowsort") {
        lines.sort();
    }
    lines
}

/// Runs a file; returns it with the answers that its queries have.
fn run(path: &Path) -> String {
    let file = std::fs::read_to_string(path).unwrap();
    let place = Place::new();
    let mut made = String::new();
    let mut taken = 0;
    let lines: Vec<&str> = file.lines().collect();
    let write = std::env::var_os(WRITE).is_some();
    for record in records(&file) {
        let at = || format!("{}:{}: {}", path.display(), record.line, record.text);
        match record.head[..] {
            ["stream", ..] => create(&record, |name, schema, messages, is_sealed| {
                let stream = place.stream(name, schema, messages);
                if is_sealed {
                    stream.seal().unwrap();
                }
            }),
            ["statement", "error", ..] => {
                let expected = record.head[2..].join(" ");
                let error = place.error(&record.text).to_string();
                assert!(!expected.is_empty() && error.contains(&expected), "{}: {error}", at());
            }
            ["query", types, ..] => {
                let found = answer(&place.sql(), &record);
                let columns = place.sql().query(&record.text).unwrap().schema().fields().len();
                assert_eq!(types.len(), columns, "{}: a letter for each column", at());
                if write {
                    let head = record.line - 1 + record.text.lines().count();
                    lines[taken..=head].iter().for_each(|line| made.push_str(&format!("{line}\n")));
                    made.push_str(&format!(
                        "----\n{}",
                        found.iter().map(|row| format!("{row}\n")).collect::<String>()
                    ));
                    let is_stated = lines.get(head + 1) == Some(&"----");
                    taken = head + 1 + if is_stated { 1 + record.answer.len() } else { 0 };
                } else {
                    assert_eq!(found, record.answer, "{}: set {WRITE} to write what it answers", at());
                }
            }
            _ => panic!("{}: {:?} is no record", at(), record.head),
        }
    }
    lines[taken.min(lines.len())..].iter().for_each(|line| made.push_str(&format!("{line}\n")));
    made
}

#[test]
fn files_answer_what_they_state() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/slt");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 5, "{files:?}");
    for path in files {
        let made = run(&path);
        if std::env::var_os(WRITE).is_some() {
            std::fs::write(path, made).unwrap();
        }
    }
}

/// The files, with the streams on three servers. Numbers of messages differ there, and messages of one symbol and time stay on one server: between
/// two they would have another order.
#[test]
fn files_answer_the_same_on_three_servers() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/slt");
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let file = std::fs::read_to_string(&path).unwrap();
        for split in [Split::BySymbol, Split::ByStream, Split::OnLast] {
            let servers = Servers::new();
            for record in records(&file) {
                let at = || format!("{}:{}: {split:?}: {}", path.display(), record.line, record.text);
                match record.head[..] {
                    ["stream", ..] => create(&record, |name, schema, messages, is_sealed| {
                        servers.stream(name, schema, messages, is_sealed, split);
                    }),
                    ["query", ..] if !record.text.contains("sequence") => {
                        assert_eq!(answer(&servers.sql(), &record), record.answer, "{}", at());
                    }
                    _ => {}
                }
            }
        }
    }
}
