//! Books at every boundary of streams that are made to break them: spaces, equal and late times, several venues, gaps of symbols without
//! books, renames, deletes, rewrites, purges.

use crate::hostile::{Any, Hostile, text};
use tapedb_codec::SchemaBuilder;
use tapedb_engine::{Database, Stream, StreamOptions};
use tapedb_market::{Entry, Gap, MarketByPrice, Order, Package, PackageKind, SymbolBooks, Trade};
use tapedb_market_streams::{
    BookReplay, BookStart, CheckpointWriter, Every, LiveBook, Pass, RecentBooks, StreamBooks,
};
use tapedb_schema::{Ascii, Timestamp};

/// `T` has trades only, `channel` gaps only.
const SYMBOLS: [&str; 5] = ["A", "B", "C", "T", "channel"];

struct Attack {
    _directory: tempfile::TempDir,
    db: Database,
    stream: Stream,
    /// Books that were read lately, whatever has become of their messages since.
    recent: RecentBooks,
    hostile: Hostile,
    lasts: [u64; 3],
    time: i64,
    spaces: u32,
}

impl Attack {
    fn new(seed: u64, spaces: u32) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let db = Database::open(directory.path().join("db")).unwrap();
        let schema = SchemaBuilder::new().with::<Package>().with::<Order>().with::<MarketByPrice>();
        let options = StreamOptions { spaces, ..StreamOptions::default() };
        let stream = db.create_stream("s", schema.with::<Gap>().finish(), options).unwrap();
        let hostile = Hostile(seed);
        let recent = RecentBooks::default();
        Self { _directory: directory, db, stream, recent, hostile, lasts: [0; 3], time: 1_000, spaces }
    }

    fn append(&mut self, messages: u64) {
        let mut loaders: Vec<_> =
            (0..self.spaces).map(|space| self.stream.loader_in(space).unwrap()).collect();
        for _ in 0..messages {
            self.time += self.hostile.below(3) as i64;
            let late = if self.hostile.below(40) == 0 { self.hostile.below(60) as i64 } else { 0 };
            let (at, time) = (self.hostile.below(3) as usize, Timestamp(self.time - late));
            let space = self.hostile.below(u64::from(self.spaces)) as usize;
            let (loader, symbol) = (&mut loaders[space], SYMBOLS[at]);
            let venue = self.hostile.of(&[None, None, Some("X"), Some("YY")]);
            let venue = venue.map(|name| Ascii::<8>::new(name).unwrap());
            if self.hostile.below(50) == 0 {
                let trades = vec![Entry::Trade(Trade::default())];
                loader.append("T", time, &Package { entries: trades, ..Package::default() }).unwrap();
            }
            match self.hostile.any(&mut self.lasts[at]) {
                Any::Package(mut package) => {
                    package.entries.iter_mut().for_each(|entry| match entry {
                        Entry::Level1(entry) => entry.exchange = venue,
                        Entry::Level2Snapshot(entry) => entry.exchange = venue,
                        Entry::Level2Update(entry) => entry.exchange = venue,
                        Entry::Trade(_) | Entry::SequenceRange(_) => {}
                    });
                    loader.append(symbol, time, &package).unwrap();
                }
                Any::Order(order) => {
                    loader.append(symbol, time, &Order { exchange: venue, ..order }).unwrap();
                }
                Any::ByPrice(change) => {
                    loader.append(symbol, time, &MarketByPrice { exchange: venue, ..change }).unwrap();
                }
                Any::Gap(gap) => {
                    let of = self.hostile.of(&SYMBOLS);
                    loader.append(of, time, &Gap { exchange: venue, ..gap }).unwrap();
                }
            }
        }
        for loader in loaders {
            loader.close().unwrap();
        }
    }

    fn write(&self, every: u64) -> u64 {
        let mut writer = CheckpointWriter::open(&self.db, &self.stream, Every::Messages(every)).unwrap();
        while writer.step(1_000).unwrap() == Pass::More {}
        writer.written()
    }

    /// Compares the books at each time of a message, a nanosecond before it, before the first and after the last with a replay of all that
    /// is applied message by message. Returns how many began at a checkpoint.
    fn check(&self, symbols: &[&str], every: usize) -> u32 {
        let mut cursor = self.stream.cursor().open().unwrap();
        let mut replay = BookReplay::new(&self.stream).unwrap();
        let ids: Vec<u32> = symbols.iter().map(|name| self.id(name)).collect();
        let of = |replay: &BookReplay| -> Vec<String> {
            ids.iter().map(|id| text(replay.books().symbol(*id).unwrap_or(&SymbolBooks::default()))).collect()
        };
        let mut states = vec![(i64::MIN, of(&replay))];
        while let Some(message) = cursor.next().unwrap() {
            let time = message.time().nanos();
            if states.last().is_some_and(|(last, _)| *last != time) {
                states.push((time, Vec::new()));
            }
            replay.apply(&message).unwrap();
            states.last_mut().unwrap().1 = of(&replay);
        }
        let mut from_checkpoints = 0;
        for (number, pair) in states.windows(2).enumerate() {
            let is_checked = number % every == 0 || number < 3 || number + 4 > states.len();
            if !is_checked {
                continue;
            }
            let ((_, before), (time, now)) = (&pair[0], &pair[1]);
            for (at, expected) in [(time - 1, before), (*time, now)] {
                for (name, expected) in symbols.iter().zip(expected) {
                    let found = self.stream.book_at(&self.db, name, Timestamp(at)).unwrap();
                    from_checkpoints += u32::from(matches!(found.start, BookStart::Checkpoint(_)));
                    assert_eq!(&text(&found.books), expected, "{name} at {at}, from {:?}", found.start);
                    let recent =
                        self.stream.recent_book_at(&self.db, &self.recent, name, Timestamp(at)).unwrap();
                    let start = recent.start;
                    assert_eq!(&text(&recent.books), expected, "{name} at {at}, lately from {start:?}");
                }
            }
        }
        for at in [i64::MIN, i64::MAX] {
            let expected = if at == i64::MIN { &states[0].1 } else { &states[states.len() - 1].1 };
            for (name, expected) in symbols.iter().zip(expected) {
                assert_eq!(
                    &text(&self.stream.book_at(&self.db, name, Timestamp(at)).unwrap().books),
                    expected
                );
            }
        }
        from_checkpoints
    }

    fn id(&self, symbol: &str) -> u32 {
        self.stream.symbols().iter().position(|known| known == symbol).unwrap() as u32
    }
}

#[test]
fn books_at_every_boundary_are_those_of_a_replay_of_all() {
    let mut from_checkpoints = 0;
    for seed in 1..=6 {
        let mut attack = Attack::new(seed, 1 + seed as u32 % 3);
        attack.append(600);
        attack.check(&["A", "B"], 9);
        assert!(attack.write(60) > 3, "seed {seed}");
        from_checkpoints += attack.check(&["A", "B", "T"], 5);
        // Late messages before checkpoints, and checkpoints again.
        attack.append(100);
        attack.check(&["A", "B"], 11);
        attack.write(60);
        attack.check(&["A", "C"], 11);
        let mut live = LiveBook::open(&attack.db, &attack.stream, "A").unwrap();
        attack.append(60);
        while live.advance().unwrap() {}
        let found = attack.stream.book_at(&attack.db, "A", Timestamp(i64::MAX)).unwrap();
        assert_eq!(text(&live.book().books), text(&found.books), "seed {seed}, live");
    }
    assert!(from_checkpoints > 100, "{from_checkpoints}");
}

#[test]
fn what_is_deleted_rewritten_or_purged_before_a_checkpoint_is_gone_from_its_books() {
    for seed in 20..=23 {
        let mut attack = Attack::new(seed, 1);
        attack.append(500);
        attack.write(50);
        let (begin, end) = (1_000, attack.time);
        let part = |n: i64| Timestamp(begin + (end - begin) * n / 10);
        attack.stream.delete(part(3)..part(4), Some(["A"])).unwrap();
        attack.check(&["A", "B"], 13);
        // As many messages as were there, at the same times, and others.
        let (mut rewriter, mut old) =
            (attack.stream.rewrite(part(5)..=part(5), Some(["B"])).unwrap(), Vec::new());
        let mut cursor = attack
            .stream
            .cursor()
            .from(part(5))
            .to(Timestamp(part(5).nanos() + 1))
            .symbols(["B"])
            .open()
            .unwrap();
        while let Some(message) = cursor.next().unwrap() {
            old.push(message.time());
        }
        for time in old {
            rewriter
                .append("B", time, &Package { kind: PackageKind::Snapshot, ..Package::default() })
                .unwrap();
        }
        rewriter.commit().unwrap();
        attack.check(&["A", "B"], 13);
        attack.write(50);
        attack.stream.seal().unwrap();
        attack.check(&["A", "B"], 13);
        attack.stream.purge(part(6)).unwrap();
        attack.check(&["A", "B"], 7);
        attack.append(100);
        attack.write(50);
        attack.check(&["A", "B"], 7);
    }
}

#[test]
fn a_symbol_that_gets_the_name_of_another_does_not_get_its_checkpoints() {
    let mut attack = Attack::new(31, 1);
    attack.append(400);
    attack.write(40);
    attack.stream.rename_symbol("A", "old A").unwrap();
    attack.check(&["old A", "B"], 9);
    attack.stream.rename_symbol("B", "A").unwrap();
    attack.check(&["old A", "A"], 9);
    attack.append(50);
    attack.write(40);
    attack.check(&["old A", "A", "B", "C"], 9);
}
