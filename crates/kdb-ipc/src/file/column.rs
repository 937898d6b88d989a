//! A column of a splayed table: elements of one type, or indices into the symbols of a `sym` file.

use super::refuse;
use crate::decode::{Limits, decode};
use crate::elements::Elements;
use crate::encode::{ByteOrder, encode};
use crate::error::KdbError;
use crate::kind::{Attribute, Type};
use crate::symbols::{Symbol, Symbols};
use crate::value::{Value, Vector};

/// So many bytes from the beginning of a file are enough for [`Head::parse`].
pub const HEAD_BYTES_MAX: usize = 0x1000;

const SIMPLE: [u8; 2] = [0xfe, 0x20];
const SIMPLE_DATA_AT: usize = 16;
const ENUMERATED: [u8; 2] = [0xfd, 0x20];
/// The code of elements that are indices into symbols.
const ENUMERATION: u8 = 20;
const DOMAIN_AT: usize = 16;
const TYPE_AT: usize = 0xff2;
const ATTRIBUTE_AT: usize = 0xff3;
const COUNT_AT: usize = 0xff8;
/// What is neither in a header nor before the data of vectors.
const EMPTY_LIST: [u8; 8] = [0xff, 1, 0, 0, 0, 0, 0, 0];

/// The header of a column's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// Of what type its elements are.
    pub content: Content,
    /// Its attribute: the order of the elements.
    pub attribute: Attribute,
    /// How many there are.
    pub count: u64,
    /// Where in the file they begin.
    pub data_at: u64,
}

/// What a column holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// Elements of a type other than symbol.
    Simple(Type),
    /// Indices into the symbols of the file of this name, in the database's folder: `sym` nearly always.
    Enumerated(Symbol),
    /// Nothing, of no type: a list without rows.
    Untyped,
}

impl Head {
    /// What a file begins with: its first [`HEAD_BYTES_MAX`] bytes, all if it has fewer; `file_bytes` is its length.
    ///
    /// # Errors
    /// [`KdbError::Unreadable`] for files that are written in another way, [`KdbError::Truncated`] for one that is shorter
    /// than its count needs.
    pub fn parse(bytes: &[u8], file_bytes: u64) -> Result<Self, KdbError> {
        let head = match bytes {
            [a, b, ..] if [*a, *b] == SIMPLE => Self::simple(bytes)?,
            [a, b, ..] if [*a, *b] == ENUMERATED => Self::enumerated(bytes)?,
            _ if bytes == EMPTY_LIST => Self::untyped(),
            _ => return Err(refuse(bytes)),
        };
        let need = head.count.checked_mul(head.width() as u64);
        let have = file_bytes.saturating_sub(head.data_at);
        match need {
            Some(need) if need <= have => Ok(head),
            need => Err(KdbError::Truncated {
                offset: head.data_at as usize,
                need: need.map_or(usize::MAX, |need| need as usize),
                have: have as usize,
            }),
        }
    }

    fn simple(bytes: &[u8]) -> Result<Self, KdbError> {
        let ty = match Type::from_code(bytes.get(2).copied().unwrap_or(0)) {
            Some(Type::Symbol) | None => return Err(other_type(bytes.get(2).copied())),
            Some(ty) => ty,
        };
        let (attribute, count) = (attribute(bytes, 3)?, count(bytes, 8)?);
        Ok(Self { content: Content::Simple(ty), attribute, count, data_at: SIMPLE_DATA_AT as u64 })
    }

    fn enumerated(bytes: &[u8]) -> Result<Self, KdbError> {
        let name = bytes.get(DOMAIN_AT..).unwrap_or_default();
        let domain = Symbol::new(name);
        let what_now = "write a simple or enumerated column";
        match bytes.get(TYPE_AT) {
            Some(&ENUMERATION) if !domain.as_bytes().is_empty() => {}
            Some(_) => return Err(KdbError::Unreadable { what: "a nested column", what_now }),
            None => {
                return Err(KdbError::Truncated { offset: TYPE_AT, need: 1, have: 0 });
            }
        }
        let (attribute, count) = (attribute(bytes, ATTRIBUTE_AT)?, count(bytes, COUNT_AT)?);
        Ok(Self { content: Content::Enumerated(domain), attribute, count, data_at: HEAD_BYTES_MAX as u64 })
    }

    fn untyped() -> Self {
        Self {
            content: Content::Untyped,
            attribute: Attribute::None,
            count: 0,
            data_at: EMPTY_LIST.len() as u64,
        }
    }

    /// Bytes of an element in the file; 0 where there are none.
    pub fn width(&self) -> usize {
        match &self.content {
            Content::Simple(ty) => ty.bytes_min(),
            Content::Enumerated(_) => size_of::<i64>(),
            Content::Untyped => 0,
        }
    }

    /// The elements whose bytes these are, whole ones. Of an enumeration: those of `symbols`, the content of its domain's file;
    /// an index of nothing (the null) is the empty symbol.
    ///
    /// # Errors
    /// [`KdbError::Invalid`] for an index that no symbol has, and for booleans that are none; offsets count in `bytes`.
    pub fn elements(&self, bytes: &[u8], symbols: &Symbols) -> Result<Elements, KdbError> {
        match &self.content {
            Content::Simple(ty) => simple_elements(*ty, bytes),
            Content::Enumerated(_) => resolve(bytes, symbols).map(Elements::Symbol),
            Content::Untyped => Ok(Elements::new(Type::Char)),
        }
    }
}

/// The file of a column that is no enumeration. `None` for symbols, which are enumerated before they are splayed.
pub fn write_simple(vector: &Vector) -> Option<Vec<u8>> {
    let ty = vector.elements.ty();
    if ty == Type::Symbol {
        return None;
    }
    let mut out = vec![SIMPLE[0], SIMPLE[1], ty.code(), vector.attribute.code(), 0, 0, 0, 0];
    out.extend((vector.elements.len() as u64).to_le_bytes());
    let mut value = Vec::new();
    encode(&Value::Vector(vector.clone()), ByteOrder::Little, &mut value);
    out.extend_from_slice(&value[6..]);
    Some(out)
}

/// The file of an enumerated column: indices into the symbols of the file that is named `domain`.
pub fn write_enumerated(domain: &Symbol, attribute: Attribute, indices: &[i64]) -> Vec<u8> {
    let mut out = vec![0; HEAD_BYTES_MAX];
    out[..2].copy_from_slice(&ENUMERATED);
    let name = domain.as_bytes();
    let name = &name[..name.len().min(0xff0 - DOMAIN_AT - 1)];
    out[DOMAIN_AT..DOMAIN_AT + name.len()].copy_from_slice(name);
    out[0xff0] = 0xfd;
    (out[TYPE_AT], out[ATTRIBUTE_AT]) = (ENUMERATION, attribute.code());
    out[COUNT_AT..COUNT_AT + 8].copy_from_slice(&(indices.len() as u64).to_le_bytes());
    out.extend(indices.iter().flat_map(|index| index.to_le_bytes()));
    out
}

fn simple_elements(ty: Type, bytes: &[u8]) -> Result<Elements, KdbError> {
    let count = bytes.len() / ty.bytes_min();
    let mut value = vec![ty.code(), 0];
    value.extend((count as u32).to_le_bytes());
    value.extend_from_slice(&bytes[..count * ty.bytes_min()]);
    match decode(&value, ByteOrder::Little, &Limits::default())? {
        Value::Vector(vector) => Ok(vector.elements),
        _ => Ok(Elements::new(ty)),
    }
}

fn resolve(bytes: &[u8], symbols: &Symbols) -> Result<Symbols, KdbError> {
    let mut all = Symbols::new();
    for (place, index) in bytes.as_chunks::<8>().0.iter().enumerate() {
        let index = i64::from_le_bytes(*index);
        let symbol = match usize::try_from(index) {
            Ok(index) => symbols.get(index),
            Err(_) if index == i64::MIN => Some(&b""[..]),
            Err(_) => None,
        };
        let what = "an index that no symbol of the sym file has";
        all.push(symbol.ok_or(KdbError::Invalid { offset: place * 8, what })?);
    }
    Ok(all)
}

fn attribute(bytes: &[u8], at: usize) -> Result<Attribute, KdbError> {
    let byte = bytes.get(at).copied().ok_or(KdbError::Truncated { offset: at, need: 1, have: 0 })?;
    let what = "an attribute is none of s, u, p and g";
    Attribute::from_code(byte).ok_or(KdbError::Invalid { offset: at, what })
}

fn count(bytes: &[u8], at: usize) -> Result<u64, KdbError> {
    let count = bytes.get(at..).and_then(|rest| rest.first_chunk());
    let have = bytes.len().saturating_sub(at);
    count.map(|count| u64::from_le_bytes(*count)).ok_or(KdbError::Truncated { offset: at, need: 8, have })
}

fn other_type(code: Option<u8>) -> KdbError {
    let what = match code {
        Some(11) => "a column of symbols that are not enumerated",
        Some(20..=76) => "a column of an enumeration with 32 bits, from before kdb+ 3.6",
        Some(0 | 77..=97) => "a nested column",
        _ => "a column of an unknown type",
    };
    KdbError::Unreadable { what, what_now: "write a simple or enumerated column" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simple_columns_come_back() {
        for ty in Type::ALL.into_iter().filter(|ty| *ty != Type::Symbol) {
            let mut elements = Elements::new(ty);
            elements.push(ty.null()).expect("an element of its type");
            let bytes = write_simple(&Vector { attribute: Attribute::Sorted, elements }).expect("a file");
            let head = Head::parse(&bytes, bytes.len() as u64).expect("a head");
            assert_eq!(
                (&head.content, head.attribute, head.count),
                (&Content::Simple(ty), Attribute::Sorted, 1)
            );
            let data = &bytes[head.data_at as usize..];
            assert_eq!(data.len(), head.width());
            let again = head.elements(data, &Symbols::new()).expect("elements");
            assert_eq!((again.len(), again.ty()), (1, ty));
        }
    }

    #[test]
    fn enumerated_columns_come_back() {
        let sym: Symbols = ["a", "b"].into_iter().collect();
        let bytes = write_enumerated(&"sym".into(), Attribute::Parted, &[1, 0, i64::MIN, 1]);
        let head = Head::parse(&bytes[..HEAD_BYTES_MAX], bytes.len() as u64).expect("a head");
        assert_eq!(head.content, Content::Enumerated("sym".into()));
        assert_eq!((head.count, head.attribute), (4, Attribute::Parted));
        let expected: Symbols = ["b", "a", "", "b"].into_iter().collect();
        assert_eq!(head.elements(&bytes[0x1000..], &sym), Ok(Elements::Symbol(expected)));
        let error = head.elements(&2_i64.to_le_bytes(), &sym).unwrap_err();
        assert!(error.to_string().contains("no symbol of the sym file"), "{error}");
    }

    #[test]
    fn unreadable_files_are_named() {
        let nested = {
            let mut bytes = write_enumerated(&"sym".into(), Attribute::None, &[]);
            bytes[TYPE_AT] = 87;
            bytes
        };
        let mut symbols = vec![0xfe, 0x20, 11, 0, 0, 0, 0, 0];
        symbols.extend([0; 8]);
        let cases: [(&[u8], &str); 5] = [
            (b"kxzipped", "compressed"),
            (b"kxencrypted", "encrypted"),
            (&nested, "nested"),
            (&symbols, "not enumerated"),
            (b"hello", "does not write"),
        ];
        for (bytes, expected) in cases {
            let error = Head::parse(bytes, bytes.len() as u64).unwrap_err().to_string();
            assert!(error.contains(expected), "{error:?} should contain {expected:?}");
        }
    }

    #[test]
    fn a_file_that_is_too_short_is_refused() {
        let bytes =
            write_simple(&Vector { attribute: Attribute::None, elements: Elements::Long(vec![1, 2]) });
        let bytes = bytes.expect("a file");
        let error = Head::parse(&bytes, bytes.len() as u64 - 1);
        assert_eq!(error, Err(KdbError::Truncated { offset: 16, need: 16, have: 15 }));
        let mut huge = bytes.clone();
        huge[8..16].fill(0xff);
        assert!(matches!(Head::parse(&huge, u64::MAX), Err(KdbError::Truncated { .. })));
    }

    #[test]
    fn a_list_without_rows_is_a_column_too() {
        let head = Head::parse(&EMPTY_LIST, 8).expect("a head");
        assert_eq!((head.content, head.count), (Content::Untyped, 0));
    }
}
