//! A Rust type that reads what was written under another version of its schema.

use super::Evolution;
use super::error::{EvolveError, IncompatibleSchema};
use crate::dynamic::Layouts;
use crate::layout::{self, Record};
use crate::schema_of::SchemaBuilder;
use std::marker::PhantomData;

/// Reads messages of a written schema as `T`.
///
/// Where the layouts are the same, this is [`decode`](crate::decode), [`decode_into`](crate::decode_into) and
/// [`view`](crate::view) and nothing else; otherwise a message is converted into a buffer first, which is used again.
///
/// ```
/// use tapedb_codec::{Record, dynamic::Layouts, evolve::Reader};
///
/// #[derive(Record, Default)]
/// #[record(message)]
/// struct Tick {
///     #[record(alias = "bid")]
///     price: f64,
///     #[record(default = "100")]
///     lot: u32,
/// }
///
/// let written = Layouts::new("message Tick { note: string, bid: f32 }".parse()?)?;
/// let mut old = Vec::new();
/// written.encode(&written.from_json(r#"{"note": "first", "bid": 1.5}"#)?, &mut old)?;
///
/// let mut reader = Reader::<Tick>::new(&written)?;
/// let tick = reader.decode(&old)?;
/// assert_eq!((tick.price, tick.lot), (1.5, 100));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Reader<T> {
    evolution: Evolution,
    type_id: u16,
    is_same: bool,
    scratch: Vec<u8>,
    record: PhantomData<fn() -> T>,
}

impl<T: Record> Reader<T> {
    /// Plans how a `T` is read from messages of the schema `written`.
    ///
    /// # Errors
    /// When `written` has no record type of the name of `T`, the schema of `T` is not valid (two types of one name, a
    /// default that does not fit), or there is a field without a rule.
    pub fn new(written: &Layouts) -> Result<Self, IncompatibleSchema> {
        let read = Layouts::new(SchemaBuilder::new().with::<T>().finish()).map_err(|error| {
            let advice = format!("the program's type is not a valid schema: {error}");
            missing::<T>("whatever it may be", advice)
        })?;
        let Some((type_id, _)) = written.schema().record(T::NAME) else {
            return Err(missing::<T>("nothing", "use the name that the written schema has".into()));
        };
        let evolution = Evolution::new(written, &read)?;
        let is_same = evolution.is_identity(type_id);
        Ok(Self { evolution, type_id, is_same, scratch: Vec::new(), record: PhantomData })
    }

    /// The record type in the written schema that this reads: bodies have to be of this type.
    pub fn type_id(&self) -> u16 {
        self.type_id
    }

    /// Whether messages are read as they are, without conversion.
    pub fn is_identity(&self) -> bool {
        self.is_same
    }

    /// The record in a body, as a new value.
    ///
    /// # Errors
    /// When the bytes are damaged, or hold something that `T` does not have. Where a message is converted, damage in
    /// what was copied shows only in the conversion's result, and offsets count there.
    #[inline]
    pub fn decode(&mut self, body: &[u8]) -> Result<T, EvolveError> {
        Ok(layout::decode(self.current(body)?)?)
    }

    /// Replaces `value` by the record in a body, reusing what `value` has allocated.
    ///
    /// # Errors
    /// As [`Reader::decode`]; `value` then holds a mixture, valid but meaningless.
    #[inline]
    pub fn decode_into(&mut self, body: &[u8], value: &mut T) -> Result<(), EvolveError> {
        Ok(layout::decode_into(self.current(body)?, value)?)
    }

    /// Validates a body and reads it in place, or in place of its conversion.
    ///
    /// # Errors
    /// As [`Reader::decode`].
    #[inline]
    pub fn view<'a>(&'a mut self, body: &'a [u8]) -> Result<T::View<'a>, EvolveError> {
        Ok(layout::view::<T>(self.current(body)?)?)
    }

    /// The body in the layout of `T`.
    #[inline]
    fn current<'a>(&'a mut self, body: &'a [u8]) -> Result<&'a [u8], EvolveError> {
        if self.is_same {
            return Ok(body);
        }
        self.scratch.clear();
        self.evolution.convert(self.type_id, body, &mut self.scratch)?;
        Ok(&self.scratch)
    }
}

#[cold]
fn missing<T: Record>(written: &str, advice: String) -> IncompatibleSchema {
    let kind = if T::MESSAGE { "message" } else { "record" };
    IncompatibleSchema {
        path: T::NAME.into(),
        written: written.into(),
        read: format!("{kind} {}", T::NAME),
        advice,
    }
}
