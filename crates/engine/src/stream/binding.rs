//! Rust types bound to the record types of a stream.

use crate::error::{Error, Invalid};
use std::collections::HashSet;
use tapedb_codec::dynamic::{Layouts, TypeLayout};
use tapedb_codec::{MAX_DEPTH, Record, SchemaBuilder};

/// How a Rust type maps to a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Binding {
    pub type_id: u16,
    /// Whether a value may be nested deeper than readers allow: the record type contains itself, or nearly as deep.
    pub may_be_too_deep: bool,
}

impl Binding {
    /// `None` when the schema has no record type of the name and the fields of `T`.
    pub fn of<T: Record>(layouts: &Layouts) -> Option<Self> {
        let (type_id, _) = layouts.schema().record(T::NAME)?;
        let compiled = Layouts::new(SchemaBuilder::new().with::<T>().finish()).ok()?;
        let (compiled_id, _) = compiled.schema().record(T::NAME)?;
        let is_same = layouts.same_layout(type_id, &compiled, compiled_id);
        is_same.then(|| Self { type_id, may_be_too_deep: may_be_too_deep(layouts, type_id) })
    }
}

/// The error for a Rust type that the stream does not have.
#[cold]
pub(crate) fn unbound<T: Record>(stream: &str, layouts: &Layouts) -> Error {
    let why = match layouts.schema().record(T::NAME) {
        None => "the stream has no such record type; `desc` lists the existing ones",
        Some(_) => "the stream's record type of that name has other fields than the program's",
    };
    Error::Invalid(Invalid::Type { stream: stream.into(), record: T::NAME.into(), why })
}

/// Whether records and arrays can be nested about [`MAX_DEPTH`] deep. Follows all types at once, a level at a time, so that
/// it ends for a type that contains itself.
fn may_be_too_deep(layouts: &Layouts, type_id: u16) -> bool {
    let mut level = fields_of(layouts, &HashSet::from([type_id]));
    for _ in 1..MAX_DEPTH {
        let (mut records, mut below) = (HashSet::new(), Vec::new());
        for ty in level {
            match ty {
                TypeLayout::Array(item) => below.push(&item.ty),
                TypeLayout::Record(alternatives) => records.extend(alternatives),
                _ => {}
            }
        }
        below.extend(fields_of(layouts, &records));
        level = below;
    }
    !level.is_empty()
}

fn fields_of<'a>(layouts: &'a Layouts, records: &HashSet<u16>) -> Vec<&'a TypeLayout> {
    let records = records.iter().filter_map(|&id| layouts.record(id).ok());
    records.flat_map(|record| record.fields.iter().map(|field| &field.ty)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_deep(schema: &str) -> bool {
        may_be_too_deep(&Layouts::new(schema.parse().unwrap()).unwrap(), 0)
    }

    /// `message R0 { x: record<R1> } record R1 { x: record<R2> } …`
    fn chain(length: u32) -> String {
        let link =
            |i| format!("{} R{i} {{ x: record<R{}> }}\n", if i == 0 { "message" } else { "record" }, i + 1);
        (0..length).map(link).collect::<String>() + &format!("record R{length} {{ x: i64 }}\n")
    }

    #[test]
    fn only_types_that_may_be_too_deep_are_found() {
        assert!(!is_deep(
            "message A { x: array<i64>, y: array<record<B>>, z: record<B>?, w: record<B> } record B { x: array<string> }"
        ));
        assert!(is_deep("message A { x: array<record<A>> }"));
        assert!(is_deep(
            "message A { x: i64, y: array<record<B>> } record B { z: record<C> } record C { b: array<record<B>?> }"
        ));
        assert!(!is_deep(&chain(20)) && is_deep(&chain(40)));
    }
}
