//! A capture as the rows of one feed.

use super::datagram::{Datagram, Line, datagram};
use super::packets::Packets;
use super::sequence::{Begin, Sequence};
use crate::container::Opened;
use crate::error::{BadRecord, ImportError};
use crate::options::OnBadLine;
use crate::record::AnyRecord;
use crate::source::{Counters, RowHeader, Source};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use tapedb_market::{Gap, GapCause, Notice};
use tapedb_schema::Timestamp;

/// Packets at the begin of a capture that show which feed it has.
const PACKETS_LOOKED_AT: usize = 256;
/// Most sessions of a capture.
const SESSIONS_MAX: usize = 1_024;

/// What a packet of a feed begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Packet {
    /// What numbers its messages.
    pub(crate) session: u128,
    /// Number of the first message; without messages, of the next one.
    pub(crate) first: u64,
    /// How many messages it has.
    pub(crate) messages: u16,
    /// Bytes before the first message.
    pub(crate) head_bytes: usize,
}

/// What has become of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Message {
    /// A row with its time; `more`: the same message may have further ones.
    Row { time: Timestamp, more: bool },
    /// Something that is not imported, by its kind; `more`: the same message may have further rows.
    Unknown { kind: String, more: bool },
    /// Nothing, or nothing more.
    Nothing,
}

/// A protocol of packets with numbered messages.
pub(crate) trait Feed: Send {
    /// Symbol of what is about the feed, not about an instrument.
    fn name(&self) -> &str;

    /// The head of a packet that was sent to a line; `None`: it is of something else. What is behind it is another message than before.
    ///
    /// # Errors
    /// Of a packet of this feed whose head is wrong.
    fn packet(&mut self, payload: &[u8], line: Line) -> Result<Option<Packet>, BadRecord>;

    /// Where the message is that begins at a place of a packet; `None` if it does not fit.
    fn place(payload: &[u8], at: usize, is_cut: bool) -> Option<Range<usize>>;

    /// Whether a packet that its messages fill is one of this feed, beyond doubt.
    fn is_sound(_payload: &[u8]) -> bool {
        true
    }

    /// Replaces `out` by a message that was captured at this time, or by the first row of it. While there are more, the same message is
    /// given again.
    ///
    /// # Errors
    /// Of what is wrong in it.
    fn message(
        &mut self,
        message: &[u8],
        received: Timestamp,
        out: &mut AnyRecord,
    ) -> Result<Message, BadRecord>;

    /// Symbol of the last row.
    fn symbol(&self) -> &str;
}

/// Where a message is that stands behind its length of two bytes; `None` if it does not fit.
#[inline]
pub(crate) fn behind_length(
    payload: &[u8],
    at: usize,
    length: impl Fn([u8; 2]) -> u16,
) -> Option<Range<usize>> {
    let length = length(*payload.get(at..)?.first_chunk()?);
    let end = at + 2 + usize::from(length);
    (end <= payload.len()).then_some(at + 2..end)
}

/// Whether one of the first packets of a capture is of this feed: its messages fill it.
pub(crate) fn has_feed<F: Feed>(feed: &mut F, opened: Opened) -> bool {
    let Ok(mut packets) = Packets::new(opened) else { return false };
    for _ in 0..PACKETS_LOOKED_AT {
        let found = packets.next(|packet| match datagram(packet.link, packet.data) {
            Datagram::Whole { payload, is_cut: false, line } => fills(feed, payload, line),
            _ => false,
        });
        match found {
            Ok(Some(true)) => return true,
            Ok(Some(false)) => {}
            Ok(None) | Err(_) => return false,
        }
    }
    false
}

fn fills<F: Feed>(feed: &mut F, payload: &[u8], line: Line) -> bool {
    let Ok(Some(packet)) = feed.packet(payload, line) else { return false };
    let mut at = packet.head_bytes;
    for _ in 0..packet.messages {
        let Some(message) = F::place(payload, at, false) else { return false };
        at = message.end;
    }
    at == payload.len() && F::is_sound(payload)
}

/// The rows of a capture.
pub(crate) struct FeedSource<F> {
    feed: F,
    packets: Packets,
    path: PathBuf,
    bytes_total: u64,
    on_bad_line: OnBadLine,
    counters: Counters,
    sessions: BTreeMap<u128, Session>,
    now: Current,
    /// The last row is about the feed, not about an instrument.
    is_of_feed: bool,
    ended: bool,
}

struct Session {
    sequence: Sequence,
    /// When it was heard last.
    last: Timestamp,
}

/// The packet whose messages are taken one by one.
#[derive(Default)]
struct Current {
    /// Number in the file, from 1.
    number: u64,
    time: Timestamp,
    payload: Vec<u8>,
    is_cut: bool,
    session: u128,
    line: Line,
    /// The message that has more rows.
    message: Option<Range<usize>>,
    /// Place of the next message.
    at: usize,
    /// Messages that are left, and the number of the next.
    left: u16,
    sequence: u64,
}

impl<F: Feed> FeedSource<F> {
    /// # Errors
    /// [`ImportError::Damaged`] if it is no capture.
    pub(crate) fn open(
        feed: F,
        opened: Opened,
        path: PathBuf,
        bytes_total: u64,
        on_bad_line: OnBadLine,
    ) -> Result<Self, ImportError> {
        let packets = Packets::new(opened);
        let packets = packets.map_err(|source| ImportError::Damaged {
            path: path.clone(),
            record: 0,
            offset: 0,
            source,
        })?;
        Ok(Self {
            feed,
            packets,
            path,
            bytes_total,
            on_bad_line,
            counters: Counters::default(),
            sessions: BTreeMap::new(),
            now: Current::default(),
            is_of_feed: false,
            ended: false,
        })
    }

    /// The time of the next row.
    fn advance(&mut self, out: &mut AnyRecord) -> Result<Option<Timestamp>, ImportError> {
        self.is_of_feed = false;
        loop {
            let is_within = self.now.left > 0 || self.now.message.is_some();
            let step = if is_within { self.next_row(out) } else { self.next_packet(out) };
            match step {
                Ok(Step::Row(time)) => return Ok(Some(time)),
                Ok(Step::On) => {}
                Ok(Step::End) => return Ok(None),
                Err(Wrong::Bad(_)) if self.on_bad_line.skips(self.counters.bad_lines) => {
                    self.counters.bad_lines += 1;
                }
                Err(Wrong::Bad(bad)) => {
                    return Err(ImportError::Record {
                        path: self.path.clone(),
                        record: self.now.number,
                        offset: self.packets.offset(),
                        expected: format!("{} (byte {} of the message)", bad.expected, bad.offset),
                    });
                }
                Err(Wrong::Damaged(source)) => {
                    return Err(ImportError::Damaged {
                        path: self.path.clone(),
                        record: self.now.number + 1,
                        offset: self.packets.offset(),
                        source,
                    });
                }
            }
        }
    }

    /// Reads a packet; a row if something is missing before it.
    fn next_packet(&mut self, out: &mut AnyRecord) -> Result<Step, Wrong> {
        let now = &mut self.now;
        let read = self.packets.next(|packet| {
            (now.time, now.number) = (packet.time, now.number + 1);
            now.payload.clear();
            match datagram(packet.link, packet.data) {
                Datagram::Whole { payload, is_cut, line } => {
                    now.payload.extend_from_slice(payload);
                    (now.is_cut, now.line) = (is_cut, line);
                    Ok(())
                }
                Datagram::Fragment => Err(None),
                Datagram::Other(what) => Err(Some(what)),
            }
        });
        match read.map_err(Wrong::Damaged)? {
            None => return Ok(Step::End),
            Some(Ok(())) => {}
            Some(Err(None)) => {
                let what = format!("packet {}: a fragment of IP, which is not put together", self.now.number);
                let gap = Gap { cause: GapCause::Damage, detail: Some(what), ..Gap::default() };
                return Ok(self.of_feed(gap, out));
            }
            Some(Err(Some(what))) => {
                self.counters.add_unknown(what.into(), 1);
                return Ok(Step::On);
            }
        }
        let Some(packet) = self.feed.packet(&self.now.payload, self.now.line).map_err(Wrong::Bad)? else {
            self.counters.add_unknown("a datagram of something else".into(), 1);
            return Ok(Step::On);
        };
        self.begin(packet, out)
    }

    /// Begins with the messages of a packet.
    fn begin(&mut self, packet: Packet, out: &mut AnyRecord) -> Result<Step, Wrong> {
        let Packet { session, first, messages, head_bytes } = packet;
        if u64::MAX - first < u64::from(messages) {
            return Err(Wrong::Bad(BadRecord { offset: 0, expected: "numbers of messages below 2^64" }));
        }
        self.now.session = session;
        (self.now.at, self.now.left, self.now.sequence) = (head_bytes, messages, first);
        let time = self.now.time;
        if self.sessions.len() == SESSIONS_MAX && !self.sessions.contains_key(&session) {
            self.now.left = 0;
            return Err(Wrong::Bad(BadRecord { offset: 0, expected: "at most 1,024 sessions in a capture" }));
        }
        let place = F::place(&self.now.payload, head_bytes, self.now.is_cut).filter(|_| messages > 0);
        let message = place.map(|place| &self.now.payload[place]);
        let known = self.sessions.entry(session);
        let known = known.or_insert_with(|| Session { sequence: Sequence::new(first), last: time });
        let before = std::mem::replace(&mut known.last, time);
        let gap = match known.sequence.begin(first, message) {
            Begin::Expected => return Ok(Step::On),
            Begin::Missing(missing) => Gap {
                cause: GapCause::SequenceBreak,
                first_missing: Some(*missing.start()),
                last_missing: Some(*missing.end()),
                messages: Some((missing.end() - missing.start()).saturating_add(1)),
                verifiable: true,
                ..Gap::default()
            },
            Begin::Restart(expected) => {
                let text = format!(
                    "packet {}: the numbers of the session begin again at {first}, where {expected} was next",
                    self.now.number
                );
                return Ok(self.of_feed(Notice { text, ..Notice::default() }, out));
            }
        };
        Ok(self.of_feed(Gap { from: Some(before), to: Some(time), ..gap }, out))
    }

    /// The next row of the packet's messages.
    fn next_row(&mut self, out: &mut AnyRecord) -> Result<Step, Wrong> {
        let now = &mut self.now;
        let place = match now.message.take() {
            Some(place) => place,
            None => {
                let Some(place) = F::place(&now.payload, now.at, now.is_cut) else { return self.cut(out) };
                (now.at, now.left, now.sequence) = (place.end, now.left - 1, now.sequence + 1);
                let session = self.sessions.get_mut(&now.session).expect("the session of the packet");
                if !session.sequence.is_new(now.sequence - 1, &now.payload[place.clone()]) {
                    return Ok(Step::On);
                }
                place
            }
        };
        match self.feed.message(&now.payload[place.clone()], now.time, out).map_err(Wrong::Bad)? {
            Message::Row { time, more } => {
                now.message = more.then_some(place);
                set_sequence(out, now.sequence - 1);
                Ok(Step::Row(time))
            }
            Message::Unknown { kind, more } => {
                now.message = more.then_some(place);
                self.counters.add_unknown(kind, 1);
                Ok(Step::On)
            }
            Message::Nothing => Ok(Step::On),
        }
    }

    /// The packet ends before the next of its messages does.
    fn cut(&mut self, out: &mut AnyRecord) -> Result<Step, Wrong> {
        let now = &mut self.now;
        let left = std::mem::take(&mut now.left);
        if !now.is_cut {
            return Err(Wrong::Bad(BadRecord { offset: now.at, expected: "messages within the packet" }));
        }
        let gap = Gap {
            cause: GapCause::Damage,
            first_missing: Some(now.sequence),
            last_missing: Some(now.sequence + u64::from(left) - 1),
            messages: Some(left.into()),
            verifiable: true,
            detail: Some(format!("packet {} is cut by the capture", now.number)),
            ..Gap::default()
        };
        Ok(self.of_feed(gap, out))
    }

    fn of_feed(&mut self, record: impl Into<AnyRecord>, out: &mut AnyRecord) -> Step {
        *out = record.into();
        self.is_of_feed = true;
        Step::Row(self.now.time)
    }
}

/// The feed's number of the message, where the record has room for it.
fn set_sequence(out: &mut AnyRecord, number: u64) {
    match out {
        AnyRecord::Order(order) => order.sequence = Some(number),
        AnyRecord::MarketByPrice(change) => change.sequence = Some(number),
        AnyRecord::Statistic(statistic) => statistic.sequence = Some(number),
        _ => {}
    }
}

enum Step {
    Row(Timestamp),
    On,
    End,
}

enum Wrong {
    Bad(BadRecord),
    Damaged(io::Error),
}

impl<F: Feed> Source for FeedSource<F> {
    fn next(&mut self, out: &mut AnyRecord) -> Result<Option<RowHeader<'_>>, ImportError> {
        if self.ended {
            return Ok(None);
        }
        match self.advance(out) {
            Ok(Some(time)) => {
                self.counters.rows += 1;
                let symbol = if self.is_of_feed { self.feed.name() } else { self.feed.symbol() };
                Ok(Some(RowHeader { time, symbol }))
            }
            end_or_error => {
                self.ended = true;
                out.package();
                end_or_error.map(|_| None)
            }
        }
    }

    fn progress(&self) -> (u64, u64) {
        (self.packets.bytes_read.load(Ordering::Relaxed), self.bytes_total)
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }
}
