//! The as-of join: for each row of the left side the last row of the right side before it, of the same keys.
//!
//! [`syntax`] takes the join out of the text, [`relation`] plans it as a [`node`] of a [`pair`] of inputs, [`filters`] puts conditions below it, and [`exec`] runs
//! it: both sides are read once by time, and of the right side the last row of each key is held. With several threads it is divided into
//! [`slices`] of time, by the rule of [`slice_rule`].

mod ahead;
mod exec;
mod filters;
mod gallop;
mod input;
mod keys;
mod last;
mod last_of_symbols;
mod next;
mod node;
mod output;
mod pair;
mod relation;
mod sides;
mod slice_rule;
mod slices;
pub(crate) mod syntax;
mod ties;
pub(crate) mod window;

pub(crate) use exec::AsOfPlanner;
pub(crate) use filters::PushThroughAsOf;
pub(crate) use node::{AsOf, Direction};
pub(crate) use relation::PlanAsOf;
pub(crate) use slice_rule::SliceJoins;
