//! Deterministic sample schemas for tests and benchmarks.

use tapedb_schema::{
    Decimal64, ElementType, EnumType, Field, FieldType, Literal, MAX_ARRAY_DEPTH, MAX_ASCII, MAX_SCALE,
    RecordType, Scalar, Schema, TimeOfDay, Timestamp,
};

/// A valid schema that depends on nothing but the seed: enums, nested, polymorphic and recursive records, arrays,
/// nullable fields, defaults, aliases and documentation. Its first record is a message; where the seed is a multiple
/// of four, that record has a field of every type.
pub fn schema(seed: u64) -> Schema {
    let mut random = SplitMix64::new(seed);
    let enums: Vec<EnumType> = (0..1 + random.below(4)).map(|i| enumeration(&mut random, i)).collect();
    let names: Vec<String> = (0..1 + random.below(6)).map(|i| type_name("Record", i)).collect();
    let mut maker = Maker { random, enums, names };
    let records = (0..maker.names.len()).map(|i| maker.record(i, i == 0 && seed.is_multiple_of(4))).collect();
    Schema { enums: maker.enums, records }
}

/// The generator of Steele, Lea and Flood: small, fast, the same everywhere, not for secrets.
#[derive(Debug, Clone)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// A generator whose sequence depends on the seed alone.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    /// A number below `end`, evenly enough for tests; 0 if `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.next_u64()) * end as u128) >> 64) as usize
    }

    /// True once in `times`.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}

/// How many kinds of [`FieldType`] there are.
const KINDS: usize = 22;

/// What fields are made from.
struct Maker {
    random: SplitMix64,
    enums: Vec<EnumType>,
    names: Vec<String>,
}

impl Maker {
    fn record(&mut self, index: usize, every_kind: bool) -> RecordType {
        let count = self.random.below(12);
        let mut fields: Vec<Field> = if every_kind {
            (0..KINDS).map(|kind| self.field(index, kind, kind)).collect()
        } else {
            Vec::new()
        };
        for _ in 0..count {
            let kind = self.random.below(KINDS);
            fields.push(self.field(index, fields.len(), kind));
        }
        RecordType {
            name: self.names[index].clone(),
            message: index == 0 || self.random.once_in(2),
            fields,
            doc: doc(&mut self.random),
        }
    }

    fn field(&mut self, record: usize, index: usize, kind: usize) -> Field {
        // A record that every value must hold comes before its holder, so that no value is infinite.
        let must_be_nullable = kind == KINDS - 1 && record == 0;
        let nullable = self.random.once_in(3) || must_be_nullable;
        let reach = if nullable { self.names.len() } else { record };
        let ty = self.field_type(kind, reach, 0);
        let default = if self.random.once_in(2) { self.default(&ty, nullable) } else { None };
        let aliases =
            (0..self.random.below(5).saturating_sub(2)).map(|i| format!("former_{index}_{i}")).collect();
        Field { name: format!("field_{index}"), ty, nullable, default, aliases, doc: doc(&mut self.random) }
    }

    /// Nested records are among the first `reach`.
    fn field_type(&mut self, kind: usize, reach: usize, depth: usize) -> FieldType {
        match kind {
            0 => Scalar::Bool.into(),
            1 => Scalar::I8.into(),
            2 => Scalar::I16.into(),
            3 => Scalar::I32.into(),
            4 => Scalar::I64.into(),
            5 => Scalar::U8.into(),
            6 => Scalar::U16.into(),
            7 => Scalar::U32.into(),
            8 => Scalar::U64.into(),
            9 => Scalar::F32.into(),
            10 => Scalar::F64.into(),
            11 => Scalar::Decimal64.into(),
            12 => Scalar::Decimal(self.random.below(usize::from(MAX_SCALE) + 1) as u8).into(),
            13 => Scalar::Timestamp.into(),
            14 => Scalar::TimeOfDay.into(),
            15 => Scalar::Char.into(),
            16 => Scalar::Ascii(1 + self.random.below(MAX_ASCII.into()) as u8).into(),
            17 => FieldType::String,
            18 => FieldType::Binary,
            19 => FieldType::Enum(self.enums[self.random.below(self.enums.len())].name.clone()),
            20 => FieldType::Array(Box::new(self.element(depth + 1))),
            _ => FieldType::Record(self.alternatives(reach)),
        }
    }

    fn element(&mut self, depth: usize) -> ElementType {
        let mut kind = self.random.below(KINDS);
        if kind == 20 && depth == MAX_ARRAY_DEPTH {
            kind = 0;
        }
        ElementType { ty: self.field_type(kind, self.names.len(), depth), nullable: self.random.once_in(3) }
    }

    fn alternatives(&mut self, reach: usize) -> Vec<String> {
        let first = self.random.below(reach);
        let count = 1 + self.random.below(reach.min(3));
        (0..count).map(|i| self.names[(first + i) % reach].clone()).collect()
    }

    fn default(&mut self, ty: &FieldType, nullable: bool) -> Option<Literal> {
        if nullable && self.random.once_in(4) {
            return Some(Literal::Null);
        }
        let bits = self.random.next_u64();
        Some(match ty {
            FieldType::Scalar(scalar) => match scalar {
                Scalar::Bool => Literal::Bool(bits & 1 == 1),
                Scalar::I8 => whole(i128::from(bits as i8)),
                Scalar::I16 => whole(i128::from(bits as i16)),
                Scalar::I32 => whole(i128::from(bits as i32)),
                Scalar::I64 => whole(i128::from(bits as i64)),
                Scalar::U8 => whole(i128::from(bits as u8)),
                Scalar::U16 => whole(i128::from(bits as u16)),
                Scalar::U32 => whole(i128::from(bits as u32)),
                Scalar::U64 => whole(i128::from(bits)),
                Scalar::F32 | Scalar::F64 | Scalar::Decimal64 => decimal(bits, 12),
                Scalar::Decimal(scale) => decimal(bits, *scale),
                Scalar::Timestamp if bits & 1 == 1 => whole(i128::from(bits as i64)),
                Scalar::Timestamp => Literal::Text(Timestamp(bits as i64).to_string()),
                Scalar::TimeOfDay => {
                    Literal::Text(TimeOfDay::from_nanos((bits >> 18) as i64).unwrap_or_default().to_string())
                }
                Scalar::Char => Literal::Text(text(bits, 1)),
                Scalar::Ascii(n) => {
                    Literal::Text("\"AZ~ \\x\n7\tq\"' 09z"[..usize::from(*n).min(16)].to_string())
                }
            },
            FieldType::String => Literal::Text(text(bits, (bits >> 60) as usize)),
            FieldType::Enum(name) => Literal::Symbol(self.symbol(name, bits)?),
            FieldType::Binary | FieldType::Array(_) | FieldType::Record(_) => return None,
        })
    }

    fn symbol(&self, name: &str, bits: u64) -> Option<String> {
        let symbols = &self.enums.iter().find(|e| e.name == name)?.symbols;
        Some(symbols[bits as usize % symbols.len()].0.clone())
    }
}

fn enumeration(random: &mut SplitMix64, index: usize) -> EnumType {
    // Past 256 symbols an ordinal takes two bytes.
    let count = if random.once_in(8) { 257 + random.below(50) } else { 1 + random.below(12) };
    let mut number = random.below(2000) as i64 - 1000;
    let mut symbols = Vec::with_capacity(count);
    for i in 0..count {
        symbols.push((format!("SYMBOL_{i}"), number));
        number += 1 + random.below(3) as i64;
    }
    EnumType { name: type_name("Enum", index), symbols, doc: doc(random) }
}

/// Every third name has dots.
fn type_name(word: &str, index: usize) -> String {
    if index % 3 == 2 { format!("sample.market_{index}.{word}{index}") } else { format!("{word}{index}") }
}

fn doc(random: &mut SplitMix64) -> String {
    const DOCS: [&str; 6] = [
        "",
        "",
        "Price in euro, 0 or more.",
        "One.\n\nTwo: \"ü\" // not a comment.",
        "  indented\tend ",
        "\n/",
    ];
    DOCS[random.below(DOCS.len())].to_string()
}

/// A number of up to sixteen digits as the parser would read it, otherwise an integer.
fn whole(value: i128) -> Literal {
    value.to_string().parse::<Decimal64>().map_or(Literal::Integer(value), Literal::Number)
}

/// Few enough digits that any scale up to eighteen fits.
fn decimal(bits: u64, scale: u8) -> Literal {
    let coefficient = (bits as i64) >> 12;
    let exponent = -i32::from(bits as u8 % (scale + 1));
    let fits = coefficient.unsigned_abs() < 10u64.pow(u32::from(scale.min(15)));
    let coefficient = if fits { coefficient } else { coefficient % 1000 };
    let exponent = if scale > 8 { -i32::from(scale) } else { exponent };
    Literal::Number(Decimal64::from_parts(coefficient, exponent).unwrap_or_default())
}

fn text(bits: u64, length: usize) -> String {
    const CHARS: [char; 12] = ['a', 'Z', '"', '\\', '\n', '\u{1}', 'ü', '€', '😀', ' ', '\u{7f}', '/'];
    (0..length).map(|i| CHARS[(bits >> (4 * (i % 15))) as usize % CHARS.len()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::mem::discriminant;

    #[test]
    fn every_sample_is_valid_and_repeatable() {
        for seed in 0..2000 {
            let sample = schema(seed);
            assert_eq!(sample.validate(), Ok(()), "seed {seed}");
            assert_eq!(sample, schema(seed), "seed {seed}");
        }
    }

    #[test]
    fn every_fourth_sample_has_every_type() {
        let kind = |ty: &FieldType| {
            let scalar = if let FieldType::Scalar(scalar) = ty { Some(discriminant(scalar)) } else { None };
            (discriminant(ty), scalar)
        };
        for seed in (0..40).step_by(4) {
            let fields = &schema(seed).records[0].fields;
            let kinds: HashSet<_> = fields.iter().map(|field| kind(&field.ty)).collect();
            assert_eq!(kinds.len(), KINDS, "seed {seed}");
        }
    }
}
