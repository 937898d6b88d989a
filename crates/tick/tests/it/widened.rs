//! A table whose definition changes.

use crate::support::*;
use tapedb_tick::{Column, Hdb, Plant, PlantOptions, Query, TickError, tables};

#[test]
fn a_new_column_is_added_and_a_loss_is_refused() {
    let (place, hdb_place) = (place(), place());
    let hdb = Hdb::new(hdb_place.db.clone());
    let open =
        |text: &str| Plant::open(&place.db, "tp", &tables(text).expect("tables"), PlantOptions::default());
    let narrow = "trade:([]time:`timespan$();sym:`symbol$();price:`float$())";
    let today = {
        let plant = open(narrow).expect("a plant");
        let today = plant.day().date;
        plant.update("trade", &trades(0, 4)[..3]).expect("logged");
        plant.end_of_day(today).expect("ended");
        let rdb = rdb(&place.db, Some(&hdb));
        assert!(
            rdb.wait_until(PATIENCE, |status| status.is_live && status.ending.is_empty()),
            "{:?}",
            rdb.status()
        );
        plant.update("trade", &trades(4, 2)[..3]).expect("logged");
        today
    };
    let wide = "trade:([]time:`timespan$();sym:`symbol$();price:`float$();size:`long$();ex:`symbol$())";
    let plant = open(wide).expect("a plant");
    plant.update("trade", &trades(6, 2)).expect("logged");
    let rdb = rdb(&place.db, Some(&hdb));
    wait_for_rows(&rdb, "trade", 4);
    let answer = rdb.query(&Query::table("trade")).expect("an answer");
    assert_eq!(sizes(&answer), [i64::MIN, i64::MIN, 6, 7], "nulls before");
    plant.end_of_day(today.next()).expect("ended");
    let date = today.next().next();
    assert!(
        rdb.wait_until(PATIENCE, |status| status.date == date && status.ending.is_empty()),
        "{:?}",
        rdb.status()
    );
    let of = |date| sizes(&hdb.query("tp", Some(date), &Query::table("trade")).expect("an answer"));
    assert_eq!((of(today), of(today.next())), (vec![i64::MIN; 4], vec![i64::MIN, i64::MIN, 6, 7]));
    drop((plant, rdb));
    for (text, expected) in [
        (narrow, "has no column size"),
        (
            "trade:([]time:`timespan$();sym:`symbol$();price:`float$();size:`int$();ex:`symbol$())",
            "column size is a long",
        ),
    ] {
        let refused = open(text).expect_err("refused");
        assert!(matches!(refused, TickError::Columns { .. }), "{refused}");
        let refused = refused.to_string();
        assert!(refused.contains(expected) && refused.contains("tapedb alter tp/trade"), "{refused}");
    }
    let plant = open(wide).expect("a plant");
    assert_eq!(
        plant
            .update(
                "trade",
                &[
                    Column::Text(["A"].into_iter().collect()),
                    Column::Float(vec![1.0]),
                    Column::Long(vec![1]),
                    Column::Text([""].into_iter().collect())
                ]
            )
            .expect("logged"),
        9
    );
    let taken = open("days:([]time:`timespan$();sym:`symbol$())").expect_err("refused").to_string();
    assert!(taken.contains("no table can be called days"), "{taken}");
}
