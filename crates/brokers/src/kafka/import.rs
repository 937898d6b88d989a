//! A topic as a source.
//!
//! Partitions are assigned by hand at the offsets that the stream has: there is no group whose offsets could disagree with the stream.
//! Records of transactions that were aborted are not delivered, and markers of transactions are holes in the offsets.

use super::client::{ANSWER, Reader, consumer, failed, marks, offsets, partitions, raw};
use super::settings::Settings;
use crate::decoder::Incoming;
use crate::error::Error;
use crate::intake::Intake;
use crate::progress::{Counts, LaneStatus, Observer};
use rdkafka::consumer::{CommitMode, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::{Offset, TopicPartitionList};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// What is imported.
#[derive(Debug, Clone, Default)]
pub struct ImportOptions {
    /// The topic.
    pub topic: String,
    /// Commit offsets to this consumer group, so that Kafka's tools show the lag. They are not read.
    pub group: Option<String>,
    /// Go on with records that arrive, until it is interrupted.
    pub follow: bool,
    /// How often it looks for new partitions; zero: 10 s.
    pub refresh: Duration,
}

const WAIT: Duration = Duration::from_millis(50);
const REFRESH: Duration = Duration::from_secs(10);
/// Records between two looks at the clock.
const TURN: u32 = 1_000;

/// Imports.
///
/// # Errors
/// [`Error`]; what was taken before is stored. Brokers that are lost while it runs are none: librdkafka tries them again.
pub fn import(
    settings: &Settings,
    options: &ImportOptions,
    intake: &mut Intake,
    watch: &mut dyn Observer,
) -> Result<Counts, Error> {
    let reader = consumer(settings, options.group.as_deref().unwrap_or("tapedb"), &[])?;
    let mut session =
        Session { settings, reader: &reader, options, lanes: BTreeMap::new(), total: 0, away: None };
    let read = session.run(intake, watch);
    // Also after an error: what was taken counts.
    let stored = intake.flush();
    if stored.is_ok() {
        session.commit(intake, CommitMode::Sync);
    }
    read.and(stored).map(|()| intake.counts())
}

/// Where an import stands, by partition.
///
/// # Errors
/// [`Error`].
pub fn import_status(
    settings: &Settings,
    options: &ImportOptions,
    intake: &mut Intake,
) -> Result<Vec<LaneStatus>, Error> {
    let reader = consumer(settings, "tapedb", &[])?;
    let topic = &options.topic;
    let of = |partition: i32| {
        let lane = intake.lane(topic, Some(partition))?;
        let (first, end) = offsets(&reader, topic, partition)?;
        let next = Some(intake.next(lane)).filter(|next| *next > 0);
        Ok(LaneStatus { name: intake.name(lane).to_string(), next, first, end })
    };
    partitions(&reader, topic)?.into_iter().map(of).collect()
}

struct Session<'a> {
    settings: &'a Settings,
    reader: &'a Reader,
    options: &'a ImportOptions,
    /// By partition.
    lanes: BTreeMap<i32, Reading>,
    /// Offsets to read, as it was found.
    total: u64,
    /// What is wrong with the connection, once it was reported.
    away: Option<String>,
}

/// A partition that is read.
#[derive(Debug)]
struct Reading {
    lane: usize,
    /// Where an import ends that does not follow.
    until: u64,
    is_done: bool,
}

impl Session<'_> {
    fn run(&mut self, intake: &mut Intake, watch: &mut dyn Observer) -> Result<(), Error> {
        self.add_partitions(intake, watch)?;
        let every = if self.options.refresh.is_zero() { REFRESH } else { self.options.refresh };
        let mut refreshed = Instant::now();
        while self.options.follow || self.lanes.values().any(|reading| !reading.is_done) {
            if watch.is_interrupted() {
                return Err(Error::Interrupted);
            }
            for turn in 0..TURN {
                let wait = if turn == 0 { WAIT } else { Duration::ZERO };
                match self.reader.poll(wait) {
                    None => break,
                    Some(Ok(message)) => self.take(&message, intake, watch)?,
                    Some(Err(error)) => self.not_read(&error, intake, watch)?,
                }
            }
            if intake.flush_when_due()? {
                self.commit(intake, CommitMode::Async);
            }
            watch.progress(&intake.counts(), self.total);
            self.note_connection(watch);
            if self.options.follow && refreshed.elapsed() >= every {
                match self.add_partitions(intake, watch) {
                    // The brokers are away: those that are known are read when they are back.
                    Err(Error::Away(_)) => {}
                    other => other?,
                }
                refreshed = Instant::now();
            }
        }
        Ok(())
    }

    /// Begins with the partitions that are not read yet.
    fn add_partitions(&mut self, intake: &mut Intake, watch: &mut dyn Observer) -> Result<(), Error> {
        let topic = &self.options.topic;
        let found = partitions(self.reader, topic)?;
        let new: Vec<i32> =
            found.into_iter().filter(|partition| !self.lanes.contains_key(partition)).collect();
        if new.is_empty() {
            return Ok(());
        }
        if !self.lanes.is_empty() {
            watch.warn(&format!(
                "topic {topic:?} has {} new partitions; reading them from their beginning",
                new.len()
            ));
        }
        let mut ends = BTreeMap::new();
        for partition in &new {
            let lane = intake.lane(topic, Some(*partition))?;
            ends.insert(*partition, (lane, offsets(self.reader, topic, *partition)?));
        }
        self.compare(&ends, intake)?;
        let mut list = TopicPartitionList::new();
        for (partition, (lane, (first, end))) in ends {
            let from = intake.start(lane, first, end, watch)?;
            let reading = Reading { lane, until: end, is_done: from >= end };
            self.total += end - from.min(end);
            self.lanes.insert(partition, reading);
            let added = list.add_partition_offset(topic, partition, Offset::Offset(raw(from)));
            added.map_err(|error| failed(self.reader, topic, &error))?;
        }
        self.reader.incremental_assign(&list).map_err(|error| failed(self.reader, topic, &error))
    }

    /// Compares the record before each position with what is stored.
    fn compare(&self, ends: &BTreeMap<i32, (usize, (u64, u64))>, intake: &Intake) -> Result<(), Error> {
        let topic = &self.options.topic;
        let mut wanted = BTreeMap::new();
        let mut list = TopicPartitionList::new();
        for (partition, (lane, (first, end))) in ends {
            let next = intake.next(*lane);
            if intake.wants_comparison(*lane) && *first < next && next <= *end {
                wanted.insert(*partition, (*lane, next - 1));
                let added = list.add_partition_offset(topic, *partition, Offset::Offset(raw(next - 1)));
                added.map_err(|error| failed(self.reader, topic, &error))?;
            }
        }
        if wanted.is_empty() {
            return Ok(());
        }
        let reader = consumer(self.settings, "tapedb", &[("queued.max.messages.kbytes", "1024")])?;
        reader.assign(&list).map_err(|error| failed(&reader, topic, &error))?;
        let until = Instant::now() + ANSWER;
        while !wanted.is_empty() {
            if Instant::now() > until {
                return Err(Error::Away(format!(
                    "topic {topic:?} does not deliver the records before the positions"
                )));
            }
            match reader.poll(WAIT) {
                Some(Ok(message)) => {
                    let Some((lane, offset)) = wanted.remove(&message.partition()) else { continue };
                    // A later one: that record was compacted away, or is of a transaction that was aborted.
                    if message.offset() == raw(offset) {
                        let marks = marks(&message);
                        intake.compare(lane, &incoming(&message, &marks))?;
                    }
                }
                Some(Err(KafkaError::PartitionEOF(partition))) => {
                    wanted.remove(&partition);
                }
                Some(Err(error)) if error.rdkafka_error_code() == Some(Code::AutoOffsetReset) => {
                    return Ok(());
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn take(
        &mut self,
        message: &BorrowedMessage<'_>,
        intake: &mut Intake,
        watch: &mut dyn Observer,
    ) -> Result<(), Error> {
        if self.away.take().is_some() {
            watch.warn("Kafka is reached again");
        }
        let (offset, partition) = (message.offset(), message.partition());
        let (Ok(offset), Some(reading)) = (u64::try_from(offset), self.lanes.get_mut(&partition)) else {
            return Ok(());
        };
        if !self.options.follow && offset >= reading.until {
            // It arrived after the import began.
            reading.is_done = true;
            return Ok(());
        }
        let marks = marks(message);
        intake.take(reading.lane, offset, &incoming(message, &marks), watch)?;
        reading.is_done = offset + 1 >= reading.until;
        Ok(())
    }

    /// Something else than a record.
    fn not_read(
        &mut self,
        error: &KafkaError,
        intake: &mut Intake,
        watch: &mut dyn Observer,
    ) -> Result<(), Error> {
        if let KafkaError::PartitionEOF(partition) = error {
            if let Some(reading) = self.lanes.get_mut(partition) {
                reading.is_done = true;
            }
            return Ok(());
        }
        let topic = &self.options.topic;
        match error.rdkafka_error_code() {
            Some(Code::AutoOffsetReset | Code::OffsetOutOfRange) => self.begin_again(intake, watch),
            Some(Code::UnknownTopicOrPartition | Code::UnknownTopic | Code::UnknownPartition) => {
                // Also while a broker restarts, before it has its topics.
                partitions(self.reader, topic)
                    .map(drop)
                    .or_else(|error| if error.is_temporary() { Ok(()) } else { Err(error) })
            }
            Some(
                Code::TopicAuthorizationFailed
                | Code::GroupAuthorizationFailed
                | Code::SaslAuthenticationFailed,
            ) => Err(failed(self.reader, topic, error)),
            _ if matches!(error, KafkaError::MessageConsumptionFatal(_)) => {
                Err(Error::Refused(format!("topic {topic:?}: {error}")))
            }
            _ => {
                self.report_away(&error.to_string(), watch);
                Ok(())
            }
        }
    }

    /// Partitions do not have the offsets that were asked for: retention was faster, or the topic is another one.
    fn begin_again(&mut self, intake: &mut Intake, watch: &mut dyn Observer) -> Result<(), Error> {
        intake.flush()?;
        self.reader.unassign().map_err(|error| failed(self.reader, &self.options.topic, &error))?;
        let until: BTreeMap<i32, u64> =
            self.lanes.iter().map(|(partition, reading)| (*partition, reading.until)).collect();
        self.lanes.clear();
        self.add_partitions(intake, watch)?;
        for (partition, reading) in &mut self.lanes {
            // An import that does not follow ends where it would have ended.
            let end = until.get(partition).copied().unwrap_or(reading.until);
            reading.until = end;
            reading.is_done = intake.next(reading.lane) >= end;
        }
        Ok(())
    }

    fn note_connection(&mut self, watch: &mut dyn Observer) {
        if let Some(why) = self.reader.client().context().take() {
            self.report_away(&why, watch);
        }
    }

    fn report_away(&mut self, why: &str, watch: &mut dyn Observer) {
        // Once for each loss: librdkafka repeats itself.
        if self.away.is_none() {
            watch.warn(&format!("{why}; trying again"));
        }
        self.away = Some(why.into());
    }

    /// Tells the group how far the stream is, for Kafka's own tools.
    fn commit(&self, intake: &Intake, mode: CommitMode) {
        if self.options.group.is_none() {
            return;
        }
        let mut list = TopicPartitionList::new();
        for (partition, reading) in &self.lanes {
            let next = intake.next(reading.lane);
            if next > 0 {
                let _ = list.add_partition_offset(&self.options.topic, *partition, Offset::Offset(raw(next)));
            }
        }
        // It is no position of the import: that it fails changes nothing.
        let _ = self.reader.commit(&list, mode);
    }
}

fn incoming<'a>(message: &'a BorrowedMessage<'_>, marks: &'a crate::headers::Marks) -> Incoming<'a> {
    let millis = message.timestamp().to_millis();
    Incoming {
        key: message.key(),
        value: message.payload(),
        time: millis.and_then(|millis| millis.checked_mul(1_000_000)),
        marks,
    }
}
