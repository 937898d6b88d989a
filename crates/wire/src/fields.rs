//! The encoding of payload fields: numbers, texts, lists. Each value has exactly one encoding.

use crate::error::WireError;

/// A value that can be written to a payload.
pub(crate) trait Put {
    fn put(&self, out: &mut Vec<u8>);
}

/// A value that can be read from a payload. It may borrow from it.
pub(crate) trait Take<'a>: Sized {
    /// The fewest bytes of its encoding: a list that claims more elements than can follow is refused before memory is
    /// allocated.
    const BYTES_MIN: usize;
    fn take(from: &mut FieldReader<'a>) -> Result<Self, WireError>;
}

/// Reads fields from a payload, front to back.
#[derive(Debug)]
pub(crate) struct FieldReader<'a> {
    kind: u8,
    payload: &'a [u8],
    offset: usize,
}

impl<'a> FieldReader<'a> {
    pub fn new(kind: u8, payload: &'a [u8]) -> Self {
        Self { kind, payload, offset: 0 }
    }

    pub fn bytes(&mut self, need: usize) -> Result<&'a [u8], WireError> {
        let rest = &self.payload[self.offset..];
        match rest.get(..need) {
            Some(bytes) => {
                self.offset += need;
                Ok(bytes)
            }
            None => {
                Err(WireError::Truncated { kind: self.kind, offset: self.offset, need, have: rest.len() })
            }
        }
    }

    pub fn rest(&mut self) -> &'a [u8] {
        let rest = &self.payload[self.offset..];
        self.offset = self.payload.len();
        rest
    }

    pub fn invalid(&self, what: &'static str) -> WireError {
        WireError::Invalid { kind: self.kind, offset: self.offset, what }
    }

    /// Checks that no bytes are left.
    pub fn end(self) -> Result<(), WireError> {
        if self.offset == self.payload.len() {
            Ok(())
        } else {
            Err(self.invalid("bytes follow after the last field"))
        }
    }

    /// Reads the number of elements; they must fit the bytes that follow.
    fn count(&mut self, bytes_min: usize) -> Result<usize, WireError> {
        let count = u32::take(self)? as usize;
        let have = self.payload.len() - self.offset;
        let need = count.saturating_mul(bytes_min);
        if need > have {
            return Err(WireError::Truncated { kind: self.kind, offset: self.offset, need, have });
        }
        Ok(count)
    }
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Put for $number {
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
        }

        impl Take<'_> for $number {
            const BYTES_MIN: usize = size_of::<$number>();

            fn take(from: &mut FieldReader<'_>) -> Result<Self, WireError> {
                let bytes = from.bytes(size_of::<$number>())?;
                Ok(Self::from_le_bytes(bytes.try_into().unwrap_or_default()))
            }
        }
    )*};
}

numbers!(u8, u16, u32, u64, i64);

impl Put for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.push((*self).into());
    }
}

impl Take<'_> for bool {
    const BYTES_MIN: usize = 1;

    fn take(from: &mut FieldReader<'_>) -> Result<Self, WireError> {
        match u8::take(from)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(from.invalid("a bool is neither 0 nor 1")),
        }
    }
}

impl Put for &str {
    fn put(&self, out: &mut Vec<u8>) {
        self.as_bytes().put(out);
    }
}

impl<'a> Take<'a> for &'a str {
    const BYTES_MIN: usize = 4;

    fn take(from: &mut FieldReader<'a>) -> Result<Self, WireError> {
        let bytes = <&[u8]>::take(from)?;
        str::from_utf8(bytes).map_err(|_| from.invalid("a text is not UTF-8"))
    }
}

impl Put for String {
    fn put(&self, out: &mut Vec<u8>) {
        self.as_str().put(out);
    }
}

impl Take<'_> for String {
    const BYTES_MIN: usize = 4;

    fn take(from: &mut FieldReader<'_>) -> Result<Self, WireError> {
        Ok(<&str>::take(from)?.to_string())
    }
}

impl Put for &[u8] {
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u32).put(out);
        out.extend_from_slice(self);
    }
}

impl<'a> Take<'a> for &'a [u8] {
    const BYTES_MIN: usize = 4;

    fn take(from: &mut FieldReader<'a>) -> Result<Self, WireError> {
        let count = from.count(1)?;
        from.bytes(count)
    }
}

impl<T: Put> Put for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u32).put(out);
        self.iter().for_each(|element| element.put(out));
    }
}

impl<'a, T: Take<'a>> Take<'a> for Vec<T> {
    const BYTES_MIN: usize = 4;

    fn take(from: &mut FieldReader<'a>) -> Result<Self, WireError> {
        let count = from.count(T::BYTES_MIN)?;
        (0..count).map(|_| T::take(from)).collect()
    }
}

impl<T: Put> Put for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }
}

impl<'a, T: Take<'a>> Take<'a> for Option<T> {
    const BYTES_MIN: usize = 1;

    fn take(from: &mut FieldReader<'a>) -> Result<Self, WireError> {
        if bool::take(from)? { Ok(Some(T::take(from)?)) } else { Ok(None) }
    }
}

impl<A: Put, B: Put> Put for (A, B) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }
}

impl<'a, A: Take<'a>, B: Take<'a>> Take<'a> for (A, B) {
    const BYTES_MIN: usize = A::BYTES_MIN + B::BYTES_MIN;

    fn take(from: &mut FieldReader<'a>) -> Result<Self, WireError> {
        Ok((A::take(from)?, B::take(from)?))
    }
}

/// Implements the field traits for a struct: its fields, one after the other. A struct that borrows names its lifetime.
macro_rules! field_by_field {
    ($name:ident { $($field:ident: $type:ty),* $(,)? }) => {
        crate::fields::field_by_field!('a, $name, { $($field: $type),* });
    };
    ($name:ident<$life:lifetime> { $($field:ident: $type:ty),* $(,)? }) => {
        crate::fields::field_by_field!($life, $name<$life>, { $($field: $type),* });
    };
    ($life:lifetime, $whole:ty, { $($field:ident: $type:ty),* }) => {
        impl<$life> crate::fields::Put for $whole {
            fn put(&self, out: &mut Vec<u8>) {
                $(crate::fields::Put::put(&self.$field, out);)*
            }
        }

        impl<$life> crate::fields::Take<$life> for $whole {
            const BYTES_MIN: usize = 0 $(+ <$type as crate::fields::Take<$life>>::BYTES_MIN)*;

            fn take(from: &mut crate::fields::FieldReader<$life>) -> Result<Self, crate::error::WireError> {
                Ok(Self { $($field: crate::fields::Take::take(from)?),* })
            }
        }

        #[cfg(test)]
        impl<$life> crate::dissect::Dissect for $whole {
            fn dissect(&self, name: &str, out: &mut Vec<crate::dissect::FieldBytes>) {
                $(crate::dissect::Dissect::dissect(&self.$field, &format!("{name}.{}", stringify!($field)), out);)*
            }
        }
    };
}
pub(crate) use field_by_field;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_longer_than_the_payload_allocates_nothing() {
        let bytes = [255, 255, 255, 255, 1, 2];
        let mut taker = FieldReader::new(5, &bytes);
        let error = Vec::<u64>::take(&mut taker).unwrap_err();
        assert_eq!(error, WireError::Truncated { kind: 5, offset: 4, need: 8 * 0xffff_ffff, have: 2 });
    }

    #[test]
    fn a_bool_is_0_or_1() {
        assert!(bool::take(&mut FieldReader::new(1, &[2])).is_err());
        assert_eq!(bool::take(&mut FieldReader::new(1, &[1])), Ok(true));
    }

    #[test]
    fn a_text_is_utf8() {
        let mut bytes = Vec::new();
        (&[0xff_u8][..]).put(&mut bytes);
        assert!(matches!(<&str>::take(&mut FieldReader::new(1, &bytes)), Err(WireError::Invalid { .. })));
    }
}
