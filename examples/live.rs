//! Reads what was recorded, then what arrives, without a gap: `live DATABASE COUNT`. It ends after so many
//! messages. Run `record` beside it through a server, or in another process on the same directory.

use std::env::args;
use std::time::Duration;
use tapedb_client::Client;
use tapedb_codec::Record;
use tapedb_engine::Database;
use tapedb_schema::Decimal64;

/// The fields that this program wants.
#[derive(Record, Debug, Default)]
#[record(message)]
struct Trade {
    price: Decimal64,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = args().nth(1).ok_or("usage: live DATABASE COUNT")?;
    let count: u64 = args().nth(2).ok_or("usage: live DATABASE COUNT")?.parse()?;

    // A directory has one writer; readers open it read-only and follow its files.
    let db = if url.contains("://") { Client::at(url).connect()? } else { Database::open_read_only(url)? };
    let mut cursor = db.stream("trades")?.cursor().live().open()?;

    let (mut history, mut live, mut last) = (0_u64, 0_u64, None);
    while history + live < count {
        let Some(message) = cursor.next_within(Duration::from_secs(1))? else { continue };
        last = Some((message.time(), message.symbol().to_owned(), message.decode::<Trade>()?.price));
        if cursor.is_live() { live += 1 } else { history += 1 }
    }
    if let Some((time, symbol, price)) = last {
        println!("last: {time} {symbol} {price}");
    }
    println!("{history} from history, {live} live");
    Ok(())
}
