//! The bytes of TapeDB messages: one row layout, two codecs, and batches of rows.
//!
//! *Compiled*: [`Record`], [`Union`] and [`Enumeration`] derive the layout of Rust types. *Interpreted*: [`dynamic`]
//! works from a schema known only at run time. Both write the same bytes, described in `docs/format/message.md`, and
//! neither trusts a byte it reads. A [`batch`] packs messages for the log and the wire.
//!
//! Three ways to read a body: [`view`] validates once and then reads fields in place; [`decode_into`] fills a struct
//! and reuses what it has allocated; [`dynamic`] gives values without any Rust type.
//!
//! [`evolve`] reads what was written under an older or newer version of the schema.
//!
//! This crate has no sockets, files or clocks.

extern crate self as tapedb_codec;

mod array;
pub mod batch;
pub mod bytes;
pub mod dynamic;
mod error;
pub mod evolve;
mod heap;
mod layout;
mod plan;
mod scalars;
mod schema_of;
mod shown;
mod spare;

pub use array::{ArrayIter, ArrayView};
pub use error::{DecodeError, DecodeErrorKind};
pub use heap::Binary;
pub use layout::{
    Field, Layout, MAX_DEPTH, Record, decode, decode_into, encode, encode_into, view, view_trusted,
};
pub use schema_of::SchemaBuilder;
pub use shown::quoted;
pub use spare::Spare;
pub use tapedb_derive::{Enumeration, Record, Union};

/// What the derives expand to; not for use by hand.
#[doc(hidden)]
pub mod derived {
    pub use crate::array::EMPTY_RECORD_ITEM;
    pub use crate::layout::END_WIDTH;
    pub use crate::plan::*;
    pub use crate::spare::FixedPart;
    pub use tapedb_schema::FieldType;
}
