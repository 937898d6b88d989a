//! What a kdb+tick installation does, on the streams of a database: a tickerplant ([`Plant`]) that logs and publishes
//! updates, an [`Rdb`] that holds today in memory and answers queries, an [`Hdb`] of the days before, chained plants ([`Chain`]),
//! and a [`Feed`] that simulates.
//!
//! A plant is a set of streams, one for each table, and a calendar of the beginnings of days. So logging is appending,
//! subscribing is a live cursor, replay on start is a cursor's history, and all of it works over a network. `docs/TICK.md`
//! has the picture.

mod answer;
mod arrivals;
mod calendar;
mod cell;
mod chain;
mod clock;
mod column;
mod content;
mod date;
mod definition;
mod error;
mod feed;
mod gather;
mod hdb;
pub mod kdb;
pub mod kind;
mod memory;
mod names;
mod plan;
mod plant;
mod query;
mod rdb;
mod table;
mod widen;

pub use answer::Answer;
pub use arrivals::{ARRIVALS, Step, Subscription};
pub use calendar::{CALENDAR, Day, DayEnd, day_of};
pub use chain::{Chain, ChainOptions};
pub use column::{Column, Texts};
pub use date::Date;
pub use definition::{DEFINITION_BYTES_MAX, tables};
pub use error::TickError;
pub use feed::{EXTRA_COLUMNS_MAX, Feed, FeedOptions};
pub use gather::Gather;
pub use hdb::Hdb;
pub use kind::Kind;
pub use names::PLANT_NAME_BYTES_MAX;
pub use plan::Plan;
pub use plant::{Plant, PlantOptions, Publish};
pub use query::Query;
pub use rdb::{Inserted, Probe, Rdb, RdbOptions, RdbStatus};
pub use table::{ColumnDef, NO_SYMBOL, SYM, TIME, Table};
