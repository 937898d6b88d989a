//! Copies on their own threads.

use crate::{Home, LONG, Tick, send};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use tapedb_codec::SchemaBuilder;
use tapedb_engine::{Late, StreamOptions};
use tapedb_schema::Timestamp;
use tapedb_topic::{Delivery, Folder, Topic, TopicError};
use tapedb_topic_copy::{
    Copier, CopierEvent, CopierIntervals, CopierOptions, CopierState, CopierStatus, CopyError, CopyOptions,
};

/// A test need not wait for the default intervals.
const SHORT: Duration = Duration::from_millis(1);
/// Long enough to see that it is failing.
const RETRY: Duration = Duration::from_millis(100);

/// A copier, and the names of its events.
fn start(home: &Home) -> (Copier, Arc<Mutex<Vec<&'static str>>>) {
    let events = Arc::<Mutex<Vec<&'static str>>>::default();
    let theirs = events.clone();
    let copier = Copier::start(&home.db, options(home), move |event| {
        theirs.lock().unwrap().push(match event {
            CopierEvent::Waiting => "waiting",
            CopierEvent::Began { .. } => "began",
            CopierEvent::Missed { .. } => "missed",
            CopierEvent::Ended => "ended",
            CopierEvent::Failed { .. } => "failed",
            _ => "?",
        });
    });
    (copier.unwrap(), events)
}

fn options(home: &Home) -> CopierOptions {
    CopierOptions {
        folders: vec![Folder::at(home.directory.path().join("none")), Folder::at(home.directory.path())],
        topic: "t".into(),
        stream: "copy".into(),
        stream_options: StreamOptions::default(),
        copy: CopyOptions::default(),
        intervals: CopierIntervals { search: SHORT, check: SHORT, retry_min: RETRY, retry_max: RETRY },
    }
}

fn until(copier: &Copier, is_so: impl Fn(&CopierStatus) -> bool) -> CopierStatus {
    let began = Instant::now();
    loop {
        let status = copier.status();
        if is_so(&status) {
            return status;
        }
        assert!(began.elapsed() < LONG, "{status:?}");
        thread::sleep(Duration::from_millis(1));
    }
}

fn numbers(home: &Home) -> Vec<u64> {
    home.copied().into_iter().map(|(_, number)| number).collect()
}

#[test]
fn a_copier_waits_for_its_topic_and_copies_what_was_published_before_it_is_stopped() {
    let home = Home::new();
    let (copier, events) = start(&home);
    until(&copier, |_| *events.lock().unwrap() == ["waiting"]);
    assert_eq!(copier.status().state, CopierState::Waiting);
    let topic = home.topic(Delivery::Reliable);
    let mut publisher = topic.publisher().unwrap();
    send(&mut publisher, 0..300);
    until(&copier, |status| status.copied == 300 && status.lag == 0 && status.lag_bytes == 0);
    send(&mut publisher, 300..900);
    copier.stop(LONG);
    let status = copier.status();
    assert_eq!((status.copied, status.missed, status.failures, status.position), (900, 0, 0, 900));
    assert_eq!(numbers(&home), (0..900).collect::<Vec<_>>());
    assert_eq!(*events.lock().unwrap(), ["waiting", "began"]);
    // Publishers do not wait for it any more.
    assert!(topic.stats().subscribers.is_empty());
    send(&mut publisher, 900..1000);
    assert_eq!((copier.status().lag, copier.status().lag_bytes > 0), (100, true));
}

#[test]
fn a_topic_that_is_created_again_is_copied_behind_the_old_one() {
    let home = Home::new();
    let (copier, events) = start(&home);
    for round in 0..3 {
        let topic = home.topic(Delivery::Reliable);
        send(&mut topic.publisher().unwrap(), round * 200..(round + 1) * 200);
        if round == 1 {
            until(&copier, |status| status.copied == 400);
        }
        until(&copier, |status| status.state == CopierState::Copying && status.position == 200);
        Topic::delete(&Folder::at(home.directory.path()), "t").unwrap();
        if round < 2 {
            until(&copier, |status| status.state == CopierState::Waiting);
        }
    }
    copier.stop(LONG);
    assert_eq!(numbers(&home), (0..600).collect::<Vec<_>>());
    assert!(events.lock().unwrap().iter().filter(|event| **event == "began").count() >= 3);
}

#[test]
fn messages_still_published_to_a_deleted_topic_are_copied() {
    let home = Home::new();
    let (copier, _) = start(&home);
    let topic = home.topic(Delivery::Reliable);
    let mut publisher = topic.publisher().unwrap();
    send(&mut publisher, 0..10);
    until(&copier, |status| status.copied == 10);
    Topic::delete(&Folder::at(home.directory.path()), "t").unwrap();
    // The copier checks the topic's name many times in between.
    for first in (10..100).step_by(10) {
        send(&mut publisher, first..first + 10);
        until(&copier, |status| status.copied == first + 10);
        thread::sleep(2 * SHORT);
    }
    drop(publisher);
    until(&copier, |status| status.state == CopierState::Waiting);
    assert_eq!(numbers(&home), (0..100).collect::<Vec<_>>());
}

#[test]
fn a_refused_message_stops_no_publisher_and_is_tried_again() {
    let home = Home::new();
    let strict = StreamOptions { late: Late::Refuse, ..StreamOptions::default() };
    let schema = SchemaBuilder::new().with::<Tick>().finish();
    let stream = home.db.create_stream("copy", schema, strict).unwrap();
    let topic = home.topic(Delivery::Reliable);
    let mut publisher = topic.publisher().unwrap();
    let (copier, events) = start(&home);
    send(&mut publisher, 100..200);
    until(&copier, |status| status.copied == 100);
    // Older than what is there.
    let late = Tick { number: 1000 };
    publisher.publish("A", Timestamp(0), &late).unwrap().sequence().unwrap();
    let failing = until(&copier, |status| status.state == CopierState::Failing);
    assert!(failing.failure.is_some_and(|why| why.contains("late")), "{events:?}");
    assert!(topic.stats().subscribers.is_empty(), "publishers would wait");
    send(&mut publisher, 200..300);
    assert!(copier.status().lag >= 101, "{:?}", copier.status());
    stream.alter(StreamOptions::default()).unwrap();
    let status = until(&copier, |status| status.copied == 201);
    assert_eq!((status.missed, status.failure), (0, None));
    copier.stop(LONG);
    let mut expected: Vec<u64> = (100..300).collect();
    expected.insert(100, 1000);
    assert_eq!(numbers(&home), expected);
    assert!(events.lock().unwrap().contains(&"failed"));
}

#[test]
fn an_invalid_name_of_a_topic_is_refused_at_once() {
    let home = Home::new();
    let wrong = CopierOptions { topic: "a/b".into(), ..options(&home) };
    let refused = Copier::start(&home.db, wrong, |_| {});
    assert!(matches!(refused, Err(CopyError::Topic(TopicError::Name { .. }))), "{refused:?}");
}
