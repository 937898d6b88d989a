//! `#[derive(Enumeration)]`.

use crate::attributes::Attributes;
use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Error, Fields, Result};

pub fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let Data::Enum(data) = &input.data else {
        return Err(Error::new_spanned(&input.ident, "`Enumeration` is for enums"));
    };
    let ident = &input.ident;
    let attributes = Attributes::parse(&input.attrs)?;
    let name = attributes.name.clone().unwrap_or_else(|| ident.to_string());
    let doc = &attributes.doc;
    let count = data.variants.len();
    if !(1..=65_536).contains(&count) {
        return Err(Error::new_spanned(ident, "an enum has 1 to 65,536 symbols"));
    }
    let (mut variants, mut symbols) = (Vec::new(), Vec::new());
    for variant in &data.variants {
        if !matches!(variant.fields, Fields::Unit) {
            return Err(Error::new_spanned(
                variant,
                "an enum's symbols hold no data; use `Union` for records",
            ));
        }
        let symbol = Attributes::parse(&variant.attrs)?.name;
        symbols.push(symbol.unwrap_or_else(|| upper_snake(&variant.ident.to_string())));
        variants.push(&variant.ident);
    }
    let ordinal: Vec<u16> = (0..count).map(|i| i as u16).collect();
    let width: usize = if count <= 256 { 1 } else { 2 };
    let load = if width == 1 {
        quote!(u16::from(bytes[0]))
    } else {
        quote!(u16::from_le_bytes([bytes[0], bytes[1]]))
    };
    let slot =
        if width == 1 { quote!([ordinal_of(*self) as u8]) } else { quote!(ordinal_of(*self).to_le_bytes()) };
    Ok(quote! {
        const _: () = {
            use ::tapedb_codec::derived::*;
            use ::tapedb_codec::{DecodeError, Layout, SchemaBuilder};

            #[inline(always)]
            fn ordinal_of(value: #ident) -> u16 {
                match value {
                    #(#ident::#variants => #ordinal,)*
                }
            }

            #[inline(always)]
            fn value_of(bytes: &[u8], at: usize) -> ::std::result::Result<#ident, DecodeError> {
                if bytes.len() < #width {
                    return Err(short(#width, bytes.len(), at));
                }
                match #load {
                    #(#ordinal => Ok(#ident::#variants),)*
                    ordinal => Err(bad_enum(ordinal, #count, at)),
                }
            }

            impl Layout for #ident {
                const WIDTH: usize = #width;
                type Slot = [u8; #width];
                type View<'a> = Self;

                fn field_type(schema: &mut SchemaBuilder) -> FieldType {
                    schema.enumeration(#name, &doc(&[#(#doc),*]), &[#((#symbols, #ident::#variants as i64)),*]);
                    FieldType::Enum(#name.into())
                }
                #[inline(always)]
                fn slot(&self) -> [u8; #width] {
                    #slot
                }
                #[inline(always)]
                fn read(&mut self, bytes: &[u8], at: usize, _: u32) -> ::std::result::Result<(), DecodeError> {
                    *self = value_of(bytes, at)?;
                    Ok(())
                }
                #[inline(always)]
                fn check(bytes: &[u8], at: usize, _: u32) -> ::std::result::Result<(), DecodeError> {
                    value_of(bytes, at).map(|_| ())
                }
                #[inline(always)]
                fn view(bytes: &[u8]) -> Self {
                    value_of(bytes, 0).unwrap_or_default()
                }
            }
        };
    })
}

/// `PeriodicSnapshot` to `PERIODIC_SNAPSHOT`.
fn upper_snake(name: &str) -> String {
    let mut snake = String::new();
    for (i, letter) in name.chars().enumerate() {
        if i > 0 && letter.is_uppercase() && !snake.ends_with('_') {
            snake.push('_');
        }
        snake.extend(letter.to_uppercase());
    }
    snake
}
