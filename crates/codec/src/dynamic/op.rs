//! The interpreter's instructions: a small one for each field, made from the schema once.
//!
//! Names, boxes and type trees stay in [`FieldLayout`](super::FieldLayout); the loops over a record's fields touch only
//! these, one after the other.

use super::layouts::{FieldLayout, TypeLayout};
use tapedb_schema::Scalar;

/// How to read and write one field, or the items of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Op {
    /// The field's bit in the first eight bytes of the null bitmap; zero if it cannot be null, or has a later one.
    pub mask: u64,
    /// Offset of the slot in the fixed part; zero for items.
    pub offset: u32,
    /// The field's number.
    pub field: u16,
    /// The field's bit in the null bitmap, [`NEVER`] if it cannot be null.
    pub bit: u16,
    /// An enum's index in the schema.
    pub index: u16,
    /// An enum's greatest ordinal.
    pub last: u16,
    /// Bytes of the slot.
    pub width: u8,
    /// Scale of a scaled decimal.
    pub scale: u8,
    pub code: Opcode,
}

/// The operation. Types whose width makes a constant have one for each width; enums of 8 and 16 bits, for example.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Opcode {
    Bool,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F32,
    F64,
    Decimal64,
    Scaled,
    Timestamp,
    TimeOfDay,
    Char,
    /// `ascii(8)`.
    Ascii8,
    /// `ascii(n)` of any other width.
    Ascii,
    /// An enum of up to 256 symbols.
    Enum8,
    Enum16,
    Text,
    Binary,
    Array,
    Record,
}

/// The null bit of what cannot be null.
pub(super) const NEVER: u16 = u16::MAX;

/// Nullable fields whose bits are in one word.
pub(super) const NEAR: usize = 64;

impl Op {
    /// The instruction of a field; a valid schema's counts and offsets fit 16 bits.
    pub fn of_field(number: usize, field: &FieldLayout) -> Self {
        let near = field.null_bit.filter(|&bit| bit < NEAR);
        Self {
            mask: near.map_or(0, |bit| 1 << bit),
            offset: field.offset as u32,
            field: number as u16,
            bit: field.null_bit.map_or(NEVER, |bit| bit as u16),
            ..Self::of_item(&field.ty)
        }
    }

    /// The instruction of the items of an array.
    pub fn of_item(ty: &TypeLayout) -> Self {
        let (index, symbols) = match ty {
            TypeLayout::Enum { index, symbols, .. } => (*index, *symbols),
            _ => (0, 1),
        };
        let scale = if let TypeLayout::Scalar(Scalar::Decimal(scale)) = ty { *scale } else { 0 };
        Self {
            mask: 0,
            offset: 0,
            field: 0,
            bit: NEVER,
            index: index as u16,
            last: symbols.saturating_sub(1) as u16,
            width: ty.width() as u8,
            scale,
            code: Opcode::of(ty),
        }
    }
}

impl Opcode {
    fn of(ty: &TypeLayout) -> Self {
        match ty {
            TypeLayout::Scalar(scalar) => match scalar {
                Scalar::Bool => Self::Bool,
                Scalar::I8 => Self::I8,
                Scalar::I16 => Self::I16,
                Scalar::I32 => Self::I32,
                Scalar::I64 => Self::I64,
                Scalar::U8 => Self::U8,
                Scalar::U16 => Self::U16,
                Scalar::U32 => Self::U32,
                Scalar::U64 => Self::U64,
                Scalar::F32 => Self::F32,
                Scalar::F64 => Self::F64,
                Scalar::Decimal64 => Self::Decimal64,
                Scalar::Decimal(_) => Self::Scaled,
                Scalar::Timestamp => Self::Timestamp,
                Scalar::TimeOfDay => Self::TimeOfDay,
                Scalar::Char => Self::Char,
                Scalar::Ascii(8) => Self::Ascii8,
                Scalar::Ascii(_) => Self::Ascii,
            },
            TypeLayout::Enum { width: 1, .. } => Self::Enum8,
            TypeLayout::Enum { .. } => Self::Enum16,
            TypeLayout::String => Self::Text,
            TypeLayout::Binary => Self::Binary,
            TypeLayout::Array(_) => Self::Array,
            TypeLayout::Record(_) => Self::Record,
        }
    }

    /// Whether the value lies in the heap.
    #[inline(always)]
    pub fn is_variable(self) -> bool {
        self as u8 >= Self::Text as u8
    }
}

/// Which fields of a body are null.
#[derive(Debug, Clone, Copy)]
pub(super) struct Nulls {
    /// The first eight bytes of the body.
    word: u64,
    /// Whether the bitmap is longer.
    long: bool,
}

impl Nulls {
    /// Of a body whose fixed part is there and that has so many nullable fields.
    #[inline(always)]
    pub fn of(body: &[u8], nullable: usize) -> Self {
        let word = match body.first_chunk() {
            Some(chunk) => u64::from_le_bytes(*chunk),
            None if nullable > 0 => short_word(body),
            None => 0,
        };
        Self { word, long: nullable > NEAR }
    }

    /// Which fields are null in any of these bodies of `fixed` bytes each.
    pub fn of_any(bodies: &[u8], fixed: usize, nullable: usize) -> Self {
        let none = Self { word: 0, long: nullable > NEAR };
        if nullable == 0 {
            return none;
        }
        bodies
            .chunks_exact(fixed)
            .fold(none, |any, body| Self { word: any.word | Self::of(body, nullable).word, ..any })
    }

    /// Whether the field is null.
    #[inline(always)]
    pub fn has(self, op: &Op, body: &[u8]) -> bool {
        self.any(op.mask) || (self.long && far_null(op, body))
    }

    /// Whether there are nulls beyond the first eight bytes.
    #[inline(always)]
    pub fn are_long(self) -> bool {
        self.long
    }

    /// Whether any of these bits of the first eight bytes is set.
    #[inline(always)]
    pub fn any(self, mask: u64) -> bool {
        self.word & mask != 0
    }
}

#[cold]
fn short_word(body: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..body.len()].copy_from_slice(body);
    u64::from_le_bytes(word)
}

#[cold]
fn far_null(op: &Op, body: &[u8]) -> bool {
    op.bit != NEVER && body[usize::from(op.bit / 8)] >> (op.bit % 8) & 1 == 1
}

/// `N` bytes at `at`, which are there.
#[inline(always)]
pub(super) fn load<const N: usize>(bytes: &[u8], at: u32) -> [u8; N] {
    // A sum that cannot overflow needs one check, not two.
    bytes[at as usize..at as usize + N].first_chunk().copied().unwrap_or([0; N])
}

#[cfg(test)]
mod tests {
    use crate::DecodeErrorKind as Kind;
    use crate::dynamic::{Layouts, RecordValue, Value};

    /// More nullable fields than a word has bits, a variable one among them.
    fn wide() -> Layouts {
        let fields: Vec<String> = (0..70)
            .map(|i| match i {
                66 => "f66: string?".to_string(),
                i => format!("f{i}: u16?"),
            })
            .collect();
        Layouts::new(format!("message Wide {{ {} }}", fields.join(", ")).parse().unwrap()).unwrap()
    }

    fn record(is_null: impl Fn(usize) -> bool) -> RecordValue {
        let value = |i| match i {
            i if is_null(i) => Value::Null,
            66 => Value::Text("text".into()),
            i => Value::UInt(1000 + i as u64),
        };
        RecordValue { type_id: 0, fields: (0..70).map(value).collect() }
    }

    #[test]
    fn nulls_beyond_a_word_are_found() {
        let layouts = wide();
        for step in 1..9 {
            let value = record(|i| i % step == 0);
            let mut body = vec![0xee];
            layouts.encode(&value, &mut body).unwrap();
            let body = &body[1..];
            let view = layouts.view(0, body).unwrap();
            assert_eq!(layouts.decode(0, body).unwrap(), value);
            let nulls: Vec<bool> = view.values().map(|value| value.is_null()).collect();
            assert_eq!(nulls, (0..70).map(|i| i % step == 0).collect::<Vec<_>>());
            assert!((0..70).all(|i| view.at(i).is_null() == nulls[i]));
            let mut copy = RecordValue::default();
            copy.assign(view);
            assert_eq!(copy, value);
        }
    }

    #[test]
    fn bytes_of_nulls_beyond_a_word_are_zero() {
        let layouts = wide();
        let mut body = Vec::new();
        layouts.encode(&record(|i| i == 65), &mut body).unwrap();
        let refused = |at: usize, bits: u8| {
            let mut body = body.clone();
            body[at] ^= bits;
            let error = layouts.check(0, &body).unwrap_err();
            (error.kind, error.offset)
        };
        // Nine bytes of bitmap, of which the last has two unused bits; then two bytes for each field.
        assert_eq!(refused(8, 0x40), (Kind::NullSlot, 8));
        assert_eq!(refused(9 + 2 * 65 + 1, 1), (Kind::NullSlot, 9 + 2 * 65 + 1));
        assert_eq!(refused(8, 1 << 5), (Kind::NullSlot, 9 + 2 * 69 + 2));
    }

    #[test]
    fn short_records_have_nulls_and_checks() {
        let layouts = Layouts::new("message Short { a: bool?, b: u8? }".parse().unwrap()).unwrap();
        for (body, expected) in [
            ([0b00, 1, 9], Ok(())),
            ([0b11, 0, 0], Ok(())),
            ([0b00, 2, 9], Err((Kind::Bool, 1))),
            ([0b10, 1, 9], Err((Kind::NullSlot, 2))),
            ([0b100, 1, 9], Err((Kind::NullSlot, 0))),
        ] {
            assert_eq!(layouts.check(0, &body).map_err(|e| (e.kind, e.offset)), expected, "{body:?}");
        }
    }
}
