//! The header of a record.

use super::bytes::Fields;
use crate::error::BadRecord;
use tapedb_schema::Timestamp;

/// Bytes of a record's header.
pub(super) const HEAD_BYTES: usize = 16;
/// Bytes of the time of sending that live records may have at their end.
const SENT_BYTES: usize = 8;

/// Header of a record, and its bytes without the time of sending.
pub(super) struct Head<'a> {
    pub(super) fields: Fields<'a>,
    pub(super) publisher_id: u16,
    pub(super) instrument_id: u32,
    /// When the vendor sent it on, if that is at its end.
    pub(super) vendor_time: Option<Timestamp>,
}

impl Head<'_> {
    /// When it happened at the venue.
    pub(super) fn event_time(&self) -> Result<Option<Timestamp>, BadRecord> {
        self.fields.time(8)
    }
}

/// The header of a record that has one of these lengths, or one with the time of sending.
#[inline]
pub(super) fn head<'a>(record: &'a [u8], lengths: &[usize]) -> Result<Head<'a>, BadRecord> {
    let length = record.len();
    let bare = if lengths.contains(&length) {
        length
    } else if length > SENT_BYTES && lengths.contains(&(length - SENT_BYTES)) {
        length - SENT_BYTES
    } else {
        return Err(BadRecord { offset: 0, expected: "the length of a record of this type" });
    };
    let fields = Fields(&record[..bare]);
    let vendor_time = if bare == length { None } else { Fields(record).time(bare)? };
    Ok(Head { fields, publisher_id: fields.u16(2), instrument_id: fields.u32(4), vendor_time })
}
