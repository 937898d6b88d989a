//! Bybit, version 5: `orderbook.N`, also as files `<date>_<symbol>_ob<N>.data` of its archive; `publicTrade`.
//!
//! `ts` is `source_time` and `cts` `match_time`; `u`, which is one more each time, is `sequence`. A `delta` whose number does not follow is a `Gap`;
//! a `u` of 1 begins again, as after a restart of the venue. Spot is `BYBITSPT`, options are `BYBITOPT`, all else is `BYBIT`: spot and perpetuals have the same symbols, so that
//! their books would be one.

#[cfg(test)]
mod tests;

use crate::fields::BadLine;
use crate::frames::Frames;
use crate::frames::by_symbol::BySymbol;
use crate::frames::chain::Chain;
use crate::frames::ids;
use crate::frames::messages::Messages;
use crate::frames::scalar::Scalar;
use crate::record::AnyRecord;
use crate::source::{Counters, LineParser, Parsed};
use crate::venues::Venue;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::path::Path;
use tapedb_market::{MarketByPrice, OrderAction, Side};
use tapedb_schema::Timestamp;

pub(super) const LOOKED_FOR: &str =
    "files `YYYY-MM-DD_<symbol>_ob<levels>.data`, plain, gzipped or in a zip file";

#[derive(Default)]
pub(super) struct Parser {
    /// By topic.
    chains: BySymbol<Chain>,
}

#[derive(Deserialize)]
struct Frame<'a> {
    #[serde(borrow)]
    topic: Option<Cow<'a, str>>,
    #[serde(borrow, default, rename = "type")]
    kind: Scalar<'a>,
    #[serde(borrow, default)]
    ts: Scalar<'a>,
    #[serde(borrow, default)]
    cts: Scalar<'a>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    #[serde(borrow, default)]
    op: Scalar<'a>,
}

#[derive(Deserialize)]
struct BookData<'a> {
    #[serde(borrow)]
    s: Scalar<'a>,
    b: Vec<(Scalar<'a>, Scalar<'a>)>,
    a: Vec<(Scalar<'a>, Scalar<'a>)>,
    u: Scalar<'a>,
}

#[derive(Deserialize)]
struct TradeData<'a> {
    #[serde(borrow, rename = "T")]
    time: Scalar<'a>,
    s: Scalar<'a>,
    #[serde(rename = "S")]
    side: Scalar<'a>,
    v: Scalar<'a>,
    p: Scalar<'a>,
    i: Scalar<'a>,
}

impl Frames for Parser {
    fn opened(&mut self, _again: bool, _out: &mut Messages) -> Result<(), BadLine> {
        self.chains.clear();
        Ok(())
    }

    fn frame(&mut self, text: &str, out: &mut Messages) -> Result<(), BadLine> {
        let frame: Frame<'_> = out.json(text)?;
        let (Some(topic), Some(data)) = (frame.topic.as_deref(), frame.data) else {
            match frame.op.some() {
                Some(op) => out.control(op),
                None => out.unknown("without topic"),
            }
            return Ok(());
        };
        match topic.split('.').next().unwrap_or_default() {
            "orderbook" => self.book(topic, &frame, &out.json(data.get())?, out),
            "publicTrade" => {
                let rows: Vec<TradeData<'_>> = out.json(data.get())?;
                rows.iter().try_for_each(|row| trade(row, frame.ts, out))
            }
            kind => {
                out.unknown(kind);
                Ok(())
            }
        }
    }
}

impl Parser {
    fn book(
        &mut self,
        topic: &str,
        frame: &Frame<'_>,
        data: &BookData<'_>,
        out: &mut Messages,
    ) -> Result<(), BadLine> {
        let number = out.whole(data.u, "u")?;
        let snapshot = match frame.kind.0 {
            "snapshot" => true,
            "delta" => false,
            other => return Err(out.bad(other, "type as snapshot or delta")),
        };
        let mut package = out.levels(snapshot, [(Side::Bid, &data.b), (Side::Ask, &data.a)])?;
        package.source_time = Some(out.time(frame.ts)?);
        package.match_time = frame.cts.some().map(|time| out.time(Scalar(time))).transpose()?;
        package.sequence = Some(number);
        let chain = self.chains.of(topic, out)?;
        match snapshot || number == 1 {
            true => chain.begin(number, out),
            false => chain.follow(data.s.0, (number, number), None, out)?,
        }
        out.push(data.s.0, package)
    }
}

fn trade(row: &TradeData<'_>, sent: Scalar<'_>, out: &mut Messages) -> Result<(), BadLine> {
    let id = ids::uuid(row.i.0).or_else(|| ids::decimal(row.i.0));
    let trade = MarketByPrice {
        action: Some(OrderAction::Trade),
        side: Some(out.side(row.side, ["Buy", "Sell"])?),
        price: Some(out.decimal(row.p)?),
        size: Some(out.decimal(row.v)?),
        trade_id: id.map(|(_, low)| low),
        trade_id_high: id.map(|(high, _)| high).filter(|high| *high != 0),
        trade_id_text: id.is_none().then(|| row.i.0.to_string()),
        match_time: Some(out.time(row.time)?),
        source_time: Some(out.time(sent)?),
        exchange: out.exchange(),
        ..MarketByPrice::default()
    };
    out.push(row.s.0, trade)
}

/// Lines of an archive's file: frames without a time of receipt, so `ts` is the message's time.
pub(super) struct Archive {
    parser: Parser,
    out: Messages,
    symbol: String,
}

impl Archive {
    /// The market is the name of a folder that the file is in, as in the archive.
    pub(super) fn new(path: &Path, round: bool) -> Self {
        let mut folders = path.parent().into_iter().flat_map(Path::components);
        let venue = folders.find_map(|folder| match folder.as_os_str().to_str()? {
            "spot" => Some(Venue::BybitSpot),
            "option" => Some(Venue::BybitOption),
            _ => None,
        });
        let exchange = venue.unwrap_or(Venue::Bybit).exchange();
        Self { parser: Parser::default(), out: Messages::new(exchange, round), symbol: String::new() }
    }

    /// Whether a file, or a member of a zip file, is one of an archive.
    pub(super) fn is_named_so(name: &str) -> bool {
        let name = name.strip_suffix(".gz").unwrap_or(name);
        let stem = name.strip_suffix(".data").and_then(|stem| stem.rsplit_once("_ob"));
        stem.is_some_and(|(_, levels)| !levels.is_empty() && levels.bytes().all(|byte| byte.is_ascii_digit()))
    }
}

#[derive(Deserialize)]
struct Sent<'a> {
    #[serde(borrow)]
    ts: Scalar<'a>,
}

impl LineParser for Archive {
    fn symbol(&self) -> &str {
        &self.symbol
    }

    fn parse(&mut self, line: &[u8], _: &mut AnyRecord) -> Result<Parsed, BadLine> {
        let text = std::str::from_utf8(line);
        let text = text.map_err(|error| BadLine::new(error.valid_up_to(), "a JSON frame in UTF-8"))?;
        self.out.begin(Timestamp(0), text);
        let sent: Sent<'_> = self.out.json(text)?;
        let time = self.out.time(sent.ts)?;
        self.out.begin(time, text);
        let parsed = self.parser.frame(text, &mut self.out);
        parsed.inspect_err(|_| self.out.clear()).map(|()| Parsed::Queued)
    }

    fn queued(&mut self, out: &mut AnyRecord) -> Option<Timestamp> {
        let message = self.out.take()?;
        self.symbol = message.symbol;
        *out = message.record;
        Some(message.time)
    }

    fn count(&mut self, counters: &mut Counters) {
        counters.add(&std::mem::take(self.out.counters()));
    }
}
