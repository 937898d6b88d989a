//! Bytes to values.

use crate::atom::Atom;
use crate::elements::Elements;
use crate::encode::ByteOrder;
use crate::error::KdbError;
use crate::kind::{Attribute, Type, fixed_types};
use crate::symbols::{Symbol, Symbols};
use crate::value::{Dictionary, Function, List, Table, Value, Vector};

/// What others may make us take in. Elements of vectors need no limit of their own: each is among the bytes, and takes at
/// most five times as many in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a message with its header as it arrives, and of a record of a log.
    pub message_bytes_max: usize,
    /// Bytes of a compressed message after expansion.
    pub expanded_bytes_max: usize,
    /// Values in one message: items of lists, keys, columns. One takes up to 80 bytes.
    pub values_max: usize,
    /// Lists in lists.
    pub depth_max: usize,
}

impl Default for Limits {
    /// 64 MiB as it arrives and expanded, a million values, 64 deep.
    fn default() -> Self {
        Self {
            message_bytes_max: 64 << 20,
            expanded_bytes_max: 64 << 20,
            values_max: 1_000_000,
            depth_max: 64,
        }
    }
}

/// The value that these bytes are, all of them.
///
/// # Errors
/// [`KdbError`], with the place of what is wrong.
pub fn decode(bytes: &[u8], order: ByteOrder, limits: &Limits) -> Result<Value, KdbError> {
    let (value, len) = decode_first(bytes, order, limits)?;
    if len == bytes.len() {
        Ok(value)
    } else {
        Err(KdbError::Invalid { offset: len, what: "more follows than belongs to the value" })
    }
}

/// The value that these bytes begin with, and how many bytes it has.
///
/// # Errors
/// [`KdbError`]; [`KdbError::Truncated`]: the bytes so far are valid.
pub fn decode_first(bytes: &[u8], order: ByteOrder, limits: &Limits) -> Result<(Value, usize), KdbError> {
    let mut reader = Reader { bytes, offset: 0, order, values_left: limits.values_max, limits };
    let value = reader.value(0)?;
    Ok((value, reader.offset))
}

/// Type codes that are no elements.
pub(crate) mod code {
    pub const LIST: u8 = 0;
    pub const TABLE: u8 = 98;
    pub const DICTIONARY: u8 = 99;
    pub const LAMBDA: u8 = 100;
    pub const PARTS: [u8; 2] = [104, 105];
    pub const SORTED_DICTIONARY: u8 = 127;
    pub const ERROR: u8 = 128;
}

struct Reader<'a> {
    bytes: &'a [u8],
    offset: usize,
    order: ByteOrder,
    values_left: usize,
    limits: &'a Limits,
}

impl<'a> Reader<'a> {
    fn value(&mut self, depth: usize) -> Result<Value, KdbError> {
        self.count_value(depth)?;
        let offset = self.offset;
        match self.byte()? {
            code::LIST => self.list(depth).map(Value::List),
            code::TABLE => self.table(depth).map(Value::from),
            code @ (code::DICTIONARY | code::SORTED_DICTIONARY) => {
                self.dictionary(code == code::SORTED_DICTIONARY, depth)
            }
            code @ 100..=112 => Ok(Value::Function(Box::new(self.function(code, depth)?))),
            code::ERROR if depth == 0 => Ok(Value::Error(self.zero_terminated()?.into())),
            code if code < 128 => self.vector(offset, code),
            code => self.atom(offset, code),
        }
    }

    fn count_value(&mut self, depth: usize) -> Result<(), KdbError> {
        let Limits { depth_max, values_max, .. } = *self.limits;
        if depth > depth_max {
            let count_max = depth_max as u64;
            return Err(KdbError::TooMuch { what: "lists in lists", count: depth as u64, count_max });
        }
        let what = "values in one message";
        let (count, count_max) = (values_max as u64 + 1, values_max as u64);
        self.values_left =
            self.values_left.checked_sub(1).ok_or(KdbError::TooMuch { what, count, count_max })?;
        Ok(())
    }

    fn vector(&mut self, offset: usize, code: u8) -> Result<Value, KdbError> {
        let ty = Type::from_code(code).ok_or(KdbError::UnknownType { offset, code })?;
        let attribute = self.attribute()?;
        let count = self.count(ty.bytes_min())?;
        let elements = self.elements(ty, count)?;
        Ok(Value::Vector(Vector { attribute, elements }))
    }

    fn atom(&mut self, offset: usize, code: u8) -> Result<Value, KdbError> {
        let ty = Type::from_code(code.wrapping_neg()).ok_or(KdbError::UnknownType { offset, code })?;
        if ty == Type::Symbol {
            return Ok(Value::Atom(Atom::Symbol(Symbol::new(self.zero_terminated()?))));
        }
        self.fixed_atom(ty).map(Value::Atom)
    }

    fn list(&mut self, depth: usize) -> Result<List, KdbError> {
        let attribute = self.attribute()?;
        let count = self.count(2)?;
        Ok(List { attribute, items: self.values(count, depth)? })
    }

    fn values(&mut self, count: usize, depth: usize) -> Result<Vec<Value>, KdbError> {
        let mut items = Vec::with_capacity(count.min(self.values_left));
        for _ in 0..count {
            items.push(self.value(depth + 1)?);
        }
        Ok(items)
    }

    fn table(&mut self, depth: usize) -> Result<Table, KdbError> {
        let attribute = self.attribute()?;
        let offset = self.offset;
        let what = "a table is not made of a dictionary from symbols to lists";
        match self.value(depth + 1)? {
            Value::Dictionary(dictionary) => match *dictionary {
                Dictionary {
                    keys: Value::Vector(Vector { elements: Elements::Symbol(names), .. }),
                    values: Value::List(columns),
                    ..
                } => Ok(Table::new(names, columns.items)?.with_attribute(attribute)),
                _ => Err(KdbError::Invalid { offset, what }),
            },
            _ => Err(KdbError::Invalid { offset, what }),
        }
    }

    fn dictionary(&mut self, is_sorted: bool, depth: usize) -> Result<Value, KdbError> {
        let keys = self.value(depth + 1)?;
        let offset = self.offset;
        let values = self.value(depth + 1)?;
        // A value that is no list is repeated for each key.
        match (keys.len(), values.len()) {
            (Some(keys), Some(values)) if keys != values => {
                Err(KdbError::Invalid { offset, what: "a dictionary has not as many values as keys" })
            }
            (None, _) => Err(KdbError::Invalid { offset, what: "the keys of a dictionary are no list" }),
            _ => Ok(Value::Dictionary(Box::new(Dictionary { is_sorted, keys, values }))),
        }
    }

    fn function(&mut self, code: u8, depth: usize) -> Result<Function, KdbError> {
        if code == code::LAMBDA {
            let context = Symbol::new(self.zero_terminated()?);
            return Ok(Function::Lambda { context, body: self.value(depth + 1)? });
        }
        if code < code::PARTS[0] {
            return Ok(Function::Primitive { code, index: self.byte()? });
        }
        if code::PARTS.contains(&code) {
            let count = self.count(2)?;
            return Ok(Function::Parts { code, parts: self.values(count, depth)? });
        }
        Ok(Function::Derived { code, of: self.value(depth + 1)? })
    }

    fn attribute(&mut self) -> Result<Attribute, KdbError> {
        let what = "an attribute is none of s, u, p and g";
        let offset = self.offset;
        Attribute::from_code(self.byte()?).ok_or(KdbError::Invalid { offset, what })
    }

    /// A count of elements that can all follow, with `bytes_min` each.
    fn count(&mut self, bytes_min: usize) -> Result<usize, KdbError> {
        let offset = self.offset;
        let count = self.order.i32(self.array()?);
        let count = usize::try_from(count)
            .map_err(|_| KdbError::Invalid { offset, what: "a count of elements is negative" })?;
        let (need, have) = (count.saturating_mul(bytes_min), self.bytes.len() - self.offset);
        if need > have {
            return Err(KdbError::Truncated { offset: self.offset, need, have });
        }
        Ok(count)
    }

    fn zero_terminated(&mut self) -> Result<&'a [u8], KdbError> {
        let rest = &self.bytes[self.offset..];
        let truncated = KdbError::Truncated { offset: self.offset, need: rest.len() + 1, have: rest.len() };
        let len = rest.iter().position(|byte| *byte == 0).ok_or(truncated)?;
        self.offset += len + 1;
        Ok(&rest[..len])
    }

    fn symbols(&mut self, count: usize) -> Result<Symbols, KdbError> {
        let rest = &self.bytes[self.offset..];
        let truncated = KdbError::Truncated { offset: self.offset, need: rest.len() + 1, have: rest.len() };
        let (symbols, len) = Symbols::take(rest, count).ok_or(truncated)?;
        self.offset += len;
        Ok(symbols)
    }

    fn byte(&mut self) -> Result<u8, KdbError> {
        self.array().map(|[byte]| byte)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], KdbError> {
        Ok(self.take(N)?.try_into().unwrap_or([0; N]))
    }

    fn take(&mut self, need: usize) -> Result<&'a [u8], KdbError> {
        let rest = &self.bytes[self.offset..];
        let bytes =
            rest.get(..need).ok_or(KdbError::Truncated { offset: self.offset, need, have: rest.len() })?;
        self.offset += need;
        Ok(bytes)
    }
}

macro_rules! read_elements {
    ($($name:ident: $element:ty = $code:literal,)*) => {
        impl Reader<'_> {
            fn elements(&mut self, ty: Type, count: usize) -> Result<Elements, KdbError> {
                let offset = self.offset;
                match ty {
                    $(Type::$name => {
                        let bytes = self.take(count.saturating_mul(size_of::<$element>()))?;
                        <$element>::read_all(bytes, self.order).map(Elements::$name)
                            .ok_or(KdbError::Invalid { offset, what: "a boolean is neither 0 nor 1" })
                    })*
                    Type::Symbol => self.symbols(count).map(Elements::Symbol),
                }
            }

            fn fixed_atom(&mut self, ty: Type) -> Result<Atom, KdbError> {
                let elements = self.elements(ty, 1)?;
                elements.get(0).ok_or(KdbError::Shape("an atom without a value"))
            }
        }
    };
}
fixed_types!(read_elements);

/// Elements of fixed width from their bytes.
pub(crate) trait Element: Sized {
    /// `None`: bytes that are no such elements.
    fn read_all(bytes: &[u8], order: ByteOrder) -> Option<Vec<Self>>;
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Element for $number {
            fn read_all(bytes: &[u8], order: ByteOrder) -> Option<Vec<Self>> {
                let (elements, _) = bytes.as_chunks();
                Some(match order {
                    ByteOrder::Little => elements.iter().map(|bytes| Self::from_le_bytes(*bytes)).collect(),
                    ByteOrder::Big => elements.iter().map(|bytes| Self::from_be_bytes(*bytes)).collect(),
                })
            }
        }
    )*};
}
numbers!(i16, i32, i64, f32, f64);

impl Element for u8 {
    fn read_all(bytes: &[u8], _: ByteOrder) -> Option<Vec<Self>> {
        Some(bytes.to_vec())
    }
}

impl Element for bool {
    fn read_all(bytes: &[u8], _: ByteOrder) -> Option<Vec<Self>> {
        bytes.iter().all(|byte| *byte < 2).then(|| bytes.iter().map(|byte| *byte == 1).collect())
    }
}

impl Element for [u8; 16] {
    fn read_all(bytes: &[u8], _: ByteOrder) -> Option<Vec<Self>> {
        Some(bytes.as_chunks().0.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn little(bytes: &[u8]) -> Result<Value, KdbError> {
        decode(bytes, ByteOrder::Little, &Limits::default())
    }

    #[test]
    fn counts_are_believed_only_as_far_as_bytes_follow() {
        let huge = [7, 0, 0xff, 0xff, 0xff, 0x7f, 1, 2];
        assert_eq!(little(&huge), Err(KdbError::Truncated { offset: 6, need: 0x7fff_ffff * 8, have: 2 }));
        let negative = [7, 0, 0xff, 0xff, 0xff, 0xff];
        assert_eq!(
            little(&negative),
            Err(KdbError::Invalid { offset: 2, what: "a count of elements is negative" })
        );
    }

    #[test]
    fn depth_is_limited() {
        let nested = [0, 0, 1, 0, 0, 0].repeat(200_000);
        assert!(matches!(little(&nested), Err(KdbError::TooMuch { what: "lists in lists", .. })));
        let derived = vec![106; 200_000];
        assert!(matches!(little(&derived), Err(KdbError::TooMuch { what: "lists in lists", .. })));
    }

    #[test]
    fn the_number_of_values_is_limited() {
        let mut bytes = vec![0, 0, 100, 0, 0, 0];
        bytes.extend([101, 0].repeat(100));
        let limits = Limits { values_max: 100, ..Limits::default() };
        let error = decode(&bytes, ByteOrder::Little, &limits).unwrap_err();
        assert_eq!(error, KdbError::TooMuch { what: "values in one message", count: 101, count_max: 100 });
    }

    #[test]
    fn impossible_values_are_named() {
        let cases: [(&[u8], &str); 9] = [
            (&[], "byte 0 needs 1 bytes, has 0"),
            (&[0xf5, b'a'], "byte 1 needs 2 bytes, has 1"),
            (&[3, 0, 0, 0, 0, 0], "type 3 is not one"),
            (&[20, 0, 0, 0, 0, 0], "type 20 is not one"),
            (&[0xff, 2], "a boolean is neither 0 nor 1"),
            (&[7, 9, 0, 0, 0, 0], "an attribute is none"),
            (&[98, 0, 0xff, 1], "a table is not made of a dictionary"),
            (&[99, 7, 0, 0, 0, 0, 0, 7, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0], "not as many values"),
            (&[0xff, 1, 1], "more follows"),
        ];
        for (bytes, expected) in cases {
            let error = little(bytes).unwrap_err().to_string();
            assert!(error.contains(expected), "{error:?} should contain {expected:?}");
        }
    }

    #[test]
    fn errors_come_alone() {
        assert_eq!(little(b"\x80type\0"), Ok(Value::error("type")));
        assert!(little(b"\0\0\x01\0\0\0\x80type\0").is_err());
    }
}
