//! The examples of `docs/SQL.md`: each query is run, and what follows it is what it prints.

use crate::support::Place;
use tapedb_query::arrow::array::RecordBatch;
use tapedb_query::arrow::util::display::FormatOptions;
use tapedb_query::arrow::util::pretty::pretty_format_batches_with_options;

/// Set to write what queries print into the page.
const WRITE: &str = "TAPEDB_WRITE_SQL";

/// The streams of the page: the block of schema and messages.
fn database(page: &str) -> Place {
    let place = Place::new();
    let blocks = blocks(page);
    let mut streams = 0;
    for (language, text, _) in &blocks {
        if let Some(name) = language.strip_prefix("stream ") {
            let (schema, messages) = text.split_once("\n\n").expect("schema, an empty line, messages");
            let messages: Vec<(i64, &str, &str)> = messages
                .lines()
                .map(|line| {
                    let (time, rest) = line.split_once(' ').unwrap();
                    let (symbol, message) = rest.split_once(' ').unwrap();
                    let time = format!("2024-01-02T{time}Z").parse::<tapedb_schema::Timestamp>().unwrap();
                    (time.0, symbol, message)
                })
                .collect();
            place.stream(name, schema, &messages);
            streams += 1;
        }
    }
    assert!(streams >= 2, "the page has its streams");
    place
}

/// The blocks of code of a page: language, text, and where the text ends.
fn blocks(page: &str) -> Vec<(&str, &str, usize)> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(start) = page[at..].find("```").map(|start| at + start + 3) {
        let line = start + page[start..].find('\n').unwrap();
        let end = line + 1 + page[line + 1..].find("```").expect("a block ends");
        found.push((page[start..line].trim(), &page[line + 1..end], end));
        at = end + 3;
    }
    found
}

#[test]
fn the_examples_print_what_the_page_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/SQL.md");
    let page = std::fs::read_to_string(path).unwrap();
    let place = database(&page);
    let blocks = blocks(&page);
    let (mut written, mut at, mut examples) = (String::new(), 0, 0);
    for (index, (language, query, _)) in blocks.iter().enumerate() {
        if *language != "sql" {
            continue;
        }
        examples += 1;
        let printed = print(&place, query);
        let Some(("text", expected, end)) = blocks.get(index + 1) else { continue };
        if std::env::var_os(WRITE).is_some() {
            written.push_str(&page[at..end - expected.len()]);
            written.push_str(&printed);
            at = *end;
        } else {
            assert_eq!(printed, *expected, "{query}\nset {WRITE} to write what is printed");
        }
    }
    assert!(examples > 10, "{examples}");
    if std::env::var_os(WRITE).is_some() {
        written.push_str(&page[at..]);
        std::fs::write(path, written).unwrap();
    }
}

fn print(place: &Place, query: &str) -> String {
    let query = query.trim().trim_end_matches(';');
    let options = FormatOptions::default().with_null("NULL");
    let print = |batches: &[RecordBatch]| {
        let table = pretty_format_batches_with_options(batches, &options).unwrap().to_string();
        // Without the frame, which takes more room than the rows.
        let lines = table.lines().filter(|line| !line.starts_with('+'));
        lines.map(|line| format!("{}\n", line.trim_matches(['|', ' ']))).collect::<String>()
    };
    match place.sql().query(query) {
        Ok(mut rows) => {
            let mut batches = vec![RecordBatch::new_empty(rows.schema())];
            loop {
                match rows.next_batch() {
                    Ok(Some(batch)) => batches.push(batch),
                    Ok(None) => return print(&batches),
                    Err(error) => return format!("error: {error}\n"),
                }
            }
        }
        Err(error) => format!("error: {error}\n"),
    }
}
