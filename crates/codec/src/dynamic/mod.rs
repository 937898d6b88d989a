//! The interpreted codec: messages of a schema that is only available at run time.
//!
//! [`Layouts`] is a prepared schema: the offset of each field of each record type. It validates bodies, views
//! them in place ([`RecordRef`]), reads them into owned values ([`RecordValue`]), writes owned values back, and speaks
//! canonical JSON. It writes the same bytes as the derives.
//!
//! ```
//! use tapedb_codec::dynamic::{Layouts, Value};
//! use tapedb_schema::Schema;
//!
//! let schema: Schema = "message Tick { bid: decimal64, size: u32?, note: string }".parse()?;
//! let layouts = Layouts::new(schema)?;
//!
//! let tick = layouts.from_json(r#"{"$type": "Tick", "bid": "101.25", "note": "first"}"#)?;
//! let mut body = Vec::new();
//! layouts.encode(&tick, &mut body)?;
//!
//! let record = layouts.view(tick.type_id, &body)?;
//! assert_eq!(record.get("bid").unwrap().to_string(), "101.25");
//! assert!(record.get("size").unwrap().is_null());
//! assert_eq!(layouts.decode(tick.type_id, &body)?.fields[2], Value::Text("first".into()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod check;
mod defaults;
mod error;
mod from_json;
mod json;
mod layouts;
mod names;
mod op;
mod read;
mod reference;
mod tail;
mod test;
mod value;
mod write;

pub use error::EncodeError;
pub use from_json::BareTimes;
pub use json::JsonError;
pub use layouts::{FieldLayout, ItemLayout, Layouts, RecordLayout, TypeLayout};
pub use reference::{ArrayRef, AsciiRef, EnumRef, Items, RecordRef, ValueRef, Values};
pub use value::{RecordValue, Value};
