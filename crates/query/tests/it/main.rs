//! Queries on databases: one binary, so that DataFusion is linked once.

mod asof;
mod limits;
mod page;
mod predicates;
mod snapshot;
mod support;
mod values;
