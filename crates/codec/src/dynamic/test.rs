//! Validation of a fixed part at speed: most checks are one comparison of one word.
//!
//! Any field of up to eight bytes lies within some eight bytes of the fixed part. With all other bits masked away, a
//! null must be zero, a `bool` or an ordinal must not be above the greatest, a `decimal64` must not be above the
//! greatest whose form is certain. A value that fails is not wrong yet: it gets the exact check.

use super::op::{NEAR, NEVER, Nulls, Op, Opcode, load};
use tapedb_schema::{TimeOfDay, is_valid_ascii};

/// Looks at one field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Test {
    /// The field's bit in the null bitmap's first eight bytes, as in [`Op::mask`].
    pub mask: u64,
    /// Offset of the word that holds the field.
    pub offset: u32,
    /// The field's bits in the word.
    pub slot: u64,
    /// No doubt about what is not above this; zero is never in doubt.
    pub limit: u64,
    /// The field's number.
    pub field: u16,
    /// Whether the word is a whole `ascii(8)`.
    pub text: bool,
}

/// Bytes of a word.
const WORD: usize = 8;

impl Test {
    /// The tests of all fields of fixed width; `fixed` is the length of the fixed part. None if they would test nothing:
    /// when the fixed part is shorter than a word, or there are more nullable fields than a word has bits.
    pub fn of_fields(ops: &[Op], fixed: usize) -> Option<Vec<Self>> {
        let far = ops.iter().any(|op| op.bit != NEVER && usize::from(op.bit) >= NEAR);
        if fixed < WORD || far {
            return None;
        }
        Some(ops.iter().filter(|op| !op.code.is_variable()).flat_map(Self::of_field).flatten().collect())
    }

    /// Whether only a null needs a test.
    pub fn is_open(&self) -> bool {
        self.limit == u64::MAX
    }

    /// Whether the field is beyond doubt in this body, which has the fixed part.
    #[inline(always)]
    pub fn passes(&self, body: &[u8], nulls: Nulls) -> bool {
        let word = u64::from_le_bytes(load(body, self.offset)) & self.slot;
        if nulls.any(self.mask) {
            word == 0
        } else {
            word <= self.limit || (self.text && is_valid_ascii(&word.to_le_bytes()))
        }
    }

    /// Whether the field is beyond doubt in all of these bodies of `fixed` bytes each; `any`: what is null in any of them.
    pub fn all_pass(&self, bodies: &[u8], fixed: usize, any: Nulls) -> bool {
        if any.any(self.mask) {
            return bodies.chunks_exact(fixed).all(|body| self.passes(body, Nulls::of(body, NEAR)));
        }
        if self.is_open() {
            return true;
        }
        // Looked at to the end, since as good as always all are: so there is nothing to decide on the way.
        let doubts = bodies.chunks_exact(fixed).fold(false, |doubts, body| {
            let word = u64::from_le_bytes(load(body, self.offset)) & self.slot;
            doubts | (word > self.limit)
        });
        !doubts
    }

    /// One test, or two: the second is of the bytes after the first eight.
    fn of_field(op: &Op) -> [Option<Self>; 2] {
        let width = usize::from(op.width);
        let offset = op.offset as usize;
        let first = Self::of_bytes(op, offset, width.min(WORD));
        let second = (width > WORD).then(|| Self::of_bytes(op, offset + WORD, width - WORD));
        // Nothing to test: every bit pattern is a value and there is no null.
        [Some(first).filter(|test| test.limit != u64::MAX || op.bit != NEVER), second]
    }

    fn of_bytes(op: &Op, offset: usize, width: usize) -> Self {
        // The word that ends where the bytes end, but none that begins before the body.
        let word = (offset + width).saturating_sub(WORD);
        let shift = 8 * (offset - word);
        let ones = u64::MAX >> (64 - 8 * width);
        let limit = match limit(op) {
            u64::MAX => u64::MAX,
            limit => limit << shift,
        };
        let text = op.code == Opcode::Ascii8;
        Self { mask: op.mask, offset: word as u32, slot: ones << shift, limit, field: op.field, text }
    }
}

/// The greatest value that is beyond doubt; all bits set if every pattern is a value.
fn limit(op: &Op) -> u64 {
    match op.code {
        Opcode::Bool => 1,
        Opcode::Enum8 | Opcode::Enum16 => op.last.into(),
        Opcode::TimeOfDay => TimeOfDay::MAX.nanos() as u64,
        // The small form, not negative.
        Opcode::Decimal64 => (0b11 << 61) - 1,
        Opcode::Char => 0xd7ff,
        Opcode::Ascii8 | Opcode::Ascii => 0,
        _ => u64::MAX,
    }
}

#[cfg(test)]
mod tests {
    use crate::DecodeErrorKind as Kind;
    use crate::dynamic::{Layouts, Value};

    /// Each field at each offset in its word: after 0 to 8 bytes.
    fn layouts(field: &str) -> impl Iterator<Item = (usize, Layouts)> {
        let front = |n: usize| (0..n).map(|i| format!("p{i}: u8, ")).collect::<String>();
        let text = move |n| format!("enum E {{ A, B, C }} message M {{ {}f: {field}, z: u64 }}", front(n));
        (0..9).map(move |n| (n, Layouts::new(text(n).parse().unwrap()).unwrap()))
    }

    fn kinds(field: &str, slot: &[u8]) -> Vec<Option<Kind>> {
        let kind = |(n, layouts): (usize, Layouts)| {
            let body = [&vec![0xff; n], slot, &[0xff; 8]].concat();
            let error = layouts.check(0, &body).err();
            assert!(error.is_none_or(|error| (n..n + slot.len()).contains(&error.offset)), "{error:?}");
            error.map(|error| error.kind)
        };
        layouts(field).map(kind).collect()
    }

    #[test]
    fn greatest_values_pass_and_greater_ones_do_not() {
        let day = 86_400_000_000_000i64;
        let cases: Vec<(&str, Vec<u8>, Option<Kind>)> = vec![
            ("bool", vec![1], None),
            ("bool", vec![2], Some(Kind::Bool)),
            ("E", vec![2], None),
            ("E", vec![3], Some(Kind::Enum)),
            ("time_of_day", (day - 1).to_le_bytes().into(), None),
            ("time_of_day", day.to_le_bytes().into(), Some(Kind::TimeOfDay)),
            ("time_of_day", (-1i64).to_le_bytes().into(), Some(Kind::TimeOfDay)),
            ("char", 0x10_ffffu32.to_le_bytes().into(), None),
            ("char", 0xd800u32.to_le_bytes().into(), Some(Kind::Char)),
            (
                "decimal64",
                "-1.5".parse::<tapedb_schema::Decimal64>().unwrap().to_bits().to_le_bytes().into(),
                None,
            ),
            ("decimal64", tapedb_schema::Decimal64::MAX.to_bits().to_le_bytes().into(), None),
            ("decimal64", [0xff; 8].into(), Some(Kind::Decimal)),
            ("ascii(3)", b"ABC".into(), None),
            ("ascii(3)", b"A\0C".into(), Some(Kind::Ascii)),
            ("ascii(8)", b"ABCDEFGH".into(), None),
            ("ascii(8)", b"\0BCDEFGH".into(), Some(Kind::Ascii)),
            ("ascii(12)", b"ABCDEFGHIJKL".into(), None),
            ("ascii(12)", b"\0\0\0\0\0\0\0\0\0\0\0L".into(), Some(Kind::Ascii)),
            ("ascii(12)", b"ABCDEFGH\x80\0\0\0".into(), Some(Kind::Ascii)),
            ("i16", vec![0xff; 2], None),
        ];
        for (field, slot, expected) in cases {
            assert_eq!(kinds(field, &slot), [expected; 9], "{field} {slot:?}");
        }
    }

    #[test]
    fn at_a_glance_nothing_passes_that_is_wrong() {
        let layouts =
            Layouts::new("enum E { A, B } message M { f: E, g: i64, z: bool }".parse().unwrap()).unwrap();
        let fixed = layouts.records()[0].fixed;
        let mut bodies = vec![0; 100 * fixed];
        assert!(layouts.are_right(0, &bodies) && layouts.are_right(0, &[]));
        assert!(!layouts.are_right(0, &bodies[1..]) && !layouts.are_right(9, &bodies));
        for at in 0..bodies.len() {
            bodies[at] = 2;
            let body = &bodies[at / fixed * fixed..][..fixed];
            assert_eq!(layouts.are_right(0, &bodies), layouts.check(0, body).is_ok(), "byte {at}");
            bodies[at] = 0;
        }
    }

    #[test]
    fn at_a_glance_nulls_pass_that_are_right() {
        // Each byte of a bitmap with unused bits, of a slot with a limit, of slots without, and of a text longer than a word.
        let layouts = "enum E { A, B } message M { f: E?, g: i64?, z: u16, t: ascii(12)?, b: bool }";
        let layouts = Layouts::new(layouts.parse().unwrap()).unwrap();
        let fixed = layouts.records()[0].fixed;
        for nulls in 0..8 {
            let mut bodies = vec![0; 20 * fixed];
            bodies[7 * fixed] = nulls;
            assert!(layouts.are_right(0, &bodies));
            for at in 6 * fixed..9 * fixed {
                for value in [1, 2, 8, 0x80] {
                    let before = std::mem::replace(&mut bodies[at], value);
                    let body = &bodies[at / fixed * fixed..][..fixed];
                    let (glance, exact) = (layouts.are_right(0, &bodies), layouts.check(0, body));
                    assert!(!glance || exact.is_ok(), "byte {at}, {value}: {exact:?}");
                    // A body that passes the test of one passes that of many, which is stricter for text.
                    let is_text = matches!(at % fixed, 12..24);
                    assert!(glance || exact.is_err() || is_text, "byte {at}, {value} with nulls {nulls}");
                    bodies[at] = before;
                }
            }
        }
    }

    #[test]
    fn where_every_pattern_is_a_value_every_bit_of_the_bitmap_counts() {
        for fields in [1, 7, 8, 9, 63, 64, 65] {
            let text: String = (0..fields).map(|field| format!("f{field}: i64?, ")).collect();
            let layouts = Layouts::new(format!("message M {{ {text} z: u8 }}").parse().unwrap()).unwrap();
            let fixed = layouts.records()[0].fixed;
            let bitmap = (fields as usize).div_ceil(8);
            let mut bodies = vec![0xff; 3 * fixed];
            bodies.chunks_mut(fixed).for_each(|body| body[..bitmap].fill(0));
            assert_eq!(
                (layouts.check(0, &bodies[..fixed]), layouts.are_right(0, &bodies)),
                (Ok(()), fields < 65)
            );
            assert!(
                layouts.check(0, &bodies[..fixed - 1]).is_err()
                    && layouts.check(0, &bodies[..fixed + 1]).is_err()
            );
            for bit in 0..8 * bitmap {
                let mut bodies = bodies.clone();
                bodies[fixed + bit / 8] |= 1 << (bit % 8);
                assert!(layouts.check(0, &bodies[fixed..2 * fixed]).is_err(), "{fields} fields, bit {bit}");
                assert!(!layouts.are_right(0, &bodies), "{fields} fields, bit {bit}");
            }
        }
    }

    #[test]
    fn nulls_are_zero_wherever_they_lie() {
        for field in ["bool?", "i16?", "E?", "u32?", "f64?", "decimal64?", "ascii(3)?", "ascii(16)?"] {
            for (_, layouts) in layouts(field) {
                let mut value = layouts.decode(0, &vec![0; layouts.records()[0].fixed]).unwrap();
                let index = value.fields.len() - 2;
                value.fields[index] = Value::Null;
                let mut body = Vec::new();
                layouts.encode(&value, &mut body).unwrap();
                assert_eq!(layouts.check(0, &body), Ok(()));
                let slot = &layouts.records()[0].fields[index];
                for at in slot.offset..slot.offset + slot.width {
                    for bit in [1, 0x80] {
                        let mut body = body.clone();
                        body[at] ^= bit;
                        let error = layouts.check(0, &body).unwrap_err();
                        assert_eq!((error.kind, error.offset), (Kind::NullSlot, at), "{field}");
                    }
                }
            }
        }
    }
}
