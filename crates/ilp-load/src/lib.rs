//! The InfluxDB line protocol into streams: what InfluxDB's and QuestDB's clients send, over HTTP and TCP.
//!
//! [`LineLoader`] makes messages of lines: the stream of a line has the name of its table, and is created and gets fields where the user
//! may do so. [`LineGateway`] answers requests over HTTP, whatever receives them. [`LineServer`] listens, with a thread for each
//! connection. `docs/GATEWAYS.md` is the manual.

mod column;
mod dictionary;
mod error;
mod gather;
mod http;
mod http_connection;
mod load;
mod names;
mod occurrence;
mod open;
mod options;
mod retries;
mod server;
mod socket;
mod table;
mod tcp_connection;

pub use error::WriteError;
pub use http::{HttpRequest, HttpResponse, LineGateway};
pub use load::{LineConnection, LineLoader, LoadCounts};
pub use options::LoadOptions;
pub use server::{LineAddresses, LineServer};
// What functions of this crate take.
pub use tapedb_ilp::{Limits, Precision};
