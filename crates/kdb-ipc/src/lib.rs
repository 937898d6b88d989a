//! kdb+ as others speak it, as `docs/format/kdb.md` writes it down: bytes to values and back.
//!
//! There is no socket, no file, no clock and no q here. A [`Session`] is one end of a connection: bytes that arrive go
//! in, a greeting and then messages come out. [`Value`] is the content of a message; [`decode`] and [`encode`]
//! change bytes into values and back, in both byte orders; [`compress`](fn@compress) and [`expand`] are what busy links
//! do to messages. [`mod@file`] has the files of kdb+: the tickerplant's log, flat values and splayed columns.
//!
//! No bytes cause a panic, and no memory is taken that the bytes do not justify: see [`Limits`].
//!
//! ```
//! use tapedb_kdb_ipc::{ByteOrder, Limits, Value, decode, encode};
//!
//! let list = Value::from(vec![1_i64, 2, 3]);
//! let mut bytes = Vec::new();
//! encode(&list, ByteOrder::Little, &mut bytes);
//! assert_eq!(bytes[..6], [7, 0, 3, 0, 0, 0]);
//! assert_eq!(decode(&bytes, ByteOrder::Little, &Limits::default())?.to_string(), "1 2 3");
//! # Ok::<(), tapedb_kdb_ipc::KdbError>(())
//! ```

mod atom;
mod compress;
mod decode;
mod elements;
mod encode;
mod error;
pub mod file;
mod frame;
mod greeting;
mod kind;
mod session;
mod symbols;
mod text;
mod value;

pub use atom::Atom;
pub use compress::{COMPRESS_BYTES_MIN, compress, expand};
pub use decode::{Limits, decode, decode_first};
pub use elements::Elements;
pub use encode::{ByteOrder, encode};
pub use error::KdbError;
pub use frame::{HEADER_BYTES, Header, Kind, MESSAGE_BYTES_MAX, begin_message, end_message, message};
pub use greeting::{CAPABILITY, GREETING_BYTES_MAX, Greeting, greeting};
pub use kind::{Attribute, Type};
pub use session::{Event, Message, Session};
pub use symbols::{Symbol, Symbols};
pub use text::console;
pub use value::{Dictionary, Function, List, Table, Value, Vector};
