//! Checks the values of columns: what passes is what encoding the messages would have written.

use super::read::{BatchColumns, Content, FieldColumn, Texts};
use super::words::Words;
use crate::batch::MAX_MESSAGE_BYTES;
use crate::dynamic::{FieldLayout, TypeLayout};
use tapedb_schema::{Decimal64, Scalar, TimeOfDay, is_valid_ascii};

/// The greatest bits of a `decimal64` of the small form that is not negative: all of them are canonical.
const PLAIN_DECIMAL_MAX: u64 = (0b11 << 61) - 1;

impl BatchColumns<'_> {
    /// Checks all values. The first row of the first field that is wrong, and what is wrong with it.
    ///
    /// # Errors
    /// As above.
    pub fn check(&self) -> Result<(), (usize, String)> {
        let fields = self.record.fields.iter().zip(&self.fields);
        let named =
            |field: &FieldLayout, (row, what): (usize, String)| (row, format!("{}: {what}", field.name));
        fields.into_iter().try_for_each(|(field, column)| {
            check_nulls(column)
                .and_then(|()| check_values(field, column))
                .map_err(|error| named(field, error))
        })?;
        self.check_lengths()
    }

    /// No message is longer than a row may be.
    fn check_lengths(&self) -> Result<(), (usize, String)> {
        let texts = || {
            self.fields.iter().filter_map(|column| match &column.content {
                Content::Text(texts) => Some(texts.lengths),
                _ => None,
            })
        };
        let bound = texts().map(|lengths| lengths.bound().unwrap_or(u64::MAX));
        if bound.fold(self.record.fixed as u64, u64::saturating_add) <= MAX_MESSAGE_BYTES as u64 {
            return Ok(());
        }
        let length = |row| self.record.fixed as u64 + texts().map(|lengths| lengths.get(row)).sum::<u64>();
        match (0..self.len()).find(|row| length(*row) > MAX_MESSAGE_BYTES as u64) {
            Some(row) => Err((row, format!("a message of {} bytes; at most 4 MiB", length(row)))),
            None => Ok(()),
        }
    }
}

/// Unused bits of the bitmap, deltas of nulls and bytes of nulls are zero.
fn check_nulls(column: &FieldColumn<'_>) -> Result<(), (usize, String)> {
    let Some(nulls) = column.nulls else { return Ok(()) };
    let used = column.count % 8;
    if used != 0 && nulls.last().is_some_and(|last| last >> used != 0) {
        return Err((column.count - 1, "bits of its null bitmap are set that belong to no row".into()));
    }
    let (first, second, base) = match &column.content {
        Content::Word(words) => (words, None, 0),
        Content::Wide(first, second) => (first, Some(second), 0),
        Content::Text(texts) => (&texts.lengths, None, texts.lengths.base()),
    };
    let is_zero = |row: &usize| {
        base == 0 && first.delta(*row) == 0 && second.is_none_or(|second| second.delta(*row) == 0)
    };
    match (0..column.count).find(|row| column.is_null(*row) && !is_zero(row)) {
        Some(row) => Err((row, "a null that has a value".into())),
        None => Ok(()),
    }
}

fn check_values(field: &FieldLayout, column: &FieldColumn<'_>) -> Result<(), (usize, String)> {
    match (&field.ty, &column.content) {
        (TypeLayout::Enum { symbols, .. }, Content::Word(words)) => {
            let symbols = *symbols as u64;
            let wrong = |word| format!("ordinal {word} of an enum that has {symbols} symbols");
            each(column, words, symbols - 1, |word| word < symbols, wrong)
        }
        (TypeLayout::Scalar(scalar), Content::Word(words)) => check_scalars(*scalar, column, words),
        (TypeLayout::Scalar(_), Content::Wide(first, rest)) => {
            let is_right = |row: &usize| {
                let mut bytes = [0; 16];
                bytes[..8].copy_from_slice(&first.get(*row).to_le_bytes());
                bytes[8..].copy_from_slice(&rest.get(*row).to_le_bytes());
                is_valid_ascii(&bytes)
            };
            match (0..column.count).find(|row| !column.is_null(*row) && !is_right(row)) {
                Some(row) => Err((row, "not a text of ASCII, padded with zeros".into())),
                None => Ok(()),
            }
        }
        (TypeLayout::String, Content::Text(texts)) => check_texts(texts),
        _ => Ok(()),
    }
}

fn check_scalars(scalar: Scalar, column: &FieldColumn<'_>, words: &Words<'_>) -> Result<(), (usize, String)> {
    let hex = |what: &'static str| move |word: u64| format!("{word:#x} {what}");
    match scalar {
        Scalar::Bool => each(column, words, 1, |word| word <= 1, hex("is no bool")),
        Scalar::TimeOfDay => {
            let last = TimeOfDay::MAX.nanos() as u64;
            each(column, words, last, |word| word <= last, |word| format!("{word} ns is no time of day"))
        }
        Scalar::Char => {
            let is_char = |word| u32::try_from(word).is_ok_and(|word| char::from_u32(word).is_some());
            each(column, words, 0xd7ff, is_char, hex("is no char"))
        }
        Scalar::Decimal64 => {
            let is_canonical = |word| Decimal64::from_bits(word).is_canonical();
            each(column, words, PLAIN_DECIMAL_MAX, is_canonical, hex("are not the bits of a decimal64"))
        }
        Scalar::Ascii(_) => {
            let is_text = |word: u64| is_valid_ascii(&word.to_le_bytes());
            each(column, words, 0, is_text, hex("is not a text of ASCII, padded with zeros"))
        }
        // Every bit pattern is a value.
        _ => Ok(()),
    }
}

/// Checks each word. What is not above `limit` is right; most columns are decided by their greatest word.
fn each(
    column: &FieldColumn<'_>,
    words: &Words<'_>,
    limit: u64,
    is_right: impl Fn(u64) -> bool,
    wrong: impl Fn(u64) -> String,
) -> Result<(), (usize, String)> {
    if words.bound().is_some_and(|bound| bound <= limit) {
        return Ok(());
    }
    let mut greatest = 0;
    words.for_each(0..column.count, |word| greatest = greatest.max(word));
    if greatest <= limit {
        return Ok(());
    }
    match (0..column.count).find(|row| !column.is_null(*row) && !is_right(words.get(*row))) {
        Some(row) => Err((row, wrong(words.get(row)))),
        None => Ok(()),
    }
}

/// Texts are UTF-8, each for itself.
fn check_texts(texts: &Texts<'_>) -> Result<(), (usize, String)> {
    if texts.bytes().is_ascii() {
        return Ok(());
    }
    match texts.iter().position(|text| std::str::from_utf8(text).is_err()) {
        Some(row) => Err((row, "a text that is not UTF-8".into())),
        None => Ok(()),
    }
}
