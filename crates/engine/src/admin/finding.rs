//! What a check reports: events, findings, and the counts at its end.

use crate::error::Error;
use std::path::PathBuf;

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Stored data is lost or wrong.
    Damage,
    /// The end of a file is an append that is in progress, or that was never completed and is cut off by the next writer.
    Unfinished,
    /// Something is not as it should be, but nothing is lost by it and it is repaired later.
    Note,
}

/// A difference between a stream's files and what a clean shutdown leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// The file, or the directory when a file is missing.
    pub path: PathBuf,
    /// Where it begins in the file.
    pub offset: u64,
    /// Bytes concerned; 0 where something is missing or the whole file is concerned.
    pub bytes: u64,
    /// Sequence number of the first message that cannot be read or is wrong; `None` when no messages are concerned.
    pub first_sequence: Option<u64>,
    /// Messages from that one on that cannot be read or are wrong; `None`: all to the end, an unknown number.
    pub messages: Option<u64>,
    /// What is wrong.
    pub what: String,
    /// What to do about it.
    pub now: &'static str,
}

/// What a check reports while it runs.
#[derive(Debug)]
pub enum CheckEvent {
    /// More has been verified, by these amounts.
    Progress {
        /// Bytes of log files and segments.
        bytes: u64,
        /// Messages.
        messages: u64,
    },
    /// Something is wrong.
    Found(Finding),
}

/// How much a check does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CheckDepth {
    /// Skips the bodies of messages, and the second decoder for blocks without a checksum of their content.
    Quick,
    /// Decodes everything. Sealed blocks are compared with the checksum of their content; blocks without one, which versions
    /// before 0.2.0 wrote, with the reference decoder.
    #[default]
    Full,
    /// Also compares all sealed blocks with the reference decoder, which shares no code with the one that serves reads, and
    /// their values with the minimum and maximum stored for each column. Many times as slow.
    Thorough,
}

/// The counts of a check.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Messages in whole batches and blocks.
    pub messages: u64,
    /// Whole batches.
    pub batches: u64,
    /// Log files.
    pub files: u64,
    /// Segments.
    pub segments: u64,
    /// Whole blocks of segments.
    pub blocks: u64,
    /// Blocks among them whose rows match the checksum of their content: they are the rows that were sealed.
    pub blocks_by_content: u64,
    /// Blocks among them for which the reference decoder returns the same rows.
    pub blocks_by_reference: u64,
    /// Blocks among them that were compared with neither, in a quick check: they have no checksum of their content.
    pub blocks_unproved: u64,
    /// Messages in blocks without a checksum of their content, which versions before 0.2.0 wrote.
    pub messages_of_version_1: u64,
    /// Messages among them in blocks that version 0.1 decoded to wrong times or values.
    pub messages_misread_by_0_1: u64,
    /// Bytes of log files and segments that were read.
    pub bytes: u64,
    /// Symbols.
    pub symbols: u32,
    /// Findings that are [`Severity::Damage`].
    pub damaged: u64,
    /// Messages that they make unreadable or show to be wrong, as far as the number is known.
    pub messages_damaged: u64,
    /// Findings that are [`Severity::Unfinished`].
    pub unfinished: u64,
    /// Findings that are [`Severity::Note`].
    pub notes: u64,
    /// Whether the stream was deleted during the check: the findings then mean nothing.
    pub is_gone: bool,
}

pub(crate) const RESTORE: &str =
    "restore the file from a copy if there is one; all other messages can be read";
pub(crate) const LEAVE: &str = "nothing: the next writer cuts it off, unless a writer is appending now";
pub(crate) const REBUILT: &str = "nothing: the next writer rebuilds it";
pub(crate) const REMOVE_INDEX: &str = "remove the index file; the next writer rebuilds it";
pub(crate) const REPORT: &str =
    "do not rely on those messages, load them again from their source, and report how they were written";

impl Finding {
    /// Damage of a file that concerns no messages.
    pub(crate) fn damage(path: PathBuf, what: String) -> Self {
        let (severity, first_sequence, messages) = (Severity::Damage, None, Some(0));
        Self { severity, path, offset: 0, bytes: 0, first_sequence, messages, what, now: RESTORE }
    }

    /// A file that cannot be read.
    pub(crate) fn failed(path: PathBuf, error: &Error) -> Self {
        Self { now: "make the file readable, and check again", ..Self::damage(path, error.to_string()) }
    }
}
