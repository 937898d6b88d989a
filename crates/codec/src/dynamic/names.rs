//! Names as they are in JSON: quoted once, when a schema is prepared.

/// A text that is copied often. Most are short: then a copy of constant length is enough.
#[derive(Debug, Clone)]
pub(super) struct Name {
    /// The text and zeros, if it is short.
    pub short: [u8; Name::SHORT],
    pub length: usize,
    /// The text, if it is long.
    pub long: Box<[u8]>,
}

impl Name {
    /// Most bytes of a short one.
    pub const SHORT: usize = 32;

    /// This name in quotes.
    pub fn of(name: &str) -> Self {
        Self::new(&quoted(name))
    }

    fn new(text: &[u8]) -> Self {
        let mut short = [0; Self::SHORT];
        let is_short = text.len() <= Self::SHORT;
        if let Some(front) = short.get_mut(..text.len()) {
            front.copy_from_slice(text);
        }
        let long = if is_short { Box::default() } else { text.into() };
        Self { short, length: text.len(), long }
    }
}

/// The names of a record type.
#[derive(Debug, Clone)]
pub(super) struct Names {
    /// `,"$type":"Trade"`.
    pub record: Name,
    /// Of each field.
    pub fields: Vec<FieldName>,
}

/// What JSON needs of a field.
#[derive(Debug, Clone)]
pub(super) struct FieldName {
    /// `,"price":`.
    pub key: Name,
    /// Whether the field's default is something else than null, so that a null is written.
    pub has_default: bool,
    /// Whether records in it carry their type: there are several alternatives.
    pub typed: bool,
}

impl Names {
    /// Of a record type with these fields.
    pub fn of(record: &str, fields: impl IntoIterator<Item = FieldName>) -> Self {
        Self {
            record: Name::new(&[b",\"$type\":", &quoted(record)[..]].concat()),
            fields: fields.into_iter().collect(),
        }
    }
}

impl FieldName {
    /// Of a field with that name.
    pub fn of(name: &str, has_default: bool, typed: bool) -> Self {
        Self { key: Name::new(&[b",", &quoted(name)[..], b":"].concat()), has_default, typed }
    }
}

/// A name in quotes.
fn quoted(name: &str) -> Vec<u8> {
    serde_json::to_vec(name).expect("a text is JSON")
}
