//! What the death of a subscriber does to its publisher: both in processes of their own, the subscriber's to be killed.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::medium::{Failure, Medium, Publish, Subscribe};
use crate::program::Settings;
use crate::record::{SHORT, Writer};
use crate::together::connect;

/// Between two looks at how far the publisher has come.
const LOOK: Duration = Duration::from_millis(1);

/// Publishes at full speed for `settings.duration`, from when a subscriber is there, and tells how long the longest time
/// was in which nothing could be published, and whether that was so until the end.
pub fn publish<M: Medium>(medium: &M, settings: &Settings) -> Result<Value, Failure> {
    let published = AtomicU64::new(0);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            if let Err(error) = keep_publishing(medium, &published, &is_over) {
                eprintln!("{error}");
                std::process::exit(1);
            }
        });
        while published.load(Ordering::Relaxed) == 0 {
            thread::sleep(LOOK);
        }
        let (stall, last) = watch(&published, settings.duration);
        is_over.store(true, Ordering::Relaxed);
        let found = json!({
            "stall_ms": stall.as_millis() as u64,
            "hangs": last >= stall && last > Duration::from_secs(1),
        });
        // A publisher that hangs would keep the scope waiting.
        println!("{found}");
        std::process::exit(0)
    })
}

/// Says when it is there, and takes whatever comes until the process is killed.
pub fn subscribe<M: Medium>(medium: &M) -> Result<Value, Failure> {
    let mut subscriber = medium.subscriber::<SHORT>()?;
    println!("{}", json!({ "subscribed": true }));
    loop {
        subscriber.poll(|_| {})?;
    }
}

fn keep_publishing<M: Medium>(
    medium: &M,
    published: &AtomicU64,
    is_over: &AtomicBool,
) -> Result<(), Failure> {
    let mut publisher = medium.publisher::<SHORT>()?;
    connect(&publisher)?;
    let mut writer = Writer::<SHORT>::default();
    while !is_over.load(Ordering::Relaxed) {
        // A publisher that is notified of the end of its last subscriber is not held up.
        if publisher.publish(&writer.message(0))? || !publisher.is_connected() {
            published.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(())
}

/// The longest time in which the count stood still, and the one at the end.
fn watch(published: &AtomicU64, duration: Duration) -> (Duration, Duration) {
    let started = Instant::now();
    let (mut count, mut since, mut longest) = (0, started, Duration::ZERO);
    while started.elapsed() < duration {
        thread::sleep(LOOK);
        let now = published.load(Ordering::Relaxed);
        longest = longest.max(since.elapsed());
        if now != count {
            (count, since) = (now, Instant::now());
        }
    }
    (longest, since.elapsed())
}
