//! Measures NATS JetStream for `bench/rivals/run stream`, which starts the server.
//!
//! Reads lines `WORK KEY=VALUE…` from stdin, where WORK is `throughput`, `latency` or `round-trip`, and answers each with a
//! JSON object in a line. Ends with the input, or with a line on stderr and exit code 1.

#![deny(unsafe_code)]

mod jetstream;
mod latency;
mod record;
mod round_trip;
mod throughput;

use std::collections::HashMap;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::{Value, json};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// What to measure.
#[derive(Clone)]
struct Settings {
    /// `nats://127.0.0.1:4222`.
    url: String,
    /// Producers, and consumers.
    pairs: usize,
    /// Records in a message.
    packed: usize,
    /// Whether producers use fast ingest.
    is_fast: bool,
    /// Records a second, for latency.
    rate: u32,
    /// What is not measured yet.
    warmup: Duration,
    /// What is measured.
    duration: Duration,
}

fn main() -> ExitCode {
    match answer_all() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn answer_all() -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    for line in std::io::stdin().lines() {
        println!("{}", runtime.block_on(answer(&line?))?);
    }
    Ok(())
}

async fn answer(line: &str) -> Result<Value, Failure> {
    let mut words = line.split_whitespace();
    let work = words.next().unwrap_or_default();
    let settings = Settings::parse(words)?;
    match work {
        "throughput" => {
            let (messages, seconds) = throughput::measure(&settings).await?;
            Ok(json!({ "messages": messages, "seconds": seconds }))
        }
        "latency" => Ok(percentiles(&latency::measure(&settings).await?)),
        "round-trip" => Ok(json!({ "nanoseconds": round_trip::round_trip_ns() })),
        _ => Err(format!("{work:?} is not throughput, latency or round-trip").into()),
    }
}

impl Settings {
    fn parse<'a>(words: impl Iterator<Item = &'a str>) -> Result<Self, Failure> {
        let words: HashMap<&str, &str> =
            words.map(|word| word.split_once('=')).collect::<Option<_>>().ok_or("settings are KEY=VALUE")?;
        Ok(Self {
            url: value(&words, "url", "nats://127.0.0.1:4222".into())?,
            pairs: value(&words, "pairs", 1)?,
            packed: value(&words, "packed", 1)?,
            is_fast: value(&words, "fast", false)?,
            rate: value(&words, "rate", 50_000)?,
            warmup: Duration::from_secs_f64(value(&words, "warmup", 1.0)?),
            duration: Duration::from_secs_f64(value(&words, "seconds", 5.0)?),
        })
    }
}

fn value<T: FromStr>(words: &HashMap<&str, &str>, key: &str, default: T) -> Result<T, Failure> {
    let Some(word) = words.get(key) else { return Ok(default) };
    word.parse().map_err(|_| format!("{key}={word} is not understood").into())
}

fn percentiles(histogram: &Histogram<u64>) -> Value {
    let at = |quantile| histogram.value_at_quantile(quantile);
    json!({
        "messages": histogram.len(), "p50": at(0.5), "p90": at(0.9), "p99": at(0.99), "p99.9": at(0.999),
        "max": histogram.max(),
    })
}
