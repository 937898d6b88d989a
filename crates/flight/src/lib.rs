//! TapeDB for clients of Arrow Flight SQL: [`Flight`] speaks the protocol over the queries of `tapedb-query`, with the users, rights and
//! limits of the server that it belongs to. `docs/GATEWAYS.md` describes it.
//!
//! Always true: no call is answered before its user is known; a ticket is good for the user that it was given to, and for a time; a query
//! stops when its client leaves, cancels it, or takes no rows, and when the server stops; a message is never longer than its limit.

mod admission;
mod bearer;
mod caller;
mod connection;
mod facts;
mod ingest;
mod metadata;
mod options;
mod prepared;
mod received;
mod rows;
mod running;
mod server;
mod service;
mod shared;
mod status;
mod ticket;

pub use options::FlightOptions;
pub use server::Flight;
