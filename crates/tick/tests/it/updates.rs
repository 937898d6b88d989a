//! Updates into a plant, and what an RDB makes of them.

use crate::support::*;
use tapedb_tick::{Column, Plant, PlantOptions, Publish, Query, Texts, TickError, tables};

#[test]
fn an_update_comes_out_of_the_rdb_as_it_went_in() {
    let place = place();
    let plant = plant(&place.db);
    let rdb = rdb(&place.db, None);
    let columns = trades(0, 100);
    assert_eq!(plant.update("trade", &columns).unwrap(), 100);
    plant.update("quote", &quotes(0, 7)).unwrap();
    wait_for_rows(&rdb, "trade", 100);
    wait_for_rows(&rdb, "quote", 7);
    let answer = rdb.query(&Query::table("trade")).unwrap();
    let values: Vec<Column> = answer.columns.iter().map(|(_, values)| values.clone()).collect();
    assert_eq!(values, columns);
}

#[test]
fn queries_choose_rows_and_columns() {
    let place = place();
    let plant = plant(&place.db);
    let rdb = rdb(&place.db, None);
    for update in 0..20 {
        plant.update("trade", &trades(update * 50, 50)).unwrap();
    }
    wait_for_rows(&rdb, "trade", 1000);
    let ask = |query: Query| sizes(&rdb.query(&query).unwrap());
    let all = || Query::table("trade");
    let midnight = rdb.day().midnight.0;

    let bac = ask(all().symbols(["BAC"]));
    assert_eq!(bac, (0..1000).filter(|n| n % 3 == 1).collect::<Vec<i64>>());
    let two = ask(all().symbols(["BAC", "AIG", "none", "BAC"]));
    assert_eq!(two, (0..1000).filter(|n| n % 3 < 2).collect::<Vec<i64>>());
    let ranged = all().from(nanos(midnight + 10_000)).to(nanos(midnight + 20_000));
    assert_eq!(ask(ranged.clone()), (10..20).collect::<Vec<i64>>());
    assert_eq!(ask(ranged.clone().symbols(["AIG"])), [12, 15, 18]);
    assert_eq!(ask(ranged.clone().last_by_symbol()), [18, 19, 17]);
    assert_eq!(ask(all().last_by_symbol()), [999, 997, 998]);
    assert_eq!((ask(all().limit(2)), ask(all().limit(-2))), (vec![0, 1], vec![998, 999]));
    assert_eq!(rdb.count(&ranged.symbols(["AIG"])).unwrap(), 3);

    let answer = rdb.query(&all().columns(["ex", "price"]).limit(1)).unwrap();
    let names: Vec<&str> = answer.columns.iter().map(|(column, _)| &*column.name).collect();
    assert_eq!((names, answer.show(0, 0)), (vec!["ex", "price"], "N".into()));
    assert!(matches!(rdb.query(&all().columns(["cost"])), Err(TickError::NoColumn { .. })));
    assert!(matches!(rdb.query(&Query::table("news")), Err(TickError::NoTable { .. })));
}

#[test]
fn times_out_of_order_are_found() {
    let place = place();
    let plant = plant(&place.db);
    let rdb = rdb(&place.db, None);
    plant.update("trade", &trades(50, 50)).unwrap();
    plant.update("trade", &trades(0, 50)).unwrap();
    wait_for_rows(&rdb, "trade", 100);
    let midnight = rdb.day().midnight.0;
    let query = Query::table("trade").from(nanos(midnight + 48_000)).to(nanos(midnight + 52_000));
    assert_eq!(sizes(&rdb.query(&query).unwrap()), [50, 51, 48, 49]);
    assert_eq!(sizes(&rdb.query(&query.symbols(["AIG"])).unwrap()), [51, 48]);
}

#[test]
fn nulls_are_nulls_in_the_stream_and_come_back() {
    let place = place();
    let text = "t:([]time:`timestamp$();sym:`symbol$();a:`long$();b:`float$();c:`char$();d:`date$();e:`int$();f:`real$();g:())";
    let plant = Plant::open(&place.db, "tp", &tables(text).unwrap(), PlantOptions::default()).unwrap();
    let rdb = rdb(&place.db, None);
    let columns = [
        Column::Long(vec![5, 6]),
        Column::Text(["", "x"].into_iter().collect::<Texts>()),
        Column::Long(vec![i64::MIN, i64::MAX]),
        Column::Float(vec![f64::NAN, f64::INFINITY]),
        Column::Int(vec![32, 65]),
        Column::Int(vec![i32::MIN, 1]),
        Column::Int(vec![i32::MIN + 1, i32::MIN]),
        Column::Real(vec![1.5, f32::NAN]),
        Column::Text(["", "text"].into_iter().collect::<Texts>()),
    ];
    plant.update("t", &columns).unwrap();
    wait_for_rows(&rdb, "t", 2);
    let answer = rdb.query(&Query::table("t")).unwrap();
    for (at, column) in columns.iter().enumerate().skip(1) {
        // As texts, for NaN is not NaN.
        assert_eq!(format!("{:?}", answer.columns[at].1), format!("{column:?}"), "column {at}");
    }
    let mut cursor = plant.plan().tables()[0].1.cursor().open().unwrap();
    let message = cursor.next().unwrap().unwrap();
    assert_eq!(message.time().0, 5);
    let record = message.record().unwrap();
    assert!(["a", "b", "c", "d"].iter().all(|field| record.get(field).unwrap().is_null()));
    assert_eq!(record.get("e").unwrap().to_string(), (i32::MIN + 1).to_string());
}

#[test]
fn an_update_that_does_not_fit_is_refused_whole() {
    let place = place();
    let plant = plant(&place.db);
    let refused = |table: &str, columns: &[Column]| plant.update(table, columns).unwrap_err().to_string();
    let good = trades(0, 2);
    assert!(refused("news", &good).contains("trade"));
    assert!(refused("trade", &good[..3]).contains("sym"));
    let mut bad = good.clone();
    bad[3] = Column::Int(vec![1, 2]);
    assert!(refused("trade", &bad).contains("column size is long; it brings ints"));
    bad[3] = Column::Long(vec![1]);
    assert!(refused("trade", &bad).contains("1 rows"));
    bad = good.clone();
    bad[4] = Column::Text([&b"\xff"[..], b"x"].into_iter().collect());
    assert!(refused("trade", &bad).contains("UTF-8"));
    bad = good.clone();
    bad[0] = Column::Long(vec![5, i64::MIN]);
    assert!(refused("trade", &bad).contains("row 1: time is null"));
    assert_eq!(plant.update("trade", &good[1..]).unwrap(), 2, "nothing of the others was taken");
}

#[test]
fn updates_may_wait_for_the_timer() {
    let place = place();
    let minute = std::time::Duration::from_secs(60);
    for (name, publish, logged) in [("a", Publish::Every(minute), 10), ("b", Publish::LogEvery(minute), 0)] {
        let options = PlantOptions { publish, ..Default::default() };
        let plant = Plant::open(&place.db, name, &tables(TABLES).unwrap(), options).unwrap();
        let (_, stream) = plant.plan().table("trade").unwrap();
        let mut cursor = stream.cursor().skip_history().open().unwrap();
        assert!(cursor.next().unwrap().is_none());
        plant.update("trade", &trades(0, 10)).unwrap();
        assert_eq!(stream.stats().unwrap().next_sequence, logged, "{publish:?}");
        plant.flush().unwrap();
        let mut seen = 0;
        while cursor.next_within(PATIENCE / 60).unwrap().is_some() {
            seen += 1;
        }
        assert_eq!(seen, 10, "{publish:?}");
    }
}
