//! `tail` in one process while another writes.

use crate::support::{Place, end, signal};
use std::io::{BufRead, BufReader};

#[test]
fn the_last_ones_then_every_new_one() {
    let place = Place::new();
    place.run("generate --stream feed --messages 1k").good();
    let mut child = place.start(&mut place.command("tail feed --last 5 --output json"));
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut seen: Vec<String> = lines.by_ref().take(5).collect();
    place.run("generate --stream feed --messages 20k --seed 2").good();
    seen.extend(lines.by_ref().take(20_000));
    signal(&child, "INT");
    assert_eq!(lines.next(), None);
    let run = end(child);
    assert_eq!((run.code, run.err.as_str()), (130, ""));
    let all = place.run("read feed --output json").good();
    let expected: Vec<&str> = all.lines().skip(995).collect();
    assert_eq!(seen, expected);
}

#[test]
fn several_streams_and_filters() {
    let place = Place::new();
    place.run("generate --stream a --kind bars --messages 100").good();
    place.run("generate --stream b --kind bars --messages 100").good();
    let text = place.run("tail a b --last 3 --symbols S000001 --for 50ms").good();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert!(
        lines[1].starts_with("a 2024-01-02T14:39:00Z S000001")
            && lines[2].starts_with("b 2024-01-02T14:39:00Z")
    );
    assert_eq!(place.run("tail a --last 0 --for 0s").good(), "");
    assert_eq!(place.run("tail a --last 1000 --for 0s").good(), place.run("read a").good());
    assert_eq!(place.run("tail a --last 2 --for 10ms --json").json().len(), 2);
}

#[test]
fn last_values_then_every_new_one() {
    let place = Place::new();
    place.run("generate --stream feed --kind bars --messages 1k").good();
    let all = place.run("read feed --output json").json();
    let symbols: std::collections::HashSet<_> = all.iter().map(|bar| bar["symbol"].to_string()).collect();
    let last = place.run("read feed --last-values --output json").good();
    assert!(symbols.len() > 1 && last.lines().count() == symbols.len());
    assert_eq!(place.run("tail feed --last-values --for 0s --output json").good(), last);
    let keyed = place.run("read feed --last-values --key Bar.volume,Bar.close").good();
    assert!(keyed.lines().count() > symbols.len() * 10);

    let mut child = place.start(&mut place.command("tail feed --last-values --output json"));
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut seen: Vec<String> = lines.by_ref().take(symbols.len()).collect();
    place.run("generate --stream feed --kind bars --messages 500 --seed 2").good();
    seen.extend(lines.by_ref().take(500));
    signal(&child, "INT");
    assert_eq!((lines.next(), end(child).code), (None, 130));
    let new = place.run("read feed --output json").good();
    let new = new.lines().skip(1000);
    assert!(seen.iter().map(String::as_str).eq(last.lines().chain(new)));

    assert_eq!(place.run("read feed --key Bar.close").code, 2);
    assert!(place.run("read feed --last-values --key close").bad(2).contains("TYPE.FIELD"));
    assert!(place.run("read feed --last-values --key Bar.price").bad(1).contains("Bar.price"));
}
