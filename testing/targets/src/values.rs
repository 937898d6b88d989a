//! Random messages of any schema: every type, null and not, extremes, recursion that ends.

use crate::sample::SplitMix64;
use tapedb_codec::dynamic::{Layouts, RecordValue, TypeLayout, Value};
use tapedb_schema::{Ascii, Decimal64, Scalar, Timestamp};

/// Below this depth what may be null is null and what may be empty is empty.
const DEPTH_MAX: u32 = 4;
/// Makes records of one schema.
#[derive(Debug)]
pub struct Values<'a> {
    layouts: &'a Layouts,
    /// Where the randomness comes from.
    pub random: SplitMix64,
}

impl<'a> Values<'a> {
    /// A maker whose records depend on schema and seed alone.
    pub fn new(layouts: &'a Layouts, seed: u64) -> Self {
        Self { layouts, random: SplitMix64::new(seed) }
    }

    /// Makes `record` a random record of that type. It is valid: it can be encoded.
    pub fn fill(&mut self, type_id: u16, record: &mut RecordValue) {
        self.record(type_id, 0, record);
    }

    fn record(&mut self, type_id: u16, depth: u32, record: &mut RecordValue) {
        let layouts = self.layouts;
        let layout = &layouts.records()[usize::from(type_id)];
        record.type_id = type_id;
        record.fields.resize_with(layout.fields.len(), Value::default);
        for (field, value) in layout.fields.iter().zip(&mut record.fields) {
            self.nullable(&field.ty, field.null_bit.is_some(), depth, value);
        }
    }

    fn nullable(&mut self, ty: &TypeLayout, nullable: bool, depth: u32, value: &mut Value) {
        if nullable && (depth > DEPTH_MAX || self.random.once_in(3)) {
            *value = Value::Null;
        } else {
            self.value(ty, depth, value);
        }
    }

    fn value(&mut self, ty: &TypeLayout, depth: u32, value: &mut Value) {
        match ty {
            TypeLayout::Array(item) => {
                let mut items = match std::mem::take(value) {
                    Value::Array(items) => items,
                    _ => Vec::new(),
                };
                items.resize_with(self.items(depth), Value::default);
                for value in &mut items {
                    self.nullable(&item.ty, item.nullable, depth + 1, value);
                }
                *value = Value::Array(items);
            }
            TypeLayout::Record(types) => {
                let mut record = match std::mem::take(value) {
                    Value::Record(record) => record,
                    _ => RecordValue::default(),
                };
                let type_id = types[self.random.below(types.len())];
                self.record(type_id, depth + 1, &mut record);
                *value = Value::Record(record);
            }
            scalar => *value = self.scalar(scalar),
        }
    }

    /// Few items most of the time: nested arrays multiply. Seldom more than fit one byte of null bitmap.
    fn items(&mut self, depth: u32) -> usize {
        match depth {
            0 if self.random.once_in(16) => self.random.below(40),
            0 | 1 => self.random.below(4),
            2..=DEPTH_MAX => self.random.below(3),
            _ => 0,
        }
    }

    fn scalar(&mut self, ty: &TypeLayout) -> Value {
        let bits = self.bits();
        match ty {
            TypeLayout::Scalar(scalar) => match scalar {
                Scalar::Bool => Value::Bool(bits & 1 == 1),
                Scalar::I8 => Value::Int((bits as i8).into()),
                Scalar::I16 => Value::Int((bits as i16).into()),
                Scalar::I32 => Value::Int((bits as i32).into()),
                Scalar::I64 => Value::Int(bits as i64),
                Scalar::U8 => Value::UInt((bits as u8).into()),
                Scalar::U16 => Value::UInt((bits as u16).into()),
                Scalar::U32 => Value::UInt((bits as u32).into()),
                Scalar::U64 => Value::UInt(bits),
                // JSON has one NaN.
                Scalar::F32 => {
                    Value::F32(Some(f32::from_bits(bits as u32)).filter(|x| !x.is_nan()).unwrap_or(f32::NAN))
                }
                Scalar::F64 => {
                    Value::F64(Some(f64::from_bits(bits)).filter(|x| !x.is_nan()).unwrap_or(f64::NAN))
                }
                Scalar::Decimal64 => Value::Decimal(self.decimal(bits)),
                Scalar::Decimal(scale) => Value::Scaled(bits as i64, *scale),
                Scalar::Timestamp => Value::Timestamp(Timestamp(bits as i64)),
                Scalar::TimeOfDay => Value::TimeOfDay(Timestamp(bits as i64).time_of_day()),
                Scalar::Char => Value::Char(char::from_u32(bits as u32 % 0x11_0000).unwrap_or('\u{ffff}')),
                Scalar::Ascii(width) => Value::Ascii(ascii(bits, usize::from(*width))),
            },
            TypeLayout::Enum { symbols, .. } => Value::Enum((bits % *symbols as u64) as u16),
            TypeLayout::String => Value::Text(text(bits)),
            TypeLayout::Binary => Value::Binary(bits.to_le_bytes()[..(bits % 9) as usize].into()),
            TypeLayout::Array(_) | TypeLayout::Record(_) => Value::Null,
        }
    }

    /// Evenly spread bits half of the time, else extremes and small numbers.
    fn bits(&mut self) -> u64 {
        const EXTREMES: [u64; 12] = [
            0,
            1,
            u64::MAX,
            i64::MAX as u64,
            i64::MIN as u64,
            0x8000_0000,
            0x7fff_ffff,
            0xffff,
            0x7f80_0000_7f80_0000,
            0x7ff0_0000_0000_0000,
            0xfff0_0000_ff80_0000,
            1 << 63 | 1 << 31,
        ];
        let bits = self.random.next_u64();
        match bits >> 60 {
            0..=7 => self.random.next_u64(),
            8..=9 => EXTREMES[bits as usize % EXTREMES.len()],
            _ => bits >> (bits & 63),
        }
    }

    fn decimal(&mut self, bits: u64) -> Decimal64 {
        let exact = Decimal64::from_bits(bits);
        // JSON has one NaN.
        let nan = exact.to_string().ends_with("NaN");
        if exact.is_canonical() && !nan && self.random.once_in(4) {
            return exact;
        }
        let exponent = -((bits >> 58) as i32 % 10);
        Decimal64::from_parts((bits as i64) % 10_000_000_000_000_000, exponent).unwrap_or_default()
    }
}

fn ascii(bits: u64, width: usize) -> Ascii<16> {
    let mut bytes = [0; 16];
    let length = (bits >> 8) as usize % (width + 1);
    for (i, byte) in bytes[..length].iter_mut().enumerate() {
        *byte = 1 + (bits.rotate_left(7 * i as u32) & 0xff) as u8 % 127;
    }
    Ascii::from_bytes(bytes).unwrap_or_default()
}

fn text(bits: u64) -> String {
    const CHARS: [char; 16] = [
        'a',
        'Z',
        '0',
        ' ',
        '"',
        '\\',
        '\n',
        '\0',
        '\u{7f}',
        'ü',
        '€',
        '\u{2028}',
        '😀',
        '\u{10ffff}',
        '/',
        '\u{feff}',
    ];
    (0..bits % 12).map(|i| CHARS[(bits >> (4 * i)) as usize % CHARS.len()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn what_is_made_can_be_encoded_and_depends_on_the_seed_alone() {
        for seed in 0..200 {
            let layouts = Layouts::new(sample::schema(seed)).unwrap();
            let (mut one, mut two) = (RecordValue::default(), RecordValue::default());
            let (mut first, mut second) = (Vec::new(), Vec::new());
            for type_id in 0..layouts.records().len() as u16 {
                Values::new(&layouts, seed).fill(type_id, &mut one);
                Values::new(&layouts, seed).fill(type_id, &mut two);
                layouts.encode(&one, &mut first).unwrap();
                layouts.encode(&two, &mut second).unwrap();
            }
            assert_eq!(first, second, "seed {seed}");
        }
    }
}
