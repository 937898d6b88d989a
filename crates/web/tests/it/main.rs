//! The HTTP server over real sockets.

mod access;
mod assets;
mod hostile;
mod imports;
mod live;
mod market;
mod query;
mod streams;
mod support;
