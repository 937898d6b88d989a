//! Handing days over from plants to HDBs: written once though several RDBs try, and kept until the HDB has them.

use crate::support::*;
use std::time::{Duration, Instant};
use tapedb_engine::{Database, StreamOptions};
use tapedb_schema::Timestamp;
use tapedb_tick::{Date, Hdb, Plan, Plant, PlantOptions, Query, Rdb, RdbOptions, tables};

fn messages(db: &Database, stream: &str) -> u64 {
    db.stream(stream).expect("a stream").stats().expect("looked at").messages
}

fn wait(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn two_rdbs_with_one_hdb_store_a_day_once() {
    for is_remote in [false, true] {
        let (place, hdb_place) = (place(), place());
        let served = is_remote.then(|| crate::over::serve(&hdb_place));
        let open = || match &served {
            Some((_, url)) => Hdb::new(crate::over::connect(url)),
            None => Hdb::new(hdb_place.db.clone()),
        };
        let plant = plant(&place.db);
        let today = plant.day().date;
        let (hdb_one, hdb_two) = (open(), open());
        let (one, two) = (rdb(&place.db, Some(&hdb_one)), rdb(&place.db, Some(&hdb_two)));
        for update in 0..40 {
            plant.update("trade", &trades(update * 2_000, 2_000)).expect("logged");
            plant.update("quote", &quotes(update * 100, 100)).expect("logged");
        }
        plant.end_of_day(today).expect("ended");
        for rdb in [&one, &two] {
            let is_over = rdb.wait_until(PATIENCE, |status| {
                status.date == today.next() && status.ending.is_empty() && status.failure.is_none()
            });
            assert!(is_over, "{:?}", rdb.status());
        }
        let answer = hdb_one.query("tp", Some(today), &Query::table("trade")).expect("an answer");
        assert_eq!(sizes(&answer), (0..80_000).collect::<Vec<i64>>());
        assert_eq!(messages(&hdb_place.db, "tp/trade"), 80_000, "remote: {is_remote}");
        assert_eq!(messages(&hdb_place.db, "tp/quote"), 4_000);
        assert_eq!(messages(&hdb_place.db, "tp/days"), 1);
    }
}

fn keeping(db: &Database, hdb: &Hdb) -> Plant {
    let options = PlantOptions {
        day_end: None,
        keep_days: Some(1),
        hdb: Some(hdb.clone()),
        compare_pause: Duration::from_millis(50),
        ..Default::default()
    };
    Plant::open(db, "tp", &tables(TABLES).expect("tables"), options).expect("a plant")
}

#[test]
fn a_day_is_kept_until_its_copy_has_been_compared() {
    let (place, hdb_place) = (place(), place());
    let hdb = Hdb::new(hdb_place.db.clone());
    let plant = keeping(&place.db, &hdb);
    let today = plant.day().date;
    let trade = plant.plan().table("trade").expect("a table").1.clone();
    // Old times, so that only days that are kept prevent a purge.
    let update = |first: usize| {
        let mut columns = trades(first, 100);
        columns[0] = tapedb_tick::Column::Long((0..100).map(|at| at - 90 * 86_400_000_000_000).collect());
        plant.update("trade", &columns).expect("logged");
    };
    update(0);
    plant.end_of_day(today).expect("ended");
    update(100);
    plant.end_of_day(today.next()).expect("ended");
    update(200);
    // The HDB records the day but has other rows.
    let bad = Rdb::start(
        Plan::open(&place.db, "tp").expect("a plant"),
        RdbOptions { hdb: Some(hdb.clone()), ..Default::default() },
    )
    .expect("an RDB");
    assert!(
        bad.wait_until(PATIENCE, |status| status.is_live && status.ending.is_empty()),
        "{:?}",
        bad.status()
    );
    drop(bad);
    let first = hdb_place.db.stream("tp/trade").expect("a stream");
    first.delete(.., None::<[&str; 0]>).expect("deleted");
    wait("the day is compared", || {
        plant.tick(Timestamp(1)).expect("looked");
        plant.kept_back().is_some()
    });
    let reason = plant.kept_back().expect("a reason");
    assert!(reason.contains("100 rows here and 0 in the HDB"), "{reason}");
    assert_eq!(trade.stats().expect("stats").messages, 300);
    // An RDB that finds it to be different writes it again; then it may be purged.
    let hdb_again = hdb_place.db.stream("tp/days").expect("a stream");
    hdb_again.delete(.., None::<[&str; 0]>).expect("deleted");
    let rdb = rdb(&place.db, Some(&hdb));
    assert!(
        rdb.wait_until(PATIENCE, |status| status.is_live && status.ending.is_empty()),
        "{:?}",
        rdb.status()
    );
    assert_eq!(hdb.query("tp", Some(today), &Query::table("trade")).expect("an answer").rows(), 100);
    wait("the day is purged", || {
        plant.tick(Timestamp(1)).expect("looked");
        plant.kept_back().is_none()
            && trade
                .cursor()
                .open()
                .expect("a cursor")
                .next()
                .expect("read")
                .is_some_and(|message| message.sequence() >= 100)
    });
}

#[test]
fn a_half_written_day_of_another_process_is_not_taken_for_this_one() {
    let (place, hdb_place) = (place(), place());
    let hdb = Hdb::new(hdb_place.db.clone());
    let plant = plant(&place.db);
    let today = plant.day().date;
    plant.update("trade", &trades(0, 100)).expect("logged");
    plant.end_of_day(today).expect("ended");
    let (table, stream) = plant.plan().table("trade").expect("a table");
    let there =
        hdb_place.db.create_stream("tp/trade", table.schema(), StreamOptions::default()).expect("a stream");
    let mut cursor = stream.cursor().open().expect("a cursor");
    let message = cursor.next().expect("read").expect("a row");
    let mut loader = there.loader().expect("a loader");
    for _ in 0..3 {
        loader.append_body("other", message.time(), message.type_id(), message.body()).expect("it fits");
    }
    loader.close().expect("written");
    let rdb = rdb(&place.db, Some(&hdb));
    assert!(
        rdb.wait_until(PATIENCE, |status| status.is_live && status.ending.is_empty()),
        "{:?}",
        rdb.status()
    );
    // The RDB may be live before it reads that the day has ended.
    let ask = || hdb.query("tp", Some(today), &Query::table("trade"));
    wait("the day is in the HDB", || ask().is_ok());
    assert_eq!(sizes(&ask().expect("an answer")), (0..100).collect::<Vec<i64>>());
}

#[test]
fn imported_history_is_found_by_its_dates_and_is_no_part_of_today() {
    let (place, hdb_place) = (place(), place());
    // Three days of January 2020, as an import leaves them.
    let table =
        tables(TABLES).expect("tables").into_iter().find(|table| table.name() == "trade").expect("trade");
    let january: Date = "2020-01-06".parse().expect("a date");
    let import = |db: &Database| {
        let scratch = crate::support::place();
        let from = plant(&scratch.db);
        from.update("trade", &trades(0, 30)).expect("logged");
        let stream =
            db.create_stream("tp/trade", table.schema(), StreamOptions::default()).expect("a stream");
        let mut cursor = from.plan().table("trade").expect("a table").1.cursor().open().expect("a cursor");
        let mut loader = stream.loader().expect("a loader");
        let mut at = 0;
        while let Some(message) = cursor.next().expect("read") {
            let time = Timestamp(january.midnight().0 + (at / 10) * 86_400_000_000_000 + at);
            loader.append_body(message.symbol(), time, message.type_id(), message.body()).expect("it fits");
            at += 1;
        }
        loader.close().expect("written");
    };
    import(&place.db);
    import(&hdb_place.db);
    let hdb = Hdb::new(hdb_place.db.clone());
    let dates: Vec<String> = hdb.dates("tp").expect("dates").iter().map(ToString::to_string).collect();
    assert_eq!(dates, ["2020-01-06", "2020-01-07", "2020-01-08"]);
    let of = |date: Option<Date>| hdb.query("tp", date, &Query::table("trade")).map(|answer| sizes(&answer));
    assert_eq!(of(None).expect("all"), (0..30).collect::<Vec<i64>>());
    assert_eq!(of(Some(january.next())).expect("a day"), (10..20).collect::<Vec<i64>>());
    assert!(of(Some(Date(january.0 + 3))).is_err());
    // The plant begins after it, and so do the days that it hands over.
    let plant = plant(&place.db);
    let today = plant.day().date;
    assert_eq!(plant.rows("trade").expect("counted"), 0);
    plant.update("trade", &trades(100, 7)).expect("logged");
    let rdb = rdb(&place.db, Some(&hdb));
    wait_for_rows(&rdb, "trade", 7);
    assert_eq!(
        sizes(&rdb.query(&Query::table("trade")).expect("an answer")),
        (100..107).collect::<Vec<i64>>()
    );
    plant.end_of_day(today).expect("ended");
    let is_over = rdb.wait_until(PATIENCE, |status| status.date == today.next() && status.ending.is_empty());
    assert!(is_over, "{:?}", rdb.status());
    assert_eq!(of(Some(today)).expect("today"), (100..107).collect::<Vec<i64>>());
    assert_eq!(of(None).expect("all").len(), 37);
}
