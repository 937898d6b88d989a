//! Live queries: history first, and then what arrives, without a gap.
//!
//! A live query is run again and again, each time on what the runs before it have not had: a slice of the stream. [`shape`] finds out of a
//! plan how it can be divided into slices, or why it cannot, and [`slice`] limits a plan to one. So every row is computed as in a query on
//! history, by the same operators.
//!
//! Always true: slices do not overlap, and there is nothing between them: each begins where the one before it ended.

mod bucket;
mod rows;
mod shape;
mod slice;

pub(crate) use bucket::{begin_of, end_of};
pub(crate) use rows::LiveRows;
pub(crate) use shape::{Shape, shape_of};
pub(crate) use slice::Slice;
