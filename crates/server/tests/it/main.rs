//! The server from outside: over sockets, with the frames of the protocol, and with what is not the protocol.

mod captured;
mod hostile;
mod life;
mod load;
mod observing;
mod renamed;
mod rewriting;
mod session;
mod support;
