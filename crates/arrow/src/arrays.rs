//! Builds Arrow arrays from the columns of a chunk, without rows.
//!
//! A stored column has only the values that are present; an Arrow array has a slot for each. A [`Level`] states which slots the
//! values belong to.

use crate::decimals::to_units;
use crate::error::Error;
use crate::tree::{Alternative, Content, Node, fields, union_fields};
use crate::types::{Decimals, Leaf, Symbols, ZONE, digits_of};
use arrow_array::types::{Int32Type, *};
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BinaryViewArray, BooleanArray, Decimal128Array, DictionaryArray,
    ListArray, PrimitiveArray, StringArray, StringViewArray, StructArray, TimestampNanosecondArray,
};
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::Fields;
use std::collections::HashMap;
use std::sync::Arc;
use tapedb_engine::{Chunk, Values};
use tapedb_schema::{Decimal64, Scalar};
use tapedb_segment::append_f64s;

/// Longest text that a view holds itself.
const INLINE_MAX: usize = 12;

/// Slots of an array, and which of them the values of a column belong to.
#[derive(Debug)]
pub(crate) struct Level {
    /// Slots.
    len: usize,
    /// Slot of each value; `None`: each slot has one.
    slots: Option<Vec<u32>>,
    /// Messages of the slots; `None`: the slots are the messages.
    rows: Option<Arc<Rows>>,
}

/// The messages that items belong to, for errors.
#[derive(Debug)]
struct Rows {
    /// The items of each slot above.
    offsets: OffsetBuffer<i32>,
    above: Option<Arc<Rows>>,
}

impl Rows {
    fn row(&self, item: usize) -> usize {
        let slot = self.offsets.partition_point(|offset| *offset as usize <= item).saturating_sub(1);
        self.above.as_ref().map_or(slot, |above| above.row(slot))
    }
}

impl Level {
    /// One value for each message.
    pub fn of_messages(len: usize) -> Self {
        Self { len, slots: None, rows: None }
    }

    /// Slots without values.
    fn of_nothing(len: usize) -> Self {
        Self { len, slots: Some(Vec::new()), rows: None }
    }

    /// Whether there are slots, and no values for them.
    fn has_nothing(&self) -> bool {
        self.len > 0 && self.slots.as_ref().is_some_and(Vec::is_empty)
    }

    fn slot(&self, value: usize) -> usize {
        self.slots.as_ref().map_or(value, |slots| slots[value] as usize)
    }

    fn row(&self, value: usize) -> usize {
        let slot = self.slot(value);
        self.rows.as_ref().map_or(slot, |rows| rows.row(slot))
    }

    /// The values that one of `marks` equals `wanted` for, and the slots that have none of them. `same`: what all marks are, if that
    /// is known.
    fn only(&self, marks: &[i64], same: Option<i64>, wanted: i64) -> (Self, Option<NullBuffer>) {
        let rows = self.rows.clone();
        let are_all = same.map_or_else(|| are_all(marks, wanted), |same| same == wanted);
        if self.slots.is_none() && are_all {
            return (Self { len: self.len, slots: None, rows }, None);
        }
        if same.is_some_and(|same| same != wanted) {
            return (Self::of_nothing(self.len), Some(NullBuffer::new_null(self.len)));
        }
        let values = places_of(marks, wanted);
        let (slots, bits) = match &self.slots {
            None => {
                let bits = BooleanBuffer::collect_bool(self.len, |slot| marks.get(slot) == Some(&wanted));
                (values, bits)
            }
            Some(all) => {
                let slots: Vec<u32> = values.into_iter().map(|value| all[value as usize]).collect();
                let mut bits = BooleanBufferBuilder::new(self.len);
                bits.append_n(self.len, false);
                slots.iter().for_each(|slot| bits.set_bit(*slot as usize, true));
                (slots, bits.finish())
            }
        };
        (Self { len: self.len, slots: Some(slots), rows }, Some(NullBuffer::new(bits)))
    }

    /// A value for each slot: zero where there is none.
    fn spread<T: Copy + Default>(&self, values: impl Iterator<Item = T>) -> Vec<T> {
        match &self.slots {
            None => values.collect(),
            Some(slots) => {
                let mut out = vec![T::default(); self.len];
                slots.iter().zip(values).for_each(|(slot, value)| out[*slot as usize] = value);
                out
            }
        }
    }
}

/// Whether all marks are `wanted`. A comparison for each would be a branch for each.
fn are_all(marks: &[i64], wanted: i64) -> bool {
    marks.chunks(64).all(|marks| marks.iter().fold(0, |differs, mark| differs | (mark ^ wanted)) == 0)
}

/// Where `wanted` stands. Without a branch for each mark: which of them it is, is hard to foresee.
fn places_of(marks: &[i64], wanted: i64) -> Vec<u32> {
    let (mut places, mut to) = (vec![0; marks.len()], 0);
    for (place, mark) in (0..).zip(marks) {
        places[to] = place;
        to += usize::from(*mark == wanted);
    }
    places.truncate(to);
    places
}

/// What batches share, as slices, by the node or alternative that it is of. An alternative that no message has would otherwise cost as
/// many zeros as one that all have, and a field that is always the same as much as one that is not.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// Arrays without values.
    absent: HashMap<usize, ArrayRef>,
    /// Arrays of one number in each slot, and the number.
    same: HashMap<usize, (i64, ArrayRef)>,
    /// Of lists that have an item each.
    single: Option<OffsetBuffer<i32>>,
}

impl Shared {
    /// The offsets of `len` lists that have an item each.
    fn single(&mut self, len: usize) -> OffsetBuffer<i32> {
        let single = self.single.take().filter(|single| single.len() > len);
        let single = single.unwrap_or_else(|| OffsetBuffer::from_repeated_length(1, len));
        self.single.insert(single).slice(0, len)
    }
}

/// Builds the arrays of one chunk.
#[derive(Debug)]
pub(crate) struct Arrays<'a> {
    pub chunk: Chunk<'a>,
    pub decimals: Decimals,
    /// Messages before the chunk, for errors.
    pub rows_before: usize,
    /// Of chunks before, of the same nodes and decimals.
    pub shared: &'a mut Shared,
}

impl<'a> Arrays<'a> {
    /// The array of a field or item.
    ///
    /// # Errors
    /// For decimals that are not exact in the type asked for, and more values than an array can have.
    pub fn array(&mut self, node: &Node, level: &Level) -> Result<ArrayRef, Error> {
        match node.presence {
            None => self.content(node, level, None),
            Some(column) => {
                let (level, nulls) = level.only(self.ints(column), self.same(column), 1);
                self.content(node, &level, nulls)
            }
        }
    }

    fn content(&mut self, node: &Node, level: &Level, nulls: Option<NullBuffer>) -> Result<ArrayRef, Error> {
        if level.has_nothing() {
            let has_nulls = nulls.is_some();
            return self.absent(std::ptr::from_ref(node).addr(), level.len, |arrays, len| {
                arrays.values(node, &Level::of_nothing(len), has_nulls.then(|| NullBuffer::new_null(len)))
            });
        }
        if let Content::Leaf(_, column) = node.content
            && level.slots.is_none()
            && nulls.is_none()
            && let Some(value) = self.same(column)
        {
            return self.of_same(std::ptr::from_ref(node).addr(), value, level.len, |arrays| {
                arrays.values(node, level, None)
            });
        }
        self.values(node, level, nulls)
    }

    /// `len` slots with this number each, of what has this address; `build` makes them.
    fn of_same(
        &mut self,
        address: usize,
        value: i64,
        len: usize,
        build: impl FnOnce(&mut Self) -> Result<ArrayRef, Error>,
    ) -> Result<ArrayRef, Error> {
        let found = self.shared.same.get(&address);
        if let Some((_, array)) = found.filter(|(of, array)| *of == value && array.len() >= len) {
            return Ok(array.slice(0, len));
        }
        let array = build(self)?;
        self.shared.same.insert(address, (value, array.clone()));
        Ok(array)
    }

    /// `len` slots without values, of what has this address; `build` makes at least so many.
    fn absent(
        &mut self,
        address: usize,
        len: usize,
        build: impl FnOnce(&mut Self, usize) -> Result<ArrayRef, Error>,
    ) -> Result<ArrayRef, Error> {
        if let Some(array) = self.shared.absent.get(&address).filter(|array| array.len() >= len) {
            return Ok(array.slice(0, len));
        }
        let array = build(self, len.next_power_of_two())?;
        let slice = array.slice(0, len);
        self.shared.absent.insert(address, array);
        Ok(slice)
    }

    fn values(&mut self, node: &Node, level: &Level, nulls: Option<NullBuffer>) -> Result<ArrayRef, Error> {
        match &node.content {
            Content::Leaf(leaf, column) => self.leaf(&node.name, leaf, *column, level, nulls),
            Content::Whole(_, column) => self.binary(*column, level, nulls),
            Content::List(counts, item) => self.list(node, (*counts, item), level, nulls),
            Content::Struct(_, nodes) => self.record(nodes, level, nulls),
            Content::Union(tags, alternatives) => self.union(*tags, alternatives, level, nulls),
        }
    }

    fn ints(&self, column: usize) -> &'a [i64] {
        match self.chunk.column(column).values() {
            Values::Ints(values) => values,
            _ => unreachable!("the plan has numbers in this column"),
        }
    }

    /// What all numbers of a column are, if that is known.
    fn same(&self, column: usize) -> Option<i64> {
        self.chunk.column(column).same()
    }

    fn leaf(
        &self,
        name: &str,
        leaf: &Leaf,
        column: usize,
        level: &Level,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef, Error> {
        match leaf {
            Leaf::Scalar(scalar) => self.scalar(name, *scalar, column, level, nulls),
            Leaf::String => self.text(column, level, nulls),
            Leaf::Binary => self.binary(column, level, nulls),
            Leaf::Enum(symbols) => self.enumeration(symbols, column, level, nulls),
        }
    }

    fn scalar(
        &self,
        name: &str,
        scalar: Scalar,
        column: usize,
        level: &Level,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef, Error> {
        Ok(match scalar {
            Scalar::Bool => {
                let values = level.spread(self.ints(column).iter().map(|value| *value != 0));
                Arc::new(BooleanArray::new(values.into(), nulls))
            }
            Scalar::I8 => self.numbers::<Int8Type>(column, level, nulls, |value| value as i8),
            Scalar::I16 => self.numbers::<Int16Type>(column, level, nulls, |value| value as i16),
            Scalar::I32 => self.numbers::<Int32Type>(column, level, nulls, |value| value as i32),
            Scalar::I64 => self.numbers::<Int64Type>(column, level, nulls, |value| value),
            Scalar::U8 => self.numbers::<UInt8Type>(column, level, nulls, |value| value as u8),
            Scalar::U16 => self.numbers::<UInt16Type>(column, level, nulls, |value| value as u16),
            Scalar::U32 => self.numbers::<UInt32Type>(column, level, nulls, |value| value as u32),
            Scalar::U64 => self.numbers::<UInt64Type>(column, level, nulls, |value| value as u64),
            Scalar::F32 => match self.chunk.column(column).values() {
                Values::F32s(values) => primitive::<Float32Type>(level.spread(values.iter().copied()), nulls),
                _ => unreachable!("the plan has f32 in this column"),
            },
            Scalar::F64 => match self.chunk.column(column).values() {
                Values::F64s(values) => primitive::<Float64Type>(level.spread(values.iter().copied()), nulls),
                _ => unreachable!("the plan has f64 in this column"),
            },
            Scalar::Decimal64 => self.decimals(name, column, level, nulls)?,
            Scalar::Decimal(scale) => self.scaled(name, scale, column, level, nulls)?,
            Scalar::Timestamp => {
                let values = level.spread(self.ints(column).iter().copied());
                Arc::new(TimestampNanosecondArray::new(values.into(), nulls).with_timezone(ZONE))
            }
            Scalar::TimeOfDay => self.numbers::<Time64NanosecondType>(column, level, nulls, |value| value),
            Scalar::Char => {
                let text = |value: &i64| {
                    let mut bytes = [0; 4];
                    let text = char::from_u32(*value as u32).unwrap_or_default().encode_utf8(&mut bytes);
                    inline(text.as_bytes())
                };
                strings(level.spread(self.ints(column).iter().map(text)), Vec::new(), nulls)?
            }
            Scalar::Ascii(_) => self.text(column, level, nulls)?,
        })
    }

    fn numbers<T: ArrowPrimitiveType>(
        &self,
        column: usize,
        level: &Level,
        nulls: Option<NullBuffer>,
        narrow: impl Fn(i64) -> T::Native,
    ) -> ArrayRef {
        primitive::<T>(level.spread(self.ints(column).iter().map(|value| narrow(*value))), nulls)
    }

    fn decimals(
        &self,
        name: &str,
        column: usize,
        level: &Level,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef, Error> {
        let bits = self.ints(column);
        match self.decimals {
            Decimals::Raw => Ok(self.numbers::<UInt64Type>(column, level, nulls, |bits| bits as u64)),
            Decimals::Float64 => {
                let mut floats = Vec::new();
                append_f64s(bits, &mut floats);
                let floats = if level.slots.is_some() { level.spread(floats.into_iter()) } else { floats };
                Ok(primitive::<Float64Type>(floats, nulls))
            }
            Decimals::Decimal128 { precision, scale } => {
                let mut units = Vec::with_capacity(bits.len());
                for (value, bits) in bits.iter().enumerate() {
                    let decimal = Decimal64::from_bits(*bits as u64);
                    units.push(to_units(decimal, precision, scale).ok_or_else(|| {
                        self.inexact(name, level, value, format!("{decimal}"), precision, scale)
                    })?);
                }
                decimal128(level.spread(units.into_iter()), nulls, precision, scale)
            }
        }
    }

    fn scaled(
        &self,
        name: &str,
        scale: u8,
        column: usize,
        level: &Level,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef, Error> {
        let (values, precision) = (self.ints(column), digits_of(self.decimals));
        let limit = 10u128.pow(precision.into());
        let too_long = |value: &i64| u128::from(value.unsigned_abs()) >= limit;
        if let Some(value) = values.iter().position(too_long) {
            let units = format!("{} units of 10^-{scale}", values[value]);
            return Err(self.inexact(name, level, value, units, precision, scale));
        }
        decimal128(level.spread(values.iter().map(|value| i128::from(*value))), nulls, precision, scale)
    }

    #[cold]
    fn inexact(
        &self,
        name: &str,
        level: &Level,
        value: usize,
        text: String,
        precision: u8,
        scale: u8,
    ) -> Error {
        let what = format!("{text} is not exact in Decimal128({precision}, {scale}); use the lossless mode");
        Error::value(name, self.rows_before + level.row(value), what)
    }

    fn enumeration(
        &self,
        symbols: &Symbols,
        column: usize,
        level: &Level,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef, Error> {
        let keys = level.spread(self.ints(column).iter().map(|ordinal| *ordinal as i32));
        dictionary(keys, nulls, symbols.values.clone())
    }

    fn text(&self, column: usize, level: &Level, nulls: Option<NullBuffer>) -> Result<ArrayRef, Error> {
        let (views, buffers) = self.views(column, level);
        strings(views, buffers, nulls)
    }

    fn binary(&self, column: usize, level: &Level, nulls: Option<NullBuffer>) -> Result<ArrayRef, Error> {
        let (views, buffers) = self.views(column, level);
        Ok(Arc::new(BinaryViewArray::try_new(views.into(), buffers, nulls)?))
    }

    fn views(&self, column: usize, level: &Level) -> (Vec<u128>, Vec<Buffer>) {
        match self.chunk.column(column).values() {
            Values::Bytes(ends, content) => {
                let mut start = 0;
                let view = |end: &u32| {
                    let from = std::mem::replace(&mut start, *end);
                    view(from, &content[from as usize..*end as usize])
                };
                let views = level.spread(ends.iter().map(view));
                let is_inline = views.iter().all(|view| (*view as u32) as usize <= INLINE_MAX);
                let buffers = if is_inline { Vec::new() } else { vec![Buffer::from(content)] };
                (views, buffers)
            }
            // `ascii(n)` of up to eight bytes: the first byte is the lowest, zeros pad it.
            Values::Ints(values) => {
                let view = |value: &i64| {
                    let length = 8 - value.leading_zeros() / 8;
                    u128::from(*value as u64) << 32 | u128::from(length)
                };
                (level.spread(values.iter().map(view)), Vec::new())
            }
            _ => unreachable!("the plan has texts in this column"),
        }
    }

    fn list(
        &mut self,
        node: &Node,
        (counts, item): (usize, &Node),
        level: &Level,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef, Error> {
        let numbers = || self.ints(counts).iter().map(|count| *count as usize);
        let len: usize = numbers().sum();
        if i32::try_from(len).is_err() {
            let what = format!("{len} items in one chunk are more than a list array holds");
            return Err(Error::schema(&node.name, what));
        }
        let offsets = match &level.slots {
            None if self.same(counts) == Some(1) => self.shared.single(level.len),
            None => OffsetBuffer::from_lengths(numbers()),
            Some(_) => OffsetBuffer::from_lengths(level.spread(numbers())),
        };
        let rows = Arc::new(Rows { offsets: offsets.clone(), above: level.rows.clone() });
        let values = self.array(item, &Level { len, slots: None, rows: Some(rows) })?;
        Ok(Arc::new(ListArray::try_new(Arc::new(item.field(self.decimals)), offsets, values, nulls)?))
    }

    fn record(
        &mut self,
        nodes: &[Node],
        level: &Level,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef, Error> {
        let arrays = nodes.iter().map(|node| self.array(node, level)).collect::<Result<_, _>>()?;
        structure(fields(nodes, self.decimals), arrays, level.len, nulls)
    }

    fn union(
        &mut self,
        tags: usize,
        alternatives: &[Alternative],
        level: &Level,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef, Error> {
        let (marks, same) = (self.ints(tags), self.same(tags));
        let build = |_: &mut Self| {
            let names = StringArray::from_iter_values(alternatives.iter().map(|found| &found.name));
            dictionary(level.spread(marks.iter().map(|tag| *tag as i32)), None, Arc::new(names))
        };
        let keys = match same.filter(|_| level.slots.is_none()) {
            Some(tag) => self.of_same(alternatives.as_ptr().addr(), tag, level.len, build)?,
            None => build(self)?,
        };
        let mut arrays = vec![keys];
        for (tag, alternative) in (0..).zip(alternatives) {
            let (level, nulls) = level.only(marks, same, tag);
            let nodes = &alternative.nodes;
            arrays.push(if level.has_nothing() {
                self.absent(std::ptr::from_ref(alternative).addr(), level.len, |arrays, len| {
                    arrays.record(nodes, &Level::of_nothing(len), Some(NullBuffer::new_null(len)))
                })?
            } else {
                self.record(nodes, &level, nulls)?
            });
        }
        structure(union_fields(alternatives, self.decimals), arrays, level.len, nulls)
    }
}

fn primitive<T: ArrowPrimitiveType>(values: Vec<T::Native>, nulls: Option<NullBuffer>) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(ScalarBuffer::from(values), nulls))
}

fn decimal128(
    values: Vec<i128>,
    nulls: Option<NullBuffer>,
    precision: u8,
    scale: u8,
) -> Result<ArrayRef, Error> {
    let array = Decimal128Array::new(values.into(), nulls);
    Ok(Arc::new(array.with_precision_and_scale(precision, scale as i8)?))
}

fn strings(views: Vec<u128>, buffers: Vec<Buffer>, nulls: Option<NullBuffer>) -> Result<ArrayRef, Error> {
    Ok(Arc::new(StringViewArray::try_new(views.into(), buffers, nulls)?))
}

/// A dictionary array.
///
/// # Errors
/// For keys without a value.
pub(crate) fn dictionary(
    keys: Vec<i32>,
    nulls: Option<NullBuffer>,
    values: ArrayRef,
) -> Result<ArrayRef, Error> {
    let keys = PrimitiveArray::<Int32Type>::new(keys.into(), nulls);
    Ok(Arc::new(DictionaryArray::try_new(keys, values)?))
}

fn structure(
    fields: Fields,
    arrays: Vec<Arc<dyn Array>>,
    len: usize,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, Error> {
    if arrays.is_empty() {
        return Ok(Arc::new(StructArray::new_empty_fields(len, nulls)));
    }
    Ok(Arc::new(StructArray::try_new(fields, arrays, nulls)?))
}

/// The view of a text that begins at `start` of the first buffer.
fn view(start: u32, text: &[u8]) -> u128 {
    match text.first_chunk::<4>() {
        Some(prefix) if text.len() > INLINE_MAX => {
            let prefix = u128::from(u32::from_le_bytes(*prefix)) << 32;
            u128::from(start) << 96 | prefix | text.len() as u128
        }
        _ => inline(text),
    }
}

/// The view of a text of up to [`INLINE_MAX`] bytes.
fn inline(text: &[u8]) -> u128 {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&(text.len() as u32).to_le_bytes());
    bytes[4..4 + text.len()].copy_from_slice(text);
    u128::from_le_bytes(bytes)
}
