//! A database to replay, and sinks that a test looks into.

use std::sync::mpsc::{Receiver, Sender, channel};
use tapedb_codec::{Record, SchemaBuilder};
use tapedb_engine::{Cursor, Database, Message, Stream, StreamOptions};
use tapedb_replay::{Control, Delivery, Player, ReplayError, Report, Sink, Speed};
use tapedb_schema::Timestamp;
use tempfile::TempDir;

#[derive(Record, Default, Debug, Clone, PartialEq)]
#[record(message)]
pub struct Tick {
    pub number: i64,
    pub note: String,
}

#[derive(Record, Default)]
#[record(message)]
pub struct Other {
    pub number: i64,
}

#[derive(Record, Default)]
#[record(message)]
pub struct Ping {}

/// Takes everything.
pub struct Nowhere;

impl Sink for Nowhere {
    fn deliver(&mut self, message: &Message<'_>) -> Result<Delivery, ReplayError> {
        message.record()?;
        Ok(Delivery::Taken)
    }
}

/// A database with streams `a` and `b`: their messages, a millisecond apart, alternate.
pub struct Place {
    pub folder: TempDir,
    pub db: Database,
    pub streams: Vec<Stream>,
}

pub const MESSAGES: i64 = 600;
pub const MILLI: i64 = 1_000_000;

pub fn schema() -> tapedb_schema::Schema {
    SchemaBuilder::new().with::<Tick>().finish()
}

impl Place {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let db = Database::open(folder.path().join("db")).unwrap();
        let streams: Vec<Stream> =
            ["a", "b"].map(|name| db.create_stream(name, schema(), StreamOptions::default()).unwrap()).into();
        let mut loaders: Vec<_> = streams.iter().map(|stream| stream.loader().unwrap()).collect();
        for number in 0..MESSAGES {
            let tick = Tick { number, note: "x".repeat(number as usize % 7) };
            let loader = &mut loaders[number as usize % 2];
            loader
                .append(["S", "LONGER"][number as usize % 3 % 2], Timestamp(number * MILLI), &tick)
                .unwrap();
        }
        for loader in loaders {
            loader.close().unwrap();
        }
        Self { folder, db, streams }
    }

    pub fn cursor(&self) -> Cursor {
        self.db.cursor(["a", "b"]).unwrap().open().unwrap()
    }

    pub fn play(&self, speed: Speed, sink: &mut dyn Sink) -> Report {
        Player::new(self.cursor(), speed, Control::default()).run(sink).unwrap()
    }
}

/// Sends the number of each message; with `leave`, it takes a message only after it received one from there.
pub struct Numbers {
    pub sent: Sender<i64>,
    pub leave: Option<Receiver<()>>,
    /// Every n-th message is taken only when it is offered again.
    pub busy: Option<u64>,
    pub offers: u64,
}

impl Numbers {
    pub fn new(leave: Option<Receiver<()>>) -> (Self, Receiver<i64>) {
        let (sent, numbers) = channel();
        (Self { sent, leave, busy: None, offers: 0 }, numbers)
    }
}

impl Sink for Numbers {
    fn deliver(&mut self, message: &Message<'_>) -> Result<Delivery, ReplayError> {
        self.offers += 1;
        if self.busy.is_some_and(|every| self.offers.is_multiple_of(every)) {
            return Ok(Delivery::Busy);
        }
        if let Some(leave) = &self.leave {
            let _ = leave.recv();
        }
        self.sent.send(message.decode::<Tick>()?.number).unwrap();
        Ok(Delivery::Taken)
    }
}
