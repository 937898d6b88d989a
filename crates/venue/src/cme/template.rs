//! Messages by their templates: the root block, and the groups behind it.

use super::block::Block;
use crate::error::BadRecord;

/// Size, then length of the root block, template, schema, version.
pub(super) const HEAD_BYTES: usize = 10;
/// The first template whose prices have nine decimals.
const NINE_DECIMALS: u16 = 46;

/// What a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Levels, and changes of orders that belong to them.
    Book,
    OrderBook,
    Trades,
    Volume,
    SessionStatistics,
    DailyStatistics,
    Limits,
    Status,
    Reset,
    Snapshot,
    OrderSnapshot,
    Future,
    Option,
    Spread,
    Login,
    Logout,
    Heartbeat,
    /// Not imported.
    Other,
}

impl Kind {
    pub(super) fn of(template: u16) -> Self {
        match template {
            4 => Self::Reset,
            12 => Self::Heartbeat,
            15 => Self::Login,
            16 => Self::Logout,
            27 | 54 => Self::Future,
            29 | 56 => Self::Spread,
            30 => Self::Status,
            32 | 46 => Self::Book,
            33 | 49 => Self::DailyStatistics,
            34 | 50 => Self::Limits,
            35 | 51 => Self::SessionStatistics,
            37 => Self::Volume,
            38 | 52 => Self::Snapshot,
            41 | 55 => Self::Option,
            42 | 48 => Self::Trades,
            43 | 47 => Self::OrderBook,
            44 | 53 => Self::OrderSnapshot,
            _ => Self::Other,
        }
    }

    fn has_groups(self) -> bool {
        !matches!(self, Self::Status | Self::Login | Self::Logout | Self::Heartbeat | Self::Other)
    }

    /// Bytes that all versions of the root block have, and those of an entry of its first group.
    fn least(self) -> (usize, usize) {
        match self {
            Self::Book | Self::Trades => (9, 26),
            Self::OrderBook => (9, 34),
            Self::Volume => (9, 13),
            Self::SessionStatistics => (9, 19),
            Self::DailyStatistics => (9, 25),
            Self::Limits => (9, 32),
            Self::Status => (30, 0),
            Self::Reset => (9, 0),
            Self::Snapshot => (24, 22),
            Self::OrderSnapshot => (28, 29),
            Self::Future | Self::Option | Self::Spread => (71, 0),
            Self::Login | Self::Logout | Self::Heartbeat | Self::Other => (0, 0),
        }
    }
}

/// A message of SBE.
#[derive(Debug, Clone, Copy)]
pub(super) struct Message<'a> {
    pub(super) template: u16,
    pub(super) version: u16,
    pub(super) kind: Kind,
    pub(super) root: Block<'a>,
    /// The first group, and the second if there is one.
    pub(super) groups: [Group<'a>; 2],
    /// Place behind it in the packet.
    pub(super) end: usize,
}

/// Entries of one length.
#[derive(Debug, Clone, Copy)]
pub(super) struct Group<'a> {
    bytes: &'a [u8],
    at: usize,
    length: usize,
    pub(super) count: usize,
    decimals: u32,
}

impl<'a> Group<'a> {
    /// An entry by its index, from 0; panics behind the last.
    #[inline]
    pub(super) fn entry(&self, index: usize) -> Block<'a> {
        let begin = index * self.length;
        Block { bytes: &self.bytes[begin..begin + self.length], at: self.at + begin, decimals: self.decimals }
    }

    /// The group at the begin of these bytes, and what is behind it; without bytes, an older version lacks it.
    #[inline]
    fn read(
        bytes: &'a [u8],
        at: usize,
        head_bytes: usize,
        decimals: u32,
    ) -> Result<(Self, &'a [u8], usize), BadRecord> {
        if bytes.is_empty() {
            return Ok((Self { bytes, at, length: 0, count: 0, decimals }, bytes, at));
        }
        let Some((head, rest)) = bytes.split_at_checked(head_bytes) else {
            return Err(BadRecord { offset: at, expected: "the head of a group" });
        };
        let length = usize::from(u16::from_le_bytes([head[0], head[1]]));
        let count = usize::from(head[head_bytes - 1]);
        match rest.split_at_checked(length * count) {
            Some((bytes, rest)) => {
                let at = at + head_bytes;
                Ok((Self { bytes, at, length, count, decimals }, rest, at + length * count))
            }
            None => Err(BadRecord { offset: at, expected: "a group that ends within its message" }),
        }
    }
}

impl<'a> Message<'a> {
    /// The message at a place of a packet.
    #[inline]
    pub(super) fn read(packet: &'a [u8], at: usize) -> Result<Self, BadRecord> {
        let Some(head) = packet.get(at..).and_then(|bytes| bytes.first_chunk::<HEAD_BYTES>()) else {
            return Err(BadRecord { offset: at, expected: "the head of a message" });
        };
        let u16_at = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
        let (size, length, template) = (usize::from(u16_at(0)), usize::from(u16_at(2)), u16_at(4));
        let end = at + size;
        if size < HEAD_BYTES + length || end > packet.len() {
            return Err(BadRecord { offset: at, expected: "a message that ends within its packet" });
        }
        let kind = Kind::of(template);
        let (least_root, least_entry) = kind.least();
        if length < least_root {
            return Err(BadRecord { offset: at + 2, expected: "the length of a block of this template" });
        }
        let decimals = if template < NINE_DECIMALS { 7 } else { 9 };
        let begin = at + HEAD_BYTES;
        let root = Block { bytes: &packet[begin..begin + length], at: begin, decimals };
        // What is not imported may have other groups.
        let behind = if kind.has_groups() { &packet[begin + length..end] } else { &[] };
        let (first, rest, place) = Group::read(behind, begin + length, 3, decimals)?;
        if first.count > 0 && first.length < least_entry {
            let offset = begin + length;
            return Err(BadRecord { offset, expected: "the length of an entry of this template" });
        }
        let second = match kind {
            Kind::Book | Kind::Trades => Group::read(rest, place, 8, decimals)?.0,
            _ => Group::read(&rest[..0], place, 8, decimals)?.0,
        };
        Ok(Self { template, version: u16_at(8), kind, root, groups: [first, second], end })
    }

    /// All groups of a definition.
    pub(super) fn all_groups(&self, packet: &'a [u8]) -> Result<Vec<Group<'a>>, BadRecord> {
        let (mut found, mut at) = (Vec::new(), self.root.at + self.root.bytes.len());
        while at < self.end && found.len() < 8 {
            let (group, _, behind) = Group::read(&packet[at..self.end], at, 3, self.root.decimals)?;
            found.push(group);
            at = behind;
        }
        Ok(found)
    }
}
