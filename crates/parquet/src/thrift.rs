//! Walks over values of Thrift's compact protocol, in which Parquet's footers and the headers of its pages are.

/// Nesting of a footer is below ten.
const DEPTH_MAX: u32 = 32;

/// The type that ends a struct.
const STOP: u8 = 0;

/// Walks over values; `None`: they do not fit into the bytes.
pub struct Walk<'a> {
    bytes: &'a [u8],
}

impl<'a> Walk<'a> {
    /// Begins with the first byte.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Bytes that are left.
    pub fn left(&self) -> usize {
        self.bytes.len()
    }

    /// A struct, to its end.
    pub fn structure(&mut self, depth: u32) -> Option<()> {
        if depth > DEPTH_MAX {
            return None;
        }
        let mut field = 0;
        while let Some(ty) = self.field(&mut field)? {
            self.skip_field(ty, depth)?;
        }
        Some(())
    }

    /// The type of a struct's next field, whose number becomes `field`, which was that of the one before; the inner `None`: it has
    /// no more.
    #[expect(clippy::option_option, reason = "the end of the bytes, and the end of the struct")]
    pub fn field(&mut self, field: &mut i64) -> Option<Option<u8>> {
        let header = self.byte()?;
        if header == STOP {
            return Some(None);
        }
        // Without a difference to the field before, its number follows.
        *field = match header >> 4 {
            0 => self.integer()?,
            difference => field.checked_add(difference.into())?,
        };
        Some(Some(header & 0xf))
    }

    /// Skips a field of that type.
    pub fn skip_field(&mut self, ty: u8, depth: u32) -> Option<()> {
        // Of a field that is a bool, the type has the value.
        if matches!(ty, 1 | 2) { Some(()) } else { self.value(ty, depth) }
    }

    /// An integer with a sign.
    pub fn integer(&mut self) -> Option<i64> {
        let number = self.number()?;
        Some((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
    }

    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(*first)
    }

    fn skip(&mut self, bytes: u64) -> Option<()> {
        self.bytes = self.bytes.get(usize::try_from(bytes).ok()?..)?;
        Some(())
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    fn value(&mut self, ty: u8, depth: u32) -> Option<()> {
        match ty {
            1..=3 => self.skip(1),
            4..=6 => self.number().map(drop),
            7 => self.skip(8),
            8 => {
                let bytes = self.number()?;
                self.skip(bytes)
            }
            9 | 10 => self.list(depth),
            12 => self.structure(depth + 1),
            // Parquet has no maps.
            _ => None,
        }
    }

    fn list(&mut self, depth: u32) -> Option<()> {
        let header = self.byte()?;
        let items = if header >> 4 == 0xf { self.number()? } else { u64::from(header >> 4) };
        if items > self.bytes.len() as u64 || depth >= DEPTH_MAX {
            return None;
        }
        (0..items).try_for_each(|_| self.value(header & 0xf, depth + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_have_signs() {
        let integers = [(0, 0), (1, -1), (2, 1), (3, -2), (0x7f, -64)];
        for (byte, integer) in integers {
            assert_eq!(Walk::new(&[byte]).integer(), Some(integer));
        }
        let least = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(Walk::new(&least).integer(), Some(i64::MIN));
    }
}
