//! One feed sends to several tables in turn: a reader of several of them gets its rows in the order in which it sent them.

use crate::kdb::{Client, options, served};
use crate::over::{connect, serve};
use crate::support::*;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tapedb_codec::dynamic::{RecordValue, Value as RowValue};
use tapedb_engine::{Database, Loader};
use tapedb_kdb_ipc::file::log::Reader;
use tapedb_kdb_ipc::{Atom, Kind, Limits, Value};
use tapedb_schema::Timestamp;
use tapedb_tick::kdb::front::{Front, FrontOptions, Served};
use tapedb_tick::{Chain, ChainOptions, Day, Feed, Plan, Plant, PlantOptions, Publish, Step, Subscription};

/// Rows of both tables.
const ROWS: i64 = 1_000;

/// Row `number` of a feed that sends a quote, a trade, a quote and so on, as a kdb+ update.
fn update(number: i64) -> Value {
    let (table, mut row) = match number % 2 {
        0 => ("quote", vec![Value::symbol("A"), Atom::Float(number as f64).into()]),
        _ => ("trade", vec![Value::symbol("A"), Atom::Float(number as f64).into()]),
    };
    match table {
        "quote" => row.push(Atom::Float(0.0).into()),
        _ => row.extend([number.into(), Value::symbol("N")]),
    }
    Value::list(vec![Value::symbol(".u.upd"), Value::symbol(table), Value::list(row)])
}

/// The numbers of the rows of an update, whichever table it is of.
fn numbers(update: &Value) -> Vec<i64> {
    let rows = update.item(2).expect("rows");
    let column = match &rows {
        Value::Table(table) => table.columns()[2].clone(),
        columns => columns.item(2).expect("a third column"),
    };
    let count = column.len().expect("a list") as i64;
    let number = |at: i64| match column.item(at as usize) {
        Some(Value::Atom(Atom::Float(number))) => number as i64,
        other => panic!("{other:?}"),
    };
    (0..count).map(number).collect()
}

/// What a log has, in its order.
fn logged(path: &Path) -> Vec<Value> {
    let mut reader = Reader::new(Limits::default());
    reader.push(&std::fs::read(path).expect("a log"));
    let mut records = Vec::new();
    loop {
        match reader.next_record().expect("a whole log") {
            Some(record) => records.push(record.value),
            // The last one may be short of bytes that a longer one would have.
            None if reader.finish() == Ok(true) => {}
            None => return records,
        }
    }
}

/// The numbers of the rows that a subscription gives, until there are enough.
fn subscribed(
    subscription: &mut Subscription,
    rows: usize,
    field: impl Fn(&str) -> &'static str,
) -> Vec<i64> {
    let (mut found, begun) = (Vec::new(), Instant::now());
    while found.len() < rows {
        assert!(begun.elapsed() < PATIENCE, "{} rows came", found.len());
        match subscription.advance().expect("read") {
            Step::Row(table) => {
                let message = subscription.message(table).expect("a row");
                let record = message.record().expect("a record");
                let name = field(message.stream_name());
                let number = record.get(name).expect("a field").to_string();
                found.push(number.parse::<f64>().expect("a number") as i64);
                assert!(table < 2);
            }
            Step::Day(_) => {}
            Step::Nothing => subscription.wait(Duration::from_millis(20)).expect("waited"),
        }
    }
    found
}

fn in_order(rows: i64) -> Vec<i64> {
    (0..rows).collect()
}

#[test]
fn subscribers_the_log_and_replay_have_the_order_of_a_feed() {
    let folder = tempfile::tempdir().expect("a folder");
    let log_folder = Some(folder.path().join("log"));
    let (place, plant, front) = served(FrontOptions { log_folder, ..options() });
    let (mut feed, mut client) = (Client::connect(front.address()), Client::connect(front.address()));
    client.ask(".u.sub[`;`]");
    let mut live = Subscription::now(plant.plan()).expect("a subscription");
    // As a feed sends them that waits for nothing: what arrives together is logged together.
    (0..ROWS / 2).for_each(|number| feed.send(Kind::Asynchronous, &update(number)));
    (ROWS / 2..ROWS).for_each(|number| drop(feed.ask_value(&update(number))));
    let mut seen = Vec::new();
    while seen.len() < ROWS as usize {
        seen.extend(numbers(&client.update()));
    }
    assert_eq!(seen, in_order(ROWS), "live over kdb+ IPC");
    let price = |table: &str| if table == "tp/quote" { "bid" } else { "price" };
    assert_eq!(subscribed(&mut live, ROWS as usize, price), in_order(ROWS), "live");
    let path = std::fs::read_dir(folder.path().join("log"))
        .expect("a folder")
        .map(|entry| entry.expect("a file").path());
    let path = path.into_iter().find(|path| path.extension().is_none_or(|end| end != "from")).expect("a log");
    let from_log: Vec<i64> = logged(&path).iter().flat_map(numbers).collect();
    assert_eq!(from_log, in_order(ROWS), "the log");
    // Later, and after the plant was opened again.
    drop((front, live, client, feed));
    let (plan, directory) = (plant.plan().clone(), place.db.path().to_path_buf());
    let replay = |plan: &Plan| {
        let mut today = Subscription::today(plan).expect("a subscription");
        subscribed(&mut today, ROWS as usize, price)
    };
    assert_eq!(replay(&plan), in_order(ROWS), "replayed");
    drop((plan, plant));
    drop(place.db);
    let db = Database::open(directory).expect("a database");
    let again = crate::support::plant(&db);
    assert_eq!(replay(again.plan()), in_order(ROWS), "replayed by another process");
}

#[test]
fn a_native_feed_and_chained_plants_keep_the_order() {
    let (place, chain_place) = (place(), place());
    let tables = [Feed::table("quote", 0).expect("a table"), Feed::table("trade", 0).expect("a table")];
    let plant = Plant::open(&place.db, "tp", &tables, PlantOptions::default()).expect("a plant");
    let (server, url) = serve(&place);
    let source = Plan::open(&connect(&url), "tp").expect("a plant");
    let mut near = Subscription::now(plant.plan()).expect("a subscription");
    let mut far = Subscription::now(&source).expect("a subscription");
    let every = Some(Duration::from_millis(1));
    let chain =
        Chain::start(source.clone(), &chain_place.db, "tp", ChainOptions { every, ..Default::default() });
    let chain = chain.expect("a chain");
    let mut behind = Subscription::today(chain.plan()).expect("a subscription");
    // Two loaders of one connection, which send in turns.
    let db = connect(&url);
    let of_feed = Plan::open(&db, "tp").expect("a plant");
    let mut loaders: Vec<Loader> =
        of_feed.tables().iter().map(|(_, stream)| stream.loader().expect("a loader")).collect();
    for number in 0..ROWS {
        let loader = &mut loaders[(number % 2) as usize];
        append(loader, number);
        loader.send().expect("sent");
    }
    loaders.iter_mut().for_each(|loader| assert!(loader.flush().expect("acknowledged") > 0));
    for (what, subscription) in [("near", &mut near), ("far", &mut far), ("behind a chain", &mut behind)] {
        assert_eq!(subscribed(subscription, ROWS as usize, |_| "size"), in_order(ROWS), "{what}");
    }
    drop((chain, server));
}

/// Appends a row of [`Feed::table`] whose size is a number.
fn append(loader: &mut Loader, number: i64) {
    let row = RecordValue { type_id: 0, fields: vec![RowValue::F64(1.5), RowValue::Int(number)] };
    loader.append_value("A", Timestamp(number), &row).expect("it fits");
}

#[test]
fn updates_on_a_timer_keep_the_order() {
    let place = place();
    let publish = Publish::LogEvery(Duration::from_secs(60));
    let options = PlantOptions { publish, ..Default::default() };
    let tables = [Feed::table("quote", 0).expect("a table"), Feed::table("trade", 0).expect("a table")];
    let plant = Plant::open(&place.db, "tp", &tables, options).expect("a plant");
    let mut subscription = Subscription::now(plant.plan()).expect("a subscription");
    for number in 0..100 {
        let columns = [
            tapedb_tick::Column::Text(["A"].into_iter().collect()),
            tapedb_tick::Column::Float(vec![1.5]),
            tapedb_tick::Column::Long(vec![number]),
        ];
        plant.update(["quote", "trade"][number as usize % 2], &columns).expect("taken");
    }
    plant.flush().expect("logged");
    assert_eq!(subscribed(&mut subscription, 100, |_| "size"), in_order(100));
}

#[test]
fn the_log_and_the_calendar_cut_days_at_the_same_row_under_native_feeds() {
    let (place, folder) = (place(), tempfile::tempdir().expect("a folder"));
    let tables = [Feed::table("quote", 0).expect("a table"), Feed::table("trade", 0).expect("a table")];
    let plant = Plant::open(&place.db, "tp", &tables, PlantOptions { day_end: None, ..Default::default() });
    let plant = std::sync::Arc::new(plant.expect("a plant"));
    let log_folder = Some(folder.path().to_path_buf());
    let front = Front::start(Served::plant(plant.clone()), FrontOptions { log_folder, ..options() });
    let front = front.expect("a front");
    let stopping = AtomicBool::new(false);
    let (today, days) = (plant.day().date, 30);
    std::thread::scope(|scope| {
        for (_, stream) in plant.plan().tables() {
            scope.spawn(|| {
                let mut loader = stream.loader().expect("a loader");
                for number in 0.. {
                    if stopping.load(Ordering::Relaxed) {
                        break;
                    }
                    append(&mut loader, number);
                    loader.flush().expect("logged");
                }
            });
        }
        for day in 0..days {
            std::thread::sleep(Duration::from_millis(4));
            plant.end_of_day(tapedb_tick::Date(today.0 + day)).expect("ended");
        }
        stopping.store(true, Ordering::Relaxed);
    });
    let calendar = plant.plan().days().expect("days");
    let log_of = |day: &Day| folder.path().join(format!("tp{}", day.date.to_string().replace('-', ".")));
    // The log of the last day is begun when those before it are complete.
    let (last, began) = (log_of(calendar.last().expect("a day")), Instant::now());
    while !last.exists() {
        assert!(began.elapsed() < PATIENCE, "{:?}", front.status());
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut rows = 0;
    for pair in calendar.windows(2) {
        let records = logged(&log_of(&pair[0]));
        for table in ["quote", "trade"] {
            let of_table = records.iter().filter(|record| record.item(1) == Some(Value::symbol(table)));
            let in_log: usize = of_table.map(numbers_of_sizes).sum();
            let in_calendar = pair[1].first_of(table) - pair[0].first_of(table);
            assert_eq!(in_log as u64, in_calendar, "{table} on {}", pair[0].date);
            rows += in_log;
        }
    }
    assert!(rows > 0);
}

/// How many rows a record has.
fn numbers_of_sizes(record: &Value) -> usize {
    record.item(2).and_then(|columns| columns.item(0)).and_then(|column| column.len()).expect("columns")
}
