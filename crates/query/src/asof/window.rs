//! Window joins and markouts: for each row of the left side aggregates of the rows of the right side around it, or the rows that were the
//! last ones at a list of times before and after it.
//!
//! [`syntax`] makes as-of joins of them that the parser accepts, [`select`] puts the aggregates of a query into the join, [`relation`]
//! plans it as a [`node`], and [`rows`] runs it, or [`ranges`] where the right
//! side is a table.

mod aggregates;
mod exec;
pub(super) mod filters;
mod node;
mod ranges;
pub(super) mod relation;
mod rows;
pub(crate) mod select;
pub(super) mod syntax;

pub(super) use exec::{plan_extension, sides_of};
pub(super) use node::Around;
