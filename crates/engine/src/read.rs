//! Reading: cursors over many streams, each space as a source that goes from history to the tail.

pub(crate) mod block;
pub(crate) mod chooser;
mod chunks;
pub(crate) mod columns;
pub(crate) mod cursor;
pub(crate) mod cursor_builder;
pub(crate) mod decoded;
pub(crate) mod extent;
pub(crate) mod fields;
pub(crate) mod filled;
pub(crate) mod filter;
pub(crate) mod history;
pub(crate) mod in_order;
pub(crate) mod last;
pub(crate) mod merge_budget;
pub(crate) mod position;
pub(crate) mod segment_blocks;
pub(crate) mod source;
pub(crate) mod start;
pub(crate) mod strand_runs;
pub(crate) mod tail;
pub(crate) mod translate;
pub(crate) mod untrusted;
pub(crate) mod value_range;
