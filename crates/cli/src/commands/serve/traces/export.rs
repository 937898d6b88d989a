//! Sends spans that have ended to the collector, in a thread of its own.

use super::layer::{Span, Value};
use super::{Counts, TARGET};
use serde_json::{Value as Json, json};
use std::env;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};
use tapedb_client::{Options, WebAddress};

/// Spans of one request.
const BATCH_SPANS: usize = 512;
/// How long a span waits for others.
const INTERVAL: Duration = Duration::from_millis(500);
/// How often it is looked whether the server ends.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// Pauses after a collector has not answered: the first one, and the longest.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);
const CONNECT_TIME: Duration = Duration::from_secs(2);

pub struct Exporter {
    address: WebAddress,
    path: String,
    headers: Vec<(String, String)>,
    options: Options,
    resource: Json,
    spans: Receiver<Span>,
    counts: Arc<Counts>,
}

impl Exporter {
    pub fn new(address: WebAddress, url: &str, spans: Receiver<Span>, counts: Arc<Counts>) -> Self {
        let variable = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
        let headers = variable("OTEL_EXPORTER_OTLP_HEADERS").map(|text| headers(&text)).unwrap_or_default();
        let name = variable("OTEL_SERVICE_NAME").unwrap_or_else(|| "tapedb".into());
        let attributes = [
            ("service.name", name),
            ("service.version", env!("CARGO_PKG_VERSION").into()),
            ("process.pid", std::process::id().to_string()),
        ];
        let resource: Vec<Json> = attributes
            .into_iter()
            .map(|(name, value)| json!({ "key": name, "value": { "stringValue": value } }))
            .collect();
        let tls_roots = env::var_os("TAPEDB_CA").filter(|path| !path.is_empty()).map(Into::into);
        let options = Options { connect_timeout: CONNECT_TIME, tls_roots, ..Options::default() };
        Self {
            address,
            path: path(url),
            headers,
            options,
            resource: json!({ "attributes": resource }),
            spans,
            counts,
        }
    }

    /// Sends spans until the server ends.
    pub fn run(self) {
        let mut pause = Duration::ZERO;
        loop {
            let (batch, is_last) = self.batch();
            if !batch.is_empty() {
                let sent = self.send(&batch);
                let counter = if sent.is_ok() { &self.counts.sent } else { &self.counts.dropped };
                counter.fetch_add(batch.len() as u64, Ordering::Relaxed);
                match (sent, pause.is_zero()) {
                    (Err(error), _) => {
                        if pause.is_zero() {
                            tracing::warn!(%error, "the collector of traces at {} takes no spans; they are dropped", self.address);
                        }
                        pause = (pause * 2).clamp(PAUSE, PAUSE_MAX);
                        if is_last {
                            return;
                        }
                        self.wait(pause);
                    }
                    (Ok(()), false) => {
                        tracing::info!("the collector of traces takes spans again");
                        pause = Duration::ZERO;
                    }
                    (Ok(()), true) => {}
                }
            } else if is_last {
                return;
            }
        }
    }

    /// The next spans, and whether the server ends.
    fn batch(&self) -> (Vec<Span>, bool) {
        let mut batch = Vec::new();
        let mut until = None;
        loop {
            let is_last = self.counts.is_stopping.load(Ordering::Acquire);
            let wait = if is_last { Duration::ZERO } else { CHECK_INTERVAL };
            match self.spans.recv_timeout(wait) {
                Ok(span) => {
                    until.get_or_insert_with(|| Instant::now() + INTERVAL);
                    batch.push(span);
                }
                Err(RecvTimeoutError::Timeout) if !is_last => {}
                Err(_) => return (batch, true),
            }
            if batch.len() >= BATCH_SPANS || until.is_some_and(|until| Instant::now() >= until) {
                return (batch, false);
            }
        }
    }

    /// Spans that arrive during the pause wait in the queue, or are dropped.
    fn wait(&self, pause: Duration) {
        let until = Instant::now() + pause;
        while Instant::now() < until && !self.counts.is_stopping.load(Ordering::Acquire) {
            thread::sleep(CHECK_INTERVAL);
        }
    }

    fn send(&self, batch: &[Span]) -> io::Result<()> {
        let spans: Vec<Json> = batch.iter().map(json_of).collect();
        let scope = json!({ "name": TARGET, "version": env!("CARGO_PKG_VERSION") });
        let body = json!({
            "resourceSpans": [{ "resource": self.resource, "scopeSpans": [{ "scope": scope, "spans": spans }] }]
        });
        let mut headers = vec![("Content-Type", "application/json")];
        headers.extend(self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        let answer =
            self.address.send("POST", &self.path, &headers, body.to_string().as_bytes(), &self.options)?;
        match answer.status {
            200..300 => Ok(()),
            _ => Err(io::Error::other(format!("it answered {:?}", answer.first_line))),
        }
    }
}

/// The path of traces below that of the URL.
fn path(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let base = rest.split_once('/').map_or("", |(_, path)| path).trim_end_matches('/');
    match base {
        "" => "/v1/traces".into(),
        base if base.ends_with("v1/traces") => format!("/{base}"),
        base => format!("/{base}/v1/traces"),
    }
}

/// The headers of `OTEL_EXPORTER_OTLP_HEADERS`: `name=value`, with commas between them.
fn headers(text: &str) -> Vec<(String, String)> {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (name.trim().to_string(), value.trim().to_string())).collect()
}

fn json_of(span: &Span) -> Json {
    let attributes: Vec<Json> = span
        .attributes
        .iter()
        .map(|(name, value)| {
            let value = match value {
                Value::Text(text) => json!({ "stringValue": text }),
                Value::Int(number) => json!({ "intValue": number.to_string() }),
                Value::Float(number) => json!({ "doubleValue": number }),
                Value::Bool(is_true) => json!({ "boolValue": is_true }),
            };
            json!({ "key": name, "value": value })
        })
        .collect();
    let parent = if span.parent == 0 { String::new() } else { format!("{:016x}", span.parent) };
    json!({
        "traceId": format!("{:032x}", span.trace),
        "spanId": format!("{:016x}", span.id),
        "parentSpanId": parent,
        "name": span.name,
        // SERVER, or INTERNAL.
        "kind": if span.is_of_server { 2 } else { 1 },
        "startTimeUnixNano": span.begins.to_string(),
        "endTimeUnixNano": span.ends.to_string(),
        "attributes": attributes,
        "status": if span.has_failed { json!({ "code": 2 }) } else { json!({}) },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_headers_are_those_of_the_specification() {
        assert_eq!(path("http://collector:4318"), "/v1/traces");
        assert_eq!(path("http://collector:4318/"), "/v1/traces");
        assert_eq!(path("https://collector/otlp/"), "/otlp/v1/traces");
        assert_eq!(path("https://collector/v1/traces"), "/v1/traces");
        let expected = [("api-key", "secret="), ("b", "2")].map(|(name, value)| (name.into(), value.into()));
        assert_eq!(headers("api-key=secret=, b=2,c"), expected);
    }
}
