//! How far an export is: what the topic itself states.
//!
//! Each transaction of an export carries, beside its records, an offset of the group `tapedb-export-…`: the next sequence number. Records
//! and offset are committed together. Where the group's offset has expired, the last records of all partitions state it by their headers:
//! a message is in one partition, and messages are sent in order, so the largest sequence number is that of the last committed one.

use super::client::{ANSWER, Reader, consumer, failed, marks, offsets, partitions, raw};
use super::settings::Settings;
use crate::error::Error;
use crate::headers::id_text;
use rdkafka::consumer::Consumer;
use rdkafka::error::KafkaError;
use rdkafka::message::Message;
use rdkafka::{Offset, TopicPartitionList};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tapedb_engine::Stream;

/// Records at the end of a partition that are looked at first.
const SPAN: u64 = 64;
const WAIT: Duration = Duration::from_millis(100);

/// Names what is exported, for the broker.
#[derive(Debug, Clone)]
pub(super) struct Identity {
    pub id: String,
    pub space: u32,
    pub topic: String,
}

impl Identity {
    pub fn of(stream: &Stream, space: u32, topic: &str) -> Self {
        Self { id: id_text(stream.id()), space, topic: topic.into() }
    }

    /// The group and the transactional id: the same for each run, so that a new one fences an old one.
    pub fn name(&self) -> String {
        format!("tapedb-export-{}-{}-{}", self.id, self.space, self.topic)
    }

    /// The partition that the group's offset is of.
    pub fn offset(&self, next: u64) -> Result<TopicPartitionList, KafkaError> {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(&self.topic, 0, Offset::Offset(raw(next)))?;
        Ok(list)
    }
}

/// The first sequence number that is not in the topic; `None`: the topic states none. `is_start_known`: also where it had records that
/// the broker has removed, which may have stated one.
pub(super) fn find(
    settings: &Settings,
    reader: &Reader,
    identity: &Identity,
    is_start_known: bool,
) -> Result<Option<u64>, Error> {
    let topic = &identity.topic;
    let partitions = partitions(reader, topic)?;
    let mut wanted = TopicPartitionList::new();
    wanted.add_partition(topic, 0);
    let found = reader.committed_offsets(wanted, ANSWER).map_err(|error| failed(reader, topic, &error))?;
    let committed = found.find_partition(topic, 0).and_then(|found| match found.offset() {
        Offset::Offset(offset) => u64::try_from(offset).ok(),
        _ => None,
    });
    let seen = last_of(settings, identity, &partitions, committed.is_some())?;
    match (committed, seen) {
        (Some(committed), Some(seen)) if seen > committed => Err(Error::Refused(format!(
            "topic {topic:?} has messages up to sequence number {seen}, and the group {} states {committed}: its offset was changed; \
             delete the group's offsets to continue behind the records",
            identity.name()
        ))),
        (Some(committed), _) => Ok(Some(committed)),
        (None, Some(seen)) => Ok(Some(seen)),
        (None, None) if is_start_known => Ok(None),
        (None, None) => has_all_records(reader, topic, &partitions).map(|()| None),
    }
}

/// Whether nothing was removed of a topic: what it does not state now, it has never stated.
fn has_all_records(reader: &Reader, topic: &str, partitions: &[i32]) -> Result<(), Error> {
    for partition in partitions {
        let (first, _) = offsets(reader, topic, *partition)?;
        if first > 0 {
            return Err(Error::Refused(format!(
                "topic {topic:?} does not state how far the export is: {topic}/{partition} has lost its records before offset {first}, and \
                 there is no offset of the export's group; give the first message to send with --from-sequence N"
            )));
        }
    }
    Ok(())
}

/// The sequence number after the largest one in the topic. `is_check`: only the ends of partitions are looked at.
fn last_of(
    settings: &Settings,
    identity: &Identity,
    partitions: &[i32],
    is_check: bool,
) -> Result<Option<u64>, Error> {
    let reader = consumer(settings, "tapedb", &[])?;
    let topic = &identity.topic;
    let mut ends = BTreeMap::new();
    for partition in partitions {
        ends.insert(*partition, offsets(&reader, topic, *partition)?);
    }
    let (mut largest, mut span) = (None, SPAN);
    while !ends.is_empty() {
        let mut list = TopicPartitionList::new();
        for (partition, (first, end)) in &ends {
            let from = (*first).max(end.saturating_sub(span));
            let added = list.add_partition_offset(topic, *partition, Offset::Offset(raw(from)));
            added.map_err(|error| failed(&reader, topic, &error))?;
        }
        let found = read_to_ends(&reader, identity, &list, &ends)?;
        largest = largest.max(found.values().max().copied());
        // In the others, all that was looked at is of others, or of aborted transactions.
        ends.retain(|partition, (first, end)| {
            !is_check && !found.contains_key(partition) && first.saturating_add(span) < *end
        });
        span = span.saturating_mul(32);
    }
    Ok(largest.map(|last: u64| last + 1))
}

/// The largest sequence number of each partition that has one behind the offset where reading begins.
fn read_to_ends(
    reader: &Reader,
    identity: &Identity,
    list: &TopicPartitionList,
    ends: &BTreeMap<i32, (u64, u64)>,
) -> Result<BTreeMap<i32, u64>, Error> {
    let topic = &identity.topic;
    reader.assign(list).map_err(|error| failed(reader, topic, &error))?;
    let mut open: BTreeMap<i32, u64> = ends
        .iter()
        .filter(|(_, (first, end))| first < end)
        .map(|(partition, (_, end))| (*partition, *end))
        .collect();
    let (mut found, mut last) = (BTreeMap::new(), Instant::now());
    while !open.is_empty() {
        match reader.poll(WAIT) {
            Some(Ok(message)) => {
                last = Instant::now();
                let marks = marks(&message);
                let is_ours =
                    marks.stream_id.as_deref() == Some(&identity.id) && marks.space == Some(identity.space);
                if let Some(sequence) = marks.sequence.filter(|_| is_ours) {
                    let largest = found.entry(message.partition()).or_insert(sequence);
                    *largest = sequence.max(*largest);
                }
                if open.get(&message.partition()).is_some_and(|end| message.offset() + 1 >= raw(*end)) {
                    open.remove(&message.partition());
                }
            }
            Some(Err(KafkaError::PartitionEOF(partition))) => {
                last = Instant::now();
                open.remove(&partition);
            }
            _ if last.elapsed() > 3 * ANSWER => {
                return Err(Error::Away(format!("topic {topic:?} does not deliver its last records")));
            }
            _ => {}
        }
    }
    reader.unassign().map_err(|error| failed(reader, topic, &error))?;
    Ok(found)
}
