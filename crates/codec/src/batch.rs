//! The bytes of a batch: an 80-byte header and a payload of columns and bodies.
//!
//! A producer builds a batch once ([`BatchBuilder`] from messages, [`ColumnWriter`] from columns); the log fills in the first sequence number
//! ([`assign_sequence`]) and never touches the payload; a reader checks it and finds its rows
//! ([`Rows`]). Nothing here does I/O or reads a clock. `docs/format/batch.md` draws every byte.
//!
//! ```
//! use tapedb_codec::batch::{BatchBuilder, Rows};
//!
//! let mut builder = BatchBuilder::new();
//! builder.push_bytes(1_000, 7, 0, b"first").unwrap();
//! builder.push(1_001, 7, 0, |body| body.extend_from_slice(b"second")).unwrap();
//! let mut batch = Vec::new();
//! builder.finish(1, &mut batch);
//!
//! let mut rows = Rows::default();
//! rows.load(&batch).unwrap();
//! let row = rows.row(1);
//! assert_eq!((row.time, row.symbol, row.type_id), (1_001, 7, 0));
//! assert_eq!(&batch[row.body], b"second");
//! ```

mod alike;
mod builder;
mod columns;
mod error;
mod header;
mod picked;
mod rows;

pub use alike::Alike;
pub use builder::{BatchBuilder, PushError};
pub use columns::{
    BatchColumns, ColumnWriter, Content, FieldColumn, FieldValues, InputColumn, Misfit, RowMaker, Texts,
    Validity, Words, is_columnar, to_rows,
};
pub use error::BatchError;
pub use header::{
    BatchHeader, assign_mark, assign_producer, assign_sequence, check, check_stored, verify_payload,
};
pub use picked::{PickedBuilder, PickedRows};
pub use rows::{Row, Rows};

/// Bytes of a batch header.
pub const HEADER_BYTES: usize = 80;
/// First four bytes of every batch: `TPB1`.
pub const MAGIC: u32 = u32::from_le_bytes(*b"TPB1");
/// Largest payload of one batch, in bytes. A builder refuses the message that might pass it.
pub const MAX_BATCH_BYTES: usize = 16 << 20;
/// Largest body of one message, in bytes.
pub const MAX_MESSAGE_BYTES: usize = 4 << 20;
/// Most messages in one batch.
pub const MAX_BATCH_MESSAGES: usize = 1 << 20;
/// A batch of rows.
pub const KIND_ROWS: u8 = 1;
/// A batch of columns: messages of one record type, field by field.
pub const KIND_COLUMNS: u8 = 2;
/// A batch of columns has at most so many times its bytes as the fixed parts of its messages, so that none unfolds into more
/// memory than a small multiple of its bytes.
pub const UNFOLD_MAX: usize = 16;
/// Flag bit 0: the times of the rows never decrease in row order.
pub const FLAG_SORTED: u8 = 1;

#[cfg(test)]
mod tests;
