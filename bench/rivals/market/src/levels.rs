//! Books by price.

use crate::{Case, timed};
use hftbacktest::depth::{BTreeMarketDepth, HashMapMarketDepth, L2MarketDepth, MarketDepth, ROIVectorMarketDepth};
use hftbacktest::types::Side as TheirSide;
use tapedb_market::feed::{Feed, FeedConfig};
use tapedb_market::{Applier, BookAction, Entry, Package, PackageKind, PriceBook, Side};
use tapedb_schema::{Decimal64, Timestamp};

const TICK: f64 = 0.25;

/// A change of a level as numbers; `None`: the book is emptied, because a snapshot follows.
type Change = (usize, Option<(Side, i64, i64)>);

/// The same changes, as messages and as numbers.
pub struct Input {
    packages: Vec<(u32, Timestamp, Package)>,
    changes: Vec<Change>,
    symbols: usize,
    /// Levels that are set or deleted.
    count: usize,
}

/// Best bid and ask of each symbol, in ticks; 0: none.
type Best = Vec<(i64, i64)>;

fn units(number: Decimal64, scale: u8) -> i64 {
    number.to_scaled(scale).expect("a number of the feed")
}

impl Input {
    /// The changes of `market.book.l2` of `tapedb bench market`.
    pub fn generate(messages: usize) -> Self {
        let mut feed = Feed::new(FeedConfig::default()).expect("the usual feed");
        let symbols: Vec<String> = feed.symbols().map(str::to_string).collect();
        let mut found = Self { packages: Vec::new(), changes: Vec::new(), symbols: symbols.len(), count: 0 };
        for _ in 0..messages {
            let message = feed.next();
            let symbol = symbols.iter().position(|symbol| symbol == message.symbol).expect("a symbol of the feed");
            found.packages.push((symbol as u32, message.time, message.package.clone()));
            if message.package.kind != PackageKind::Update {
                found.changes.push((symbol, None));
            }
            for entry in &message.package.entries {
                let (side, price, size) = match entry {
                    Entry::Level2Update(level) => {
                        let size = level.size.filter(|_| level.action == BookAction::Set);
                        (level.side, level.price, size.map_or(0, |size| units(size, 0)))
                    }
                    Entry::Level2Snapshot(level) => (level.side, level.price, units(level.size, 0)),
                    _ => continue,
                };
                found.changes.push((symbol, Some((side, units(price, 2) / 25, size))));
                found.count += 1;
            }
        }
        found
    }

    pub fn measure(&self, cases: &mut Vec<Case>) {
        let expected = timed(cases, "levels: TapeDB, from messages", self.count, || self.applier());
        let found = [
            timed(cases, "levels: TapeDB, PriceBook alone", self.count, || self.price_books()),
            timed(cases, "levels: hftbacktest HashMapMarketDepth", self.count, || {
                self.theirs(|| HashMapMarketDepth::new(TICK, 1.0))
            }),
            timed(cases, "levels: hftbacktest BTreeMarketDepth", self.count, || {
                self.theirs(|| BTreeMarketDepth::new(TICK, 1.0))
            }),
            timed(cases, "levels: hftbacktest ROIVectorMarketDepth", self.count, || {
                self.theirs(|| ROIVectorMarketDepth::new(TICK, 1.0, 0.0, 20_000.0))
            }),
        ];
        assert!(found.iter().all(|found| *found == expected), "{expected:?} {found:?}");
    }

    fn applier(&self) -> Best {
        let mut books = Applier::default();
        for (symbol, time, package) in &self.packages {
            books.package(*symbol, *time, package);
        }
        let best = |symbol: u32| {
            let books = books.symbol(symbol).expect("a book");
            let units = books.price_units();
            let tick = |side| {
                let level = books.venues()[0].best(side);
                level.map_or(0, |level| self::units(units.decimal(level.price), 2) / 25)
            };
            (tick(Side::Bid), tick(Side::Ask))
        };
        (0..self.symbols as u32).map(best).collect()
    }

    fn price_books(&self) -> Best {
        let mut books = vec![PriceBook::default(); self.symbols];
        for (symbol, change) in &self.changes {
            let book = &mut books[*symbol];
            match *change {
                None => book.clear(),
                Some((side, price, 0)) => {
                    book.delete(side, price);
                }
                Some((side, price, size)) => {
                    book.set(side, price, size, 0);
                }
            }
        }
        let tick = |book: &PriceBook, side| book.best(side).map_or(0, |level| level.price);
        books.iter().map(|book| (tick(book, Side::Bid), tick(book, Side::Ask))).collect()
    }

    fn theirs<D: L2MarketDepth + MarketDepth>(&self, new: impl Fn() -> D) -> Best {
        let mut books: Vec<D> = (0..self.symbols).map(|_| new()).collect();
        for (symbol, change) in &self.changes {
            let book = &mut books[*symbol];
            match *change {
                None => book.clear_depth(TheirSide::None, 0.0),
                Some((Side::Bid, price, size)) => {
                    book.update_bid_depth(price as f64 * TICK, size as f64, 0);
                }
                Some((Side::Ask, price, size)) => {
                    book.update_ask_depth(price as f64 * TICK, size as f64, 0);
                }
            }
        }
        books.iter().map(|book| (book.best_bid_tick(), book.best_ask_tick())).collect()
    }
}
