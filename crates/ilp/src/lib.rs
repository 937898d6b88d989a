//! The InfluxDB line protocol as clients of InfluxDB and QuestDB send it: text (version 1), binary doubles and arrays of them
//! (version 2), decimals (version 3). A line is a row:
//!
//! ```text
//! measurement,tag=value,tag=value field=1.5,field=3i,field="text" 1700000000000000000
//! ```
//!
//! Bytes in, rows out: [`Parser`] calls [`Rows`] with what each line has, and allocates nothing. [`Framer`] finds where lines end in
//! bytes that arrive in pieces. There is no I/O and no clock.
//!
//! ```
//! use tapedb_ilp::{Limits, Parser, Precision, Refusal, Rows, Text, Value};
//!
//! #[derive(Default)]
//! struct Print(Vec<String>);
//!
//! impl Rows for Print {
//!     fn table(&mut self, name: Text<'_>, _line: u64) -> Result<(), Refusal> {
//!         self.0.push(format!("table {name}"));
//!         Ok(())
//!     }
//!     fn tag(&mut self, name: Text<'_>, value: Text<'_>) -> Result<(), Refusal> {
//!         self.0.push(format!("{name} is {value}"));
//!         Ok(())
//!     }
//!     fn field(&mut self, name: Text<'_>, value: Value<'_>) -> Result<(), Refusal> {
//!         self.0.push(format!("{name} is {value:?}"));
//!         Ok(())
//!     }
//!     fn end(&mut self, time: Option<i64>) -> Result<(), Refusal> {
//!         self.0.push(format!("at {time:?}"));
//!         Ok(())
//!     }
//! }
//!
//! let mut rows = Print::default();
//! let mut parser = Parser::new(Precision::Nanoseconds, Limits::default());
//! parser.parse(b"trades,symbol=A\\ B size=3i 17\n", &mut rows)?;
//! assert_eq!(rows.0, ["table trades", "symbol is A B", "size is I64(3)", "at Some(17)"]);
//!
//! let error = parser.parse(b"trades,symbol=A size=3x 17\n", &mut rows).unwrap_err();
//! assert_eq!(error.to_string(), "line 2, column 22: \"3x\" is not a number");
//! # Ok::<(), tapedb_ilp::Error>(())
//! ```

mod error;
mod framer;
mod parser;
mod precision;
mod text;
mod value;

pub use error::{Error, Refusal};
pub use framer::Framer;
pub use parser::{Limits, Parser, Rows};
pub use precision::Precision;
pub use text::Text;
pub use value::{Array, Decimal, Number, Value};
