//! Random messages of fifty random schemas: both codecs and JSON, there and back.
//!
//! `TAPEDB_MESSAGES` sets how many messages, `TAPEDB_SEED` where they begin. `make soak` runs 20 million.

use tapedb_soak::{Counts, Soak};

const MESSAGES: u64 = 200_000;

fn setting(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text:?} is not a number")),
        Err(_) => default,
    }
}

#[test]
fn random_messages_survive_both_codecs_and_json() {
    let (messages, first) = (setting("TAPEDB_MESSAGES", MESSAGES), setting("TAPEDB_SEED", 0));
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let run = |thread: u64| {
        let mut soak = Soak::new();
        (first + thread..first + messages).step_by(threads as usize).for_each(|number| soak.one(number));
        soak.counts
    };
    let mut counts = Counts::default();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|thread| scope.spawn(move || run(thread))).collect();
        threads.into_iter().for_each(|thread| counts.add(thread.join().expect("every message survives")));
    });
    assert_eq!(counts.messages, messages);
    assert!(messages < 10_000 || counts.json > messages / 3, "{counts:?}");
}
