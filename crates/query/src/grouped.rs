//! Groups by symbol and by buckets of time, of messages as they are stored: by symbol, and those of a symbol by time. The rows of a group
//! are neighbours there, so a group is a range of rows: nothing is looked up for a row, and neither symbols nor buckets are columns.
//!
//! [`rule`] finds such aggregations, [`exec`] is the operator, which takes the place of DataFusion's first step, [`block`] groups the rows of
//! a block, and [`bucket`] finds where buckets end. The second step is DataFusion's: it puts the states of blocks together.

mod block;
mod bucket;
mod exec;
mod rule;

pub(crate) use rule::GroupBySymbol;
