//! Messages of streams as normalized JSON, in text frames.

use crate::book_change;
use crate::data_type::SnapshotType;
use crate::json;
use crate::plan::{Plan, Wanted};
use crate::request::Selection;
use crate::snapshots::Sample;
use crate::wire::Wire;
use std::collections::HashSet;
use tapedb_codec::Record;
use tapedb_engine::{Message, Stream};
use tapedb_market::{
    Aggressor, Applier, Entry, Gap, Liquidation, MarketByPrice, Order, OrderAction, Package, Side, Trade,
};
use tapedb_replay::{Delivery, ReplayError, Sink};
use tapedb_schema::{Ascii, Decimal64, Timestamp};
use tungstenite::protocol::frame::FrameHeader;
use tungstenite::protocol::frame::coding::{Data, OpCode};

/// Bytes of frames that are written together.
const WRITE_BYTES: usize = 64 << 10;
/// Conditions of trades from before a subscription.
const HISTORY: [&str; 2] = ["HISTORY", "snapshot"];

/// Writes what a client has asked for.
pub(crate) struct NormalizedSink<'a> {
    selections: &'a [Selection],
    /// Of each option, the exchange as JSON.
    exchanges: Vec<Vec<u8>>,
    sources: Vec<Source>,
    /// The source of the last message.
    last: usize,
    out: Frames<'a>,
    // Reused for each message.
    package: Package,
    order: Order,
    by_price: MarketByPrice,
    liquidation: Liquidation,
}

/// A stream.
struct Source {
    name: String,
    number: usize,
    types: Types,
    /// By the ids of symbols.
    plans: Vec<Option<Plan>>,
    books: Applier,
    channels: HashSet<String>,
}

#[derive(Clone, Copy)]
struct Types {
    package: Option<u16>,
    order: Option<u16>,
    by_price: Option<u16>,
    liquidation: Option<u16>,
    gap: Option<u16>,
}

/// Times of a message: the exchange's, and when it was received.
#[derive(Clone, Copy)]
struct Times {
    timestamp: Timestamp,
    local: Timestamp,
}

/// A trade or a liquidation as it is written.
struct Deal {
    id: Option<u64>,
    id_text: Option<String>,
    price: Option<Decimal64>,
    amount: Option<Decimal64>,
    side: &'static [u8],
}

impl<'a> NormalizedSink<'a> {
    pub(crate) fn new(
        streams: &[Stream],
        channels: Vec<HashSet<String>>,
        selections: &'a [Selection],
        wire: &'a Wire,
    ) -> Self {
        let source = |((number, stream), channels): ((usize, &Stream), HashSet<String>)| {
            let id = |name| stream.schema().record(name).map(|(id, _)| id);
            let types = Types {
                package: id(Package::NAME),
                order: id(Order::NAME),
                by_price: id(MarketByPrice::NAME),
                liquidation: id(Liquidation::NAME),
                gap: id(Gap::NAME),
            };
            let (name, books) = (stream.name().to_string(), Applier::default());
            Source { name, number, types, plans: Vec::new(), books, channels }
        };
        let exchange = |selection: &Selection| {
            let mut text = Vec::new();
            json::text(&selection.exchange, &mut text);
            text
        };
        Self {
            selections,
            exchanges: selections.iter().map(exchange).collect(),
            sources: streams.iter().enumerate().zip(channels).map(source).collect(),
            last: 0,
            out: Frames { wire, frames: Vec::new(), text: Vec::new(), sent: 0, bytes: 0 },
            package: Package::default(),
            order: Order::default(),
            by_price: MarketByPrice::default(),
            liquidation: Liquidation::default(),
        }
    }

    /// Messages that were written, and their bytes with the heads of frames.
    pub(crate) fn sent(&self) -> (u64, u64) {
        (self.out.sent, self.out.bytes)
    }

    fn take(&mut self, message: &Message<'_>) -> Result<(), ReplayError> {
        let stream = message.stream_name();
        if self.sources.get(self.last).is_none_or(|source| source.name != stream) {
            let found = self.sources.iter().position(|source| source.name == stream);
            self.last = found.ok_or_else(|| ReplayError::NoRoute { stream: stream.into() })?;
        }
        let source = &mut self.sources[self.last];
        let (id, types) = (Some(message.type_id()), source.types);
        if id == types.gap {
            return self.gap(message);
        }
        let symbol = message.symbol_id() as usize;
        source.prepare(symbol, message.symbol(), self.selections);
        if source.plans[symbol].as_ref().is_none_or(|plan| plan.wanted.is_empty()) {
            return Ok(());
        }
        if id == types.package {
            message.decode_into(&mut self.package)?;
            self.of_package(symbol, message.time())
        } else if id == types.order {
            message.decode_into(&mut self.order)?;
            self.of_order(symbol, message.time())
        } else if id == types.by_price {
            message.decode_into(&mut self.by_price)?;
            self.of_market_by_price(symbol, message.time())
        } else if id == types.liquidation {
            message.decode_into(&mut self.liquidation)?;
            self.of_liquidation(symbol, message.time())
        } else {
            Ok(())
        }
    }

    fn of_package(&mut self, symbol: usize, local: Timestamp) -> Result<(), ReplayError> {
        let Self { selections, exchanges, sources, last, out, package, .. } = self;
        let source = &mut sources[*last];
        let Some(plan) = &mut source.plans[symbol] else { return Ok(()) };
        let sent = package.source_time.or(package.match_time).unwrap_or(local);
        let matched = package.match_time.or(package.source_time).unwrap_or(local);
        let (at_sent, at_matched) = (Times { timestamp: sent, local }, Times { timestamp: matched, local });
        for wanted in &plan.wanted {
            let (selection, exchange) = (&selections[wanted.selection], &exchanges[wanted.selection]);
            if !selection.has_time(local) {
                continue;
            }
            if selection.has_trades {
                let trades = package.entries.iter().filter_map(trade);
                for trade in trades.filter(|trade| selection.has_exchange(trade.exchange)) {
                    let side = match trade.aggressor {
                        Some(Aggressor::Buy) => BUY,
                        Some(Aggressor::Sell) => SELL,
                        None => UNKNOWN,
                    };
                    let (price, amount) = (Some(trade.price), Some(trade.size));
                    let deal = Deal { id: trade.id, id_text: None, price, amount, side };
                    out.deal(b"trade", &plan.json, exchange, &deal, at_matched)?;
                }
            }
            if selection.has_book_changes {
                out.begin(b"book_change", &plan.json, exchange);
                if book_change::of_package(package, selection, &mut out.text) {
                    out.end(at_sent)?;
                }
            }
        }
        snapshots(selections, exchanges, plan, out, at_sent, &mut source.books, |books| {
            books.package(symbol as u32, local, package);
            books.symbol(symbol as u32)
        })
    }

    fn of_order(&mut self, symbol: usize, local: Timestamp) -> Result<(), ReplayError> {
        let Self { selections, exchanges, sources, last, out, order, .. } = self;
        let source = &mut sources[*last];
        let Some(plan) = &mut source.plans[symbol] else { return Ok(()) };
        let times = Times { timestamp: order.match_time.or(order.source_time).unwrap_or(local), local };
        let is_trade = matches!(order.action, OrderAction::Trade | OrderAction::Execute) && !order.snapshot;
        if is_trade && order.price.is_some() && order.size.is_some() {
            // In an execution the side is that of the resting order.
            let is_buy = order.side.map(|side| (side == Side::Bid) == (order.action == OrderAction::Trade));
            let deal = Deal {
                id: order.trade_id,
                id_text: None,
                price: order.price,
                amount: order.size,
                side: side_of(is_buy),
            };
            for wanted in &plan.wanted {
                let selection = &selections[wanted.selection];
                if selection.has_trades && selection.has_time(local) && selection.has_exchange(order.exchange)
                {
                    out.deal(b"trade", &plan.json, &exchanges[wanted.selection], &deal, times)?;
                }
            }
        }
        snapshots(selections, exchanges, plan, out, times, &mut source.books, |books| {
            books.order(symbol as u32, local, order);
            books.symbol(symbol as u32)
        })
    }

    fn of_market_by_price(&mut self, symbol: usize, local: Timestamp) -> Result<(), ReplayError> {
        let Self { selections, exchanges, sources, last, out, by_price, .. } = self;
        let source = &mut sources[*last];
        let Some(plan) = &mut source.plans[symbol] else { return Ok(()) };
        let times = Times { timestamp: by_price.match_time.or(by_price.source_time).unwrap_or(local), local };
        let is_trade = by_price.action == Some(OrderAction::Trade) && !by_price.snapshot;
        let deal = Deal {
            id: by_price.trade_id.filter(|_| by_price.trade_id_high.is_none_or(|high| high == 0)),
            id_text: by_price.trade_id_text.clone(),
            price: by_price.price,
            amount: by_price.size,
            side: side_of(by_price.side.map(|side| side == Side::Bid)),
        };
        for wanted in &plan.wanted {
            let (selection, exchange) = (&selections[wanted.selection], &exchanges[wanted.selection]);
            if !selection.has_time(local) {
                continue;
            }
            let is_whole = is_trade && deal.price.is_some() && deal.amount.is_some();
            if selection.has_trades && is_whole && selection.has_exchange(by_price.exchange) {
                out.deal(b"trade", &plan.json, exchange, &deal, times)?;
            }
            if selection.has_book_changes {
                out.begin(b"book_change", &plan.json, exchange);
                if book_change::of_market_by_price(by_price, selection, &mut out.text) {
                    out.end(times)?;
                }
            }
        }
        snapshots(selections, exchanges, plan, out, times, &mut source.books, |books| {
            books.market_by_price(symbol as u32, local, by_price);
            books.symbol(symbol as u32)
        })
    }

    fn of_liquidation(&mut self, symbol: usize, local: Timestamp) -> Result<(), ReplayError> {
        let Self { selections, exchanges, sources, last, out, liquidation, .. } = self;
        let Some(plan) = &sources[*last].plans[symbol] else { return Ok(()) };
        let times =
            Times { timestamp: liquidation.match_time.or(liquidation.source_time).unwrap_or(local), local };
        let deal = Deal {
            id: liquidation.id,
            id_text: liquidation.id_text.clone(),
            price: liquidation.price,
            amount: liquidation.size,
            side: side_of(liquidation.side.map(|side| side == Side::Bid)),
        };
        for wanted in &plan.wanted {
            let selection = &selections[wanted.selection];
            let is_it = selection.has_time(local) && selection.has_exchange(liquidation.exchange);
            if selection.has_liquidations && is_it {
                out.deal(b"liquidation", &plan.json, &exchanges[wanted.selection], &deal, times)?;
            }
        }
        Ok(())
    }

    /// Books are not known from here on; clients that asked for it are notified, each exchange once.
    fn gap(&mut self, message: &Message<'_>) -> Result<(), ReplayError> {
        let Self { selections, exchanges, sources, last, out, .. } = self;
        let source = &mut sources[*last];
        let (gap, symbol, local): (Gap, _, _) = (message.decode()?, message.symbol(), message.time());
        let is_of_all = source.channels.contains(symbol);
        let id = message.symbol_id() as usize;
        let plan = source.plans.get(id).and_then(Option::as_ref).filter(|plan| plan.symbol == symbol);
        let (is_new, has_books) = (plan.is_none(), plan.is_none_or(|plan| plan.has_snapshots));
        if has_books {
            source.books.gap(message.symbol_id(), local, &gap);
        }
        let is_hit = |plan: &&mut Plan| is_of_all || is_new || plan.symbol == symbol;
        for plan in source.plans.iter_mut().flatten().filter(is_hit) {
            plan.wanted.iter_mut().for_each(|wanted| wanted.samples.forget());
        }
        for (at, selection) in selections.iter().enumerate() {
            let is_named = gap.exchange.is_none() || selection.has_exchange(gap.exchange);
            let is_wanted = selection.has_disconnects && selection.has_time(local) && is_named;
            let is_known = is_of_all || selection.has_symbol(symbol);
            let is_again = exchanges[..at].contains(&exchanges[at]);
            if is_wanted && is_known && selection.is_of(source.number) && !is_again {
                out.text.clear();
                out.text.extend_from_slice(b"{\"type\":\"disconnect\",\"exchange\":");
                out.text.extend_from_slice(&exchanges[at]);
                out.text.extend_from_slice(b",\"localTimestamp\":");
                json::time(local, &mut out.text);
                out.text.push(b'}');
                out.frame()?;
            }
        }
        Ok(())
    }
}

impl Source {
    /// Finds out what a symbol is wanted for. After a rename another symbol may have its number.
    #[inline]
    fn prepare(&mut self, at: usize, symbol: &str, selections: &[Selection]) {
        if at >= self.plans.len() {
            self.plans.resize_with(at + 1, || None);
        }
        if self.plans[at].as_ref().is_none_or(|plan| plan.symbol != symbol) {
            self.plans[at] = Some(Plan::new(symbol, self.number, selections));
        }
    }
}

/// Writes the snapshots that are due before a message, applies it, and writes those that are due after it.
fn snapshots<'b>(
    selections: &[Selection],
    exchanges: &[Vec<u8>],
    plan: &mut Plan,
    out: &mut Frames<'_>,
    times: Times,
    books: &'b mut Applier,
    apply: impl FnOnce(&'b mut Applier) -> Option<&'b tapedb_market::SymbolBooks>,
) -> Result<(), ReplayError> {
    if !plan.has_snapshots {
        return Ok(());
    }
    let Plan { json: symbol, wanted, .. } = plan;
    for Wanted { selection: at, samples } in wanted.iter_mut() {
        let (selection, is_timely) = (&selections[*at], selections[*at].has_time(times.local));
        samples.due(selection, times.timestamp, |kind, sample| {
            if is_timely { out.snapshot(kind, sample, symbol, &exchanges[*at], times.local) } else { Ok(()) }
        })?;
    }
    let Some(books) = apply(books) else { return Ok(()) };
    for Wanted { selection: at, samples } in wanted.iter_mut() {
        let (selection, is_timely) = (&selections[*at], selections[*at].has_time(times.local));
        samples.update(selection, books, (times.local, times.timestamp), |kind, sample| {
            if is_timely { out.snapshot(kind, sample, symbol, &exchanges[*at], times.local) } else { Ok(()) }
        })?;
    }
    Ok(())
}

const BUY: &[u8] = b"\"buy\"";
const SELL: &[u8] = b"\"sell\"";
const UNKNOWN: &[u8] = b"\"unknown\"";

fn side_of(is_buy: Option<bool>) -> &'static [u8] {
    match is_buy {
        Some(true) => BUY,
        Some(false) => SELL,
        None => UNKNOWN,
    }
}

#[inline]
fn trade(entry: &Entry) -> Option<&Trade> {
    let Entry::Trade(trade) = entry else { return None };
    let is_old = |condition: &Ascii<8>| HISTORY.contains(&condition.as_str());
    (!trade.condition.as_ref().is_some_and(is_old)).then_some(trade)
}

impl Sink for NormalizedSink<'_> {
    fn deliver(&mut self, message: &Message<'_>) -> Result<Delivery, ReplayError> {
        self.take(message)?;
        Ok(Delivery::Taken)
    }

    fn send(&mut self) -> Result<(), ReplayError> {
        self.out.send()
    }
}

/// Text frames on their way to a client.
struct Frames<'a> {
    wire: &'a Wire,
    frames: Vec<u8>,
    /// The message that is being written.
    text: Vec<u8>,
    sent: u64,
    bytes: u64,
}

impl Frames<'_> {
    fn begin(&mut self, kind: &[u8], symbol: &[u8], exchange: &[u8]) {
        let text = &mut self.text;
        text.clear();
        for part in [b"{\"type\":\"", kind, b"\",\"symbol\":", symbol, b",\"exchange\":", exchange] {
            text.extend_from_slice(part);
        }
    }

    fn deal(
        &mut self,
        kind: &[u8],
        symbol: &[u8],
        exchange: &[u8],
        deal: &Deal,
        times: Times,
    ) -> Result<(), ReplayError> {
        self.begin(kind, symbol, exchange);
        let text = &mut self.text;
        match (deal.id, &deal.id_text) {
            (_, Some(id)) => {
                text.extend_from_slice(b",\"id\":");
                json::text(id, text);
            }
            (Some(id), None) => {
                text.extend_from_slice(b",\"id\":\"");
                json::integer(id, text);
                text.push(b'"');
            }
            (None, None) => {}
        }
        for (name, number) in [(&b",\"price\":"[..], deal.price), (b",\"amount\":", deal.amount)] {
            text.extend_from_slice(name);
            match number {
                Some(number) => json::number(number, text),
                None => text.extend_from_slice(b"null"),
            }
        }
        text.extend_from_slice(b",\"side\":");
        text.extend_from_slice(deal.side);
        self.end(times)
    }

    fn snapshot(
        &mut self,
        kind: &SnapshotType,
        sample: &Sample,
        symbol: &[u8],
        exchange: &[u8],
        local: Timestamp,
    ) -> Result<(), ReplayError> {
        self.begin(b"book_snapshot", symbol, exchange);
        sample.write(kind, &mut self.text);
        self.end(Times { timestamp: sample.timestamp(), local })
    }

    fn end(&mut self, times: Times) -> Result<(), ReplayError> {
        self.text.extend_from_slice(b",\"timestamp\":");
        json::time(times.timestamp, &mut self.text);
        self.text.extend_from_slice(b",\"localTimestamp\":");
        json::time(times.local, &mut self.text);
        self.text.push(b'}');
        self.frame()
    }

    /// Adds the message as a frame.
    fn frame(&mut self) -> Result<(), ReplayError> {
        let head = FrameHeader { opcode: OpCode::Data(Data::Text), ..FrameHeader::default() };
        let before = self.frames.len();
        head.format(self.text.len() as u64, &mut self.frames)
            .map_err(|error| ReplayError::Sink(error.into()))?;
        self.frames.extend_from_slice(&self.text);
        self.sent += 1;
        self.bytes += (self.frames.len() - before) as u64;
        if self.frames.len() >= WRITE_BYTES { self.send() } else { Ok(()) }
    }

    fn send(&mut self) -> Result<(), ReplayError> {
        if !self.frames.is_empty() {
            self.wire.write_all(&self.frames).map_err(|error| ReplayError::Sink(error.into()))?;
            self.frames.clear();
            // One large message does not keep its memory.
            self.frames.shrink_to(4 * WRITE_BYTES);
            self.text.shrink_to(4 * WRITE_BYTES);
        }
        Ok(())
    }
}
