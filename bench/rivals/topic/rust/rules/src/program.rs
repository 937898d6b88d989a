//! The command language that `bench/rivals/run topic` speaks with each measuring program.

use std::collections::HashMap;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use crate::medium::{Failure, Medium};
use crate::record::{LONG, SHORT};
use crate::{latency, stall, throughput};

/// Records in a message where users pack them themselves.
const PACKED: usize = 32;

/// What to measure.
pub struct Settings {
    /// Bytes of a record, for latency: 40 or 256.
    pub bytes: usize,
    /// Messages a second, for latency.
    pub rate: u32,
    /// Records in a message, for throughput: 1 or 32.
    pub packed: usize,
    /// What is not measured yet.
    pub warmup: Duration,
    /// What is measured.
    pub duration: Duration,
    /// Where processes meet that measure together: a name of letters and digits.
    pub place: String,
    /// Bytes of Aeron's terms, such as `16m`.
    pub term: String,
    /// Whether another process has made that place.
    pub is_guest: bool,
}

/// Reads lines `WORK KEY=VALUE…` from stdin and answers each with a JSON object in a line.
///
/// WORK is `latency` or `throughput`; or `publish` or `subscribe`, after which the program ends. Ends with the input, or with
/// a line on stderr and exit code 1. Each line gets a medium of its own.
pub fn run<M: Medium>(medium: impl Fn(&Settings) -> Result<M, Failure>) -> ExitCode {
    match answer_all(medium) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn answer_all<M: Medium>(medium: impl Fn(&Settings) -> Result<M, Failure>) -> Result<(), Failure> {
    for line in std::io::stdin().lines() {
        let line = line?;
        let mut words = line.split_whitespace();
        let work = words.next().unwrap_or_default();
        let settings = Settings::parse(words)?;
        println!("{}", answer(work, &settings, &medium)?);
    }
    Ok(())
}

fn answer<M: Medium>(
    work: &str,
    settings: &Settings,
    medium: &impl Fn(&Settings) -> Result<M, Failure>,
) -> Result<Value, Failure> {
    match work {
        "latency" => measure_latency(&medium(settings)?, settings),
        "throughput" => measure_throughput(&medium(settings)?, settings),
        "publish" => stall::publish(&medium(settings)?, settings),
        "subscribe" => stall::subscribe(&medium(settings)?),
        _ => Err(format!("{work:?} is not latency, throughput, publish or subscribe").into()),
    }
}

fn measure_latency(medium: &impl Medium, settings: &Settings) -> Result<Value, Failure> {
    match settings.bytes {
        40 => Ok(percentiles(&latency::measure::<_, SHORT>(medium, settings)?)),
        256 => Ok(percentiles(&latency::measure::<_, LONG>(medium, settings)?)),
        bytes => Err(format!("bytes={bytes} is not 40 or 256").into()),
    }
}

fn measure_throughput(medium: &impl Medium, settings: &Settings) -> Result<Value, Failure> {
    let (messages, seconds) = match settings.packed {
        1 => throughput::measure::<_, SHORT, SHORT>(medium, settings)?,
        PACKED => throughput::measure::<_, SHORT, { SHORT * PACKED }>(medium, settings)?,
        packed => return Err(format!("packed={packed} is not 1 or {PACKED}").into()),
    };
    Ok(json!({ "messages": messages, "seconds": seconds }))
}

fn percentiles(histogram: &Histogram<u64>) -> Value {
    let at = |quantile| histogram.value_at_quantile(quantile);
    json!({
        "messages": histogram.len(), "p50": at(0.5), "p99": at(0.99), "p99.9": at(0.999),
        "max": histogram.max(),
    })
}

impl Settings {
    fn parse<'a>(words: impl Iterator<Item = &'a str>) -> Result<Self, Failure> {
        let words: HashMap<&str, &str> =
            words.map(|word| word.split_once('=')).collect::<Option<_>>().ok_or("settings are KEY=VALUE")?;
        Ok(Self {
            bytes: value(&words, "bytes", 40)?,
            rate: value(&words, "rate", 50_000)?,
            packed: value(&words, "packed", 1)?,
            warmup: Duration::from_secs_f64(value(&words, "warmup", 0.2)?),
            duration: Duration::from_secs_f64(value(&words, "seconds", 3.0)?),
            place: value(&words, "place", format!("tapedb-rival-{}", std::process::id()))?,
            term: value(&words, "term", "16m".into())?,
            is_guest: value(&words, "guest", false)?,
        })
    }
}

fn value<T: FromStr>(words: &HashMap<&str, &str>, key: &str, default: T) -> Result<T, Failure> {
    let Some(word) = words.get(key) else { return Ok(default) };
    word.parse().map_err(|_| format!("{key}={word} is not understood").into())
}
