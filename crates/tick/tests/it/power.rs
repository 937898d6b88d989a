//! Plants whose tables sync, and plants whose power was cut.

use crate::over::{connect, serve};
use crate::support::*;
use std::fs::OpenOptions;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tapedb_codec::dynamic::{RecordValue, Value};
use tapedb_engine::{Database, Durability, Loader, Stream, StreamOptions};
use tapedb_schema::Timestamp;
use tapedb_tick::{Chain, ChainOptions, Column, Feed, Plan, Plant, PlantOptions, Step, Subscription};

fn open(db: &Database, durability: Durability) -> Plant {
    let tables = [Feed::table("quote", 0).expect("a table"), Feed::table("trade", 0).expect("a table")];
    let stream = StreamOptions { durability, ..Default::default() };
    let options = PlantOptions { day_end: None, stream, ..Default::default() };
    Plant::open(db, "tp", &tables, options).expect("a plant")
}

fn append(loader: &mut Loader, number: i64) {
    let row = RecordValue { type_id: 0, fields: vec![Value::F64(1.5), Value::Int(number)] };
    loader.append_value("A", Timestamp(number), &row).expect("it fits");
}

#[test]
fn days_end_under_native_feeds_of_tables_that_sync() {
    let place = place();
    let plant = open(&place.db, Durability::Sync);
    let (server, url) = serve(&place);
    let mut subscription = Subscription::today(plant.plan()).expect("a subscription");
    let (today, days) = (plant.day().date, 30);
    let stopping = AtomicBool::new(false);
    let feed = |stream: Stream, waits: bool| {
        let mut loader = stream.loader().expect("a loader");
        let mut number = 0;
        while !stopping.load(Ordering::Relaxed) {
            append(&mut loader, number);
            // One that does not wait has further batches written before the first is synced.
            match waits {
                true => drop(loader.flush().expect("logged")),
                false => loader.send().expect("sent"),
            }
            number += 1;
        }
        loader.close().expect("logged");
    };
    std::thread::scope(|scope| {
        let remote = Plan::open(&connect(&url), "tp").expect("a plant");
        for table in ["quote", "trade"] {
            let feed = &feed;
            let here = plant.plan().table(table).expect("a table").1.clone();
            let again = here.clone();
            scope.spawn(move || feed(here, true));
            scope.spawn(move || feed(again, true));
            let there = remote.table(table).expect("a table").1.clone();
            scope.spawn(move || feed(there, false));
        }
        let ended: Vec<_> = (0..days)
            .map(|day| {
                std::thread::sleep(Duration::from_millis(4));
                plant.end_of_day(tapedb_tick::Date(today.0 + day))
            })
            .take_while(|ended| ended.is_ok())
            .collect();
        // Before anything fails: the feeds would go on for ever.
        stopping.store(true, Ordering::Relaxed);
        assert_eq!(ended.len() as i32, days, "a day did not end");
    });
    // A subscription has the days where the calendar has them.
    let tables: Vec<&Stream> = plant.plan().tables().iter().map(|(_, stream)| stream).collect();
    let calendar = plant.plan().days().expect("days");
    assert_eq!(calendar.len() as i32, days + 1);
    let (mut next, mut begun, since) = ([0, 0], 1, Instant::now());
    while begun < calendar.len() || (0..2).any(|at| next[at] < tables[at].seen_end()) {
        assert!(since.elapsed() < PATIENCE, "{begun} days and {next:?} rows came");
        match subscription.advance().expect("read") {
            Step::Row(table) => {
                assert_eq!(subscription.message(table).expect("a row").sequence(), next[table]);
                next[table] += 1;
            }
            Step::Day(day) => {
                assert_eq!(day, calendar[begun]);
                assert_eq!(next, [day.first_of("quote"), day.first_of("trade")], "{}", day.date);
                begun += 1;
            }
            Step::Nothing => subscription.wait(Duration::from_millis(20)).expect("waited"),
        }
    }
    drop(server);
}

fn update(plant: &Plant, table: &str, numbers: std::ops::Range<i64>) {
    for number in numbers {
        let columns =
            [Column::Text(["A"].into_iter().collect()), Column::Float(vec![1.5]), Column::Long(vec![number])];
        plant.update(table, &columns).expect("taken");
    }
}

/// The numbers of the rows of `quote` and `trade` that come, until there are so many.
fn come(subscription: &mut Subscription, rows: [u64; 2]) -> [Vec<i64>; 2] {
    let (mut found, begun) = ([Vec::new(), Vec::new()], Instant::now());
    while (0..2).any(|table| (found[table].len() as u64) < rows[table]) {
        assert!(begun.elapsed() < PATIENCE, "{:?} of {rows:?} came", found.map(|rows| rows.len()));
        match subscription.advance().expect("read") {
            Step::Row(table) => {
                let record = subscription.message(table).expect("a row").record().expect("a record");
                let number = record.get("size").expect("a size").to_string();
                found[table].push(number.parse().expect("a number"));
            }
            Step::Day(_) => {}
            Step::Nothing => subscription.wait(Duration::from_millis(20)).expect("waited"),
        }
    }
    found
}

/// Leaves of a table's log so much, as a power cut may, and no note of its end.
fn lose(database: &Path, table: &str, kept: impl Fn(u64) -> u64) {
    let folder = database.join("streams").join(format!("tp%2F{table}")).join("0");
    let log = OpenOptions::new().write(true).open(folder.join(format!("{:020}.log", 0))).expect("a log");
    log.set_len(kept(log.metadata().expect("its length").len())).expect("cut");
    std::fs::remove_file(folder.join("end")).expect("removed");
}

#[test]
fn rows_that_are_lost_with_the_power_are_not_waited_for() {
    let (folder, chain_place) = (tempfile::tempdir().expect("a folder"), place());
    let path = folder.path().join("db");
    {
        let db = Database::open(&path).expect("a database");
        let plant = open(&db, Durability::Async);
        update(&plant, "quote", 0..100);
        update(&plant, "trade", 0..10);
        update(&plant, "quote", 100..200);
        update(&plant, "trade", 10..20);
    }
    let mut trades: Vec<i64> = (0..20).collect();
    // First within the second run, then, when it has been opened and written again, within the first.
    for (at, part) in [(0, 4), (1, 8)] {
        lose(&path, "quote", |bytes| bytes - bytes / part);
        let db = Database::open(&path).expect("a database");
        let plant = open(&db, Durability::Async);
        let quotes = plant.rows("quote").expect("rows");
        assert!(quotes > 0 && quotes < 200, "{quotes}");
        let mut today = Subscription::today(plant.plan()).expect("a subscription");
        let found = come(&mut today, [quotes, trades.len() as u64]);
        assert_eq!(found[1], trades);
        // It goes on, live, and with the chain that replays it all.
        let chain = (at == 1).then(|| {
            let source = Plan::open(&db, "tp").expect("a plant");
            Chain::start(source, &chain_place.db, "tp", ChainOptions::default()).expect("a chain")
        });
        let next = 1_000 * (at + 1);
        update(&plant, "quote", next..next + 3);
        update(&plant, "trade", next..next + 3);
        update(&plant, "quote", next + 3..next + 5);
        let lived = come(&mut today, [5, 3]);
        assert_eq!(lived, [(next..next + 5).collect::<Vec<_>>(), (next..next + 3).collect()]);
        trades.extend(next..next + 3);
        let all = [[found[0].clone(), lived[0].clone()].concat(), trades.clone()];
        let rows = [quotes + 5, trades.len() as u64];
        let again = || Subscription::today(plant.plan()).expect("a subscription");
        assert_eq!(come(&mut again(), rows), all, "replayed");
        if let Some(chain) = chain {
            let mut behind = Subscription::today(chain.plan()).expect("a subscription");
            assert_eq!(come(&mut behind, rows), all, "behind a chain");
        }
    }
}

#[test]
fn a_plant_goes_on_when_the_cut_between_two_days_is_lost() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("db");
    {
        let db = Database::open(&path).expect("a database");
        let plant = open(&db, Durability::Async);
        update(&plant, "quote", 0..10);
        plant.end_of_day(plant.day().date).expect("ended");
        update(&plant, "quote", 10..20);
        update(&plant, "trade", 0..10);
        update(&plant, "quote", 20..30);
    }
    // The last message of the calendar: the arrivals still have its run.
    lose(&path, "calendar", |bytes| bytes - 1);
    let db = Database::open(&path).expect("a database");
    let plant = open(&db, Durability::Async);
    assert_eq!(plant.plan().days().expect("days").len(), 1);
    let mut today = Subscription::today(plant.plan()).expect("a subscription");
    assert_eq!(come(&mut today, [30, 10]), [(0..30).collect::<Vec<_>>(), (0..10).collect()]);
    plant.end_of_day(plant.day().date).expect("ended");
    update(&plant, "trade", 10..12);
    assert_eq!(come(&mut today, [0, 2])[1], [10, 11]);
    let mut tomorrow = Subscription::today(plant.plan()).expect("a subscription");
    assert_eq!(come(&mut tomorrow, [0, 2])[1], [10, 11]);
}
