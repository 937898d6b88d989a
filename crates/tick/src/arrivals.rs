//! The order in which rows arrive at a plant, over all its tables: a stream `PLANT/arrivals` beside them.
//!
//! A stream has the order of its own messages only. So the plant records each change from one table to another: a message of
//! `arrivals` begins a *run*, in which all rows are appended to one table (or to the calendar), and states where the run before
//! it ended. Consecutive updates of one table cost nothing; only changes are written.
//!
//! Always true: a run's message is readable before the first row of the run, and no row of another table is appended between
//! the two. So the order is the same for every reader, now and later: rows that can be read, and behind which no further message
//! of `arrivals` could be read afterwards, are of the last run. The [`sequencer`] writes it, a [`Subscription`] reads it.

pub(crate) mod sequencer;
mod subscription;

pub(crate) use sequencer::Sequencer;
pub(crate) use subscription::ArrivalPosition;
pub use subscription::{Step, Subscription};

use tapedb_codec::{Record, SchemaBuilder};
use tapedb_engine::{Durability, StreamOptions};
use tapedb_schema::Schema;

/// Name of the stream of arrivals in its plant.
pub const ARRIVALS: &str = "arrivals";

// The doc comments are part of the schema on the disk, so they do not change.
/// A run begins, of the table that is the message's symbol.
#[derive(Record, Debug, Clone, Default, PartialEq)]
#[record(message)]
pub(crate) struct Run {
    /// The table of the run before; empty if there was none.
    pub ended: String,
    /// The sequence number after the last row of that run.
    pub end: u64,
}

pub(crate) fn schema() -> Schema {
    SchemaBuilder::new().with::<Run>().finish()
}

/// The options of the stream, given those of the tables: a sync for each change of table would cost more than the rows. In a
/// power cut the order of the last rows may be lost, but no row.
pub(crate) fn options(tables: StreamOptions) -> StreamOptions {
    let durability = match tables.durability {
        Durability::Sync => Durability::Async,
        durability => durability,
    };
    StreamOptions { durability, retention: Default::default(), ..tables }
}
