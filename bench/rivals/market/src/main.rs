//! Order books of TapeDB beside those of hftbacktest, on the same changes in memory, in one process and one thread.
//!
//! `market-rivals [--messages N] [--rounds N] [--dbn FILE]` prints a line a case: name and nanoseconds a change, the median of the rounds with the least and the
//! most. What each has is compared with what the others have. With a file of Databento, also how many messages a second its own crate decodes.

mod dbn_decode;
mod levels;
mod orders;

use std::time::Instant;

/// Times of a case.
pub struct Case {
    pub name: &'static str,
    pub nanos: Vec<f64>,
}

/// Measures a case once.
pub fn timed<T>(cases: &mut Vec<Case>, name: &'static str, count: usize, run: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    let found = run();
    let nanos = started.elapsed().as_nanos() as f64 / count as f64;
    match cases.iter_mut().find(|case| case.name == name) {
        Some(case) => case.nanos.push(nanos),
        None => cases.push(Case { name, nanos: vec![nanos] }),
    }
    found
}

fn main() {
    let (mut messages, mut rounds, mut file) = (500_000, 7, None);
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().unwrap_or_else(|| panic!("{name} needs a value"));
        match name.as_str() {
            "--messages" => messages = value.parse().expect("a number of messages"),
            "--rounds" => rounds = value.parse().expect("a number of rounds"),
            "--dbn" => file = Some(value),
            _ => panic!("unknown: {name}"),
        }
    }
    let mut cases = Vec::new();
    let levels = levels::Input::generate(messages);
    let orders = orders::generate(messages);
    let bytes = file.map(|path| dbn_decode::plain(&path));
    for _ in 0..rounds {
        levels.measure(&mut cases);
        orders::measure(&orders, &mut cases);
        if let Some(bytes) = &bytes {
            dbn_decode::measure(bytes, &mut cases);
        }
    }
    for Case { name, nanos } in &mut cases {
        nanos.sort_by(f64::total_cmp);
        println!(
            "{name:<44} {:>8.1} ns  ({:.1} … {:.1})",
            nanos[nanos.len() / 2],
            nanos[0],
            nanos[nanos.len() - 1]
        );
    }
}
