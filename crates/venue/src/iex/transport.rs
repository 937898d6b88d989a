//! Packets of IEX-TP.

use super::messages::{collar_reference, decode, symbol};
use crate::error::BadRecord;
use crate::pcap::{Feed, Line, Message, Packet, behind_length};
use crate::record::AnyRecord;
use std::ops::Range;
use tapedb_market::Statistic;
use tapedb_schema::Timestamp;

/// Version, protocol, channel, session, length, number of messages, offset, number of the first message, time.
const HEAD_BYTES: usize = 40;
const VERSION: u8 = 1;
/// TOPS 1.5, TOPS 1.6, DEEP 1.0.
const PROTOCOLS: [u16; 3] = [0x8002, 0x8003, 0x8004];
/// The venue, by its code of ISO 10383: `IEX` is the ticker of a company.
const NAME: &str = "IEXG";

pub(super) struct Transport {
    /// When the packet was sent.
    sent: Timestamp,
    symbol: String,
    /// The second row of the message.
    second: Option<Statistic>,
}

impl Transport {
    pub(super) fn new() -> Self {
        Self { sent: Timestamp(0), symbol: String::new(), second: None }
    }
}

impl Feed for Transport {
    fn name(&self) -> &str {
        NAME
    }

    fn packet(&mut self, payload: &[u8], _: Line) -> Result<Option<Packet>, BadRecord> {
        let Some((head, rest)) = payload.split_first_chunk::<HEAD_BYTES>() else { return Ok(None) };
        let u16_at = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
        let i64_at = |at: usize| i64::from_le_bytes(*head[at..].first_chunk().expect("eight bytes"));
        let protocol = u16_at(2);
        if head[0] != VERSION || !PROTOCOLS.contains(&protocol) {
            return Ok(None);
        }
        let (length, messages) = (usize::from(u16_at(12)), u16_at(14));
        if rest.len() > length {
            return Err(BadRecord { offset: 12, expected: "the length of all messages" });
        }
        let first = u64::try_from(i64_at(24));
        let first = first
            .map_err(|_| BadRecord { offset: 24, expected: "a number of a message of at least zero" })?;
        self.sent = Timestamp(i64_at(32));
        self.second = None;
        // Protocol, channel and session.
        let mut session = [0; 16];
        session[..10].copy_from_slice(&head[2..12]);
        Ok(Some(Packet { session: u128::from_le_bytes(session), first, messages, head_bytes: HEAD_BYTES }))
    }

    #[inline]
    fn place(payload: &[u8], at: usize, _: bool) -> Option<Range<usize>> {
        behind_length(payload, at, u16::from_le_bytes)
    }

    #[inline]
    fn message(
        &mut self,
        message: &[u8],
        received: Timestamp,
        out: &mut AnyRecord,
    ) -> Result<Message, BadRecord> {
        if let Some(second) = self.second.take() {
            *out = second.into();
            return Ok(Message::Row { time: received, more: false });
        }
        if !decode(message, self.sent, out)? {
            let kind = format!("message type {:?}", char::from(message[0]));
            return Ok(Message::Unknown { kind, more: false });
        }
        self.symbol.clear();
        self.symbol.push_str(symbol(message)?.unwrap_or(NAME));
        self.second = collar_reference(message, self.sent)?;
        Ok(Message::Row { time: received, more: self.second.is_some() })
    }

    fn symbol(&self) -> &str {
        &self.symbol
    }
}
