//! Plays history again as if it were live: at the speed at which it happened, faster, slower, or as fast as possible.
//!
//! A [`Player`] reads a cursor, of one stream or of many merged by time, and delivers each message to a [`Sink`] when a virtual
//! [`Clock`] says that it is due. A [`Control`], which any thread may hold, pauses, steps, seeks and changes the speed while it runs. The
//! [`ReplayHash`] of what was delivered does not depend on speed, sink, or where the database is.
//!
//! ```
//! use tapedb_codec::{Record, SchemaBuilder};
//! use tapedb_engine::{Database, StreamOptions};
//! use tapedb_replay::{Control, Player, Speed, StreamSink};
//! use tapedb_schema::Timestamp;
//!
//! #[derive(Record, Default)]
//! #[record(message)]
//! struct Tick {
//!     price: f64,
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! let db = Database::open(folder.path())?;
//! let schema = SchemaBuilder::new().with::<Tick>().finish();
//! let ticks = db.create_stream("ticks", schema.clone(), StreamOptions::default())?;
//! let mut loader = ticks.loader()?;
//! for millis in 0..20 {
//!     loader.append("AAPL", Timestamp(millis * 1_000_000), &Tick { price: 1.0 })?;
//! }
//! loader.close()?;
//!
//! let copy = db.create_stream("again", schema, StreamOptions::default())?;
//! let mut sink = StreamSink::new(&copy, std::slice::from_ref(&ticks))?;
//! let player = Player::new(db.cursor(["ticks"])?.open()?, "10x".parse()?, Control::default());
//! let report = player.run(&mut sink)?;
//! assert_eq!(report.messages, 20);
//! assert!(report.seconds >= 0.0019);
//! # Ok(())
//! # }
//! ```

mod clock;
mod control;
mod error;
mod hash;
mod player;
mod sink;
mod speed;
mod stream_sink;
mod topic_sink;
mod waiting;

pub use clock::{Clock, Due};
pub use control::{Command, Control};
pub use error::ReplayError;
pub use hash::ReplayHash;
pub use player::{Player, Report};
pub use sink::{Delivery, Sink};
pub use speed::{InvalidSpeed, Speed};
pub use stream_sink::StreamSink;
pub use topic_sink::TopicSink;
