//! Queries on databases: one binary, so that DataFusion is linked once.

mod asof;
mod asof_edges;
mod books;
mod explain;
mod gaps;
mod grouped;
mod hostile_data;
mod large;
mod limits;
mod live;
mod markets;
mod memory;
mod page;
mod places;
mod predicates;
mod rivals;
mod served;
mod slices;
mod slt;
mod snapshot;
mod support;
mod tables;
mod upstream;
mod values;
mod views;
mod window;
