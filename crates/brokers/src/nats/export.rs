//! A JetStream stream as a sink.
//!
//! Always true: each message is published with the expectation that the JetStream stream ends with the message before it. So a message
//! that is sent again, one that arrives late from a lost connection, and one of another exporter are refused by the server, and what is
//! there is each message once, in order. (The window of message ids alone would not do: it ends after two minutes.) How far it is, the
//! last message of the JetStream stream states.

use super::connection::{Connection, Server, unique};
use super::frame::{headers, marks};
use super::import::reconnect;
use super::jetstream::{self, OTHER_LAST_SEQUENCE, answer};
use crate::encoder::{Encoder, Encoding, Outgoing};
use crate::error::Error;
use crate::headers::id_text;
use crate::progress::{Counts, LaneStatus, Observer};
use std::collections::VecDeque;
use std::fmt::Write;
use std::time::{Duration, Instant};
use tapedb_engine::{Cursor, Stream};

/// What is exported, and where.
#[derive(Debug, Clone, Default)]
pub struct ExportOptions {
    /// The JetStream stream.
    pub stream: String,
    /// What stands before the symbol in subjects; without it, the stream's name.
    pub subject: Option<String>,
    /// Create the JetStream stream if there is none.
    pub create: bool,
    /// The space that is exported.
    pub space: u32,
    /// Only these symbols.
    pub symbols: Vec<String>,
    /// Only these record types.
    pub types: Vec<String>,
    /// What values are.
    pub encoding: Encoding,
    /// The first sequence number, where the JetStream stream does not state how far it is.
    pub from_sequence: Option<u64>,
    /// Go on with messages that arrive, until it is interrupted.
    pub follow: bool,
}

/// Names who has published a message: another exporter shows by it.
const EXPORTER: &str = "tapedb-exporter";
/// Messages and bytes that wait for their acknowledgement.
const FLIGHT_MAX: usize = 4096;
const FLIGHT_BYTES_MAX: usize = 8 << 20;
/// Bytes that are sent together.
const SEND_BYTES: usize = 128 << 10;
/// How long an acknowledgement may take.
const ANSWER: Duration = Duration::from_secs(15);
const WAIT: Duration = Duration::from_millis(20);

/// Exports.
///
/// # Errors
/// [`Error`]. A server that is lost while it runs is none: it is tried again.
pub fn export(
    server: &Server,
    stream: &Stream,
    options: &ExportOptions,
    watch: &mut dyn Observer,
) -> Result<Counts, Error> {
    jetstream::check_name(&options.stream)?;
    let ends = stream.next_sequences()?;
    let end = *ends.get(options.space as usize).ok_or_else(|| {
        Error::Settings(format!(
            "stream {:?} has no space {}; it has {}",
            stream.name(),
            options.space,
            ends.len()
        ))
    })?;
    let mut exporter = Exporter {
        stream,
        options,
        prefix: options.subject.clone().unwrap_or_else(|| options.stream.clone()),
        end,
        encoder: Encoder::new(stream, options.space, options.encoding),
        name: unique(),
        counts: Counts::default(),
        headers: String::new(),
        acknowledged: None,
    };
    let mut connection = server.connect()?;
    exporter.prepare(&mut connection)?;
    loop {
        match exporter.session(&mut connection, watch) {
            Err(Error::Away(why)) => connection = reconnect(server, &why, watch)?,
            other => return other.map(|()| exporter.counts),
        }
    }
}

/// Where an export stands: offsets are sequence numbers of the stream.
///
/// # Errors
/// [`Error`].
pub fn export_status(server: &Server, stream: &Stream, options: &ExportOptions) -> Result<LaneStatus, Error> {
    jetstream::check_name(&options.stream)?;
    let ends = stream.next_sequences()?;
    let end = ends.get(options.space as usize).copied().unwrap_or(0);
    let next = match find(&mut server.connect()?, stream, options)? {
        Found::Nowhere | Found::Empty => None,
        Found::At { next, .. } => Some(next),
    };
    Ok(LaneStatus { name: options.stream.clone(), next, first: 0, end })
}

/// How far a JetStream stream is.
enum Found {
    /// There is none.
    Nowhere,
    /// Nothing was ever in it.
    Empty,
    At {
        /// The first sequence number that is not there.
        next: u64,
        /// The last number of the JetStream stream.
        last: u64,
        exporter: String,
    },
}

/// Asks the JetStream stream how far it is.
fn find(connection: &mut Connection, stream: &Stream, options: &ExportOptions) -> Result<Found, Error> {
    let name = &options.stream;
    let Some(info) = jetstream::info(connection, name)? else { return Ok(Found::Nowhere) };
    if info.last == 0 {
        return Ok(Found::Empty);
    }
    let stored = match info.messages {
        0 => None,
        _ => jetstream::get(connection, name, info.last)?,
    };
    let Some(stored) = stored else {
        return match options.from_sequence {
            Some(next) => Ok(Found::At { next, last: info.last, exporter: String::new() }),
            None => Err(Error::Refused(format!(
                "the last message of JetStream stream {name:?} was removed, so nothing states how far the export is; name the first \
                 sequence number with --from-sequence N"
            ))),
        };
    };
    let marks = marks(&stored.headers);
    let id = id_text(stream.id());
    match (marks.stream_id, marks.space, marks.sequence) {
        (Some(found), Some(space), Some(sequence)) if found == id && space == options.space => {
            let exporter = headers(&stored.headers).find(|(name, _)| *name == EXPORTER);
            let exporter = exporter.map(|(_, value)| value.to_string()).unwrap_or_default();
            Ok(Found::At { next: sequence + 1, last: info.last, exporter })
        }
        (found, space, _) => Err(Error::Refused(format!(
            "the last message of JetStream stream {name:?} is not one of space {} of stream {:?} ({}): a JetStream stream takes one space \
             of one stream, and no other publisher; export into another one",
            options.space,
            stream.name(),
            match (found, space) {
                (Some(found), Some(space)) =>
                    format!("it is of space {space} of the stream with the id {found}"),
                _ => "TapeDB has not published it".into(),
            }
        ))),
    }
}

/// Publishes a stream.
struct Exporter<'a> {
    stream: &'a Stream,
    options: &'a ExportOptions,
    prefix: String,
    /// Where an export ends that does not follow.
    end: u64,
    encoder: Encoder,
    /// This run.
    name: String,
    counts: Counts,
    headers: String,
    /// The last number of the JetStream stream that this run has seen acknowledged.
    acknowledged: Option<u64>,
}

/// What was sent and not acknowledged.
#[derive(Default)]
struct Flight {
    sent: VecDeque<(String, usize)>,
    bytes: usize,
    /// The last number of the JetStream stream, when all is acknowledged.
    last: u64,
    /// When the last answer came.
    answered: Option<Instant>,
}

impl Exporter<'_> {
    /// Makes the JetStream stream where it is wanted, and checks that it takes the subjects.
    fn prepare(&self, connection: &mut Connection) -> Result<(), Error> {
        let (name, subjects) = (&self.options.stream, format!("{}.>", self.prefix));
        if self.prefix.is_empty()
            || self.prefix.contains(['*', '>'])
            || self.prefix.chars().any(char::is_whitespace)
        {
            return Err(Error::Settings(format!("{:?} is no subject without wildcards", self.prefix)));
        }
        match jetstream::info(connection, name)? {
            Some(info) if info.subjects.iter().any(|taken| takes_all(taken, &subjects)) => Ok(()),
            Some(info) => Err(Error::Refused(format!(
                "JetStream stream {name:?} takes the subjects {}, and not {subjects}; add them to it, or name others with --subject",
                info.subjects.join(", ")
            ))),
            None if self.options.create => jetstream::create(connection, name, &[subjects]),
            None => Err(Error::Refused(format!(
                "there is no JetStream stream {name:?}; create it for the subjects {subjects}, or add --create-stream"
            ))),
        }
    }

    /// From a connection to its loss, or to the end.
    fn session(&mut self, connection: &mut Connection, watch: &mut dyn Observer) -> Result<(), Error> {
        loop {
            let (next, last) = self.begin(connection)?;
            if !self.options.follow && next >= self.end {
                return Ok(());
            }
            let mut cursor = self.cursor(next)?;
            let mut flight = Flight { last, ..Flight::default() };
            if self.publish(connection, &mut cursor, &mut flight, watch)? {
                return Ok(());
            }
            // The JetStream stream ends elsewhere than was expected: it is asked again.
        }
    }

    /// Where to go on.
    fn begin(&mut self, connection: &mut Connection) -> Result<(u64, u64), Error> {
        let name = &self.options.stream;
        let first = self.options.from_sequence.unwrap_or(0);
        let (next, last, exporter) = match find(connection, self.stream, self.options)? {
            Found::Nowhere => {
                return Err(Error::Refused(format!(
                    "JetStream stream {name:?} was deleted; create it, and export again"
                )));
            }
            Found::Empty => (first, 0, String::new()),
            Found::At { next, last, exporter } => (next, last, exporter),
        };
        let is_other = self.acknowledged.is_some_and(|seen| last > seen) && exporter != self.name;
        if is_other {
            return Err(Error::Refused(format!(
                "another exporter publishes this stream into {name:?}; this one ends, and nothing is there twice"
            )));
        }
        if self.acknowledged.is_some_and(|seen| last < seen) {
            return Err(Error::Refused(format!(
                "JetStream stream {name:?} ends at {last}, and messages up to {} were acknowledged: it was created again, or has lost its \
                 end; export again to continue behind what it has",
                self.acknowledged.unwrap_or(0)
            )));
        }
        self.acknowledged = Some(last);
        let end = self.stream.next_sequences()?[self.options.space as usize];
        if next > end {
            return Err(Error::Refused(format!(
                "JetStream stream {name:?} has messages up to sequence number {next}, and the stream {end}: the database is an older copy"
            )));
        }
        Ok((next, last))
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

    /// Publishes messages; `false`: the JetStream stream has to be asked where it is.
    fn publish(
        &mut self,
        connection: &mut Connection,
        cursor: &mut Cursor,
        flight: &mut Flight,
        watch: &mut dyn Observer,
    ) -> Result<bool, Error> {
        let mut is_over = false;
        loop {
            if watch.is_interrupted() {
                // What was sent is there or not: the next run asks.
                self.settle(connection, flight)?;
                watch.progress(&self.counts, self.end);
                return Err(Error::Interrupted);
            }
            while !is_over && flight.sent.len() < FLIGHT_MAX && flight.bytes < FLIGHT_BYTES_MAX {
                let wait = if self.options.follow && flight.sent.is_empty() { WAIT } else { Duration::ZERO };
                match cursor.next_within(wait) {
                    Ok(Some(message)) if message.space() != self.options.space => {}
                    Ok(Some(message)) if !self.options.follow && message.sequence() >= self.end => {
                        is_over = true
                    }
                    Ok(Some(message)) => {
                        let record = self.encoder.encode(&message)?;
                        send(connection, record, &self.prefix, &self.name, &mut self.headers, flight)?;
                        if connection.unflushed() >= SEND_BYTES {
                            connection.flush()?;
                        }
                    }
                    Ok(None) if self.options.follow => break,
                    Ok(None) => is_over = true,
                    Err(error) => self.damaged(error, watch)?,
                }
            }
            connection.flush()?;
            if !self.acknowledge(connection, flight)? {
                return Ok(false);
            }
            watch.progress(&self.counts, self.end);
            if is_over && flight.sent.is_empty() {
                return Ok(true);
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

    /// Takes the acknowledgements that have arrived; waits for one when no more may be sent. `false`: one was refused.
    fn acknowledge(&mut self, connection: &mut Connection, flight: &mut Flight) -> Result<bool, Error> {
        let mut wait = if flight.sent.is_empty() { Duration::ZERO } else { WAIT };
        while let Some(message) = connection.next(wait)? {
            if flight.sent.front().is_none_or(|(reply, _)| reply != message.subject) {
                // An answer to what an earlier session sent.
                continue;
            }
            let Some((_, bytes)) = flight.sent.pop_front() else { break };
            flight.bytes -= bytes;
            flight.answered = Some(Instant::now());
            wait = Duration::ZERO;
            match answer(message.status(), message.payload)? {
                Ok(stored) => {
                    let expected = flight.last - flight.sent.len() as u64;
                    if stored["seq"].as_u64() != Some(expected) {
                        return Ok(false);
                    }
                    self.acknowledged = Some(expected);
                    self.counts.messages += 1;
                    self.counts.bytes += bytes as u64;
                }
                Err(denied) if denied.code == OTHER_LAST_SEQUENCE => return Ok(false),
                Err(denied) => {
                    return Err(Error::Refused(format!(
                        "JetStream stream {:?} refuses a message: {}",
                        self.options.stream, denied.text
                    )));
                }
            }
        }
        let since = flight.answered.get_or_insert_with(Instant::now);
        if flight.sent.is_empty() {
            *since = Instant::now();
        } else if since.elapsed() > ANSWER {
            return Err(Error::Away(format!("{} acknowledges nothing", connection.place)));
        }
        Ok(true)
    }

    /// Waits for what was sent.
    fn settle(&mut self, connection: &mut Connection, flight: &mut Flight) -> Result<(), Error> {
        connection.flush()?;
        let until = Instant::now() + Duration::from_millis(500);
        while !flight.sent.is_empty() && Instant::now() < until {
            if !self.acknowledge(connection, flight)? {
                break;
            }
        }
        Ok(())
    }
}

/// Damaged places after which an export ends.
const DAMAGE_MAX: u64 = 1000;

/// Publishes one message behind those in flight.
fn send(
    connection: &mut Connection,
    record: &Outgoing,
    prefix: &str,
    exporter: &str,
    head: &mut String,
    flight: &mut Flight,
) -> Result<(), Error> {
    head.clear();
    let mut id = (String::new(), String::new());
    for (name, value) in &record.headers {
        match *name {
            crate::headers::STREAM_ID => id.0.clone_from(value),
            crate::headers::SPACE => id.1.clone_from(value),
            _ => {}
        }
        let _ = write!(head, "{name}: {}\r\n", one_line(value));
    }
    let sequence = record.sequence;
    let _ = write!(
        head,
        "{EXPORTER}: {exporter}\r\nNats-Msg-Id: {}-{}-{sequence}\r\nNats-Expected-Last-Sequence: {}\r\n",
        id.0, id.1, flight.last
    );
    let bytes = head.len() + record.value.len();
    if bytes + 64 > connection.payload_max {
        return Err(Error::Refused(format!(
            "message {sequence} takes {bytes} bytes with its headers, and {} takes at most {}; raise max_payload of the server",
            connection.place, connection.payload_max
        )));
    }
    let reply = connection.reply_subject();
    connection.publish(
        &format!("{prefix}.{}", token(&record.symbol)),
        &reply,
        head.as_bytes(),
        &record.value,
    );
    flight.sent.push_back((reply, bytes));
    flight.bytes += bytes;
    flight.last += 1;
    Ok(())
}

/// Whether a subject with wildcards takes all that `prefix.>` does with one word more.
fn takes_all(taken: &str, wanted: &str) -> bool {
    let (mut taken, mut wanted) = (taken.split('.'), wanted.split('.'));
    loop {
        match (taken.next(), wanted.next()) {
            (Some(">"), Some(_)) => return true,
            (Some("*"), Some(">")) => return taken.next().is_none(),
            (Some("*"), Some(_)) => {}
            (Some(word), Some(other)) if word == other => {}
            _ => return false,
        }
    }
}

/// A symbol as one word of a subject. Several symbols may have the same one: the header has the symbol.
fn token(symbol: &str) -> String {
    let is_unfit = |c: char| matches!(c, '.' | '*' | '>') || c.is_whitespace() || c.is_control();
    symbol.chars().map(|c| if is_unfit(c) { '_' } else { c }).collect()
}

/// A value of a header, which is one line.
fn one_line(value: &str) -> std::borrow::Cow<'_, str> {
    if value.contains(['\r', '\n']) { value.replace(['\r', '\n'], " ").into() } else { value.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_with_wildcards() {
        for taken in [">", "a.>", "a.b.>", "a.b.*", "a.*.>", "*.*.*"] {
            assert!(takes_all(taken, "a.b.>"), "{taken}");
        }
        for taken in ["a", "a.b", "b.>", "a.b.c", "a.b.*.c", "a.*", ""] {
            assert!(!takes_all(taken, "a.b.>"), "{taken}");
        }
    }

    #[test]
    fn symbols_are_words_of_subjects() {
        assert_eq!(token("BRK.B"), "BRK_B");
        assert_eq!(token("a b*>\r\nPUB x"), "a_b____PUB_x");
        assert_eq!(token("ÄÖ"), "ÄÖ");
        assert_eq!(one_line("a\r\nb: c"), "a  b: c");
    }
}
