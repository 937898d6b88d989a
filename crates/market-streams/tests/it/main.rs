//! Books of streams at any time: with and without checkpoints, beside a replay of everything.

mod attacks;
mod bars;
mod gaps;
mod hostile;
mod live;

use std::time::Duration;
use tapedb_codec::SchemaBuilder;
use tapedb_engine::{Database, Stream, StreamOptions};
use tapedb_market::feed::{Feed, FeedConfig};
use tapedb_market::{Applier, BookState, Gap, Order, Package, Side};
use tapedb_market_streams::{
    BookError, BookStart, CheckpointWriter, Every, Pass, RecentBooks, StreamBooks, checkpoints_of,
};
use tapedb_schema::Timestamp;
use tempfile::TempDir;

const MESSAGES: usize = 30_000;

struct Setup {
    _directory: TempDir,
    db: Database,
    stream: Stream,
    /// Time, symbol and package of each message, in order of arrival.
    messages: Vec<(Timestamp, String, Package)>,
}

fn setup() -> Setup {
    let directory = tempfile::tempdir().unwrap();
    let db = Database::open(directory.path().join("db")).unwrap();
    let schema = SchemaBuilder::new().with::<Package>().with::<Gap>().finish();
    let stream = db.create_stream("feed", schema, StreamOptions::default()).unwrap();
    let config = FeedConfig { exchanges: 2, contracts_per_exchange: 2, depth: 10, ..FeedConfig::default() };
    let mut feed = Feed::new(config).unwrap();
    let mut loader = stream.loader().unwrap();
    let mut messages = Vec::new();
    for _ in 0..MESSAGES {
        let message = feed.next();
        loader.append(message.symbol, message.time, message.package).unwrap();
        messages.push((message.time, message.symbol.to_string(), message.package.clone()));
    }
    loader.flush().unwrap();
    Setup { _directory: directory, db, stream, messages }
}

impl Setup {
    fn write(&self, every: Every) -> CheckpointWriter {
        let mut writer = CheckpointWriter::open(&self.db, &self.stream, every).unwrap();
        while writer.step(1_000).unwrap() == Pass::More {}
        writer
    }

    /// Levels of the book of a replay of everything.
    fn expected(&self, symbol: &str, at: Timestamp) -> Vec<(Side, i64, i64)> {
        let mut books = Applier::default();
        let mut messages: Vec<_> =
            self.messages.iter().filter(|(time, of, _)| *time <= at && of == symbol).collect();
        messages.sort_by_key(|(time, ..)| *time);
        messages.iter().for_each(|(time, _, package)| books.package(0, *time, package));
        books.symbol(0).map(levels).unwrap_or_default()
    }

    fn check(&self, at: Timestamp) -> BookStart {
        let mut start = BookStart::Beginning;
        for symbol in self.stream.symbols() {
            let found = self.stream.book_at(&self.db, &symbol, at).unwrap();
            assert_eq!(levels(&found.books), self.expected(&symbol, at), "{symbol} {at}");
            start = found.start;
        }
        start
    }

    fn time(&self, message: usize) -> Timestamp {
        self.messages[message].0
    }
}

fn levels(books: &tapedb_market::SymbolBooks) -> Vec<(Side, i64, i64)> {
    let Some(venue) = books.venues().first() else { return Vec::new() };
    let of = |side| venue.levels(side).map(move |level| (side, level.price, level.size));
    [Side::Bid, Side::Ask].into_iter().flat_map(of).collect()
}

#[test]
fn books_at_any_time_are_those_of_a_replay_with_and_without_checkpoints() {
    let setup = setup();
    assert_eq!(setup.check(setup.time(20_000)), BookStart::Beginning);
    let writer = setup.write(Every::Messages(1_000));
    assert!(writer.written() >= 4 * 25 && writer.messages() == MESSAGES as u64, "{}", writer.written());
    for message in [0, 1, 999, 1_000, 1_001, 12_345, MESSAGES - 1] {
        let start = setup.check(setup.time(message));
        assert_eq!(matches!(start, BookStart::Checkpoint(_)), message >= 1_000, "{message} {start:?}");
    }
    let last = setup.stream.book_at(&setup.db, &setup.messages[29_999].1, setup.time(29_999)).unwrap();
    assert!(last.messages <= 2_000, "{}", last.messages);
    // Another writer finds them there.
    assert_eq!(setup.write(Every::Messages(1_000)).written(), 0);
    assert!(setup.write(Every::Time(Duration::from_millis(1))).written() < 4 * 700);
}

#[test]
fn a_replay_begins_with_books_that_were_read_lately() {
    let mut setup = setup();
    let (recent, symbol) = (RecentBooks::default(), setup.messages[0].1.clone());
    let read = |setup: &Setup, at: Timestamp| {
        let found = setup.stream.recent_book_at(&setup.db, &recent, &symbol, at).unwrap();
        assert_eq!(levels(&found.books), setup.expected(&symbol, at), "{at}");
        found.messages
    };
    assert!(read(&setup, setup.time(29_000)) > 6_000, "at first all messages are replayed");
    for message in [29_000, 29_500, 5_000, 17_000, 28_999, 1, 23_456] {
        let messages = read(&setup, setup.time(message));
        assert!(messages < 2_100, "{message}: {messages}");
    }
    // What is late makes places behind it useless, and no others.
    let (before, symbol, mut package) = setup.messages[15_500].clone();
    let late = Timestamp(before.nanos() + 1);
    package.kind = tapedb_market::PackageKind::Snapshot;
    package.entries.truncate(1);
    let mut loader = setup.stream.loader().unwrap();
    loader.append(&symbol, late, &package).unwrap();
    loader.close().unwrap();
    setup.messages.push((late, symbol, package));
    assert!(read(&setup, setup.time(14_000)) < 2_100);
    assert!(read(&setup, setup.time(29_000)) > 2_500);
    assert!(read(&setup, setup.time(29_000)) < 2_100);
}

#[test]
fn a_late_message_makes_checkpoints_after_it_useless_until_they_are_written_again() {
    let mut setup = setup();
    let mut writer = setup.write(Every::Messages(1_000));
    let (before, symbol, mut package) = setup.messages[15_500].clone();
    let late = Timestamp(before.nanos() + 1);
    package.kind = tapedb_market::PackageKind::Snapshot;
    package.entries.truncate(1);
    let mut loader = setup.stream.loader().unwrap();
    loader.append(&symbol, late, &package).unwrap();
    loader.flush().unwrap();
    setup.messages.push((late, symbol.clone(), package));
    let at = setup.time(20_500);
    assert!(matches!(setup.check(setup.time(12_500)), BookStart::Checkpoint(_)));
    let found = setup.stream.book_at(&setup.db, &symbol, at).unwrap();
    assert!(found.passed_over >= 4, "{found:?}");
    assert!(matches!(found.start, BookStart::Checkpoint(time) if time <= late));
    setup.check(at);
    // The writer meets it, and begins again.
    let written = writer.written();
    while writer.step(1_000).unwrap() == Pass::More {}
    assert!(writer.written() > written);
    let found = setup.stream.book_at(&setup.db, &symbol, at).unwrap();
    assert_eq!(found.passed_over, 0);
    setup.check(at);
}

#[test]
fn deleted_messages_and_another_stream_of_the_name_leave_no_checkpoint_to_be_used() {
    let mut setup = setup();
    setup.write(Every::Messages(1_000));
    let (from, to) = (setup.time(5_000), setup.time(5_100));
    setup.stream.delete(from..to, None::<[&str; 0]>).unwrap();
    setup.messages.retain(|(time, ..)| *time < from || *time >= to);
    let found = setup.stream.book_at(&setup.db, &setup.messages[0].1, setup.time(20_000)).unwrap();
    assert!(found.passed_over > 0 && matches!(found.start, BookStart::Checkpoint(time) if time <= from));
    setup.check(setup.time(20_000));

    setup.db.delete_stream("feed").unwrap();
    let schema = SchemaBuilder::new().with::<Package>().with::<Gap>().finish();
    setup.stream = setup.db.create_stream("feed", schema, StreamOptions::default()).unwrap();
    let mut loader = setup.stream.loader().unwrap();
    for (time, symbol, package) in &setup.messages[..20_000] {
        loader.append(symbol, *time, package).unwrap();
    }
    loader.flush().unwrap();
    setup.messages.truncate(20_000);
    assert_eq!(setup.check(setup.time(19_999)), BookStart::NoneFits);
}

#[test]
fn gaps_of_the_symbol_and_of_its_channel_make_the_book_unknown_and_those_of_others_do_not() {
    let setup = setup();
    let symbol = setup.messages[0].1.clone();
    let other = setup.stream.symbols().into_iter().find(|other| *other != symbol).unwrap();
    let state =
        |symbol: &str, at| setup.stream.book_at(&setup.db, symbol, at).unwrap().books.venues()[0].state();
    let end = setup.time(MESSAGES - 1);
    let gap = |of: &str, time: i64| {
        let mut loader = setup.stream.loader().unwrap();
        loader.append(of, Timestamp(end.nanos() + time), &Gap::default()).unwrap();
        loader.flush().unwrap();
    };
    let at = |time: i64| Timestamp(end.nanos() + time);
    gap(&other, 1);
    assert_eq!([state(&symbol, at(1)), state(&other, at(1))], [BookState::Seeded, BookState::Unknown]);
    gap("channel 7", 2);
    assert_eq!([state(&symbol, at(1)), state(&symbol, at(2))], [BookState::Seeded, BookState::Unknown]);
    setup.write(Every::Messages(1_000));
    assert_eq!([state(&symbol, at(1)), state(&symbol, at(2))], [BookState::Seeded, BookState::Unknown]);
}

#[test]
fn a_live_writer_keeps_up() {
    let setup = setup();
    let mut writer = setup.write(Every::Messages(1_000));
    let before = writer.written();
    let mut loader = setup.stream.loader().unwrap();
    let end = setup.time(MESSAGES - 1).nanos();
    for (n, (_, symbol, package)) in setup.messages[..3_000].iter().enumerate() {
        loader.append(symbol, Timestamp(end + n as i64), package).unwrap();
    }
    loader.flush().unwrap();
    writer.wait(Duration::from_secs(5)).unwrap();
    while writer.step(1_000).unwrap() == Pass::More {}
    assert!(writer.written() > before);
    let found = setup.stream.book_at(&setup.db, &setup.messages[0].1, Timestamp(end + 3_000)).unwrap();
    assert!(matches!(found.start, BookStart::Checkpoint(time) if time.nanos() > end), "{:?}", found.start);
}

#[test]
fn a_stream_without_books_is_refused_and_a_checkpoint_in_parts_is_found() {
    let setup = setup();
    let db = &setup.db;
    let none =
        db.create_stream("none", "message M { x: i64 }".parse().unwrap(), StreamOptions::default()).unwrap();
    assert!(matches!(none.book_at(db, "A", Timestamp(1)), Err(BookError::NoBooks { .. })));
    let schema = SchemaBuilder::new().with::<Order>().finish();
    let orders = db.create_stream("orders", schema, StreamOptions::default()).unwrap();
    let mut loader = orders.loader().unwrap();
    for id in 0..9_000u64 {
        let (price, size) = ("10.5".parse().ok(), "1".parse().ok());
        let order = Order { side: Some(Side::Ask), price, size, order_id: Some(id), ..Order::default() };
        loader.append("A", Timestamp(id as i64), &order).unwrap();
    }
    loader.flush().unwrap();
    let mut writer = CheckpointWriter::open(db, &orders, Every::Messages(8_500)).unwrap();
    while writer.step(1_000).unwrap() == Pass::More {}
    assert_eq!(
        (writer.written(), db.stream(&checkpoints_of("orders")).unwrap().stats().unwrap().messages),
        (1, 3)
    );
    let found = orders.book_at(db, "A", Timestamp(8_999)).unwrap();
    assert_eq!((found.start, found.messages), (BookStart::Checkpoint(Timestamp(8_500)), 500));
    let book = found.books.venues()[0].orders().unwrap();
    assert_eq!((book.len(), book.position(8_999).unwrap().orders_ahead), (9_000, 8_999));
}
