//! The protocol between a TapeDB server and its clients, as `docs/format/wire.md` writes it down: bytes in, messages out.
//!
//! There is no socket, no clock and no thread here. A [`Decoder`] cuts what arrives into frames; [`ToServer`] and
//! [`ToClient`] are what they say; [`ServerSession`] and [`ClientSession`] know what may be said when, and end a
//! connection over anything else. Batches and blocks of files pass through as bytes that are borrowed, not copied.

mod client;
#[cfg(test)]
mod dissect;
mod error;
mod fields;
mod flow;
mod frame;
mod message;
mod server;

pub use client::ClientSession;
pub use error::WireError;
pub use flow::{Credit, Due, Pulse};
pub use frame::{
    Decoder, FRAME_BYTES_MAX, FRAME_HEADER_BYTES, Frame, MEMORY_REQUEST, Opening, PREFACE, begin_frame,
    end_frame, frame_header,
};
pub use message::{
    Description, Granule, Known, KnownSpace, Login, Parts, Rest, SpaceDescription, ToClient, ToServer,
    VERSION, split_append,
};
pub use server::{Arrived, Channel, Limits, ServerSession};
