//! The order in which rows arrive at a plant, over all its tables: a stream `PLANT/arrivals` beside them.
//!
//! A stream keeps the order of its own messages and knows nothing of others. So the plant notes each change from one table to
//! another: a message of `arrivals` begins a *run*, in which all that is appended goes to one table (or to the calendar), and
//! says where the run before it ended. Updates of one table after another cost nothing; only changes are written.
//!
//! Always true: a run's message is readable before the first row of the run, and no row of another table is appended between
//! the two. So the order is the same for everybody, now and later: rows that can be read, and behind which no further message
//! of `arrivals` could be read afterwards, are of the last run. The [`sequencer`] writes it, a [`Subscription`] reads it.

pub(crate) mod sequencer;
mod subscription;

pub(crate) use sequencer::Sequencer;
pub(crate) use subscription::Place;
pub use subscription::{Step, Subscription};

use tapedb_codec::{Record, SchemaBuilder};
use tapedb_engine::{Durability, StreamOptions};
use tapedb_schema::Schema;

/// Name of the stream of arrivals in its plant.
pub const ARRIVALS: &str = "arrivals";

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

/// What the stream promises where tables promise `tables`: a sync for each change of table would cost more than the rows. After a
/// power cut the order of the last rows may be lost, and no row with it.
pub(crate) fn options(tables: StreamOptions) -> StreamOptions {
    let durability = match tables.durability {
        Durability::Sync => Durability::Async,
        durability => durability,
    };
    StreamOptions { durability, retention: Default::default(), ..tables }
}
