//! Numbers of keys: rows with equal keys, on either side, have the same number.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringViewArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::error::Result;
use std::collections::HashMap;

/// The number of a row that has no key: one of its columns is null.
pub(super) const NONE: u32 = u32::MAX;

/// Longest text that a view holds itself.
const INLINE_MAX: u32 = 12;

/// Numbers of keys.
pub(super) enum Keys {
    /// There are no columns: all rows have the same key.
    All,
    /// One column of texts, such as the symbol.
    Texts(Texts),
    /// Any columns.
    Rows { converter: RowConverter, numbers: HashMap<Box<[u8]>, u32> },
}

/// Numbers of texts: those that a view holds itself by the view, others by their bytes.
#[derive(Default)]
pub(super) struct Texts {
    short: Views,
    long: HashMap<Box<str>, u32>,
    count: u32,
}

/// A hash table of views: open addressing, a power of two of slots, at most half of them in use.
#[derive(Default)]
struct Views {
    slots: Vec<(u128, u32)>,
    used: usize,
}

impl Keys {
    /// Numbers of keys with columns of these types.
    ///
    /// # Errors
    /// When a type has no order.
    pub fn new(types: &[DataType]) -> Result<Self> {
        Ok(match types {
            [] => Self::All,
            [DataType::Utf8View] => Self::of_texts(),
            types => {
                let fields = types.iter().map(|ty| SortField::new(ty.clone())).collect();
                Self::Rows { converter: RowConverter::new(fields)?, numbers: HashMap::new() }
            }
        })
    }

    /// Numbers of texts.
    pub fn of_texts() -> Self {
        Self::Texts(Texts::default())
    }

    /// Replaces `out` by the numbers of rows. Keys without a number get one.
    ///
    /// # Errors
    /// When the columns are not of these types.
    pub fn numbers(&mut self, columns: &[ArrayRef], rows: usize, out: &mut Vec<u32>) -> Result<()> {
        out.clear();
        match self {
            Self::All => out.resize(rows, 0),
            Self::Texts(texts) => texts.numbers(columns[0].as_string_view(), out),
            Self::Rows { converter, numbers } => {
                let keys = converter.convert_columns(columns)?;
                for (row, key) in keys.iter().enumerate() {
                    let count = numbers.len() as u32;
                    out.push(if columns.iter().any(|column| column.is_null(row)) {
                        NONE
                    } else if let Some(number) = numbers.get(key.as_ref()) {
                        *number
                    } else {
                        numbers.insert(key.as_ref().into(), count);
                        count
                    });
                }
            }
        }
        Ok(())
    }

    /// How many keys have a number.
    pub fn len(&self) -> usize {
        match self {
            Self::All => 1,
            Self::Texts(texts) => texts.count as usize,
            Self::Rows { numbers, .. } => numbers.len(),
        }
    }

    /// About how many bytes this takes.
    pub fn bytes(&self) -> usize {
        match self {
            Self::All => 0,
            Self::Texts(texts) => texts.short.slots.len() * size_of::<(u128, u32)>() + texts.long.len() * 64,
            Self::Rows { converter, numbers } => converter.size() + numbers.len() * 64,
        }
    }
}

impl Texts {
    fn numbers(&mut self, texts: &StringViewArray, out: &mut Vec<u32>) {
        let views = texts.views();
        out.reserve(views.len());
        match texts.nulls() {
            None => {
                for (row, view) in views.iter().enumerate() {
                    out.push(self.number(*view, || texts.value(row)));
                }
            }
            Some(nulls) => {
                for (row, view) in views.iter().enumerate() {
                    let number =
                        if nulls.is_valid(row) { self.number(*view, || texts.value(row)) } else { NONE };
                    out.push(number);
                }
            }
        }
    }

    #[inline]
    fn number<'a>(&mut self, view: u128, text: impl FnOnce() -> &'a str) -> u32 {
        if view as u32 > INLINE_MAX {
            return self.long_number(text());
        }
        match self.short.find(view) {
            Some(number) => number,
            None => {
                self.short.add(view, self.count);
                self.count += 1;
                self.count - 1
            }
        }
    }

    #[cold]
    fn long_number(&mut self, text: &str) -> u32 {
        match self.long.get(text) {
            Some(number) => *number,
            None => {
                self.long.insert(text.into(), self.count);
                self.count += 1;
                self.count - 1
            }
        }
    }
}

impl Views {
    #[inline]
    fn slot(&self, view: u128) -> usize {
        let folded = (view as u64) ^ ((view >> 64) as u64).rotate_left(29);
        let hash = folded.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (hash >> 32) as usize & (self.slots.len() - 1)
    }

    #[inline]
    fn find(&self, view: u128) -> Option<u32> {
        if self.slots.is_empty() {
            return None;
        }
        let mut slot = self.slot(view);
        loop {
            match self.slots[slot] {
                (_, NONE) => return None,
                (found, number) if found == view => return Some(number),
                _ => slot = (slot + 1) & (self.slots.len() - 1),
            }
        }
    }

    #[cold]
    fn add(&mut self, view: u128, number: u32) {
        if (self.used + 1) * 2 > self.slots.len() {
            let larger = vec![(0, NONE); (self.slots.len() * 2).max(64)];
            let before = std::mem::replace(&mut self.slots, larger);
            before
                .into_iter()
                .filter(|(_, number)| *number != NONE)
                .for_each(|(view, number)| self.put(view, number));
        }
        self.put(view, number);
        self.used += 1;
    }

    fn put(&mut self, view: u128, number: u32) {
        let mut slot = self.slot(view);
        while self.slots[slot].1 != NONE {
            slot = (slot + 1) & (self.slots.len() - 1);
        }
        self.slots[slot] = (view, number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{Int64Array, StringArray};
    use std::sync::Arc;

    #[test]
    fn equal_keys_have_equal_numbers() {
        let texts: Vec<Option<String>> = (0..5_000)
            .map(|i| match i % 7 {
                0 => None,
                1 => Some(format!("a long text number {}", i % 300)),
                _ => Some(format!("S{}", i % 900)),
            })
            .collect();
        let views: ArrayRef = Arc::new(StringViewArray::from_iter(texts.clone()));
        let strings: ArrayRef = Arc::new(StringArray::from(texts.clone()));
        let ones: ArrayRef = Arc::new(Int64Array::from(vec![1; texts.len()]));
        let kinds = [
            (Keys::new(&[DataType::Utf8View]).unwrap(), vec![views]),
            (Keys::new(&[DataType::Utf8]).unwrap(), vec![strings.clone()]),
            (Keys::new(&[DataType::Int64, DataType::Utf8]).unwrap(), vec![ones, strings]),
        ];
        for (mut keys, columns) in kinds {
            let (mut numbers, mut again) = (Vec::new(), Vec::new());
            keys.numbers(&columns, texts.len(), &mut numbers).unwrap();
            keys.numbers(&columns, texts.len(), &mut again).unwrap();
            assert_eq!(numbers, again);
            let mut seen: HashMap<&str, u32> = HashMap::new();
            for (text, number) in texts.iter().zip(&numbers) {
                match text {
                    None => assert_eq!(*number, NONE),
                    Some(text) => assert_eq!(*seen.entry(text).or_insert(*number), *number),
                }
            }
            assert_eq!(seen.len(), keys.len());
            assert_eq!(
                numbers.iter().filter(|number| **number != NONE).max(),
                Some(&(seen.len() as u32 - 1))
            );
        }
    }
}
