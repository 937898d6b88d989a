//! Messages that look for trouble: every field is a column of [`tapedb_segment::trials`], with nulls of every pattern, fields
//! that follow others, symbols in turn or in heaps, and times that stand still, jump, and reach the ends of what they hold.

use crate::blocks::Message;
use std::collections::HashMap;
use std::sync::LazyLock;
use tapedb_codec::dynamic::{Layouts, RecordValue, TypeLayout, Value};
use tapedb_schema::{Ascii, Decimal64, Scalar, Timestamp};
use tapedb_segment::RowHeader;
use tapedb_segment::trials::{Column, Random};

/// Schemas whose records are read in different ways: plain, followers of each other, nullable, nested, and several.
const SCHEMAS: [&str; 6] = [
    "message Plain { a: i64, b: timestamp, c: u64, d: decimal64, e: f64, f: i32, g: u8 }",
    "message Bar { open: decimal64, high: decimal64, low: decimal64, close: decimal64, volume: i64 }",
    "message Ticks { a: i64, b: i64, c: i64, d: i64, e: i64, f: i64, g: i64, h: i64, i: i64 }",
    "enum Side { BUY = 0, SELL = 1 }
     message Nulls { a: i64?, b: f32?, c: string?, d: decimal(18,4)?, e: ascii(12)?, f: i16?, g: decimal64?, h: f64?,
        i: Side?, j: ascii(5)?, k: bool?, l: binary? }",
    "record A { x: i64, y: decimal64? } record B { t: string, z: f64, w: u16 } record Empty { }
     message Nested { kind: u8, at: timestamp?, items: array<record<A|B|Empty>>, grid: array<array<i32?>>,
        sub: record<A>, either: record<A|B>?, texts: array<string?>, f: array<f32>, empties: array<record<Empty>?> }",
    "message One { a: i64, b: i64 } message Two { t: string, d: decimal64? } message Three { x: f64, y: timestamp }",
];

static LAYOUTS: LazyLock<Vec<Layouts>> = LazyLock::new(|| {
    SCHEMAS.iter().map(|text| Layouts::new(text.parse().expect("a schema")).expect("layouts")).collect()
});

/// The most messages of most sets; sets of one in forty have enough that record types are cut.
const MANY: usize = 9_000;

/// Messages in order, and the layouts of their schema. They depend on the generator alone.
pub fn messages(random: &mut Random) -> (&'static Layouts, Vec<Message>) {
    let layouts = &LAYOUTS[random.below(LAYOUTS.len())];
    let is_cut = random.below(40) == 0 && layouts.records().iter().all(|record| record.last_end.is_none());
    let count = if is_cut { MANY } else { random.count() };
    let mut times = column_of(random, count);
    times.sort_unstable();
    let symbols = if is_cut { 90 } else { random.pick(&[1, 1, 2, 3, 40, 200, 5_000]) };
    let (in_turn, stride) = (random.below(2) == 0, random.pick(&[1, 7, 800_000]));
    let (first, step) =
        (random.pick(&[0, 1, u64::MAX - (1 << 40)]), random.pick(&[1, 1, 3, 0x9E37_79B9_7F4A_7C15]));
    let types: Vec<u16> =
        (0..).zip(layouts.records()).filter(|(_, of)| of.message).map(|(id, _)| id).collect();
    let mut rows: Vec<RowHeader> = (0..count)
        .map(|i| {
            let symbol = (if in_turn { i % symbols } else { random.below(symbols) }) as u32 * stride;
            let sequence = first.wrapping_add((i as u64).wrapping_mul(step));
            RowHeader { time: times[i], sequence, symbol, type_id: random.pick(&types) }
        })
        .collect();
    rows.sort_unstable_by_key(|row| (row.time, row.sequence));
    let mut maker = Maker {
        layouts,
        random,
        streams: HashMap::new(),
        symbol: 0,
        leaders: HashMap::new(),
        is_told: false,
    };
    let messages = rows.into_iter().map(|row| (row, maker.body(&row))).collect();
    (layouts, messages)
}

/// So many values of columns one behind the other.
fn column_of(random: &mut Random, count: usize) -> Vec<i64> {
    let mut values = Vec::new();
    while values.len() < count {
        values.extend(Column::new(random).values);
    }
    values.truncate(count);
    values
}

/// Values of one field or item, and how they are used.
struct Stream {
    values: Vec<i64>,
    next: usize,
    mode: usize,
    nulls: usize,
}

struct Maker<'a> {
    layouts: &'static Layouts,
    random: &'a mut Random,
    streams: HashMap<String, Stream>,
    symbol: u32,
    /// The last value that others follow, by symbol.
    leaders: HashMap<u32, i64>,
    /// Whether fields of the record that is made now are null that follow each other in this.
    is_told: bool,
}

impl Maker<'_> {
    fn body(&mut self, row: &RowHeader) -> Vec<u8> {
        self.symbol = row.symbol;
        let (record, mut body) = (self.record(row.type_id, ""), Vec::new());
        self.layouts.encode(&record, &mut body).expect("values can be encoded");
        body
    }

    fn record(&mut self, type_id: u16, path: &str) -> RecordValue {
        let record = &self.layouts.records()[usize::from(type_id)];
        let is_told = self.random.below(3) == 0;
        let outside = std::mem::replace(&mut self.is_told, is_told);
        let fields = record.fields.iter().map(|field| {
            let path = format!("{path}.{}.{}", record.name, field.name);
            self.nullable(&field.ty, field.null_bit.is_some(), &path)
        });
        let fields = fields.collect();
        self.is_told = outside;
        RecordValue { type_id, fields }
    }

    fn nullable(&mut self, ty: &TypeLayout, nullable: bool, path: &str) -> Value {
        if nullable && self.is_null(path) { Value::Null } else { self.value(ty, path) }
    }

    /// The next number of this path, and how it is used.
    fn next(&mut self, path: &str) -> (i64, usize) {
        if !self.streams.contains_key(path) {
            let (values, mode, nulls) =
                (Column::new(self.random).values, self.random.below(8), self.random.below(10));
            self.streams.insert(path.to_owned(), Stream { values, next: 0, mode, nulls });
        }
        let stream = self.streams.get_mut(path).expect("it is there");
        stream.next += 1;
        (stream.values[stream.next % stream.values.len()], stream.mode)
    }

    /// Never, always, every other, all but the first of 128, by chance, in stretches, and as others of the record or the
    /// opposite, with exceptions that are rare or none.
    fn is_null(&mut self, path: &str) -> bool {
        let path = format!("{path}?");
        self.next(&path);
        let stream = &self.streams[&path];
        match stream.nulls {
            0 => false,
            1 => true,
            2 => stream.next.is_multiple_of(2),
            3 => stream.next % 128 != 1,
            4 => self.random.below(20) == 0,
            5 => (stream.next / 130).is_multiple_of(2),
            6 => self.is_told,
            7 => !self.is_told,
            8 => self.is_told ^ (self.random.below(400) == 0),
            _ => self.random.below(2) == 0,
        }
    }

    fn value(&mut self, ty: &TypeLayout, path: &str) -> Value {
        match ty {
            TypeLayout::Array(item) => {
                let (count, mode) = self.next(path);
                let count = count.unsigned_abs() as usize % [1, 2, 2, 3, 5, 9, 40, 4][mode];
                let path = format!("{path}[]");
                Value::Array((0..count).map(|_| self.nullable(&item.ty, item.nullable, &path)).collect())
            }
            TypeLayout::Record(types) => {
                let (tag, mode) = self.next(path);
                let tag = if mode < 2 { mode } else { tag.unsigned_abs() as usize };
                Value::Record(self.record(types[tag % types.len()], path))
            }
            scalar => {
                let (number, mode) = self.next(path);
                self.scalar(scalar, number, mode)
            }
        }
    }

    /// Of fields of eight bytes, some follow the last one of the same symbol that did not.
    fn followed(&mut self, number: i64, mode: usize) -> i64 {
        let leader = self.leaders.entry(self.symbol).or_insert(number);
        match mode {
            0..=2 => leader.wrapping_add(number % 64),
            3 => leader.wrapping_add(number >> 30),
            _ => {
                *leader = number;
                number
            }
        }
    }

    fn scalar(&mut self, ty: &TypeLayout, number: i64, mode: usize) -> Value {
        match ty {
            TypeLayout::Scalar(scalar) => match scalar {
                Scalar::Bool => Value::Bool(number & 1 == 1),
                Scalar::I8 => Value::Int((number as i8).into()),
                Scalar::I16 => Value::Int((number as i16).into()),
                Scalar::I32 => Value::Int((number as i32).into()),
                Scalar::I64 => Value::Int(self.followed(number, mode)),
                Scalar::U8 => Value::UInt((number as u8).into()),
                Scalar::U16 => Value::UInt((number as u16).into()),
                Scalar::U32 => Value::UInt((number as u32).into()),
                Scalar::U64 => Value::UInt(self.followed(number, mode) as u64),
                Scalar::F32 if mode < 4 => Value::F32((number % 1_000_000) as f32 / 100.0),
                Scalar::F32 => Value::F32(f32::from_bits(number as u32)),
                Scalar::F64 => Value::F64(self.float(number, mode)),
                Scalar::Decimal64 => Value::Decimal(self.decimal(number, mode)),
                Scalar::Decimal(scale) => Value::Scaled(number, *scale),
                Scalar::Timestamp => Value::Timestamp(Timestamp(self.followed(number, mode))),
                Scalar::TimeOfDay => Value::TimeOfDay(Timestamp(number).time_of_day()),
                Scalar::Char => Value::Char(char::from_u32(number as u32 % 0x11_0000).unwrap_or('x')),
                Scalar::Ascii(width) => Value::Ascii(ascii(number, (*width).into())),
            },
            TypeLayout::Enum { symbols, .. } => Value::Enum((number as u64 % *symbols as u64) as u16),
            TypeLayout::String => Value::Text(text(number, mode)),
            TypeLayout::Binary => Value::Binary(text(number, mode).into_bytes()),
            TypeLayout::Array(_) | TypeLayout::Record(_) => Value::Null,
        }
    }

    /// Any bits (payloads of NaN and signs of zero too), and decimals with some that are none.
    fn float(&mut self, number: i64, mode: usize) -> f64 {
        match mode {
            0 | 1 => f64::from_bits(number as u64),
            2 if self.random.below(50) == 0 => f64::from_bits(0x7ff8_0000_0000_0000 | number as u64 >> 20),
            2 if self.random.below(50) == 0 => -0.0,
            // The integers of decimals end at 2^51.
            3 => number.clamp(-(1 << 51) - 1, (1 << 51) + 1) as f64,
            _ => (number % 10_000_000_000) as f64 / [1.0, 10.0, 100.0, 1e5][mode % 4],
        }
    }

    /// Every exponent, one exponent, exponents that follow the trailing zeros; infinities, NaN and negative zeros.
    fn decimal(&mut self, number: i64, mode: usize) -> Decimal64 {
        let coefficient = number % 10_000_000_000_000_000;
        let exponent = match mode {
            0 => -2,
            1 => -(number & 7) as i32,
            2 => -398 + (number as u64 % 768) as i32,
            3 if self.random.below(30) == 0 => return Decimal64::from_bits(self.random.pick(&SPECIAL)),
            4 => return shortest(self.followed(number, 0) % 100_000_000),
            _ => -4,
        };
        Decimal64::from_parts(if mode > 4 { coefficient.abs() } else { coefficient }, exponent)
            .unwrap_or_default()
    }
}

/// Infinities, NaN with payloads, negative zeros.
const SPECIAL: [u64; 6] =
    [0x7800 << 48, 0xf800 << 48, 0x7c00 << 48, 0xfe00 << 48 | 77, 0xb1c0 << 48, 0x8000 << 48];

/// Ten-thousandths with as few digits as possible.
fn shortest(mut coefficient: i64) -> Decimal64 {
    let mut exponent = -4;
    while exponent < 0 && coefficient % 10 == 0 {
        (coefficient, exponent) = (coefficient / 10, exponent + 1);
    }
    Decimal64::from_parts(coefficient, exponent).unwrap_or_default()
}

fn ascii(number: i64, width: usize) -> Ascii<16> {
    let (mut bytes, length) = ([0; 16], (number as u64 >> 8) as usize % (width + 1));
    let byte = |i: usize| 1 + (number.rotate_left(7 * i as u32) & 0xff) as u8 % 127;
    bytes[..length].iter_mut().enumerate().for_each(|(i, own)| *own = byte(i));
    Ascii::from_bytes(bytes).unwrap_or_default()
}

fn text(number: i64, mode: usize) -> String {
    match mode {
        0 => "the same".into(),
        1 => String::new(),
        2 | 3 => format!("venue {}", number & 3),
        4 => "é".repeat((number & 63) as usize),
        _ => format!("{number:x} and more of it"),
    }
}
