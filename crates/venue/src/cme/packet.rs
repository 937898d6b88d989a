//! Packets of MDP 3.0, row by row.

use super::definition::definition;
use super::entries::{Common, Made, level, reset, trade};
use super::lines::Lines;
use super::template::{HEAD_BYTES, Kind, Message as Sbe};
use super::{orders, snapshots, statistics};
use crate::error::BadRecord;
use crate::pcap::{Feed, Line, Message, Packet, hash};
use crate::record::AnyRecord;
use crate::source::MAX_SYMBOL_BYTES;
use std::collections::HashMap;
use std::ops::Range;
use tapedb_market::{Notice, Order};
use tapedb_schema::Timestamp;

/// Number and time of the packet.
const PACKET_HEAD_BYTES: usize = 12;
/// The number of CME's schema.
const SCHEMA: u16 = 1;
/// Times of packets that may be one: from 2000 to 2100.
const YEARS: Range<i64> = 946_684_800_000_000_000..4_102_444_800_000_000_000;
/// Most instruments whose names are known; of further ones the numbers are.
const NAMES_MAX: usize = 1 << 20;
const NAME: &str = "CME";

pub(super) struct Mdp {
    lines: Lines,
    names: HashMap<u32, Box<str>>,
    symbol: String,
    /// When the packet was sent.
    sent: Timestamp,
    /// Place of the message in the packet, and its next row.
    at: usize,
    row: usize,
}

impl Mdp {
    pub(super) fn new() -> Self {
        Self {
            lines: Lines::new(),
            names: HashMap::new(),
            symbol: String::new(),
            sent: Timestamp(0),
            at: 0,
            row: 0,
        }
    }

    /// The next row of the packet, or what is not one.
    fn step(&mut self, packet: &[u8], out: &mut AnyRecord) -> Result<Option<Made>, BadRecord> {
        loop {
            if self.at >= packet.len() {
                return Ok(None);
            }
            let message = Sbe::read(packet, self.at)?;
            let rows = rows(&message);
            if self.row >= rows {
                (self.at, self.row) = (message.end, 0);
                continue;
            }
            let row = self.row;
            self.row += 1;
            let made = self.make(&message, packet, (row, row + 1 == rows), out)?;
            if !matches!(made, Made::Nothing) {
                return Ok(Some(made));
            }
        }
    }

    #[inline]
    fn make(
        &mut self,
        message: &Sbe<'_>,
        packet: &[u8],
        (row, is_last): (usize, bool),
        out: &mut AnyRecord,
    ) -> Result<Made, BadRecord> {
        let (root, [first, second]) = (message.root, &message.groups);
        let common = |time: usize, event: usize| -> Result<Common, BadRecord> {
            Ok(Common {
                match_time: root.time(time)?,
                source_time: Some(self.sent),
                event: root.byte(event),
                is_last,
            })
        };
        let of_order = |(order, made): (Option<Order>, Made), out: &mut AnyRecord| {
            order.into_iter().for_each(|order| out.set_order(order));
            made
        };
        let of = |(record, made): (_, Made), out: &mut AnyRecord| {
            *out = AnyRecord::from(record);
            made
        };
        Ok(match message.kind {
            Kind::Book if row < first.count => level(first.entry(row), common(0, 8)?, out.market_by_price())?,
            Kind::Book => {
                let order = orders::of_level(message, second.entry(row - first.count), common(0, 8)?)?;
                of_order(order, out)
            }
            Kind::OrderBook => of_order(orders::change(first.entry(row), common(0, 8)?)?, out),
            Kind::Trades if row < first.count => {
                trade(first.entry(row), message.version, common(0, 8)?, out.market_by_price())?
            }
            Kind::Trades => {
                let (order, made) = orders::fill(message, row - first.count, common(0, 8)?)?;
                of_order((Some(order), made), out)
            }
            Kind::Volume => of(statistics::volume(first.entry(row), common(0, 8)?)?, out),
            Kind::SessionStatistics => {
                of(statistics::session(first.entry(row), message.version, common(0, 8)?)?, out)
            }
            Kind::DailyStatistics => of(statistics::daily(first.entry(row), common(0, 8)?)?, out),
            Kind::Limits => {
                let entry = first.entry(row / 3);
                let instrument = super::entries::instrument(entry, 24)?;
                of(statistics::limit(entry, 0, row % 3, (common(0, 8)?, instrument))?, out)
            }
            Kind::Status => {
                let (status, made) = statistics::status(root, common(0, 26)?)?;
                *out = status.into();
                made
            }
            Kind::Reset => reset(message, row, common(0, 8)?, out.market_by_price()),
            Kind::Snapshot => snapshots::row(message, row, self.of_snapshot(is_last), out)?,
            Kind::OrderSnapshot => snapshots::order_row(message, row, self.of_snapshot(is_last), out)?,
            Kind::Future | Kind::Option | Kind::Spread => {
                let record = definition(message, packet, common(6, 0)?)?;
                let id = root.u32(55);
                if let (Some(id), Some(symbol)) = (id, record.raw_symbol.as_deref())
                    && (self.names.len() < NAMES_MAX || self.names.contains_key(&id))
                {
                    self.names.insert(id, symbol.into());
                }
                *out = record.into();
                Made::Row(id)
            }
            Kind::Login | Kind::Logout => {
                let text = match message.kind {
                    Kind::Login => format!("login: heartbeats every {} s", root.byte(0)),
                    _ => format!("logout: {}", root.text(0, 180)?.unwrap_or_default()),
                };
                *out = Notice { text, ..Notice::default() }.into();
                Made::Row(None)
            }
            Kind::Heartbeat => Made::Nothing,
            Kind::Other => {
                Made::Unknown(format!("template {} of version {}", message.template, message.version))
            }
        })
    }

    /// A snapshot has no event.
    fn of_snapshot(&self, is_last: bool) -> Common {
        Common { match_time: None, source_time: Some(self.sent), event: 0, is_last }
    }

    fn set_symbol(&mut self, instrument: Option<u32>) {
        use std::fmt::Write as _;
        self.symbol.clear();
        match instrument.map(|id| (id, self.names.get(&id))) {
            None => self.symbol.push_str(NAME),
            Some((_, Some(name))) => self.symbol.push_str(name),
            Some((id, None)) => write!(self.symbol, "#{id}").expect("memory"),
        }
        debug_assert!(self.symbol.len() <= MAX_SYMBOL_BYTES);
    }
}

/// How many rows a message may have.
fn rows(message: &Sbe<'_>) -> usize {
    let [first, second] = &message.groups;
    match message.kind {
        Kind::Book | Kind::Trades => first.count + second.count,
        Kind::OrderBook | Kind::Volume | Kind::SessionStatistics | Kind::DailyStatistics => first.count,
        Kind::Limits => 3 * first.count,
        Kind::Reset => first.count.max(1),
        Kind::Snapshot => snapshots::rows(message),
        Kind::OrderSnapshot => snapshots::order_rows(message),
        Kind::Heartbeat => 0,
        _ => 1,
    }
}

impl Feed for Mdp {
    fn name(&self) -> &str {
        NAME
    }

    /// Packets are numbered, not their messages: each is one message here.
    fn packet(&mut self, payload: &[u8], line: Line) -> Result<Option<Packet>, BadRecord> {
        let Some(head) = payload.first_chunk::<{ PACKET_HEAD_BYTES + HEAD_BYTES }>() else {
            return Ok(None);
        };
        let sent = i64::from_le_bytes(*head[4..].first_chunk().expect("eight bytes"));
        if u16::from_le_bytes([head[18], head[19]]) != SCHEMA || !YEARS.contains(&sent) {
            return Ok(None);
        }
        self.sent = Timestamp(sent);
        (self.at, self.row) = (PACKET_HEAD_BYTES, 0);
        let first = u32::from_le_bytes(*head.first_chunk().expect("four bytes"));
        let session = self.lines.session(line, hash(payload)).into();
        Ok(Some(Packet { session, first: first.into(), messages: 1, head_bytes: 0 }))
    }

    fn place(payload: &[u8], at: usize, is_cut: bool) -> Option<Range<usize>> {
        (!is_cut && at < payload.len()).then_some(at..payload.len())
    }

    fn is_sound(payload: &[u8]) -> bool {
        let mut at = PACKET_HEAD_BYTES;
        while at < payload.len() {
            match Sbe::read(payload, at) {
                Ok(message) => at = message.end,
                Err(_) => return false,
            }
        }
        true
    }

    fn message(
        &mut self,
        packet: &[u8],
        received: Timestamp,
        out: &mut AnyRecord,
    ) -> Result<Message, BadRecord> {
        Ok(match self.step(packet, out)? {
            None | Some(Made::Nothing) => Message::Nothing,
            Some(Made::Row(instrument)) => {
                self.set_symbol(instrument);
                Message::Row { time: received, more: true }
            }
            Some(Made::Unknown(kind)) => Message::Unknown { kind, more: true },
        })
    }

    fn symbol(&self) -> &str {
        &self.symbol
    }
}
