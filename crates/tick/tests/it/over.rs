//! The parts of an installation on different sides of a network: plant, feed, RDB, chain, HDB.

use crate::support::*;
use std::time::Duration;
use tapedb_engine::{Database, Durability, StreamOptions};
use tapedb_server::{Config, Endpoint, Server};
use tapedb_tick::{
    Chain, ChainOptions, Column, Feed, FeedOptions, Hdb, Plan, Plant, PlantOptions, Query, Rdb, RdbOptions,
};

/// A server over a database, and its address.
pub fn serve(place: &Place) -> (Server, String) {
    let config = Config { listen: Endpoint::loopback(0), http: Endpoint::OFF, ..Config::default() };
    let server = Server::start_with(config, place.db.clone()).unwrap();
    let address = server.addresses().tcp.unwrap();
    (server, format!("tape://{address}"))
}

pub fn connect(url: &str) -> Database {
    tapedb_client::open(url).unwrap()
}

fn feed_plant(db: &Database) -> Plant {
    let table = Feed::table("trade", 3).unwrap();
    Plant::open(db, "tp", &[table], PlantOptions::default()).unwrap()
}

fn feed_options() -> FeedOptions {
    FeedOptions {
        rows_per_update: 7,
        extra_columns: 3,
        interval: Duration::ZERO,
        symbols: 20,
        ..Default::default()
    }
}

fn numbers(rdb: &Rdb) -> Vec<i64> {
    sizes(&rdb.query(&Query::table("trade")).unwrap())
}

#[test]
fn a_whole_installation_works_over_the_network() {
    let (place, hdb_place) = (place(), place());
    let plant = feed_plant(&place.db);
    let (server, url) = serve(&place);
    let (hdb_server, hdb_url) = serve(&hdb_place);
    let hdb = Hdb::new(connect(&hdb_url));
    let options = RdbOptions { hdb: Some(hdb.clone()), ..Default::default() };
    let rdb = Rdb::start(Plan::open(&connect(&url), "tp").unwrap(), options).unwrap();
    let chain_place = crate::support::place();
    let transient = StreamOptions { durability: Durability::Transient, ..Default::default() };
    let every = Some(Duration::from_millis(2));
    let start_chain = || {
        let source = Plan::open(&connect(&url), "tp").unwrap();
        Chain::start(source, &chain_place.db, "chained", ChainOptions { stream: transient, every }).unwrap()
    };
    let chain = start_chain();
    let (chain_server, chain_url) = serve(&chain_place);
    let behind =
        Rdb::start(Plan::open(&connect(&chain_url), "chained").unwrap(), RdbOptions::default()).unwrap();

    let mut feed = Feed::open(&Plan::open(&connect(&url), "tp").unwrap(), feed_options()).unwrap();
    feed.run(|next| next < 7_000).unwrap();
    let today = plant.day().date;
    plant.end_of_day(today).unwrap();
    feed.run(|next| next < 10_500).unwrap();

    for rdb in [&rdb, &behind] {
        let is_over = |status: &tapedb_tick::RdbStatus| {
            status.date == today.next() && status.ending.is_empty() && rows_of(status, "trade") == 3_500
        };
        assert!(rdb.wait_until(PATIENCE, is_over), "{:?} {:?}", rdb.status(), chain.failure());
        assert_eq!(numbers(rdb), (7_000..10_500).collect::<Vec<i64>>());
    }
    assert_eq!((chain.rows(), chain.missed()), (10_500, 0));
    let old = hdb.query("tp", Some(today), &Query::table("trade").columns(["size", "x2"])).unwrap();
    assert_eq!(sizes(&old), (0..7_000).collect::<Vec<i64>>());
    assert!(matches!(old.column("x2"), Some(Column::Float(_))));

    // A chain that is started again continues where it was.
    drop(chain);
    feed.run(|next| next < 10_507).unwrap();
    let chain = start_chain();
    assert!(behind.wait_until(PATIENCE, |status| rows_of(status, "trade") == 3_507), "{:?}", behind.status());
    assert_eq!((numbers(&behind), chain.rows()), ((7_000..10_507).collect::<Vec<i64>>(), 7));
    drop((rdb, behind));
    drop((server, hdb_server, chain_server));
}

#[test]
fn a_stalled_subscriber_delays_no_other() {
    let place = place();
    let _plant = feed_plant(&place.db);
    let (server, url) = serve(&place);
    let plan = |url: &str| Plan::open(&connect(url), "tp").unwrap();
    let stalled = plan(&url);
    let mut stalled = stalled.tables()[0].1.cursor().live().open().unwrap();
    let rdb = Rdb::start(plan(&url), RdbOptions::default()).unwrap();
    let mut feed = Feed::open(&plan(&url), FeedOptions { rows_per_update: 1000, ..feed_options() }).unwrap();
    // Far more than the window that is open for a subscriber, 4 MiB.
    let rows = 300_000;
    feed.run(|next| next < rows).unwrap();
    wait_for_rows(&rdb, "trade", rows);
    // It has read nothing until now, and gets all rows.
    for number in 0..rows {
        let message = stalled.next_within(PATIENCE).unwrap().expect("a message");
        assert_eq!(message.sequence(), number);
    }
    drop(rdb);
    drop(server);
}
