//! Record batches as slices that the loader takes: where each column is one as it is, or after one pass over it.

use crate::decimals::from_f64s;
use crate::header::{SYMBOL, TIME};
use crate::keys::keys_of;
use crate::tree::{Content, Node, Tree};
use crate::types::{DECIMAL64_BITS, Leaf, TYPE_KEY};
use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, TimeUnit};
use tapedb_engine::{FieldValues, InputColumn, MessageColumns, Symbols, Validity};
use tapedb_schema::{Decimal64, Scalar};

/// The columns of a record batch.
#[derive(Debug)]
pub(crate) struct Slices<'a> {
    times: &'a [i64],
    symbols: Texts<'a>,
    fields: Vec<(&'a str, Held<'a>, Option<Validity<'a>>)>,
}

/// A column, or what it was made into.
#[derive(Debug)]
enum Held<'a> {
    Slice(FieldValues<'a>),
    Bools(Vec<bool>),
    Decimals(Vec<Decimal64>),
    Texts(Texts<'a>),
    Binaries(Vec<&'a [u8]>),
}

/// Texts, each its own, or of few that occur often.
#[derive(Debug)]
enum Texts<'a> {
    Each(Vec<&'a str>),
    Keys(Vec<&'a str>, Vec<u32>),
}

impl<'a> Slices<'a> {
    /// The columns of a batch for the fields of a record type. `None`: one of them is not a slice, is missing or does not fit; then
    /// reading value by value converts it, or says what is wrong.
    pub fn of(batch: &'a RecordBatch, tree: &'a Tree, naive_is_utc: bool) -> Option<Self> {
        let schema = batch.schema_ref();
        let column = |name: &str| {
            let mut found = schema.fields().iter().enumerate().filter(|(_, field)| field.name() == name);
            let (index, field) = found.next()?;
            found.next().is_none().then(|| (batch.column(index), &**field))
        };
        let (times, _) = column(TIME)?;
        let (symbols, _) = column(SYMBOL)?;
        let mut fields = Vec::with_capacity(tree.nodes.len());
        for node in &tree.nodes {
            // The loader refuses those that must not be missing.
            if schema.fields().iter().any(|field| *field.name() == node.name) {
                let (array, field) = column(&node.name)?;
                fields.push((node.name.as_str(), held(node, array, field)?, validity(array)?));
            }
        }
        if batch.num_columns() != fields.len() + 2 {
            return None;
        }
        Some(Self {
            times: times_of(times, naive_is_utc)?,
            symbols: texts(symbols).filter(|_| symbols.null_count() == 0)?,
            fields,
        })
    }

    /// The times of the rows.
    pub fn times(&self) -> &'a [i64] {
        self.times
    }

    /// Latest time.
    pub fn time_max(&self) -> Option<i64> {
        self.times.iter().copied().max()
    }

    /// The columns for the loader.
    pub fn columns<'b>(&'b self, record: &'b str) -> MessageColumns<'b> {
        let symbols = match &self.symbols {
            Texts::Each(names) => Symbols::Names(names),
            Texts::Keys(names, keys) => Symbols::Dictionary { names, keys },
        };
        let fields = self.fields.iter();
        fields.fold(MessageColumns::new(record, self.times, symbols), |columns, (name, held, validity)| {
            columns.column(InputColumn { name, values: held.values(), validity: *validity })
        })
    }
}

impl Held<'_> {
    fn values(&self) -> FieldValues<'_> {
        match self {
            Self::Slice(values) => *values,
            Self::Bools(values) => FieldValues::Bools(values),
            Self::Decimals(values) => FieldValues::Decimals(values),
            Self::Texts(Texts::Each(texts)) => FieldValues::Texts(texts),
            Self::Texts(Texts::Keys(texts, keys)) => FieldValues::Dictionary { texts, keys },
            Self::Binaries(values) => FieldValues::Binaries(values),
        }
    }
}

fn times_of(array: &ArrayRef, naive_is_utc: bool) -> Option<&[i64]> {
    match array.data_type() {
        DataType::Timestamp(TimeUnit::Nanosecond, zone) if zone.is_some() || naive_is_utc => {
            let times = array.as_primitive::<TimestampNanosecondType>();
            (times.null_count() == 0).then(|| &times.values()[..])
        }
        _ => None,
    }
}

/// Which rows have a value, of a column that states it for each row.
fn validity(array: &ArrayRef) -> Option<Option<Validity<'_>>> {
    // Of other types nulls are stated elsewhere.
    let is_plain =
        !matches!(array.data_type(), DataType::Null | DataType::RunEndEncoded(..) | DataType::Union(..));
    let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
    is_plain.then(|| nulls.map(|nulls| Validity::Bits { bytes: nulls.validity(), offset: nulls.offset() }))
}

fn held<'a>(node: &Node, array: &'a ArrayRef, field: &Field) -> Option<Held<'a>> {
    let Content::Leaf(leaf, _) = &node.content else { return None };
    let is_decimal_bits = field.metadata().get(TYPE_KEY).is_some_and(|ty| ty == DECIMAL64_BITS);
    if node.presence.is_none() && array.null_count() > 0 {
        return None;
    }
    macro_rules! slice {
        ($type:ty, $variant:ident) => {
            Some(Held::Slice(FieldValues::$variant(array.as_primitive::<$type>().values())))
        };
    }
    use DataType as T;
    match (leaf, array.data_type()) {
        (Leaf::Scalar(Scalar::Bool), T::Boolean) => {
            Some(Held::Bools(array.as_boolean().values().iter().collect()))
        }
        (Leaf::Scalar(Scalar::I8), T::Int8) => slice!(Int8Type, I8),
        (Leaf::Scalar(Scalar::I16), T::Int16) => slice!(Int16Type, I16),
        (Leaf::Scalar(Scalar::I32), T::Int32) => slice!(Int32Type, I32),
        (Leaf::Scalar(Scalar::I64), T::Int64) => slice!(Int64Type, I64),
        (Leaf::Scalar(Scalar::U8), T::UInt8) => slice!(UInt8Type, U8),
        (Leaf::Scalar(Scalar::U16), T::UInt16) => slice!(UInt16Type, U16),
        (Leaf::Scalar(Scalar::U32), T::UInt32) => slice!(UInt32Type, U32),
        (Leaf::Scalar(Scalar::U64), T::UInt64) if !is_decimal_bits => slice!(UInt64Type, U64),
        (Leaf::Scalar(Scalar::F32), T::Float32) => slice!(Float32Type, F32),
        (Leaf::Scalar(Scalar::F64), T::Float64) => slice!(Float64Type, F64),
        (Leaf::Scalar(Scalar::Timestamp), T::Timestamp(TimeUnit::Nanosecond, Some(_))) => {
            slice!(TimestampNanosecondType, I64)
        }
        (Leaf::Scalar(Scalar::TimeOfDay), T::Time64(TimeUnit::Nanosecond)) => {
            slice!(Time64NanosecondType, I64)
        }
        (Leaf::Scalar(Scalar::Decimal64), T::Float64) => decimals_of_floats(array),
        (Leaf::Scalar(Scalar::Decimal64), T::UInt64) if is_decimal_bits => {
            let bits = array.as_primitive::<UInt64Type>().values();
            let decimals: Vec<Decimal64> = bits.iter().map(|bits| Decimal64::from_bits(*bits)).collect();
            // Nulls may have any bits.
            let is_right = |(row, decimal): (usize, &Decimal64)| decimal.is_canonical() || array.is_null(row);
            decimals.iter().enumerate().all(is_right).then_some(Held::Decimals(decimals))
        }
        (Leaf::Scalar(Scalar::Ascii(_)) | Leaf::String | Leaf::Enum(_), _) => texts(array).map(Held::Texts),
        (Leaf::Binary, T::Binary) => Some(Held::Binaries(binaries(array.as_binary::<i32>().iter()))),
        (Leaf::Binary, T::LargeBinary) => Some(Held::Binaries(binaries(array.as_binary::<i64>().iter()))),
        (Leaf::Binary, T::BinaryView) => Some(Held::Binaries(binaries(array.as_binary_view().iter()))),
        _ => None,
    }
}

fn binaries<'a>(values: impl Iterator<Item = Option<&'a [u8]>>) -> Vec<&'a [u8]> {
    values.map(Option::unwrap_or_default).collect()
}

fn decimals_of_floats(array: &ArrayRef) -> Option<Held<'_>> {
    let floats = array.as_primitive::<Float64Type>();
    let mut decimals = Vec::with_capacity(floats.len());
    from_f64s(floats.values(), |row| floats.is_null(row), &mut decimals).then_some(Held::Decimals(decimals))
}

/// Texts of any kind of array of them; those of nulls are empty.
fn texts(array: &ArrayRef) -> Option<Texts<'_>> {
    if let DataType::Dictionary(..) = array.data_type() {
        let dictionary = array.as_any_dictionary();
        let values = dictionary.values();
        // A null among the values makes rows null that the array itself does not state.
        if values.null_count() > 0 || values.is_empty() {
            return None;
        }
        let keys = keys_of(dictionary.keys(), values.len()).ok()?.into_iter().map(|key| key as u32).collect();
        return Some(Texts::Keys(each(values)?, keys));
    }
    each(array).map(Texts::Each)
}

fn each(array: &ArrayRef) -> Option<Vec<&str>> {
    match array.data_type() {
        DataType::Utf8 => Some(array.as_string::<i32>().iter().map(Option::unwrap_or_default).collect()),
        DataType::LargeUtf8 => Some(array.as_string::<i64>().iter().map(Option::unwrap_or_default).collect()),
        DataType::Utf8View => Some(array.as_string_view().iter().map(Option::unwrap_or_default).collect()),
        _ => None,
    }
}
