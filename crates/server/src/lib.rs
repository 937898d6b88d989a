//! TapeDB over the network: a [`Server`] gives clients on other machines, and other programs on this one, the same
//! operations that `tapedb_engine` gives to the program that has a database open. `docs/SERVER.md` describes its
//! operation.

mod audit;
mod authentication;
mod coalesce;
mod component;
mod config;
mod connection;
mod convert;
mod handle;
mod handshakes;
mod histogram;
mod http;
mod load;
mod log_limit;
mod login;
mod metrics;
mod metrics_page;
mod pages;
mod pattern;
mod process;
mod producers;
mod query;
mod quota;
mod redact;
mod rewrites;
mod secret;
mod send_buffer;
mod server;
mod session;
mod snapshot;
mod socket;
mod state;
mod status;
mod throttle;
mod tls;
mod traffic;
mod users;
mod watch;

pub use authentication::{AuthenticatedUser, Authenticator};
pub use component::Component;
pub use config::{Config, ConfigError, CopyTopic, DurabilityMin, Endpoint, HTTP_PORT, Limits, PORT, Tls};
pub use metrics_page::MetricsPage;
pub use secret::{hash_password, hash_token, new_token};
pub use server::{Addresses, Server, ServerError};
pub use users::{ANONYMOUS, May, Right, Token, User, UserLimits, Users};
