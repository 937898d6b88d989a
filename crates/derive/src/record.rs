//! `#[derive(Record)]`.

use crate::attributes::Attributes;
use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{
    Data, DeriveInput, Error, Fields, FieldsNamed, GenericArgument, LitStr, PathArguments, PathSegment,
    Result, Type,
};
use tapedb_schema::SchemaError;

pub fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let fields = named_fields(input)?;
    if !input.generics.params.is_empty() {
        return Err(Error::new_spanned(&input.generics, "a record type cannot be generic"));
    }
    let attributes = Attributes::parse(&input.attrs)?;
    let layout = layout(input, &attributes, fields)?;
    let view = view(input, fields)?;
    Ok(quote!(#layout #view))
}

fn named_fields(input: &DeriveInput) -> Result<&FieldsNamed> {
    match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) => Ok(fields),
            _ => Err(Error::new_spanned(&input.ident, "a record's fields need names: `struct A { x: f64 }`")),
        },
        _ => Err(Error::new_spanned(
            &input.ident,
            "`Record` is for structs; use `Union` for an enum of records and `Enumeration` for a plain enum",
        )),
    }
}

/// The plan of the fields, the `Layout` and the `Record`.
fn layout(input: &DeriveInput, attributes: &Attributes, fields: &FieldsNamed) -> Result<TokenStream> {
    let ident = &input.ident;
    let view = format_ident!("{ident}View");
    let name = attributes.name.clone().unwrap_or_else(|| ident.to_string());
    let (message, doc) = (attributes.message, &attributes.doc);
    let count = fields.named.len();
    let index: Vec<usize> = (0..count).collect();
    let member: Vec<_> = fields.named.iter().map(|field| &field.ident).collect();
    let ty: Vec<_> = fields.named.iter().map(|field| &field.ty).collect();
    let schema_fields = schema_fields(fields)?;
    let store = quote!(#(store(&self.#member, &mut fixed, bitmap, PLAN.null_bit[#index]);)*);
    let heap = quote!(#(let spare = put(&self.#member, spare, base, fixed, PLAN.offset[#index]);)*);
    let put_body = if count == 0 {
        quote!()
    } else {
        quote! {
            let (base, bitmap) = (spare.left(), 0);
            let mut fixed = spare.fixed::<{ PLAN.fixed }>();
            fixed.next(PLAN.bitmap());
            #store
            let (fixed, spare) = fixed.finish();
            #heap
        }
    };
    let put_tagged = if count == 0 {
        quote!(let ([first], spare) = spare.take::<1>(); *first = tag;)
    } else {
        quote! {
            let (base, bitmap) = (spare.left() - 1, 1);
            let mut fixed = spare.fixed::<{ PLAN.fixed + 1 }>();
            fixed.next(1)[0] = tag;
            fixed.next(PLAN.bitmap());
            #store
            let ([_, fixed @ ..], spare) = fixed.finish();
            #heap
        }
    };
    Ok(quote! {
        const _: () = {
            use ::tapedb_codec::derived::*;
            use ::tapedb_codec::{DecodeError, Field, Layout, Record, Spare, SchemaBuilder};

            const PLAN: Plan<#count> = Plan::new(
                [#(<<#ty as Field>::Type as Layout>::WIDTH),*],
                [#(<#ty as Field>::NULLABLE),*],
                [#(<<#ty as Field>::Type as Layout>::VARIABLE),*],
            );

            impl Layout for #ident {
                const WIDTH: usize = END_WIDTH;
                const VARIABLE: bool = true;
                type Slot = [u8; 0];
                const NULL_ITEM: usize = EMPTY_RECORD_ITEM;
                const ITEM_MIN: usize = if PLAN.fixed == 0 { EMPTY_RECORD_ITEM } else { PLAN.fixed };
                const ITEM_MAX: usize = if PLAN.has_heap() { usize::MAX } else { Self::ITEM_MIN };
                type View<'a> = #view<'a>;

                fn field_type(schema: &mut SchemaBuilder) -> FieldType {
                    <Self as Record>::register(schema);
                    FieldType::Record(::std::vec![<Self as Record>::NAME.into()])
                }
                #[inline(always)]
                fn slot(&self) -> [u8; 0] {
                    []
                }
                #[inline]
                fn bound(&self) -> usize {
                    PLAN.fixed #(+ content_bound(&self.#member))*
                }
                #[inline]
                fn put<'a>(&self, spare: Spare<'a>) -> Spare<'a> {
                    #put_body
                    spare
                }
                #[inline]
                fn item_bound(&self) -> usize {
                    ::std::cmp::max(EMPTY_RECORD_ITEM, self.bound())
                }
                #[inline]
                fn read(&mut self, bytes: &[u8], at: usize, depth: u32) -> ::std::result::Result<(), DecodeError> {
                    #[allow(unused_mut)]
                    let mut body = Body::<{ PLAN.fixed }>::new(bytes, at, depth)?;
                    #(body.read(&mut self.#member, PLAN.offset[#index], PLAN.null_bit[#index])?;)*
                    body.finish()
                }
                #[inline]
                fn check(bytes: &[u8], at: usize, depth: u32) -> ::std::result::Result<(), DecodeError> {
                    #[allow(unused_mut)]
                    let mut body = Body::<{ PLAN.fixed }>::new(bytes, at, depth)?;
                    body.check_bitmap(PLAN.nullable)?;
                    #(body.check::<#ty>(PLAN.offset[#index], PLAN.null_bit[#index])?;)*
                    body.finish()
                }
                #[inline]
                fn view(bytes: &[u8]) -> #view<'_> {
                    const EMPTY: &[u8; PLAN.fixed] = &[0; PLAN.fixed];
                    #view { fixed: bytes.first_chunk().unwrap_or(EMPTY), bytes }
                }
                #[inline]
                fn put_item<'a>(&self, spare: Spare<'a>) -> Spare<'a> {
                    if PLAN.fixed == 0 { spare.take::<EMPTY_RECORD_ITEM>().1 } else { self.put(spare) }
                }
                #[inline]
                fn item_extent(rest: &[u8], at: usize) -> ::std::result::Result<(usize, usize), DecodeError> {
                    if PLAN.fixed == 0 {
                        if rest.is_empty() { Err(short(EMPTY_RECORD_ITEM, 0, at)) } else { Ok((EMPTY_RECORD_ITEM, 0)) }
                    } else {
                        Ok((0, <Self as Record>::body_len(rest, at)?))
                    }
                }
            }

            impl Record for #ident {
                const NAME: &'static str = #name;
                const MESSAGE: bool = #message;
                const FIXED: usize = PLAN.fixed;
                const OFFSETS: &'static [usize] = &PLAN.offset;

                fn register(schema: &mut SchemaBuilder) -> u16 {
                    schema.record(Self::NAME, Self::MESSAGE, &doc(&[#(#doc),*]), |_schema| ::std::vec![#schema_fields])
                }
                #[inline]
                fn put_tagged<'a>(&self, tag: u8, spare: Spare<'a>) -> Spare<'a> {
                    #put_tagged
                    spare
                }
                #[inline(always)]
                fn body_len(rest: &[u8], at: usize) -> ::std::result::Result<usize, DecodeError> {
                    body_len::<Self>(rest, at, PLAN.last)
                }
            }

            impl<'a> #view<'a> {
                /// The body in its bytes.
                #[inline]
                pub fn as_bytes(&self) -> &'a [u8] {
                    self.bytes
                }

                #[allow(dead_code)]
                #[inline(always)]
                fn __get<F: Field>(&self, field: usize) -> F::View<'a> {
                    view::<F>(self.fixed, self.bytes, PLAN.offset[field], PLAN.null_bit[field], (PLAN.before[field], PLAN.last))
                }
            }
        };
    })
}

fn schema_fields(fields: &FieldsNamed) -> Result<TokenStream> {
    let mut list = TokenStream::new();
    for field in &fields.named {
        let attributes = Attributes::parse(&field.attrs)?;
        let member = field.ident.as_ref().map(|ident| ident.to_string()).unwrap_or_default();
        let name = attributes.name.unwrap_or_else(|| member.trim_start_matches("r#").to_string());
        let (ty, doc, aliases) = (&field.ty, &attributes.doc, &attributes.aliases);
        let default = match &attributes.default {
            Some(text) => {
                fits(text, ty)?;
                quote!(::std::option::Option::Some(#text))
            }
            None => quote!(::std::option::Option::None),
        };
        list.extend(quote! {
            schema_field::<#ty>(_schema, #name, doc(&[#(#doc),*]), &[#(#aliases),*], #default),
        });
    }
    Ok(list)
}

/// Refuses a default that a field of this type cannot have, where the type's name identifies it; for the others,
/// such as enums, the schema's validation does.
fn fits(default: &LitStr, ty: &Type) -> Result<()> {
    let Some(schema_type) = schema_type(ty) else { return Ok(()) };
    let schema = format!("record A {{ a: {schema_type} = {} }}", default.value());
    match schema.parse::<tapedb_schema::Schema>() {
        Ok(_) => Ok(()),
        Err(SchemaError::Default { why, .. }) => {
            Err(Error::new_spanned(default, format!("the default does not fit: {why}")))
        }
        Err(error) => Err(Error::new_spanned(default, format!("not a default: {error}"))),
    }
}

/// The schema's type for the built-in types, with its `?`.
fn schema_type(ty: &Type) -> Option<String> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last()?;
    let name = last.ident.to_string();
    let plain = match name.as_str() {
        "bool" | "i8" | "i16" | "i32" | "i64" | "u8" | "u16" | "u32" | "u64" | "f32" | "f64" | "char" => name,
        "String" => "string".into(),
        "Decimal64" => "decimal64".into(),
        "Timestamp" => "timestamp".into(),
        "TimeOfDay" => "time_of_day".into(),
        "Option" => return argument(last).and_then(schema_type).map(|inner| format!("{inner}?")),
        _ => return None,
    };
    Some(plain)
}

/// The `T` of `Option<T>`.
fn argument(segment: &PathSegment) -> Option<&Type> {
    let PathArguments::AngleBracketed(arguments) = &segment.arguments else { return None };
    match arguments.args.first()? {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    }
}

/// The type that reads the record in place.
fn view(input: &DeriveInput, fields: &FieldsNamed) -> Result<TokenStream> {
    let (ident, visibility) = (&input.ident, &input.vis);
    let view = format_ident!("{ident}View");
    let view_doc = format!("A [`{ident}`] read in place: fields are decoded on access.");
    let mut getters = TokenStream::new();
    for (index, field) in fields.named.iter().enumerate() {
        let (member, ty, vis) = (&field.ident, &field.ty, &field.vis);
        let doc = Attributes::parse(&field.attrs)?
            .doc_or(format!(" Field `{}`.", member.as_ref().map(ToString::to_string).unwrap_or_default()));
        getters.extend(quote! {
            #doc
            #[inline]
            #vis fn #member(&self) -> <#ty as ::tapedb_codec::Field>::View<'a> {
                self.__get::<#ty>(#index)
            }
        });
    }
    Ok(quote! {
        #[doc = #view_doc]
        #[derive(Debug, Clone, Copy)]
        #visibility struct #view<'a> {
        fixed: &'a [u8; <#ident as ::tapedb_codec::Record>::FIXED],
        bytes: &'a [u8],
        }
        #[allow(dead_code)]
        impl<'a> #view<'a> {
        #getters
        }
    })
}
