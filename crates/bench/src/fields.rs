//! Folds every field of a record into one word, which proves that a benchmark read what was written.
//!
//! A fold visits the fields in order; the word of an array is the fold of its items, that of a record the fold of its fields.
//! Values, views and records of the interpreter fold to the same word.

use tapedb_codec::Record;
use tapedb_codec::dynamic::{ArrayRef, RecordRef, RecordValue, Value, ValueRef};
use tapedb_market::{
    Aggressor, Bar, BarView, BookAction, Entry, EntryView, Package, PackageKind, PackageView, Side,
};
use tapedb_schema::{Ascii, Decimal64, Timestamp};

/// The word of a null.
const NULL: u64 = 0x6E75_6C6C;

/// How a word joins those before it.
pub trait Join: Fn(u64, u64) -> u64 + Copy {}

impl<T: Fn(u64, u64) -> u64 + Copy> Join for T {}

/// A record type whose fields fold into one word, from a value and from a view alike.
pub trait Fields: Record + 'static {
    /// Folds the fields of a value.
    fn fold(&self, join: impl Join) -> u64;
    /// Folds the fields of a view.
    fn fold_view(view: Self::View<'_>, join: impl Join) -> u64;
}

/// Folds the fields of a record that the interpreter reads in place.
#[inline(always)]
pub fn fold_ref(record: RecordRef<'_>, join: impl Join) -> u64 {
    let mut sum = 0;
    for value in record.values() {
        sum = join(sum, word_of_ref(value, join));
    }
    sum
}

/// Folds the fields of a record that the interpreter copied.
pub fn fold_value(record: &RecordValue, join: impl Join) -> u64 {
    let mut sum = 0;
    for value in &record.fields {
        sum = join(sum, word_of_value(value, join));
    }
    sum
}

fn fold_nested_ref(record: RecordRef<'_>, join: impl Join) -> u64 {
    fold_ref(record, join)
}

fn fold_items_ref(items: ArrayRef<'_>, join: impl Join) -> u64 {
    let mut sum = 0;
    for item in items.iter() {
        sum = join(sum, word_of_ref(item, join));
    }
    sum
}

// Inlined into plain loops, so that no value is built in memory.
#[inline(always)]
fn word_of_ref(value: ValueRef<'_>, join: impl Join) -> u64 {
    match value {
        ValueRef::Null => NULL,
        ValueRef::Bool(x) => x.word(),
        ValueRef::Int(x) | ValueRef::Scaled(x, _) => x as u64,
        ValueRef::UInt(x) => x,
        ValueRef::F32(x) => x.to_bits().into(),
        ValueRef::F64(x) => x.to_bits(),
        ValueRef::Decimal(x) => x.word(),
        ValueRef::Timestamp(x) => x.word(),
        ValueRef::TimeOfDay(x) => x.nanos() as u64,
        ValueRef::Char(x) => u32::from(x).into(),
        ValueRef::Ascii(x) => ascii_word(x.as_bytes()),
        ValueRef::Text(x) => bytes(x.as_bytes()),
        ValueRef::Binary(x) => bytes(x),
        ValueRef::Enum(value) => value.ordinal().into(),
        ValueRef::Array(items) => fold_items_ref(items, join),
        ValueRef::Record(record) => fold_nested_ref(record, join),
    }
}

fn fold_items_value(items: &[Value], join: impl Join) -> u64 {
    let mut sum = 0;
    for item in items {
        sum = join(sum, word_of_value(item, join));
    }
    sum
}

#[inline(always)]
fn word_of_value(value: &Value, join: impl Join) -> u64 {
    match value {
        Value::Null => NULL,
        Value::Bool(x) => x.word(),
        Value::Int(x) | Value::Scaled(x, _) => *x as u64,
        Value::UInt(x) => *x,
        Value::F32(x) => x.to_bits().into(),
        Value::F64(x) => x.to_bits(),
        Value::Decimal(x) => x.word(),
        Value::Timestamp(x) => x.word(),
        Value::TimeOfDay(x) => x.nanos() as u64,
        Value::Char(x) => u32::from(*x).into(),
        Value::Ascii(x) => ascii_word(x.as_bytes()),
        Value::Text(x) => bytes(x.as_bytes()),
        Value::Binary(x) => bytes(x),
        Value::Enum(ordinal) => (*ordinal).into(),
        Value::Array(items) => fold_items_value(items, join),
        Value::Record(record) => fold_value(record, join),
    }
}

/// A text of up to eight characters has the same word at every width.
#[inline(always)]
fn ascii_word(padded: &[u8]) -> u64 {
    let word = |eight: &[u8]| eight.first_chunk().map_or(0, |eight| u64::from_le_bytes(*eight));
    if padded.len() == 16 { word(padded) ^ word(&padded[8..]) } else { word(padded) }
}

fn bytes(content: &[u8]) -> u64 {
    content.iter().fold(content.len() as u64, |sum, byte| sum.wrapping_mul(31).wrapping_add((*byte).into()))
}

/// Folds fields in the given order into a word.
macro_rules! fold {
    ($join:expr, $($field:expr),*) => {{
        let mut sum = 0u64;
        $(sum = $join(sum, Word::word($field));)*
        sum
    }};
}

impl Fields for Bar {
    #[inline]
    fn fold(&self, join: impl Join) -> u64 {
        fold!(join, self.open, self.high, self.low, self.close, self.volume)
    }

    #[inline]
    fn fold_view(view: BarView<'_>, join: impl Join) -> u64 {
        fold!(join, view.open(), view.high(), view.low(), view.close(), view.volume())
    }
}

impl Fields for Package {
    #[inline]
    fn fold(&self, join: impl Join) -> u64 {
        let head = fold!(join, self.kind, self.source_time, self.match_time, self.sequence);
        let entries = self.entries.iter().fold(0, |sum, entry| join(sum, fold_entry(entry, join)));
        join(head, entries)
    }

    #[inline]
    fn fold_view(view: PackageView<'_>, join: impl Join) -> u64 {
        let head = fold!(join, view.kind(), view.source_time(), view.match_time(), view.sequence());
        let entries = view.entries().iter().fold(0, |sum, entry| join(sum, fold_entry_view(entry, join)));
        join(head, entries)
    }
}

#[inline]
fn fold_entry(entry: &Entry, join: impl Join) -> u64 {
    match entry {
        Entry::Trade(x) => {
            fold!(join, x.exchange, x.price, x.size, x.aggressor, x.id, x.condition, x.suspicious)
        }
        Entry::Level1(x) => {
            fold!(join, x.side, x.price, x.size, x.orders, x.exchange, x.condition, x.suspicious)
        }
        Entry::Level2Snapshot(x) => fold!(join, x.side, x.level, x.price, x.size, x.orders, x.exchange),
        Entry::Level2Update(x) => {
            fold!(join, x.action, x.side, x.level, x.price, x.size, x.orders, x.exchange)
        }
        Entry::SequenceRange(x) => fold!(join, x.first, x.previous),
    }
}

#[inline]
fn fold_entry_view(entry: EntryView<'_>, join: impl Join) -> u64 {
    match entry {
        EntryView::Trade(x) => fold!(
            join,
            x.exchange(),
            x.price(),
            x.size(),
            x.aggressor(),
            x.id(),
            x.condition(),
            x.suspicious()
        ),
        EntryView::Level1(x) => {
            fold!(
                join,
                x.side(),
                x.price(),
                x.size(),
                x.orders(),
                x.exchange(),
                x.condition(),
                x.suspicious()
            )
        }
        EntryView::Level2Snapshot(x) => {
            fold!(join, x.side(), x.level(), x.price(), x.size(), x.orders(), x.exchange())
        }
        EntryView::Level2Update(x) => {
            fold!(join, x.action(), x.side(), x.level(), x.price(), x.size(), x.orders(), x.exchange())
        }
        EntryView::SequenceRange(x) => fold!(join, x.first(), x.previous()),
    }
}

/// A field's value in one word.
trait Word {
    fn word(self) -> u64;
}

macro_rules! words {
    ($($type:ty: |$value:ident| $word:expr;)*) => {
        $(impl Word for $type {
            #[inline]
            fn word(self) -> u64 {
                let $value = self;
                $word
            }
        })*
    };
}

words! {
    u64: |x| x;
    u32: |x| x.into();
    u16: |x| x.into();
    bool: |x| x.into();
    Timestamp: |x| x.0 as u64;
    Decimal64: |x| x.to_bits();
    Ascii<8>: |x| u64::from_le_bytes(*x.as_bytes());
    // An enum's variants are in the order of its symbols.
    Side: |x| x as u64;
    Aggressor: |x| x as u64;
    PackageKind: |x| x as u64;
    BookAction: |x| x as u64;
}

impl<T: Word> Word for Option<T> {
    #[inline]
    fn word(self) -> u64 {
        self.map_or(NULL, Word::word)
    }
}

impl<T: Word + Copy> Word for &T {
    #[inline]
    fn word(self) -> u64 {
        (*self).word()
    }
}
