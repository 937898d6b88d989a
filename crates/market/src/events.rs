//! Gaps, liquidations, funding, and what a vendor reports about its own service.

use crate::records::{Side, lies};
use tapedb_codec::{Enumeration, Record};
use tapedb_schema::{Ascii, Decimal64, Timestamp};

/// Why data is missing.
#[derive(Enumeration, Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum GapCause {
    /// The venue's sequence numbers have a hole.
    #[default]
    SequenceBreak,
    /// The connection was lost and made again.
    Reconnect,
    /// Nothing was received for longer than a limit.
    Silence,
    /// A checksum of the venue did not agree with the book.
    FailedChecksum,
    /// A file of a series is missing.
    MissingFile,
    /// A session is missing.
    MissingSession,
    /// The bytes of a packet or file are damaged or cut.
    Damage,
    /// The recorder itself dropped messages.
    Dropped,
}

/// Data is missing here. The message's time is when the gap was noticed.
#[derive(Record, Debug, Clone, PartialEq, Eq, Default)]
#[record(message)]
pub struct Gap {
    /// Why.
    pub cause: GapCause,
    /// Time of the last message before the gap.
    pub from: Option<Timestamp>,
    /// Time of the first message after the gap; null: the gap has not ended.
    pub to: Option<Timestamp>,
    /// First sequence number that is missing.
    pub first_missing: Option<u64>,
    /// Last sequence number that is missing.
    pub last_missing: Option<u64>,
    /// How many messages are missing; null: not known.
    pub messages: Option<u64>,
    /// Whether the venue's data can show that nothing is missing: without it, silence is no proof.
    pub verifiable: bool,
    /// The connection, channel, packet or file.
    pub detail: Option<String>,
    /// Venue, where it differs from message to message.
    pub exchange: Option<Ascii<8>>,
}

/// A position that the venue closed by force. The message's time is when it was received.
#[derive(Record, Debug, Clone, PartialEq, Default)]
#[record(message)]
pub struct Liquidation {
    /// Side of the order that closes the position.
    pub side: Option<Side>,
    /// Price of the order.
    pub price: Option<Decimal64>,
    /// Size of the order.
    pub size: Option<Decimal64>,
    /// Average price of what was filled.
    pub average_price: Option<Decimal64>,
    /// Size that was filled.
    pub filled: Option<Decimal64>,
    /// The venue's number of the liquidation or its order.
    pub id: Option<u64>,
    /// Its identifier where it is not a number.
    pub id_text: Option<String>,
    /// The venue's status of the order.
    pub status: Option<String>,
    /// When the matching engine did what it reports.
    pub match_time: Option<Timestamp>,
    /// When the venue sent it.
    pub source_time: Option<Timestamp>,
    /// Venue, where it differs from message to message.
    pub exchange: Option<Ascii<8>>,
}

/// What the holders of one side of a perpetual future pay those of the other. The message's time is when it was received.
#[derive(Record, Debug, Clone, PartialEq, Default)]
#[record(message)]
pub struct Funding {
    /// Rate of the interval; positive: long pays short.
    pub rate: Option<Decimal64>,
    /// Expected rate of the next interval.
    pub next_rate: Option<Decimal64>,
    /// Length of the interval in nanoseconds.
    pub interval_ns: Option<u64>,
    /// When it is paid.
    pub funding_time: Option<Timestamp>,
    /// When the next one is paid.
    pub next_funding: Option<Timestamp>,
    /// Mark price that it is computed with.
    pub mark: Option<Decimal64>,
    /// Price of the index.
    pub index: Option<Decimal64>,
    /// When the venue sent it.
    pub source_time: Option<Timestamp>,
    /// Venue, where it differs from message to message.
    pub exchange: Option<Ascii<8>>,
}

/// Kind of a notice.
#[derive(Enumeration, Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum NoticeKind {
    /// About the service: heartbeats, ends of replays, slow readers.
    #[default]
    System,
    /// Something went wrong.
    Error,
}

/// What a venue or vendor reports about its service. The message's time is when it was sent.
#[derive(Record, Debug, Clone, PartialEq, Eq, Default)]
#[record(message)]
pub struct Notice {
    /// Kind.
    pub kind: NoticeKind,
    /// The vendor's code.
    pub code: Option<u8>,
    /// The vendor's mark of the last of several.
    pub last: Option<u8>,
    /// The text.
    pub text: String,
    /// When the vendor sent it on.
    pub vendor_time: Option<Timestamp>,
    /// The vendor's or venue's number of the instrument.
    pub instrument_id: Option<u64>,
    /// The vendor's number of the data's publisher.
    pub publisher_id: Option<u16>,
}

const _: () = assert!(lies::<Gap>(55, &[1, 2, 10, 18, 26, 34, 42, 43, 47]));
const _: () = assert!(lies::<Liquidation>(75, &[2, 3, 11, 19, 27, 35, 43, 47, 51, 59, 67]));
const _: () = assert!(lies::<Funding>(74, &[2, 10, 18, 26, 34, 42, 50, 58, 66]));
const _: () = assert!(lies::<Notice>(26, &[1, 2, 3, 4, 8, 16, 24]));
