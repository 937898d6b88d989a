//! Settings of a stream for `create` and `alter`, and in JSON output.

use clap::ValueEnum;
use serde::Serialize;
use std::time::Duration;
use tapedb_engine::{Late, Offload, Retention, StoreUrl, Stream, StreamOptions};
use tapedb_terminal::{Failure, quantity, quantity::duration};

/// Settings that can be changed at any time; others keep their value.
#[derive(clap::Args, Debug, Default)]
pub struct SettingsArgs {
    /// Whether messages older than the last one are accepted (the default of a new stream).
    #[arg(long, value_enum)]
    late: Option<LateArg>,

    /// Maximum size of a log file, for example 64MiB (the default of a new stream); at most 1GiB.
    #[arg(long, value_name = "SIZE", value_parser = quantity::size)]
    file_size: Option<u64>,

    /// Purge messages automatically when they are this much older than the latest one, for example 30d; or none.
    #[arg(long, value_name = "AGE", value_parser = age)]
    keep_for: Option<Limit<Duration>>,

    /// Purge the oldest messages automatically while the stream is larger than this, for example 500GiB; or none.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    keep_size: Option<Limit<u64>>,

    /// Seal a log file that is not full this long after its first message, for example 10m (1h in a new stream); or none.
    #[arg(long, value_name = "AGE", value_parser = age)]
    seal_after: Option<Limit<Duration>>,

    /// Compress segments of this age once more, smaller and slower to read, for example 7d; or none.
    #[arg(long, value_name = "AGE", value_parser = age)]
    cold_after: Option<Limit<Duration>>,

    /// Move segments to an object store when they are old (--after): s3://bucket/prefix, gs://, az:// or file:///folder; or none, which
    /// moves no more. Credentials come from the environment. Reading does not change: see docs/TIER.md.
    #[arg(long, value_name = "URL", value_parser = tier)]
    tier: Option<Limit<StoreUrl>>,

    /// Age at which segments go to the object store, for example 7d (the default with a new --tier); none moves no more.
    #[arg(long, value_name = "AGE", value_parser = age)]
    after: Option<Limit<Duration>>,

    /// The same as --cold-after 0s: segments are compressed this way from the start.
    #[arg(long, conflicts_with = "cold_after")]
    cold: bool,
}

#[derive(ValueEnum, Debug, Clone, Copy)]
enum LateArg {
    Accept,
    Refuse,
}

/// A limit, or none.
#[derive(Debug, Clone, Copy)]
struct Limit<T>(Option<T>);

fn age(text: &str) -> Result<Limit<Duration>, String> {
    limit(text, duration)
}

fn tier(text: &str) -> Result<Limit<StoreUrl>, String> {
    limit(text, |text| text.parse().map_err(|error: tapedb_engine::Error| error.to_string()))
}

fn size(text: &str) -> Result<Limit<u64>, String> {
    limit(text, quantity::size)
}

fn limit<T>(text: &str, parse: impl FnOnce(&str) -> Result<T, String>) -> Result<Limit<T>, String> {
    if text == "none" { Ok(Limit(None)) } else { parse(text).map(|limit| Limit(Some(limit))) }
}

impl SettingsArgs {
    /// Whether no setting is given.
    pub fn is_empty(&self) -> bool {
        let Self { late, file_size, keep_for, keep_size, seal_after, cold_after, tier, after, cold } = self;
        let ages = [keep_for, seal_after, cold_after, after].iter().all(|age| age.is_none());
        ages && tier.is_none() && late.is_none() && file_size.is_none() && keep_size.is_none() && !cold
    }

    /// The options with the given settings.
    pub fn on(&self, options: StreamOptions) -> StreamOptions {
        let late = self.late.map(|late| match late {
            LateArg::Accept => Late::Accept,
            LateArg::Refuse => Late::Refuse,
        });
        let Retention { age, bytes } = options.retention;
        let cold_after = if self.cold { Some(Limit(Some(Duration::ZERO))) } else { self.cold_after };
        StreamOptions {
            late: late.unwrap_or(options.late),
            file_bytes_max: self.file_size.unwrap_or(options.file_bytes_max),
            retention: Retention { age: chosen(self.keep_for, age), bytes: chosen(self.keep_size, bytes) },
            seal_after: chosen(self.seal_after, options.seal_after),
            cold_after: chosen(cold_after, options.cold_after),
            offload: self.offload(options.offload),
            ..options
        }
    }

    /// The object tier, where there is one now.
    fn offload(&self, now: Option<Offload>) -> Option<Offload> {
        let url = match self.tier {
            Some(Limit(url)) => url?,
            None => now?.url,
        };
        let default = now.map_or(Some(AFTER_DEFAULT), |now| now.after.or(self.tier.and(Some(AFTER_DEFAULT))));
        Some(Offload { url, after: chosen(self.after, default) })
    }

    /// Whether an age is given for an object tier that there is not.
    pub fn check_tier(&self, now: Option<Offload>) -> Result<(), Failure> {
        match self.after.is_some() && self.tier.is_none() && now.is_none() {
            true => Err(Failure::usage(
                "--after is the age for an object tier, and the stream has none; add --tier URL",
            )),
            false => Ok(()),
        }
    }
}

/// Age at which segments go to a new object tier.
const AFTER_DEFAULT: Duration = Duration::from_secs(7 * 86_400);

fn chosen<T>(limit: Option<Limit<T>>, now: Option<T>) -> Option<T> {
    limit.map_or(now, |limit| limit.0)
}

/// A stream's settings in JSON output; ages in seconds.
#[derive(Serialize, Debug)]
pub struct Settings {
    late: &'static str,
    file_bytes_max: u64,
    keep_seconds: Option<f64>,
    keep_bytes: Option<u64>,
    seal_after_seconds: Option<f64>,
    cold_after_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tier: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tier_after_seconds: Option<f64>,
}

impl Settings {
    /// The settings of a stream.
    pub fn of(stream: &Stream) -> Self {
        let StreamOptions { late, file_bytes_max, retention, seal_after, cold_after, offload, .. } =
            stream.options();
        let seconds = |age: Option<Duration>| age.map(|age| age.as_secs_f64());
        Self {
            late: if late == Late::Accept { "accept" } else { "refuse" },
            file_bytes_max,
            keep_seconds: seconds(retention.age),
            keep_bytes: retention.bytes,
            seal_after_seconds: seconds(seal_after),
            cold_after_seconds: seconds(cold_after),
            tier: offload.map(|offload| offload.url.to_string()),
            tier_after_seconds: seconds(offload.and_then(|offload| offload.after)),
        }
    }
}
