//! `mdp3`: CME's MDP 3.0, as captures in pcap or pcapng, plain or gzipped.
//!
//! Messages are SBE. Fields are read at the offsets of their templates, entries by the lengths that the messages state: what a newer
//! version adds is passed over, what an older one lacks is null. The message's time is when its packet was captured. What maps to what is in
//! `docs/IMPORT.md`.

mod block;
mod definition;
mod entries;
mod lines;
mod orders;
mod packet;
#[cfg(test)]
#[path = "tests.rs"]
mod round_trips;
mod snapshots;
mod statistics;
mod template;

use crate::error::ImportError;
use crate::options::OnBadLine;
use crate::pcap::{FeedSource, has_feed, open_file};
use crate::source::Source;
use packet::Mdp;
use std::path::Path;

pub(super) const LOOKED_FOR: &str = "captures of CME's MDP 3.0, `*.pcap`, `*.pcapng`, plain or `.gz`";

/// Whether a file is a capture of this feed.
pub(super) fn is_captured(path: &Path) -> bool {
    open_file(path).is_ok_and(|(opened, is_capture)| is_capture && has_feed(&mut Mdp::new(), opened))
}

/// Opens a capture at its first message.
pub(super) fn open(path: &Path, bytes: u64, on_bad_line: OnBadLine) -> Result<Box<dyn Source>, ImportError> {
    let (opened, _) = open_file(path)?;
    Ok(Box::new(FeedSource::open(Mdp::new(), opened, path.into(), bytes, on_bad_line)?))
}
