//! Bars from trades: by time, number of trades, volume or turnover, as trades arrive.
//!
//! Sums are exact up to 38 digits, and rounded to sixteen in a bar. A late trade corrects the time bar it belongs to, as long as it is among the last
//! [`KEPT_MAX`] of its symbol; bars that do not end by time take it as it arrives.
//!
//! Always true: of a symbol, only the last bar has not been returned.

mod sum;
#[cfg(test)]
mod tests;

use crate::IntervalBar;
use std::collections::VecDeque;
use sum::Sum;
use tapedb_schema::{Decimal64, Timestamp};

/// Time bars of a symbol that late trades can correct.
pub const KEPT_MAX: usize = 256;

/// When a bar ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum BarRule {
    /// At multiples of this many nanoseconds since 1970.
    Time(i64),
    /// After this many trades.
    Ticks(u64),
    /// With the trade that brings the volume to this.
    Volume(Decimal64),
    /// With the trade that brings the sum of price times size to this.
    Dollars(Decimal64),
}

/// A bar that has ended, or a corrected one.
#[derive(Debug, Clone, PartialEq)]
pub struct BuiltBar {
    /// Time of its message: the end of its interval, or of its last trade.
    pub time: Timestamp,
    /// The bar.
    pub bar: IntervalBar,
    /// It takes the place of a bar of the same time that was returned before.
    pub is_correction: bool,
}

/// Average price by volume; `None` without volume.
pub fn vwap(bar: &IntervalBar) -> Option<f64> {
    let (turnover, volume) = (bar.turnover?.to_f64(), bar.volume?.to_f64());
    (volume != 0.0).then(|| turnover / volume)
}

/// Builds bars of many symbols; a symbol is a small number.
///
/// ```
/// use tapedb_market::{BarBuilder, BarRule};
/// use tapedb_schema::Timestamp;
/// let mut bars = BarBuilder::new(BarRule::Ticks(2));
/// let mut trade = |time, price: &str| bars.trade(0, Timestamp(time), price.parse().unwrap(), "2".parse().unwrap());
/// assert!(trade(1, "10.5").is_empty());
/// let bar = &trade(2, "10").remove(0).bar;
/// assert_eq!(bar.turnover.map(|sum| sum.to_string()), Some("41.0".into()));
/// ```
#[derive(Debug, Clone)]
pub struct BarBuilder {
    rule: BarRule,
    symbols: Vec<VecDeque<Open>>,
    /// No time bar ends before this.
    next_end: i64,
    refused: u64,
    too_late: u64,
}

impl BarBuilder {
    /// A builder without bars. Lengths and numbers of trades below one count as one.
    pub fn new(rule: BarRule) -> Self {
        let rule = if let BarRule::Time(length) = rule { BarRule::Time(length.max(1)) } else { rule };
        Self { rule, symbols: Vec::new(), next_end: i64::MIN, refused: 0, too_late: 0 }
    }

    /// A trade. Returns the bars that it ends or corrects.
    pub fn trade(
        &mut self,
        symbol: u32,
        time: Timestamp,
        price: Decimal64,
        size: Decimal64,
    ) -> Vec<BuiltBar> {
        let at = symbol as usize;
        if at >= self.symbols.len() {
            self.symbols.resize_with(at + 1, VecDeque::new);
        }
        let (bars, trade) = (&mut self.symbols[at], Trade { time: time.nanos(), price, size });
        let taken = match self.rule {
            BarRule::Time(length) => by_time(bars, length, trade),
            rule => by_rule(bars, rule, trade),
        };
        match taken {
            Taken::In(built) => return built,
            Taken::Refused => self.refused += 1,
            Taken::TooLate => self.too_late += 1,
        }
        Vec::new()
    }

    /// Time bars that end at or before this time, although no trade of their symbol after it has come. Call it with the time of each
    /// message before its trades: it is quick unless an interval ends.
    pub fn advance(&mut self, time: Timestamp) -> Vec<(u32, BuiltBar)> {
        let BarRule::Time(length) = self.rule else { return Vec::new() };
        let now = time.nanos();
        if now < self.next_end {
            return Vec::new();
        }
        self.next_end = now.div_euclid(length).saturating_add(1).saturating_mul(length);
        self.give(|bar| bar.start.saturating_add(length) <= now)
    }

    /// The bars that have not ended yet, as they are.
    pub fn finish(&mut self) -> Vec<(u32, BuiltBar)> {
        self.give(|_| true)
    }

    /// Trades without a finite price, or with a size that is below zero or not finite; they are in no bar.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Trades that came too late for every time bar that is kept; they are in no bar.
    pub fn too_late(&self) -> u64 {
        self.too_late
    }

    fn give(&mut self, ends: impl Fn(&Open) -> bool) -> Vec<(u32, BuiltBar)> {
        let length = if let BarRule::Time(length) = self.rule { Some(length) } else { None };
        let mut out = Vec::new();
        for (bars, symbol) in self.symbols.iter_mut().zip(0u32..) {
            let last = bars.back_mut().filter(|bar| !bar.is_returned && ends(bar));
            out.extend(last.map(|bar| (symbol, bar.give(length))));
        }
        out
    }
}

#[derive(Clone, Copy)]
struct Trade {
    time: i64,
    price: Decimal64,
    size: Decimal64,
}

/// What became of a trade.
enum Taken {
    /// It is in a bar; these have ended or were corrected.
    In(Vec<BuiltBar>),
    Refused,
    TooLate,
}

fn by_time(bars: &mut VecDeque<Open>, length: i64, trade: Trade) -> Taken {
    let start = trade.time.div_euclid(length).saturating_mul(length);
    let at = bars.partition_point(|bar| bar.start < start);
    if let Some(bar) = bars.get_mut(at).filter(|bar| bar.start == start) {
        return match bar.add(trade) {
            None => Taken::Refused,
            Some(()) if bar.is_returned => {
                Taken::In(vec![BuiltBar { is_correction: true, ..bar.give(Some(length)) }])
            }
            Some(()) => Taken::In(Vec::new()),
        };
    }
    if at == 0 && bars.len() == KEPT_MAX {
        return Taken::TooLate;
    }
    let Some(new) = Open::new(start, trade) else { return Taken::Refused };
    // A trade of a later interval ends the last bar; a late one is in a bar of its own, which ends at once.
    let is_last = at == bars.len();
    let before = bars.back_mut().filter(|bar| is_last && !bar.is_returned);
    let mut built: Vec<BuiltBar> = before.map(|bar| bar.give(Some(length))).into_iter().collect();
    bars.insert(at, new);
    if !is_last {
        built.push(bars[at].give(Some(length)));
    }
    if bars.len() > KEPT_MAX {
        bars.pop_front();
    }
    Taken::In(built)
}

fn by_rule(bars: &mut VecDeque<Open>, rule: BarRule, trade: Trade) -> Taken {
    let added = match bars.front_mut() {
        Some(bar) => bar.add(trade),
        None => Open::new(trade.time, trade).map(|bar| bars.push_back(bar)),
    };
    let (Some(()), Some(bar)) = (added, bars.front_mut()) else { return Taken::Refused };
    let ends = match rule {
        BarRule::Ticks(trades) => bar.trades >= trades,
        BarRule::Volume(limit) => bar.volume.reaches(limit),
        BarRule::Dollars(limit) => bar.turnover.reaches(limit),
        BarRule::Time(_) => false,
    };
    if !ends {
        return Taken::In(Vec::new());
    }
    let built = bar.give(None);
    bars.clear();
    Taken::In(vec![built])
}

/// A bar that trades are added to.
#[derive(Debug, Clone, Copy)]
struct Open {
    start: i64,
    /// Times of the trades that `open` and `close` are the prices of.
    first: i64,
    last: i64,
    open: Decimal64,
    high: Decimal64,
    low: Decimal64,
    close: Decimal64,
    volume: Sum,
    turnover: Sum,
    trades: u64,
    is_returned: bool,
}

impl Open {
    fn new(start: i64, trade: Trade) -> Option<Self> {
        let (first, last, price, none) = (i64::MAX, i64::MIN, trade.price, Sum::default());
        let [open, high, low, close] = [price; 4];
        let mut bar = Self {
            start,
            first,
            last,
            open,
            high,
            low,
            close,
            volume: none,
            turnover: none,
            trades: 0,
            is_returned: false,
        };
        bar.add(trade)?;
        Some(bar)
    }

    /// Adds a trade; `None`, and no change, if it cannot be added.
    fn add(&mut self, Trade { time, price, size }: Trade) -> Option<()> {
        let ((price_units, price_exponent), (size_units, size_exponent)) = (price.parts()?, size.parts()?);
        if size_units < 0 {
            return None;
        }
        let product = i128::from(price_units) * i128::from(size_units);
        self.volume = self.volume.plus(size_units.into(), size_exponent);
        self.turnover = self.turnover.plus(product, price_exponent + size_exponent);
        if time < self.first {
            (self.first, self.open) = (time, price);
        }
        if time >= self.last {
            (self.last, self.close) = (time, price);
        }
        if price.numeric_cmp(&self.high).is_some_and(|order| order.is_gt()) {
            self.high = price;
        }
        if price.numeric_cmp(&self.low).is_some_and(|order| order.is_lt()) {
            self.low = price;
        }
        self.trades += 1;
        Some(())
    }

    fn give(&mut self, length: Option<i64>) -> BuiltBar {
        self.is_returned = true;
        let bar = IntervalBar {
            start: Some(Timestamp(length.map_or(self.first, |_| self.start))),
            interval_ns: length.and_then(|length| u64::try_from(length).ok()),
            open: Some(self.open),
            high: Some(self.high),
            low: Some(self.low),
            close: Some(self.close),
            volume: self.volume.decimal(),
            turnover: self.turnover.decimal(),
            trades: Some(self.trades),
            ..IntervalBar::default()
        };
        let time = length.map_or(self.last, |length| self.start.saturating_add(length));
        BuiltBar { time: Timestamp(time), bar, is_correction: false }
    }
}
