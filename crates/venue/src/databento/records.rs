//! The table of record types.

use super::bytes::Fields;
use super::definition;
use super::head::head;
use super::instruments;
use super::layouts::{V1, V2, V3};
use super::prices::{self, Shape};
use crate::error::BadRecord;
use crate::record::AnyRecord;
use tapedb_schema::Timestamp;

const SECOND: u64 = 1_000_000_000;

/// What has become of a record.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decoded {
    /// A message with its time.
    Message(Timestamp),
    /// A type that is not imported.
    Unknown(u8),
}

const CHANGE: Shape =
    Shape { is_change: true, has_depth: true, has_sequence: true, is_consolidated: false, interval_ns: None };
const CONSOLIDATED: Shape = Shape { has_depth: false, has_sequence: false, is_consolidated: true, ..CHANGE };
const STATE: Shape = Shape { is_change: false, has_depth: false, ..CHANGE };
const CONSOLIDATED_STATE: Shape = Shape { is_change: false, ..CONSOLIDATED };

/// Replaces `out` by a whole record. Which version of its layout it has shows in its length, as does the time of sending at its end.
#[inline]
pub(super) fn decode(record: &[u8], out: &mut AnyRecord) -> Result<Decoded, BadRecord> {
    let every = |shape: Shape, seconds: u64| Shape { interval_ns: Some(seconds * SECOND), ..shape };
    // Where the time of receipt is; the venue's own time if it is undefined, or not in the record.
    let received = match record[1] {
        0xA0 => {
            let head = head(record, &[56])?;
            prices::order(&head, out)?;
            40
        }
        0x00 => by_price(record, 48, CHANGE, out)?,
        0x01 | 0xC5 => by_price(record, 80, CHANGE, out)?,
        0x0A => by_price(record, 368, CHANGE, out)?,
        0xB1 | 0xC2 => by_price(record, 80, CONSOLIDATED, out)?,
        0xC0 => by_price(record, 80, every(CONSOLIDATED_STATE, 1), out)?,
        0xC1 => by_price(record, 80, every(CONSOLIDATED_STATE, 60), out)?,
        0xC3 => by_price(record, 80, every(STATE, 1), out)?,
        0xC4 => by_price(record, 80, every(STATE, 60), out)?,
        0x20 => return bar(record, Some(SECOND), out),
        0x21 => return bar(record, Some(60 * SECOND), out),
        0x22 => return bar(record, Some(3_600 * SECOND), out),
        0x23 => return bar(record, Some(86_400 * SECOND), out),
        // Of a session, and of files from before there was a type for each interval.
        0x24 | 0x11 => return bar(record, None, out),
        0x12 => {
            instruments::status(&head(record, &[40])?, out)?;
            16
        }
        0x13 => {
            let head = head(record, &[360, 400, 520])?;
            let layout = match head.fields.0.len() {
                360 => V1,
                400 => V2,
                _ => V3,
            };
            definition::definition(&head, layout, out)?;
            16
        }
        0x14 => {
            instruments::imbalance(&head(record, &[112])?, out)?;
            16
        }
        0x15 => {
            instruments::error(&head(record, &[80, 320])?, out)?;
            8
        }
        0x16 => {
            instruments::symbol_mapping(&head(record, &[80, 176])?, out)?;
            8
        }
        0x17 => {
            instruments::system(&head(record, &[80, 320])?, out)?;
            8
        }
        0x18 => {
            instruments::statistic(&head(record, &[64, 80])?, out)?;
            16
        }
        kind => return Ok(Decoded::Unknown(kind)),
    };
    let fields = Fields(record);
    let time = match fields.time(received)? {
        Some(time) => Some(time),
        None => fields.time(8)?,
    };
    time.map(Decoded::Message).ok_or(NO_TIME)
}

const NO_TIME: BadRecord = BadRecord { offset: 8, expected: "a time that is not undefined" };

fn by_price(record: &[u8], length: usize, shape: Shape, out: &mut AnyRecord) -> Result<usize, BadRecord> {
    prices::by_price(&head(record, &[length])?, shape, out)?;
    Ok(32)
}

fn bar(record: &[u8], interval_ns: Option<u64>, out: &mut AnyRecord) -> Result<Decoded, BadRecord> {
    let end = prices::bar(&head(record, &[56])?, interval_ns, out)?;
    end.map(Decoded::Message).ok_or(NO_TIME)
}
