//! Waiting, and those who stand still.

use crate::support::*;
use std::thread;
use std::time::Duration;
use tapedb_topic::{Delivery, Sent, TopicError, Waiting};

const LONG: Duration = Duration::from_secs(60);

#[test]
fn however_a_subscriber_waits_a_single_message_wakes_it() {
    for waiting in [Waiting::Spin, Waiting::Yield, Waiting::Park, Waiting::BackOff] {
        let home = Home::new();
        let topic = home.topic(Delivery::Reliable);
        let mut subscriber = topic.subscriber().waiting(waiting).open().unwrap();
        let mut back = topic.subscriber().waiting(waiting).open().unwrap();
        let mut publisher = topic.publisher().unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0..200 {
                    let message = subscriber.next_within(LONG).unwrap().expect("a message");
                    assert_eq!(message.sequence(), number);
                }
            });
            for number in 0..200 {
                // One at a time: each finds the other asleep, or about to be.
                must_send(&mut publisher, number);
                assert_eq!(tick(&mut back).0, number);
                if number % 10 == 0 {
                    thread::sleep(Duration::from_millis(1));
                }
            }
        });
    }
}

#[test]
fn waiting_ends_when_its_time_is_over() {
    let home = Home::new();
    let topic = home.topic(Delivery::Reliable);
    for waiting in [Waiting::Spin, Waiting::Yield, Waiting::Park, Waiting::BackOff] {
        let mut subscriber = topic.subscriber().waiting(waiting).open().unwrap();
        assert!(subscriber.next_within(Duration::from_millis(5)).unwrap().is_none());
        assert!(subscriber.next_within(Duration::ZERO).unwrap().is_none());
        subscriber.wait(Duration::from_millis(5));
    }
}

#[test]
fn a_subscriber_that_stands_still_is_passed_over_and_told_exactly_what_it_missed() {
    for alone in [true, false] {
        let home = Home::new();
        let topic = home.topic(Delivery::Reliable);
        let mut still = topic.subscriber().open().unwrap();
        let mut busy = topic.subscriber().open().unwrap();
        let mut publisher = if alone { topic.exclusive_publisher() } else { topic.publisher() }.unwrap();
        for number in 0..3000 {
            must_send(&mut publisher, number);
            assert_eq!(tick(&mut busy).0, number);
        }
        assert_eq!(topic.stats().subscribers_passed_over, 1);
        let Err(TopicError::Missed { first: 0, count }) = still.next() else { panic!("nothing missed") };
        for number in count..3000 {
            assert_eq!(tick(&mut still).0, number);
        }
        assert!(still.next().unwrap().is_none() && still.missed() == count);
        // From then on it is waited for again.
        publisher.set_patience(Duration::ZERO);
        let more =
            (0..2000).take_while(|&number| matches!(send(&mut publisher, number), Sent::Published { .. }));
        assert!(more.count() < 1100);
    }
}

#[test]
fn one_that_reads_nothing_but_says_that_it_is_alive_is_waited_for() {
    let home = Home::new();
    let topic = home.topic(Delivery::Reliable);
    let slow = topic.subscriber().open().unwrap();
    let mut publisher = topic.publisher().unwrap();
    publisher.set_patience(Duration::ZERO);
    while matches!(send(&mut publisher, 0), Sent::Published { .. }) {}
    for _ in 0..40 {
        slow.touch();
        thread::sleep(Duration::from_millis(5));
        assert!(matches!(send(&mut publisher, 0), Sent::BackPressured(_)));
    }
    drop(slow);
    assert!(matches!(send(&mut publisher, 0), Sent::Published { .. }));
}
