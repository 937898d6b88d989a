//! `#[derive(Union)]`.

use crate::attributes::Attributes;
use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Data, DeriveInput, Error, Fields, Ident, Result, Type};

/// Most alternatives: the tag is one byte.
const MAX_ALTERNATIVES: usize = 255;

pub fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let variants = variants(input)?;
    let (ident, visibility) = (&input.ident, &input.vis);
    let view = format_ident!("{ident}View");
    let view_doc = format!("A [`{ident}`] read in place.");
    let count = variants.len();
    let variant: Vec<&Ident> = variants.iter().map(|variant| variant.0).collect();
    let ty: Vec<&Type> = variants.iter().map(|variant| variant.1).collect();
    let doc: Vec<&TokenStream> = variants.iter().map(|variant| &variant.2).collect();
    let tag: Vec<u8> = (0..count as u8).collect();
    // One alternative needs no tag: `record<A>` and a union of A alone are the same bytes.
    let tag_width = usize::from(count > 1);
    let tag_of =
        if count > 1 { quote!(bytes.first().copied()) } else { quote!(::std::option::Option::Some(0u8)) };
    let put = |tag: &u8| match count {
        1 => quote!(record.put(spare)),
        _ => quote!(record.put_tagged(#tag, spare)),
    };
    let put: Vec<TokenStream> = tag.iter().map(put).collect();
    Ok(quote! {
        #[doc = #view_doc]
        #[derive(Debug, Clone, Copy)]
        #visibility enum #view<'a> {
            #(#doc #variant(<#ty as ::tapedb_codec::Layout>::View<'a>),)*
        }

        #(impl ::std::convert::From<#ty> for #ident {
            fn from(record: #ty) -> Self {
                Self::#variant(record)
            }
        })*

        const _: () = {
            use ::tapedb_codec::derived::*;
            use ::tapedb_codec::{DecodeError, Layout, Record, Spare, SchemaBuilder};

            impl Layout for #ident {
                const WIDTH: usize = END_WIDTH;
                const VARIABLE: bool = true;
                type Slot = [u8; 0];
                const NULL_ITEM: usize = EMPTY_RECORD_ITEM;
                const ITEM_MIN: usize = EMPTY_RECORD_ITEM;
                const ITEM_MAX: usize = item_max(#tag_width, &[#(<#ty as Layout>::ITEM_MAX),*]);
                type View<'a> = #view<'a>;

                fn field_type(schema: &mut SchemaBuilder) -> FieldType {
                    #(<#ty as Record>::register(schema);)*
                    FieldType::Record(::std::vec![#(<#ty as Record>::NAME.into()),*])
                }
                #[inline(always)]
                fn slot(&self) -> [u8; 0] {
                    []
                }
                #[inline]
                fn bound(&self) -> usize {
                    match self {
                        #(Self::#variant(record) => #tag_width + record.bound(),)*
                    }
                }
                #[inline]
                fn put<'a>(&self, spare: Spare<'a>) -> Spare<'a> {
                    match self {
                        #(Self::#variant(record) => #put,)*
                    }
                }
                #[inline]
                fn read(&mut self, bytes: &[u8], at: usize, depth: u32) -> ::std::result::Result<(), DecodeError> {
                    match #tag_of {
                        #(::std::option::Option::Some(#tag) => {
                            if !::std::matches!(self, Self::#variant(_)) {
                                *self = Self::#variant(::std::default::Default::default());
                            }
                            let Self::#variant(record) = self else { ::std::unreachable!() };
                            record.read(&bytes[#tag_width..], at + #tag_width, depth)
                        })*
                        _ => Err(bad_tag(bytes, #count, at)),
                    }
                }
                #[inline]
                fn check(bytes: &[u8], at: usize, depth: u32) -> ::std::result::Result<(), DecodeError> {
                    match #tag_of {
                        #(::std::option::Option::Some(#tag) =>
                            <#ty as Layout>::check(&bytes[#tag_width..], at + #tag_width, depth),)*
                        _ => Err(bad_tag(bytes, #count, at)),
                    }
                }
                #[inline]
                fn view(bytes: &[u8]) -> #view<'_> {
                    let body = bytes.get(#tag_width..).unwrap_or_default();
                    match #tag_of {
                        #(::std::option::Option::Some(#tag) => #view::#variant(<#ty as Layout>::view(body)),)*
                        _ => ::std::panic!("a view of bytes that were not validated: record tag out of range"),
                    }
                }
                #[inline]
                fn item_bound(&self) -> usize {
                    ::std::cmp::max(EMPTY_RECORD_ITEM, self.bound())
                }
                #[inline]
                fn put_item<'a>(&self, spare: Spare<'a>) -> Spare<'a> {
                    match self {
                        #(Self::#variant(record) => {
                            if #tag_width == 0 { record.put_item(spare) } else { #put }
                        })*
                    }
                }
                #[inline]
                fn item_extent(rest: &[u8], at: usize) -> ::std::result::Result<(usize, usize), DecodeError> {
                    let bytes = rest;
                    match #tag_of {
                        #(::std::option::Option::Some(#tag) => {
                            if #tag_width == 0 {
                                return <#ty as Layout>::item_extent(rest, at);
                            }
                            Ok((0, 1 + <#ty as Record>::body_len(&rest[1..], at + 1)?))
                        })*
                        _ => Err(bad_tag(bytes, #count, at)),
                    }
                }
                #[inline]
                fn read_item(&mut self, rest: &[u8], at: usize, depth: u32) -> ::std::result::Result<usize, DecodeError> {
                    if #tag_width == 0 {
                        let (skip, length) = Self::item_extent(rest, at)?;
                        self.read(&rest[skip..skip + length], at + skip, depth)?;
                        return Ok(skip + length);
                    }
                    let bytes = rest;
                    match #tag_of {
                        #(::std::option::Option::Some(#tag) => {
                            let length = <#ty as Record>::body_len(&rest[1..], at + 1)?;
                            if !::std::matches!(self, Self::#variant(_)) {
                                *self = Self::#variant(::std::default::Default::default());
                            }
                            let Self::#variant(record) = self else { ::std::unreachable!() };
                            record.read(&rest[1..1 + length], at + 1, depth)?;
                            Ok(1 + length)
                        })*
                        _ => Err(bad_tag(bytes, #count, at)),
                    }
                }
                #[inline]
                fn check_item(rest: &[u8], at: usize, depth: u32) -> ::std::result::Result<usize, DecodeError> {
                    let bytes = rest;
                    match #tag_of {
                        #(::std::option::Option::Some(#tag) => {
                            if #tag_width == 0 {
                                return <#ty as Layout>::check_item(rest, at, depth);
                            }
                            let length = <#ty as Record>::body_len(&rest[1..], at + 1)?;
                            <#ty as Layout>::check(&rest[1..1 + length], at + 1, depth)?;
                            Ok(1 + length)
                        })*
                        _ => Err(bad_tag(bytes, #count, at)),
                    }
                }
                #[inline]
                fn view_item(rest: &[u8]) -> ::std::option::Option<(#view<'_>, usize)> {
                    let bytes = rest;
                    match #tag_of {
                        #(::std::option::Option::Some(#tag) => {
                            if #tag_width == 0 {
                                let (record, length) = <#ty as Layout>::view_item(rest)?;
                                return ::std::option::Option::Some((#view::#variant(record), length));
                            }
                            let body = &rest[1..];
                            let length = <#ty as Record>::body_len(body, 0).ok()?;
                            let record = <#ty as Layout>::view(&body[..length]);
                            ::std::option::Option::Some((#view::#variant(record), 1 + length))
                        })*
                        _ => ::std::option::Option::None,
                    }
                }
            }
        };
    })
}

/// Variants with the record type that each holds and their docs.
fn variants(input: &DeriveInput) -> Result<Vec<(&Ident, &Type, TokenStream)>> {
    let Data::Enum(data) = &input.data else {
        return Err(Error::new_spanned(
            &input.ident,
            "`Union` is for an enum of records; use `Record` for a struct",
        ));
    };
    if data.variants.is_empty() || data.variants.len() > MAX_ALTERNATIVES {
        return Err(Error::new_spanned(
            &input.ident,
            format!("a union has 1 to {MAX_ALTERNATIVES} alternatives"),
        ));
    }
    data.variants
        .iter()
        .map(|variant| match &variant.fields {
            Fields::Unnamed(fields) if fields.unnamed.len() == 1 => {
                let doc = Attributes::parse(&variant.attrs)?.doc_or(format!(" A `{}`.", variant.ident));
                Ok((&variant.ident, &fields.unnamed[0].ty, doc))
            }
            _ => Err(Error::new_spanned(variant, "an alternative holds one record: `Trade(Trade)`")),
        })
        .collect()
}
