//! Waiting, and stalled subscribers.

use crate::support::*;
use std::thread;
use std::time::Duration;
use tapedb_topic::{Delivery, Sent, TopicError, Waiting};

const LONG: Duration = Duration::from_secs(60);

#[test]
fn a_single_message_wakes_a_subscriber_however_it_waits() {
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
                // One at a time: each finds the other one asleep, or about to sleep.
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
fn waiting_ends_after_its_timeout() {
    let home = Home::new();
    let topic = home.topic(Delivery::Reliable);
    for waiting in [Waiting::Spin, Waiting::Yield, Waiting::Park, Waiting::BackOff] {
        let mut subscriber = topic.subscriber().waiting(waiting).open().unwrap();
        assert!(subscriber.next_within(Duration::from_millis(1)).unwrap().is_none());
        assert!(subscriber.next_within(Duration::ZERO).unwrap().is_none());
        subscriber.wait(Duration::from_millis(1));
    }
}

#[test]
fn a_stalled_subscriber_is_passed_over_and_gets_the_exact_number_of_missed_messages() {
    for alone in [true, false] {
        let home = Home::new();
        let topic = home.topic_with_short_stall();
        let mut stalled = topic.subscriber().open().unwrap();
        let mut busy = topic.subscriber().open().unwrap();
        let mut publisher = if alone { topic.exclusive_publisher() } else { topic.publisher() }.unwrap();
        for number in 0..3000 {
            must_send(&mut publisher, number);
            assert_eq!(tick(&mut busy).0, number);
        }
        assert_eq!(topic.stats().subscribers_passed_over, 1);
        let Err(TopicError::Missed { first: 0, count }) = stalled.next() else { panic!("nothing missed") };
        for number in count..3000 {
            assert_eq!(tick(&mut stalled).0, number);
        }
        assert!(stalled.next().unwrap().is_none() && stalled.missed() == count);
        // From then on it is waited for again.
        publisher.set_timeout(Duration::ZERO);
        let more =
            (0..2000).take_while(|&number| matches!(send(&mut publisher, number), Sent::Published { .. }));
        assert!(more.count() < 1100);
    }
}

#[test]
fn a_subscriber_that_reads_nothing_but_calls_touch_is_waited_for() {
    let home = Home::new();
    let topic = home.topic_with_short_stall();
    let slow = topic.subscriber().open().unwrap();
    let mut publisher = topic.publisher().unwrap();
    publisher.set_timeout(Duration::ZERO);
    while matches!(send(&mut publisher, 0), Sent::Published { .. }) {}
    for _ in 0..10 {
        slow.touch();
        // Longer than the stall time.
        thread::sleep(Duration::from_millis(2));
        assert!(matches!(send(&mut publisher, 0), Sent::BackPressured(_)));
    }
    drop(slow);
    assert!(matches!(send(&mut publisher, 0), Sent::Published { .. }));
}
