//! Publishes quotes to a topic in shared memory and reads them in another thread: `topic FOLDER [COUNT]`. Two processes do it the
//! same way; there is no server in between. FOLDER holds the topic's file; `/dev/shm/NAME` keeps it in memory.

use std::env::args;
use std::thread;
use std::time::Duration;
use tapedb_codec::{Record, SchemaBuilder};
use tapedb_schema::{Decimal64, Timestamp};
use tapedb_topic::{Folder, Sent, Topic, TopicOptions, Waiting};

/// A quote.
#[derive(Record, Debug, Default)]
#[record(message)]
struct Quote {
    bid: Decimal64,
    ask: Decimal64,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = Folder::at(args().nth(1).ok_or("usage: topic FOLDER [COUNT]")?);
    let count: i64 = args().nth(2).as_deref().unwrap_or("100000").parse()?;

    let schema = SchemaBuilder::new().with::<Quote>().finish();
    let topic = Topic::open_or_create(&folder, "quotes", &schema, &TopicOptions::default())?;

    // A subscriber gets every message from here on; a reliable topic's publisher waits for it.
    let mut subscriber = topic.subscriber().waiting(Waiting::Park).open()?;
    let reader = thread::spawn(move || -> Result<(i64, Decimal64), String> {
        let (mut received, mut bid) = (0, Decimal64::default());
        while received < count {
            let message =
                subscriber.next_within(Duration::from_secs(10)).map_err(|error| error.to_string())?;
            let quote: Quote =
                message.ok_or("no message for 10 s")?.decode().map_err(|error| error.to_string())?;
            (received, bid) = (received + 1, quote.bid);
        }
        Ok((received, bid))
    });

    let mut publisher = topic.exclusive_publisher()?; // `publisher()` where there are several
    let aapl = publisher.symbol("AAPL")?; // looked up once
    for i in 0..count {
        let bid = Decimal64::from_scaled(18_700 + i % 50, 2)?;
        let ask = Decimal64::from_scaled(18_701 + i % 50, 2)?;
        match publisher.publish_by_id(aapl, Timestamp::from_nanos(i), &Quote { bid, ask })? {
            Sent::Published { .. } => {}
            Sent::BackPressured(slowest) => {
                return Err(format!("process {} is too slow", slowest.process).into());
            }
        }
    }
    let (received, bid) = reader.join().map_err(|_| "the reader panicked")??;
    println!("received {received} quotes, the last with bid {bid}");
    Ok(())
}
