//! Records of a broker into a stream, each once.
//!
//! Always true: each partition (a *lane*) is a producer of the stream, and the offset of a record its number there. So what is stored and
//! how far a partition was read are one write, and a restart continues behind the last stored record. Bad records that are kept are stored
//! before the messages behind them.

use crate::dead_letters::{BadRecord, DeadLetters, LostOffsets, kept};
use crate::decoder::{Content, Decoder, Incoming, Mapping};
use crate::error::Error;
use crate::headers::checksum;
use crate::progress::{Counts, Observer};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tapedb_engine::{Database, Invalid, Late, Loader, LogError, Rejected, Stream};

/// Bytes of the batches that all partitions fill at a time.
const BATCHES_BYTES_MAX: usize = 64 << 20;
/// Bad records that are reported one by one; after them only the hundredth, thousandth, … is.
const REPORTED_MAX: u64 = 10;

/// What is done with a record that is no message of the stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum BadRecords {
    /// The import ends, and continues with this record.
    #[default]
    Stop,
    /// They are counted and passed over.
    Skip,
    /// They go into this stream, with topic, offset, reason, key and value.
    Keep(String),
}

/// What is done when a broker has removed records that were not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LostRecords {
    /// The import ends.
    #[default]
    Stop,
    /// They are counted, recorded in the stream of bad records where there is one, and the import goes on behind them.
    Skip,
}

/// How records become messages of a stream.
#[derive(Debug, Clone, Default)]
pub struct IntakeOptions {
    /// The space that is written.
    pub space: u32,
    /// Names and times of JSON.
    pub mapping: Mapping,
    /// Records that are no messages.
    pub bad: BadRecords,
    /// Records that the broker does not have any more.
    pub lost: LostRecords,
    /// Another name for the source than its topic: positions belong to it.
    pub source: Option<String>,
    /// Go on where the position is, whatever record is before it.
    pub trust_position: bool,
    /// How long a message may wait for others before they are stored together; zero: 200 ms.
    pub flush_interval: Duration,
}

/// Takes records into a stream.
#[derive(Debug)]
pub struct Intake {
    stream: Stream,
    decoder: Decoder,
    options: IntakeOptions,
    lanes: Vec<Lane>,
    dead: Option<DeadLetters>,
    counts: Counts,
    unflushed: Option<Instant>,
}

/// One partition.
#[derive(Debug)]
struct Lane {
    /// For people: topic and partition.
    name: String,
    topic: String,
    producer: u64,
    loader: Loader,
    /// Offset of the first record that was not taken.
    next: u64,
}

impl Intake {
    /// Opens a stream of a database that is open for writing here.
    ///
    /// # Errors
    /// [`Error::Settings`] when the stream does not fit the options; the engine's.
    pub fn open(db: &Database, stream: Stream, options: IntakeOptions) -> Result<Self, Error> {
        if stream.options().late == Late::Refuse {
            return Err(Error::Settings(format!(
                "stream {:?} refuses late messages, and a topic need not be in time order; let it accept them (`tapedb alter`)",
                stream.name()
            )));
        }
        let decoder = Decoder::new(stream.schema(), options.mapping.clone()).map_err(Error::Settings)?;
        let dead = match &options.bad {
            BadRecords::Keep(name) if name == stream.name() => {
                return Err(Error::Settings("bad records go into a stream of their own".into()));
            }
            BadRecords::Keep(name) => Some(DeadLetters::open(db, name, &stream)?),
            _ => None,
        };
        Ok(Self {
            stream,
            decoder,
            options,
            lanes: Vec::new(),
            dead,
            counts: Counts::default(),
            unflushed: None,
        })
    }

    /// The lane of a partition of a topic, or of a topic that has none. The same partition has the same lane.
    ///
    /// # Errors
    /// The engine's: also when the database is behind a server.
    pub fn lane(&mut self, topic: &str, partition: Option<i32>) -> Result<usize, Error> {
        let source = self.options.source.as_deref().unwrap_or(topic);
        let producer = producer_of(source, partition);
        if let Some(found) = self.lanes.iter().position(|lane| lane.producer == producer) {
            return Ok(found);
        }
        let name = match partition {
            Some(partition) => format!("{topic}/{partition}"),
            None => topic.to_string(),
        };
        let mut loader = self.stream.loader_in(self.options.space)?;
        let next = loader.resume(producer)?;
        self.lanes.push(Lane { name, topic: topic.into(), producer, loader, next });
        let bytes = (BATCHES_BYTES_MAX / self.lanes.len()).min(tapedb_engine::BATCH_BYTES_DEFAULT);
        self.lanes.iter_mut().for_each(|lane| lane.loader.set_batch_bytes(bytes));
        Ok(self.lanes.len() - 1)
    }

    /// Offset of the first record of a lane that was not taken; 0 if none was.
    pub fn next(&self, lane: usize) -> u64 {
        self.lanes[lane].next
    }

    /// The name of a lane, for people.
    pub fn name(&self, lane: usize) -> &str {
        &self.lanes[lane].name
    }

    /// What has been taken since it was opened.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Where a lane begins to read, given which offsets the broker has.
    ///
    /// # Errors
    /// [`Error::Refused`]: the topic ends before what was read of it, or has lost what was not.
    pub fn start(
        &mut self,
        lane: usize,
        first: u64,
        end: u64,
        watch: &mut dyn Observer,
    ) -> Result<u64, Error> {
        let Lane { name, next, topic, producer, .. } = &self.lanes[lane];
        let (next, producer) = (*next, *producer);
        if next == 0 {
            // Nothing was taken of it: what is there is the beginning.
            return Ok(first);
        }
        if end < next {
            return Err(Error::Refused(format!(
                "{name} ends at offset {end}, and the stream has its records up to {next}: the topic was deleted and created again, or \
                 has lost its end; import it from its beginning under another name with --source NAME"
            )));
        }
        if first <= next {
            return Ok(next);
        }
        let what = format!("{name} has lost the offsets {next} to {} before they were read", first - 1);
        if self.options.lost == LostRecords::Stop {
            return Err(Error::Refused(format!(
                "{what}: its retention is shorter than the pause of the import; go on without them with --on-lost-records skip"
            )));
        }
        watch.warn(&format!("{what}; going on behind them"));
        self.counts.lost += first - next;
        if let Some(dead) = &mut self.dead {
            let lost = LostOffsets { source: name.clone(), first: next, end: first };
            dead.lost(producer, &topic.clone(), now(), lost)?;
        }
        self.lanes[lane].next = first;
        Ok(first)
    }

    /// Whether the record before the position should be compared with what is stored of it.
    pub fn wants_comparison(&self, lane: usize) -> bool {
        self.lanes[lane].next > 0 && !self.options.trust_position
    }

    /// Compares the record before the position with the message that was stored last of this lane: another one is of another topic.
    ///
    /// # Errors
    /// [`Error::Refused`].
    pub fn compare(&self, lane: usize, record: &Incoming<'_>) -> Result<(), Error> {
        let Lane { name, producer, .. } = &self.lanes[lane];
        let space = self.options.space;
        let Some((_, sequences)) = self.stream.batches(space)?.last_of(*producer) else { return Ok(()) };
        // A record that is no message now is none of those that are stored.
        let Ok(decoded) = self.decoder.decode(record) else { return Ok(()) };
        let Some((type_id, body)) = self.decoder.body(&decoded) else { return Ok(()) };
        let mut from = self.stream.next_sequences()?;
        from[space as usize] = sequences.end.saturating_sub(1);
        let mut cursor = self.stream.cursor().from_sequences(from).open()?;
        let Some(stored) = cursor.next()? else { return Ok(()) };
        if stored.space() != space || stored.sequence() + 1 != sequences.end {
            // It has been deleted since.
            return Ok(());
        }
        let is_same = stored.time() == decoded.time && (stored.type_id() != type_id || stored.body() == body);
        if is_same {
            return Ok(());
        }
        Err(Error::Refused(format!(
            "{name} has another record at offset {} than the one that is stored: it is another topic of this name, or was created again; \
             import it under another name with --source NAME (or, if the stream's messages were changed, add --trust-position)",
            self.lanes[lane].next - 1
        )))
    }

    /// Takes a record; one of an offset that was taken before is passed over.
    ///
    /// # Errors
    /// [`Error::BadRecord`]; the engine's.
    pub fn take(
        &mut self,
        lane: usize,
        offset: u64,
        record: &Incoming<'_>,
        watch: &mut dyn Observer,
    ) -> Result<(), Error> {
        let found = &mut self.lanes[lane];
        if offset < found.next {
            return Ok(());
        }
        let taken = self.decoder.decode(record).map_err(Taken::Bad).and_then(|decoded| {
            found.loader.set_position(offset).map_err(Taken::Failed)?;
            let appended = match &decoded.content {
                Content::Value(value) => found.loader.append_value(&decoded.symbol, decoded.time, value),
                Content::Row { type_id, body } => {
                    found.loader.append_body(&decoded.symbol, decoded.time, *type_id, body)
                }
            };
            appended.map_err(|error| {
                if is_about_record(&error) { Taken::Bad(error.to_string()) } else { Taken::Failed(error) }
            })
        });
        match taken {
            Ok(()) => {
                self.counts.messages += 1;
                self.counts.bytes += record.value.map_or(0, <[u8]>::len) as u64;
                self.unflushed.get_or_insert_with(Instant::now);
            }
            Err(Taken::Failed(error)) => return Err(error.into()),
            Err(Taken::Bad(why)) => self.bad(lane, offset, record, why, watch)?,
        }
        self.lanes[lane].next = offset + 1;
        Ok(())
    }

    /// Stores what has waited long enough.
    ///
    /// # Errors
    /// The engine's.
    pub fn flush_when_due(&mut self) -> Result<bool, Error> {
        let interval =
            if self.options.flush_interval.is_zero() { FLUSH_INTERVAL } else { self.options.flush_interval };
        let is_due = self.unflushed.is_some_and(|since| since.elapsed() >= interval);
        if is_due {
            self.flush()?;
        }
        Ok(is_due)
    }

    /// Stores all that was taken.
    ///
    /// # Errors
    /// The engine's.
    pub fn flush(&mut self) -> Result<(), Error> {
        if let Some(dead) = &mut self.dead {
            dead.flush()?;
        }
        self.lanes.iter_mut().try_for_each(|lane| lane.loader.flush().map(drop))?;
        self.unflushed = None;
        Ok(())
    }

    fn bad(
        &mut self,
        lane: usize,
        offset: u64,
        record: &Incoming<'_>,
        why: String,
        watch: &mut dyn Observer,
    ) -> Result<(), Error> {
        let Lane { name, topic, producer, .. } = &self.lanes[lane];
        if self.options.bad == BadRecords::Stop {
            return Err(Error::BadRecord(format!(
                "the record at offset {offset} of {name} is no message of stream {:?}: {why}; \
                 pass over such records with --on-bad-record skip, or keep them with --on-bad-record STREAM",
                self.stream.name()
            )));
        }
        self.counts.bad += 1;
        let count = self.counts.bad;
        if count <= REPORTED_MAX || count.checked_ilog10().is_some_and(|power| 10u64.pow(power) == count) {
            let more = if count == REPORTED_MAX { " (further ones are only counted)" } else { "" };
            watch.warn(&format!("skipped the record at offset {offset} of {name}: {why}{more}"));
        }
        if let Some(dead) = &mut self.dead {
            let bad = BadRecord {
                source: name.clone(),
                offset,
                reason: why,
                key: kept(record.key),
                value: kept(record.value),
            };
            dead.keep(*producer, topic, record.time.unwrap_or_else(now), bad)?;
            self.unflushed.get_or_insert_with(Instant::now);
        }
        Ok(())
    }
}

/// How long a message waits for others.
const FLUSH_INTERVAL: Duration = Duration::from_millis(200);

/// Why a record was not taken.
enum Taken {
    Bad(String),
    Failed(tapedb_engine::Error),
}

/// Whether an error is about the record, and not about the stream or its disk.
fn is_about_record(error: &tapedb_engine::Error) -> bool {
    use tapedb_engine::Error as E;
    match error {
        E::Rejected(Rejected::Encode(_) | Rejected::Size(_) | Rejected::Malformed { .. }) => true,
        E::Invalid(Invalid::Type { .. }) => true,
        E::Log(error) => matches!(**error, LogError::SymbolLength { .. } | LogError::TooManySymbols),
        _ => false,
    }
}

/// The producer that stands for a partition. Not 0, which stands for none.
fn producer_of(source: &str, partition: Option<i32>) -> u64 {
    let partition = partition.map_or(String::new(), |partition| partition.to_string());
    checksum(format!("broker\0{source}\0{partition}").as_bytes()).max(1)
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::headers::Marks;
    use crate::progress::Unwatched;
    use tapedb_engine::StreamOptions;

    struct Bench {
        directory: tempfile::TempDir,
    }

    impl Bench {
        fn new() -> Self {
            Self { directory: tempfile::tempdir().expect("a directory") }
        }

        fn open(&self, options: IntakeOptions) -> (Database, Intake) {
            let db = Database::open(self.directory.path().join("db")).expect("a database");
            let schema = "message Tick { price: i64 }".parse().expect("a schema");
            let stream =
                db.open_or_create_stream("ticks", schema, StreamOptions::default()).expect("a stream");
            let intake = Intake::open(&db, stream, options).expect("it opens");
            (db, intake)
        }
    }

    fn take(intake: &mut Intake, lane: usize, offset: u64, text: &str) -> Result<(), Error> {
        let marks = Marks::default();
        let record = Incoming {
            key: Some(b"A"),
            value: Some(text.as_bytes()),
            time: Some(offset as i64),
            marks: &marks,
        };
        intake.take(lane, offset, &record, &mut Unwatched)
    }

    fn tick(price: u64) -> String {
        format!("{{\"price\":{price}}}")
    }

    fn prices(db: &Database) -> Vec<i64> {
        let stream = db.stream("ticks").expect("a stream");
        let mut cursor = stream.cursor().from_sequence(0).open().expect("a cursor");
        let mut found = Vec::new();
        while let Some(message) = cursor.next().expect("a message") {
            let body = message.body().first_chunk().expect("eight bytes");
            found.push(i64::from_le_bytes(*body));
        }
        found
    }

    #[test]
    fn each_record_is_stored_once_whatever_is_sent_again() {
        let bench = Bench::new();
        for round in 0..4u64 {
            let (db, mut intake) = bench.open(IntakeOptions::default());
            let lanes =
                [intake.lane("t", Some(0)).expect("a lane"), intake.lane("t", Some(1)).expect("a lane")];
            for (partition, lane) in lanes.into_iter().enumerate() {
                assert_eq!(intake.next(lane), if round == 0 { 0 } else { round * 10 });
                // From the beginning again, with holes as those of transactions.
                for offset in (0..round * 10 + 10).filter(|offset| offset % 5 != 3) {
                    take(&mut intake, lane, offset, &tick(offset * 2 + partition as u64)).expect("taken");
                }
            }
            intake.flush().expect("stored");
            drop(intake);
            let mut found = prices(&db);
            found.sort_unstable();
            let expected: Vec<i64> = (0..(round as i64 + 1) * 20).filter(|n| n / 2 % 5 != 3).collect();
            assert_eq!(found, expected, "{round}");
        }
    }

    #[test]
    fn what_was_not_flushed_is_read_again() {
        let bench = Bench::new();
        let (db, mut intake) = bench.open(IntakeOptions::default());
        let lane = intake.lane("t", None).expect("a lane");
        take(&mut intake, lane, 0, &tick(0)).expect("taken");
        intake.flush().expect("stored");
        take(&mut intake, lane, 1, &tick(1)).expect("taken");
        intake.lanes[lane].loader.discard();
        drop((intake, db));
        let (_db, mut intake) = bench.open(IntakeOptions::default());
        let lane = intake.lane("t", None).expect("a lane");
        assert_eq!(intake.next(lane), 1);
    }

    #[test]
    fn bad_records_stop_are_skipped_or_kept_once() {
        let bench = Bench::new();
        let (db, mut intake) = bench.open(IntakeOptions::default());
        let lane = intake.lane("t", Some(3)).expect("a lane");
        take(&mut intake, lane, 0, &tick(7)).expect("taken");
        let stopped = take(&mut intake, lane, 1, "{\"prize\":1}").unwrap_err().to_string();
        assert!(stopped.contains("offset 1 of t/3") && stopped.contains("--on-bad-record"), "{stopped}");
        intake.flush().expect("stored");
        drop((intake, db));
        for _ in 0..2 {
            let bad = BadRecords::Keep("dead".into());
            let (db, mut intake) = bench.open(IntakeOptions { bad, ..IntakeOptions::default() });
            let lane = intake.lane("t", Some(3)).expect("a lane");
            assert_eq!(intake.next(lane), 1);
            for (offset, text) in [(1, "{\"prize\":1}"), (2, ""), (3, "{\"price\":1}{"), (4, "[[[")] {
                take(&mut intake, lane, offset, text).expect("kept");
            }
            intake.flush().expect("stored");
            assert_eq!((intake.counts().bad, intake.next(lane)), (4, 5));
            drop(intake);
            let dead = db.stream("dead").expect("a stream");
            let mut cursor = dead.cursor().open().expect("a cursor");
            let mut found = Vec::new();
            while let Some(message) = cursor.next().expect("a message") {
                let bad: BadRecord = message.decode().expect("a bad record");
                found.push((message.symbol().to_string(), bad.source, bad.offset, bad.value.0.len()));
            }
            let of = |offset, length| ("t".to_string(), "t/3".to_string(), offset, length);
            assert_eq!(found, [of(1, 11), of(2, 0), of(3, 12), of(4, 3)]);
            assert_eq!(prices(&db), [7]);
        }
    }

    #[test]
    fn topics_that_were_created_again_or_lost_records_are_refused() {
        let bench = Bench::new();
        let (db, mut intake) = bench.open(IntakeOptions::default());
        let lane = intake.lane("t", Some(0)).expect("a lane");
        assert_eq!(intake.start(lane, 5, 20, &mut Unwatched).expect("the beginning"), 5);
        (5..20).for_each(|offset| take(&mut intake, lane, offset, &tick(offset)).expect("taken"));
        intake.flush().expect("stored");
        assert_eq!(intake.start(lane, 5, 20, &mut Unwatched).expect("behind what is stored"), 20);
        assert_eq!(intake.start(lane, 20, 30, &mut Unwatched).expect("nothing is lost"), 20);
        let again = intake.start(lane, 0, 3, &mut Unwatched).unwrap_err().to_string();
        assert!(again.contains("ends at offset 3") && again.contains("--source"), "{again}");
        let lost = intake.start(lane, 25, 30, &mut Unwatched).unwrap_err().to_string();
        assert!(lost.contains("20 to 24") && lost.contains("--on-lost-records"), "{lost}");
        let marks = Marks::default();
        let compared = |price: u64, time| {
            let text = tick(price);
            let record =
                Incoming { key: Some(b"A"), value: Some(text.as_bytes()), time: Some(time), marks: &marks };
            intake.compare(lane, &record).map_err(|error| error.to_string())
        };
        assert_eq!(compared(19, 19), Ok(()));
        assert!(compared(18, 19).unwrap_err().contains("another record at offset 19"));
        assert!(compared(19, 18).unwrap_err().contains("--trust-position"));
        drop((intake, db));

        let options = IntakeOptions {
            lost: LostRecords::Skip,
            bad: BadRecords::Keep("dead".into()),
            ..IntakeOptions::default()
        };
        for _ in 0..2 {
            let (db, mut intake) = bench.open(options.clone());
            let lane = intake.lane("t", Some(0)).expect("a lane");
            assert_eq!(intake.start(lane, 25, 30, &mut Unwatched).expect("behind the hole"), 25);
            intake.flush().expect("stored");
            assert_eq!(intake.counts().lost, 5);
            drop(intake);
            let dead = db.stream("dead").expect("a stream");
            let mut cursor = dead.cursor().open().expect("a cursor");
            let lost: LostOffsets =
                cursor.next().expect("read").expect("one").decode().expect("lost records");
            assert_eq!((lost.source.as_str(), lost.first, lost.end), ("t/0", 20, 25));
            assert!(cursor.next().expect("read").is_none(), "it is recorded once");
        }
    }

    #[test]
    fn another_name_of_the_source_begins_at_the_beginning() {
        let bench = Bench::new();
        let (db, mut intake) = bench.open(IntakeOptions::default());
        let lane = intake.lane("t", Some(0)).expect("a lane");
        take(&mut intake, lane, 0, &tick(1)).expect("taken");
        intake.flush().expect("stored");
        drop((intake, db));
        let (_db, mut intake) =
            bench.open(IntakeOptions { source: Some("t2".into()), ..IntakeOptions::default() });
        let lane = intake.lane("t", Some(0)).expect("a lane");
        assert_eq!(intake.next(lane), 0);
    }

    #[test]
    fn a_stream_that_refuses_late_messages_is_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let db = Database::open(directory.path().join("db")).expect("a database");
        let options = StreamOptions { late: Late::Refuse, ..StreamOptions::default() };
        let schema = "message Tick { price: i64 }".parse().expect("a schema");
        let stream = db.create_stream("ticks", schema, options).expect("a stream");
        let refused = Intake::open(&db, stream, IntakeOptions::default()).unwrap_err().to_string();
        assert!(refused.contains("late"), "{refused}");
    }
}
