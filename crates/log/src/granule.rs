//! Granules: the entries of a log's index.

use tapedb_codec::batch::{BatchHeader, HEADER_BYTES, MAX_BATCH_BYTES};

/// A granule is closed when it has this many bytes. Small enough to read at once, large enough that millions
/// of one-message batches need few entries.
pub const GRANULE_BYTES: u32 = 256 << 10;

/// Most bytes of a granule: it was open before its last batch.
pub(crate) const GRANULE_BYTES_MAX: u32 = GRANULE_BYTES + (HEADER_BYTES + MAX_BATCH_BYTES) as u32;

/// Whole batches, adjacent in one log file, whose sequence numbers have no hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granule {
    /// The log file: the sequence number in its name.
    pub file: u64,
    /// Where the first batch begins in the file.
    pub offset: u64,
    /// Bytes of all batches together: at least [`GRANULE_BYTES`] when closed, or one larger batch.
    pub len: u32,
    /// Sequence number of the first message.
    pub first_sequence: u64,
    /// Messages.
    pub count: u64,
    /// Earliest time of a message, in nanoseconds since the Unix epoch.
    pub time_min: i64,
    /// Latest time of a message, in nanoseconds since the Unix epoch.
    pub time_max: i64,
    /// True when the times of all messages never decrease in order of arrival.
    pub sorted: bool,
}

/// Bytes of a log file that hold whole batches, and the messages in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// The log file: the sequence number in its name.
    pub file: u64,
    /// Where the first batch begins in the file.
    pub offset: u64,
    /// Bytes of all batches together.
    pub len: u32,
    /// Sequence number of the first message.
    pub first_sequence: u64,
    /// Messages.
    pub count: u64,
}

impl Span {
    /// Sequence number after the last message.
    pub fn next_sequence(&self) -> u64 {
        self.first_sequence + self.count
    }

    /// Where the span ends in the file.
    pub fn end(&self) -> u64 {
        self.offset + u64::from(self.len)
    }

    /// True when there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl Granule {
    /// Its position and messages, without the times.
    pub fn span(&self) -> Span {
        let Self { file, offset, len, first_sequence, count, .. } = *self;
        Span { file, offset, len, first_sequence, count }
    }

    /// Sequence number after the last message.
    pub fn next_sequence(&self) -> u64 {
        self.first_sequence + self.count
    }

    /// Where the granule ends in its file.
    pub fn end(&self) -> u64 {
        self.offset + u64::from(self.len)
    }

    /// A granule of one batch, which begins at this offset of a file.
    pub fn of(file: u64, offset: u64, header: &BatchHeader) -> Self {
        Self {
            file,
            offset,
            len: header.batch_bytes() as u32,
            first_sequence: header.first_sequence,
            count: header.count.into(),
            time_min: header.time_min,
            time_max: header.time_max,
            sorted: header.sorted(),
        }
    }

    /// Merges `next` into this one if it continues it and this one is shorter than [`GRANULE_BYTES`].
    #[must_use = "another granule is to be kept beside it"]
    pub fn absorb(&mut self, next: &Self) -> bool {
        let follows = self.file == next.file
            && self.end() == next.offset
            && self.next_sequence() == next.first_sequence;
        if self.len >= GRANULE_BYTES || !follows {
            return false;
        }
        self.sorted = self.sorted && next.sorted && next.time_min >= self.time_max;
        self.len += next.len;
        self.count += next.count;
        self.time_min = self.time_min.min(next.time_min);
        self.time_max = self.time_max.max(next.time_max);
        true
    }
}

/// Adds `next` to the granules of a file: to the last one, or as a new one.
pub(crate) fn extend(granules: &mut Vec<Granule>, next: Granule) {
    if !granules.last_mut().is_some_and(|last| last.absorb(&next)) {
        granules.push(next);
    }
}
