//! Topics, their copies, and cursors over both.

mod copier;

use std::thread;
use std::time::Duration;
use tapedb_codec::{Record, SchemaBuilder};
use tapedb_engine::{Database, StreamOptions};
use tapedb_schema::Timestamp;
use tapedb_topic::{Delivery, Folder, Publisher, Topic, TopicOptions};
use tapedb_topic_copy::{AnyCursor, CopyError, CopyOptions, Joined, TopicCopy};

#[derive(Record, Default, Debug, Clone, PartialEq)]
#[record(message)]
struct Tick {
    number: u64,
}

const LONG: Duration = Duration::from_secs(60);

struct Home {
    directory: tempfile::TempDir,
    db: Database,
}

impl Home {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self { db: Database::open(directory.path().join("db")).unwrap(), directory }
    }

    fn topic(&self, delivery: Delivery) -> Topic {
        let options = TopicOptions { delivery, ring_bytes: 64 << 10, ..TopicOptions::default() };
        let schema = SchemaBuilder::new().with::<Tick>().finish();
        Topic::open_or_create(&Folder::at(self.directory.path()), "t", &schema, &options).unwrap()
    }

    fn copy(&self, topic: &Topic) -> TopicCopy {
        TopicCopy::open(topic, &self.db, "copy", StreamOptions::default(), CopyOptions::default()).unwrap()
    }

    /// Sequence numbers and numbers of what was copied.
    fn copied(&self) -> Vec<(u64, u64)> {
        let mut cursor = self.db.stream("copy").unwrap().cursor().from_sequence(0).open().unwrap();
        let mut all = Vec::new();
        while let Some(message) = cursor.next().unwrap() {
            all.push((message.sequence(), message.decode::<Tick>().unwrap().number));
        }
        all
    }
}

fn send(publisher: &mut Publisher, numbers: std::ops::Range<u64>) {
    for number in numbers {
        let symbol = ["A", "B"][number as usize % 2];
        publisher.publish(symbol, Timestamp(number as i64), &Tick { number }).unwrap().sequence().unwrap();
    }
}

fn drain(copy: &mut TopicCopy) {
    while copy.step(Duration::ZERO).unwrap() > 0 {}
    copy.flush().unwrap();
}

#[test]
fn a_copy_has_all_messages_in_order_and_goes_on_where_it_was() {
    let home = Home::new();
    let topic = home.topic(Delivery::Lossy);
    let mut publisher = topic.publisher().unwrap();
    let mut copy = home.copy(&topic);
    send(&mut publisher, 0..500);
    drain(&mut copy);
    assert_eq!((copy.progress().copied, copy.progress().lag), (500, 0));
    drop(copy);
    // Not copied yet, and still in the ring: the next copy gets them.
    send(&mut publisher, 500..900);
    let mut copy = home.copy(&topic);
    assert!(copy.progress().lag >= 400);
    drain(&mut copy);
    let expected: Vec<_> = (0..900).map(|number| (number, number)).collect();
    assert_eq!((copy.progress().copied, copy.progress().missed), (400, 0));
    assert!(home.copied() == expected, "a gap, or something twice");
}

#[test]
fn a_copy_counts_what_it_missed() {
    let home = Home::new();
    let topic = home.topic(Delivery::Lossy);
    let mut publisher = topic.publisher().unwrap();
    let mut copy = home.copy(&topic);
    send(&mut publisher, 0..100);
    drain(&mut copy);
    send(&mut publisher, 100..5000);
    drain(&mut copy);
    let missed = copy.progress().missed;
    assert_eq!((copy.progress().copied + missed, copy.progress().lag), (5000, 0));
    assert!(missed > 3000);
    drop(copy);
    // Also what it missed while it was closed.
    send(&mut publisher, 5000..9000);
    let mut copy = home.copy(&topic);
    drain(&mut copy);
    assert_eq!(copy.progress().copied + copy.progress().missed, 4000);
    let copied = home.copied();
    assert!(copied.is_sorted_by(|a, b| a.0 + 1 == b.0 && a.1 < b.1) && copied.last().unwrap().1 == 8999);
}

#[test]
fn a_copy_that_is_overtaken_before_its_first_message_counts_what_it_missed() {
    let home = Home::new();
    let topic = home.topic(Delivery::Lossy);
    let mut publisher = topic.publisher().unwrap();
    let mut copy = home.copy(&topic);
    send(&mut publisher, 0..5000);
    drain(&mut copy);
    let (copied, missed) = (copy.progress().copied, copy.progress().missed);
    assert!(missed > 3000 && copied + missed == 5000, "{copied} copied, {missed} missed");
    assert_eq!(home.copied().first().unwrap().1, missed);
}

#[test]
fn a_stream_that_cannot_be_a_copy_is_refused() {
    let home = Home::new();
    let topic = home.topic(Delivery::Lossy);
    let open = |name: &str, options| TopicCopy::open(&topic, &home.db, name, options, CopyOptions::default());
    let spaces = StreamOptions { spaces: 2, ..StreamOptions::default() };
    assert!(matches!(open("spaces", spaces), Err(CopyError::NoCopy { .. })));
    let other = "message Other { x: i64 }".parse().unwrap();
    home.db.create_stream("other", other, StreamOptions::default()).unwrap();
    assert!(open("other", StreamOptions::default()).is_err());
    let mut publisher = topic.publisher().unwrap();
    let mut copy = home.copy(&topic);
    let mut loader = home.db.stream("copy").unwrap().loader().unwrap();
    loader.append("A", Timestamp(0), &Tick::default()).unwrap();
    loader.flush().unwrap();
    send(&mut publisher, 0..1);
    copy.step(Duration::ZERO).unwrap();
    assert!(matches!(copy.flush(), Err(CopyError::NoCopy { .. })));
}

/// Numbers from a cursor, up to `last`.
fn numbers(cursor: &mut AnyCursor, last: u64) -> Vec<u64> {
    let mut numbers = Vec::new();
    while numbers.last() != Some(&last) {
        let message = cursor.next_within(LONG).unwrap().expect("a message");
        let tick: Tick = message.decode().unwrap();
        assert_eq!(
            (message.symbol(), message.time()),
            (["A", "B"][tick.number as usize % 2], Timestamp(tick.number as i64))
        );
        numbers.push(tick.number);
    }
    numbers
}

#[test]
fn a_strategy_runs_unchanged_on_a_stream_and_on_a_topic() {
    let home = Home::new();
    let topic = home.topic(Delivery::Reliable);
    let mut cursors: Vec<AnyCursor> = vec![topic.subscriber().open().unwrap().into()];
    let mut publisher = topic.publisher().unwrap();
    let mut copy = home.copy(&topic);
    cursors.push(home.db.stream("copy").unwrap().cursor().live().open().unwrap().into());
    send(&mut publisher, 0..300);
    drain(&mut copy);
    for mut cursor in cursors {
        assert_eq!(numbers(&mut cursor, 299), (0..300).collect::<Vec<_>>());
        assert!(cursor.next().unwrap().is_none());
    }
}

#[test]
fn history_and_topic_join_without_a_gap_while_everything_runs() {
    for filtered in [false, true] {
        let home = Home::new();
        let topic = home.topic(Delivery::Reliable);
        let mut copy = home.copy(&topic);
        let mut publisher = topic.publisher().unwrap();
        send(&mut publisher, 0..700);
        drain(&mut copy);
        const LAST: u64 = 60_001;
        thread::scope(|scope| {
            scope.spawn(|| {
                send(&mut publisher, 700..20_000);
                // The last ones are published when both subscribers are live.
                while topic.stats().subscribers.len() < 2 {
                    thread::yield_now();
                }
                send(&mut publisher, 20_000..LAST + 1);
            });
            let copying = scope.spawn(move || {
                while copy.progress().next_sequence <= LAST {
                    copy.step(Duration::from_millis(10)).unwrap();
                }
            });
            let (mut history, mut live) = (home.db.stream("copy").unwrap().cursor(), topic.subscriber());
            if filtered {
                (history, live) = (history.symbols(["B"]), live.symbols(["B"]));
            }
            let joined = Joined::open(&topic, &home.db, "copy", history, live).unwrap();
            let step = if filtered { 2 } else { 1 };
            let expected: Vec<u64> = (0..=LAST).skip(step - 1).step_by(step).collect();
            let mut cursor = AnyCursor::from(joined);
            assert!(numbers(&mut cursor, LAST) == expected, "a gap, or something twice");
            let AnyCursor::Joined(joined) = cursor else { panic!("another cursor") };
            assert!(joined.is_live());
            copying.join().unwrap();
        });
    }
}
