//! A gap that was found, and what all of them together say of a stream.

use std::collections::BTreeMap;
use tapedb_market::{Gap, GapCause};
use tapedb_schema::Timestamp;

/// A gap of a stream.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundGap {
    /// When it was noticed.
    pub time: Timestamp,
    /// Symbol, channel or file.
    pub symbol: String,
    /// The gap.
    pub gap: Gap,
    /// Whether it is a message of the stream; otherwise the stream's messages show it.
    pub is_recorded: bool,
}

/// How complete the messages of a stream are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The venue's sequence numbers prove that nothing is missing.
    Complete,
    /// Something is missing.
    Gaps,
    /// No gap was found, and nothing proves that there is none.
    CannotBeVerified,
}

impl Verdict {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Gaps => "gaps",
            Self::CannotBeVerified => "cannot be verified",
        }
    }
}

/// What a scan found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GapSummary {
    /// Messages that were looked at, gaps left out.
    pub messages: u64,
    /// Updates with sequence numbers.
    pub numbered: u64,
    /// Messages that nothing proves to be all: updates without sequence numbers, trades, orders and others.
    pub unnumbered: u64,
    /// Gaps by their causes, our own drops left out.
    pub gaps: BTreeMap<&'static str, u64>,
    /// Gaps that the recorder itself made.
    pub own_drops: u64,
    /// Symbols that are complete.
    pub complete: u64,
    /// Symbols with gaps of their own or of their channel.
    pub with_gaps: u64,
    /// Symbols that cannot be verified.
    pub unverifiable: u64,
}

impl GapSummary {
    /// The verdict of all symbols together.
    pub fn verdict(&self) -> Verdict {
        match self {
            _ if self.own_drops > 0 || !self.gaps.is_empty() => Verdict::Gaps,
            Self { complete: 1.., unverifiable: 0, .. } => Verdict::Complete,
            _ => Verdict::CannotBeVerified,
        }
    }

    /// Counts a gap, and adds it to the list.
    pub(crate) fn add(&mut self, gap: FoundGap, found: &mut Vec<FoundGap>) {
        match gap.gap.cause {
            GapCause::Dropped => self.own_drops += 1,
            cause => *self.gaps.entry(cause_name(cause)).or_default() += 1,
        }
        found.push(gap);
    }
}

/// The name of a cause.
pub const fn cause_name(cause: GapCause) -> &'static str {
    match cause {
        GapCause::SequenceBreak => "sequence break",
        GapCause::Reconnect => "reconnect",
        GapCause::Silence => "silence",
        GapCause::FailedChecksum => "failed checksum",
        GapCause::MissingFile => "missing file",
        GapCause::MissingSession => "missing session",
        GapCause::Damage => "damage",
        GapCause::Dropped => "dropped",
    }
}
