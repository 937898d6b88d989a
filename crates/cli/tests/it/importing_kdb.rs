//! `import` of kdb+'s files: tables become streams; damage is reported; no row is imported twice.

use crate::support::{Place, Run};
use std::fs;
use std::path::{Path, PathBuf};
use tapedb_kdb_ipc::file::{column, flat, log};
use tapedb_kdb_ipc::{Attribute, Elements, Symbols, Value, Vector};

/// A record of a log: `rows` rows from a time on, in nanoseconds of the day.
fn update(table: &str, time: i64, rows: i64) -> Value {
    let columns = vec![
        Elements::Timespan((time..time + rows).collect()).into(),
        (0..rows).map(|row| ["A", "B"][row as usize % 2]).collect::<Symbols>().into(),
        (0..rows).collect::<Vec<i64>>().into(),
    ];
    Value::list(vec![Value::symbol("upd"), Value::symbol(table), Value::list(columns)])
}

fn log_of(records: &[Value]) -> Vec<u8> {
    let mut bytes = log::LOG_HEADER.to_vec();
    records.iter().for_each(|record| log::write_record(record, &mut bytes));
    bytes
}

fn import(place: &Place, options: &str, files: &[&Path]) -> Run {
    let mut command = place.command(&format!("import {options}"));
    Run::of(command.args(files).output().expect("the command runs"))
}

fn write(path: PathBuf, bytes: &[u8]) -> PathBuf {
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(&path, bytes).expect("a file");
    path
}

fn schema(place: &Place) -> PathBuf {
    let text = "trade:([]time:`timespan$();sym:`symbol$();size:`long$())\nquote:([]time:`timespan$();sym:`symbol$();bid:`long$())\n";
    write(place.path("sym.q"), text.as_bytes())
}

#[test]
fn a_log_becomes_a_stream_for_each_table() {
    let place = Place::new();
    let records = [update("trade", 5, 100), update("quote", 7, 10), update("trade", 200, 1)];
    let file = write(place.path("sym2022.06.16"), &log_of(&records));
    let options = format!("--format kdb-log --stream tp --schema {} --json", schema(&place).display());
    let objects = import(&place, &options, &[&file]).json();
    let counts: Vec<_> =
        objects.iter().map(|object| (object["stream"].as_str(), &object["messages"])).collect();
    assert_eq!(counts[1], (Some("tp/trade"), &101.into()));
    assert_eq!(counts[3], (Some("tp/quote"), &10.into()));
    let first = place.run("read tp/trade").good();
    assert!(first.starts_with("2022-06-16T00:00:00.000000005Z A trade size=0\n"), "{first}");
    // No row is imported twice by mistake.
    assert!(import(&place, &options, &[&file]).err.contains("was imported into this stream before"));
    assert_eq!(place.messages("tp/trade"), 101);

    let empty = write(place.path("empty2022.06.17"), &log_of(&[]));
    let run = import(&place, "--format kdb-log", &[&empty]);
    assert_eq!((run.code, run.out.as_str()), (0, ""), "{}", run.err);
}

#[test]
fn a_damaged_log_is_imported_up_to_the_damage() {
    let place = Place::new();
    let whole = log_of(&[update("t", 5, 10), update("t", 50, 20)]);
    let mut bytes = whole.clone();
    bytes.extend(&log_of(&[update("t", 99, 30)])[8..100]);
    let file = write(place.path("log20220616"), &bytes);
    let options = format!("--format kdb-log --stream s --schema {}", schema(&place).display());
    let place_of_damage = format!("after 2 records, at byte {}", whole.len());
    let run = import(&place, &options, &[&file]);
    assert_eq!(run.code, 1);
    assert!(run.err.contains(&place_of_damage) && run.err.contains("30 messages before it"), "{}", run.err);
    assert_eq!(place.messages("s"), 30);
    let run = import(&place, &format!("{options} --on-bad-line skip"), &[&file]);
    assert!(run.code == 0 && run.err.contains(&place_of_damage), "{}", run.err);
    assert!(run.out.contains("30 of them were written by the interrupted import"), "{}", run.out);
    assert_eq!(place.messages("s"), 30);
}

#[test]
fn a_database_becomes_a_stream_for_each_table() {
    let place = Place::new();
    for (date, rows) in [("2022.06.16", 3), ("2022.06.17", 2), ("2022.06.18", 0)] {
        let folder = place.path("hdb").join(date).join("trade");
        let simple = |elements| {
            let vector = Vector { attribute: Attribute::None, elements };
            column::write_simple(&vector).expect("a simple column")
        };
        let names = ["time", "sym", "price"].iter().collect();
        write(folder.join(".d"), &flat::write_symbols(names));
        write(folder.join("time"), &simple(Elements::Timespan((0..rows).collect())));
        let sym: Vec<i64> = (0..rows).map(|row| row % 2).collect();
        write(folder.join("sym"), &column::write_enumerated(&"sym".into(), Attribute::Parted, &sym));
        write(folder.join("price"), &simple(Elements::Float((0..rows).map(|row| row as f64).collect())));
    }
    let sym = ["MSFT", "IBM"].iter().collect();
    write(place.path("hdb/sym"), &flat::write_symbols(sym));
    let objects = import(&place, "--format kdb-hdb --json", &[&place.path("hdb")]).json();
    assert_eq!((&objects[3]["stream"], &objects[3]["messages"]), (&"trade".into(), &5.into()));
    let rows = place.run("read trade").good();
    assert_eq!(rows.lines().nth(3), Some("2022-06-17T00:00:00Z MSFT trade price=0.0"), "{rows}");

    write(place.path("hdb/2022.06.18/trade/price"), b"kxzipped");
    let error = import(&place, "--format kdb-hdb --stream other", &[&place.path("hdb")]).bad(1);
    assert!(error.contains("a compressed file") && error.contains("price"), "{error}");
}

#[test]
fn files_of_other_formats_are_refused() {
    let place = Place::new();
    let garbage = write(place.path("garbage"), b"hello, world");
    assert!(import(&place, "--format kdb-log", &[&garbage]).bad(1).contains("at byte 0"));
    assert!(import(&place, "--format kdb-hdb", &[&place.path("nothing")]).bad(1).contains("check the path"));
    let folder = garbage.parent().expect("a folder");
    assert!(import(&place, "--format kdb-log", &[folder]).bad(1).contains("nothing to import"));
    let file = write(place.path("log"), &log_of(&[update("trade", 5, 1)]));
    let options = format!("--format kdb-log --schema {}", schema(&place).display());
    assert!(import(&place, &options, &[&file]).err.contains("with --date"));
    assert!(import(&place, &format!("{options} --date 2022-06-16"), &[&file]).good().contains("1 messages"));
    assert!(import(&place, &format!("{options} --tables x"), &[&file]).bad(1).contains("no table \"x\""));
}
