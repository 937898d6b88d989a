//! A JetStream stream as a source.
//!
//! The consumer is one of this run alone and acknowledges nothing: where to begin, the stream of the database has. So a lost connection, a
//! restarted server and a killed import are one case: another consumer begins behind what is stored.

use super::connection::{Connection, Server, unique};
use super::frame::{headers, marks};
use super::jetstream::{self, Info, Place};
use crate::decoder::Incoming;
use crate::error::Error;
use crate::intake::Intake;
use crate::progress::{Counts, LaneStatus, Observer};
use serde_json::json;
use std::time::{Duration, Instant};

/// What is imported.
#[derive(Debug, Clone, Default)]
pub struct ImportOptions {
    /// The JetStream stream.
    pub stream: String,
    /// Only messages of these subjects, which may have wildcards.
    pub subjects: Vec<String>,
    /// Go on with messages that arrive, until it is interrupted.
    pub follow: bool,
}

/// Messages that are asked for at a time.
const BATCH: u64 = 4_000;
/// Bytes that are asked for at a time, where no message is larger.
const BATCH_BYTES: usize = 8 << 20;
/// How long a request for messages is valid, and how long a server may be silent.
const EXPIRES: Duration = Duration::from_secs(5);
const SILENT_MAX: Duration = Duration::from_secs(15);
/// How often it looks for an interruption while nothing arrives.
const WAIT: Duration = Duration::from_millis(50);
/// Between two attempts to reach the server.
const AGAIN: Duration = Duration::from_millis(500);

/// Imports.
///
/// # Errors
/// [`Error`]; what was taken before is stored. A server that is lost while it runs is none: it is tried again.
pub fn import(
    server: &Server,
    options: &ImportOptions,
    intake: &mut Intake,
    watch: &mut dyn Observer,
) -> Result<Counts, Error> {
    jetstream::check_name(&options.stream)?;
    let lane = intake.lane(&options.stream, None)?;
    let mut connection = server.connect()?;
    let mut until = None;
    loop {
        let read =
            Session { connection: &mut connection, options, lane, until: &mut until }.run(intake, watch);
        // Also after an error: what was taken counts.
        let stored = intake.flush();
        match read {
            Err(Error::Away(why)) => {
                stored?;
                connection = reconnect(server, &why, watch)?;
            }
            read => return read.and(stored).map(|()| intake.counts()),
        }
    }
}

/// Where an import stands.
///
/// # Errors
/// [`Error`].
pub fn import_status(
    server: &Server,
    options: &ImportOptions,
    intake: &mut Intake,
) -> Result<LaneStatus, Error> {
    jetstream::check_name(&options.stream)?;
    let lane = intake.lane(&options.stream, None)?;
    let found = existing(&mut server.connect()?, &options.stream)?;
    let next = Some(intake.next(lane)).filter(|next| *next > 0);
    Ok(LaneStatus { name: options.stream.clone(), next, first: found.first, end: found.last + 1 })
}

fn existing(connection: &mut Connection, name: &str) -> Result<Info, Error> {
    jetstream::info(connection, name)?.ok_or_else(|| {
        Error::Refused(format!(
            "there is no JetStream stream {name:?} at {}; check the name, or create it",
            connection.place
        ))
    })
}

/// Tries to reach a server again, until it is there or the caller is interrupted.
pub(super) fn reconnect(server: &Server, why: &str, watch: &mut dyn Observer) -> Result<Connection, Error> {
    watch.warn(&format!("{why}; trying again"));
    let mut last = why.to_string();
    loop {
        let next = Instant::now() + AGAIN;
        while Instant::now() < next {
            if watch.is_interrupted() {
                return Err(Error::Interrupted);
            }
            std::thread::sleep(WAIT);
        }
        match server.connect() {
            Ok(connection) => {
                watch.warn(&format!("{} is reached again", connection.place));
                return Ok(connection);
            }
            Err(Error::Away(why)) if why == last => {}
            Err(Error::Away(why)) => {
                watch.warn(&why);
                last = why;
            }
            Err(error) => return Err(error),
        }
    }
}

/// From a connection to its loss.
struct Session<'a> {
    connection: &'a mut Connection,
    options: &'a ImportOptions,
    lane: usize,
    /// The last message of an import that does not follow.
    until: &'a mut Option<u64>,
}

impl Session<'_> {
    fn run(&mut self, intake: &mut Intake, watch: &mut dyn Observer) -> Result<(), Error> {
        let Some((from, total)) = self.begin(intake, watch)? else { return Ok(()) };
        let consumer = format!("tapedb-{}", unique());
        let name = &self.options.stream;
        let pending = jetstream::consume(self.connection, name, &consumer, from, &self.options.subjects)?;
        if pending == 0 && !self.options.follow {
            return Ok(());
        }
        let read = self.read(&consumer, intake, total, watch);
        if !matches!(read, Err(Error::Away(_))) {
            jetstream::end(self.connection, &self.options.stream, &consumer);
        }
        read
    }

    /// Where to begin, and how many messages there are; `None`: there is nothing to do.
    fn begin(&mut self, intake: &mut Intake, watch: &mut dyn Observer) -> Result<Option<(u64, u64)>, Error> {
        let name = &self.options.stream;
        let found = existing(self.connection, name)?;
        if found.retention != "limits" {
            return Err(Error::Refused(format!(
                "JetStream stream {name:?} has the retention {:?}, which removes messages when they are acknowledged; import a stream that \
                 mirrors it, with the retention limits",
                found.retention
            )));
        }
        let before = intake.next(self.lane);
        if intake.wants_comparison(self.lane) && before <= found.last + 1 {
            self.compare(intake, before - 1)?;
        }
        // An empty stream states a first message that is not there yet.
        let from = intake.start(self.lane, found.first.max(1), found.last + 1, watch)?;
        let until = *self.until.get_or_insert(found.last);
        if !self.options.follow && from > until {
            return Ok(None);
        }
        Ok(Some((from, found.last + 1 - from.min(found.last + 1))))
    }

    /// Compares the last message that was taken with what the server has in its place.
    fn compare(&mut self, intake: &Intake, sequence: u64) -> Result<(), Error> {
        let Some(stored) = jetstream::get(self.connection, &self.options.stream, sequence)? else {
            return Ok(());
        };
        let marks = marks(&stored.headers);
        let record = Incoming {
            key: Some(last_token(&stored.subject).as_bytes()),
            value: Some(&stored.payload),
            time: stored.time,
            marks: &marks,
        };
        intake.compare(self.lane, &record)
    }

    fn read(
        &mut self,
        consumer: &str,
        intake: &mut Intake,
        total: u64,
        watch: &mut dyn Observer,
    ) -> Result<(), Error> {
        let (mut asked, mut delivered, mut arrived) = (0, 0, Instant::now());
        loop {
            watch.progress(&intake.counts(), total);
            if watch.is_interrupted() {
                return Err(Error::Interrupted);
            }
            if asked <= BATCH / 2 {
                self.ask(consumer)?;
                asked += BATCH;
            }
            intake.flush_when_due()?;
            // As many as have arrived, before the clock is read again.
            for turn in 0..BATCH / 4 {
                let wait = if turn == 0 { WAIT } else { Duration::ZERO };
                let Some(message) = self.connection.next(wait)? else { break };
                arrived = Instant::now();
                let (code, text) = message.status();
                if code != 0 {
                    asked -= unanswered(code, text, message.headers)?.min(asked);
                    continue;
                }
                let Some(place) = Place::of(message.reply) else { continue };
                if place.delivered != delivered + 1 {
                    return Err(Error::Away(format!(
                        "messages of consumer {consumer} were missed on the way"
                    )));
                }
                delivered += 1;
                asked = asked.saturating_sub(1);
                let marks = marks(message.headers);
                let record = Incoming {
                    key: Some(last_token(message.subject).as_bytes()),
                    value: Some(message.payload),
                    time: Some(place.time),
                    marks: &marks,
                };
                intake.take(self.lane, place.sequence, &record, watch)?;
                let is_last = place.pending == 0 || self.until.is_some_and(|until| place.sequence >= until);
                if is_last && !self.options.follow {
                    return Ok(());
                }
            }
            if arrived.elapsed() > SILENT_MAX {
                return Err(Error::Away(format!("{} is silent", self.connection.place)));
            }
        }
    }

    fn ask(&mut self, consumer: &str) -> Result<(), Error> {
        let bytes = BATCH_BYTES.max(self.connection.payload_max + (64 << 10));
        let request = json!({ "batch": BATCH, "max_bytes": bytes, "expires": EXPIRES.as_nanos() as u64 });
        let reply = self.connection.reply_subject();
        let subject = format!("$JS.API.CONSUMER.MSG.NEXT.{}.{consumer}", self.options.stream);
        self.connection.publish(&subject, &reply, &[], request.to_string().as_bytes());
        self.connection.flush()
    }
}

/// How many messages of a request will not come.
fn unanswered(code: u16, text: &str, head: &[u8]) -> Result<u64, Error> {
    let left = headers(head).find(|(name, _)| name.eq_ignore_ascii_case("nats-pending-messages"));
    let left = left.and_then(|(_, value)| value.parse().ok());
    match (code, left) {
        (100, _) => Ok(0),
        (404 | 408, left) => Ok(left.unwrap_or(BATCH)),
        (409, Some(left)) if text.contains("MaxBytes") || text.contains("Completed") => Ok(left),
        _ => Err(Error::Away(format!("the server ended the consumer: {code} {text}"))),
    }
}

/// The last word of a subject.
fn last_token(subject: &str) -> &str {
    subject.rsplit('.').next().unwrap_or(subject)
}
