//! Processes that export and import are killed (SIGKILL), and so is the server, while messages flow: each arrives once, in order.
//! `BROKER_MESSAGES` and `BROKER_KILLS` say how many.

use crate::nats::Nats;
use crate::support::*;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tapedb_brokers::nats::{ExportOptions, ImportOptions, Server, export, import};
use tapedb_brokers::{Intake, IntakeOptions};
use tapedb_engine::{Database, StreamOptions};

/// What the child does: `export` or `import`.
const ROLE: &str = "TAPEDB_BROKERS_CHILD";
const SOURCE: &str = "TAPEDB_BROKERS_SOURCE";
const TARGET: &str = "TAPEDB_BROKERS_TARGET";
const ADDRESS: &str = "TAPEDB_BROKERS_ADDRESS";
/// Without a message for so long, it has failed.
const PATIENCE: Duration = Duration::from_secs(120);

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Runs in processes that the test below starts and kills; on its own it does nothing.
#[test]
fn child() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let variable = |name: &str| std::env::var(name).expect(name);
    let server =
        Server { addresses: vec![variable(ADDRESS).parse().expect("an address")], ..Server::default() };
    if role == "export" {
        let db = Database::open_read_only(variable(SOURCE)).expect("a database");
        let stream = db.stream("ticks").expect("a stream");
        let options =
            ExportOptions { stream: "T".into(), create: true, follow: true, ..ExportOptions::default() };
        let ended = export(&server, &stream, &options, &mut Watch::default());
        panic!("the export ended: {ended:?}");
    }
    let db = Database::open(variable(TARGET)).expect("a database");
    let stream = db
        .open_or_create_stream("copy", SCHEMA.parse().expect("a schema"), StreamOptions::default())
        .expect("a stream");
    let mut intake = Intake::open(&db, stream, IntakeOptions::default()).expect("it opens");
    let options = ImportOptions { stream: "T".into(), follow: true, ..ImportOptions::default() };
    let ended = import(&server, &options, &mut intake, &mut Watch::default());
    panic!("the import ended: {ended:?}");
}

fn start(role: &str, source: &Path, target: &Path, address: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "killed::child", "--nocapture"]).stdout(Stdio::null()).stderr(Stdio::null());
    command.env(ROLE, role).env(SOURCE, source).env(TARGET, target).env(ADDRESS, address);
    command.spawn().expect("it starts")
}

#[test]
fn each_message_arrives_once_whatever_is_killed() {
    let Some(mut nats) = Nats::start("") else { return };
    let (messages, kills) = (number("BROKER_MESSAGES", 30_000), number("BROKER_KILLS", 4));
    let from = Place::new();
    let directory = tempfile::tempdir().expect("a directory");
    let (source, target, address) =
        (from.db.path().to_path_buf(), directory.path().join("db"), nats.address());
    drop(Database::open(&target).expect("a database"));
    from.stream("ticks");
    let begin = |role: &str| start(role, &source, &target, &address);
    let mut running = [("export", begin("export")), ("import", begin("import"))];
    let began = Instant::now();
    let arrived = || {
        let stream = Database::open_read_only(&target).and_then(|db| db.stream("copy"));
        stream.and_then(|stream| stream.stats()).map_or(0, |stats| stats.messages)
    };
    thread::scope(|scope| {
        let filling = scope.spawn(|| {
            let step = 50_000;
            for first in (0..messages as i64).step_by(step) {
                from.fill("ticks", first..(first + step as i64).min(messages as i64));
            }
        });
        let (mut seed, mut killed, mut next, mut seen) = (7u64, 0, 0, (0, Instant::now()));
        while seen.0 < messages || killed < kills || !filling.is_finished() {
            thread::sleep(Duration::from_millis(50));
            let now = arrived();
            if now != seen.0 {
                seen = (now, Instant::now());
            }
            assert!(seen.1.elapsed() < PATIENCE, "nothing arrives: {} of {messages} are there", seen.0);
            for (role, child) in &mut running {
                // An import needs what the export makes; both need the server at their start.
                if child.try_wait().expect("a process").is_some() {
                    *child = begin(role);
                }
            }
            if killed < kills && seen.0 >= next {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                match (seed >> 33) % 3 {
                    2 => {
                        nats.kill();
                        thread::sleep(Duration::from_millis(seed >> 40 & 511));
                        nats.restart();
                    }
                    which => {
                        let (role, child) = &mut running[which as usize];
                        child.kill().expect("it runs");
                        child.wait().expect("it ends");
                        *child = begin(role);
                    }
                }
                killed += 1;
                next = messages * killed / (kills + 1);
            }
        }
    });
    let seconds = began.elapsed().as_secs_f64();
    for (_, child) in &mut running {
        child.kill().expect("it runs");
        child.wait().expect("it ends");
    }
    let copy = Database::open_read_only(&target).and_then(|db| db.stream("copy")).expect("a stream");
    let mut copied = copy.cursor().from_sequence(0).open().expect("a cursor");
    let ticks = from.stream("ticks");
    let mut original = ticks.cursor().from_sequence(0).open().expect("a cursor");
    let mut count = 0;
    while let Some(expected) = original.next().expect("a message") {
        let found = copied.next().expect("a message").expect("as many");
        assert_eq!(
            (found.symbol(), found.time(), found.body()),
            (expected.symbol(), expected.time(), expected.body())
        );
        count += 1;
    }
    assert!(copied.next().expect("a message").is_none(), "one is there twice");
    assert_eq!(count, messages);
    println!("{messages} messages, {kills} kills, each once; {:.0} a second", messages as f64 / seconds);
}
