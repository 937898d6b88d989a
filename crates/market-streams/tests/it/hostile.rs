//! Books of hostile messages: with checkpoints, live and replayed from the begin they are the same.

use std::time::Duration;
use tapedb_codec::SchemaBuilder;
use tapedb_engine::{Database, Stream, StreamOptions};
use tapedb_market::{
    BidAsk, BookAction, BookCheckpoint, Entry, Gap, Level1, Level2Snapshot, Level2Update, MarketByPrice,
    Order, OrderAction, Package, PackageKind, SequenceRange, Side, SymbolBooks,
};
use tapedb_market_streams::{
    BookReplay, BookStart, CheckpointWriter, Every, LiveBook, Pass, StreamBooks, checkpoints_of,
};
use tapedb_schema::{Decimal64, Timestamp};

/// A generator of messages, always the same ones for a seed.
pub struct Hostile(pub u64);

pub enum Any {
    Package(Package),
    Order(Order),
    ByPrice(MarketByPrice),
    Gap(Gap),
}

impl Hostile {
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }

    pub fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// Mostly one of few prices, so that levels meet; sometimes what no book can hold.
    fn number(&mut self) -> Decimal64 {
        match self.below(150) {
            0 => "NaN".parse().unwrap(),
            1 => "1E300".parse().unwrap(),
            2 => "-5".parse().unwrap(),
            3 => "0".parse().unwrap(),
            4 => "0.000000000001".parse().unwrap(),
            5 => "9999999999999999".parse().unwrap(),
            _ => Decimal64::from_parts(95 + self.below(10) as i64, -(self.below(2) as i32)).unwrap(),
        }
    }

    fn side(&mut self) -> Side {
        self.of(&[Side::Bid, Side::Ask])
    }

    fn entry(&mut self) -> Entry {
        let (side, price, number) = (self.side(), self.number(), self.number());
        match self.below(6) {
            0 => Entry::Level1(Level1 { side, price: Some(price), ..Level1::default() }),
            1 => Entry::Level2Snapshot(Level2Snapshot {
                side,
                price,
                size: number,
                ..Level2Snapshot::default()
            }),
            2 => {
                let action = BookAction::Delete;
                Entry::Level2Update(Level2Update { side, price, action, ..Level2Update::default() })
            }
            _ => Entry::Level2Update(Level2Update {
                side,
                price,
                size: Some(number),
                ..Level2Update::default()
            }),
        }
    }

    fn package(&mut self, last: &mut u64) -> Package {
        let kind = match self.below(12) {
            0 => PackageKind::Snapshot,
            _ => PackageKind::Update,
        };
        let mut entries: Vec<Entry> = (0..self.below(4)).map(|_| self.entry()).collect();
        let mut sequence = None;
        if self.below(3) > 0 {
            let skipped = if self.below(30) == 0 { self.below(9) } else { 0 };
            let (first, previous) = (*last + 1 + skipped, self.of(&[None, Some(*last)]));
            *last = first + self.below(3);
            sequence = Some(if self.below(40) == 0 { self.below(u64::MAX) } else { *last });
            if kind == PackageKind::Update {
                entries.insert(0, Entry::SequenceRange(SequenceRange { first, previous }));
            }
        }
        Package { kind, sequence, entries, ..Package::default() }
    }

    fn order(&mut self) -> Order {
        use OrderAction::{Add, Cancel, Clear, Delete, Execute, Fill, Modify, None, Replace, Trade};
        let mut action =
            self.of(&[Add, Add, Add, Modify, Cancel, Execute, Delete, Replace, Trade, Fill, None]);
        if self.below(80) == 0 {
            action = Clear;
        }
        let (is_odd, in_snapshot) = (self.below(60) == 0, self.below(25) == 0);
        Order {
            action,
            side: if is_odd { Option::None } else { Some(self.side()) },
            price: Some(self.number()),
            size: Some(self.number()),
            order_id: Some(self.below(60)),
            previous_order_id: Some(self.below(60)),
            snapshot: in_snapshot,
            event_end: self.below(2) == 0,
            sequence: self.of(&[Option::None, Some(7)]),
            ..Order::default()
        }
    }

    fn by_price(&mut self) -> MarketByPrice {
        let levels = (0..self.of(&[0, 0, 1, 3])).map(|_| BidAsk {
            bid_price: Some(self.number()),
            ask_price: Some(self.number()),
            ..BidAsk::default()
        });
        let levels = levels.collect();
        MarketByPrice {
            action: self.of(&[
                Some(OrderAction::Add),
                Some(OrderAction::Delete),
                Some(OrderAction::Clear),
                None,
            ]),
            side: self.of(&[Some(Side::Bid), Some(Side::Ask), None]),
            price: Some(self.number()),
            size: Some(self.number()),
            levels,
            ..MarketByPrice::default()
        }
    }

    pub fn any(&mut self, last: &mut u64) -> Any {
        match self.below(100) {
            0 => Any::Gap(Gap::default()),
            1..45 => Any::Package(self.package(last)),
            45..85 => Any::Order(self.order()),
            _ => Any::ByPrice(self.by_price()),
        }
    }
}

const SYMBOLS: [&str; 4] = ["A", "B", "C", "channel"];

struct Setup {
    _directory: tempfile::TempDir,
    db: Database,
    stream: Stream,
    hostile: Hostile,
    lasts: [u64; 3],
    time: i64,
}

impl Setup {
    fn new(seed: u64) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let db = Database::open(directory.path().join("db")).unwrap();
        let schema = SchemaBuilder::new().with::<Package>().with::<Order>().with::<MarketByPrice>();
        let stream = db.create_stream("s", schema.with::<Gap>().finish(), StreamOptions::default()).unwrap();
        Self { _directory: directory, db, stream, hostile: Hostile(seed), lasts: [0; 3], time: 0 }
    }

    fn append(&mut self, messages: u64) {
        let mut loader = self.stream.loader().unwrap();
        for _ in 0..messages {
            self.time += self.hostile.below(3) as i64;
            let at = self.hostile.below(3) as usize;
            let time = Timestamp(self.time);
            let symbol = SYMBOLS[at];
            match self.hostile.any(&mut self.lasts[at]) {
                Any::Package(package) => loader.append(symbol, time, &package).unwrap(),
                Any::Order(order) => loader.append(symbol, time, &order).unwrap(),
                Any::ByPrice(change) => loader.append(symbol, time, &change).unwrap(),
                Any::Gap(gap) => loader.append(self.hostile.of(&SYMBOLS), time, &gap).unwrap(),
            }
        }
        loader.close().unwrap();
    }

    /// The books of a replay of everything up to a time.
    fn expected(&self, symbol: &str, at: i64) -> String {
        let mut replay = BookReplay::new(&self.stream).unwrap();
        let mut cursor = self.stream.cursor().to(Timestamp(at + 1)).open().unwrap();
        while let Some(message) = cursor.next().unwrap() {
            replay.apply(&message).unwrap();
        }
        let id = self.stream.symbols().iter().position(|of| of == symbol);
        id.and_then(|id| replay.books().symbol(id as u32)).map(text).unwrap_or_default()
    }
}

/// All that a book states, but for what is counted since the checkpoint.
pub fn text(books: &SymbolBooks) -> String {
    use std::fmt::Write;
    let mut text = String::new();
    for venue in books.venues() {
        let (kind, state, doubt) = (venue.kind(), venue.state(), venue.doubt());
        let (sequence, changed) = (venue.sequence(), venue.changed());
        write!(text, "{kind:?} {state:?} {doubt:?} {sequence:?} {changed:?}").unwrap();
        for side in [Side::Bid, Side::Ask] {
            for level in venue.levels(side) {
                let price = books.price_units().decimal(level.price).to_f64();
                let size = books.size_units().decimal(level.size).to_f64();
                write!(text, " {side:?} {price}x{size}/{}", level.orders).unwrap();
            }
        }
        if let Some(orders) = venue.orders() {
            let places = (0..60).map(|id| orders.position(id).map(|place| place.orders_ahead));
            write!(text, " {:?}", places.collect::<Vec<_>>()).unwrap();
        }
        text.push('\n');
    }
    let best = [Side::Bid, Side::Ask]
        .map(|side| books.best(side).map(|best| books.price_units().decimal(best.price).to_f64()));
    write!(text, "{best:?}").unwrap();
    text
}

#[test]
fn with_checkpoints_live_and_replayed_books_are_the_same() {
    for seed in 1..=12 {
        let mut setup = Setup::new(seed);
        setup.append(1_500);
        let mut writer = CheckpointWriter::open(&setup.db, &setup.stream, Every::Messages(90)).unwrap();
        while writer.step(1_000).unwrap() == Pass::More {}
        assert!(writer.written() >= 5, "seed {seed}: {}", writer.written());
        let mut from_checkpoints = 0;
        for symbol in &SYMBOLS[..3] {
            for part in 1..=12 {
                let at = setup.time * part / 12;
                let found = setup.stream.book_at(&setup.db, symbol, Timestamp(at)).unwrap();
                from_checkpoints += u32::from(matches!(found.start, BookStart::Checkpoint(_)));
                assert_eq!(text(&found.books), setup.expected(symbol, at), "seed {seed}, {symbol} at {at}");
            }
        }
        assert!(from_checkpoints > 8, "seed {seed}: {from_checkpoints}");
        let mut live = LiveBook::open(&setup.db, &setup.stream, "A").unwrap();
        for _ in 0..20 {
            setup.append(17);
            live.wait(Duration::from_secs(5)).unwrap();
            while live.advance().unwrap() {}
            assert_eq!(text(&live.book().books), setup.expected("A", setup.time), "seed {seed}, live");
        }
    }
}

/// Parts of checkpoints that were never finished, that state lies, or that are no books at all, are passed over.
#[test]
fn checkpoints_that_are_cut_or_lie_are_not_used() {
    let mut setup = Setup::new(77);
    setup.append(1_000);
    let mut writer = CheckpointWriter::open(&setup.db, &setup.stream, Every::Messages(100)).unwrap();
    while writer.step(1_000).unwrap() == Pass::More {}
    drop(writer);
    let checkpoints = setup.db.stream(&checkpoints_of("s")).unwrap();
    let mut all = Vec::new();
    let mut cursor = checkpoints.cursor().symbols(["A"]).open().unwrap();
    while let Some(message) = cursor.next().unwrap() {
        all.push((message.time(), message.decode::<BookCheckpoint>().unwrap()));
    }
    let (end, expected) = (setup.time, setup.expected("A", setup.time));
    let mut loader = checkpoints.loader().unwrap();
    let many = all.iter().find(|(_, part)| part.parts > 1).expect("one with several parts").clone();
    for (n, (time, part)) in all.iter().enumerate() {
        let time = Timestamp(time.nanos() + 1);
        let lies = [
            BookCheckpoint { parts: part.parts + 1, ..part.clone() },
            BookCheckpoint { parts: u32::MAX, part: u32::MAX - 1, ..part.clone() },
            BookCheckpoint { parts: 0, part: 0, ..part.clone() },
            BookCheckpoint { parts: 1, part: 0, price_scale: 255, ..part.clone() },
            BookCheckpoint { parts: 1, part: 0, source_messages: part.source_messages ^ 1, ..part.clone() },
            BookCheckpoint { parts: 1, part: 0, source_sequences: vec![], ..part.clone() },
        ];
        loader.append("A", time, &lies[n % lies.len()]).unwrap();
    }
    // The end of a checkpoint whose process was ended before.
    loader.append("A", Timestamp(end), &BookCheckpoint { part: many.1.parts - 1, ..many.1 }).unwrap();
    loader.close().unwrap();
    for part in 1..=12 {
        let at = end * part / 12;
        let found = setup.stream.book_at(&setup.db, "A", Timestamp(at)).unwrap();
        assert_eq!(text(&found.books), setup.expected("A", at), "at {at}");
    }
    assert_eq!(text(&setup.stream.book_at(&setup.db, "A", Timestamp(end)).unwrap().books), expected);
}
