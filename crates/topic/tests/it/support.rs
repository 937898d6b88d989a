//! Topics and records for tests.

use std::time::Duration;
use tapedb_codec::{Record, SchemaBuilder};
use tapedb_schema::{Schema, Timestamp};
use tapedb_topic::{Delivery, Folder, Publisher, Sent, Subscriber, Topic, TopicOptions};

#[derive(Record, Default, Debug, Clone, PartialEq)]
#[record(message)]
pub struct Tick {
    pub number: u64,
    pub publisher: u64,
    pub check: u64,
}

#[derive(Record, Default, Debug, Clone, PartialEq)]
#[record(message)]
pub struct Note {
    pub number: u64,
    pub text: String,
}

impl Tick {
    pub fn of(publisher: u64, number: u64) -> Self {
        Self { number, publisher, check: check(publisher, number) }
    }

    /// Whether it is one that `of` makes, and not a mixture of two.
    pub fn is_whole(&self) -> bool {
        self.check == check(self.publisher, self.number)
    }
}

fn check(publisher: u64, number: u64) -> u64 {
    (number ^ publisher << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// A text whose length and letters follow from a number.
pub fn text(number: u64, most: u64) -> String {
    let length = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    char::from(b'a' + (number % 26) as u8).to_string().repeat((length % most) as usize)
}

pub fn schema() -> Schema {
    SchemaBuilder::new().with::<Tick>().with::<Note>().finish()
}

pub fn options(delivery: Delivery) -> TopicOptions {
    TopicOptions { delivery, ring_bytes: 64 << 10, symbols_bytes: 4 << 10, stall: Duration::from_millis(100) }
}

pub struct Home {
    _directory: tempfile::TempDir,
    pub folder: Folder,
}

impl Home {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self { folder: Folder::at(directory.path()), _directory: directory }
    }

    pub fn topic(&self, delivery: Delivery) -> Topic {
        Topic::open_or_create(&self.folder, "t", &schema(), &options(delivery)).unwrap()
    }

    /// A reliable topic with the shortest stall time.
    pub fn topic_with_short_stall(&self) -> Topic {
        let options = TopicOptions { stall: Duration::from_millis(1), ..options(Delivery::Reliable) };
        Topic::open_or_create(&self.folder, "t", &schema(), &options).unwrap()
    }
}

pub fn send(publisher: &mut Publisher, number: u64) -> Sent {
    let of = publisher.slot() as u64;
    publisher.publish("A", Timestamp(number as i64), &Tick::of(of, number)).unwrap()
}

pub fn must_send(publisher: &mut Publisher, number: u64) -> u64 {
    match send(publisher, number) {
        Sent::Published { sequence } => sequence,
        Sent::BackPressured(slowest) => panic!("{slowest:?}"),
    }
}

/// The next tick.
pub fn tick(subscriber: &mut Subscriber) -> (u64, Tick) {
    let message = subscriber.next_within(Duration::from_secs(20)).unwrap().expect("a message");
    let tick: Tick = message.decode().unwrap();
    assert!(tick.is_whole(), "{tick:?}");
    (message.sequence(), tick)
}
