//! A publisher is killed at any moment, again and again: each message is in the table once, in every snapshot up to the number it states.

use crate::support::*;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;
use tapedb_engine::Database;
use tapedb_publish::{Catalog, Publisher, SqlCatalog, Target};

const ROLE: &str = "TAPEDB_PUBLISH_CHILD";

/// Kills of each catalogue; `PUBLISH_KILLS` sets another number.
fn rounds() -> u64 {
    std::env::var("PUBLISH_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(12)
}

/// Does nothing except in a child: publishes what is sealed until it is killed.
#[test]
fn child_of_another_test() {
    let (Ok(settings), Some(path)) = (std::env::var(ROLE), std::env::var_os("TAPEDB_PUBLISH_DB")) else {
        return;
    };
    let target = target(&settings);
    loop {
        let db = Database::open_read_only(Path::new(&path)).unwrap();
        let stream = db.stream("bars").unwrap();
        let mut publisher = Publisher::open(&db, &stream, "Bar", &target, &small()).unwrap();
        publish(&mut publisher);
    }
}

/// A catalogue's settings, or `delta:` and a folder.
fn target(text: &str) -> Target {
    match text.strip_prefix("delta:") {
        Some(folder) => Target::delta(folder).unwrap(),
        None => iceberg(&text.parse().unwrap()),
    }
}

fn kill_often(settings: &str, table: impl Fn() -> Option<Table>) {
    let fixture = Fixture::new(SCHEMA);
    let settings = settings.replace("FOLDER", fixture.folder.path().to_str().unwrap());
    std::fs::create_dir_all(fixture.lake()).unwrap();
    FOLDER.with(|folder| folder.replace(fixture.folder.path().into()));
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    let mut last = 0;
    for round in 0..rounds() {
        fixture.add(300 + (round % 7) as usize * 200, FIRST + round as i64 * DAY / 3);
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "killed::child_of_another_test", "--nocapture"])
            .env(ROLE, &settings)
            .env("TAPEDB_PUBLISH_DB", fixture.folder.path().join("db"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(round);
        thread::sleep(Duration::from_micros(20_000 + (random >> 33) % 180_000));
        child.kill().unwrap();
        child.wait().unwrap();
        if let Some(table) = table() {
            table.check(&fixture.stream);
            assert!(table.sequence() >= last);
            last = table.sequence();
        }
    }
    let mut publisher =
        Publisher::open(&fixture.db, &fixture.stream, "Bar", &target(&settings), &small()).unwrap();
    publish(&mut publisher);
    let table = table().unwrap();
    assert_eq!(vec![table.sequence()], fixture.stream.next_sequences().unwrap());
    table.check(&fixture.stream);
}

thread_local! {
    static FOLDER: std::cell::RefCell<std::path::PathBuf> = Default::default();
}

fn folder() -> std::path::PathBuf {
    FOLDER.with(|folder| folder.borrow().clone())
}

#[test]
fn a_publisher_into_a_folder_is_killed_often() {
    kill_often("folder:FOLDER/lake", || {
        let catalog = tapedb_publish::FolderCatalog::open(folder().join("lake").to_str().unwrap()).unwrap();
        Some(Table::of(catalog.load(&name()).unwrap()?.metadata))
    });
}

#[test]
fn a_publisher_with_an_sql_catalogue_is_killed_often() {
    kill_often("sql:FOLDER/catalog.db,warehouse=FOLDER/lake", || {
        let (file, lake) = (folder().join("catalog.db"), folder().join("lake"));
        let catalog = SqlCatalog::open(file.to_str().unwrap(), "lake", lake.to_str().unwrap()).unwrap();
        Some(Table::of(catalog.load(&name()).unwrap()?.metadata))
    });
}

#[test]
fn a_publisher_of_a_delta_table_is_killed_often() {
    kill_often("delta:FOLDER/lake", || Table::delta(&folder().join("lake")));
}
