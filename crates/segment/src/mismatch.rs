//! The dump of a block that was not decoded to its source, to find the defect.

use crate::column::{take, take_array};
use crate::content::{ROW_BYTES, lay_out};
use crate::damage::Flaw;
use crate::format::SCHEMA_BYTES_MAX;
use crate::head::{BLOCK_BYTES_MAX, BLOCK_ROWS_MAX, u16_at, u32_at, u64_at};
use crate::row::RowHeader;
use crate::source::Source;

const MAGIC: &[u8; 8] = b"TAPEDMP1";
/// The most bytes of an encoded block that a dump has.
const BLOCK_DUMPED_MAX: usize = 16 << 20;
/// The most bytes of a dump: text, schema, rows, bodies and the encoded block, each with its length.
pub const DUMP_BYTES_MAX: usize =
    (64 << 10) + SCHEMA_BYTES_MAX + BLOCK_ROWS_MAX * ROW_BYTES + BLOCK_BYTES_MAX + BLOCK_DUMPED_MAX;

/// A block that was not decoded to the rows that it was made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// Index of the block in its segment.
    pub block: u32,
    /// Sequence numbers of its first row and of its last, by time.
    pub sequences: (u64, u64),
    /// The difference, as text.
    pub what: String,
    /// Rows, schema and encoded bytes, for a report: [`Dump::read`] reads it.
    pub dump: Vec<u8>,
}

impl Mismatch {
    pub(crate) fn new(block: u32, what: String, schema: &str, source: Source<'_>, encoded: &[u8]) -> Self {
        let sequence = |sequence: Option<&u64>| sequence.copied().unwrap_or(0);
        let sequences = (sequence(source.sequences.first()), sequence(source.sequences.last()));
        let dump = write(&what, schema, source, encoded);
        Self { block, sequences, what, dump }
    }
}

impl std::fmt::Display for Mismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { block, sequences: (first, last), what, .. } = self;
        write!(f, "block {block}, of the messages {first} to {last}: {what}")
    }
}

/// The content of a dump.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dump {
    /// The difference.
    pub what: String,
    /// The schema, as text.
    pub schema: String,
    /// The given rows, and their bodies.
    pub rows: Vec<(RowHeader, Vec<u8>)>,
    /// The block as it was encoded.
    pub block: Vec<u8>,
}

fn write(what: &str, schema: &str, source: Source<'_>, encoded: &[u8]) -> Vec<u8> {
    let encoded = &encoded[..encoded.len().min(BLOCK_DUMPED_MAX)];
    let mut out = MAGIC.to_vec();
    let part = |bytes: &[u8], out: &mut Vec<u8>| {
        out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        out.extend_from_slice(bytes);
    };
    part(what.as_bytes(), &mut out);
    part(schema.as_bytes(), &mut out);
    let mut rows = vec![[0; ROW_BYTES]; source.len()];
    source.headers().zip(&mut rows).for_each(|(header, out)| lay_out(header, out));
    part(rows.as_flattened(), &mut out);
    part(source.bodies, &mut out);
    part(encoded, &mut out);
    out
}

impl Dump {
    /// Reads [`Mismatch::dump`].
    ///
    /// # Errors
    /// When the bytes are no dump.
    pub fn read(mut bytes: &[u8]) -> Result<Self, Flaw> {
        if take_array::<8>(&mut bytes)? != *MAGIC {
            return Err(Flaw::Magic);
        }
        let mut part = || -> Result<&[u8], Flaw> {
            let length = u32::from_le_bytes(take_array(&mut bytes)?);
            take(&mut bytes, length as usize)
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (what, schema) = (text(part()?), text(part()?));
        let (headers, mut bodies, block) = (part()?, part()?, part()?.to_vec());
        let mut rows = Vec::new();
        for row in headers.as_chunks::<ROW_BYTES>().0 {
            let body = take(&mut bodies, u32_at(row, 22) as usize)?.to_vec();
            let (time, sequence) = (u64_at(row, 0) as i64, u64_at(row, 8));
            let header = RowHeader { time, sequence, symbol: u32_at(row, 16), type_id: u16_at(row, 20) };
            rows.push((header, body));
        }
        Ok(Self { what, schema, rows, block })
    }
}
