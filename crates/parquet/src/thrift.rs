//! Walks over values of Thrift's compact protocol, in which Parquet's footers and the headers of its pages are.
//!
//! The `parquet` crate reads a known field whatever its type states, takes the last one of several, and cuts off numbers that are too
//! large. A walk that skipped such a field would look at other values than the crate reads. So here the fields of a struct
//! ascend, as all writers have them, and the caller refuses a field that it reads and that has another type.

/// Nesting of a footer is below ten.
const DEPTH_MAX: u32 = 32;

/// Most items of a list: of columns of a row group, mostly.
const ITEMS_MAX: u64 = 1 << 20;

/// The type that ends a struct.
const STOP: u8 = 0;

/// Types of fields and items.
pub const I32: u8 = 5;
/// A list.
pub const LIST: u8 = 9;
/// A struct.
pub const STRUCT: u8 = 12;

/// Walks over values; `None`: they do not fit into the bytes, or no writer writes them so.
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
    pub fn field(&mut self, field: &mut i16) -> Option<Option<u8>> {
        let header = self.byte()?;
        if header == STOP {
            return Some(None);
        }
        // Without a difference to the field before, its number follows.
        let number = match header >> 4 {
            0 => i16::try_from(self.integer()?).ok()?,
            difference => field.checked_add(difference.into())?,
        };
        let ty = header & 0xf;
        if number <= *field || ty == STOP {
            return None;
        }
        *field = number;
        Some(Some(ty))
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

    /// An integer that has 32 bits.
    pub fn int32(&mut self) -> Option<i32> {
        self.integer()?.try_into().ok()
    }

    /// The number of items of a list, and their type.
    pub fn list(&mut self) -> Option<(u64, u8)> {
        let header = self.byte()?;
        let items = if header >> 4 == 0xf { self.number()? } else { u64::from(header >> 4) };
        (items <= (self.bytes.len() as u64).min(ITEMS_MAX)).then_some((items, header & 0xf))
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
            3 => self.skip(1),
            4..=6 => self.number().map(drop),
            7 => self.skip(8),
            8 => {
                let bytes = self.number()?;
                self.skip(bytes)
            }
            LIST | 10 => self.items(depth),
            STRUCT => self.structure(depth + 1),
            // Parquet has no maps, and in what is skipped no lists of bools, of which the crate skips no byte.
            _ => None,
        }
    }

    fn items(&mut self, depth: u32) -> Option<()> {
        let (items, ty) = self.list()?;
        if depth >= DEPTH_MAX {
            return None;
        }
        (0..items).try_for_each(|_| self.value(ty, depth + 1))
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
        assert_eq!(Walk::new(&least).int32(), None);
    }

    #[test]
    fn what_two_readers_may_read_differently_is_refused() {
        let is_read = |bytes: &[u8]| Walk::new(bytes).structure(0).is_some();
        // Fields 1 and 2; field 2 by its number; field 2 twice; field 2 behind field 3.
        assert!(is_read(&[0x15, 0, 0x15, 0, 0]) && is_read(&[0x15, 0, 0x05, 4, 0, 0]));
        assert!(!is_read(&[0x25, 0, 0x05, 4, 0, 0]) && !is_read(&[0x35, 0, 0x05, 4, 0, 0]));
        // A number of a field of more than 16 bits, whose lower ones are 2.
        assert!(!is_read(&[0x05, 0x84, 0x80, 0x08, 0, 0]));
        // An end that has a number.
        assert!(!is_read(&[0x10, 0]));
        // Lists of bools, and of nothing.
        assert!(!is_read(&[0x19, 0x21, 1, 1, 0]) && is_read(&[0x19, 0x01, 0]) && is_read(&[0x19, 0, 0]));
    }
}
