//! Bars of streams: of history, live, again, with late trades; of quotes.

use super::setup;
use std::time::Duration;
use tapedb_codec::SchemaBuilder;
use tapedb_engine::{Database, Stream, StreamOptions};
use tapedb_market::{
    BarRule, Entry, IntervalBar, Level1, MarketByPrice, Order, OrderAction, Package, Side, Trade,
};
use tapedb_market_streams::{BarInput, BarReader, BarWriter, Pass, SymbolBar};
use tapedb_schema::{Decimal64, Timestamp};

const RULE: BarRule = BarRule::Time(10);

struct Market {
    _directory: tempfile::TempDir,
    db: Database,
    stream: Stream,
}

fn number(text: &str) -> Decimal64 {
    text.parse().unwrap()
}

impl Market {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let db = Database::open(directory.path().join("db")).unwrap();
        let schema = SchemaBuilder::new().with::<Package>().with::<Order>().with::<MarketByPrice>().finish();
        let stream = db.create_stream("s", schema, StreamOptions::default()).unwrap();
        Self { _directory: directory, db, stream }
    }

    fn trade(&self, symbol: &str, time: i64, price: &str) {
        let trade = Trade { price: number(price), size: number("1"), ..Trade::default() };
        let package = Package { entries: vec![Entry::Trade(trade)], ..Package::default() };
        let mut loader = self.stream.loader().unwrap();
        loader.append(symbol, Timestamp(time), &package).unwrap();
        loader.flush().unwrap();
    }

    fn reader(&self, input: BarInput) -> BarReader {
        BarReader::open(&self.stream, self.stream.cursor().live(), RULE, input).unwrap()
    }

    fn writer(&self) -> BarWriter {
        BarWriter::open(&self.db, "s.bars").unwrap()
    }

    /// Writes the bars of all that is there, unfinished ones too; returns how many were written and replaced.
    fn write(&self) -> (u64, u64) {
        let (mut reader, mut writer) = (self.reader(BarInput::Trades), self.writer());
        let mut bars = Vec::new();
        pump(&mut reader, &mut writer);
        reader.finish(&mut bars);
        bars.into_iter().for_each(|bar| writer.take(bar).unwrap());
        writer.flush().unwrap();
        (writer.written(), writer.replaced())
    }

    /// Time, symbol, first, last price and trades of each bar of the stream.
    fn bars(&self) -> Vec<String> {
        let stream = self.db.stream("s.bars").unwrap();
        let (mut cursor, mut bars) = (stream.cursor().open().unwrap(), Vec::new());
        while let Some(message) = cursor.next().unwrap() {
            let bar: IntervalBar = message.decode().unwrap();
            let (open, close) = (bar.open.unwrap(), bar.close.unwrap());
            let (time, trades) = (message.time().nanos(), bar.trades.unwrap());
            bars.push(format!("{time} {} {open} {close} {trades}", message.symbol()));
        }
        bars.sort();
        bars
    }
}

fn pump(reader: &mut BarReader, writer: &mut BarWriter) {
    let mut bars = Vec::new();
    loop {
        let pass = reader.step(3, &mut bars).unwrap();
        bars.drain(..).for_each(|bar| writer.take(bar).unwrap());
        if pass == Pass::UpToDate {
            return;
        }
    }
}

#[test]
fn bars_are_written_once_and_those_that_changed_are_replaced() {
    let market = Market::new();
    for (symbol, time, price) in
        [("A", 11, "1"), ("B", 12, "7"), ("A", 15, "2"), ("A", 31, "3"), ("B", 32, "8")]
    {
        market.trade(symbol, time, price);
    }
    assert_eq!(market.write(), (4, 0));
    assert_eq!(market.bars(), ["20 A 1 2 2", "20 B 7 7 1", "40 A 3 3 1", "40 B 8 8 1"]);
    assert_eq!(market.write(), (0, 0), "they are there");
    // Late ones: into a bar, and into an interval that had none. The last bar goes on.
    for (symbol, time, price) in [("A", 16, "5"), ("B", 25, "6"), ("A", 33, "4")] {
        market.trade(symbol, time, price);
    }
    assert_eq!(market.write(), (5, 2));
    let expected = ["20 A 1 5 3", "20 B 7 7 1", "30 B 6 6 1", "40 A 3 4 2", "40 B 8 8 1"];
    assert_eq!(market.bars(), expected);
    // Trades that are gone take their bars with them.
    market.stream.delete(Timestamp(30).., None::<[&str; 0]>).unwrap();
    assert_eq!(market.write(), (0, 1));
    assert_eq!(market.bars(), expected[..3]);
}

#[test]
fn live_bars_end_with_later_messages_of_any_symbol_and_late_trades_correct_them() {
    let market = Market::new();
    market.trade("A", 11, "1");
    let (mut reader, mut writer) = (market.reader(BarInput::Trades), market.writer());
    pump(&mut reader, &mut writer);
    writer.flush().unwrap();
    assert!(market.bars().is_empty());
    market.trade("B", 20, "9");
    reader.wait(Duration::from_secs(5)).unwrap();
    pump(&mut reader, &mut writer);
    writer.flush().unwrap();
    assert_eq!(market.bars(), ["20 A 1 1 1"]);
    for (time, price) in [(12, "5"), (13, "6"), (5, "4")] {
        market.trade("A", time, price);
    }
    reader.wait(Duration::from_secs(5)).unwrap();
    pump(&mut reader, &mut writer);
    writer.flush().unwrap();
    assert_eq!(market.bars(), ["10 A 4 4 1", "20 A 1 6 3"]);
    assert_eq!((writer.replaced(), reader.counts().trades), (1, 5));
    // The same as that of history.
    drop((reader, writer));
    assert_eq!(market.write(), (1, 0));
    assert_eq!(market.bars(), ["10 A 4 4 1", "20 A 1 6 3", "30 B 9 9 1"]);
}

#[test]
fn trades_are_those_of_packages_orders_and_changes_at_a_price() {
    let market = Market::new();
    market.trade("A", 11, "1");
    let mut loader = market.stream.loader().unwrap();
    let (price, size) = (Some(number("2")), Some(number("1")));
    let order = Order { price, size, ..Order::default() };
    for (time, action, price) in [
        (12, OrderAction::Trade, price),
        (13, OrderAction::Execute, price),
        (14, OrderAction::Execute, None),
        (15, OrderAction::Fill, price),
        (15, OrderAction::Add, price),
    ] {
        loader.append("A", Timestamp(time), &Order { action, price, ..order.clone() }).unwrap();
    }
    // Of ITCH: an execution that is not printable, and a cross without anything.
    let hidden = Order { action: OrderAction::Execute, flags: Some(u32::from(b'N')), ..order.clone() };
    let none = Some(number("0"));
    let cross = Order { action: OrderAction::Trade, price: none, size: none, ..order.clone() };
    for order in [hidden, cross] {
        loader.append("A", Timestamp(15), &order).unwrap();
    }
    let change = MarketByPrice { action: Some(OrderAction::Trade), price, size, ..MarketByPrice::default() };
    loader.append("A", Timestamp(16), &change).unwrap();
    loader.append("A", Timestamp(17), &MarketByPrice { snapshot: true, ..change.clone() }).unwrap();
    let old = ["HISTORY", "LAST"].map(|condition| {
        let condition = condition.parse().ok();
        Entry::Trade(Trade { condition, price: number("3"), ..Trade::default() })
    });
    let package = Package { entries: old.into(), ..Package::default() };
    loader.append("A", Timestamp(18), &package).unwrap();
    loader.close().unwrap();
    assert_eq!(market.write(), (1, 0));
    assert_eq!(market.bars(), ["20 A 1 2 4"]);
    let mut reader = market.reader(BarInput::Trades);
    while reader.step(10, &mut Vec::new()).unwrap() == Pass::More {}
    assert_eq!((reader.counts().unpriced, reader.counts().messages), (1, 11));
}

#[test]
fn bars_of_quotes_are_of_the_middle_and_have_no_volume() {
    let market = Market::new();
    let mut loader = market.stream.loader().unwrap();
    for (time, side, price) in
        [(11, Side::Bid, "10.5"), (12, Side::Ask, "10.6"), (13, Side::Ask, "10.6"), (14, Side::Bid, "10.55")]
    {
        let quote = Level1 { side, price: Some(number(price)), size: Some(number("1")), ..Level1::default() };
        let package = Package { entries: vec![Entry::Level1(quote)], ..Package::default() };
        loader.append("A", Timestamp(time), &package).unwrap();
    }
    loader.close().unwrap();
    let mut reader = market.reader(BarInput::Quotes);
    let mut bars: Vec<SymbolBar> = Vec::new();
    while reader.step(10, &mut bars).unwrap() == Pass::More {}
    reader.finish(&mut bars);
    let bar = &bars[0].built.bar;
    let is = |price: Option<Decimal64>, text: &str| price.unwrap().numeric_eq(&number(text));
    assert!(is(bar.open, "10.55") && is(bar.close, "10.575"), "{bar:?}");
    assert_eq!((bars.len(), bar.trades, bar.volume, bar.turnover), (1, Some(2), None, None));
}

/// The numbers of all bars together are those of the stream.
#[test]
fn bars_of_a_feed_have_all_its_trades() {
    let setup = setup();
    let mut expected = 0;
    let is_trade = |entry: &&Entry| matches!(entry, Entry::Trade(_));
    for (.., package) in &setup.messages {
        expected += package.entries.iter().filter(is_trade).count() as u64;
    }
    for rule in [BarRule::Time(1_000_000), BarRule::Ticks(7), BarRule::Volume(number("100"))] {
        let mut reader =
            BarReader::open(&setup.stream, setup.stream.cursor(), rule, BarInput::Trades).unwrap();
        let mut bars = Vec::new();
        while reader.step(1_000, &mut bars).unwrap() == Pass::More {}
        let ended = bars.len();
        reader.finish(&mut bars);
        let found: u64 = bars.iter().filter_map(|bar| bar.built.bar.trades).sum();
        // Bars that are not by time are complete, so the last trades of each symbol are in none.
        let left = if rule == BarRule::Time(1_000_000) { 0..1 } else { 1..expected / 2 };
        assert!(left.contains(&(expected - found)) && ended > 50, "{rule:?} {found} {expected} {ended}");
        assert!(bars[..ended].windows(2).all(|pair| pair[0].built.time <= pair[1].built.time), "{rule:?}");
    }
}
