//! An update that was answered with an error is not stored, neither then nor later.

use crate::support::*;
use std::sync::Arc;
use tapedb_engine::{Access, Database, StreamOptions};
use tapedb_log::sim::SimStorage;
use tapedb_tick::{Plant, PlantOptions, tables};

#[test]
fn an_update_that_was_answered_with_an_error_is_not_stored_later() {
    let disk = SimStorage::new(7);
    let db = Database::open_on(Arc::new(disk.clone()), "/db", Access::WriteWithoutMaintenance)
        .expect("a database");
    let stream = StreamOptions { file_bytes_max: 4 << 10, ..Default::default() };
    let options = PlantOptions { stream, ..Default::default() };
    let plant = Plant::open(&db, "tp", &tables(TABLES).expect("tables"), options).expect("a plant");
    plant.update("trade", &trades(0, 10)).expect("logged");
    disk.set_capacity(Some(1));
    let error = plant.update("trade", &trades(10, 400)).unwrap_err().to_string();
    assert!(error.contains("nothing of it is stored"), "{error}");
    plant.collect("trade", &trades(10, 400)).expect("accepted");
    assert!(plant.log().unwrap_err().to_string().contains("not stored"));
    // Of another table: the change of table is not recorded either.
    assert!(plant.update("quote", &quotes(0, 400)).is_err());
    disk.set_capacity(None);
    assert_eq!(plant.rows("trade").expect("counted"), 10);
    plant.update("trade", &trades(10, 400)).expect("logged");
    plant.update("quote", &quotes(0, 5)).expect("logged");
    plant.update("trade", &trades(410, 1)).expect("logged");
    assert_eq!((plant.rows("trade").expect("counted"), plant.rows("quote").expect("counted")), (411, 5));
    let mut today = tapedb_tick::Subscription::today(plant.plan()).expect("a subscription");
    let mut order = Vec::new();
    while let tapedb_tick::Step::Row(table) = today.advance().expect("read") {
        order.push(table);
    }
    assert_eq!(order, [vec![1; 410], vec![0; 5], vec![1]].concat());
}
