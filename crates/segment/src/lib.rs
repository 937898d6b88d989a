//! History in columns: sealed files of compressed blocks.
//!
//! A block takes up to some thousand messages in time order apart by record type and field, encodes each column by what
//! its values are like, and gives rows or columns back. Values of one symbol lie together, so that a price is predicted
//! from the same symbol's last one. A segment is a file of blocks with an index of times and symbols. The bytes are
//! described in `docs/format/segment.md`.
//!
//! This crate has no log and no stream: bytes in, bytes out; a file is what [`ReadAt`] reads.

mod assemble;
mod block;
mod builder;
mod canonical;
mod coefficients;
mod column;
mod columns;
mod compare;
mod content;
mod damage;
mod decimal_floats;
mod decimals;
mod decoder;
pub mod encoding;
mod error;
#[doc(hidden)]
pub mod fault;
mod follow;
mod format;
mod former;
mod gather;
mod head;
mod lane_columns;
mod lanes;
mod level;
mod members;
mod mismatch;
mod order;
mod plain;
mod plan;
mod prove;
mod ranges;
pub mod reference;
mod reseal;
mod row;
mod rows;
mod rule;
mod salvage;
mod scatter;
mod segment;
mod shred;
mod simd;
mod slots;
mod source;
mod spaced;
mod spare;
mod stats;
mod strip_source;
mod together;
mod transpose;
#[cfg(any(test, feature = "trials"))]
#[doc(hidden)]
pub mod trials;
mod values;
mod verify;
mod words;
mod writer;

pub use block::Block;
pub use builder::{BlockBuilder, BlockOptions, Learned};
pub use damage::{Damage, DamagedPart, Flaw};
pub use decimal_floats::append_f64s;
pub use decoder::{Decoder, PlacesBySymbol, Selection};
pub use encoding::Tier;
pub use error::SegmentError;
pub use format::{
    BLOCKS_MAX, BlockEntry, ENTRY_LAYOUT, FOOTER_BYTES_MAX, HEADER_LAYOUT, SCHEMA_BYTES_MAX, STRANDS_MAX,
    SegmentHeader, TRAILER_LAYOUT, VERSION,
};
pub use head::{BLOCK_BYTES_MAX, BLOCK_ROWS_MAX, BODY_BYTES_MAX, Chunk, Group, Head};
pub use lane_columns::{LaneColumn, LaneColumns};
pub use mismatch::{DUMP_BYTES_MAX, Dump, Mismatch};
pub use plan::{COLUMNS_MAX, ColumnKind, ColumnPlan, GroupPlan, Plan, RECORDS_MAX, StepKind};
pub use prove::Proof;
#[doc(hidden)]
pub use reseal::{reseal_block, reseal_footer};
pub use row::RowHeader;
pub use rows::Rows;
pub use rule::Rule;
pub use segment::{ReadAt, Segment};
pub use source::{ColumnRun, RowRun};
pub use transpose::transpose;
pub use values::{ColumnValues, Values};
pub use writer::{SegmentWriter, Strands, Written};
