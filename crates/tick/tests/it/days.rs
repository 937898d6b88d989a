//! Days that end: exactly, once in the calendar, handed over without a pause.

use crate::support::*;
use tapedb_engine::Database;
use tapedb_tick::{Date, Hdb, Query, day_of};

#[test]
fn a_day_ends_and_is_in_the_hdb() {
    let (place, hdb_place) = (place(), place());
    let plant = plant(&place.db);
    let hdb = Hdb::new(hdb_place.db.clone());
    let rdb = rdb(&place.db, Some(&hdb));
    let today = plant.day().date;
    // Out of order: the HDB has days in time order.
    plant.update("trade", &trades(500, 500)).unwrap();
    plant.update("trade", &trades(0, 500)).unwrap();
    let tomorrow = plant.end_of_day(today).unwrap();
    assert_eq!((tomorrow.date, plant.end_of_day(today).unwrap()), (today.next(), tomorrow.clone()));
    plant.update("trade", &trades(1000, 10)).unwrap();
    plant.update("quote", &quotes(0, 3)).unwrap();

    let is_over = rdb.wait_until(PATIENCE, |status| status.date == today.next() && status.ending.is_empty());
    assert!(is_over, "{:?}", rdb.status());
    wait_for_rows(&rdb, "trade", 10);
    assert_eq!(sizes(&rdb.query(&Query::table("trade")).unwrap()), (1000..1010).collect::<Vec<i64>>());
    assert_eq!(hdb.dates("tp").unwrap(), [today]);
    let answer = hdb.query("tp", Some(today), &Query::table("trade")).unwrap();
    assert_eq!(sizes(&answer), (0..1000).collect::<Vec<i64>>());
    assert_eq!(answer.show(0, 2), "00:00:00.000002");
    let of = |query| sizes(&hdb.query("tp", None, &query).unwrap());
    assert_eq!(of(Query::table("trade").last_by_symbol()), [999, 997, 998]);
    assert_eq!(of(Query::table("trade").symbols(["IBM"]).limit(-2)), [995, 998]);
    assert!(hdb.query("tp", Some(today.next()), &Query::table("trade")).is_err());
    assert!(rdb.query_date(today, &Query::table("trade")).unwrap_err().to_string().contains("HDB"));
}

#[test]
fn days_are_in_the_calendar_once_and_cut_exactly_while_feeds_write() {
    let place = place();
    let plant = plant(&place.db);
    let hdb_place = crate::support::place();
    let hdb = Hdb::new(hdb_place.db.clone());
    let rdb = rdb(&place.db, Some(&hdb));
    let today = plant.day().date;
    let (updates, rows) = (400, 25);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            (0..updates).for_each(|at| {
                plant.update("trade", &trades(at * rows, rows)).unwrap();
            })
        });
        scope.spawn(|| {
            (0..updates).for_each(|at| {
                plant.update("quote", &quotes(at * rows, rows)).unwrap();
            })
        });
        for day in 0..5 {
            std::thread::sleep(std::time::Duration::from_millis(3));
            plant.end_of_day(Date(today.0 + day)).unwrap();
        }
    });
    plant.end_of_day(Date(today.0 + 5)).unwrap();
    let last = Date(today.0 + 6);
    let is_over = rdb.wait_until(PATIENCE, |status| status.date == last && status.ending.is_empty());
    assert!(is_over, "{:?}", rdb.status());

    let mut cursor = plant.plan().calendar().cursor().open().unwrap();
    let mut dates = Vec::new();
    while let Some(message) = cursor.next().unwrap() {
        dates.push(day_of(&message).unwrap().date.0 - today.0);
    }
    assert_eq!(dates, [0, 1, 2, 3, 4, 5, 6]);
    let mut all = Vec::new();
    for date in hdb.dates("tp").unwrap() {
        all.extend(sizes(&hdb.query("tp", Some(date), &Query::table("trade")).unwrap()));
    }
    assert_eq!(all, (0..(updates * rows) as i64).collect::<Vec<i64>>());
    assert_eq!(hdb.query("tp", None, &Query::table("quote")).unwrap().rows(), updates * rows);
}

#[test]
fn a_restarted_rdb_hands_over_the_remaining_days() {
    let (place, hdb_place) = (place(), place());
    let plant = plant(&place.db);
    let hdb = Hdb::new(hdb_place.db.clone());
    let today = plant.day().date;
    for day in 0..3 {
        plant.update("trade", &trades(day * 100, 100)).unwrap();
        if day < 2 {
            plant.end_of_day(Date(today.0 + day as i32)).unwrap();
        }
    }
    // The rows of a killed RDB: half of the first day, without a record of it.
    {
        let (table, _) = plant.plan().table("trade").unwrap();
        let stream = hdb_place.db.create_stream("tp/trade", table.schema(), Default::default()).unwrap();
        let mut from = plant.plan().table("trade").unwrap().1.cursor().open().unwrap();
        let mut loader = stream.loader().unwrap();
        for _ in 0..50 {
            let message = from.next().unwrap().unwrap();
            loader.append_body(message.symbol(), message.time(), message.type_id(), message.body()).unwrap();
        }
        loader.close().unwrap();
    }
    let rdb = rdb(&place.db, Some(&hdb));
    let is_over = rdb.wait_until(PATIENCE, |status| status.ending.is_empty() && status.is_live);
    assert!(is_over, "{:?}", rdb.status());
    for day in 0..2 {
        let date = Date(today.0 + day);
        let answer = hdb.query("tp", Some(date), &Query::table("trade")).unwrap();
        assert_eq!(sizes(&answer), (i64::from(day) * 100..i64::from(day) * 100 + 100).collect::<Vec<_>>());
    }
    assert_eq!(sizes(&rdb.query(&Query::table("trade")).unwrap()), (200..300).collect::<Vec<i64>>());
    assert_eq!(rdb.status().missed, 0);
}

#[test]
fn a_plant_that_is_opened_again_continues_its_day() {
    let place = place();
    let before = plant(&place.db);
    let today = before.day().date;
    before.update("trade", &trades(0, 5)).unwrap();
    before.end_of_day(today).unwrap();
    before.update("trade", &trades(5, 5)).unwrap();
    let path = place.db.path().to_path_buf();
    drop(before);
    drop(place.db);
    let db = Database::open(path).unwrap();
    let again = plant(&db);
    assert_eq!(again.day().date, today.next());
    let rdb = rdb(&db, None);
    wait_for_rows(&rdb, "trade", 5);
    assert_eq!(sizes(&rdb.query(&Query::table("trade")).unwrap()), [5, 6, 7, 8, 9]);
}
