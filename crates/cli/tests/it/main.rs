//! The `tapedb` command as people and programs use it: the built binary, over generated data.

mod altering;
mod books;
#[cfg(feature = "nats")]
mod brokering;
mod certifying;
mod checking;
#[cfg(feature = "sql")]
mod clustering;
mod console;
mod exchanging;
mod importing;
mod importing_kdb;
mod importing_venues;
mod interrupted;
mod kdb_client;
mod keeping;
mod live;
mod live_input;
mod looking;
mod manual;
mod measuring;
#[cfg(feature = "sql")]
mod publishing;
mod querying;
mod reading;
mod readme;
mod real_data;
mod replaying;
mod replaying_live;
mod replaying_socket;
mod serving;
mod support;
mod ticking;
mod ticking_kdb;
mod tiering;
mod topics;
#[cfg(feature = "web")]
mod traces;
