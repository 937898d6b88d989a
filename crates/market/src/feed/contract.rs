//! One contract of the feed: its book on a grid of ticks and what happens to it.
//!
//! Always true between messages: each side has exactly `depth` levels, ordered from the best, at distinct ticks; the
//! best bid is below the best ask; every bid is at tick 1 or above.

#[cfg(test)]
use crate::book::Level;
use crate::random::Random;
use crate::{
    Aggressor, BookAction, Entry, Level1, Level2Snapshot, Level2Update, Package, PackageKind, Side, Trade,
};
use tapedb_schema::{Ascii, Decimal64};

/// Every nth message that finds the spread wider than a tick narrows it.
const NARROW_ONE_IN: u64 = 2;
/// Ticks between the last level and the one added after it: 1 to this.
const TAIL_TICKS_MAX: u64 = 3;

#[derive(Debug, Clone, Copy)]
struct Slot {
    tick: i64,
    size: u32,
    orders: u32,
}

#[derive(Debug, Clone)]
pub(super) struct Contract {
    symbol: String,
    exchange: Option<Ascii<8>>,
    tick: (i64, i32),
    depth: usize,
    bids: Vec<Slot>,
    asks: Vec<Slot>,
    sequence: u64,
    trade_id: u64,
}

impl Contract {
    pub(super) fn new(
        symbol: String,
        exchange: Ascii<8>,
        depth: u16,
        tick: (i64, i32),
        random: &mut Random,
    ) -> Self {
        let depth = usize::from(depth);
        let mid = 8_000 + 10 * depth as i64 + random.below(12_000) as i64;
        let mut contract = Self {
            symbol,
            exchange: Some(exchange),
            tick,
            depth,
            bids: Vec::with_capacity(depth),
            asks: Vec::with_capacity(depth),
            sequence: 0,
            trade_id: 0,
        };
        contract.bids.push(slot(mid, random));
        contract.asks.push(slot(mid + 1, random));
        for _ in 1..depth {
            contract.extend(Side::Bid, random);
            contract.extend(Side::Ask, random);
        }
        contract
    }

    pub(super) fn symbol(&self) -> &str {
        &self.symbol
    }

    /// Fills in the contract's next package.
    pub(super) fn next(&mut self, random: &mut Random, snapshot_every: u32, package: &mut Package) {
        package.clear();
        let every = u64::from(snapshot_every);
        let periodic = every != 0 && self.sequence != 0 && self.sequence.is_multiple_of(every);
        if self.sequence == 0 || periodic {
            package.kind = if periodic { PackageKind::PeriodicSnapshot } else { PackageKind::Snapshot };
            self.snapshot(&mut package.entries);
        } else {
            self.event(random, &mut package.entries);
        }
        self.sequence += 1;
        package.sequence = Some(self.sequence);
    }

    /// Levels of a side, best first.
    #[cfg(test)]
    pub(super) fn levels(&self, side: Side) -> impl Iterator<Item = Level> {
        let level = |slot: &Slot| Level {
            price: self.price(slot.tick),
            size: Some(size(slot.size)),
            orders: Some(slot.orders),
        };
        self.side(side).iter().map(level)
    }

    fn snapshot(&self, out: &mut Vec<Entry>) {
        for side in [Side::Bid, Side::Ask] {
            let level = |(level, slot): (usize, &Slot)| {
                Entry::Level2Snapshot(Level2Snapshot {
                    side,
                    level: level as u16,
                    price: self.price(slot.tick),
                    size: size(slot.size),
                    orders: Some(slot.orders),
                    exchange: self.exchange,
                })
            };
            out.extend(self.side(side).iter().enumerate().map(level));
        }
    }

    fn event(&mut self, random: &mut Random, out: &mut Vec<Entry>) {
        match random.below(100) {
            0..10 => self.trade(random, out),
            10..12 => self.quote(out),
            12..52 => {
                self.change(random, out);
                self.change(random, out);
            }
            _ => self.change(random, out),
        }
    }

    /// A trade at the best level and what it leaves of it.
    fn trade(&mut self, random: &mut Random, out: &mut Vec<Entry>) {
        let side = self.hit_side(random);
        let best = self.side(side)[0];
        let taken = if random.one_in(3) { best.size } else { 1 + random.below(u64::from(best.size)) as u32 };
        self.trade_id += 1;
        out.push(Entry::Trade(Trade {
            exchange: self.exchange,
            price: self.price(best.tick),
            size: size(taken),
            aggressor: Some(if side == Side::Bid { Aggressor::Sell } else { Aggressor::Buy }),
            id: Some(self.trade_id),
            condition: None,
            suspicious: false,
        }));
        if taken == best.size {
            self.delete(side, 0, random, out);
        } else {
            let left = best.size - taken;
            self.resize(side, 0, left, best.orders.min(left), out);
        }
    }

    fn quote(&self, out: &mut Vec<Entry>) {
        for side in [Side::Bid, Side::Ask] {
            let best = &self.side(side)[0];
            out.push(Entry::Level1(Level1 {
                side,
                price: Some(self.price(best.tick)),
                size: Some(size(best.size)),
                orders: Some(best.orders),
                exchange: self.exchange,
                condition: None,
                suspicious: false,
            }));
        }
    }

    /// One change of the book: a narrower spread, a new size, a level removed or added.
    fn change(&mut self, random: &mut Random, out: &mut Vec<Entry>) {
        if self.spread_ticks() > 1 && random.one_in(NARROW_ONE_IN) {
            return self.narrow(random, out);
        }
        let side = if random.one_in(2) { Side::Bid } else { Side::Ask };
        let at = self.level_near_top(random);
        match random.below(10) {
            // The best level goes by trades and now and then by cancels, or the spread would only widen.
            0 | 1 if at > 0 || (random.one_in(4) && side == self.hit_side(random)) => {
                self.delete(side, at, random, out);
            }
            2 | 3 if self.has_gap_before(side, at) => self.insert_before(side, at, random, out),
            _ => {
                let new = slot(0, random);
                self.resize(side, at, new.size, new.orders, out);
            }
        }
    }

    fn narrow(&mut self, random: &mut Random, out: &mut Vec<Entry>) {
        let side = if self.is_low() || random.one_in(2) { Side::Bid } else { Side::Ask };
        let tick = self.side(side)[0].tick + toward_market(side);
        self.insert(side, 0, tick, random, out);
    }

    /// A new level one tick better than level `at`; the last level falls out of the book.
    fn insert_before(&mut self, side: Side, at: usize, random: &mut Random, out: &mut Vec<Entry>) {
        let tick = self.side(side)[at].tick + toward_market(side);
        self.insert(side, at, tick, random, out);
    }

    fn insert(&mut self, side: Side, at: usize, tick: i64, random: &mut Random, out: &mut Vec<Entry>) {
        let new = slot(tick, random);
        let last = self.depth - 1;
        if let Some(fallen) = self.side_mut(side).pop() {
            out.push(self.update(BookAction::Delete, side, last, &fallen));
        }
        self.side_mut(side).insert(at, new);
        out.push(self.update(BookAction::Set, side, at, &new));
    }

    /// Removes the level and adds another one after the last.
    fn delete(&mut self, side: Side, at: usize, random: &mut Random, out: &mut Vec<Entry>) {
        let gone = self.side_mut(side).remove(at);
        out.push(self.update(BookAction::Delete, side, at, &gone));
        let joined = self.extend(side, random);
        out.push(self.update(BookAction::Set, side, self.depth - 1, &joined));
    }

    fn resize(&mut self, side: Side, at: usize, size: u32, orders: u32, out: &mut Vec<Entry>) {
        let level = &mut self.side_mut(side)[at];
        (level.size, level.orders) = (size, orders);
        let level = *level;
        out.push(self.update(BookAction::Set, side, at, &level));
    }

    /// Adds a level after the last. Bids have enough ticks: see [`Contract::is_low`].
    fn extend(&mut self, side: Side, random: &mut Random) -> Slot {
        let gap = 1 + random.below(TAIL_TICKS_MAX) as i64;
        let levels = self.side_mut(side);
        let last = levels.last().map_or(0, |level| level.tick);
        let new = slot(last - gap * toward_market(side), random);
        levels.push(new);
        new
    }

    /// Whether the price is so low that bids must not go lower: the widest book, twice over, has to fit below.
    fn is_low(&self) -> bool {
        self.bids[0].tick < 2 * (TAIL_TICKS_MAX as i64) * (self.depth as i64) + 100
    }

    /// The side that may lose its best level.
    fn hit_side(&self, random: &mut Random) -> Side {
        if self.is_low() || random.one_in(2) { Side::Ask } else { Side::Bid }
    }

    fn has_gap_before(&self, side: Side, at: usize) -> bool {
        let levels = self.side(side);
        at > 0 && (levels[at - 1].tick - levels[at].tick).abs() > 1
    }

    /// Half of the activity is in the top few levels, the rest anywhere.
    fn level_near_top(&self, random: &mut Random) -> usize {
        let depth = self.depth as u64;
        let bound = if random.one_in(2) { depth.min(5) } else { depth };
        random.below(bound) as usize
    }

    fn spread_ticks(&self) -> i64 {
        self.asks[0].tick - self.bids[0].tick
    }

    fn update(&self, action: BookAction, side: Side, level: usize, slot: &Slot) -> Entry {
        let set = action == BookAction::Set;
        Entry::Level2Update(Level2Update {
            action,
            side,
            level: Some(level as u16),
            price: self.price(slot.tick),
            size: set.then(|| size(slot.size)),
            orders: set.then_some(slot.orders),
            exchange: self.exchange,
        })
    }

    /// Ticks stay below 2^33 (one a message would take hours of full speed), coefficients of the tick below 2^20.
    fn price(&self, tick: i64) -> Decimal64 {
        Decimal64::from_parts(tick.saturating_mul(self.tick.0), self.tick.1).unwrap_or(Decimal64::MAX)
    }

    fn side(&self, side: Side) -> &[Slot] {
        match side {
            Side::Bid => &self.bids,
            Side::Ask => &self.asks,
        }
    }

    fn side_mut(&mut self, side: Side) -> &mut Vec<Slot> {
        match side {
            Side::Bid => &mut self.bids,
            Side::Ask => &mut self.asks,
        }
    }
}

/// Direction in which a side's prices get better.
fn toward_market(side: Side) -> i64 {
    match side {
        Side::Bid => 1,
        Side::Ask => -1,
    }
}

fn slot(tick: i64, random: &mut Random) -> Slot {
    let orders = 1 + random.exponential(6) as u32;
    Slot { tick, orders, size: orders + random.below(4 * u64::from(orders)) as u32 }
}

fn size(lots: u32) -> Decimal64 {
    Decimal64::from_parts(i64::from(lots), 0).unwrap_or(Decimal64::MAX)
}
