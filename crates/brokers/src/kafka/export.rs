//! A topic as a sink: an idempotent producer with transactions.
//!
//! Always true: a transaction has messages without a hole, in order, and states the sequence number behind them; so the topic has each
//! message up to the one it states once, for readers of committed records. What an open transaction of a killed export holds is aborted
//! when the next one begins, which also fences one that still runs.

use super::client::{ANSWER, Context, Reader, config, consumer, failed, not_made};
use super::position::{Identity, find};
use super::settings::Settings;
use crate::encoder::{Encoder, Encoding, Outgoing};
use crate::error::Error;
use crate::progress::{Counts, LaneStatus, Observer};
use rdkafka::consumer::Consumer;
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer, ThreadedProducer};
use std::time::{Duration, Instant};
use tapedb_engine::{Cursor, Stream};

/// What is exported, and where.
#[derive(Debug, Clone, Default)]
pub struct ExportOptions {
    /// The topic.
    pub topic: String,
    /// The space that is exported.
    pub space: u32,
    /// Only these symbols.
    pub symbols: Vec<String>,
    /// Only these record types.
    pub types: Vec<String>,
    /// What values are.
    pub encoding: Encoding,
    /// The first sequence number, where the topic does not state how far it is.
    pub from_sequence: Option<u64>,
    /// Whether records have the time at which they are sent, in place of the message's: retention of a topic removes records by it.
    pub stamps_now: bool,
    /// How long a message may wait for others of its transaction; zero: 200 ms.
    pub interval: Duration,
    /// Go on with messages that arrive, until it is interrupted.
    pub follow: bool,
}

const INTERVAL: Duration = Duration::from_millis(200);
/// Messages and bytes of a transaction.
const MESSAGES_MAX: u64 = 50_000;
const BYTES_MAX: usize = 32 << 20;
const WAIT: Duration = Duration::from_millis(20);
/// How long one attempt to commit takes at most.
const COMMIT: Duration = Duration::from_secs(10);
/// Damaged places after which an export ends.
const DAMAGE_MAX: u64 = 1000;
/// Transactions that may fail one after the other before a new producer is made.
const ABORTS_MAX: u32 = 5;

/// Exports.
///
/// # Errors
/// [`Error`]. Brokers that are lost while it runs are none: it is tried again.
pub fn export(
    settings: &Settings,
    stream: &Stream,
    options: &ExportOptions,
    watch: &mut dyn Observer,
) -> Result<Counts, Error> {
    let ends = stream.next_sequences()?;
    let end = *ends.get(options.space as usize).ok_or_else(|| {
        Error::Settings(format!(
            "stream {:?} has no space {}; it has {}",
            stream.name(),
            options.space,
            ends.len()
        ))
    })?;
    let identity = Identity::of(stream, options.space, &options.topic);
    let reader = consumer(settings, &identity.name(), &[("group.id", &identity.name())])?;
    let mut exporter = Exporter {
        settings,
        stream,
        options,
        identity,
        reader: &reader,
        end,
        encoder: Encoder::new(stream, options.space, options.encoding),
        counts: Counts::default(),
        aborts: 0,
    };
    let mut last = None;
    loop {
        match exporter.session(watch) {
            Err(Error::Away(why)) if last.is_some() || exporter.counts.messages > 0 => {
                if last.as_ref() != Some(&why) {
                    watch.warn(&format!("{why}; trying again"));
                }
                last = Some(why);
                pause(watch)?;
            }
            other => return other.map(|()| exporter.counts),
        }
    }
}

/// Where an export stands: offsets are sequence numbers of the stream.
///
/// # Errors
/// [`Error`].
pub fn export_status(
    settings: &Settings,
    stream: &Stream,
    options: &ExportOptions,
) -> Result<LaneStatus, Error> {
    let identity = Identity::of(stream, options.space, &options.topic);
    let reader = consumer(settings, &identity.name(), &[("group.id", &identity.name())])?;
    let next = find(settings, &reader, &identity, true)?;
    let end = stream.next_sequences()?.get(options.space as usize).copied().unwrap_or(0);
    Ok(LaneStatus { name: options.topic.clone(), next, first: 0, end })
}

struct Exporter<'a> {
    settings: &'a Settings,
    stream: &'a Stream,
    options: &'a ExportOptions,
    identity: Identity,
    reader: &'a Reader,
    /// Where an export ends that does not follow.
    end: u64,
    encoder: Encoder,
    counts: Counts,
    /// Transactions that have failed since the last one that did not.
    aborts: u32,
}

type Sender = ThreadedProducer<Context>;

impl Exporter<'_> {
    /// From a producer to its loss, or to the end.
    fn session(&mut self, watch: &mut dyn Observer) -> Result<(), Error> {
        // Before a producer asks for it, which would create it on most brokers.
        super::client::partitions(self.reader, &self.options.topic)?;
        let sender = self.sender()?;
        // Fences another exporter, and ends what an earlier one left open.
        sender.init_transactions(3 * ANSWER).map_err(|error| self.failed(&sender, &error))?;
        loop {
            let first = self.options.from_sequence.unwrap_or(0);
            let is_given = self.options.from_sequence.is_some();
            let next = find(self.settings, self.reader, &self.identity, is_given)?.unwrap_or(first);
            let end = self.stream.next_sequences()?[self.options.space as usize];
            if next > end {
                return Err(Error::Refused(format!(
                    "topic {:?} has messages up to sequence number {next}, and the stream {end}: the database is an older copy",
                    self.options.topic
                )));
            }
            if !self.options.follow && next >= self.end {
                return Ok(());
            }
            let mut cursor = self.cursor(next)?;
            if self.transactions(&sender, &mut cursor, watch)? {
                return Ok(());
            }
            // A transaction was aborted: the topic is asked again how far it is.
        }
    }

    fn sender(&self) -> Result<Sender, Error> {
        let defaults = [
            ("linger.ms", "20"),
            ("batch.size", "1000000"),
            ("queue.buffering.max.kbytes", "65536"),
            ("queue.buffering.max.messages", "100000"),
            ("compression.type", "lz4"),
            // As the clients in Java choose partitions.
            ("partitioner", "murmur2_random"),
            ("transaction.timeout.ms", "60000"),
        ];
        let name = self.identity.name();
        let decided = [("transactional.id", name.as_str()), ("enable.idempotence", "true")];
        config(self.settings, &defaults, &decided)
            .create_with_context(Context::default())
            .map_err(|error| not_made(&error))
    }

    fn cursor(&self, next: u64) -> Result<Cursor, Error> {
        let mut from = self.stream.next_sequences()?;
        from[self.options.space as usize] = next;
        let cursor = self.stream.cursor().from_sequences(from);
        let cursor = if self.options.symbols.is_empty() {
            cursor
        } else {
            cursor.symbols(self.options.symbols.clone())
        };
        let cursor =
            if self.options.types.is_empty() { cursor } else { cursor.types(self.options.types.clone()) };
        Ok(if self.options.follow { cursor.live() } else { cursor }.open()?)
    }

    /// Sends messages in transactions; `false`: one was aborted.
    fn transactions(
        &mut self,
        sender: &Sender,
        cursor: &mut Cursor,
        watch: &mut dyn Observer,
    ) -> Result<bool, Error> {
        let interval = if self.options.interval.is_zero() { INTERVAL } else { self.options.interval };
        loop {
            if watch.is_interrupted() {
                return Err(Error::Interrupted);
            }
            let mut part = Part::default();
            let is_over = match self.fill(sender, cursor, interval, &mut part, watch) {
                Ok(is_over) => is_over,
                Err(Failed::Kafka(error)) => return self.aborted(sender, &error, watch),
                Err(Failed::Other(error)) => {
                    let _ = sender.abort_transaction(COMMIT);
                    return Err(error);
                }
            };
            if part.messages > 0 {
                match self.commit(sender, &part, watch) {
                    Ok(()) => {}
                    Err(Failed::Kafka(error)) => return self.aborted(sender, &error, watch),
                    Err(Failed::Other(error)) => return Err(error),
                }
                self.aborts = 0;
                self.counts.messages += part.messages;
                self.counts.bytes += part.bytes as u64;
            }
            watch.progress(&self.counts, self.end);
            if is_over {
                return Ok(true);
            }
        }
    }

    /// Sends the messages of one transaction, which begins with the first of them. Whether the export is over.
    fn fill(
        &mut self,
        sender: &Sender,
        cursor: &mut Cursor,
        interval: Duration,
        part: &mut Part,
        watch: &mut dyn Observer,
    ) -> Result<bool, Failed> {
        let mut began: Option<Instant> = None;
        while part.messages < MESSAGES_MAX && part.bytes < BYTES_MAX {
            let wait = if self.options.follow { WAIT } else { Duration::ZERO };
            let is_due = began.is_some_and(|began| began.elapsed() >= interval);
            match cursor.next_within(wait) {
                Ok(Some(message)) if message.space() != self.options.space => {}
                Ok(Some(message)) if !self.options.follow && message.sequence() >= self.end => {
                    return Ok(true);
                }
                Ok(Some(message)) => {
                    if began.is_none() {
                        sender.begin_transaction().map_err(Failed::Kafka)?;
                        began = Some(Instant::now());
                    }
                    let record =
                        self.encoder.encode(&message).map_err(|error| Failed::Other(error.into()))?;
                    send(sender, record, self.options, watch)?;
                    part.messages += 1;
                    part.bytes += record.value.len();
                    part.next = record.sequence + 1;
                }
                Ok(None) if !self.options.follow => return Ok(true),
                Ok(None) if watch.is_interrupted() => return Ok(false),
                Ok(None) => {}
                Err(error) => self.damaged(error, watch).map_err(Failed::Other)?,
            }
            if is_due {
                break;
            }
        }
        Ok(false)
    }

    /// Commits the records of a transaction together with how far it is.
    fn commit(&self, sender: &Sender, part: &Part, watch: &mut dyn Observer) -> Result<(), Failed> {
        let group = self.reader.group_metadata();
        let group = group.ok_or_else(|| Failed::Other(Error::Away("the consumer has no group".into())))?;
        let offset = self.identity.offset(part.next).map_err(Failed::Kafka)?;
        let mut is_reported = false;
        let mut again = |error: KafkaError| {
            let KafkaError::Transaction(why) = &error else { return Err(Failed::Kafka(error)) };
            if !why.is_retriable() {
                return Err(Failed::Kafka(error));
            }
            if watch.is_interrupted() {
                return Err(Failed::Other(Error::Interrupted));
            }
            if !is_reported {
                watch.warn(&format!("Kafka does not commit yet: {why}; trying again"));
                is_reported = true;
            }
            Ok(())
        };
        while let Err(error) = sender.send_offsets_to_transaction(&offset, &group, COMMIT) {
            again(error)?;
        }
        while let Err(error) = sender.commit_transaction(COMMIT) {
            again(error)?;
        }
        Ok(())
    }

    /// After an error in a transaction: whether it was aborted, and the export goes on.
    fn aborted(
        &mut self,
        sender: &Sender,
        error: &KafkaError,
        watch: &mut dyn Observer,
    ) -> Result<bool, Error> {
        match error {
            KafkaError::Transaction(why) if why.is_fatal() => Err(self.failed(sender, error)),
            _ if sender.client().fatal_error().is_some() => Err(self.failed(sender, error)),
            _ => match sender.abort_transaction(3 * ANSWER) {
                Ok(()) => self.goes_on(sender, error, watch),
                Err(KafkaError::Transaction(why)) if !why.is_fatal() => {
                    // The next producer of this id aborts it.
                    Err(Error::Away(format!("topic {:?}: {error}", self.options.topic)))
                }
                Err(error) => Err(self.failed(sender, &error)),
            },
        }
    }

    /// Whether the messages of a transaction that was aborted are sent again; an error where that would fail for ever.
    fn goes_on(
        &mut self,
        sender: &Sender,
        error: &KafkaError,
        watch: &mut dyn Observer,
    ) -> Result<bool, Error> {
        let topic = &self.options.topic;
        let record = sender.client().context().take_undelivered();
        let code = record.as_ref().map(|record| record.why).or(error.rdkafka_error_code());
        let why = record.map_or(error.to_string(), |record| {
            let message =
                record.sequence.map_or("a message".into(), |sequence| format!("message {sequence}"));
            format!("{message} of {} bytes was not taken: {}", record.bytes, record.why)
        });
        match code {
            Some(Code::MessageSizeTooLarge) => Err(Error::Refused(format!(
                "topic {topic:?}: {why}; raise max.message.bytes of the topic, and message.max.bytes with --set"
            ))),
            Some(Code::InvalidTimestamp | Code::InvalidRecord | Code::PolicyViolation) => {
                Err(Error::Refused(format!(
                    "topic {topic:?}: {why}; change the topic's settings, or send with --record-time now"
                )))
            }
            Some(Code::TopicAuthorizationFailed | Code::UnknownTopicOrPartition | Code::UnknownTopic) => {
                Err(self.failed(sender, error))
            }
            _ if self.aborts >= ABORTS_MAX => Err(Error::Away(format!("topic {topic:?}: {why}"))),
            _ => {
                self.aborts += 1;
                watch.warn(&format!("topic {topic:?}: {why}; trying again"));
                pause(watch)?;
                Ok(false)
            }
        }
    }

    fn failed(&self, sender: &Sender, error: &KafkaError) -> Error {
        let topic = &self.options.topic;
        let fatal = sender.client().fatal_error().map(|(code, text)| (code, format!(": {text}")));
        let code = fatal.as_ref().map(|(code, _)| *code).or(error.rdkafka_error_code());
        let text = fatal.map(|(_, text)| text).unwrap_or_default();
        match code {
            Some(Code::Fenced | Code::ProducerFenced | Code::InvalidProducerEpoch) => {
                Error::Refused(format!(
                    "another exporter of this stream into topic {topic:?} has begun{text}; this one ends, and nothing is there twice"
                ))
            }
            Some(Code::TransactionalIdAuthorizationFailed | Code::TopicAuthorizationFailed) => {
                Error::Refused(format!(
                    "topic {topic:?}: {error}; the user needs Write on the topic and the transactional id {}",
                    self.identity.name()
                ))
            }
            _ => {
                let why = sender.client().context().take().map_or(String::new(), |why| format!(" ({why})"));
                match failed(self.reader, &format!("topic {topic:?}"), error) {
                    Error::Away(text) => Error::Away(format!("{text}{why}")),
                    other => other,
                }
            }
        }
    }

    /// Messages that cannot be read are passed over: they are no messages any more.
    fn damaged(&mut self, error: tapedb_engine::Error, watch: &mut dyn Observer) -> Result<(), Error> {
        use tapedb_engine::Error::{Connection, Denied, Stale};
        self.counts.bad += 1;
        if matches!(error, Connection(_) | Denied { .. } | Stale(_)) || self.counts.bad > DAMAGE_MAX {
            return Err(error.into());
        }
        watch.warn(&error.to_string());
        Ok(())
    }
}

/// What a transaction has.
#[derive(Default)]
struct Part {
    messages: u64,
    bytes: usize,
    /// The sequence number behind its last message.
    next: u64,
}

/// Why a transaction failed.
enum Failed {
    Kafka(KafkaError),
    Other(Error),
}

/// Hands a record to librdkafka; waits while its queue is full.
fn send(
    sender: &Sender,
    record: &Outgoing,
    options: &ExportOptions,
    watch: &mut dyn Observer,
) -> Result<(), Failed> {
    let mut headers = OwnedHeaders::new_with_capacity(record.headers.len());
    for (name, value) in &record.headers {
        headers = headers.insert(Header { key: name, value: Some(value) });
    }
    let mut out = BaseRecord::to(&options.topic).key(&record.symbol).payload(&record.value).headers(headers);
    if !options.stamps_now {
        out = out.timestamp(record.time.div_euclid(1_000_000));
    }
    loop {
        match sender.send(out) {
            Ok(()) => return Ok(()),
            Err((KafkaError::MessageProduction(Code::QueueFull), back)) => {
                if watch.is_interrupted() {
                    return Err(Failed::Other(Error::Interrupted));
                }
                std::thread::sleep(Duration::from_millis(1));
                out = back;
            }
            Err((KafkaError::MessageProduction(Code::MessageSizeTooLarge), _)) => {
                return Err(Failed::Other(Error::Refused(format!(
                    "message {} has {} bytes, more than message.max.bytes; raise it with --set message.max.bytes=N, and on the broker",
                    record.sequence,
                    record.value.len()
                ))));
            }
            Err((error, _)) => return Err(Failed::Kafka(error)),
        }
    }
}

/// Waits before another attempt.
fn pause(watch: &mut dyn Observer) -> Result<(), Error> {
    let until = Instant::now() + Duration::from_millis(500);
    while Instant::now() < until {
        if watch.is_interrupted() {
            return Err(Error::Interrupted);
        }
        std::thread::sleep(WAIT);
    }
    Ok(())
}
