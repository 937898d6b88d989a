//! Tickers of OKX and Bitget: the fields that a [`Ticker`] has, and all others as attributes.

use crate::fields::BadLine;
use crate::frames::messages::Messages;
use crate::frames::scalar::{Scalar, of_raw};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use tapedb_market::{Attribute, Ticker};

pub(super) fn push(data: &RawValue, symbol: Scalar<'_>, out: &mut Messages) -> Result<(), BadLine> {
    let fields: BTreeMap<String, &RawValue> = out.json(data.get())?;
    let mut ticker = Ticker { exchange: out.exchange(), ..Ticker::default() };
    for (name, raw) in fields {
        let Some(value) = of_raw(raw) else { return Err(out.bad(raw.get(), format!("{name} as a scalar"))) };
        set(&mut ticker, name, value, out)?;
    }
    out.push(symbol.0, ticker)
}

fn set(ticker: &mut Ticker, name: String, value: Scalar<'_>, out: &mut Messages) -> Result<(), BadLine> {
    let place = match name.as_str() {
        "instId" => return Ok(()),
        "ts" | "systemTime" => {
            ticker.source_time = Some(out.time(value)?);
            return Ok(());
        }
        "nextSettleTime" | "nextFundingTime" => {
            ticker.next_funding = value.some().map(|time| out.time(Scalar(time))).transpose()?;
            return Ok(());
        }
        "last" | "lastPr" => &mut ticker.last_price,
        "lastSz" => &mut ticker.last_size,
        "askPx" | "askPr" | "bestAsk" => &mut ticker.ask_price,
        "askSz" | "askSize" => &mut ticker.ask_size,
        "bidPx" | "bidPr" | "bestBid" => &mut ticker.bid_price,
        "bidSz" | "bidSize" => &mut ticker.bid_size,
        "open24h" => &mut ticker.open,
        "high24h" => &mut ticker.high,
        "low24h" => &mut ticker.low,
        "vol24h" | "baseVolume" => &mut ticker.volume,
        "volCcy24h" | "quoteVolume" => &mut ticker.turnover,
        "markPrice" => &mut ticker.mark,
        "indexPrice" => &mut ticker.index,
        "capitalRate" | "fundingRate" => &mut ticker.funding_rate,
        "holding" | "holdingAmount" => &mut ticker.open_interest,
        _ => {
            ticker.attributes.push(Attribute { name, value: value.0.into() });
            return Ok(());
        }
    };
    *place = out.figure(&name, value, &mut ticker.attributes)?;
    Ok(())
}
