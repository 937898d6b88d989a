//! Copies of topics that a server writes while it serves.

use std::sync::Arc;
use std::time::{Duration, Instant};
use tapedb_engine::{Database, Durability, StreamOptions};
use tapedb_server::{Component, Config, CopyTopic, DurabilityMin, MetricsPage};
use tapedb_terminal::Failure;
use tapedb_topic::Folder;
use tapedb_topic_copy::{
    Copier, CopierEvent, CopierIntervals, CopierOptions, CopierState, CopierStatus, CopyOptions,
};

/// The copies of one server.
#[derive(Debug, Default)]
pub struct Copies {
    running: Arc<Running>,
}

/// The running copies, for metrics and status.
#[derive(Debug, Default)]
struct Running(Vec<(CopyTopic, Copier)>);

impl Copies {
    /// Starts to copy the topics of a server's settings.
    pub fn start(config: &Config, db: &Database) -> Result<Self, Failure> {
        if config.copy_topics.is_empty() {
            return Ok(Self::default());
        }
        let folders = vec![Folder::of_database(&config.database)?, Folder::shared()];
        let begin = |copied: &CopyTopic| {
            let CopyTopic { topic, stream } = copied.clone();
            let options = CopierOptions {
                folders: folders.clone(),
                topic,
                stream,
                stream_options: stream_options(config.durability_min),
                copy: CopyOptions::default(),
                intervals: CopierIntervals::default(),
            };
            let logged = copied.clone();
            Ok((copied.clone(), Copier::start(db, options, move |event| log(&logged, &event))?))
        };
        let running = config.copy_topics.iter().map(begin).collect::<Result<_, Failure>>()?;
        Ok(Self { running: Arc::new(Running(running)) })
    }

    /// The topics, for the console.
    #[cfg(feature = "web")]
    pub fn topics(&self) -> Arc<dyn tapedb_web::TopicList> {
        self.running.clone()
    }

    /// The component for the server's metrics and status.
    pub fn component(&self) -> Arc<dyn Component> {
        self.running.clone()
    }

    /// Copies all messages published so far, within `grace` for all copies together, and ends.
    pub fn stop(&self, grace: Duration) {
        let until = Instant::now() + grace;
        for (CopyTopic { topic, stream }, copier) in &self.running.0 {
            copier.stop(until.saturating_duration_since(Instant::now()));
            let CopierStatus { copied, missed, lag, .. } = copier.status();
            tracing::info!(topic, stream, copied, missed, lag, "the copy of a topic has ended");
        }
    }
}

#[cfg(feature = "web")]
impl tapedb_web::TopicList for Running {
    fn topics(&self) -> Vec<tapedb_web::TopicRow> {
        let row = |(CopyTopic { topic, stream }, copier): &(CopyTopic, Copier)| {
            let CopierStatus { state, copied, missed, lag, failure, .. } = copier.status();
            tapedb_web::TopicRow {
                name: topic.clone(),
                stream: stream.clone(),
                state: format!("{state:?}").to_lowercase(),
                messages: copied,
                missed,
                lag,
                failure,
            }
        };
        self.0.iter().map(row).collect()
    }
}

/// Streams that the server creates have at least the durability of clients' streams.
pub fn stream_options(least: DurabilityMin) -> StreamOptions {
    let options = StreamOptions::default();
    let durability = match least {
        DurabilityMin::Transient | DurabilityMin::Async => options.durability,
        DurabilityMin::Sync => Durability::Sync,
    };
    StreamOptions { durability, ..options }
}

/// Writes an event to the server's log.
fn log(CopyTopic { topic, stream }: &CopyTopic, event: &CopierEvent<'_>) {
    match event {
        CopierEvent::Waiting => tracing::info!(topic, stream, "no such topic; waiting for it to be created"),
        CopierEvent::Began { topic: found, from } => {
            let path = found.path().display();
            tracing::info!(topic, stream, from, %path, "copying a topic");
        }
        CopierEvent::Missed { count } => {
            tracing::warn!(topic, stream, count, "messages were overwritten before they could be copied");
        }
        CopierEvent::Ended => tracing::info!(topic, stream, "the topic was deleted or created again"),
        CopierEvent::Failed { error, again_in } => {
            tracing::error!(topic, stream, %error, ?again_in, "cannot copy a topic; the server continues");
        }
        _ => {}
    }
}

/// A metric: its name, what it means, whether it only grows, and what it is of a copy.
type Metric = (&'static str, &'static str, bool, fn(&CopierStatus) -> u64);

const METRICS: [Metric; 6] = [
    ("topic_copy_messages", "Messages of a topic that were copied.", true, |copy| copy.copied),
    (
        "topic_copy_missed",
        "Messages of a topic that were overwritten before they could be copied.",
        true,
        |copy| copy.missed,
    ),
    ("topic_copy_failures", "How often a topic could not be copied.", true, |copy| copy.failures),
    ("topic_copy_position", "Sequence number in the topic that is read next.", false, |copy| copy.position),
    (
        "topic_copy_lag_messages",
        "Messages of a topic that are published and not in the stream yet.",
        false,
        |copy| copy.lag,
    ),
    (
        "topic_copy_lag_bytes",
        "Bytes of a topic's ring that are published and have not been read for the copy.",
        false,
        |copy| copy.lag_bytes,
    ),
];

const STATES: [(CopierState, &str); 3] =
    [(CopierState::Waiting, "waiting"), (CopierState::Copying, "copying"), (CopierState::Failing, "failing")];

impl Component for Running {
    fn metrics(&self, page: &mut MetricsPage) {
        let found: Vec<_> = self.0.iter().map(|(copied, copier)| (copied, copier.status())).collect();
        if found.is_empty() {
            return;
        }
        for (name, help, grows, value) in METRICS {
            let line = if grows { format!("{name}_total") } else { name.to_string() };
            if grows {
                page.counters(name, help)
            } else {
                page.gauges(name, help)
            }
            for (CopyTopic { topic, stream }, status) in &found {
                page.line(&line, &[("topic", topic), ("stream", stream)], value(status));
            }
        }
        page.gauges("topic_copy_state", "1 for what the copy of a topic is doing, 0 for what it is not.");
        for (CopyTopic { topic, stream }, status) in &found {
            for (state, name) in STATES {
                let labels = [("topic", &**topic), ("stream", stream), ("state", name)];
                page.line("topic_copy_state", &labels, u8::from(status.state == state));
            }
        }
    }

    fn problems(&self) -> Vec<(String, String)> {
        let failing = |(copied, copier): &(CopyTopic, Copier)| {
            copier.status().failure.map(|failure| (format!("copy of topic {}", copied.topic), failure))
        };
        self.0.iter().filter_map(failing).collect()
    }
}
