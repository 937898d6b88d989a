//! How much is known of a book, and what was found in its feed.

use crate::Side;
use std::fmt;
use tapedb_codec::Enumeration;
use tapedb_schema::Decimal64;

/// What a book is made of.
#[derive(Enumeration, Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum BookKind {
    /// Changes of levels (L2).
    #[default]
    Prices,
    /// Changes of orders (L3).
    Orders,
    /// The best bid and offer of a venue (L1).
    Quotes,
}

impl BookKind {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Prices => "prices",
            Self::Orders => "orders",
            Self::Quotes => "quotes",
        }
    }
}

/// How much is known of a book.
#[derive(Enumeration, Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum BookState {
    /// Levels or orders may be missing: there was no snapshot, or data is missing since.
    #[default]
    Unknown,
    /// It is a snapshot with all changes since that are there; the feed has nothing that proves that none is missing.
    Seeded,
    /// It is a snapshot with all changes since, as the venue's sequence numbers prove.
    Good,
}

impl BookState {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Seeded => "seeded",
            Self::Good => "good",
        }
    }
}

/// Why a book is unknown.
#[derive(Enumeration, Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Doubt {
    /// There was no snapshot yet.
    #[default]
    NoSnapshot,
    /// A snapshot is being received.
    Snapshot,
    /// Data is missing, and there was no snapshot since.
    Gap,
    /// Sequence numbers are missing, and there was no snapshot since.
    SequenceBreak,
    /// The snapshot is older than all updates that are kept.
    OldSnapshot,
    /// A message has a number or an order that the book cannot hold.
    Misfit,
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSnapshot => "no snapshot yet",
            Self::Snapshot => "a snapshot is being received",
            Self::Gap => "data is missing, and no snapshot since",
            Self::SequenceBreak => "sequence numbers are missing, and no snapshot since",
            Self::OldSnapshot => "the snapshot is older than all updates after it",
            Self::Misfit => "a message does not fit the book, and no snapshot since",
        })
    }
}

/// What was found in the feed of a book.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BookCounters {
    /// Messages that changed the book or its sequence number.
    pub messages: u64,
    /// Snapshots, each counted when it is complete.
    pub snapshots: u64,
    /// Snapshots older than the book, which were passed over.
    pub snapshots_behind: u64,
    /// Updates older than the book, which were passed over.
    pub updates_behind: u64,
    /// Deletes of levels that were not there. Some venues send them all the time.
    pub absent_levels: u64,
    /// Deletes of orders that were not there.
    pub absent_deletes: u64,
    /// Executions of orders that were not there.
    pub absent_executions: u64,
    /// Other changes of orders that were not there.
    pub absent_changes: u64,
    /// Orders that were added twice.
    pub duplicates: u64,
    /// Changes that removed more than there was.
    pub oversized: u64,
    /// How often the best bid reached the best ask.
    pub crossed: u64,
    /// Holes in the venue's sequence numbers.
    pub breaks: u64,
    /// `Gap` messages about the book.
    pub gaps: u64,
    /// Messages that the book could not hold.
    pub misfits: u64,
}

impl BookCounters {
    /// Names and values.
    pub fn named(&self) -> [(&'static str, u64); 14] {
        [
            ("messages", self.messages),
            ("snapshots", self.snapshots),
            ("snapshots_behind", self.snapshots_behind),
            ("updates_behind", self.updates_behind),
            ("absent_levels", self.absent_levels),
            ("absent_deletes", self.absent_deletes),
            ("absent_executions", self.absent_executions),
            ("absent_changes", self.absent_changes),
            ("duplicates", self.duplicates),
            ("oversized", self.oversized),
            ("crossed", self.crossed),
            ("breaks", self.breaks),
            ("gaps", self.gaps),
            ("misfits", self.misfits),
        ]
    }
}

/// A level as a message states it; without a size, it is deleted.
#[derive(Debug, Clone, Copy)]
pub(super) struct PriceChange {
    pub(super) side: Side,
    pub(super) price: Decimal64,
    pub(super) size: Option<Decimal64>,
    pub(super) orders: u32,
}
