//! Replays to WebSocket clients, with the paths and messages of tardis-machine.
//!
//! A client asks for what it wants in the address: `/ws-replay-normalized?options=…&speed=10x`. Each connection is a replay of its own:
//! [`tapedb_replay::Player`] with a sink that turns messages into normalized JSON, a text frame each.
//!
//! Everything is bounded: connections, what a client may send, the bytes that wait for it. A client that reads slowly slows its own replay
//! down; one that leaves ends it. Threads instead of an asynchronous runtime: a connection is one loop that reads a cursor and writes a
//! socket, and its back-pressure is the write that blocks.

mod access;
mod book_change;
mod connection;
mod data_type;
mod json;
mod plan;
mod request;
mod server;
mod sink;
mod snapshots;
mod wire;

pub use request::RequestError;
pub use server::{Ended, Observer, ReplayServer, ServerOptions};
