//! Replays: messages a second at full speed into a topic, and how late messages are at the speed at which they happened.

use super::numbers::Numbers;
use super::tally::Tally;
use super::{Args, socket};
use crate::pool::feed_pool;
use crate::report::Report;
use crate::storage::Scratch;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tapedb_engine::{Database, Stream, StreamOptions};
use tapedb_market::Package;
use tapedb_replay::{Control, Player, ReplayError, ReplayHash, Report as Replayed, Speed, TopicSink};
use tapedb_schema::Timestamp;
use tapedb_terminal::{Failure, Ui};
use tapedb_topic::{Folder, Subscriber, Topic, TopicOptions, Waiting};

/// Times between two messages of the paced replay: at least, and how much more at most. One of eight is at the time before.
const STEP_NS: (i64, u64) = (20_000, 2_000_000);

/// The streams to replay, sealed.
pub struct Inputs {
    full: Input,
    /// What a WebSocket client must receive of the full one.
    texts: Tally,
    paced: Input,
}

/// A stream, and what a replay of it must deliver.
struct Input {
    stream: Stream,
    hash: u64,
    tally: Tally,
}

/// Loads the streams.
pub fn inputs(args: &Args, scratch: &Scratch) -> Result<Inputs, Failure> {
    let pool = feed_pool(args.updates.max(args.paced))?;
    let messages = pool.messages.iter().cycle();
    let fill = |name: &str, count: u64, time: &mut dyn FnMut(u64, Timestamp) -> Timestamp| {
        let stream = scratch.stream::<Package>(name, StreamOptions::default())?;
        let mut loader = stream.loader()?;
        for (number, (at, symbol, package)) in (0..count).zip(messages.clone()) {
            loader.append(symbol, time(number, *at), package)?;
        }
        loader.close()?;
        stream.seal()?;
        Input::of(stream)
    };
    let span = pool.span_ns();
    let round = pool.messages.len() as u64;
    let full = fill("replay.full", args.updates, &mut |number, at| {
        Timestamp(at.nanos() + (number / round) as i64 * span)
    })?;
    let (mut numbers, mut now) = (Numbers::new(7), 0);
    let paced = fill("replay.paced", args.paced, &mut |_, _| {
        if numbers.below(8) > 0 {
            now += STEP_NS.0 + numbers.below(STEP_NS.1) as i64;
        }
        Timestamp(now)
    })?;
    Ok(Inputs { texts: socket::expected(&full.stream)?, full, paced })
}

impl Input {
    fn of(stream: Stream) -> Result<Self, Failure> {
        let (mut hash, mut tally) = (ReplayHash::default(), Tally::default());
        let mut cursor = stream.cursor().open()?;
        while let Some(message) = cursor.next()? {
            hash.add(&message);
            tally.add(message.time(), message.symbol(), message.body());
        }
        drop(cursor);
        Ok(Self { stream, hash: hash.value(), tally })
    }
}

/// Replays once into a topic at full speed, and once at the speed at which it happened.
pub fn measure(inputs: &Inputs, db: &Database, report: &mut Report, ui: &Ui) -> Result<(), Failure> {
    ui.check_interrupt()?;
    let (seconds, _) = replay("market.replay.topic", &inputs.full, db, Speed::Max)?;
    let rate = inputs.full.tally.messages as f64 / seconds;
    report.add("market.replay.topic", "rate", "messages/s", rate);
    socket::measure(&inputs.full.stream, inputs.texts, db, report, ui)?;
    ui.check_interrupt()?;
    const CASE: &str = "market.replay.error";
    let (_, replayed) = replay(CASE, &inputs.paced, db, Speed::Times(1.0))?;
    if replayed.late.len() != replayed.messages {
        return Err(Failure::new(format!("{CASE}: a message was not due at an instant; please report this")));
    }
    let micros = |nanos: u64| nanos as f64 / 1e3;
    report.add(CASE, "p50", "µs", micros(replayed.late.value_at_quantile(0.5)));
    report.add(CASE, "p99", "µs", micros(replayed.late.value_at_quantile(0.99)));
    report.add(CASE, "max", "µs", micros(replayed.late.max()));
    Ok(())
}

/// A topic that is removed at the end.
struct Removed(Folder, String);

impl Drop for Removed {
    fn drop(&mut self) {
        let _ = Topic::delete(&self.0, &self.1);
    }
}

/// Replays into a topic with a subscriber; seconds until the subscriber has the last message. Fails unless it has all of them.
fn replay(case: &str, input: &Input, db: &Database, speed: Speed) -> Result<(f64, Replayed), Failure> {
    let removed = Removed(Folder::shared(), format!("bench-replay-{}", std::process::id()));
    let schema = input.stream.schema();
    let topic = Topic::create(&removed.0, &removed.1, schema, &TopicOptions::default())?;
    // It does not have to be woken: that would cost the replay a system call for each message.
    let subscriber = topic.subscriber().waiting(Waiting::BackOff).open()?;
    let mut sink = TopicSink::new(&topic, std::slice::from_ref(&input.stream)).map_err(failure)?;
    let player = Player::new(db.cursor([input.stream.name()])?.open()?, speed, Control::default());
    let is_over = AtomicBool::new(false);
    let began = Instant::now();
    let (replayed, received) = thread::scope(|scope| {
        let reader = scope.spawn(|| receive(subscriber, input.tally.messages, &is_over));
        let replayed = player.run(&mut sink);
        is_over.store(true, Ordering::Release);
        (replayed, reader.join())
    });
    let seconds = began.elapsed().as_secs_f64();
    let replayed = replayed.map_err(failure)?;
    let received = received
        .map_err(|_| Failure::new(format!("{case}: the subscriber has crashed; please report this")))??;
    if (replayed.hash, replayed.messages, received) != (input.hash, input.tally.messages, input.tally) {
        let expected = input.tally;
        return Err(Failure::new(format!(
            "{case}: sent {expected:?}, received {received:?}; please report this"
        )));
    }
    Ok((seconds, replayed))
}

/// Receives that many messages, or what there is when the replay is over.
fn receive(mut subscriber: Subscriber, messages: u64, is_over: &AtomicBool) -> Result<Tally, Failure> {
    let mut tally = Tally::default();
    while tally.messages < messages {
        // Looked at first: what was published before is then found.
        let is_last = is_over.load(Ordering::Acquire);
        match subscriber.next()? {
            Some(message) => tally.add(message.time(), message.symbol(), message.body()),
            None if is_last => break,
            None => subscriber.wait(Duration::from_millis(10)),
        }
    }
    Ok(tally)
}

fn failure(error: ReplayError) -> Failure {
    Failure::new(error.to_string())
}
