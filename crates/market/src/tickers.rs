//! What venues publish about an instrument at once: best prices, last trade, figures of a day.

use crate::instruments::Attribute;
use crate::records::{Aggressor, lies};
use tapedb_codec::Record;
use tapedb_schema::{Ascii, Decimal64, Timestamp};

/// Best prices, last trade and figures of a session or of 24 hours, as a venue publishes them in one message. What is null was not
/// reported. The message's time is when it was received.
#[derive(Record, Debug, Clone, PartialEq, Default)]
#[record(message)]
pub struct Ticker {
    /// Best bid.
    pub bid_price: Option<Decimal64>,
    /// Size at the best bid.
    pub bid_size: Option<Decimal64>,
    /// Best ask.
    pub ask_price: Option<Decimal64>,
    /// Size at the best ask.
    pub ask_size: Option<Decimal64>,
    /// Price of the last trade.
    pub last_price: Option<Decimal64>,
    /// Size of the last trade.
    pub last_size: Option<Decimal64>,
    /// Who crossed the spread in the last trade.
    pub last_aggressor: Option<Aggressor>,
    /// The venue's number of the last trade.
    pub last_id: Option<u64>,
    /// First price.
    pub open: Option<Decimal64>,
    /// Highest price.
    pub high: Option<Decimal64>,
    /// Lowest price.
    pub low: Option<Decimal64>,
    /// Sum of sizes.
    pub volume: Option<Decimal64>,
    /// Sum of price times size.
    pub turnover: Option<Decimal64>,
    /// Contracts that are open.
    pub open_interest: Option<Decimal64>,
    /// Mark price.
    pub mark: Option<Decimal64>,
    /// Price of the index.
    pub index: Option<Decimal64>,
    /// Funding rate.
    pub funding_rate: Option<Decimal64>,
    /// When funding is next.
    pub next_funding: Option<Timestamp>,
    /// The venue's sequence number.
    pub sequence: Option<u64>,
    /// When the matching engine did what it reports.
    pub match_time: Option<Timestamp>,
    /// When the venue sent it.
    pub source_time: Option<Timestamp>,
    /// Venue, where it differs from message to message.
    pub exchange: Option<Ascii<8>>,
    /// Everything else that is reported, and numbers of more than 16 digits, under the names that the venue gives.
    pub attributes: Vec<Attribute>,
}

const _: () = assert!(lies::<Ticker>(
    176,
    &[3, 11, 19, 27, 35, 43, 51, 52, 60, 68, 76, 84, 92, 100, 108, 116, 124, 132, 140, 148, 156, 164, 172]
));

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;
    use tapedb_codec::{SchemaBuilder, decode, encode};

    /// The documentation is part of the schema that streams store.
    #[test]
    fn the_schema_on_the_disk_does_not_change() {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testing/vectors/market_schema_ticker.txt");
        let text = SchemaBuilder::new().with::<Ticker>().finish().to_string();
        assert_eq!(text, fs::read_to_string(path).expect("testing/vectors/market_schema_ticker.txt"));
    }

    #[test]
    fn a_ticker_survives_its_bytes() {
        let attribute = Attribute { name: "volume_30d".into(), value: "1.7023900800000002".into() };
        let ticker = Ticker {
            bid_price: "4810.25".parse().ok(),
            last_aggressor: Some(Aggressor::Sell),
            source_time: Some(Timestamp(7)),
            attributes: vec![attribute],
            ..Ticker::default()
        };
        let mut bytes = Vec::new();
        encode(&ticker, &mut bytes);
        assert_eq!(decode::<Ticker>(&bytes), Ok(ticker));
    }
}
