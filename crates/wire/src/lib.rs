//! The protocol between a TapeDB server and its clients, as `docs/format/wire.md` defines it: bytes in, messages out.
//!
//! There is no socket, no clock and no thread here. A [`Decoder`] divides bytes into frames; [`ToServer`] and
//! [`ToClient`] are the messages in them; [`ServerSession`] and [`ClientSession`] are state machines that refuse messages
//! which are not allowed. Batches and blocks of files are borrowed, not copied.

mod client;
#[cfg(test)]
mod dissect;
mod error;
mod fields;
mod flow;
mod frame;
mod message;
mod server;
#[cfg(test)]
mod session_page;

pub use client::ClientSession;
pub use error::WireError;
pub use flow::{Credit, Due, Heartbeat};
pub use frame::{
    Decoder, FRAME_BYTES_MAX, FRAME_HEADER_BYTES, Frame, Opening, PREFACE, SHM_REQUEST, begin_frame,
    end_frame, frame_header,
};
pub use message::{
    CachedSpace, CachedStream, Coded, Description, Granule, Login, Rest, SpaceDescription, ToClient,
    ToServer, VERSION, VERSION_CHANGES, VERSION_MIN, VERSION_WATCH_SOME, split_append,
};
pub use server::{Channel, Limits, ReceivedBatch, ServerSession};
