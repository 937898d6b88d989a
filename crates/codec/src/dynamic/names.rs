//! Names as they are in JSON: quoted once, when a schema is prepared.

use tapedb_schema::RecordType;

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
    /// Of each field, `,"price":`.
    pub fields: Vec<Name>,
}

impl Names {
    pub fn of(record: &RecordType) -> Self {
        let key = |name: &str| Name::new(&[b",", &quoted(name)[..], b":"].concat());
        Self {
            record: Name::new(&[b",\"$type\":", &quoted(&record.name)[..]].concat()),
            fields: record.fields.iter().map(|field| key(&field.name)).collect(),
        }
    }
}

/// A name in quotes.
fn quoted(name: &str) -> Vec<u8> {
    serde_json::to_vec(name).expect("a text is JSON")
}
