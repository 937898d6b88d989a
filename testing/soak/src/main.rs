//! `soak [MESSAGES [FIRST]]`: random messages of fifty random schemas through both codecs and JSON, and back.

use std::time::Instant;
use tapedb_soak::Soak;

fn main() {
    let argument = |place: usize, default: u64| match std::env::args().nth(place) {
        None => default,
        Some(text) => {
            text.parse().unwrap_or_else(|_| panic!("{text:?} is not a number: soak [MESSAGES [FIRST]]"))
        }
    };
    let (messages, first) = (argument(1, 20_000_000), argument(2, 0));
    let (mut soak, start) = (Soak::new(), Instant::now());
    for number in first..first + messages {
        soak.one(number);
        if soak.counts.messages.is_multiple_of((messages / 20).max(1)) {
            println!("{:>12} messages, {:>6.0} s", soak.counts.messages, start.elapsed().as_secs_f64());
        }
    }
    let counts = soak.counts;
    println!(
        "{} messages of {} bytes came back the same from the interpreter and from the derives,",
        counts.messages, counts.body_bytes
    );
    println!(
        "{} of them also from {} bytes of JSON, in {:.0} s",
        counts.json,
        counts.json_bytes,
        start.elapsed().as_secs_f64()
    );
}
