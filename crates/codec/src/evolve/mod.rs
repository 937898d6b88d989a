//! Versions of a schema: bodies written under one schema become bodies of another.
//!
//! [`Evolution`] compares two schemas once, by names, and makes a plan of offsets: which bytes to copy, which values to
//! convert, which defaults to put in. Converting a message then looks up no name. What may differ between the schemas,
//! and what becomes of it, is the table in `docs/format/schema.md`, section "Versions". [`Reader`] puts an evolution in
//! front of a Rust type.
//!
//! ```
//! use tapedb_codec::dynamic::Layouts;
//! use tapedb_codec::evolve::Evolution;
//!
//! let written = Layouts::new("message Tick { bid: i32, note: string }".parse()?)?;
//! let read = Layouts::new("message Tick { price: decimal64 [alias bid], size: u32? }".parse()?)?;
//! let evolution = Evolution::new(&written, &read)?;
//!
//! let mut old = Vec::new();
//! written.encode(&written.from_json(r#"{"$type": "Tick", "bid": 101, "note": "first"}"#)?, &mut old)?;
//! let mut new = Vec::new();
//! let type_id = evolution.convert(0, &old, &mut new)?;
//! assert_eq!(read.view(type_id, &new)?.get("price").unwrap().to_string(), "101");
//! assert!(read.view(type_id, &new)?.get("size").unwrap().is_null());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod changes;
mod convert;
mod error;
mod lower;
mod plan;
mod reader;
#[cfg(test)]
mod tests;

pub use changes::{Change, ChangeKind, Loss, Unknown};
pub use error::{EvolveError, IncompatibleSchema};
pub use reader::Reader;

use crate::batch::MAX_MESSAGE_BYTES;
use crate::dynamic::Layouts;
use crate::error::{DecodeError, DecodeErrorKind as Kind};
use plan::RecordPlan;
use tapedb_schema::Schema;

/// Longest body that conversion makes, in bytes. A body grows by at most the fixed part and the defaults of each record
/// in it, and this bounds the sum: sixteen times the longest message that is stored.
pub const EVOLVED_BYTES_MAX: usize = 16 * MAX_MESSAGE_BYTES;

/// How bodies of one schema become bodies of another.
#[derive(Debug, Clone)]
pub struct Evolution {
    /// By written type id; `None` where the reading schema has no such record type.
    plans: Vec<Option<RecordPlan>>,
    written: Layouts,
    /// For the words of errors.
    read: Schema,
}

impl Evolution {
    /// Plans how what was written under the schema `written` is read under the schema `read`.
    ///
    /// Record types that `read` does not have are no error: [`Evolution::target`] returns which. Whether a type is a
    /// `message` or a `record` does not matter.
    ///
    /// # Errors
    /// The first field for which there is no rule.
    pub fn new(written: &Layouts, read: &Layouts) -> Result<Self, IncompatibleSchema> {
        let plans = plan::plans(written, read)?;
        Ok(Self { plans, written: written.clone(), read: read.schema().clone() })
    }

    /// The schema that messages were written under.
    pub fn written(&self) -> &Layouts {
        &self.written
    }

    /// What differs between what was written under `written` and what is read under `read`: by type and field, with what cannot
    /// be read any more. Order, documentation and names of enums make no difference.
    ///
    /// # Errors
    /// As [`Evolution::new`].
    pub fn changes(written: &Layouts, read: &Layouts) -> Result<Vec<Change>, IncompatibleSchema> {
        changes::changes(written, read)
    }

    /// The type id in the reading schema that messages of the written type `type_id` get; `None` where the reading
    /// schema has no such type, and for ids that the written schema does not have.
    #[inline]
    pub fn target(&self, type_id: u16) -> Option<u16> {
        self.plans.get(usize::from(type_id))?.as_ref().map(|plan| plan.target)
    }

    /// Whether bodies of the written type `type_id` are bodies of the reading type as they are, so that converting them
    /// would be copying.
    #[inline]
    pub fn is_identity(&self, type_id: u16) -> bool {
        matches!(self.plans.get(usize::from(type_id)), Some(Some(plan)) if plan.is_same)
    }

    /// Appends to `out` what the message `body` of the written type `type_id` is in the reading schema, and returns its
    /// type id there.
    ///
    /// A valid body gives a valid one: exactly what encoding the converted value gives. Of other bytes it is checked
    /// what conversion reads; dropped or copied bytes are not, so validate the result where validity matters.
    ///
    /// # Errors
    /// When the reading schema has no such type, a value has no counterpart in it (see [`EvolveError`]), the body is
    /// damaged, or the result would be longer than [`EVOLVED_BYTES_MAX`]. `out` is then as before.
    #[inline]
    pub fn convert(&self, type_id: u16, body: &[u8], out: &mut Vec<u8>) -> Result<u16, EvolveError> {
        match self.plans.get(usize::from(type_id)) {
            Some(Some(plan)) if plan.is_same => {
                out.extend_from_slice(body);
                Ok(plan.target)
            }
            Some(Some(plan)) => {
                self.convert_message(plan, body, out)?;
                Ok(plan.target)
            }
            _ => Err(self.no_target(type_id)),
        }
    }

    #[cold]
    fn no_target(&self, type_id: u16) -> EvolveError {
        match self.written.records().get(usize::from(type_id)) {
            Some(record) => EvolveError::NoTarget { record: record.name.clone() },
            None => {
                let have = self.written.records().len() as u64;
                DecodeError::new(Kind::UnknownType, 0, type_id.into(), have).into()
            }
        }
    }
}
