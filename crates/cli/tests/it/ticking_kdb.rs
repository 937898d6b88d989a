//! `tapedb tick --kdb`: clients of kdb+ on its roles, also when roles are killed.

use crate::kdb_client::{KdbClient, PATIENCE, replayed, sizes_of, trades};
use crate::support::Run;
use crate::ticking::{Role, TABLES, rows, text, wait_for};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};
use tapedb_kdb_ipc::{Elements, Kind, Symbols, Value, message};

pub const ANY: &str = "127.0.0.1:0";

/// Writes a definition of tables to a folder; returns the command line of a plant.
pub fn plant_line(folder: &Path, tables: &str, options: &str) -> String {
    std::fs::write(folder.join("sym.q"), tables).expect("it fits");
    let (db, tables) = (folder.join("db"), folder.join("sym.q"));
    let (db, tables) = (db.display(), tables.display());
    format!("plant --db {db} --tables {tables} --http off --log error --by-hand {options}")
}

#[test]
fn clients_of_kdb_reach_the_roles() {
    let directory = tempfile::tempdir().expect("a folder");
    let log = directory.path().join("tplog");
    let at = |name: &str| directory.path().join(name).display().to_string();
    let options =
        format!("--listen {ANY} --ask {} --kdb {ANY} --kdb-log {}", at("plant.sock"), log.display());
    let (_plant, addresses) = Role::start(&plant_line(directory.path(), TABLES, &options), 3);
    let rdb = format!("rdb --plant tape://{} --ask {} --kdb {ANY}", text(&addresses, "tcp"), at("rdb.sock"));
    let (_rdb, of_rdb) = Role::start(&rdb, 2);
    let mut feed = KdbClient::connect(&text(&addresses, "kdb"));
    let mut subscriber = KdbClient::connect(&text(&addresses, "kdb"));
    subscriber.ask(".u.sub[`trade;`]").expect("subscribed");
    feed.send(&trades(0, 10)).expect("sent");
    assert_eq!(feed.ask_value(&trades(10, 5)).expect("an answer"), Value::nothing());
    // An answered update is logged, and so are all before it.
    assert_eq!(feed.long("count trade").expect("an answer"), 15);
    let mut sizes = Vec::new();
    while sizes.len() < 15 {
        sizes.extend(sizes_of(&subscriber.update().expect("an update")));
    }
    assert!(sizes.into_iter().eq(0..15));
    // The log is in its folder, and replays to the published updates.
    let path = subscriber.ask(".u.L").expect("an answer").to_string();
    let path = path.trim_start_matches("`:");
    assert!(path.contains("tplog/tp2"), "{path}");
    let records = subscriber.long(".u.i").expect("an answer");
    assert!(replayed(path, records).into_iter().eq(0..15));
    let mut asking = KdbClient::connect(&text(&of_rdb, "kdb"));
    wait_for(&text(&of_rdb, "ask"), "trade --count", |answer| answer["rows"] == 15);
    let last = asking.ask("select[-1] size from trade").expect("an answer").to_string();
    assert_eq!(last, "+(,`size)!,,14");
}

#[test]
fn a_kdb_feed_continues_with_all_roles_in_one_process() {
    let directory = tempfile::tempdir().expect("a folder");
    let options = format!("--listen {ANY} --ask off --kdb {ANY}");
    let line = plant_line(directory.path(), TABLES, &options).replacen("plant", "all", 1);
    let (_all, addresses) = Role::start(&line, 3);
    let mut feed = KdbClient::connect(&text(&addresses, "kdb"));
    for round in 0..20 {
        for update in 0..5 {
            feed.send(&trades(round * 5_000 + update * 1_000, 1_000)).expect("sent");
        }
        assert_eq!(feed.long("count trade").expect("an answer"), (round + 1) * 5_000);
    }
    // Names of a namespace are not tables.
    let names = feed.ask("key `.u").expect("an answer").to_string();
    assert!(names.contains("`sub`") && !names.contains("trade"), "{names}");
}

#[test]
fn options_for_clients_of_kdb_are_checked() {
    let directory = tempfile::tempdir().expect("a folder");
    let line = |options: &str| {
        let line =
            plant_line(directory.path(), TABLES, &format!("--create --listen {ANY} --ask off {options}"));
        Run::plain(&format!("tick {line}"))
    };
    for (options, refusal) in [
        ("--kdb-log tplog", "--kdb"),
        ("--kdb-slow conflate", "--kdb"),
        ("--kdb 127.0.0.1:0 --kdb-slow sometimes", "disconnect"),
        ("--kdb nowhere", "nowhere"),
        ("--kdb 0.0.0.0:0", "users"),
        ("--kdb other=127.0.0.1:0", "no such plant"),
    ] {
        let run = line(options);
        assert!(run.code != 0 && run.err.contains(refusal), "{options}: {} {}", run.code, run.err);
    }
}

const NOTES: &str = "note:([]time:`timespan$();sym:`symbol$();size:`long$();text:())\n";
/// More of these than the queue of one client holds.
const NOTE_UPDATES: i64 = 100;

/// An update of a megabyte.
fn notes(update: i64) -> Value {
    let symbols: Symbols = (0..16).map(|row| format!("S{row}")).collect();
    let text: Value = Elements::Char(vec![b'x'; 64 << 10]).into();
    let columns = vec![symbols.into(), vec![update; 16].into(), Value::list(vec![text; 16])];
    Value::list(vec![Value::symbol(".u.upd"), Value::symbol("note"), Value::list(columns)])
}

/// The updates of a subscriber that did not read during the publication.
fn slow(how: &str) -> io::Result<Vec<i64>> {
    let directory = tempfile::tempdir().expect("a folder");
    let options = format!("--listen {ANY} --ask off --kdb {ANY} --kdb-slow {how}");
    let (_plant, addresses) = Role::start(&plant_line(directory.path(), NOTES, &options), 3);
    let address = text(&addresses, "kdb");
    let (mut idle, mut quick) = (KdbClient::connect(&address), KdbClient::connect(&address));
    idle.ask(".u.sub[`note;`]")?;
    quick.ask(".u.sub[`note;`]")?;
    let mut feed = KdbClient::connect(&address);
    for update in 0..NOTE_UPDATES {
        feed.send(&notes(update))?;
        while sizes_of_notes(&quick.update()?).last() != Some(&update) {}
    }
    let mut sizes = Vec::new();
    while sizes.iter().filter(|size| **size == NOTE_UPDATES - 1).count() < 16 {
        sizes.extend(sizes_of_notes(&idle.update()?));
    }
    Ok(sizes)
}

fn sizes_of_notes(update: &Value) -> Vec<i64> {
    match update.item(2) {
        Some(Value::Table(table)) => match table.column("size").and_then(Value::as_elements) {
            Some(Elements::Long(sizes)) => sizes.clone(),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_handling_of_slow_clients_of_kdb_is_an_option() {
    assert!(slow("disconnect").is_err());
    let conflated = slow("conflate").expect("the last of each symbol");
    assert!(conflated.is_sorted() && conflated.len() < 16 * NOTE_UPDATES as usize, "{}", conflated.len());
}

/// Progress of a feed.
#[derive(Default)]
struct Fed {
    /// Rows that the plant has logged.
    acknowledged: AtomicU64,
    /// Whether to disconnect it inside a message, like a killed feed.
    is_cut: AtomicBool,
    cuts: AtomicU64,
}

/// Sends all rows; after a disconnection it continues where the plant is.
fn feed(address: &str, rows: u64, fed: &Fed) {
    while fed.acknowledged.load(Ordering::SeqCst) < rows {
        // An error means that the plant is not running.
        let _ = feed_once(&mut KdbClient::connect(address), rows, fed);
    }
}

fn feed_once(client: &mut KdbClient, rows: u64, fed: &Fed) -> io::Result<()> {
    let mut next = settled(client)?;
    let acknowledged = fed.acknowledged.load(Ordering::SeqCst);
    assert!(next >= acknowledged, "{acknowledged} rows were acknowledged, and {next} are there");
    while next < rows {
        for _ in 0..10 {
            let count = 100.min(rows - next);
            if fed.is_cut.swap(false, Ordering::SeqCst) {
                let bytes = message(Kind::Asynchronous, &trades(next, count)).expect("a message");
                client.send_bytes(&bytes[..bytes.len() / 2])?;
                fed.cuts.fetch_add(1, Ordering::SeqCst);
                return Ok(());
            }
            client.send(&trades(next, count))?;
            next += count;
        }
        assert_eq!(client.long("count trade")?, next);
        fed.acknowledged.store(next, Ordering::SeqCst);
    }
    Ok(())
}

/// Logged rows, once their number is stable: then rows in flight at the disconnection have arrived.
fn settled(client: &mut KdbClient) -> io::Result<u64> {
    let (mut last, mut same) = (client.long("count trade")?, 0);
    while same < 20 {
        sleep(Duration::from_millis(25));
        let rows = client.long("count trade")?;
        same = if rows == last { same + 1 } else { 0 };
        last = rows;
    }
    Ok(last)
}

/// Subscribes like an RDB of kdb+, from the beginning after each disconnection; returns their number.
fn subscribe(address: &str, rows: u64) -> u64 {
    let mut cuts = 0;
    loop {
        match subscribe_once(&mut KdbClient::connect(address), rows) {
            Ok(()) => return cuts,
            Err(_) => cuts += 1,
        }
    }
}

fn subscribe_once(client: &mut KdbClient, rows: u64) -> io::Result<()> {
    let start = client.ask("(.u.sub[`;`];.u `i`L)")?;
    let log = start.item(1).expect("a count and a log");
    let (records, path) = (log.item(0).expect("a count"), log.item(1).expect("a log"));
    let path = String::from_utf8(path.as_name().expect("a path").to_vec()).expect("a path");
    let mut next = 0;
    let mut take = |sizes: Vec<i64>| {
        for size in sizes {
            assert_eq!(size, next, "{records} records were replayed");
            next += 1;
        }
        next as u64
    };
    let mut seen =
        take(replayed(path.trim_start_matches(':'), records.to_string().parse().expect("a count")));
    while seen < rows {
        seen = take(sizes_of(&client.update()?));
    }
    Ok(())
}

/// Number of rows in an RDB, which may have been restarted.
fn count(rdb: &str) -> u64 {
    KdbClient::connect(rdb).long("count trade").expect("an answer")
}

fn wait(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        sleep(Duration::from_millis(10));
    }
}

#[test]
fn clients_of_kdb_find_every_row_once_when_a_role_is_killed() {
    let directory = tempfile::tempdir().expect("a folder");
    let log = directory.path().join("tplog");
    let line = |listen: &str, kdb: &str| {
        let options = format!("--listen {listen} --ask off --kdb {kdb} --kdb-log {}", log.display());
        plant_line(directory.path(), TABLES, &options)
    };
    let (plant, addresses) = Role::start(&line(ANY, ANY), 3);
    let (listen, kdb) = (text(&addresses, "tcp"), text(&addresses, "kdb"));
    let rdb_line = |at: &str| format!("rdb --plant tape://{listen} --ask off --kdb {at}");
    let (rdb, of_rdb) = Role::start(&rdb_line(ANY), 2);
    let at_rdb = text(&of_rdb, "kdb");
    let (rows, fed) = (rows() / 100 * 100, Fed::default());
    let acknowledged = |least: u64| wait("the feed", || fed.acknowledged.load(Ordering::SeqCst) >= least);
    thread::scope(|scope| {
        let feeding = scope.spawn(|| feed(&kdb, rows, &fed));
        let subscribing = scope.spawn(|| subscribe(&kdb, rows));
        acknowledged(rows / 6);
        fed.is_cut.store(true, Ordering::SeqCst);
        acknowledged(rows / 3);
        plant.kill();
        let (plant, _) = Role::start(&line(&listen, &kdb), 3);
        acknowledged(rows / 2);
        rdb.kill();
        let (rdb, _) = Role::start(&rdb_line(&at_rdb), 2);
        acknowledged(rows);
        wait("the RDB", || count(&at_rdb) == rows);
        feeding.join().expect("fed");
        let cuts = subscribing.join().expect("all rows");
        assert!(cuts <= 1, "it was cut off {cuts} times");
        assert_eq!(fed.cuts.load(Ordering::SeqCst), 1);
        let mut asking = KdbClient::connect(&at_rdb);
        let last = asking.ask("select[-1] size from trade").expect("an answer").to_string();
        assert_eq!(last, format!("+(,`size)!,,{}", rows - 1));
        drop((plant, rdb));
    });
}
