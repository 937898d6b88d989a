//! Tests of the server over sockets: with frames of the protocol, and with other bytes.

mod captured;
mod fan_out;
mod hostile;
mod life;
mod load;
mod observing;
mod queries;
mod renamed;
mod rewriting;
mod session;
mod support;
