//! Where each column lies in the bodies of a table's messages, and how its values are read and written: computed once for each
//! table, so that a value costs a load from a constant offset.
//!
//! In between, values are *words*: the 64 bits of a column's value, with kdb+'s nulls.

use crate::column::Column;
use crate::error::TickError;
use crate::kind::Kind;
use crate::table::Table;
use std::collections::HashMap;
use tapedb_codec::bytes::{u16_at, u32_at, u64_at};
use tapedb_codec::dynamic::{Layouts, RecordLayout};
use tapedb_schema::{Decimal64, FieldType, Scalar, is_valid_ascii};

/// The word of an enum's null: no ordinal, as long as an enum has fewer symbols.
const NO_ORDINAL: u64 = 0xffff;
/// The null of kdb+ chars.
const SPACE: u64 = b' ' as u64;

/// How the cells of all fields of a table are read and written.
#[derive(Debug, Clone)]
pub(crate) struct Cells {
    table: String,
    /// Those of the fields, in order: the table's columns after `time` and `sym`.
    pub cells: Vec<Cell>,
    /// Bytes of the fixed part.
    pub fixed: usize,
    /// Bytes of the null bitmap at its front.
    pub null_bytes: usize,
    /// Whether every body is its fixed part.
    pub is_plain: bool,
    /// The message's type id.
    pub type_id: u16,
}

/// How the cells of one field are read and written.
#[derive(Debug, Clone)]
pub(crate) struct Cell {
    pub name: String,
    pub kind: Kind,
    pub offset: usize,
    /// Byte and mask of its bit in the null bitmap.
    pub null: Option<(usize, u8)>,
    /// The slot of the variable field before it.
    before: Option<usize>,
    pub op: Op,
}

/// The content of a slot.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Op {
    Bool,
    U8,
    I8,
    I16,
    U16,
    I32,
    Char,
    U32,
    I64,
    TimeOfDay,
    F32,
    F64,
    Decimal64,
    Decimal(u8),
    /// Up to eight bytes.
    Ascii(u8),
    /// Up to sixteen.
    LongAscii(u8),
    Enum(Enumeration),
    /// Texts with few different values: each is stored once.
    Symbol,
    Text,
    Bytes,
    Guid,
}

/// The symbols of an enum.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Enumeration {
    symbols: Vec<String>,
    ordinals: HashMap<Vec<u8>, u16>,
    width: usize,
}

impl Cells {
    /// Those of a table, in a stream of these layouts.
    pub fn of(table: &Table, layouts: &Layouts) -> Self {
        let message =
            layouts.records().iter().find(|record| record.message && record.name == table.record_name());
        match message.or(layouts.records().first()) {
            Some(layout) => Self::new(table, layout),
            None => Self {
                table: table.name().into(),
                cells: Vec::new(),
                fixed: 0,
                null_bytes: 0,
                is_plain: true,
                type_id: 0,
            },
        }
    }

    fn new(table: &Table, layout: &RecordLayout) -> Self {
        let cells = table.columns()[2..].iter().zip(&layout.fields).map(|(column, field)| Cell {
            name: column.name.clone(),
            kind: column.kind,
            offset: field.offset,
            null: field.null_bit.map(|bit| (bit / 8, 1 << (bit % 8))),
            before: field.before,
            op: Op::new(&column.ty, column.kind, || table.enum_symbols(&column.ty)),
        });
        Self {
            table: table.name().into(),
            cells: cells.collect(),
            fixed: layout.fixed,
            null_bytes: layout.nullable.div_ceil(8),
            is_plain: layout.last_end.is_none(),
            type_id: layout.type_id,
        }
    }

    /// Checks that columns are those of the fields, each of the given length.
    pub fn check(&self, columns: &[Column], rows: usize) -> Result<(), TickError> {
        if columns.len() != self.cells.len() {
            let what =
                format!("it has {} columns behind sym; the table has {}", columns.len(), self.cells.len());
            return Err(self.refused(what));
        }
        for (cell, column) in self.cells.iter().zip(columns) {
            if column.len() != rows {
                let what = format!("column {} has {} rows, time or sym {rows}", cell.name, column.len());
                return Err(self.refused(what));
            }
            if !cell.op.takes(column) {
                let what =
                    format!("column {} is {}; it brings {}", cell.name, cell.kind.name(), column.what());
                return Err(self.refused(what));
            }
        }
        Ok(())
    }

    /// Appends the body of one row of columns that were checked.
    pub fn encode(&self, columns: &[Column], row: usize, body: &mut Vec<u8>) -> Result<(), TickError> {
        let start = body.len();
        body.resize(start + self.fixed, 0);
        for (cell, column) in self.cells.iter().zip(columns) {
            cell.put(column, row, body, start)
                .map_err(|what| self.refused(format!("column {}, row {row}: {what}", cell.name)))?;
        }
        Ok(())
    }

    pub fn refused(&self, what: String) -> TickError {
        TickError::Update { table: self.table.clone(), what }
    }
}

impl Cell {
    /// The word of a body; null if the body is too short for it, which does not happen for stored messages.
    #[inline]
    pub fn word(&self, body: &[u8]) -> u64 {
        if self.is_null(body) { self.op.null_word() } else { self.op.word(body, self.offset) }
    }

    #[inline]
    pub fn is_null(&self, body: &[u8]) -> bool {
        self.null.is_some_and(|(byte, mask)| body.get(byte).is_some_and(|bits| bits & mask != 0))
    }

    /// The bytes of a text, or of a value that is stored as bytes, in a body.
    #[inline]
    pub fn text<'b>(&self, body: &'b [u8], fixed: usize) -> &'b [u8] {
        if let Op::LongAscii(width) = self.op {
            return without_zeros(
                body.get(self.offset..self.offset + usize::from(width)).unwrap_or_default(),
            );
        }
        let end = u32_at(body, self.offset) as usize;
        let start = self.before.map_or(fixed, |slot| u32_at(body, slot) as usize);
        body.get(start..end).unwrap_or_default()
    }

    fn put(&self, column: &Column, row: usize, body: &mut Vec<u8>, start: usize) -> Result<(), String> {
        match column {
            Column::Text(texts) if self.op.is_text() || self.op.is_interned() => {
                let text = texts.get(row);
                self.check_text(text)?;
                self.put_text(text, body, start);
                Ok(())
            }
            column => self.put_word(self.op.word_of(column, row)?, body, start),
        }
    }

    /// Puts a text into the body that begins at `start`: into the slot, or at the end.
    pub fn put_text(&self, text: &[u8], body: &mut Vec<u8>, start: usize) {
        let at = start + self.offset;
        if text.is_empty()
            && let Some((byte, mask)) = self.null
        {
            body[start + byte] |= mask;
        }
        if let Op::LongAscii(_) = self.op {
            body[at..at + text.len()].copy_from_slice(text);
            return;
        }
        body.extend_from_slice(text);
        let end = (body.len() - start) as u32;
        body[at..at + 4].copy_from_slice(&end.to_le_bytes());
    }

    /// Puts a word into its slot of the body that begins at `start`.
    pub fn put_word(&self, word: u64, body: &mut [u8], start: usize) -> Result<(), String> {
        match self.null {
            Some((byte, mask)) if self.op.is_null(word) => body[start + byte] |= mask,
            _ => {
                let (bytes, width) = self.op.slot(word)?;
                let at = start + self.offset;
                body[at..at + width].copy_from_slice(&bytes[..width]);
            }
        }
        Ok(())
    }

    fn check_text(&self, text: &[u8]) -> Result<(), String> {
        match self.op {
            Op::Guid if text.len() != 16 => Err(format!("a guid has 16 bytes, not {}", text.len())),
            Op::LongAscii(width) => check_ascii(text, width),
            Op::Symbol | Op::Text if str::from_utf8(text).is_err() => {
                Err("the text is not UTF-8; convert it in the feed".into())
            }
            _ => Ok(()),
        }
    }
}

impl Op {
    fn new(ty: &FieldType, kind: Kind, symbols: impl Fn() -> Vec<String>) -> Self {
        match ty {
            FieldType::Scalar(scalar) => match scalar {
                Scalar::Bool => Self::Bool,
                Scalar::I8 => Self::I8,
                Scalar::I16 => Self::I16,
                Scalar::U16 => Self::U16,
                Scalar::I32 => Self::I32,
                Scalar::Char => Self::Char,
                Scalar::U32 => Self::U32,
                Scalar::I64 | Scalar::U64 | Scalar::Timestamp => Self::I64,
                Scalar::TimeOfDay => Self::TimeOfDay,
                Scalar::F32 => Self::F32,
                Scalar::F64 => Self::F64,
                Scalar::Decimal64 => Self::Decimal64,
                Scalar::Decimal(scale) => Self::Decimal(*scale),
                Scalar::Ascii(width @ ..=8) => Self::Ascii(*width),
                Scalar::Ascii(width) => Self::LongAscii(*width),
                Scalar::U8 => Self::U8,
            },
            FieldType::Enum(_) => Self::Enum(Enumeration::new(symbols())),
            FieldType::String if kind == Kind::Symbol => Self::Symbol,
            FieldType::String => Self::Text,
            FieldType::Binary if kind == Kind::Guid => Self::Guid,
            FieldType::Binary => Self::Bytes,
            // Tables have no arrays and records.
            FieldType::Array(_) | FieldType::Record(_) => Self::U8,
        }
    }

    /// Whether each of its texts is stored once, and words are their numbers.
    pub fn is_interned(&self) -> bool {
        matches!(self, Self::Symbol | Self::LongAscii(_))
    }

    /// Whether it is no word but a text.
    pub fn is_text(&self) -> bool {
        matches!(self, Self::Text | Self::Bytes | Self::Guid)
    }

    /// Bytes that a word needs: 1, 2, 4 or 8.
    pub fn word_bytes(&self) -> usize {
        match self {
            Self::Bool | Self::U8 => 1,
            Self::I8 | Self::I16 | Self::Enum(_) => 2,
            Self::U16 | Self::I32 | Self::Char | Self::F32 | Self::Symbol | Self::LongAscii(_) => 4,
            _ => 8,
        }
    }

    /// Whether the word is the slot, of so many bytes.
    pub fn is_raw(&self, bytes: usize) -> bool {
        match self {
            Self::I64 | Self::TimeOfDay | Self::F64 | Self::Decimal64 | Self::Decimal(_) => bytes == 8,
            Self::I32 | Self::Char | Self::F32 => bytes == 4,
            _ => false,
        }
    }

    fn takes(&self, column: &Column) -> bool {
        match self {
            Self::Bool | Self::U8 => matches!(column, Column::Byte(_)),
            Self::I8 | Self::I16 => matches!(column, Column::Short(_)),
            Self::U16 | Self::I32 | Self::Char => matches!(column, Column::Int(_)),
            Self::U32 | Self::I64 | Self::TimeOfDay => matches!(column, Column::Long(_)),
            Self::F32 => matches!(column, Column::Real(_)),
            Self::F64 => matches!(column, Column::Float(_)),
            Self::Decimal64 | Self::Decimal(_) => {
                matches!(column, Column::Decimal(_) | Column::Float(_) | Column::Long(_))
            }
            _ => matches!(column, Column::Text(_)),
        }
    }

    /// The word of a slot.
    #[inline]
    pub fn word(&self, body: &[u8], offset: usize) -> u64 {
        match self {
            Self::Bool | Self::U8 => u64::from(body.get(offset).copied().unwrap_or_default()),
            Self::I8 => i16::from(body.get(offset).copied().unwrap_or_default() as i8) as u16 as u64,
            Self::I16 | Self::U16 => u64::from(u16_at(body, offset)),
            Self::Enum(of) if of.width == 1 => u64::from(body.get(offset).copied().unwrap_or_default()),
            Self::Enum(_) => u64::from(u16_at(body, offset)),
            Self::I32 | Self::U32 | Self::Char | Self::F32 => u64::from(u32_at(body, offset)),
            Self::Ascii(width) => ascii_word(body, offset, usize::from(*width)),
            _ => u64_at(body, offset),
        }
    }

    /// The word of null.
    pub fn null_word(&self) -> u64 {
        match self {
            Self::I8 | Self::I16 => i16::MIN as u16 as u64,
            Self::U16 | Self::I32 => i32::MIN as u32 as u64,
            Self::Char => SPACE,
            Self::F32 => u64::from(f32::NAN.to_bits()),
            Self::F64 => f64::NAN.to_bits(),
            Self::Decimal64 => Decimal64::NAN.to_bits(),
            Self::U32 | Self::I64 | Self::TimeOfDay | Self::Decimal(_) => i64::MIN as u64,
            Self::Enum(_) => NO_ORDINAL,
            _ => 0,
        }
    }

    fn is_null(&self, word: u64) -> bool {
        match self {
            Self::F32 => f32::from_bits(word as u32).is_nan(),
            Self::F64 => f64::from_bits(word).is_nan(),
            Self::Decimal64 => Decimal64::from_bits(word).is_nan(),
            // They have no null: if a schema makes them nullable, null is 0 in columns.
            Self::Bool | Self::U8 => false,
            _ => word == self.null_word(),
        }
    }

    /// The word of a value of a column.
    #[inline]
    fn word_of(&self, column: &Column, row: usize) -> Result<u64, String> {
        Ok(match column {
            Column::Byte(values) => u64::from(values[row]),
            Column::Short(values) => u64::from(values[row] as u16),
            Column::Int(values) => u64::from(values[row] as u32),
            Column::Real(values) => u64::from(values[row].to_bits()),
            Column::Text(texts) => self.word_of_text(texts.get(row))?,
            Column::Decimal(values) => self.word_of_decimal(values[row])?,
            Column::Long(values) => match self {
                Self::Decimal64 | Self::Decimal(_) => self.word_of_long(values[row])?,
                _ => values[row] as u64,
            },
            Column::Float(values) => match self {
                Self::Decimal64 | Self::Decimal(_) => {
                    self.word_of_decimal(Decimal64::from_f64(values[row]))?
                }
                _ => values[row].to_bits(),
            },
        })
    }

    fn word_of_long(&self, value: i64) -> Result<u64, String> {
        if value == i64::MIN {
            return Ok(self.null_word());
        }
        self.word_of_decimal(Decimal64::from_parts(value, 0).map_err(|error| error.to_string())?)
    }

    fn word_of_decimal(&self, value: Decimal64) -> Result<u64, String> {
        match self {
            Self::Decimal(_) if value.is_nan() => Ok(self.null_word()),
            Self::Decimal(scale) => {
                value.to_scaled(*scale).map(|units| units as u64).map_err(|error| error.to_string())
            }
            _ => Ok(value.to_bits()),
        }
    }

    fn word_of_text(&self, text: &[u8]) -> Result<u64, String> {
        match self {
            Self::Ascii(width) => {
                check_ascii(text, *width)?;
                Ok(ascii_word(text, 0, text.len()))
            }
            Self::Enum(_) if text.is_empty() => Ok(NO_ORDINAL),
            Self::Enum(of) => {
                of.ordinals.get(text).map(|ordinal| u64::from(*ordinal)).ok_or_else(|| {
                    format!("{:?} is none of the enum's symbols", String::from_utf8_lossy(text))
                })
            }
            _ => Ok(0),
        }
    }

    /// The bytes of a slot, and how many.
    fn slot(&self, word: u64) -> Result<([u8; 8], usize), String> {
        let width = match self {
            Self::I8 => {
                i8::try_from(word as u16 as i16)
                    .map_err(|_| format!("{} does not fit i8", word as u16 as i16))?;
                1
            }
            Self::U16 => {
                u16::try_from(word as u32 as i32)
                    .map_err(|_| format!("{} does not fit u16", word as u32 as i32))?;
                2
            }
            Self::U32 => {
                u32::try_from(word as i64).map_err(|_| format!("{} does not fit u32", word as i64))?;
                4
            }
            Self::TimeOfDay if !(0..86_400_000_000_000).contains(&(word as i64)) => {
                return Err(format!("{} ns is no time of a day", word as i64));
            }
            Self::Char if char::from_u32(word as u32).is_none() => {
                return Err(format!("{word} is no character"));
            }
            Self::Bool if word > 1 => return Err(format!("{word} is neither true nor false")),
            Self::Enum(_) if word == NO_ORDINAL => {
                return Err("a symbol is missing, and the column is not nullable".into());
            }
            Self::Enum(of) => of.width,
            Self::Ascii(width) => usize::from(*width),
            _ => self.word_bytes(),
        };
        Ok((word.to_le_bytes(), width))
    }

    /// A column of words; of interned ones by their texts.
    pub fn column(&self, words: impl Iterator<Item = u64>, interned: &[std::sync::Arc<[u8]>]) -> Column {
        match self {
            Self::Bool | Self::U8 => Column::Byte(words.map(|word| word as u8).collect()),
            Self::I8 | Self::I16 => Column::Short(words.map(|word| word as i16).collect()),
            Self::U16 | Self::I32 | Self::Char => Column::Int(words.map(|word| word as i32).collect()),
            Self::U32 | Self::I64 | Self::TimeOfDay => Column::Long(words.map(|word| word as i64).collect()),
            Self::F32 => Column::Real(words.map(|word| f32::from_bits(word as u32)).collect()),
            Self::F64 => Column::Float(words.map(f64::from_bits).collect()),
            Self::Decimal64 => Column::Decimal(words.map(Decimal64::from_bits).collect()),
            Self::Decimal(scale) => Column::Decimal(words.map(|word| decimal(word as i64, *scale)).collect()),
            Self::Ascii(_) => Column::Text(words.map(|word| ascii_text(word).to_vec()).collect()),
            Self::Enum(of) => Column::Text(words.map(|word| of.symbol(word)).collect()),
            _ => Column::Text(
                words.map(|word| interned.get(word as usize).map_or(&[][..], |text| text)).collect(),
            ),
        }
    }
}

impl Enumeration {
    fn new(symbols: Vec<String>) -> Self {
        let ordinals =
            symbols.iter().enumerate().map(|(at, symbol)| (symbol.as_bytes().to_vec(), at as u16)).collect();
        let width = if symbols.len() <= 256 { 1 } else { 2 };
        Self { symbols, ordinals, width }
    }

    fn symbol(&self, word: u64) -> &str {
        self.symbols.get(word as usize).map_or("", String::as_str)
    }
}

fn decimal(units: i64, scale: u8) -> Decimal64 {
    match units {
        i64::MIN => Decimal64::NAN,
        // More than 16 digits: the nearest value.
        units => Decimal64::from_scaled(units, scale)
            .unwrap_or_else(|_| Decimal64::from_f64(units as f64 / 10f64.powi(scale.into()))),
    }
}

fn check_ascii(text: &[u8], width: u8) -> Result<(), String> {
    let mut padded = text.to_vec();
    padded.resize(padded.len().max(width.into()), 0);
    if text.len() > width.into() || !is_valid_ascii(&padded) || text.contains(&0) {
        return Err(format!("{:?} does not fit ascii({width})", String::from_utf8_lossy(text)));
    }
    Ok(())
}

fn ascii_word(bytes: &[u8], offset: usize, width: usize) -> u64 {
    let mut word = [0; 8];
    let text = bytes.get(offset..offset + width).unwrap_or_default();
    word[..text.len()].copy_from_slice(text);
    u64::from_le_bytes(word)
}

fn ascii_text(word: u64) -> Vec<u8> {
    without_zeros(&word.to_le_bytes()).to_vec()
}

fn without_zeros(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    &bytes[..end]
}
