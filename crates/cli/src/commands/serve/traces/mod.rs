//! Traces: the spans of requests go to an OpenTelemetry collector, over OTLP/HTTP in JSON.
//!
//! Always true: what is traced is never waited for. Spans wait in a queue of bounded length; what does not fit, and what the collector does
//! not take, is dropped and counted.

mod export;
mod layer;

use export::Exporter;
use layer::SpanLayer;
use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tapedb_client::WebAddress;
use tapedb_server::{Component, Config, MetricsPage};
use tapedb_terminal::Failure;
use tracing::Level;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, registry};

/// Target of the spans that are traced. They are no part of the log.
const TARGET: &str = "tapedb::trace";
/// Spans that wait for the collector.
const QUEUE_SPANS: usize = 8192;
/// The usual port of OTLP over HTTP.
const PORT: u16 = 4318;
/// Time for the last spans when the server ends.
const LAST_WAIT: Duration = Duration::from_secs(2);

/// What became of spans.
#[derive(Debug, Default)]
struct Counts {
    sent: AtomicU64,
    dropped: AtomicU64,
    is_stopping: AtomicBool,
}

/// Traces of a server, until it ends.
#[derive(Debug)]
pub struct Traces {
    counts: Arc<Counts>,
    thread: Option<JoinHandle<()>>,
}

/// Sends the log to standard error, and spans to the collector of the configuration. A second subscriber in the same process is ignored.
pub fn subscribe(config: &Config, level: Level) -> Result<Option<Traces>, Failure> {
    let log = tracing_subscriber::fmt::layer().with_writer(io::stderr).with_target(false);
    let log = log.with_ansi(io::stderr().is_terminal()).compact();
    let of_log = Targets::new().with_default(level).with_target(TARGET, LevelFilter::OFF);
    let log = log.with_filter(of_log);
    let Some(url) = &config.otlp else {
        let _ = registry().with(log).try_init();
        return Ok(None);
    };
    let refused = |what: String| Failure::usage(format!("`otlp`: {what}; write http://HOST:{PORT}"));
    let address = WebAddress::parse(url, PORT)
        .ok_or_else(|| refused(format!("{url:?} is not a URL of HTTP")))?
        .map_err(refused)?;
    let counts = Arc::<Counts>::default();
    let (sender, spans) = sync_channel(QUEUE_SPANS);
    let exporter = Exporter::new(address, url, spans, counts.clone());
    let run = move || exporter.run();
    let thread = thread::Builder::new().name("tape-otlp".into()).spawn(run);
    let thread =
        thread.map_err(|error| Failure::new(format!("cannot begin a thread for traces: {error}")))?;
    let layer = SpanLayer::new(sender, counts.clone())?;
    let layer = layer.with_filter(Targets::new().with_target(TARGET, LevelFilter::INFO));
    let _ = registry().with(log).with(layer).try_init();
    Ok(Some(Traces { counts, thread: Some(thread) }))
}

impl Traces {
    /// The component for the server's metrics.
    pub fn component(&self) -> Arc<dyn Component> {
        self.counts.clone()
    }
}

impl Drop for Traces {
    /// Sends the last spans, if the collector takes them soon.
    fn drop(&mut self) {
        self.counts.is_stopping.store(true, Ordering::Release);
        let Some(thread) = self.thread.take() else { return };
        let end = Instant::now() + LAST_WAIT;
        while !thread.is_finished() && Instant::now() < end {
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Component for Counts {
    fn metrics(&self, page: &mut MetricsPage) {
        let counted = [
            ("otlp_spans", "Spans that the collector of traces has taken.", &self.sent),
            (
                "otlp_spans_dropped",
                "Spans that were dropped, since the collector of traces was too slow or away.",
                &self.dropped,
            ),
        ];
        for (name, help, count) in counted {
            page.counter(name, help, count.load(Ordering::Relaxed));
        }
    }

    fn problems(&self) -> Vec<(String, String)> {
        Vec::new()
    }
}
