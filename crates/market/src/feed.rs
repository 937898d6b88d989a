//! Endless, deterministic level-2 feed of many contracts at several exchanges, with the shape of a real one: bursts,
//! mostly single-level updates near the top, trades that eat the best level, rare snapshots.

mod contract;

use crate::Package;
use crate::random::Random;
use contract::Contract;
use std::fmt;
use tapedb_schema::{Ascii, Decimal64, Timestamp};

/// Most contracts of one feed, over all exchanges.
pub const MAX_CONTRACTS: u64 = 100_000;
/// Most levels on a side.
pub const MAX_DEPTH: u16 = 1_000;
/// Most messages per second of virtual time: one a nanosecond.
pub const MAX_MESSAGES_PER_SECOND: u64 = 1_000_000_000;
/// Largest coefficient of the tick.
pub const MAX_TICK_COEFFICIENT: i64 = 1_000_000;

/// What a [`Feed`] makes. The same settings give the same messages, on every machine.
#[derive(Debug, Clone, PartialEq)]
pub struct FeedConfig {
    /// Seed of all chance.
    pub seed: u64,
    /// Number of exchanges, at least 1.
    pub exchanges: u32,
    /// Contracts of each exchange, at least 1; all together at most [`MAX_CONTRACTS`].
    pub contracts_per_exchange: u32,
    /// Levels on each side of every book, 2 to [`MAX_DEPTH`].
    pub depth: u16,
    /// Messages per second of virtual time over all contracts, on average; 1 to [`MAX_MESSAGES_PER_SECOND`].
    pub messages_per_second: u64,
    /// Time that the first message follows.
    pub start: Timestamp,
    /// Price step: positive, coefficient at most [`MAX_TICK_COEFFICIENT`].
    pub tick: Decimal64,
    /// A contract sends a periodic snapshot after this many messages of its own; 0: never.
    pub snapshot_every: u32,
}

impl Default for FeedConfig {
    /// 5 exchanges with 10 contracts each, 50 levels a side, 50,000 messages a second from 2024-01-02 14:30 UTC, tick
    /// 0.25, a snapshot every 5,000 messages.
    fn default() -> Self {
        Self {
            seed: 1,
            exchanges: 5,
            contracts_per_exchange: 10,
            depth: 50,
            messages_per_second: 50_000,
            start: Timestamp(1_704_205_800_000_000_000),
            tick: Decimal64::from_parts(25, -2).unwrap_or(Decimal64::ZERO),
            snapshot_every: 5_000,
        }
    }
}

/// A setting of a feed that is out of its range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedConfigError {
    /// Name of the setting.
    pub setting: &'static str,
    /// What it has to be.
    pub expected: String,
    /// What it is.
    pub found: String,
}

impl fmt::Display for FeedConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "feed setting `{}` must be {}, but is {}", self.setting, self.expected, self.found)
    }
}

impl std::error::Error for FeedConfigError {}

/// One message with its header; borrowed from the feed until the next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FeedMessage<'a> {
    /// When it was received; never before the message before.
    pub time: Timestamp,
    /// The contract.
    pub symbol: &'a str,
    /// What the exchange sent. The first of a contract is a snapshot, `sequence` counts from 1 without gaps.
    pub package: &'a Package,
}

/// The generator; see [`FeedConfig`].
///
/// ```
/// use tapedb_market::feed::{Feed, FeedConfig};
/// let mut feed = Feed::new(FeedConfig::default())?;
/// let message = feed.next();
/// assert_eq!(message.package.entries.len(), 100);
/// # Ok::<(), tapedb_market::feed::FeedConfigError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Feed {
    random: Random,
    contracts: Vec<Contract>,
    last: usize,
    time: Timestamp,
    gap_ns_mean: u64,
    snapshot_every: u32,
    package: Package,
}

impl Feed {
    /// A feed before its first message.
    ///
    /// # Errors
    /// [`FeedConfigError`] names the setting that is out of its range.
    pub fn new(config: FeedConfig) -> Result<Self, FeedConfigError> {
        let tick = check(&config)?;
        let mut random = Random::new(config.seed);
        let count = config.exchanges * config.contracts_per_exchange;
        let contract = |index| {
            let exchange = exchange_code(index / config.contracts_per_exchange);
            Contract::new(symbol(index), exchange, config.depth, tick, &mut random)
        };
        let contracts = (0..count).map(contract).collect();
        Ok(Self {
            contracts,
            random,
            last: 0,
            time: config.start,
            gap_ns_mean: 1_000_000_000 / config.messages_per_second,
            snapshot_every: config.snapshot_every,
            package: Package::default(),
        })
    }

    /// The next message. There is always one.
    #[expect(
        clippy::should_implement_trait,
        reason = "the message is borrowed, so this cannot be an iterator"
    )]
    pub fn next(&mut self) -> FeedMessage<'_> {
        self.time = Timestamp(self.time.nanos().saturating_add(self.gap_ns()));
        // A burst is mostly of one contract.
        if !self.random.one_in(4) {
            self.last = self.random.below(self.contracts.len() as u64) as usize;
        }
        let contract = &mut self.contracts[self.last];
        contract.next(&mut self.random, self.snapshot_every, &mut self.package);
        self.stamp();
        FeedMessage { time: self.time, symbol: self.contracts[self.last].symbol(), package: &self.package }
    }

    /// Symbols of all contracts.
    pub fn symbols(&self) -> impl ExactSizeIterator<Item = &str> {
        self.contracts.iter().map(Contract::symbol)
    }

    /// One message in eight follows a long gap, the others are in bursts; the mean is as configured.
    fn gap_ns(&mut self) -> i64 {
        let burst = !self.random.one_in(8);
        let mean = if burst { self.gap_ns_mean / 2 } else { self.gap_ns_mean * 9 / 2 };
        self.random.exponential(mean) as i64
    }

    /// The exchange sent it 50 to 550 µs before it is received, a trade matched up to 20 µs before that.
    fn stamp(&mut self) {
        let sent = self.time.nanos().saturating_sub(50_000 + self.random.below(500_000) as i64);
        self.package.source_time = Some(Timestamp(sent));
        if matches!(self.package.entries.first(), Some(crate::Entry::Trade(_))) {
            self.package.match_time = Some(Timestamp(sent.saturating_sub(self.random.below(20_000) as i64)));
        }
    }
}

/// The tick as coefficient and exponent if all settings are in range.
fn check(config: &FeedConfig) -> Result<(i64, i32), FeedConfigError> {
    let contracts = u64::from(config.exchanges) * u64::from(config.contracts_per_exchange);
    range("exchanges x contracts_per_exchange", contracts, 1, MAX_CONTRACTS)?;
    range("depth", u64::from(config.depth), 2, u64::from(MAX_DEPTH))?;
    range("messages_per_second", config.messages_per_second, 1, MAX_MESSAGES_PER_SECOND)?;
    match config.tick.parts() {
        Some((coefficient, exponent))
            if (1..=MAX_TICK_COEFFICIENT).contains(&coefficient) && (-18..=18).contains(&exponent) =>
        {
            Ok((coefficient, exponent))
        }
        _ => Err(FeedConfigError {
            setting: "tick",
            expected: format!("positive, coefficient at most {MAX_TICK_COEFFICIENT}, exponent -18 to 18"),
            found: config.tick.to_string(),
        }),
    }
}

fn range(setting: &'static str, value: u64, least: u64, most: u64) -> Result<(), FeedConfigError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(FeedConfigError { setting, expected: format!("{least} to {most}"), found: value.to_string() })
}

/// Codes of five real exchanges, then made-up ones.
fn exchange_code(index: u32) -> Ascii<8> {
    const REAL: [&str; 5] = ["XCME", "XEUR", "IFEU", "XNYM", "XHKF"];
    let code = REAL.get(index as usize).map_or_else(|| format!("X{index:03}"), |code| (*code).to_string());
    Ascii::new(&code).unwrap_or_default()
}

/// A root of three or more letters unique to the index, a quarterly month code and a year: `AABH4`.
fn symbol(index: u32) -> String {
    let mut root = Vec::new();
    let mut rest = index;
    while rest > 0 || root.len() < 3 {
        root.push(char::from(b'A' + (rest % 26) as u8));
        rest /= 26;
    }
    let month = ['H', 'M', 'U', 'Z'][index as usize % 4];
    root.iter().rev().chain([&month, &'4']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Book, Entry, PackageKind, Side};
    use std::collections::HashMap;

    /// FNV-1a over a readable form: independent of any byte layout.
    fn hash(feed: &mut Feed, messages: usize) -> u64 {
        (0..messages).fold(0xCBF2_9CE4_8422_2325, |hash, _| {
            let message = feed.next();
            let text = format!("{} {} {:?}", message.time.nanos(), message.symbol, message.package);
            text.bytes().fold(hash, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3))
        })
    }

    #[test]
    fn the_first_10_000_messages_are_pinned() {
        let mut feed = Feed::new(FeedConfig::default()).unwrap();
        assert_eq!(hash(&mut feed, 10_000), 13_169_490_498_397_602_986);
    }

    #[test]
    fn another_seed_gives_another_feed() {
        let mut feed = Feed::new(FeedConfig::default()).unwrap();
        let mut other = Feed::new(FeedConfig { seed: 2, ..FeedConfig::default() }).unwrap();
        assert_ne!(hash(&mut feed, 100), hash(&mut other, 100));
    }

    #[test]
    fn books_rebuilt_from_the_messages_are_those_of_the_generator() {
        let config = FeedConfig { snapshot_every: 700, ..FeedConfig::default() };
        let mut feed = Feed::new(config).unwrap();
        let mut books: HashMap<String, (Book, u64)> = HashMap::new();
        for _ in 0..200_000 {
            let message = feed.next();
            let (book, sequence) = books.entry(message.symbol.to_string()).or_default();
            assert_eq!(message.package.sequence, Some(*sequence + 1));
            *sequence += 1;
            assert_eq!(*sequence == 1, message.package.kind == PackageKind::Snapshot);
            // A periodic snapshot has to repeat the present state.
            let known: Vec<_> =
                [Side::Bid, Side::Ask].map(|side| book.levels(side).copied().collect::<Vec<_>>()).into();
            book.apply(message.package);
            if message.package.kind == PackageKind::PeriodicSnapshot {
                assert_eq!(known[0], book.levels(Side::Bid).copied().collect::<Vec<_>>());
                assert_eq!(known[1], book.levels(Side::Ask).copied().collect::<Vec<_>>());
            }
            assert!(!book.is_crossed(), "{:?}", message.package);
            assert_eq!((book.depth(Side::Bid), book.depth(Side::Ask)), (50, 50), "{:?}", message.package);
        }
        for contract in &feed.contracts {
            let (book, _) = &books[contract.symbol()];
            for side in [Side::Bid, Side::Ask] {
                assert!(
                    book.levels(side).copied().eq(contract.levels(side)),
                    "{} {side:?}",
                    contract.symbol()
                );
            }
        }
    }

    #[test]
    fn the_feed_has_the_shape_it_promises() {
        let mut feed = Feed::new(FeedConfig::default()).unwrap();
        let start = feed.time;
        let (mut last, mut trades, mut entries) = (start, 0, 0);
        const MESSAGES: usize = 500_000;
        for _ in 0..MESSAGES {
            let message = feed.next();
            assert!(message.time >= last && message.package.source_time < Some(message.time));
            last = message.time;
            trades += usize::from(matches!(message.package.entries[0], Entry::Trade(_)));
            entries += message.package.entries.len();
        }
        let seconds = (last.nanos() - start.nanos()) as f64 / 1e9;
        assert!((9.5..10.5).contains(&seconds), "{seconds} s");
        assert!((45_000..55_000).contains(&trades), "{trades} trades");
        assert!((900_000..1_150_000).contains(&entries), "{entries} entries");
    }

    #[test]
    fn prices_walk_but_stay_positive() {
        let config =
            FeedConfig { exchanges: 1, contracts_per_exchange: 1, depth: 2, ..FeedConfig::default() };
        let mut feed = Feed::new(config).unwrap();
        for _ in 0..300_000 {
            feed.next();
        }
        assert!(feed.contracts[0].levels(Side::Bid).all(|level| !level.price.is_sign_negative()));
    }

    #[test]
    fn bad_settings_are_named() {
        let config = FeedConfig { exchanges: 0, ..FeedConfig::default() };
        assert_eq!(Feed::new(config).unwrap_err().setting, "exchanges x contracts_per_exchange");
        let config = FeedConfig { tick: Decimal64::NAN, ..FeedConfig::default() };
        assert_eq!(Feed::new(config).unwrap_err().setting, "tick");
        let config = FeedConfig { depth: 1, ..FeedConfig::default() };
        assert_eq!(
            Feed::new(config).unwrap_err().to_string(),
            "feed setting `depth` must be 2 to 1000, but is 1"
        );
    }

    #[test]
    fn symbols_are_unique() {
        let config =
            FeedConfig { exchanges: 100, contracts_per_exchange: 200, depth: 2, ..FeedConfig::default() };
        let feed = Feed::new(config).unwrap();
        assert_eq!(feed.symbols().collect::<std::collections::HashSet<_>>().len(), 20_000);
    }
}
