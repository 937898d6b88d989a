//! DataFusion's own sqllogictest files (`test_files` of the crate `datafusion-sqllogictest`), as far as they read no tables of their own:
//! expressions and functions answer here what they answer there.

use crate::support::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tapedb_query::arrow::util::display::{ArrayFormatter, DurationFormat, FormatOptions};
use tapedb_query::{Error, Reason, Sql};

/// The folder with the files.
const FOLDER: &str = "TAPEDB_DATAFUSION_SLT";

/// Queries that answer otherwise than stated: an error that DataFusion itself takes for a defect, and a function that the file has
/// replaced before and removed.
const OTHERWISE: &[&str] = &[
    "array_resize.slt: select array_resize(make_array(1, 2, 3), -5, 2);",
    "create_function.slt: select abs(-1);",
];

/// A query of a file, and what it answers; no answer: an error.
struct Query {
    line: usize,
    text: String,
    is_sorted: bool,
    answer: Option<Vec<String>>,
}

/// The queries of a file, and whether it changes settings before them: those are not compared.
fn queries(file: &str) -> Vec<Query> {
    let lines: Vec<&str> = file.lines().collect();
    let (mut found, mut at, mut has_settings) = (Vec::new(), 0, false);
    while at < lines.len() {
        let head: Vec<&str> = lines[at].split_whitespace().collect();
        let begin = at + 1;
        if !matches!(head.first(), Some(&"query" | &"statement")) {
            at += 1;
            continue;
        }
        let is_end = |line: &&str| line.is_empty() || *line == "----";
        let end = begin + lines[begin..].iter().take_while(|line| !is_end(line)).count();
        let text = lines[begin..end].join("\n");
        at = end;
        if head[0] == "statement" {
            has_settings |= text.trim_start().to_lowercase().starts_with("set ");
            continue;
        }
        let mut answer = Vec::new();
        if lines.get(end) == Some(&"----") {
            answer = lines[end + 1..]
                .iter()
                .take_while(|line| !line.is_empty())
                .map(|line| line.to_string())
                .collect();
            at = end + 1 + answer.len();
        }
        // Plans have other operators and another form.
        if !has_settings && !text.trim_start().to_lowercase().starts_with("explain") {
            let answer = (head.get(1) != Some(&"error")).then_some(answer);
            found.push(Query { line: begin, text, is_sorted: head.contains(&"rowsort"), answer });
        }
    }
    found
}

/// Words of a row: numbers are rounded in the files, and have no zeros behind the point.
fn words(row: &str) -> Vec<String> {
    let word = |word: &str| match (word, word.parse::<f64>()) {
        ("inf", _) => "Infinity".to_string(),
        ("-inf", _) => "-Infinity".to_string(),
        (_, Ok(number)) if number.abs() < 1e-9 => "0".to_string(),
        // Integers of any type stay as they are.
        (_, Ok(number)) if number.abs() < 1e15 || number.is_finite() && number.abs() > 1e40 => {
            format!("{number:.8e}")
        }
        _ => word.to_string(),
    };
    // What is empty is stated in some files and left out in others.
    row.split_whitespace().filter(|word| *word != "(empty)").map(word).collect()
}

/// The rows of a query as words.
fn rows(sql: &Sql, text: &str) -> Result<Vec<Vec<String>>, Error> {
    let options = FormatOptions::default().with_null("NULL").with_duration_format(DurationFormat::Pretty);
    let mut found = Vec::new();
    let mut batches = sql.query(text)?;
    while let Some(batch) = batches.next_batch()? {
        let columns: Vec<_> =
            batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options).unwrap()).collect();
        let line = |row| columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>();
        found.extend((0..batch.num_rows()).map(|row| words(&line(row).join(" ").replace('\0', "\\0"))));
    }
    Ok(found)
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "slt") {
            found.push(path);
        }
    }
}

/// What came of a query.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Equal,
    /// It reads a table of the file, changes something, or uses a function that is not built in.
    Refused,
    Otherwise,
}

fn outcome(sql: &Sql, query: &Query) -> (Outcome, String) {
    let wanted = match (rows(sql, &query.text), &query.answer) {
        (Err(error), _) if error.reason() == Reason::Internal => {
            return (Outcome::Otherwise, error.to_string());
        }
        (Err(_), None) => return (Outcome::Equal, String::new()),
        (Err(error), Some(_)) => return (Outcome::Refused, error.to_string()),
        (Ok(rows), None) => return (Outcome::Otherwise, format!("{rows:?}, not an error")),
        (Ok(rows), Some(wanted)) => (rows, wanted.iter().map(|row| words(row)).collect::<Vec<_>>()),
    };
    let (mut found, mut wanted) = wanted;
    if query.is_sorted || !query.text.to_lowercase().contains("order by") {
        found.sort();
        wanted.sort();
    }
    // A text of several lines is one cell here and several lines there.
    match found.concat() == wanted.concat() {
        true => (Outcome::Equal, String::new()),
        false => (Outcome::Otherwise, format!("{found:?}, not {wanted:?}")),
    }
}

#[test]
fn expressions_answer_what_datafusion_states() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        tapedb_skipped::skipped(format!("{FOLDER} names no folder with DataFusion's sqllogictest files"));
        return;
    };
    let mut paths = Vec::new();
    files(Path::new(&folder), &mut paths);
    paths.sort();
    let place = Place::new();
    let sql = place.sql();
    let mut counts: BTreeMap<Outcome, u32> = BTreeMap::new();
    let mut unknown = Vec::new();
    // Spark's functions are not built in, and some files are about the form itself.
    let is_wanted =
        |path: &&PathBuf| !path.to_string_lossy().contains("spark") && !path.ends_with("slt_features.slt");
    for path in paths.iter().filter(is_wanted) {
        for query in queries(&std::fs::read_to_string(path).unwrap()) {
            let (outcome, why) = outcome(&sql, &query);
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if outcome == Outcome::Otherwise && !OTHERWISE.contains(&&*format!("{name}: {}", query.text)) {
                unknown.push(format!("{name}:{}: {}: {why}", query.line, query.text));
            }
            *counts.entry(outcome).or_default() += 1;
        }
    }
    println!("{counts:?}");
    assert!(unknown.is_empty(), "{counts:?}\n{}", unknown.join("\n"));
    assert!(counts.get(&Outcome::Equal).is_some_and(|equal| *equal > 3_000), "{counts:?}");
}
