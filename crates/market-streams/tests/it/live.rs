//! Live books beside books of history.

use super::{levels, setup};
use std::time::Duration;
use tapedb_engine::Stream;
use tapedb_market::{BookState, Gap, Package, PackageKind};
use tapedb_market_streams::{Every, LiveBook, StreamBooks};
use tapedb_schema::Timestamp;

fn append(stream: &Stream, symbol: &str, time: i64, package: &Package) {
    let mut loader = stream.loader().unwrap();
    loader.append(symbol, Timestamp(time), package).unwrap();
    loader.flush().unwrap();
}

fn advance(book: &mut LiveBook) -> bool {
    book.wait(Duration::from_secs(5)).unwrap();
    let mut changed = false;
    while book.advance().unwrap() {
        changed = true;
    }
    changed
}

#[test]
fn a_live_book_is_that_of_history_after_each_message() {
    let setup = setup();
    setup.write(Every::Messages(1_000));
    let (end, symbol) = (setup.time(29_999).nanos(), setup.messages[0].1.clone());
    let mut book = LiveBook::open(&setup.db, &setup.stream, &symbol).unwrap();
    assert!(!book.advance().unwrap());
    let mut changes = 0;
    for (n, (_, of, package)) in setup.messages[..200].iter().enumerate() {
        append(&setup.stream, of, end + n as i64, package);
        let is_ours = *of == symbol;
        assert_eq!(advance(&mut book), is_ours);
        changes += u64::from(is_ours);
        let expected = setup.stream.book_at(&setup.db, &symbol, Timestamp(end + n as i64)).unwrap();
        assert_eq!(levels(&book.book().books), levels(&expected.books), "{n}");
    }
    assert!(changes > 20 && book.reads() == 1, "{changes} {}", book.reads());
    assert!(matches!(book.book().start, tapedb_market_streams::BookStart::Checkpoint(_)));
}

#[test]
fn late_messages_and_gaps_are_where_they_belong() {
    let setup = setup();
    let (end, symbol) = (setup.time(29_999).nanos(), setup.messages[0].1.clone());
    let mut book = LiveBook::open(&setup.db, &setup.stream, &symbol).unwrap();
    let mut snapshot = setup.messages[0].2.clone();
    snapshot.kind = PackageKind::Snapshot;
    append(&setup.stream, &symbol, end + 10, &snapshot);
    assert!(advance(&mut book));
    let after = levels(&book.book().books);
    let mut late = snapshot.clone();
    late.entries.truncate(1);
    append(&setup.stream, &symbol, end + 5, &late);
    assert!(advance(&mut book));
    assert_eq!((levels(&book.book().books), book.reads()), (after, 2));

    let mut loader = setup.stream.loader().unwrap();
    loader.append("channel", Timestamp(end + 20), &Gap::default()).unwrap();
    loader.close().unwrap();
    assert!(advance(&mut book));
    assert_eq!(book.book().books.venues()[0].state(), BookState::Unknown);
    append(&setup.stream, &symbol, end + 30, &late);
    assert!(advance(&mut book));
    assert_eq!(book.book().books.venues()[0].state(), BookState::Seeded);
    assert_eq!((levels(&book.book().books).len(), book.reads()), (1, 3));
}

#[test]
fn a_symbol_may_come_later() {
    let setup = setup();
    let mut book = LiveBook::open(&setup.db, &setup.stream, "NEW").unwrap();
    assert!(book.book().books.venues().is_empty());
    let package = &setup.messages[0].2;
    append(&setup.stream, "NEW", 1, package);
    assert!(advance(&mut book));
    let expected = setup.stream.book_at(&setup.db, "NEW", Timestamp(1)).unwrap();
    assert_eq!(levels(&book.book().books), levels(&expected.books));
    assert!(!levels(&expected.books).is_empty());
}
