//! `#[record(…)]` and doc comments.

use syn::{Attribute, Error, Expr, ExprLit, Lit, LitStr, Meta, Result};

const EXPECTED: &str = "expected `message`, `name = \"…\"`, `alias = \"…\"` or `default = \"…\"`";

/// The content of `#[record(…)]` and of the doc comments of one item.
#[derive(Default)]
pub struct Attributes {
    pub message: bool,
    pub name: Option<String>,
    pub aliases: Vec<String>,
    /// A literal of the schema text; it has been read once.
    pub default: Option<LitStr>,
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
                    } else if meta.path.is_ident("default") {
                        parsed.default = Some(literal(meta.value()?.parse()?)?);
                    } else {
                        return Err(meta.error(EXPECTED));
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

/// Refuses what is no literal of the schema text.
fn literal(text: LitStr) -> Result<LitStr> {
    match text.value().parse::<tapedb_schema::Literal>() {
        Ok(_) => Ok(text),
        Err(error) => Err(Error::new_spanned(
            &text,
            format!("not a default: {error}; texts have quotes of their own: `default = \"\\\"N/A\\\"\"`"),
        )),
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
