//! Packets of MoldUDP64.

use super::Names;
use super::messages::{Decoded, decode};
use crate::clock::DayClock;
use crate::error::BadRecord;
use crate::pcap::{Feed, Line, Message, Packet, behind_length};
use crate::record::AnyRecord;
use jiff::tz::TimeZone;
use std::ops::Range;
use tapedb_schema::Timestamp;

/// Session, number of the first message, number of messages.
const HEAD_BYTES: usize = 20;
const SESSION_BYTES: usize = 10;
/// In place of the number of messages: the session ends.
const END: u16 = u16::MAX;
const NANOS_PER_HOUR: i64 = 3_600_000_000_000;

pub(super) struct Mold {
    names: Names,
    venue: &'static str,
    /// The instrument of the last row.
    instrument: u16,
    symbol: String,
    day: Option<DayClock>,
}

impl Mold {
    pub(super) fn new(venue: &'static str) -> Self {
        Self { names: Names::new(venue), venue, instrument: 0, symbol: String::new(), day: None }
    }

    /// The day in New York on which something was received.
    fn day(&mut self, received: Timestamp) -> Option<&DayClock> {
        let is_same = self.day.as_ref().is_some_and(|day| {
            let elapsed = received.nanos() - day.start().nanos();
            // The shortest day has 23 hours.
            (0..23 * NANOS_PER_HOUR).contains(&elapsed)
        });
        if !is_same {
            let time = jiff::Timestamp::from_nanosecond(received.nanos().into()).ok()?;
            let date = time.to_zoned(TimeZone::get("America/New_York").ok()?).date();
            self.day = DayClock::new_york(date);
        }
        self.day.as_ref()
    }
}

impl Feed for Mold {
    fn name(&self) -> &str {
        self.venue
    }

    fn packet(&mut self, payload: &[u8], _: Line) -> Result<Option<Packet>, BadRecord> {
        let Some((head, rest)) = payload.split_at_checked(HEAD_BYTES) else { return Ok(None) };
        // Sessions are ten letters, digits or spaces.
        if !head[..SESSION_BYTES].iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b' ') {
            return Ok(None);
        }
        let mut session = [0; 16];
        session[..SESSION_BYTES].copy_from_slice(&head[..SESSION_BYTES]);
        let first = u64::from_be_bytes(head[SESSION_BYTES..18].try_into().expect("eight bytes"));
        let messages = match u16::from_be_bytes([head[18], head[19]]) {
            END => 0,
            messages => messages,
        };
        if messages == 0 && !rest.is_empty() {
            return Err(BadRecord { offset: 18, expected: "no messages behind a heartbeat" });
        }
        Ok(Some(Packet { session: u128::from_be_bytes(session), first, messages, head_bytes: HEAD_BYTES }))
    }

    #[inline]
    fn place(payload: &[u8], at: usize, _: bool) -> Option<Range<usize>> {
        behind_length(payload, at, u16::from_be_bytes)
    }

    #[inline]
    fn message(
        &mut self,
        message: &[u8],
        received: Timestamp,
        out: &mut AnyRecord,
    ) -> Result<Message, BadRecord> {
        let day =
            self.day(received).ok_or(BadRecord { offset: 0, expected: "a time of receipt with a date" })?;
        match decode(message, true, |nanos| day.at(nanos), out)? {
            Decoded::Unknown(kind) => {
                let kind = format!("message type {:?}", char::from(kind));
                Ok(Message::Unknown { kind, more: false })
            }
            Decoded::Record(_) => {
                self.instrument = self.names.note(message);
                self.symbol.clear();
                self.symbol.push_str(self.names.name(self.instrument));
                Ok(Message::Row { time: received, more: false })
            }
        }
    }

    fn symbol(&self) -> &str {
        &self.symbol
    }
}
