//! TapeDB over the network: a [`Server`] gives clients on other machines, and other programs on this one, the same
//! operations that `tapedb_engine` gives to the program that has a database open. `docs/SERVER.md` describes its
//! operation.

mod coalesce;
mod component;
mod config;
mod connection;
mod convert;
mod face;
mod fanout;
mod handle;
mod handshakes;
mod histogram;
mod http;
mod line_protocol;
mod listen_error;
mod load;
mod log_limit;
mod metrics;
mod metrics_page;
mod pages;
mod process;
mod producers;
mod push_frames;
mod query;
mod reload;
mod rewrites;
mod send_buffer;
mod server;
mod session;
mod snapshot;
mod socket;
mod state;
mod status;
mod tls;
mod traffic;
mod watch;

pub use component::Component;
pub use config::{Config, CopyTopic, DurabilityMin, Endpoint, HTTP_PORT, Limits, PORT, Tls};
pub use face::{ConnectionInfo, ServerHandle, StreamReaders};
pub use line_protocol::LineProtocol;
pub use listen_error::ListenError;
pub use metrics_page::MetricsPage;
pub use reload::Reload;
pub use server::{Addresses, Server, ServerError};
// What functions of this crate take and give.
pub use tapedb_access::{AuthenticatedUser, Authenticator, ConfigError, EditError};
