//! `check` and `inspect`: clean databases, damage in every kind of file, and files that grow during the check.

use crate::support::{Place, end, signal};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use tapedb_engine::{Database, StreamOptions};
use tapedb_schema::Timestamp;

/// Five log files of two batches of ten messages.
fn filled() -> Place {
    let place = Place::new();
    let db = Database::open_without_maintenance(place.db()).unwrap();
    let schema = "message Tick { price: i64, side: bool }".parse().unwrap();
    let options = StreamOptions { file_bytes_max: 500, ..StreamOptions::default() };
    let stream = db.create_stream("ticks", schema, options).unwrap();
    let mut loader = stream.loader().unwrap();
    let tick = stream.schema().record("Tick").map(|(id, _)| id).unwrap();
    for i in 0..100u8 {
        let body = [i, 0, 0, 0, 0, 0, 0, 0, i % 2];
        let symbol = ["AIG", "BAC"][usize::from(i % 2)];
        loader.append_body(symbol, Timestamp(i64::from(i)), tick, &body).unwrap();
        if i % 10 == 9 {
            loader.flush().unwrap();
        }
    }
    place
}

fn log(place: &Place, file: u64) -> PathBuf {
    place.db().join(format!("streams/ticks/0/{file:020}.log"))
}

fn flip(path: &PathBuf, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 1;
    fs::write(path, bytes).unwrap();
}

/// The findings of a check, and its exit code; the check changes no file.
#[track_caller]
fn places(place: &Place) -> (Vec<Value>, i32) {
    let run = place.run("check --json");
    let mut objects: Vec<Value> = run.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let outcome = objects.pop().unwrap();
    assert_eq!(outcome["result"], if run.code == 0 { "clean" } else { "damaged" }, "{outcome}");
    (objects, run.code)
}

#[track_caller]
fn one_place(place: &Place, code: i32, severity: &str) -> Value {
    let (mut found, have) = places(place);
    assert_eq!((found.len(), have), (1, code), "{found:?}");
    let place = found.remove(0);
    assert_eq!(place["severity"], severity, "{place}");
    place
}

#[test]
fn an_undamaged_database_is_clean() {
    let place = filled();
    let text = place.run("check").good();
    assert_eq!(text, "ticks: 100 messages in 10 batches, 5 files, 2.2 KiB: clean\n");
    assert_eq!(place.run("check ticks --quick").good(), text);
    assert_eq!(place.run("check --json").json()[0]["symbols"], 2);
    assert!(place.run("check other").bad(1).contains("there is no stream \"other\""));
}

#[test]
fn inspect_adds_up_to_the_messages() {
    let place = filled();
    let text = place.run("inspect ticks").good();
    assert_eq!(text.lines().count(), 1 + 5 + 1 + 2, "{text}");
    let tick: Vec<&str> = text.lines().last().unwrap().split_whitespace().collect();
    assert_eq!(tick, ["Tick", "100", "900", "0"]);
    let objects = place.run("inspect ticks --batches --json").json();
    let of = |kind: &str| objects.iter().filter(|object| object["kind"] == kind).collect::<Vec<_>>();
    assert_eq!((of("batch").len(), of("file").len(), of("type").len()), (10, 5, 1));
    let number = |object: &Value, key: &str| object[key].as_u64().unwrap();
    for file in of("file") {
        let parts = ["header_bytes", "column_bytes", "body_bytes"].map(|key| number(file, key));
        assert_eq!(number(file, "bytes"), 64 + parts.iter().sum::<u64>(), "{file}");
    }
    let batch = of("batch")[1];
    assert_eq!((number(batch, "first_sequence"), number(batch, "last_sequence")), (10, 19));
    assert_eq!(batch["symbol_width"], 1);
    let line = place.run("inspect ticks --batches").good();
    assert!(line.starts_with("00000000000000000000.log offset 64: rows, "), "{line}");
}

#[test]
fn segments_are_shown_by_column_and_checked() {
    let place = filled();
    let db = Database::open_without_maintenance(place.db()).unwrap();
    let stream = db.stream("ticks").unwrap();
    assert_eq!(stream.seal().unwrap(), 100);
    drop((stream, db));
    let text = place.run("check").good();
    let by_content = "ticks: 100 messages in 5 blocks of 5 segments (verified: 5 by checksum of content), 0 batches, 1 files";
    assert!(text.starts_with(by_content), "{text}");
    let thorough = place.run("check --thorough").good();
    assert!(thorough.contains("5 by checksum of content, 5 by reference decoder"), "{thorough}");
    let outcome = &place.run("check --thorough --json").json()[0];
    assert_eq!((&outcome["blocks_by_content"], &outcome["blocks_by_reference"]), (&5.into(), &5.into()));
    assert_eq!(place.run("check --thorough --quick").code, 2);
    let text = place.run("inspect ticks").good();
    let price = text.lines().find(|line| line.contains(" price ")).unwrap();
    let price: Vec<&str> = price.split_whitespace().collect();
    assert_eq!((price[0], price[1], price[6], price[7]), ("Tick", "price", "0", "99"), "{text}");
    let objects = place.run("inspect ticks --batches --json").json();
    let of = |kind: &str| objects.iter().filter(|object| object["kind"] == kind).collect::<Vec<_>>();
    assert_eq!((of("segment").len(), of("block").len(), of("type").len()), (5, 5, 1));
    assert_eq!((&of("type")[0]["messages"], &of("segment")[0]["messages"]), (&100.into(), &20.into()));
    let segment = of("segment")[0];
    assert_eq!((&segment["blocks_with_content"], &segment["mismatch_dump"]), (&1.into(), &Value::Null));
    let bytes =
        |objects: &[&Value]| objects.iter().map(|object| object["bytes"].as_u64().unwrap()).sum::<u64>();
    let head = of("block")[0]["head_bytes"].as_u64().unwrap();
    assert_eq!(bytes(&of("column")) + 5 * head, bytes(&of("block")), "columns and heads are all there is");
    // A flipped bit in a column.
    let name = of("segment")[0]["file"].as_str().unwrap();
    let path = place.db().join("streams/ticks/0").join(name);
    flip(&path, of("block")[0]["offset"].as_u64().unwrap() as usize + head as usize + 3);
    let found = one_place(&place, 1, "damage");
    assert!(found["file"].as_str().unwrap().ends_with(name), "{found}");
    assert_eq!((&found["first_sequence"], &found["messages"]), (&0.into(), &20.into()));
    assert_eq!(place.run("inspect ticks").code, 1);
}

#[test]
fn a_restored_backup_has_no_damage() {
    let place = filled();
    let [from, backup, to] = ["", ".backup", ".restored"].map(|end| {
        let mut path = place.db().into_os_string();
        path.push(end);
        PathBuf::from(path)
    });
    let run = |words: &[&std::ffi::OsStr]| {
        let out = std::process::Command::new(env!("CARGO_BIN_EXE_tapedb")).args(words).output().unwrap();
        (out.status.code(), String::from_utf8(out.stdout).unwrap(), String::from_utf8(out.stderr).unwrap())
    };
    let (code, out, err) = run(&["backup".as_ref(), from.as_ref(), backup.as_ref()]);
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("1 streams up to date; 0 segments"), "{out}");
    assert_eq!(run(&["restore".as_ref(), backup.as_ref(), from.as_ref()]).0, Some(2), "overwritten");
    let (code, _, err) = run(&["restore".as_ref(), backup.as_ref(), to.as_ref()]);
    assert_eq!(code, Some(0), "{err}");
    let (code, out, err) = run(&["check".as_ref(), "--db".as_ref(), to.as_ref()]);
    assert_eq!(code, Some(0), "{err}");
    assert!(out.starts_with("ticks: 100 messages"), "{out}");
    assert!(!to.with_file_name("db.restored.restoring").exists());
    assert_eq!(run(&["backup".as_ref(), from.as_ref(), from.as_ref()]).0, Some(2), "into itself");
}

/// Changes the content checksum of a segment's first block, and corrects the checksums of its bytes: as if a decoder returned other
/// messages than were sealed.
fn make_wrong(segment: &PathBuf) {
    let mut bytes = fs::read(segment).unwrap();
    let block = bytes.windows(4).position(|bytes| bytes == b"TPK1").unwrap();
    bytes[block + 64] ^= 1;
    tapedb_segment::reseal_block(&mut bytes[block..]);
    fs::write(segment, bytes).unwrap();
}

#[test]
fn a_backup_is_verified_on_request() {
    let place = filled();
    let db = Database::open_without_maintenance(place.db()).unwrap();
    db.stream("ticks").unwrap().seal().unwrap();
    drop(db);
    let mut to = place.db().into_os_string();
    to.push(".backup");
    let backup = |more: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tapedb"));
        let out = command.arg("backup").args(more).arg(place.db()).arg(&to).output().unwrap();
        (out.status.code(), String::from_utf8(out.stdout).unwrap())
    };
    let (code, out) = backup(&["--verify"]);
    assert!(code == Some(0) && out.contains("(verified: 5 by checksum of content)"), "{out}");
    let files = fs::read_dir(PathBuf::from(&to).join("streams/ticks/0")).unwrap();
    let mut segments = files.map(|file| file.unwrap().path());
    make_wrong(&segments.find(|path| path.extension().is_some_and(|e| e == "seg")).unwrap());
    assert_eq!(backup(&[]).0, Some(0), "what is in the backup already is not decoded");
    let (code, out) = backup(&["--verify"]);
    assert!(code == Some(1) && out.contains("content has checksum"), "{out}");
}

#[test]
fn a_repair_is_listed_before_it_is_made() {
    let place = filled();
    let manifest = place.db().join("streams/ticks/0/manifest");
    let whole = fs::read(&manifest).unwrap();
    assert_eq!(place.run("repair").good(), "nothing to repair\n");
    flip(&manifest, 30);
    let run = place.run("repair");
    assert_eq!(run.code, 1);
    assert!(run.out.starts_with("streams/ticks/0/manifest: ") && run.err.contains("--yes"), "{}", run.err);
    assert_ne!(fs::read(&manifest).unwrap(), whole);
    assert_eq!(place.run("repair --yes").code, 0);
    assert_eq!(fs::read(&manifest).unwrap(), whole);
    assert_eq!(place.run("repair").code, 0);
}

#[test]
fn a_damaged_ledger_is_found() {
    let place = filled();
    fs::write(place.db().join("streams/ticks/imports"), "00000000 {}\n").unwrap();
    assert_eq!(one_place(&place, 1, "damage")["file"], "streams/ticks/imports");
}

#[test]
fn a_torn_tail_is_damage_if_the_log_was_closed() {
    let place = filled();
    let path = log(&place, 80);
    let bytes = fs::read(&path).unwrap();
    let torn = bytes.iter().rposition(|byte| *byte != 0).unwrap() - 5;
    fs::write(&path, &bytes[..torn]).unwrap();
    let found = one_place(&place, 1, "damage");
    assert_eq!((&found["first_sequence"], &found["messages"]), (&90.into(), &10.into()));
    assert!(found["what"].as_str().unwrap().contains("when the log was closed"), "{found}");
}

#[test]
fn a_torn_tail_is_no_damage_after_the_writer_was_killed() {
    let place = filled();
    // The file that marks a closed log.
    fs::remove_file(place.db().join("streams/ticks/0/end")).unwrap();
    let path = log(&place, 80);
    let bytes = fs::read(&path).unwrap();
    // Preallocated space after the last batch is all zeros.
    let torn = bytes.iter().rposition(|byte| *byte != 0).unwrap() - 5;
    fs::write(&path, &bytes[..torn]).unwrap();
    let found = one_place(&place, 0, "unfinished");
    assert_eq!(found["file"], "streams/ticks/0/00000000000000000080.log");
    assert!(found["what"].as_str().unwrap().contains("cut short"), "{found}");
    assert_eq!(fs::read(&path).unwrap().len(), torn, "nothing was cut");
    assert!(place.run("inspect ticks").good().contains("90"), "what is whole is shown");
}

#[test]
fn a_flipped_bit_in_a_header_or_a_payload_costs_its_batch() {
    for (at, what) in [(64 + 30, "header damaged"), (64 + 80 + 50, "payload damaged")] {
        let place = filled();
        flip(&log(&place, 20), at);
        let found = one_place(&place, 1, "damage");
        assert_eq!((&found["first_sequence"], &found["messages"]), (&20.into(), &10.into()));
        assert_eq!(
            (&found["offset"], &found["file"]),
            (&64.into(), &"streams/ticks/0/00000000000000000020.log".into())
        );
        assert!(found["what"].as_str().unwrap().contains(what), "{found}");
        let run = place.run("check");
        assert!(
            run.out.contains("10 messages, 20 to 29") && run.out.contains("restore the file"),
            "{}",
            run.out
        );
        assert_eq!(run.err, "tapedb: 1 of 1 streams damaged, as listed; all other messages can be read\n");
        assert_eq!(place.run("inspect ticks").code, 1);
    }
}

#[test]
fn a_missing_file_is_a_hole() {
    let place = filled();
    fs::remove_file(log(&place, 40)).unwrap();
    let found = one_place(&place, 1, "damage");
    assert_eq!((&found["first_sequence"], &found["messages"]), (&40.into(), &20.into()));
    // The first and the last file are missed too.
    fs::remove_file(log(&place, 0)).unwrap();
    fs::remove_file(log(&place, 80)).unwrap();
    let (found, code) = places(&place);
    assert_eq!((found.len(), code), (4, 1), "{found:?}");
    assert_eq!((&found[0]["first_sequence"], &found[0]["messages"]), (&0.into(), &20.into()));
    assert!(found[2]["what"].as_str().unwrap().contains("which is missing"), "{found:?}");
    // The close recorded the end of the log.
    assert_eq!((&found[3]["first_sequence"], &found[3]["messages"]), (&80.into(), &20.into()));
}

#[test]
fn symbols_and_definitions_are_checked() {
    let place = filled();
    let symbols = place.db().join("streams/ticks/symbols");
    flip(&symbols, 64 + 11);
    let found = one_place(&place, 1, "damage");
    assert_eq!((&found["offset"], &found["bytes"]), (&64.into(), &13.into()));
    assert!(found["what"].as_str().unwrap().contains("symbol 0"), "{found}");
    flip(&symbols, 64 + 11);
    // Half of the second name: its messages have no symbol now.
    let bytes = fs::read(&symbols).unwrap();
    fs::write(&symbols, &bytes[..bytes.len() - 2]).unwrap();
    let (found, code) = places(&place);
    assert_eq!((found.len(), code), (11, 1));
    assert_eq!(found[0]["messages"], 5);
    assert_eq!(found[10]["severity"], "unfinished");
    // There are two copies: one is enough.
    flip(&place.db().join("streams/ticks/stream.tape"), 100);
    let (found, code) = places(&place);
    assert_eq!((found.len(), code), (12, 1));
    assert!(found[0]["what"].as_str().unwrap().contains("checksum"), "{}", found[0]);
    flip(&place.db().join("streams/ticks/stream.tape.copy"), 100);
    let found = one_place(&place, 1, "damage");
    assert!(found["what"].as_str().unwrap().contains("stream.tape"), "{found}");
}

#[test]
fn indexes_are_compared() {
    let place = filled();
    let index = log(&place, 20).with_extension("idx");
    flip(&index, 70);
    assert!(one_place(&place, 0, "note")["what"].as_str().unwrap().contains("ignored"));
    fs::remove_file(&index).unwrap();
    assert!(one_place(&place, 0, "note")["what"].as_str().unwrap().contains("missing"));
}

#[test]
fn bodies_must_be_canonical() {
    let place = Place::new();
    let db = Database::open_without_maintenance(place.db()).unwrap();
    let schema = "message Tick { side: bool }".parse().unwrap();
    let stream = db.create_stream("ticks", schema, StreamOptions::default()).unwrap();
    let mut loader = stream.loader().unwrap();
    loader.append_body("AIG", Timestamp(1), 0, &[1]).unwrap();
    loader.append_body("AIG", Timestamp(2), 0, &[0]).unwrap();
    loader.flush().unwrap();
    let path = log(&place, 0);
    let mut bytes = fs::read(&path).unwrap();
    // With matching checksums, as a faulty program would write it.
    *bytes.last_mut().unwrap() = 7;
    let crc = |bytes: &[u8]| crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32;
    let payload = crc(&bytes[64 + 80..]).to_le_bytes();
    bytes[64 + 12..64 + 16].copy_from_slice(&payload);
    let header = crc(&bytes[64 + 8..64 + 80]).to_le_bytes();
    bytes[64 + 4..64 + 8].copy_from_slice(&header);
    fs::write(&path, bytes).unwrap();
    let found = one_place(&place, 1, "damage");
    assert_eq!((&found["first_sequence"], &found["messages"]), (&1.into(), &1.into()));
    assert!(place.run("check --quick").good().ends_with("clean\n"));
}

#[test]
fn a_growing_file_is_clean() {
    let place = Place::new();
    place.run("generate --stream feed --messages 100").good();
    let mut command = place.command("generate --stream feed --messages 1G --seed 2");
    let writer = place.start(&mut command);
    for _ in 0..5 {
        let run = place.run("check --json");
        assert_eq!((run.code, run.err.as_str()), (0, ""), "{}", run.out);
        let outcome: Value = serde_json::from_str(run.out.lines().last().unwrap()).unwrap();
        assert_eq!((&outcome["result"], &outcome["damaged"]), (&"clean".into(), &0.into()));
    }
    signal(&writer, "INT");
    assert_eq!(end(writer).code, 130);
    assert!(place.messages("feed") > 100, "the writer wrote");
    assert!(place.run("check").good().ends_with("clean\n"));
}
