//! Replays the trades of `record`, first as messages, then as columns: `replay DATABASE [SYMBOL]`.
//! DATABASE is a directory or the URL of a server (`tape://localhost:7847`).

use std::env::args;
use tapedb_codec::Record;
use tapedb_engine::Values;
use tapedb_schema::Decimal64;

/// The fields that this program wants: others of the stream's record are left out, in any order.
#[derive(Record, Debug, Default)]
#[record(message)]
struct Trade {
    price: Decimal64,
    size: u32,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = args().nth(1).ok_or("usage: replay DATABASE [SYMBOL]")?;
    let db = tapedb_client::open(&url)?;

    // All symbols unless one is given; `.from(time)` and `.to(time)` choose a range.
    let mut wanted = db.stream("trades")?.cursor();
    if let Some(symbol) = args().nth(2) {
        wanted = wanted.symbols([symbol]);
    }

    // As messages, in time order.
    let mut cursor = wanted.clone().open()?;
    let (mut count, mut turnover) = (0_u64, 0.0);
    while let Some(message) = cursor.next()? {
        let trade: Trade = message.decode()?;
        count += 1;
        turnover += trade.price.to_f64() * f64::from(trade.size);
    }
    println!("{count} trades, turnover {turnover:.2}");

    // As columns: only the field asked for is read.
    let mut columns = wanted.columns("Trade", ["size"]).open()?;
    let mut volume = 0;
    while let Some(chunk) = columns.next()? {
        if let Values::Ints(sizes) = chunk.column(0).values() {
            volume += sizes.iter().sum::<i64>();
        }
    }
    println!("volume {volume}");
    Ok(())
}
