//! `tapedb sql`: queries from the command line, from files and from pipes, in every format.

use crate::support::{Place, Run, end, signal};
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

/// A place with 2,000 bars, half of them sealed.
fn place() -> Place {
    let place = Place::new();
    place.run("generate --stream bars --kind bars --messages 1k --interval 1s").good();
    place.run("seal bars").good();
    place.run("generate --stream bars --kind bars --messages 1k --interval 1s").good();
    place
}

fn sql(place: &Place, options: &str, query: &str) -> Run {
    Run::of(place.command(&format!("sql {options}")).arg(query).output().expect("the command runs"))
}

fn piped(place: &Place, options: &str, text: &str) -> Run {
    let mut child = place.start(place.command(&format!("sql {options}")).stdin(Stdio::piped()));
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    end(child)
}

#[test]
fn rows_are_printed_in_every_format() {
    let place = place();
    let query = "SELECT symbol, count(*) AS bars, min(time) AS first FROM bars GROUP BY symbol ORDER BY symbol LIMIT 1";
    let table = sql(&place, "", query).good();
    assert!(table.contains("| bars | first") && table.ends_with("\n1 row\n"), "{table}");
    let csv = sql(&place, "--output csv", query).good();
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines[0], "symbol,bars,first");
    assert!(lines.len() == 2 && lines[1].ends_with('Z'), "{csv}");
    assert_eq!(sql(&place, "--output csv --no-header", query).good(), format!("{}\n", lines[1]));
    let json = sql(&place, "--json", query).json();
    assert_eq!(json.len(), 1);
    assert_eq!(json[0]["bars"].to_string(), lines[1].split(',').nth(1).unwrap());
    // Names imply formats, and files are made, not replaced.
    let path = place.path("rows.arrows").display().to_string();
    assert_eq!(sql(&place, &format!("--out {path}"), "SELECT * FROM bars").good(), "");
    let reader = arrow_ipc::reader::StreamReader::try_new(std::fs::File::open(&path).unwrap(), None).unwrap();
    assert_eq!(reader.map(|batch| batch.unwrap().num_rows()).sum::<usize>(), 2_000);
    assert!(sql(&place, &format!("--out {path}"), query).bad(1).contains("cannot create"));
    assert!(sql(&place, &format!("--out {path} --output csv"), query).bad(2).contains("another format"));
    let empty = sql(&place, "--output csv", "SELECT symbol FROM bars WHERE symbol = 'no'").good();
    assert_eq!(empty, "symbol\n");
    let shown = sql(&place, "--table-rows 3", "SELECT time FROM bars").good();
    assert!(
        shown.ends_with("2,000 rows, of which the first 3 are shown; --output csv prints all\n"),
        "{shown}"
    );
}

#[test]
fn statements_come_from_arguments_files_and_pipes() {
    let place = place();
    let two = "SELECT 1 AS a; -- ; no end\nSELECT ';' AS b;";
    let expected = "a\n1\nb\n;\n";
    assert_eq!(sql(&place, "--output csv", two).good(), expected);
    assert_eq!(piped(&place, "--output csv", two).good(), expected);
    let path = place.path("two.sql");
    std::fs::write(&path, two).unwrap();
    assert_eq!(place.run(&format!("sql --output csv --file {}", path.display())).good(), expected);
    assert!(sql(&place, "--output arrow", two).bad(2).contains("one by one"));
    assert!(sql(&place, "", " ; ").bad(2).contains("no query"));
    let counted =
        sql(&place, "--output csv --no-header --param 1000", "SELECT count(*) FROM bars WHERE volume >= $1");
    assert!(counted.good().trim().parse::<u64>().unwrap() <= 2_000);
}

#[test]
fn errors_have_one_line_and_exit_codes() {
    let place = place();
    assert!(sql(&place, "", "SELECT prize FROM bars").bad(2).contains("prize"));
    assert!(sql(&place, "", "SELECT * FROM bar").bad(2).contains("did you mean \"bars\""));
    assert!(sql(&place, "", "SELECT 1; SELEC 2").err.contains("not SQL"));
    assert!(sql(&place, "", "SELECT 9223372036854775807 + 1").bad(1).contains("verflow"));
    assert!(sql(&place, "--max-rows 5", "SELECT * FROM bars").bad(1).contains("more than 5 rows"));
    assert!(sql(&place, "--decimals 99,1", "SELECT * FROM bars").bad(2).contains("99"));
    assert!(sql(&place, "--output csv", "SELECT 1; SELECT 1 / 0").out.starts_with("Int64(1)\n1\n"));
}

#[test]
fn live_queries_of_sql_go_on_until_they_are_interrupted() {
    let place = place();
    let query = "SELECT time, symbol, close FROM bars WHERE volume % 2 = 0";
    let mut child = place.start(place.command("sql --live").arg(query));
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.next().as_deref(), Some("time,symbol,close"));
    let history =
        sql(&place, "--output csv --no-header", &format!("{query} ORDER BY time")).good().lines().count();
    let mut seen: Vec<String> = lines.by_ref().take(history).collect();
    place.run("generate --stream bars --kind bars --messages 1k --interval 1s --seed 2").good();
    let mut all: Vec<String> =
        sql(&place, "--output csv --no-header", query).good().lines().map(Into::into).collect();
    assert!(all.len() > history);
    seen.extend(lines.by_ref().take(all.len() - history));
    signal(&child, "INT");
    assert_eq!(lines.next(), None);
    let run = end(child);
    assert_eq!((run.code, run.err.as_str()), (130, ""));
    seen.sort();
    all.sort();
    assert_eq!(seen, all);

    let refused = sql(&place, "--live", "SELECT symbol FROM bars ORDER BY symbol").bad(2);
    assert!(refused.contains("ORDER BY cannot run live"), "{refused}");
    assert!(sql(&place, "--live --max-rows 5", query).bad(2).contains("--max-rows"));
    assert!(sql(&place, "--live --output table", query).bad(2).contains("--output csv"));
    assert_eq!(sql(&place, "--lateness 1s", query).code, 2);
}
