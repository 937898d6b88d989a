//! Records trades in the stream `trades`: `record my.tapedb [COUNT]`. The stream is made on the first run.

use std::env::args;
use std::time::SystemTime;
use tapedb_codec::{Record, SchemaBuilder};
use tapedb_engine::{Database, Durability, StreamOptions};
use tapedb_schema::{Decimal64, Timestamp};

/// One trade. Prices are exact decimals, at any scale.
#[derive(Record, Debug, Default)]
#[record(message)]
struct Trade {
    price: Decimal64,
    size: u32,
    /// Not every venue sends it.
    trade_id: Option<u64>,
}

fn now() -> Result<Timestamp, Box<dyn std::error::Error>> {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    Ok(Timestamp::from_nanos(i64::try_from(since_epoch.as_nanos())?))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = args().nth(1).ok_or("usage: record DATABASE [COUNT]")?;
    let count: u64 = args().nth(2).as_deref().unwrap_or("1000").parse()?;

    let db = Database::open(path)?;
    let schema = SchemaBuilder::new().with::<Trade>().finish();
    // `Sync`: what `flush` has acknowledged survives a power cut.
    let options = StreamOptions { durability: Durability::Sync, ..StreamOptions::default() };
    let trades = db.open_or_create_stream("trades", schema, options)?;

    let mut loader = trades.loader()?;
    for i in 0..count {
        let symbol = if i % 2 == 0 { "AAPL" } else { "MSFT" };
        let price = Decimal64::from_scaled(18_700 + (i % 50) as i64, 2)?; // 187.00 and up
        loader.append(symbol, now()?, &Trade { price, size: 100, trade_id: Some(i) })?;
    }
    loader.close()?; // sends the rest, and returns when it is acknowledged
    println!("recorded {count} trades; the stream has {}", trades.stats()?.messages);
    Ok(())
}
