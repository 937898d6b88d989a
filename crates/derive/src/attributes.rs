//! `#[record(…)]` and doc comments.

use syn::{Attribute, Expr, ExprLit, Lit, LitStr, Meta, Result};

/// What `#[record(…)]` and the doc comments of one item say.
#[derive(Default)]
pub struct Attributes {
    pub message: bool,
    pub name: Option<String>,
    pub aliases: Vec<String>,
    pub doc: Vec<String>,
}

impl Attributes {
    pub fn parse(attributes: &[Attribute]) -> Result<Self> {
        let mut parsed = Self::default();
        for attribute in attributes {
            if attribute.path().is_ident("doc") {
                parsed.doc.extend(doc_line(&attribute.meta));
            } else if attribute.path().is_ident("record") {
                attribute.parse_nested_meta(|meta| {
                    if meta.path.is_ident("message") {
                        parsed.message = true;
                    } else if meta.path.is_ident("name") {
                        parsed.name = Some(meta.value()?.parse::<LitStr>()?.value());
                    } else if meta.path.is_ident("alias") {
                        parsed.aliases.push(meta.value()?.parse::<LitStr>()?.value());
                    } else {
                        return Err(meta.error("expected `message`, `name = \"…\"` or `alias = \"…\"`"));
                    }
                    Ok(())
                })?;
            }
        }
        Ok(parsed)
    }

    /// The doc comment as attributes for generated items, or `fallback` where there is none.
    pub fn doc_or(&self, fallback: String) -> proc_macro2::TokenStream {
        let lines = if self.doc.is_empty() { vec![fallback] } else { self.doc.clone() };
        quote::quote!(#(#[doc = #lines])*)
    }
}

fn doc_line(meta: &Meta) -> Option<String> {
    match meta {
        Meta::NameValue(pair) => match &pair.value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    }
}
