//! TapeDB over the network: a [`Server`] gives clients on other machines, and other programs on this one, what
//! `tapedb_engine` gives to the program that has a database open. `docs/SERVER.md` says how to run one.

mod account;
mod audit;
mod burst;
mod companion;
mod config;
mod connection;
mod convert;
mod entrance;
mod flows;
mod handshakes;
mod histogram;
mod http;
mod load;
mod login;
mod look;
mod metrics;
mod noise;
mod outbox;
mod pattern;
mod process;
mod producers;
mod rewrites;
mod secret;
mod server;
mod session;
mod shared;
mod socket;
mod status;
mod throttle;
mod tls;
mod users;
mod watch;

pub use companion::Companion;
pub use config::{Config, ConfigError, CopyTopic, DurabilityMin, Endpoint, HTTP_PORT, Limits, PORT, Tls};
pub use entrance::{Entrance, Visitor};
pub use metrics::Page;
pub use secret::{hash_password, hash_token, new_token};
pub use server::{Addresses, Server, ServerError};
pub use users::{ANONYMOUS, May, Right, Token, User, UserLimits, Users};
