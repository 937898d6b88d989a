//! Arrow's IPC format as it arrives: bytes in, record batches out.
//!
//! [`Decoder`] takes bytes in pieces of any size, of an IPC stream or of an IPC file, and gives record batches; [`Pieces`] keeps a piece until
//! it is decoded. The bytes may be
//! anything: what is damaged is an error, and memory stays within [`Limits`], whatever lengths the bytes state.
//!
//! This crate has no file, no socket and nothing of TapeDB: `arrow-ipc` decodes, and this crate checks what it is given.

mod check;
mod decoder;
mod guard;
mod lz4;
mod pieces;

pub use decoder::{Decoder, Error};
pub use guard::guarded;
pub use pieces::Pieces;

/// How large messages of the format may be.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of a message's description: of the schema, mostly.
    pub metadata_bytes_max: usize,
    /// Bytes of a batch as it is sent.
    pub body_bytes_max: usize,
    /// Rows of a batch. Where columns are dictionaries, or compressed, few bytes stand for many rows, each of which takes memory.
    pub rows_max: usize,
    /// Bytes of a batch whose buffers are compressed, when they are not any more.
    pub expanded_bytes_max: usize,
}

impl Default for Limits {
    /// 16 MiB of description, batches of 512 MiB and 32 Mi rows.
    fn default() -> Self {
        Self {
            metadata_bytes_max: 16 << 20,
            body_bytes_max: 512 << 20,
            rows_max: 32 << 20,
            expanded_bytes_max: 512 << 20,
        }
    }
}
