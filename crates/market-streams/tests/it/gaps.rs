//! Gaps of streams: recorded ones, holes in sequence numbers, silence; and what nothing proves.

use std::time::Duration;
use tapedb_codec::SchemaBuilder;
use tapedb_engine::{Database, StreamOptions};
use tapedb_market::{Entry, Gap, GapCause, Level2Update, Package, PackageKind, SequenceRange, Trade};
use tapedb_market_streams::{GapScan, GapSummary, Pass, Verdict, cause_name};
use tapedb_schema::{Ascii, Timestamp};

type Messages<'a> = &'a [(&'a str, i64, Result<Package, Gap>)];

fn update(first: u64, last: u64, previous: Option<u64>) -> Result<Package, Gap> {
    let entries = vec![Entry::SequenceRange(SequenceRange { first, previous })];
    Ok(Package { sequence: Some(last), entries, ..Package::default() })
}

fn plain(kind: PackageKind) -> Result<Package, Gap> {
    Ok(Package { kind, entries: vec![Entry::Level2Update(Level2Update::default())], ..Package::default() })
}

fn gap(cause: GapCause) -> Result<Package, Gap> {
    Err(Gap { cause, ..Gap::default() })
}

/// Time, symbol, cause, missing numbers, begin and end of each gap.
fn scan(messages: Messages<'_>, symbols: &[&str], silence: Option<Duration>) -> (Vec<String>, GapSummary) {
    let directory = tempfile::tempdir().unwrap();
    let db = Database::open(directory.path().join("db")).unwrap();
    let schema = SchemaBuilder::new().with::<Package>().with::<Gap>().finish();
    let stream = db.create_stream("s", schema, StreamOptions::default()).unwrap();
    let mut loader = stream.loader().unwrap();
    for (symbol, time, message) in messages {
        match message {
            Ok(package) => loader.append(symbol, Timestamp(*time), package).unwrap(),
            Err(gap) => loader.append(symbol, Timestamp(*time), gap).unwrap(),
        }
    }
    loader.flush().unwrap();
    let symbols: Vec<String> = symbols.iter().map(|symbol| (*symbol).to_string()).collect();
    let mut scan = GapScan::open(&stream, stream.cursor(), &symbols, silence).unwrap();
    let mut found = Vec::new();
    while scan.step(1, &mut found).unwrap() == Pass::More {}
    let text = |number: Option<u64>| number.map_or("-".into(), |number| number.to_string());
    let time = |time: Option<Timestamp>| time.map_or("-".into(), |time| time.nanos().to_string());
    let line = |found: &tapedb_market_streams::FoundGap| {
        let gap = &found.gap;
        let kind = if found.is_recorded { "recorded" } else { cause_name(gap.cause) };
        let parts = [text(gap.first_missing), text(gap.last_missing), time(gap.from), time(gap.to)];
        format!("{} {} {kind} {}", found.time.nanos(), found.symbol, parts.join(" "))
    };
    (found.iter().map(line).collect(), scan.summary().clone())
}

#[test]
fn holes_in_sequence_numbers_are_found() {
    let messages = [
        ("A", 1, update(1, 5, None)),
        ("A", 2, update(6, 9, None)),
        ("B", 2, update(900, 901, None)),
        ("A", 7, update(12, 14, None)),
        ("A", 8, update(40, 41, Some(20))),
        ("A", 9, update(42, 43, Some(41))),
    ];
    let (found, summary) = scan(&messages[..3], &[], None);
    assert_eq!((found.len(), summary.verdict(), summary.complete), (0, Verdict::Complete, 2));
    let (found, summary) = scan(&messages, &[], None);
    assert_eq!(found, ["7 A sequence break 10 11 2 7", "8 A sequence break 15 20 7 8"]);
    assert_eq!((summary.verdict(), summary.complete, summary.with_gaps), (Verdict::Gaps, 1, 1));
}

/// An update of a venue, with levels.
fn of_venue(exchange: &str, first: u64, last: u64) -> Result<Package, Gap> {
    let exchange = Ascii::new(exchange).ok();
    update(first, last, None).map(|mut package| {
        package.entries.push(Entry::Level2Update(Level2Update { exchange, ..Level2Update::default() }));
        package
    })
}

#[test]
fn each_venue_of_a_symbol_has_its_own_numbers() {
    let messages = [
        ("A", 1, of_venue("X", 1, 5)),
        ("A", 2, of_venue("Y", 9_001, 9_002)),
        ("A", 3, of_venue("X", 6, 9)),
        // Without levels: of the venue that it continues.
        ("A", 4, update(10, 10, None)),
        ("A", 5, of_venue("X", 11, 11)),
        ("A", 6, of_venue("Y", 9_003, 9_003)),
        ("A", 8, of_venue("X", 14, 15)),
        ("A", 9, update(77, 78, None)),
    ];
    let (found, summary) = scan(&messages[..6], &[], None);
    assert_eq!((found.len(), summary.verdict(), summary.numbered), (0, Verdict::Complete, 6));
    let (found, summary) = scan(&messages, &[], None);
    assert_eq!(found, ["8 A sequence break 12 13 5 8"]);
    assert_eq!((summary.numbered, summary.unnumbered), (7, 1));
    // A recorded gap of one venue leaves the others' numbers as they are.
    let recorded = Gap { cause: GapCause::Reconnect, exchange: Ascii::new("X").ok(), ..Gap::default() };
    let messages = [
        messages[0].clone(),
        messages[1].clone(),
        ("A", 3, Err(recorded)),
        ("A", 4, of_venue("X", 70, 71)),
        ("A", 5, of_venue("Y", 9_005, 9_006)),
    ];
    let (found, _) = scan(&messages, &[], None);
    assert_eq!(found, ["3 A recorded - - - -", "5 A sequence break 9003 9004 2 5"]);
}

#[test]
fn what_nothing_proves_cannot_be_verified() {
    let good = ("A", 1, update(1, 5, None));
    let of = |messages: Messages<'_>| scan(messages, &[], None).1;
    assert_eq!(of(&[]).verdict(), Verdict::CannotBeVerified);
    assert_eq!(of(&[("A", 1, plain(PackageKind::Snapshot))]).verdict(), Verdict::CannotBeVerified);
    let snapshot = of(&[good.clone(), ("A", 2, plain(PackageKind::Snapshot))]);
    assert_eq!(snapshot.verdict(), Verdict::Complete);
    for symbol in ["A", "B"] {
        let summary = of(&[good.clone(), (symbol, 2, plain(PackageKind::Update))]);
        assert_eq!((summary.verdict(), summary.unverifiable), (Verdict::CannotBeVerified, 1), "{symbol}");
        assert_eq!((summary.numbered, summary.unnumbered, summary.messages), (1, 1, 2));
    }
}

#[test]
fn numbers_of_trades_prove_nothing_about_the_book() {
    let mut trades = update(900, 905, None);
    trades.as_mut().unwrap().entries.push(Entry::Trade(Trade::default()));
    let messages = [("A", 1, update(1, 5, None)), ("A", 2, trades), ("A", 3, update(6, 9, None))];
    let (found, summary) = scan(&messages, &[], None);
    assert_eq!((found.len(), summary.numbered, summary.unnumbered), (0, 2, 1));
    assert_eq!(summary.verdict(), Verdict::CannotBeVerified);
}

#[test]
fn recorded_gaps_are_listed_and_our_own_drops_are_counted_apart() {
    let messages = [
        ("A", 1, update(1, 5, None)),
        ("A", 3, gap(GapCause::Dropped)),
        // The numbers between are those of the recorded gap.
        ("A", 4, update(70, 75, None)),
    ];
    let (found, summary) = scan(&messages, &[], None);
    assert_eq!(found, ["3 A recorded - - - -"]);
    assert_eq!((summary.own_drops, summary.gaps.len(), summary.verdict()), (1, 0, Verdict::Gaps));
}

#[test]
fn gaps_of_a_channel_concern_all_symbols_and_those_of_a_symbol_do_not() {
    let mut messages =
        vec![("A", 1, update(1, 5, None)), ("B", 1, update(1, 5, None)), ("B", 2, gap(GapCause::Reconnect))];
    let (found, summary) = scan(&messages, &["A"], None);
    assert_eq!((found.len(), summary.verdict(), summary.complete), (0, Verdict::Complete, 1));
    messages.push(("channel", 3, gap(GapCause::MissingFile)));
    let (found, summary) = scan(&messages, &["A"], None);
    assert_eq!(found, ["3 channel recorded - - - -"]);
    assert_eq!((summary.verdict(), summary.complete, summary.with_gaps), (Verdict::Gaps, 0, 1));
    let (found, summary) = scan(&messages, &[], None);
    assert_eq!((found.len(), summary.with_gaps, summary.gaps["missing file"]), (2, 2, 1));
}

#[test]
fn silence_is_a_gap_beyond_its_limit_also_where_it_has_not_ended() {
    let messages = [
        ("A", 0, update(1, 5, None)),
        ("B", 0, update(1, 5, None)),
        ("A", 1_000_000_000, update(6, 9, None)),
        ("A", 2_000_000_001, update(10, 12, None)),
    ];
    assert_eq!(scan(&messages, &[], None).1.verdict(), Verdict::Complete);
    let (found, summary) = scan(&messages, &[], Some(Duration::from_secs(1)));
    let expected = ["2000000001 A silence - - 1000000000 2000000001", "2000000001 B silence - - 0 -"];
    assert_eq!((found, summary.with_gaps), (expected.map(String::from).to_vec(), 2));
}

#[test]
fn updates_that_come_twice_are_no_gap_and_numbers_that_begin_again_prove_nothing() {
    let snapshot = |sequence| {
        plain(PackageKind::Snapshot).map(|package| Package { sequence: Some(sequence), ..package })
    };
    let numbers = |of: &[u64]| -> Vec<(&'static str, i64, Result<Package, Gap>)> {
        of.iter().zip(1..).map(|(number, time)| ("A", time, update(*number, *number, None))).collect()
    };
    let (gaps, summary) = scan(&numbers(&[1, 2, 3, 2, 3, 3, 4, 1, 5]), &[], None);
    assert_eq!((gaps.len(), summary.verdict()), (0, Verdict::Complete));
    // An old snapshot that comes late.
    let mut messages = numbers(&[1, 2, 3, 4]);
    messages.push(("A", 5, snapshot(2)));
    messages.push(("A", 6, update(5, 5, Some(4))));
    assert_eq!(scan(&messages, &[], None).1.verdict(), Verdict::Complete);
    // Numbers that begin again with a snapshot: what came before it is not known.
    let mut messages = numbers(&[100, 101]);
    messages.push(("A", 5, snapshot(3)));
    messages.extend([(4, 6), (5, 7)].map(|(number, time)| ("A", time, update(number, number, None))));
    let (gaps, summary) = scan(&messages, &[], None);
    assert_eq!((gaps.len(), summary.verdict()), (0, Verdict::CannotBeVerified));
    // And a hole after it is one.
    messages.push(("A", 8, update(9, 9, None)));
    assert_eq!(scan(&messages, &[], None).0.len(), 1);
    // Without one.
    let begin = std::iter::once(5_000).chain(1..=1_200).collect::<Vec<u64>>();
    let (gaps, summary) = scan(&numbers(&begin), &[], None);
    assert_eq!((gaps.len(), summary.verdict()), (0, Verdict::CannotBeVerified));
}
