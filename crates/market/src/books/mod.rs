//! Order books on integers: by price ([`PriceBook`]), by order ([`OrderBook`]), the best over venues ([`ConsolidatedBest`]); and
//! [`Applier`], which applies a stream's messages to the books of all symbols and venues.

mod applier;
mod best;
mod checkpoint;
mod content;
mod grid;
mod ladder;
#[cfg(test)]
mod order_tests;
mod orders;
#[cfg(test)]
mod partial_tests;
mod prices;
#[cfg(test)]
mod reset_tests;
mod slab;
mod state;
mod symbol;
mod table;
#[cfg(test)]
mod tests;
mod units;
mod venue;
mod waiting;

pub use applier::Applier;
pub use best::{Best, ConsolidatedBest, MAX_VENUES};
pub use checkpoint::{BadCheckpoint, BookCheckpoint, BookLevel, BookOrder};
pub use orders::{Arrival, MAX_ORDERS, OrderBook, OrderFault, QueuePosition, RestingOrder};
pub use prices::{PriceBook, PriceLevel};
pub use state::{BookCounters, BookKind, BookState, Doubt};
pub use symbol::SymbolBooks;
pub use units::{MAX_UNITS, Misfit, Units};
pub use venue::VenueBook;
