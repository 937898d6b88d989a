//! The derives of `tapedb-codec`: `Record` for structs, `Union` for polymorphic records, `Enumeration` for enums.
//!
//! They are re-exported, and shown in use, by `tapedb-codec`; programs do not depend on this crate.

mod attributes;
mod enumeration;
mod record;
mod union;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Makes a struct with named fields a record type.
///
/// Fields may be of any type that implements `Layout`, or an `Option` of one, which makes the field nullable. The
/// struct needs `Default`. Doc comments go into the schema. A struct `Trade` gets a `TradeView` that reads in place.
///
/// `#[record(message)]` on the struct: it can stand alone as a message. `#[record(name = "…")]` on the struct or a
/// field: its name in the schema. `#[record(alias = "…")]` on a field: a former name. `#[record(default = "…")]` on a
/// field: its default in the schema, a literal as in a schema text (`"100"`, `"1.50"`, `"\"N/A\""`, `"BID"`); it is
/// what messages without the field have, not what `Default` gives.
#[proc_macro_derive(Record, attributes(record))]
pub fn derive_record(input: TokenStream) -> TokenStream {
    expand(record::expand(&parse_macro_input!(input as DeriveInput)))
}

/// Makes an enum whose variants each hold one record a polymorphic record field, `record<A|B|…>`.
///
/// The order of the variants is part of the layout: add new ones at the end. The enum needs `Default`. An enum
/// `Entry` gets an `EntryView` that reads in place.
#[proc_macro_derive(Union, attributes(record))]
pub fn derive_union(input: TokenStream) -> TokenStream {
    expand(union::expand(&parse_macro_input!(input as DeriveInput)))
}

/// Makes an enum without data an enum of the schema; symbols are the variants' names in `UPPER_SNAKE_CASE`.
///
/// Rows hold the ordinal, so add new variants at the end. The enum needs `Copy` and `Default`.
/// `#[record(name = "…")]` on the enum or a variant: its name in the schema.
#[proc_macro_derive(Enumeration, attributes(record))]
pub fn derive_enumeration(input: TokenStream) -> TokenStream {
    expand(enumeration::expand(&parse_macro_input!(input as DeriveInput)))
}

fn expand(result: syn::Result<proc_macro2::TokenStream>) -> TokenStream {
    result.unwrap_or_else(|error| error.to_compile_error()).into()
}
