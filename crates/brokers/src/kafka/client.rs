//! Clients, and what they all ask: partitions and offsets.

use super::settings::Settings;
use crate::error::Error;
use crate::headers::Marks;
use rdkafka::client::ClientContext;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::producer::{DeliveryResult, ProducerContext};
use std::sync::Mutex;
use std::time::Duration;

/// How long a broker may take to answer.
pub(super) const ANSWER: Duration = Duration::from_secs(10);

/// Keeps the last thing that librdkafka reports as wrong, and prints nothing.
#[derive(Debug, Default)]
pub(super) struct Context {
    last: Mutex<Option<String>>,
    undelivered: Mutex<Option<Undelivered>>,
}

/// A record that the brokers did not take.
#[derive(Debug)]
pub(super) struct Undelivered {
    /// Its sequence number, by its headers.
    pub sequence: Option<u64>,
    /// Bytes of its value.
    pub bytes: usize,
    /// Why.
    pub why: Code,
}

impl Context {
    /// What was wrong since the last call.
    pub fn take(&self) -> Option<String> {
        self.last.lock().ok()?.take()
    }

    /// The first record since the last call that was not delivered for a reason of its own.
    pub fn take_undelivered(&self) -> Option<Undelivered> {
        self.undelivered.lock().ok()?.take()
    }
}

impl ClientContext for Context {
    fn log(&self, _: RDKafkaLogLevel, _: &str, _: &str) {}

    fn error(&self, _: KafkaError, reason: &str) {
        if let Ok(mut last) = self.last.lock() {
            *last = Some(reason.into());
        }
    }
}

impl ConsumerContext for Context {}

impl ProducerContext for Context {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let Err((error, message)) = result else { return };
        // An aborted transaction purges what it had not sent yet: that is no reason of its own.
        let Some(why) = error.rdkafka_error_code() else { return };
        if matches!(why, Code::PurgeQueue | Code::PurgeInflight) {
            return;
        }
        if let Ok(mut first) = self.undelivered.lock() {
            let bytes = message.payload().map_or(0, <[u8]>::len);
            first.get_or_insert_with(|| Undelivered { sequence: marks(message).sequence, bytes, why });
        }
    }
}

/// A consumer.
pub(super) type Reader = BaseConsumer<Context>;

/// A consumer that is given its partitions. `group`: librdkafka demands one, and offsets that are committed belong to it.
pub(super) fn consumer(settings: &Settings, group: &str, decided: &[(&str, &str)]) -> Result<Reader, Error> {
    let defaults = [
        ("group.id", group),
        // Of all partitions together.
        ("queued.max.messages.kbytes", "32768"),
        ("check.crcs", "true"),
        ("topic.metadata.refresh.interval.ms", "30000"),
    ];
    let always = [
        ("isolation.level", "read_committed"),
        ("enable.auto.commit", "false"),
        ("enable.auto.offset.store", "false"),
        ("auto.offset.reset", "error"),
        ("enable.partition.eof", "true"),
        ("allow.auto.create.topics", "false"),
    ];
    let mut config = config(settings, &defaults, &always);
    for (name, value) in decided {
        config.set(*name, *value);
    }
    config.create_with_context(Context::default()).map_err(|error| not_made(&error))
}

/// A client's configuration: what the command decides counts more than what is given.
pub(super) fn config(
    settings: &Settings,
    defaults: &[(&str, &str)],
    decided: &[(&str, &str)],
) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", &settings.brokers).set("client.id", "tapedb");
    let given = settings.properties.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    for (name, value) in defaults.iter().copied().chain(given).chain(decided.iter().copied()) {
        config.set(name, value);
    }
    config
}

/// Why a client cannot be made, without the values of its settings.
pub(super) fn not_made(error: &KafkaError) -> Error {
    match error {
        KafkaError::ClientConfig(_, what, name, _) => {
            let tls = if is_of_tls(name) || is_of_tls(what) { NO_TLS } else { "" };
            Error::Settings(format!("Kafka's setting {name}: {what}{tls}"))
        }
        KafkaError::ClientCreation(what) => {
            let tls = if is_of_tls(what) { NO_TLS } else { "" };
            Error::Settings(format!("no client of Kafka can be made: {what}{tls}"))
        }
        error => Error::Settings(format!("no client of Kafka can be made: {error}")),
    }
}

fn is_of_tls(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    !cfg!(feature = "kafka-tls")
        && !cfg!(feature = "kafka-tls-vendored")
        && ["ssl", "scram", "oauthbearer"].iter().any(|word| text.contains(word))
}

const NO_TLS: &str = "; this program was built without TLS for Kafka: build it with the feature kafka-tls or kafka-tls-vendored";

/// The partitions of a topic, in order.
pub(super) fn partitions(reader: &Reader, topic: &str) -> Result<Vec<i32>, Error> {
    let metadata =
        reader.fetch_metadata(Some(topic), ANSWER).map_err(|error| failed(reader, "Kafka", &error))?;
    let found = metadata.topics().iter().find(|found| found.name() == topic);
    let missing = || Error::Refused(format!("there is no topic {topic:?}; check the name, or create it"));
    let found = found.ok_or_else(missing)?;
    if let Some(error) = found.error() {
        return Err(match Code::from(error) {
            Code::UnknownTopicOrPartition | Code::UnknownTopic | Code::UnknownPartition => missing(),
            Code::TopicAuthorizationFailed => {
                Error::Refused(format!("topic {topic:?} may not be read by this user"))
            }
            code => Error::Away(format!("topic {topic:?}: {code}")),
        });
    }
    let mut ids: Vec<i32> = found.partitions().iter().map(|partition| partition.id()).collect();
    ids.sort_unstable();
    if ids.is_empty() { Err(missing()) } else { Ok(ids) }
}

/// The first offset of a partition, and the one after its last; records of open transactions do not count.
pub(super) fn offsets(reader: &Reader, topic: &str, partition: i32) -> Result<(u64, u64), Error> {
    let (low, high) = reader
        .fetch_watermarks(topic, partition, ANSWER)
        .map_err(|error| failed(reader, &format!("{topic}/{partition}"), &error))?;
    Ok((u64::try_from(low).unwrap_or(0), u64::try_from(high).unwrap_or(0)))
}

/// An offset as librdkafka has it.
pub(super) fn raw(offset: u64) -> i64 {
    i64::try_from(offset).unwrap_or(i64::MAX)
}

/// What the headers of a record state.
pub(super) fn marks(message: &BorrowedMessage<'_>) -> Marks {
    let mut marks = Marks::default();
    if let Some(headers) = message.headers() {
        headers.iter().for_each(|header| marks.take(header.key, header.value.unwrap_or_default()));
    }
    marks
}

/// A failed request: with what librdkafka says of the connection, where it does.
pub(super) fn failed(reader: &Reader, what: &str, error: &KafkaError) -> Error {
    // What librdkafka reports arrives by polling, which also takes records: none is there without partitions.
    if reader.assignment().is_ok_and(|partitions| partitions.count() == 0) {
        drop(reader.poll(Duration::ZERO));
    }
    let why = reader.client().context().take();
    let is_login = why.as_ref().is_some_and(|why| why.to_ascii_lowercase().contains("authentication"));
    let text = format!("{what}: {error}{}", why.map_or(String::new(), |why| format!(" ({why})")));
    if is_login {
        return Error::Refused(format!("{text}; check user and password"));
    }
    match error.rdkafka_error_code() {
        Some(
            Code::TopicAuthorizationFailed
            | Code::GroupAuthorizationFailed
            | Code::ClusterAuthorizationFailed
            | Code::TransactionalIdAuthorizationFailed
            | Code::SaslAuthenticationFailed
            | Code::Authentication,
        ) => Error::Refused(format!("{text}; check user, password and rights")),
        Some(Code::UnknownTopicOrPartition | Code::UnknownTopic | Code::UnknownPartition) => {
            Error::Refused(format!("{text}; there is no such topic: was it deleted?"))
        }
        _ => Error::Away(format!("{text}; check the address, and that the broker runs")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_librdkafka_does_not_take_is_an_error_without_the_value() {
        let mut settings = Settings { brokers: "127.0.0.1:1".into(), ..Settings::default() };
        settings.set("no.such.setting=hunter2").expect("it is one");
        let made = consumer(&settings, "tapedb", &[]);
        let error = made.map(drop).unwrap_err().to_string();
        assert!(error.contains("no.such.setting") && !error.contains("hunter2"), "{error}");
    }
}
