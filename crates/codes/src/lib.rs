//! Commands, outcomes and errors of the engine as the protocol carries them: a code, texts and numbers.
//!
//! Server and client share this, so that each code is written and read in one place. The engine does not contain it: it
//! does not depend on what its values become on a connection. `tapedb-wire` does not contain it: it does not depend on the
//! engine. Codes never change their meaning ([the page of the protocol](../../docs/format/wire.md)).
//!
//! ```
//! use tapedb_codes::{command, error};
//! use tapedb_engine::{Command, Error};
//!
//! let sent = command::to_coded(&Command::DeleteStream { name: "bars".into() });
//! assert_eq!((sent.code, &sent.texts[..]), (2, &["bars".to_string()][..]));
//! assert!(matches!(command::from_coded(&sent), Ok(Command::DeleteStream { .. })));
//!
//! let answer = error::to_coded(&Error::ReadOnly);
//! assert!(matches!(error::from_coded(&answer), Error::ReadOnly));
//! ```

pub mod command;
pub mod error;
mod fields;
pub mod outcome;
#[cfg(test)]
mod page;
