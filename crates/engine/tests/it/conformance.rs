//! The promises of the database, one by one.

use super::place::new_database;
use crate::support::*;
use std::time::Duration;
use tapedb_codec::{Record, SchemaBuilder};
use tapedb_engine::{Durability, Error, Invalid, Late, NotFound, Position, Rejected, Stale, StreamOptions};
use tapedb_schema::{Decimal64, Schema, Timestamp};

mod other {
    use super::*;

    /// A `Tick` with other fields.
    #[derive(Record, Debug, Default)]
    #[record(message)]
    pub struct Tick {
        pub price: f64,
    }

    /// A newer `Quote`.
    #[derive(Record, Debug, Default, PartialEq)]
    #[record(message)]
    pub struct Quote {
        pub size: Option<u32>,
        #[record(default = "\"XNAS\"")]
        pub venue: String,
        pub ask: Option<Decimal64>,
        #[record(alias = "number")]
        pub id: u64,
    }

    /// Only nested in others.
    #[derive(Record, Debug, Default)]
    pub struct Leg {
        pub size: u32,
    }

    #[derive(Record, Debug, Default)]
    #[record(message)]
    pub struct Package {
        pub legs: Vec<Leg>,
    }
}

#[test]
fn a_stream_is_opened_or_created() {
    let (_directory, db) = new_database();
    for _ in 0..2 {
        let stream = db.open_or_create_stream("ticks", schema(), StreamOptions::default()).unwrap();
        assert_eq!((stream.name(), stream.schema()), ("ticks", &schema()));
    }
    let another = SchemaBuilder::new().with::<other::Tick>().finish();
    let error = db.open_or_create_stream("ticks", another, StreamOptions::default()).unwrap_err();
    assert!(matches!(error, Error::Invalid(Invalid::Type { .. })), "{error}");
}

#[test]
fn streams_are_created_listed_described_and_deleted() {
    let (_directory, db) = new_database();
    let options = StreamOptions {
        durability: Durability::Sync,
        late: Late::Refuse,
        file_bytes_max: 1 << 20,
        spaces: 1,
        ..StreamOptions::default()
    };
    for name in ["b", "a/é", "with space"] {
        let stream = db.create_stream(name, schema(), options).unwrap();
        assert_eq!((stream.name(), stream.options(), stream.schema()), (name, options, &schema()));
    }
    assert_eq!(db.streams().unwrap(), ["a/é", "b", "with space"]);
    let described = db.stream("b").unwrap().describe();
    assert!(described.contains("durability sync, late messages refuse"), "{described}");
    assert_eq!(described.parse::<Schema>().unwrap(), schema());

    assert_error(
        db.create_stream("b", schema(), options),
        |e| matches!(e, Error::Invalid(Invalid::StreamExists { .. })),
        "already",
    );
    assert_error(
        db.stream("c"),
        |e| matches!(e, Error::NotFound(NotFound::Stream { .. })),
        "there is a/é, b, with space",
    );
    assert_error(
        db.delete_stream("c"),
        |e| matches!(e, Error::NotFound(NotFound::Stream { .. })),
        "no stream \"c\"",
    );
    db.delete_stream("b").unwrap();
    assert_error(db.stream("b"), |e| matches!(e, Error::NotFound(NotFound::Stream { .. })), "b");
    assert_eq!(db.streams().unwrap(), ["a/é", "with space"]);
    db.create_stream("b", schema(), options).unwrap();
}

#[test]
fn bad_names_and_schemas_are_refused() {
    let (_directory, db) = new_database();
    for name in ["", "a\nb", &"x".repeat(81)] {
        let created = db.create_stream(name, schema(), StreamOptions::default());
        assert_error(
            created,
            |e| matches!(e, Error::Invalid(Invalid::StreamName { .. })),
            "cannot name a stream",
        );
    }
    let nested = SchemaBuilder::new().with::<other::Leg>().finish();
    let created = db.create_stream("s", nested, StreamOptions::default());
    assert_error(created, |e| matches!(e, Error::Invalid(Invalid::Type { .. })), "needs a message type");
    let twice = Schema { records: [schema().records, schema().records].concat(), enums: Vec::new() };
    let created = db.create_stream("s", twice, StreamOptions::default());
    assert_error(created, |e| matches!(e, Error::Invalid(Invalid::Schema(_))), "schema");
    assert!(db.streams().unwrap().is_empty());
}

#[test]
fn everything_is_there_after_reopening() {
    let (mut home, db) = new_database();
    let stream = db.create_stream("s", schema(), small_files()).unwrap();
    append_ticks(&stream, 0..1000);
    let (before, created) = (stream.stats().unwrap(), stream.created());
    assert_eq!((before.messages, before.next_sequence, before.symbols), (1000, 1000, 1));
    assert_eq!(before.times, Some((Timestamp(0), Timestamp(999))));
    drop((stream, db));

    let db = home.open();
    let stream = db.stream("s").unwrap();
    assert!(stream.recovery().is_clean(), "{}", stream.recovery());
    assert_eq!((stream.stats().unwrap().messages, stream.created()), (1000, created));
    assert_eq!(stream.options(), small_files());
    append_ticks(&stream, 1000..1500);
    assert_eq!(drain(&mut stream.cursor().open().unwrap()), (0..1500).collect::<Vec<_>>());
}

#[test]
fn types_must_be_those_of_the_stream() {
    let (_directory, db) = new_database();
    let stream = db.create_stream("s", schema(), StreamOptions::default()).unwrap();
    let mut loader = stream.loader().unwrap();
    let appended = loader.append("A", Timestamp(0), &other::Tick { price: 1.0 });
    assert_error(appended, |e| matches!(e, Error::Invalid(Invalid::Type { .. })), "other fields");
    let appended = loader.append("A", Timestamp(0), &other::Package::default());
    assert_error(appended, |e| matches!(e, Error::Invalid(Invalid::Type { .. })), "no such record type");
    loader.append("A", Timestamp(1), &Tick::of(1)).unwrap();
    loader.flush().unwrap();

    let mut cursor = stream.cursor().open().unwrap();
    let message = cursor.next().unwrap().unwrap();
    assert_error(
        message.decode::<Quote>(),
        |e| matches!(e, Error::Invalid(Invalid::Type { .. })),
        "of another type",
    );
    for _ in ["compared", "remembered"] {
        assert_error(
            message.decode::<other::Tick>(),
            |e| matches!(e, Error::Invalid(Invalid::Version { .. })),
            "Tick.price",
        );
    }
    assert_eq!(message.decode::<Tick>().unwrap(), Tick::of(1));
    assert_eq!(message.view::<Tick>().unwrap().number(), 1);
    assert_eq!(message.record().unwrap().get("number").unwrap().to_string(), "1");
    let opened = stream.cursor().types(["Trade"]).open();
    assert_error(opened, |e| matches!(e, Error::Invalid(Invalid::Type { .. })), "no such message type");
}

#[test]
fn records_that_are_no_messages_are_refused() {
    let (_directory, db) = new_database();
    let schema = SchemaBuilder::new().with::<other::Package>().finish();
    let stream = db.create_stream("s", schema, StreamOptions::default()).unwrap();
    let mut loader = stream.loader().unwrap();
    let appended = loader.append("A", Timestamp(0), &other::Leg { size: 1 });
    assert_error(appended, |e| matches!(e, Error::Invalid(Invalid::Type { .. })), "only nested");
    let leg = stream.layouts().schema().record("Leg").unwrap().0;
    let appended = loader.append_body("A", Timestamp(0), leg, &[0; 4]);
    assert_error(appended, |e| matches!(e, Error::Invalid(Invalid::Type { .. })), "only nested");
    let package = stream.layouts().schema().record("Package").unwrap().0;
    let appended = loader.append_body("A", Timestamp(0), package, &[1, 2, 3]);
    assert_error(appended, |e| matches!(e, Error::Rejected(Rejected::Malformed { .. })), "not appended");
    let appended = loader.append_body("A", Timestamp(0), 77, &[]);
    assert_error(appended, |e| matches!(e, Error::Rejected(Rejected::Malformed { .. })), "not appended");
    assert_eq!((loader.pending(), loader.flush().unwrap()), (0, 0));
    let opened = stream.cursor().types(["Leg"]).open();
    assert_error(opened, |e| matches!(e, Error::Invalid(Invalid::Type { .. })), "no such message type");
}

#[test]
fn symbols_are_checked_and_belong_to_their_stream() {
    let (_directory, db) = new_database();
    let one = db.create_stream("one", schema(), StreamOptions::default()).unwrap();
    let two = db.create_stream("two", schema(), StreamOptions::default()).unwrap();
    let (mut into_one, mut into_two) = (one.loader().unwrap(), two.loader().unwrap());
    for symbol in ["", &"x".repeat(256)] {
        let appended = into_one.append(symbol, Timestamp(0), &Tick::of(0));
        assert_error(appended, |e| matches!(e, Error::Log(_)), "1 to 255 bytes");
    }
    let symbol = into_one.symbol("A").unwrap();
    into_one.append_by_id(symbol, Timestamp(0), &Tick::of(0)).unwrap();
    let appended = into_two.append_by_id(symbol, Timestamp(0), &Tick::of(0));
    assert_error(appended, |e| matches!(e, Error::Invalid(Invalid::Type { .. })), "in another stream");
    assert_eq!((one.symbols(), two.symbols()), (vec!["A".to_string()], vec![]));
}

#[test]
fn late_messages_come_back_in_time_order() {
    let (_directory, db) = new_database();
    let stream = db.create_stream("s", schema(), StreamOptions::default()).unwrap();
    let mut loader = stream.loader().unwrap();
    for number in [5, 3, 9, 1] {
        loader.append("A", Timestamp(number), &Tick::of(number as u64)).unwrap();
        loader.flush().unwrap();
    }
    assert_eq!(drain(&mut stream.cursor().open().unwrap()), [1, 3, 5, 9]);
    assert_eq!(drain(&mut stream.cursor().reverse().open().unwrap()), [9, 5, 3, 1]);
}

#[test]
fn late_messages_are_refused_where_the_stream_says_so() {
    let (mut home, db) = new_database();
    let options = StreamOptions { late: Late::Refuse, ..StreamOptions::default() };
    let stream = db.create_stream("s", schema(), options).unwrap();
    let mut loader = stream.loader().unwrap();
    loader.append("A", Timestamp(10), &Tick::of(0)).unwrap();
    loader.append("A", Timestamp(10), &Tick::of(1)).unwrap();
    let late = |e: &Error| {
        matches!(e, Error::Rejected(Rejected::Late { time: Timestamp(9), last: Timestamp(10), .. }))
    };
    assert_error(loader.append("A", Timestamp(9), &Tick::of(2)), late, "refuses late messages");
    loader.flush().unwrap();
    assert_error(loader.append("A", Timestamp(9), &Tick::of(2)), late, "refuses late messages");

    let mut overtaking = stream.loader().unwrap();
    loader.append("A", Timestamp(20), &Tick::of(2)).unwrap();
    overtaking.append("A", Timestamp(30), &Tick::of(3)).unwrap();
    overtaking.flush().unwrap();
    assert_error(
        loader.flush(),
        |e| matches!(e, Error::Rejected(Rejected::Late { .. })),
        "refuses late messages",
    );
    assert_eq!(loader.pending(), 0);
    loader.close().unwrap();
    overtaking.close().unwrap();
    drop((stream, db));

    let stream = home.open().stream("s").unwrap();
    // Of a remote stream only a flush reports it.
    let mut loader = stream.loader().unwrap();
    let appended = loader.append("A", Timestamp(29), &Tick::of(4)).and_then(|()| loader.flush());
    assert_error(appended, |e| matches!(e, Error::Rejected(Rejected::Late { .. })), "refuses");
    assert_eq!(drain(&mut stream.cursor().open().unwrap()), [0, 1, 3]);
}

/// Many loaders that flush after every message share their syncs; a cursor that waits misses none of it.
#[test]
fn loaders_of_a_sync_stream_share_it() {
    const LOADERS: u64 = 8;
    const EACH: u64 = 40;
    let (mut home, db) = new_database();
    let options = StreamOptions { durability: Durability::Sync, ..small_files() };
    let stream = db.create_stream("s", schema(), options).unwrap();
    let mut live = stream.cursor().skip_history().live().open().unwrap();
    let load = |first: u64| {
        let mut loader = stream.loader().unwrap();
        for number in first..first + EACH {
            loader.append("A", Timestamp(number as i64), &Tick::of(number)).unwrap();
            let end = loader.flush().unwrap();
            let readable = stream.stats().unwrap().next_sequence;
            assert!(readable >= end, "acknowledged up to {end}, readable up to {readable}");
        }
    };
    let seen = std::thread::scope(|scope| {
        let load = &load;
        (0..LOADERS).for_each(|loader| drop(scope.spawn(move || load(loader * EACH))));
        let next = |_| number_of(&live.next_within(Duration::from_secs(60)).unwrap().unwrap());
        (0..LOADERS * EACH).map(next).collect::<Vec<u64>>()
    });
    drop((live, stream, db));

    let stream = home.open().stream("s").unwrap();
    assert_eq!(drain(&mut stream.cursor().open().unwrap()), (0..LOADERS * EACH).collect::<Vec<_>>());
    for loader in 0..LOADERS {
        let own = seen.iter().copied().filter(|number| number / EACH == loader);
        assert!(
            own.eq(loader * EACH..(loader + 1) * EACH),
            "in the order in which it was appended: {seen:?}"
        );
    }
}

#[test]
fn a_refused_message_leaves_no_trace() {
    let (_directory, db) = new_database();
    let options = StreamOptions { late: Late::Refuse, ..StreamOptions::default() };
    let stream = db.create_stream("s", schema(), options).unwrap();
    let mut loader = stream.loader().unwrap();
    let huge = Tick { note: "x".repeat(5 << 20), ..Tick::of(0) };
    assert_error(
        loader.append("A", Timestamp(100), &huge),
        |e| matches!(e, Error::Rejected(Rejected::Size(_))),
        "over the limit",
    );
    loader.append("A", Timestamp(50), &Tick::of(1)).unwrap();
    loader.close().unwrap();
    assert_eq!(drain(&mut stream.cursor().open().unwrap()), [1]);
}

#[test]
fn a_deleted_stream_is_reported_once_and_its_successor_is_another() {
    let (home, db) = new_database();
    let reader = home.beside();
    let (stream, other) = (
        db.create_stream("s", schema(), small_files()).unwrap(),
        db.create_stream("t", schema(), StreamOptions::default()).unwrap(),
    );
    append_ticks(&stream, 0..500);
    let mut loader = stream.loader().unwrap();
    let mut cursors: Vec<_> = [&db, &reader]
        .iter()
        .flat_map(|db| {
            let history = db.cursor(["s", "t"]).unwrap().live().open().unwrap();
            let live = db.cursor(["s", "t"]).unwrap().skip_history().open().unwrap();
            [history, live]
        })
        .collect();
    for cursor in &mut cursors {
        cursor.next().unwrap();
    }
    db.delete_stream("s").unwrap();
    let deleted = |e: &Error| matches!(e, Error::Stale(Stale::Deleted { .. }));
    loader.append("A", Timestamp(0), &Tick::of(0)).unwrap();
    assert_error(loader.flush(), deleted, "has been deleted");
    let successor = db.create_stream("s", schema(), small_files()).unwrap();
    append_ticks(&successor, 1000..1600);
    append_ticks(&other, 2000..2001);

    for cursor in &mut cursors {
        let (mut errors, mut numbers) = (0, Vec::new());
        while numbers.last() != Some(&2000) || errors == 0 {
            match cursor.next_within(Duration::from_secs(60)) {
                Ok(message) => numbers.push(number_of(&message.expect("the other stream goes on"))),
                Err(Error::Stale(Stale::Deleted { name })) => errors += usize::from(name == "s"),
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!((errors, cursor.next().unwrap().is_none()), (1, true));
        assert!(numbers.iter().all(|&number| number < 500 || number == 2000), "{numbers:?}");
    }
    for db in [&db, &reader] {
        assert_eq!(drain(&mut db.cursor(["s"]).unwrap().open().unwrap()), (1000..1600).collect::<Vec<_>>());
    }
    db.delete_stream("s").unwrap();
    assert_error(reader.stream("s"), |e| matches!(e, Error::NotFound(NotFound::Stream { .. })), "there is t");
}

#[test]
fn positions_must_fit() {
    let (_directory, db) = new_database();
    let stream = db.create_stream("s", schema(), StreamOptions::default()).unwrap();
    db.create_stream("t", schema(), StreamOptions::default()).unwrap();
    append_ticks(&stream, 0..10);
    let wrong = |e: &Error| matches!(e, Error::Invalid(Invalid::Position { .. }));
    let resume = |text: &str| stream.cursor().resume(&text.parse::<Position>().unwrap());
    assert_error(resume("live 11 s\n").open(), wrong, "has 10 messages, the position is after 11");
    assert_error(resume("start 3 t\n").open(), wrong, "is \"t\", the cursor's \"s\"");
    assert_error(resume("").open(), wrong, "lacks stream \"s\"");
    assert_error(resume("live 3 s\n").reverse().open(), wrong, "cannot begin there");
    let apart = |e: &Error| matches!(e, Error::Invalid(Invalid::Cursor { .. }));
    assert_error(stream.cursor().reverse().live().open(), apart, "cannot be live");
    for text in ["live", "live x s", "history 1 2 s", "start -1 s", "what 1 s", "\n"] {
        assert_error(text.parse::<Position>(), wrong, "line 1");
    }
    // Not live, from a live position: the messages that arrived since.
    assert_eq!(drain(&mut resume("live 7 s\n").open().unwrap()), [7, 8, 9]);

    // The name is not enough.
    let position = stream.cursor().open().unwrap().position();
    assert_eq!(position.to_string().parse::<Position>().unwrap(), position);
    assert_eq!(drain(&mut stream.cursor().resume(&position).open().unwrap()).len(), 10);
    db.delete_stream("s").unwrap();
    let successor = db.create_stream("s", schema(), StreamOptions::default()).unwrap();
    append_ticks(&successor, 100..120);
    assert_error(successor.cursor().resume(&position).open(), wrong, "in another stream \"s\"");
}

#[test]
fn a_cursor_waits_up_to_its_timeout() {
    let (_directory, db) = new_database();
    let stream = db.create_stream("s", schema(), StreamOptions::default()).unwrap();
    db.create_stream("t", schema(), StreamOptions::default()).unwrap();
    for streams in [&["s"][..], &["s", "t"]] {
        let mut cursor = db.cursor(streams).unwrap().skip_history().open().unwrap();
        assert!(cursor.next_within(Duration::ZERO).unwrap().is_none() && cursor.is_live());
        let waiting = std::thread::spawn(move || {
            cursor.next_within(Duration::MAX).unwrap().map(|message| number_of(&message))
        });
        append_ticks(&stream, 7..8);
        assert_eq!(waiting.join().unwrap(), Some(7));
    }
    assert!(db.cursor([""; 0]).unwrap().open().unwrap().next().unwrap().is_none());
}

#[test]
fn a_waiting_cursor_is_woken_when_its_stream_is_deleted() {
    let (_directory, db) = new_database();
    for streams in [&["s"][..], &["s", "t"]] {
        for name in streams {
            db.create_stream(name, schema(), StreamOptions::default()).unwrap();
        }
        let mut cursor = db.cursor(streams).unwrap().live().open().unwrap();
        assert!(cursor.next().unwrap().is_none());
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let found = cursor.next_within(Duration::MAX).map(|message| message.map(|m| m.sequence()));
            sender.send(found).unwrap();
        });
        // Usually it is waiting now.
        std::thread::sleep(Duration::from_millis(50));
        streams.iter().for_each(|name| db.delete_stream(name).unwrap());
        let found = receiver.recv_timeout(Duration::from_secs(60)).expect("the cursor wakes");
        assert_error(found, |e| matches!(e, Error::Stale(Stale::Deleted { .. })), "has been deleted");
    }
}

#[test]
fn the_ends_of_time_are_times_like_others() {
    let (_directory, db) = new_database();
    let stream = db.create_stream("s", schema(), StreamOptions::default()).unwrap();
    let mut loader = stream.loader().unwrap();
    for (number, time) in [i64::MIN, i64::MIN + 1, 0, i64::MAX].into_iter().enumerate() {
        loader.append("A", Timestamp(time), &Tick::of(number as u64)).unwrap();
        loader.flush().unwrap();
    }
    assert_eq!(drain(&mut stream.cursor().open().unwrap()), [0, 1, 2, 3]);
    assert_eq!(drain(&mut stream.cursor().reverse().open().unwrap()), [3, 2, 1, 0]);
    let until = |to: i64, from: i64| {
        let builder = stream.cursor().to(Timestamp(to)).from(Timestamp(from));
        let reversed = drain(&mut builder.clone().reverse().open().unwrap());
        let found = drain(&mut builder.open().unwrap());
        assert!(found.iter().rev().eq(&reversed));
        found
    };
    assert!(until(i64::MIN, i64::MIN).is_empty());
    assert_eq!(until(i64::MIN + 1, i64::MIN), [0]);
    assert_eq!(until(i64::MAX, i64::MIN), [0, 1, 2]);
    assert!(until(i64::MIN, 0).is_empty());
}

/// Contains itself.
#[derive(Record, Debug, Default, PartialEq)]
#[record(message)]
struct Node {
    children: Vec<Node>,
}

impl Node {
    /// This many records in each other.
    fn nested(levels: usize) -> Self {
        (1..levels).fold(Self::default(), |child, _| Self { children: vec![child] })
    }
}

#[test]
fn what_is_too_deep_to_be_read_is_not_taken() {
    let (_directory, db) = new_database();
    let schema = SchemaBuilder::new().with::<Node>().finish();
    let stream = db.create_stream("s", schema, StreamOptions::default()).unwrap();
    let mut loader = stream.loader().unwrap();
    let mut taken = Vec::new();
    for levels in 1..60 {
        match loader.append("A", Timestamp(levels as i64), &Node::nested(levels)) {
            Ok(()) => taken.push(levels),
            refused => assert_error(
                refused,
                |e| matches!(e, Error::Rejected(Rejected::Malformed { .. })),
                "not appended",
            ),
        }
    }
    assert!(taken.len() >= 10 && taken.len() < 40, "{taken:?}");
    loader.close().unwrap();
    let mut cursor = stream.cursor().open().unwrap();
    for levels in taken {
        let message = cursor.next().unwrap().unwrap();
        assert_eq!(message.decode::<Node>().unwrap(), Node::nested(levels));
        message.view::<Node>().unwrap();
        message.record().unwrap();
    }
    assert!(cursor.next().unwrap().is_none());
}

#[test]
fn a_newer_type_reads_an_older_stream() {
    let (_directory, db) = new_database();
    let stream = db.create_stream("quotes", schema(), StreamOptions::default()).unwrap();
    let mut loader = stream.loader().unwrap();
    for number in 0..10 {
        loader.append("A", Timestamp(number as i64), &Quote::of(number)).unwrap();
        loader.append("A", Timestamp(number as i64), &Tick::of(number)).unwrap();
    }
    let appended = loader.append("A", Timestamp(10), &other::Quote::default());
    assert_error(appended, |e| matches!(e, Error::Invalid(Invalid::Type { .. })), "other fields");
    loader.close().unwrap();
    let mut cursor = stream.cursor().types(["Quote"]).open().unwrap();
    let mut quote = other::Quote { size: Some(1), ..Default::default() };
    for number in 0..10 {
        let message = cursor.next().unwrap().unwrap();
        message.decode_into(&mut quote).unwrap();
        let ask = Quote::of(number).ask;
        assert_eq!(quote, other::Quote { size: None, venue: "XNAS".into(), ask, id: number });
        assert_eq!(message.decode::<Quote>().unwrap(), Quote::of(number));
        assert_error(
            message.view::<other::Quote>(),
            |e| matches!(e, Error::Invalid(Invalid::Type { .. })),
            "use `decode`",
        );
    }
    assert!(cursor.next().unwrap().is_none());
    let mut ticks = stream.cursor().types(["Tick"]).open().unwrap();
    let tick = ticks.next().unwrap().unwrap();
    assert_error(
        tick.decode::<other::Quote>(),
        |e| matches!(e, Error::Invalid(Invalid::Type { .. })),
        "of another type",
    );
}
