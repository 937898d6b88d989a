//! Trades and quotes, generated or recorded: kept in memory, since what queries must find is computed from them.

use std::collections::HashMap;
use std::path::Path;
use tapedb_codec::{Record, SchemaBuilder};
use tapedb_engine::{Database, Stream, StreamOptions};
use tapedb_market::{Entry, Package, Side};
use tapedb_schema::{Decimal64, Timestamp};
use tapedb_terminal::{Failure, Ui};
use tapedb_venue::{AnyRecord, Format, ImportError, ImportOptions, Merge, discover};

/// Time of the first generated message: 2024-01-02 14:30 UTC.
const START: i64 = 1_704_205_800_000_000_000;

/// Time from the first generated message to the last: a trading day.
const DAY_NS: i64 = 23_400_000_000_000;

/// Messages between two looks for Ctrl-C.
const CHECK: usize = 1 << 16;

/// A trade.
#[derive(Record, Debug, Clone, Copy, PartialEq, Default)]
#[record(message)]
pub struct Trade {
    pub price: Decimal64,
    pub size: u32,
}

/// A quote; 0: it has no such side.
#[derive(Record, Debug, Clone, Copy, PartialEq, Default)]
#[record(message)]
pub struct Quote {
    pub bid: Decimal64,
    pub ask: Decimal64,
    pub bid_size: u32,
    pub ask_size: u32,
}

/// A message: its time, the place of its symbol in [`Market::symbols`], and its record.
pub type Row<T> = (i64, u32, T);

/// Trades and quotes by time.
pub struct Market {
    pub symbols: Vec<String>,
    pub trades: Vec<Row<Trade>>,
    pub quotes: Vec<Row<Quote>>,
}

impl Market {
    /// A day of so many trades and quotes. Prices walk by cents; some symbols have more messages than others.
    pub fn generated(symbols: u32, trades: u64, quotes: u64) -> Self {
        let names = (0..symbols).map(|symbol| format!("S{symbol:06}")).collect();
        let mut random = Random(1);
        let mut prices: Vec<i64> = (0..symbols).map(|_| 1_000 + random.below(50_000) as i64).collect();
        let mut market = Self { symbols: names, trades: Vec::new(), quotes: Vec::new() };
        let messages = trades + quotes;
        for nth in 0..messages {
            let step = DAY_NS / messages as i64;
            let time = START + nth as i64 * step + random.below(step.max(1) as u64) as i64;
            let symbol = random.below(symbols.into()).min(random.below(symbols.into())) as u32;
            let price = &mut prices[symbol as usize];
            *price = (*price + random.below(3) as i64 - 1).max(100);
            let (price, spread) = (*price, 1 + random.below(3) as i64);
            let size = |random: &mut Random| 100 * (1 + random.below(20) as u32);
            // Trades are evenly among quotes.
            if (nth + 1) * trades / messages > nth * trades / messages {
                let price = cents(price + if random.below(2) == 0 { 0 } else { spread });
                market.trades.push((time, symbol, Trade { price, size: size(&mut random) }));
            } else {
                let (bid, ask) = (cents(price), cents(price + spread));
                let (bid_size, ask_size) = (size(&mut random), size(&mut random));
                market.quotes.push((time, symbol, Quote { bid, ask, bid_size, ask_size }));
            }
        }
        market
    }

    /// The recorded trades and quotes of AIG and BAC; `None`: there are no such files.
    pub fn recorded(data: &Path, ui: &Ui) -> Result<Option<Self>, Failure> {
        let folder = data.join(Format::UsEquityTicks.to_string());
        if !folder.exists() {
            ui.note(&format!("{} does not exist: its cases are skipped", folder.display()));
            return Ok(None);
        }
        let failed = |error: ImportError| Failure::new(error.to_string());
        let mut files =
            discover(Format::UsEquityTicks, &[folder], &ImportOptions::default()).map_err(failed)?;
        files.retain(|file| file.path().parent().is_some_and(|folder| !folder.ends_with("spy")));
        let mut market = Self { symbols: Vec::new(), trades: Vec::new(), quotes: Vec::new() };
        let mut known: HashMap<String, u32> = HashMap::new();
        let (mut merge, mut record) = (Merge::new(files), AnyRecord::default());
        while let Some(row) = merge.next(&mut record).map_err(failed)? {
            let Some(package) = record.as_package() else { continue };
            if (market.trades.len() + market.quotes.len()).is_multiple_of(CHECK) {
                ui.check_interrupt()?;
            }
            let symbol = *known.entry(row.symbol.into()).or_insert_with(|| {
                market.symbols.push(row.symbol.into());
                market.symbols.len() as u32 - 1
            });
            match record_of(package) {
                Recorded::Trade(trade) => market.trades.push((row.time.0, symbol, trade)),
                Recorded::Quote(quote) => market.quotes.push((row.time.0, symbol, quote)),
            }
        }
        Ok(Some(market))
    }

    /// Creates two streams, `trades` and `quotes` with a suffix, loads them, and seals them.
    pub fn load(&self, db: &Database, suffix: &str, ui: &Ui) -> Result<(), Failure> {
        stream(db, &format!("trades{suffix}"), &self.symbols, &self.trades, ui)?;
        stream(db, &format!("quotes{suffix}"), &self.symbols, &self.quotes, ui)?;
        Ok(())
    }
}

fn stream<T: Record + 'static>(
    db: &Database,
    name: &str,
    symbols: &[String],
    rows: &[Row<T>],
    ui: &Ui,
) -> Result<Stream, Failure> {
    let schema = SchemaBuilder::new().with::<T>().finish();
    let stream = db.create_stream(name, schema, StreamOptions::default())?;
    let mut loader = stream.loader()?;
    let ids: Vec<_> = symbols.iter().map(|symbol| loader.symbol(symbol)).collect::<Result<_, _>>()?;
    for rows in rows.chunks(CHECK) {
        ui.check_interrupt()?;
        for (time, symbol, record) in rows {
            loader.append_by_id(ids[*symbol as usize], Timestamp(*time), record)?;
        }
    }
    loader.close()?;
    stream.seal()?;
    Ok(stream)
}

enum Recorded {
    Trade(Trade),
    Quote(Quote),
}

/// The flat record of a package of one venue's trade or quote.
fn record_of(package: &Package) -> Recorded {
    let mut quote = Quote::default();
    for entry in &package.entries {
        match entry {
            Entry::Trade(trade) => {
                return Recorded::Trade(Trade { price: trade.price, size: whole(trade.size) });
            }
            Entry::Level1(level) => {
                let price = level.price.unwrap_or_default();
                let size = level.size.map_or(0, whole);
                match level.side {
                    Side::Bid => (quote.bid, quote.bid_size) = (price, size),
                    Side::Ask => (quote.ask, quote.ask_size) = (price, size),
                }
            }
            _ => {}
        }
    }
    Recorded::Quote(quote)
}

fn whole(size: Decimal64) -> u32 {
    size.to_scaled(0).ok().and_then(|size| u32::try_from(size).ok()).unwrap_or(0)
}

/// A price of so many cents.
pub fn cents(price: i64) -> Decimal64 {
    Decimal64::from_parts(price, -2).unwrap_or_default()
}

/// Numbers that are the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound.max(1)
    }
}
