//! One publisher, one subscriber, one thread.

use crate::support::*;
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::time::Duration;
use tapedb_schema::Timestamp;
use tapedb_skipped::skipped;
use tapedb_topic::{
    BadFile, Delivery, Folder, PUBLISHERS_MAX, Sent, Topic, TopicError, TopicOptions, TopicPosition,
};

#[test]
fn messages_arrive_as_they_were_published_lap_after_lap() {
    for alone in [true, false] {
        let home = Home::new();
        let topic = home.topic(Delivery::Reliable);
        let mut subscriber = topic.subscriber().open().unwrap();
        let mut publisher = if alone { topic.exclusive_publisher() } else { topic.publisher() }.unwrap();
        for number in 0..5000 {
            let time = Timestamp(number as i64 - 100);
            let symbol = format!("S{}", number % 7);
            let note = Note { number, text: text(number, 3000) };
            let sent = publisher.publish(&symbol, time, &note).unwrap();
            assert_eq!(sent, Sent::Published { sequence: number });
            let message = subscriber.next().unwrap().expect("it is visible at once");
            assert_eq!((message.sequence(), message.time(), message.symbol()), (number, time, &*symbol));
            assert_eq!(message.decode::<Note>().unwrap(), note);
            assert_eq!(
                (message.type_name(), message.record().unwrap().get("number").unwrap().to_string()),
                ("Note", number.to_string())
            );
        }
        assert!(subscriber.next().unwrap().is_none());
        let stats = topic.stats();
        assert_eq!((stats.next_sequence, stats.symbols), (5000, 7));
        assert!(stats.bytes > 20 * (64 << 10), "{stats:?}");
        assert_eq!((stats.publishers[0].messages, stats.subscribers[0].behind), (5000, 0));
    }
}

#[test]
fn batches_are_visible_whole_and_in_order() {
    for alone in [true, false] {
        let home = Home::new();
        let topic = home.topic(Delivery::Reliable);
        let mut subscriber = topic.subscriber().open().unwrap();
        let mut publisher = if alone { topic.exclusive_publisher() } else { topic.publisher() }.unwrap();
        let symbol = publisher.symbol("A").unwrap();
        let (mut number, mut read) = (0, 0);
        for round in 0..400u64 {
            let mut batch = publisher.batch();
            let first = number;
            while batch.len() < 1 + (round % 60) as usize
                && batch.push_by_id(symbol, Timestamp(1), &Note { number, text: text(number, 200) }).unwrap()
            {
                number += 1;
            }
            assert!(!batch.is_empty() && subscriber.next().unwrap().is_none());
            assert_eq!(batch.commit().unwrap(), Sent::Published { sequence: first });
            while let Some(message) = subscriber.next().unwrap() {
                let note: Note = message.decode().unwrap();
                assert_eq!((message.sequence(), note), (read, Note { number: read, text: text(read, 200) }));
                read += 1;
            }
            assert_eq!(read, number);
            let mut dropped = publisher.batch();
            assert!(dropped.push_by_id(symbol, Timestamp(1), &Tick::of(9, 9)).unwrap());
        }
        assert!(number > 4000);
    }
}

#[test]
fn dynamic_values_and_bodies_are_published_too() {
    let home = Home::new();
    let topic = home.topic(Delivery::Reliable);
    let mut subscriber = topic.subscriber().open().unwrap();
    let mut publisher = topic.publisher().unwrap();
    let note = topic.layouts().from_json(r#"{"$type": "Note", "number": 7, "text": "seven"}"#).unwrap();
    publisher.publish_value("A", Timestamp(1), &note).unwrap().sequence();
    let mut body = Vec::new();
    topic.layouts().encode(&note, &mut body).unwrap();
    publisher.publish_body("B", Timestamp(2), note.type_id, &body).unwrap().sequence();
    assert!(matches!(
        publisher.publish_body("B", Timestamp(2), note.type_id, &body[1..]),
        Err(TopicError::Decode(_))
    ));
    for symbol in ["A", "B"] {
        let message = subscriber.next().unwrap().expect("a message");
        assert_eq!((message.symbol(), message.body()), (symbol, &*body));
    }
    assert!(subscriber.next().unwrap().is_none());
}

#[test]
fn a_full_ring_names_the_slowest_subscriber_and_goes_on_when_it_does() {
    for alone in [true, false] {
        let home = Home::new();
        let topic = home.topic(Delivery::Reliable);
        let mut slow = topic.subscriber().open().unwrap();
        let mut unprotected = topic.subscriber().without_back_pressure().open().unwrap();
        let mut publisher = if alone { topic.exclusive_publisher() } else { topic.publisher() }.unwrap();
        publisher.set_timeout(Duration::ZERO);
        let sent = (0..)
            .take_while(|&number| matches!(send(&mut publisher, number), Sent::Published { .. }))
            .count();
        assert!((500..1024).contains(&sent), "{sent}");
        let Sent::BackPressured(slowest) = send(&mut publisher, 0) else { panic!("there was space") };
        assert!(slowest.is_subscriber && slowest.process == std::process::id(), "{slowest:?}");
        assert_eq!(topic.stats().publishers[0].back_pressured, 2);
        for number in 0..sent as u64 {
            assert_eq!(tick(&mut slow).1.number, number);
        }
        assert!(slow.next().unwrap().is_none());
        for number in 0..10_000 {
            must_send(&mut publisher, number);
            assert_eq!(tick(&mut slow).1.number, number);
        }
        // It was not waited for, and gets the number of missed messages.
        let Err(TopicError::Missed { first: 0, count }) = unprotected.next() else {
            panic!("nothing missed")
        };
        let (sequence, tick) = tick(&mut unprotected);
        assert_eq!((sequence, tick.number + sent as u64), (count, count));
    }
}

#[test]
fn a_lossy_topic_never_waits_and_counts_exactly_what_was_missed() {
    for alone in [true, false] {
        let home = Home::new();
        let topic = home.topic(Delivery::Lossy);
        let mut subscriber = topic.subscriber().open().unwrap();
        let mut publisher = if alone { topic.exclusive_publisher() } else { topic.publisher() }.unwrap();
        let (mut sent, mut seen, mut missed) = (0, 0, 0);
        for round in 0..300 {
            for _ in 0..round * 13 % 4001 {
                assert_eq!(must_send(&mut publisher, sent), sent);
                sent += 1;
            }
            loop {
                match subscriber.next() {
                    Ok(None) => break,
                    Ok(Some(message)) => {
                        let tick: Tick = message.decode().unwrap();
                        assert!(tick.is_whole() && tick.number == message.sequence());
                        assert_eq!(message.sequence(), seen + missed);
                        seen += 1;
                    }
                    Err(TopicError::Missed { first, count }) => {
                        assert_eq!(first, seen + missed);
                        missed += count;
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            assert_eq!(seen + missed, sent);
        }
        assert!(missed > 0 && seen > 0 && subscriber.missed() == missed, "{seen} {missed}");
    }
}

#[test]
fn a_late_subscriber_begins_now_or_with_the_oldest() {
    for alone in [true, false] {
        let home = Home::new();
        let topic = home.topic(Delivery::Lossy);
        let mut publisher = if alone { topic.exclusive_publisher() } else { topic.publisher() }.unwrap();
        for number in 0..100 {
            must_send(&mut publisher, number);
        }
        let mut oldest = topic.subscriber().from_oldest().open().unwrap();
        assert_eq!(tick(&mut oldest).0, 0);
        for number in 100..10_000 {
            must_send(&mut publisher, number);
        }
        let mut oldest = topic.subscriber().from_oldest().open().unwrap();
        let first = tick(&mut oldest).0;
        assert!((9_000..9_400).contains(&first), "{first}");
        let mut now = topic.subscriber().open().unwrap();
        assert!(now.next().unwrap().is_none());
        must_send(&mut publisher, 10_000);
        assert_eq!(tick(&mut now).0, 10_000);
        for number in first + 1..=10_000 {
            assert_eq!(tick(&mut oldest).0, number);
        }
    }
}

#[test]
fn only_the_requested_messages_arrive() {
    let home = Home::new();
    let topic = home.topic(Delivery::Lossy);
    let filtered = topic.subscriber().symbols(["B", "later"]).types(["Note"]);
    let mut subscriber = filtered.open().unwrap();
    let mut publisher = topic.publisher().unwrap();
    let note = Note { number: 1, text: "x".into() };
    for symbol in ["A", "B", "later"] {
        publisher.publish(symbol, Timestamp(1), &note).unwrap().sequence();
        publisher.publish(symbol, Timestamp(1), &Tick::of(0, 1)).unwrap().sequence();
    }
    for (symbol, sequence) in [("B", 2), ("later", 4)] {
        let message = subscriber.next().unwrap().expect("a message");
        assert_eq!((message.symbol(), message.sequence(), message.type_name()), (symbol, sequence, "Note"));
        assert!(matches!(message.decode::<Tick>(), Err(TopicError::Type { .. })));
    }
    assert!(subscriber.next().unwrap().is_none());
    assert_eq!(subscriber.next_sequence(), 6);
    assert!(matches!(topic.subscriber().types(["None"]).open(), Err(TopicError::Type { .. })));
}

#[test]
fn limits_are_errors() {
    let home = Home::new();
    let topic = home.topic(Delivery::Lossy);
    let mut publisher = topic.publisher().unwrap();
    let large = Note { number: 1, text: "x".repeat(10_000) };
    assert!(matches!(publisher.publish("A", Timestamp(1), &large), Err(TopicError::TooLarge { .. })));
    let largest = Note { number: 1, text: "x".repeat(topic.body_bytes_max() - 20) };
    publisher.publish("A", Timestamp(1), &largest).unwrap().sequence();
    assert!(matches!(publisher.symbol(""), Err(TopicError::Symbol { .. })));
    assert!(matches!(publisher.symbol(&"x".repeat(256)), Err(TopicError::Symbol { .. })));
    let full = (0..).map(|n| publisher.symbol(&format!("SYM{n:05}"))).find_map(Result::err).unwrap();
    assert!(matches!(full, TopicError::SymbolsFull { bytes: 4096, .. }), "{full}");
    let foreign = {
        let other = Topic::create(&home.folder, "other", &schema(), &options(Delivery::Lossy)).unwrap();
        other.publisher().unwrap().symbol("A").unwrap()
    };
    assert!(matches!(publisher.publish_by_id(foreign, Timestamp(1), &large), Err(TopicError::Symbol { .. })));
    let others: Vec<_> = (1..PUBLISHERS_MAX).map(|_| topic.publisher().unwrap()).collect();
    assert!(matches!(topic.publisher(), Err(TopicError::Full { most: PUBLISHERS_MAX, .. })));
    drop(others);
    assert!(matches!(topic.exclusive_publisher(), Err(TopicError::PublisherThere)));
    drop(publisher);
    let alone = when_free(|| topic.exclusive_publisher());
    assert!(matches!(topic.publisher(), Err(TopicError::PublisherThere)));
    drop(alone);
    when_free(|| topic.publisher());
}

/// Opens a publisher after another one was dropped. A process that another test has just forked shares the lock of the dropped one
/// until it executes its program.
fn when_free<T>(open: impl Fn() -> Result<T, TopicError>) -> T {
    for _ in 0..10_000 {
        match open() {
            Err(TopicError::PublisherThere) => std::thread::sleep(Duration::from_millis(1)),
            opened => return opened.unwrap(),
        }
    }
    panic!("the lock of a dropped publisher is not released");
}

#[test]
fn topics_are_found_listed_and_deleted_by_name() {
    let home = Home::new();
    let (folder, schema) = (&home.folder, schema());
    assert!(matches!(Topic::open(folder, "a"), Err(TopicError::NotFound { .. })));
    let options = TopicOptions { ring_bytes: 1 << 16, ..TopicOptions::default() };
    let topic = Topic::create(folder, "a", &schema, &options).unwrap();
    assert!(matches!(Topic::create(folder, "a", &schema, &options), Err(TopicError::Exists { .. })));
    Topic::create(folder, "b", &schema, &options).unwrap();
    assert_eq!(folder.list().unwrap(), ["a", "b"]);
    assert_eq!((Topic::open(folder, "a").unwrap().options(), topic.schema()), (options.clone(), &schema));
    let other = "message Other { x: i64 }".parse().unwrap();
    let refused = Topic::open_or_create(folder, "a", &other, &options);
    assert!(matches!(refused, Err(TopicError::OtherSchema { .. })));
    Topic::delete(folder, "a").unwrap();
    assert!(matches!(Topic::delete(folder, "a"), Err(TopicError::NotFound { .. })));
    assert_eq!(folder.list().unwrap(), ["b"]);
    let nowhere = Folder::at(folder.path().join("none"));
    assert!(nowhere.list().unwrap().is_empty());
    let odd = TopicOptions { ring_bytes: 100_000, ..options };
    assert!(matches!(Topic::create(folder, "c", &schema, &odd), Err(TopicError::Options(_))));
}

#[test]
fn a_file_that_is_no_topic_is_refused() {
    let home = Home::new();
    let topic = home.topic(Delivery::Lossy);
    let whole = fs::read(topic.path()).unwrap();
    let path = home.folder.file("bad").unwrap();
    let refused = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        matches!(Topic::open(&home.folder, "bad"), Err(TopicError::File { .. }))
    };
    for length in [0, 100, 4096, whole.len() - 1] {
        assert!(refused(&whole[..length]), "{length}");
    }
    for at in [0, 8, 12, 20, 40, 48, 60, 72, 80, 121] {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        assert!(refused(&bytes), "byte {at}");
    }
    assert!(!refused(&whole));
}

#[test]
fn a_file_that_was_cut_short_is_refused_by_processes_that_have_it_open() {
    let home = Home::new();
    let topic = home.topic(Delivery::Reliable);
    topic.check().unwrap();
    let (mut publisher, subscriber) = (topic.publisher().unwrap(), topic.subscriber().open().unwrap());
    must_send(&mut publisher, 0);
    let file = fs::OpenOptions::new().write(true).open(topic.path()).unwrap();
    file.set_len(4096).unwrap();
    let is_refused =
        |error: TopicError| matches!(error, TopicError::File { bad: BadFile::Length { .. }, .. });
    assert!(is_refused(topic.check().unwrap_err()));
    assert!(is_refused(topic.publisher().unwrap_err()) && is_refused(topic.subscriber().open().unwrap_err()));
    assert!(is_refused(Topic::open(&home.folder, "t").unwrap_err()));
    // Their slots do not exist any more and must not be touched.
    drop((publisher, subscriber));
}

#[test]
fn a_process_that_has_a_topic_open_can_check_that_it_was_deleted() {
    let home = Home::new();
    let topic = home.topic(Delivery::Reliable);
    Topic::delete(&home.folder, "t").unwrap();
    let is_replaced = || match topic.check() {
        Err(TopicError::Deleted { is_replaced, .. }) => is_replaced,
        other => panic!("{other:?}"),
    };
    assert!(!is_replaced());
    let other = home.topic(Delivery::Reliable);
    assert!(is_replaced());
    other.check().unwrap();
    // The processes that have it open can still use it.
    let mut subscriber = topic.subscriber().open().unwrap();
    must_send(&mut topic.publisher().unwrap(), 7);
    assert_eq!(tick(&mut subscriber).1.number, 7);
    assert_eq!((topic.position().next_sequence, other.position()), (1, TopicPosition::default()));
    assert_eq!(subscriber.position(), topic.position());
}

#[test]
fn holes_are_filled_before_they_are_written_to() {
    let home = Home::new();
    let topic = home.topic(Delivery::Lossy);
    let whole = fs::read(topic.path()).unwrap();
    let path = home.folder.file("holes").unwrap();
    let file = fs::File::create(&path).unwrap();
    file.set_len(whole.len() as u64).unwrap();
    // All that is not zero lies before the ring.
    let ring_at = whole.len() - (64 << 10);
    file.write_all_at(&whole[..ring_at], 0).unwrap();
    let blocks = || fs::metadata(&path).unwrap().blocks() * 512;
    if blocks() >= whole.len() as u64 {
        return skipped("the file system has no holes");
    }
    let filled = Topic::open(&home.folder, "holes").unwrap();
    assert!(blocks() >= whole.len() as u64);
    assert_eq!(filled.position(), TopicPosition::default());
}
