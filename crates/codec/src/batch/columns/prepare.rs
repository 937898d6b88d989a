//! Brings the slices of a field into the form in which they are written, and checks every value.

use super::input::{FieldValues, InputColumn, Validity};
use super::{Shape, mask};
use crate::batch::MAX_MESSAGE_BYTES;
use crate::dynamic::{FieldLayout, Layouts, RecordLayout, TypeLayout};
use crate::shown::quoted;
use std::collections::HashMap;
use std::fmt;
use tapedb_schema::{Ascii, Decimal64, Scalar, TimeOfDay, Timestamp};

/// Why columns do not fit a record type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misfit {
    /// The field, with a path within records and lists: `entries[3].price`.
    pub column: String,
    /// The row, from 0; `None`: it is about the whole column.
    pub row: Option<usize>,
    /// What is wrong.
    pub what: String,
}

impl Misfit {
    pub(super) fn column(name: &str, what: impl Into<String>) -> Self {
        Self { column: name.into(), row: None, what: what.into() }
    }

    pub(super) fn value(name: &str, row: usize, what: impl Into<String>) -> Self {
        Self { column: name.into(), row: Some(row), what: what.into() }
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.row {
            Some(row) => write!(f, "column {:?}, row {row}: {}", self.column, self.what),
            None => write!(f, "column {:?}: {}", self.column, self.what),
        }
    }
}

impl std::error::Error for Misfit {}

/// Whether messages of a record type can be stored as columns: no field is a record or an array.
pub fn is_columnar(record: &RecordLayout) -> bool {
    record.fields.iter().all(|field| Shape::of(field).is_some())
}

/// A field, ready to be written: every value has been checked.
#[derive(Debug)]
pub(super) struct Prepared<'a> {
    pub validity: Option<Validity<'a>>,
    pub source: Source<'a>,
}

#[derive(Debug)]
pub(super) enum Source<'a> {
    Numbers(Numbers<'a>),
    /// Slots of more than eight bytes: the first eight, and the others.
    Wide(Vec<u64>, Vec<u64>),
    Texts(TextSlice<'a>),
    /// Null in every row.
    Nulls,
}

/// Slices of fixed width.
#[derive(Debug)]
pub(super) enum Numbers<'a> {
    Bools(&'a [bool]),
    I8(&'a [i8]),
    I16(&'a [i16]),
    I32(&'a [i32]),
    I64(&'a [i64]),
    U8(&'a [u8]),
    U16(&'a [u16]),
    U32(&'a [u32]),
    U64(&'a [u64]),
    F32(&'a [f32]),
    F64(&'a [f64]),
    Decimals(&'a [Decimal64]),
    Timestamps(&'a [Timestamp]),
    TimesOfDay(&'a [TimeOfDay]),
    Chars(&'a [char]),
    /// Made from other values: slots as numbers.
    Words(Vec<u64>),
}

/// Slices of texts or binaries.
#[derive(Debug, Clone, Copy)]
pub(super) enum TextSlice<'a> {
    Texts(&'a [&'a str]),
    Strings(&'a [String]),
    Dictionary(&'a [&'a str], &'a [u32]),
    Binaries(&'a [&'a [u8]]),
}

impl<'a> TextSlice<'a> {
    #[inline]
    pub fn get(&self, row: usize) -> &'a [u8] {
        match self {
            Self::Texts(texts) => texts[row].as_bytes(),
            Self::Strings(texts) => texts[row].as_bytes(),
            Self::Dictionary(texts, keys) => texts[keys[row] as usize].as_bytes(),
            Self::Binaries(binaries) => binaries[row],
        }
    }
}

/// Finds the column of each field, in the order of the record type's fields; `None`: it is left out, and null in every row.
///
/// # Errors
/// For a column of no field or of one that has a column already, a field without a column that must have values, and a column
/// of another length than `rows`.
pub(super) fn columns_of<'i, 'a>(
    record: &RecordLayout,
    columns: &'i [InputColumn<'a>],
    rows: usize,
) -> Result<Vec<Option<&'i InputColumn<'a>>>, Misfit> {
    let mut found = vec![None; record.fields.len()];
    for column in columns {
        let Some(field) = record.field(column.name) else {
            return Err(Misfit::column(
                column.name,
                format!("record type {} has no such field", record.name),
            ));
        };
        if found[field].replace(column).is_some() {
            return Err(Misfit::column(column.name, "given twice"));
        }
        check_rows(column, rows)?;
    }
    for (field, layout) in record.fields.iter().enumerate() {
        let can_be_left_out = layout.null_bit.is_some() && !layout.has_default;
        if found[field].is_none() && !can_be_left_out {
            let what = format!("missing; only fields that may be null can be left out of {}", record.name);
            return Err(Misfit::column(&layout.name, what));
        }
    }
    Ok(found)
}

fn check_rows(column: &InputColumn<'_>, rows: usize) -> Result<(), Misfit> {
    match column.values.rows() {
        Some(have) if have != rows => {
            return Err(Misfit::column(column.name, format!("has {have} rows, and there are {rows} times")));
        }
        _ => {}
    }
    match column.validity {
        Some(validity) if !validity.covers(rows) => {
            Err(Misfit::column(column.name, format!("its validity is not of {rows} rows")))
        }
        _ => Ok(()),
    }
}

/// Prepares the column of a field; `None`: it is null in every row. Its length has been checked.
pub(super) fn prepare<'a>(
    layouts: &Layouts,
    field: &FieldLayout,
    column: Option<&InputColumn<'a>>,
    rows: usize,
) -> Result<Prepared<'a>, Misfit> {
    let Some(column) = column else { return Ok(Prepared { validity: None, source: Source::Nulls }) };
    if field.null_bit.is_none()
        && let Some(row) = first_null(column, rows)
    {
        return Err(Misfit::value(&field.name, row, "null, in a field that is never null"));
    }
    let source = match column.values {
        FieldValues::Nulls(_) => Source::Nulls,
        _ => source(layouts, field, column, rows)?,
    };
    Ok(Prepared { validity: column.validity, source })
}

fn first_null(column: &InputColumn<'_>, rows: usize) -> Option<usize> {
    match (column.validity, &column.values) {
        (None, FieldValues::Nulls(_)) => (rows > 0).then_some(0),
        (None, _) => None,
        _ => (0..rows).find(|row| column.is_null(*row)),
    }
}

fn source<'a>(
    layouts: &Layouts,
    field: &FieldLayout,
    column: &InputColumn<'a>,
    rows: usize,
) -> Result<Source<'a>, Misfit> {
    use FieldValues as V;
    use Numbers as N;
    let to = Field { name: &field.name, column, rows };
    let numbers = |numbers| Ok(Source::Numbers(numbers));
    match (&field.ty, column.values) {
        (TypeLayout::String | TypeLayout::Binary, _) => to.texts(&field.ty),
        (TypeLayout::Enum { index, .. }, values) => to.ordinals(&layouts.schema().enums[*index], values),
        (TypeLayout::Scalar(scalar), values) => match (*scalar, values) {
            (Scalar::Bool, V::Bools(values)) => numbers(N::Bools(values)),
            (Scalar::I8, V::I8(values)) => numbers(N::I8(values)),
            (Scalar::I16, V::I16(values)) => numbers(N::I16(values)),
            (Scalar::I32, V::I32(values)) => numbers(N::I32(values)),
            (Scalar::I64 | Scalar::Timestamp | Scalar::Decimal(_), V::I64(values)) => numbers(N::I64(values)),
            (Scalar::U8, V::U8(values)) => numbers(N::U8(values)),
            (Scalar::U16, V::U16(values)) => numbers(N::U16(values)),
            (Scalar::U32, V::U32(values)) => numbers(N::U32(values)),
            (Scalar::U64, V::U64(values)) => numbers(N::U64(values)),
            (Scalar::F32, V::F32(values)) => numbers(N::F32(values)),
            (Scalar::F64, V::F64(values)) => numbers(N::F64(values)),
            (Scalar::Decimal64, V::Decimals(values)) => Ok(Source::Numbers(decimals(values))),
            (Scalar::Timestamp, V::Timestamps(values)) => numbers(N::Timestamps(values)),
            (Scalar::TimeOfDay, V::TimesOfDay(values)) => numbers(N::TimesOfDay(values)),
            (Scalar::TimeOfDay, V::I64(values)) => {
                to.check(
                    values,
                    |nanos| TimeOfDay::from_nanos(nanos).is_some(),
                    |nanos| format!("{nanos} ns is no time of day"),
                )?;
                numbers(N::I64(values))
            }
            (Scalar::Char, V::Chars(values)) => numbers(N::Chars(values)),
            (Scalar::Ascii(width), values) => to.ascii(width.into(), values),
            (scalar, values) => Err(to.unfit(&scalar.to_string(), &values)),
        },
        (_, values) => Err(to.unfit("no record and no array", &values)),
    }
}

/// Decimals in canonical form, as encoding writes them: as good as always they are.
fn decimals(values: &[Decimal64]) -> Numbers<'_> {
    const PLAIN_MAX: u64 = (0b11 << 61) - 1;
    let all = values.iter().fold(0, |all, value| all | value.to_bits());
    if all <= PLAIN_MAX || values.iter().all(|value| value.is_canonical()) {
        return Numbers::Decimals(values);
    }
    Numbers::Words(values.iter().map(|value| value.canonical().to_bits()).collect())
}

/// A column on its way into a field.
struct Field<'i, 'a> {
    name: &'i str,
    column: &'i InputColumn<'a>,
    rows: usize,
}

impl<'a> Field<'_, 'a> {
    fn unfit(&self, need: &str, values: &FieldValues<'_>) -> Misfit {
        Misfit::column(self.name, format!("of type {need}, and the values given are {}", values.kind()))
    }

    /// Checks each value that is not null.
    fn check<T: Copy>(
        &self,
        values: &[T],
        is_right: impl Fn(T) -> bool,
        wrong: impl Fn(T) -> String,
    ) -> Result<(), Misfit> {
        let found =
            values.iter().enumerate().find(|(row, value)| !is_right(**value) && !self.column.is_null(*row));
        match found {
            Some((row, value)) => Err(Misfit::value(self.name, row, wrong(*value))),
            None => Ok(()),
        }
    }

    fn ordinals(&self, of: &tapedb_schema::EnumType, values: FieldValues<'a>) -> Result<Source<'a>, Misfit> {
        let symbols = of.symbols.len();
        let wrong =
            |ordinal: usize| format!("ordinal {ordinal} of enum {}, which has {symbols} symbols", of.name);
        match values {
            FieldValues::U8(ordinals) => {
                self.check(ordinals, |ordinal| usize::from(ordinal) < symbols, |it| wrong(it.into()))?;
                Ok(Source::Numbers(match symbols > 256 {
                    true => Numbers::Words(ordinals.iter().map(|ordinal| u64::from(*ordinal)).collect()),
                    false => Numbers::U8(ordinals),
                }))
            }
            FieldValues::U16(ordinals) => {
                self.check(ordinals, |ordinal| usize::from(ordinal) < symbols, |it| wrong(it.into()))?;
                Ok(Source::Numbers(Numbers::Words(
                    ordinals.iter().map(|ordinal| u64::from(*ordinal)).collect(),
                )))
            }
            values => {
                let names = of.symbols.iter().enumerate();
                let names: HashMap<&str, u64> =
                    names.map(|(ordinal, (symbol, _))| (symbol.as_str(), ordinal as u64)).collect();
                let word = |text: &str| {
                    let unknown = || format!("{} is not a symbol of enum {}", quoted(text), of.name);
                    names.get(text).copied().ok_or_else(unknown)
                };
                let need = format!("enum {} (ordinals or texts)", of.name);
                Ok(Source::Numbers(Numbers::Words(self.words(values, &need, word)?)))
            }
        }
    }

    fn ascii(&self, width: usize, values: FieldValues<'a>) -> Result<Source<'a>, Misfit> {
        let need = format!("ascii({width})");
        let slot = |text: &str| -> Result<u128, String> {
            if text.len() > width {
                return Err(format!("{} is longer than ascii({width})", quoted(text)));
            }
            let slot = Ascii::<16>::new(text).map_err(|error| error.to_string())?;
            Ok(u128::from_le_bytes(*slot.as_bytes()))
        };
        if width <= 8 {
            let word = |text: &str| slot(text).map(|slot| slot as u64 & mask(width));
            return Ok(Source::Numbers(Numbers::Words(self.words(values, &need, word)?)));
        }
        let slots = self.words(values, &need, slot)?;
        let (first, rest) = slots.iter().map(|slot| (*slot as u64, (*slot >> 64) as u64)).unzip();
        Ok(Source::Wide(first, rest))
    }

    /// What each text becomes; zero for nulls. Of a dictionary each text is looked at once.
    fn words<W: Copy + Default>(
        &self,
        values: FieldValues<'a>,
        need: &str,
        word: impl Fn(&str) -> Result<W, String>,
    ) -> Result<Vec<W>, Misfit> {
        let at =
            |row: usize, found: Result<W, String>| found.map_err(|what| Misfit::value(self.name, row, what));
        let present = |row: usize| !self.column.is_null(row);
        let or_null = |row: usize, text: &str| match present(row) {
            true => at(row, word(text)),
            false => Ok(W::default()),
        };
        match values {
            FieldValues::Texts(texts) => {
                texts.iter().enumerate().map(|(row, text)| or_null(row, text)).collect()
            }
            FieldValues::Strings(texts) => {
                texts.iter().enumerate().map(|(row, text)| or_null(row, text)).collect()
            }
            FieldValues::Dictionary { texts, keys } => {
                let words: Vec<Result<W, String>> = texts.iter().map(|text| word(text)).collect();
                let of = |(row, key): (usize, &u32)| match words.get(*key as usize) {
                    _ if !present(row) => Ok(W::default()),
                    Some(found) => at(row, found.clone()),
                    None => Err(self.no_key(row, *key, texts.len())),
                };
                keys.iter().enumerate().map(of).collect()
            }
            values => Err(self.unfit(need, &values)),
        }
    }

    fn no_key(&self, row: usize, key: u32, texts: usize) -> Misfit {
        Misfit::value(self.name, row, format!("key {key} of a dictionary of {texts} texts"))
    }

    fn texts(&self, ty: &TypeLayout) -> Result<Source<'a>, Misfit> {
        let is_text = *ty == TypeLayout::String;
        let slice = match self.column.values {
            FieldValues::Texts(texts) => TextSlice::Texts(texts),
            FieldValues::Strings(texts) => TextSlice::Strings(texts),
            FieldValues::Dictionary { texts, keys } => {
                let wrong = keys
                    .iter()
                    .enumerate()
                    .find(|(row, key)| **key as usize >= texts.len() && !self.column.is_null(*row));
                if let Some((row, key)) = wrong {
                    return Err(self.no_key(row, *key, texts.len()));
                }
                TextSlice::Dictionary(texts, keys)
            }
            FieldValues::Binaries(binaries) => {
                let is_right = |bytes: &[u8]| !is_text || std::str::from_utf8(bytes).is_ok();
                self.check(binaries, is_right, |_| "a text that is not UTF-8".into())?;
                TextSlice::Binaries(binaries)
            }
            values => return Err(self.unfit(if is_text { "string" } else { "binary" }, &values)),
        };
        let too_long = (0..self.rows)
            .find(|row| !self.column.is_null(*row) && slice.get(*row).len() > MAX_MESSAGE_BYTES);
        match too_long {
            Some(row) => {
                let bytes = slice.get(row).len();
                Err(Misfit::value(self.name, row, format!("{bytes} bytes; a message has 4 MiB at most")))
            }
            None => Ok(Source::Texts(slice)),
        }
    }
}
