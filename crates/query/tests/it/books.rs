//! Order books as tables: those of `Stream::book_at`, and the price of an order in them.

use crate::served::serve;
use crate::support::*;
use tapedb_codec::SchemaBuilder;
use tapedb_engine::{Database, Stream, StreamOptions};
use tapedb_market::feed::{Feed, FeedConfig};
use tapedb_market::{Gap, Package, Side};
use tapedb_market_streams::{CheckpointWriter, Every, Pass, StreamBooks};
use tapedb_query::{Options, Parameters, Place as Where, Sql, arrow};
use tapedb_schema::Timestamp;

/// A feed of two venues with books, and the times of its messages.
fn feed(messages: usize) -> (Place, Stream, Vec<Timestamp>) {
    let place = Place::new();
    let schema = SchemaBuilder::new().with::<Package>().with::<Gap>().finish();
    let stream = place.db.create_stream("feed", schema, StreamOptions::default()).unwrap();
    let config = FeedConfig { exchanges: 2, contracts_per_exchange: 2, depth: 10, ..FeedConfig::default() };
    let (mut feed, mut times) = (Feed::new(config).unwrap(), Vec::new());
    let mut loader = stream.loader().unwrap();
    for _ in 0..messages {
        let message = feed.next();
        loader.append(message.symbol, message.time, message.package).unwrap();
        times.push(message.time);
    }
    loader.close().unwrap();
    (place, stream, times)
}

/// Side, level, price and size of the books that the stream has.
fn expected(db: &Database, stream: &Stream, symbol: &str, time: Timestamp, depth: usize) -> Vec<String> {
    let books = stream.book_at(db, symbol, time).unwrap().books;
    let mut lines = Vec::new();
    for venue in books.venues() {
        for (side, name) in [(Side::Bid, "BID"), (Side::Ask, "ASK")] {
            for (level, number) in venue.levels(side).take(depth).zip(1..) {
                let price = books.price_units().decimal(level.price).to_f64();
                let size = books.size_units().decimal(level.size).to_f64();
                lines.push(format!("{name}|{number}|{price:?}|{size:?}"));
            }
        }
    }
    lines
}

#[test]
fn books_are_those_of_the_stream_wherever_the_query_runs() {
    let (place, stream, times) = feed(5_000);
    let check = |db: &Database, at: Where| {
        let sql = Sql::with_options(db, Options { place: at, ..Options::default() }).unwrap();
        for symbol in stream.symbols() {
            for (time, depth) in [(times[10], 3), (times[2_500], 100), (times[4_999], 1)] {
                let query = format!(
                    "SELECT side, level, price, size FROM book('feed', '{symbol}', '{time}', {depth})"
                );
                let found = rows_of(sql.query(&query).unwrap()).unwrap();
                let expected = expected(&place.db, &stream, &symbol, time, depth);
                assert!(time == times[10] || !expected.is_empty(), "{symbol} {time}");
                assert_eq!(found, expected, "{query}");
            }
        }
    };
    check(&place.db, Where::Here);
    stream.seal().unwrap();
    check(&place.db, Where::Here);
    let mut writer = CheckpointWriter::open(&place.db, &stream, Every::Messages(500)).unwrap();
    while writer.step(1_000).unwrap() == Pass::More {}
    check(&place.db, Where::Here);
    let (symbol, last) = (stream.symbols()[0].clone(), times[4_999]);
    let whole = expected(&place.db, &stream, &symbol, last, 10);
    let rows = place.rows(&format!("SELECT side, level, price, size FROM BOOK('FEED', '{symbol}')"));
    assert_eq!(rows, whole, "the last book, ten levels");
    let null = format!("SELECT side, level, price, size FROM book('feed', '{symbol}', NULL, NULL)");
    assert_eq!(place.rows(&null), whole);
    let named = format!("SELECT SIDE, level, b.price, size FROM book('feed', '{symbol}') b WHERE LEVEL = 1");
    let best: Vec<_> = whole.iter().filter(|line| line.split('|').nth(1) == Some("1")).cloned().collect();
    assert_eq!(place.rows(&named), best);
    let whole = expected(&place.db, &stream, &symbol, times[2_500], 4);
    let served = serve(place, |_| {});
    for at in [Where::Server, Where::Here] {
        let client =
            Sql::with_options(&served.client(), Options { place: at, ..Options::default() }).unwrap();
        let time = times[2_500];
        let query = format!("SELECT side, level, price, size FROM book('feed', '{symbol}', '{time}', 4)");
        assert_eq!(rows_of(client.query(&query).unwrap()).unwrap(), whole, "{at:?}");
    }
}

#[test]
fn values_of_books_may_be_parameters() {
    let (place, stream, times) = feed(2_000);
    let (symbol, time) = (stream.symbols()[0].clone(), times[1_500]);
    let sql = place.sql();
    let query = "SELECT side, level, price, size FROM book($stream, $symbol, $at::timestamp, $depth)";
    let text = str::to_string;
    let parameters = Parameters::named([
        ("stream", text("feed")),
        ("symbol", text(&symbol)),
        ("at", text(&time.to_string())),
        ("depth", text("2")),
    ]);
    let found = rows_of(sql.query_with(query, &parameters).unwrap()).unwrap();
    assert_eq!(found, expected(&place.db, &stream, &symbol, time, 2));
    let error = place.error(query).to_string();
    assert!(error.contains("no value"), "{error}");
}

#[test]
fn books_are_as_of_the_moment_of_the_query_and_exact_where_asked_for() {
    let (place, stream, times) = feed(2_000);
    let symbol = stream.symbols()[0].clone();
    let query = format!("SELECT price, size FROM book('feed', '{symbol}', NULL, 5)");
    let rows = place.sql().query(&query).unwrap();
    let before = expected(&place.db, &stream, &symbol, times[1_999], 5);
    let exact = place.sql_with(Options { decimals: "18,4".parse().unwrap(), ..Options::default() });
    let types = exact.query(&query).unwrap().schema();
    assert_eq!(*types.field(0).data_type(), arrow::datatypes::DataType::Decimal128(18, 4));
    let exact = rows_of(exact.query(&query).unwrap()).unwrap();
    let rough = rows_of(rows).unwrap();
    assert_eq!(rough.len(), before.len());
    for (exact, rough) in exact.iter().zip(&rough) {
        let numbers =
            |line: &str| line.split('|').map(|cell| cell.parse::<f64>().unwrap()).collect::<Vec<_>>();
        assert_eq!(numbers(exact), numbers(rough));
    }
    let coarse = place.sql_with(Options { decimals: "3,0".parse().unwrap(), ..Options::default() });
    let error = coarse.query(&query).and_then(rows_of).unwrap_err().to_string();
    assert!(error.contains("not exact as decimal(3,0)"), "{error}");
}

#[test]
fn what_has_no_book_is_an_error_and_an_unknown_symbol_has_no_rows() {
    let (place, ..) = feed(500);
    place.stream(
        "bars",
        BAR,
        &[(1, "A", r#"{"$type": "Bar", "n": 1, "price": "1", "note": null, "side": null}"#)],
    );
    assert!(place.rows("SELECT * FROM book('feed', 'nothing')").is_empty());
    assert!(place.rows("SELECT * FROM book('feed', 'nothing', '1900-01-01')").is_empty());
    for (query, what) in [
        ("SELECT * FROM book('fed', 'A')", "did you mean \"feed\""),
        ("SELECT * FROM book('bars', 'A')", "none of the record types that books are made of"),
        ("SELECT * FROM book('feed')", "book has 1 arguments"),
        ("SELECT * FROM book('feed', 'A', NULL, 5, 6)", "book has 5 arguments"),
        ("SELECT * FROM book('feed', 7)", "are texts"),
        ("SELECT * FROM book('feed', 'A', 'yesterday')", "yesterday"),
        ("SELECT * FROM book('feed', 'A', '9999-01-01')", "9999"),
        ("SELECT * FROM book('feed', 'A', NULL, 0)", "1 or more"),
        ("SELECT * FROM book('feed', 'A', NULL, -1)", "1 or more"),
        ("SELECT * FROM feed.Package p, book('feed', p.symbol) b", "p.symbol"),
    ] {
        let error = place.error(query).to_string();
        assert!(error.contains(what), "{query}: {error}");
    }
    let live = place.sql_with(Options { live: true, ..Options::default() });
    let error = live.query("SELECT * FROM book('feed', 'A')").and_then(rows_of).unwrap_err().to_string();
    assert!(error.contains("cannot run live"), "{error}");
}

#[test]
fn the_price_of_an_order_is_that_of_the_levels_it_takes() {
    let place = Place::new();
    let price = |arguments: &str| place.rows(&format!("SELECT l2price({arguments})"));
    assert_eq!(price("12, [8, 23], [5, 9.5]"), ["6.5"]);
    assert_eq!(price("12, 8, 5.0, 23, 9.5"), ["6.5"]);
    assert_eq!(price("100, [8, 23], [5, 9.5]"), ["NULL"]);
    assert_eq!(price("NULL, [8], [5]"), ["NULL"]);
    assert_eq!(price("1, [NULL, 8], [1, 5]"), ["NULL"]);
    assert_eq!(price("1, NULL, NULL"), ["NULL"]);
    for wrong in ["1", "1, 2", "1, 'a', [2]", "1, [1], 2"] {
        let error = place.error(&format!("SELECT l2price({wrong})")).to_string();
        assert!(error.contains("l2price"), "{wrong}: {error}");
    }
    let error = place.error("SELECT l2price(1, [1, 2], [3])").to_string();
    assert!(error.contains("2 sizes and 1 prices"), "{error}");
    let (place, stream, _) = feed(2_000);
    let symbol = stream.symbols()[0].clone();
    let query = format!(
        "SELECT l2price(1, array_agg(size ORDER BY level), array_agg(price ORDER BY level)) = min(price) \
         FROM book('feed', '{symbol}') WHERE side = 'ASK'"
    );
    assert_eq!(place.rows(&query), ["true"]);
}
