//! Many publishers and subscribers at once.

use crate::support::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;
use tapedb_schema::Timestamp;
use tapedb_topic::{Delivery, Subscriber, Topic, TopicError, Waiting};

const PUBLISHERS: u64 = 3;
const MESSAGES: u64 = 20_000;

/// All messages of a topic until each publisher has ended, and how many were missed.
fn read_all(mut subscriber: Subscriber) -> (Vec<(u64, u64, u64)>, u64) {
    let (mut all, mut missed, mut done) = (Vec::new(), 0, 0);
    while done < PUBLISHERS {
        match subscriber.next_within(Duration::from_secs(60)) {
            Ok(Some(message)) if message.symbol() == "end" => done += 1,
            Ok(Some(message)) => {
                let tick: Tick = message.decode().unwrap();
                assert!(tick.is_whole(), "{tick:?}");
                all.push((message.sequence(), tick.publisher, tick.number));
            }
            Ok(None) => panic!("no message after {} messages", all.len()),
            Err(TopicError::Missed { count, .. }) => missed += count,
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!((subscriber.missed(), subscriber.abandoned()), (missed, 0));
    (all, missed)
}

fn publish_all(topic: &Topic, of: u64) {
    let mut publisher = topic.publisher().unwrap();
    let symbol = publisher.symbol("A").unwrap();
    let mut number = 0;
    while number < MESSAGES {
        if number % 3 == 0 {
            let mut batch = publisher.batch();
            while number < MESSAGES && batch.len() < 1 + (number % 7) as usize {
                assert!(batch.push_by_id(symbol, Timestamp(0), &Tick::of(of, number)).unwrap());
                number += 1;
            }
            batch.commit().unwrap().sequence().unwrap();
        } else {
            publisher.publish_by_id(symbol, Timestamp(0), &Tick::of(of, number)).unwrap().sequence().unwrap();
            number += 1;
        }
    }
    publisher.publish("end", Timestamp(0), &Tick::of(of, number)).unwrap().sequence().unwrap();
}

#[test]
fn all_subscribers_see_everything_in_one_order() {
    let home = Home::new();
    let topic = home.topic(Delivery::Reliable);
    let waitings = [Waiting::Park, Waiting::Yield, Waiting::BackOff];
    let subscribers = waitings.map(|waiting| topic.subscriber().waiting(waiting).open().unwrap());
    let seen = thread::scope(|scope| {
        let readers = subscribers.map(|subscriber| scope.spawn(|| read_all(subscriber)));
        for of in 0..PUBLISHERS {
            // Each opens the topic itself, as another process does.
            let topic = home.topic(Delivery::Reliable);
            scope.spawn(move || publish_all(&topic, of));
        }
        readers.map(|reader| reader.join().unwrap())
    });
    let (first, missed) = &seen[0];
    assert_eq!((first.len() as u64, *missed), (PUBLISHERS * MESSAGES, 0));
    assert!(seen.iter().all(|other| other == &seen[0]));
    assert!(first.is_sorted_by(|a, b| a.0 < b.0));
    for of in 0..PUBLISHERS {
        let numbers: Vec<u64> = first.iter().filter(|seen| seen.1 == of).map(|seen| seen.2).collect();
        assert_eq!(numbers, (0..MESSAGES).collect::<Vec<_>>());
    }
}

#[test]
fn what_a_lapped_subscriber_reads_is_never_torn_and_the_rest_is_counted() {
    for alone in [true, false] {
        let home = Home::new();
        let topic = home.topic(Delivery::Lossy);
        let mut subscriber = topic.subscriber().waiting(Waiting::Yield).open().unwrap();
        let (stop, published) = (AtomicBool::new(false), AtomicU64::new(0));
        let (seen, missed) = thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut publisher =
                    if alone { topic.exclusive_publisher() } else { topic.publisher() }.unwrap();
                let mut number = 0;
                while !stop.load(Ordering::Relaxed) {
                    must_send(&mut publisher, number);
                    number += 1;
                    published.store(number, Ordering::Relaxed);
                }
                number
            });
            let (mut seen, mut missed) = (0, 0);
            let mut read_one = |subscriber: &mut Subscriber| match subscriber.next() {
                Ok(None) => false,
                Ok(Some(message)) => {
                    let tick: Tick = message.decode().unwrap();
                    assert!(tick.is_whole() && tick.number == message.sequence(), "{tick:?}");
                    assert_eq!(message.sequence(), seen + missed);
                    seen += 1;
                    true
                }
                Err(TopicError::Missed { first, count }) => {
                    assert_eq!(first, seen + missed);
                    missed += count;
                    true
                }
                Err(error) => panic!("{error}"),
            };
            for round in 0..200_000 {
                read_one(&mut subscriber);
                if round % 20_000 == 0 {
                    // Several laps of the ring.
                    let enough = published.load(Ordering::Relaxed) + 5000;
                    while published.load(Ordering::Relaxed) < enough {
                        thread::yield_now();
                    }
                }
            }
            stop.store(true, Ordering::Relaxed);
            let sent = writer.join().unwrap();
            while read_one(&mut subscriber) {}
            assert_eq!(seen + missed, sent);
            (seen, missed)
        });
        assert!(seen > 0 && missed > 0, "{seen} {missed}");
    }
}

#[test]
fn symbols_that_many_add_at_once_are_there_once() {
    let home = Home::new();
    let topic = home.topic(Delivery::Lossy);
    let names: Vec<String> = (0..100).map(|n| format!("SYMBOL{n}")).collect();
    thread::scope(|scope| {
        for shift in 0..4 {
            let (topic, names) = (&topic, &names);
            scope.spawn(move || {
                let mut publisher = topic.publisher().unwrap();
                for at in 0..names.len() {
                    publisher.symbol(&names[(at + shift * 25) % names.len()]).unwrap();
                }
            });
        }
    });
    assert_eq!(topic.stats().symbols, 100);
}
