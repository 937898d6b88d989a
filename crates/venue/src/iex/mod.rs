//! `iex`: IEX DEEP 1.0, TOPS 1.5 and 1.6, as captures of IEX-TP in pcap or pcapng, plain or gzipped.
//!
//! The message's time is when its packet was captured, `match_time` is the venue's, `source_time` when the venue sent the packet. What
//! maps to what is in `docs/IMPORT.md`.

mod bytes;
mod messages;
#[cfg(test)]
#[path = "tests.rs"]
mod round_trips;
mod transport;

use crate::error::ImportError;
use crate::options::OnBadLine;
use crate::pcap::{FeedSource, has_feed, open_file};
use crate::source::Source;
use std::path::Path;
use transport::Transport;

pub(super) const LOOKED_FOR: &str =
    "captures of IEX-TP with DEEP 1.0 or TOPS, `*.pcap`, `*.pcapng`, plain or `.gz`";

/// Whether a file is a capture of this feed.
pub(super) fn is_captured(path: &Path) -> bool {
    open_file(path).is_ok_and(|(opened, is_capture)| is_capture && has_feed(&mut Transport::new(), opened))
}

/// Opens a capture at its first message.
pub(super) fn open(path: &Path, bytes: u64, on_bad_line: OnBadLine) -> Result<Box<dyn Source>, ImportError> {
    let (opened, _) = open_file(path)?;
    Ok(Box::new(FeedSource::open(Transport::new(), opened, path.into(), bytes, on_bad_line)?))
}
