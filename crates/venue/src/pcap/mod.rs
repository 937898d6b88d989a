//! Captures of a network, pcap and pcapng: UDP datagrams of feeds whose packets hold numbered messages.
//!
//! From the outside in: [`file`] opens files, [`packets`] reads packets of one, [`datagram`] finds what UDP carries, [`sequence`] says of
//! each message whether it is new, [`feed`] gives rows. Two redundant lines in one capture are one feed: what both have comes once. Missing
//! messages, cut packets and fragments of IP, which are not put together, become gaps; where a publisher begins again, a notice says so.

mod datagram;
mod feed;
mod file;
mod packets;
mod sequence;

pub(crate) use datagram::Line;
pub(crate) use feed::{Feed, FeedSource, Message, Packet, behind_length, has_feed};
pub(crate) use file::{is_capture_named, open_file};
pub(crate) use sequence::hash;

/// Captures for tests.
#[cfg(test)]
pub(crate) mod fixture {
    pub(crate) use super::datagram::tests::frame;
    pub(crate) use super::packets::tests::capture;
}
