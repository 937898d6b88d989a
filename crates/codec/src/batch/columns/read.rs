//! Finds the columns of a batch.

use super::words::Words;
use super::{ENTRY_BYTES, FLAG_NULLS, Shape, at, bit};
use crate::batch::{BatchError, BatchHeader, HEADER_BYTES, KIND_COLUMNS, MAX_BATCH_BYTES};
use crate::bytes::{u32_at, u64_at};
use crate::dynamic::{Layouts, RecordLayout};

/// The columns of a batch, found. What can be read without failure has been checked: that every column is there in its length;
/// [`BatchColumns::check`] checks the values.
#[derive(Clone, Debug)]
pub struct BatchColumns<'a> {
    pub(super) header: BatchHeader,
    pub(super) record: &'a RecordLayout,
    pub(super) fields: Vec<FieldColumn<'a>>,
    /// Times and symbols, as in the batch.
    pub(super) places: &'a [u8],
}

/// One field of all messages.
#[derive(Clone, Copy, Debug)]
pub struct FieldColumn<'a> {
    pub(super) count: usize,
    pub(super) nulls: Option<&'a [u8]>,
    /// Its values.
    pub content: Content<'a>,
}

/// The values of a field. Those of nulls are zero or empty.
#[derive(Clone, Copy, Debug)]
pub enum Content<'a> {
    /// Slots of up to eight bytes.
    Word(Words<'a>),
    /// Longer slots: the first eight bytes, and the others.
    Wide(Words<'a>, Words<'a>),
    /// Texts and binaries.
    Text(Texts<'a>),
}

/// The texts or binaries of a field.
#[derive(Clone, Copy, Debug)]
pub struct Texts<'a> {
    pub(super) lengths: Words<'a>,
    pub(super) bytes: &'a [u8],
    count: usize,
}

impl<'a> BatchColumns<'a> {
    /// Finds the columns of a batch whose header was parsed. `batch` is exactly one batch; `layouts`: of its version of the
    /// schema.
    ///
    /// # Errors
    /// Where header, directory and bytes contradict each other or the schema.
    pub fn parse(header: &BatchHeader, batch: &'a [u8], layouts: &'a Layouts) -> Result<Self, BatchError> {
        let (need, have) = (header.batch_bytes(), batch.len());
        if have < need {
            return Err(BatchError::Truncated { offset: 0, need, have });
        }
        if have > need {
            return Err(BatchError::Trailing { offset: need, have: have - need });
        }
        let wrong = |field, offset, need, have| Err(BatchError::Field { offset, field, need, have });
        if header.kind != KIND_COLUMNS {
            return wrong("kind", 46, "2 (columns)", header.kind.into());
        }
        let need = "the id of a record type without records and arrays";
        let type_id = header.type_const;
        let Some(record) = layouts.records().get(usize::from(type_id)) else {
            return wrong("type_const", 60, need, type_id.into());
        };
        if record.fixed != header.length_const as usize {
            return wrong("length_const", 56, "the bytes of the fixed part", header.length_const.into());
        }
        let Some(shapes) = record.fields.iter().map(Shape::of).collect::<Option<Vec<_>>>() else {
            return wrong("type_const", 60, need, type_id.into());
        };
        let count = header.count as usize;
        let directory = HEADER_BYTES + header.column_bytes();
        let entries: usize = shapes.iter().map(|shape| shape.entries()).sum();
        let mut finder = Finder { batch, count, entry: directory, at: directory + entries * ENTRY_BYTES };
        finder.take(0)?;
        let fields = record.fields.iter().zip(&shapes).map(|(field, shape)| {
            let nullable = field.null_bit.is_some();
            finder.field(*shape, field.width, nullable)
        });
        let fields: Vec<FieldColumn<'a>> = fields.collect::<Result<_, _>>()?;
        if finder.at != batch.len() {
            return Err(BatchError::Trailing { offset: finder.at, have: batch.len() - finder.at });
        }
        let heap: usize = fields.iter().map(FieldColumn::heap_bytes).sum();
        let rows_bytes = count * (record.fixed + super::rows::ROW_BYTES_MAX) + heap;
        if rows_bytes > MAX_BATCH_BYTES {
            let need = "so few that they fit a batch of rows, 16 MiB";
            return wrong("count", 40, need, header.count.into());
        }
        Ok(Self { header: *header, record, fields, places: &batch[HEADER_BYTES..directory] })
    }

    /// The header of the batch.
    pub fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// Number of messages.
    pub fn len(&self) -> usize {
        self.header.count as usize
    }

    /// Whether there are no messages: always `false`.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The record type of all messages.
    pub fn record(&self) -> &'a RecordLayout {
        self.record
    }

    /// Whether all messages have the same length: the record type has no texts and no binaries.
    pub fn has_one_length(&self) -> bool {
        self.record.last_end.is_none()
    }

    /// The columns, in the order of the record type's fields.
    pub fn fields(&self) -> &[FieldColumn<'a>] {
        &self.fields
    }
}

impl<'a> FieldColumn<'a> {
    /// Which rows are null: a bit for each, lowest of the first byte first. `None`: no row is.
    pub fn nulls(&self) -> Option<&'a [u8]> {
        self.nulls
    }

    /// Whether a row is null.
    #[inline]
    pub fn is_null(&self, row: usize) -> bool {
        self.nulls.is_some_and(|nulls| bit(nulls, row))
    }

    /// Number of messages.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are no messages: always `false`.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn heap_bytes(&self) -> usize {
        if let Content::Text(texts) = &self.content { texts.bytes.len() } else { 0 }
    }
}

impl<'a> Texts<'a> {
    /// The texts of all rows, in order; those of nulls are empty.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let Self { lengths, bytes, count } = *self;
        let mut at = 0;
        (0..count).map(move |row| {
            let start = at;
            at += lengths.get(row) as usize;
            bytes.get(start..at).unwrap_or_default()
        })
    }

    /// The texts one after the other.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Bytes of each text.
    pub fn lengths(&self) -> Words<'a> {
        self.lengths
    }
}

/// Walks the directory and the columns.
struct Finder<'a> {
    batch: &'a [u8],
    count: usize,
    /// The next entry.
    entry: usize,
    /// Where the next column begins.
    at: usize,
}

impl<'a> Finder<'a> {
    fn take(&mut self, bytes: usize) -> Result<&'a [u8], BatchError> {
        let (start, rest) = (self.at, self.batch.get(self.at..).unwrap_or_default());
        let end = start + bytes;
        let taken = self.batch.get(start..end);
        let taken = taken.ok_or(BatchError::Truncated { offset: start, need: bytes, have: rest.len() })?;
        self.at = end;
        Ok(taken)
    }

    fn field(&mut self, shape: Shape, slot: usize, nullable: bool) -> Result<FieldColumn<'a>, BatchError> {
        let (count, offset) = (self.count, self.at);
        let (width, has_nulls, heap, base) = self.entry(shape, nullable)?;
        let nulls = if has_nulls { Some(self.take(count.div_ceil(8))?) } else { None };
        let cells = self.take(count * usize::from(width))?;
        let content = match shape {
            Shape::Word => Content::Word(Words::new(width, base, slot, cells)),
            Shape::Wide => {
                let (rest_width, _, _, rest_base) = self.entry(Shape::Word, false)?;
                let rest = self.take(count * usize::from(rest_width))?;
                let rest = Words::new(rest_width, rest_base, slot - 8, rest);
                Content::Wide(Words::new(width, base, 8, cells), rest)
            }
            Shape::Text => {
                let lengths = Words::new(width, base, 4, cells);
                let bytes = self.take(heap)?;
                let mut sum = 0;
                lengths.for_each(0..count, |length| sum += length);
                if sum != heap as u64 {
                    let need = "lengths that sum to the bytes of the texts";
                    return Err(BatchError::Column { offset, column: "text", need, have: sum });
                }
                Content::Text(Texts { lengths, bytes, count })
            }
        };
        Ok(FieldColumn { count, nulls, content })
    }

    /// The next entry: width, whether there is a null bitmap, bytes of texts, base.
    fn entry(&mut self, shape: Shape, nullable: bool) -> Result<(u8, bool, usize, u64), BatchError> {
        let offset = self.entry;
        self.entry += ENTRY_BYTES;
        let entry = &self.batch[offset..offset + ENTRY_BYTES];
        let wrong = |at: usize, need, have| {
            Err(BatchError::Column { offset: offset + at, column: "directory", need, have })
        };
        let (width, flags) = (entry[at::WIDTH], entry[at::FLAGS]);
        if !matches!(width, 0 | 1 | 2 | 4 | 8) || (shape == Shape::Text && width == 8) {
            return wrong(at::WIDTH, "a width of 0, 1, 2, 4 or 8 bytes (texts: of 4 at most)", width.into());
        }
        if flags & !FLAG_NULLS != 0 || (flags != 0 && !nullable) {
            return wrong(at::FLAGS, "flags of 0, or 1 for a nullable field", flags.into());
        }
        if entry[at::RESERVED..at::HEAP] != [0; 2] {
            return wrong(at::RESERVED, "zero", entry[at::RESERVED].into());
        }
        let heap = u32_at(entry, at::HEAP);
        if heap != 0 && shape != Shape::Text {
            return wrong(at::HEAP, "no bytes of texts for numbers", heap.into());
        }
        Ok((width, flags == FLAG_NULLS, heap as usize, u64_at(entry, at::BASE)))
    }
}
