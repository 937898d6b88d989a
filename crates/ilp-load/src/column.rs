//! The values of one field, gathered line by line.

use crate::dictionary::Dictionary;
use crate::names::utf8;
use tapedb_codec::batch::{FieldValues, InputColumn};
use tapedb_ilp::{Array, Decimal, Number, Refusal, Value};
use tapedb_schema::{Decimal64, ElementType, Field, FieldType, Scalar};

/// A field with its values so far. Always true: there are no more values than rows, counted with the one that is being gathered.
#[derive(Debug)]
pub(crate) struct Column {
    /// Name of the field.
    pub field: String,
    /// The name as the client writes it.
    pub written: Vec<u8>,
    /// Whether the stream lacks the field.
    pub is_new: bool,
    /// Whether a row may lack a value.
    pub is_nullable: bool,
    ty: FieldType,
    values: Values,
    /// Which rows have a value; `None`: all so far.
    validity: Option<Vec<bool>>,
}

#[derive(Debug)]
enum Values {
    F64(Vec<f64>),
    F32(Vec<f32>),
    /// Of a type of these bounds.
    Int(Vec<i64>, i64, i64),
    U64(Vec<u64>),
    Bool(Vec<bool>),
    Time(Vec<i64>),
    Decimal(Vec<Decimal64>),
    Scaled(Vec<i64>, u8),
    /// Texts one after another, and where each ends.
    Texts(Vec<u8>, Vec<usize>),
    Dictionary(Box<Dictionary>),
    Array(ArrayValues),
    /// A type that no value of the line protocol becomes.
    Other,
}

/// Arrays of one number of dimensions. Each dimension has, for each of its lists, where it ends in the next one.
#[derive(Debug)]
struct ArrayValues {
    offsets: Vec<Vec<u32>>,
    items: Vec<f64>,
}

impl Column {
    /// For a field that the stream has.
    pub fn of_field(field: &Field, written: &[u8]) -> Self {
        let values = match &field.ty {
            FieldType::Scalar(scalar) => values_of(*scalar),
            FieldType::String | FieldType::Enum(_) => Values::Dictionary(Box::default()),
            ty @ FieldType::Array(_) => match dimensions_of(ty) {
                Some(dimensions) => Values::Array(ArrayValues::new(dimensions)),
                None => Values::Other,
            },
            FieldType::Binary | FieldType::Record(_) => Values::Other,
        };
        Self {
            field: field.name.clone(),
            written: written.into(),
            is_new: false,
            is_nullable: field.nullable,
            ty: field.ty.clone(),
            values,
            validity: None,
        }
    }

    /// For a field that the stream does not have: of the type of its first value. `None`: there is no value.
    pub fn of_value(field: String, written: &[u8], value: Value<'_>, is_tag: bool) -> Option<Self> {
        let scalar = |scalar| (FieldType::Scalar(scalar), values_of(scalar));
        let (ty, values) = match value {
            Value::F64(_) => scalar(Scalar::F64),
            Value::I64(_) => scalar(Scalar::I64),
            Value::U64(_) => scalar(Scalar::U64),
            Value::Bool(_) => scalar(Scalar::Bool),
            Value::Time(_) => scalar(Scalar::Timestamp),
            Value::Decimal(_) => scalar(Scalar::Decimal64),
            Value::Text(_) if is_tag => (FieldType::String, Values::Dictionary(Box::default())),
            Value::Text(_) => (FieldType::String, Values::Texts(Vec::new(), Vec::new())),
            Value::Array(array) => {
                let dimensions = array.dimensions();
                let mut ty = FieldType::Scalar(Scalar::F64);
                for _ in 0..dimensions {
                    ty = FieldType::Array(Box::new(ElementType { ty, nullable: false }));
                }
                (ty, Values::Array(ArrayValues::new(dimensions)))
            }
            Value::Null => return None,
        };
        let written = written.into();
        Some(Self { field, written, is_new: true, is_nullable: true, ty, values, validity: None })
    }

    /// The field, for a schema that lacks it.
    pub fn schema_field(&self) -> Field {
        let written = String::from_utf8_lossy(&self.written);
        let is_shown = written != self.field && !written.chars().any(char::is_control);
        let doc = if is_shown { format!("{written:?} in the line protocol") } else { String::new() };
        Field {
            name: self.field.clone(),
            ty: self.ty.clone(),
            nullable: true,
            default: None,
            aliases: Vec::new(),
            doc,
        }
    }

    #[inline]
    pub fn len(&self) -> usize {
        match &self.values {
            Values::F64(values) => values.len(),
            Values::F32(values) => values.len(),
            Values::Int(values, ..) | Values::Time(values) | Values::Scaled(values, _) => values.len(),
            Values::U64(values) => values.len(),
            Values::Bool(values) => values.len(),
            Values::Decimal(values) => values.len(),
            Values::Texts(_, ends) => ends.len(),
            Values::Dictionary(dictionary) => dictionary.keys.len(),
            Values::Array(array) => array.offsets[0].len() - 1,
            Values::Other => 0,
        }
    }

    /// Adds the value of a row.
    #[inline]
    pub fn push(&mut self, row: usize, value: Value<'_>) -> Result<(), Refusal> {
        let have = self.len();
        if have != row {
            self.fill(row)?;
        }
        self.push_value(value)?;
        if let Some(validity) = &mut self.validity {
            validity.push(true);
        }
        Ok(())
    }

    #[inline]
    fn push_value(&mut self, value: Value<'_>) -> Result<(), Refusal> {
        match (&mut self.values, value) {
            (Values::F64(values), Value::F64(number)) => values.push(number.value),
            (Values::Int(values, least, most), Value::I64(number)) => {
                if !(*least..=*most).contains(&number) {
                    return Err(self.does_not_fit(&number.to_string()));
                }
                values.push(number);
            }
            (Values::U64(values), Value::U64(number)) => values.push(number),
            (Values::Bool(values), Value::Bool(value)) => values.push(value),
            (Values::Time(values), Value::Time(time)) => values.push(time),
            (Values::Dictionary(dictionary), Value::Text(text)) => {
                let number = dictionary.number_of(text)?;
                dictionary.keys.push(number);
            }
            (Values::Texts(bytes, ends), Value::Text(text)) => {
                let begin = bytes.len();
                text.write_to(bytes);
                utf8(&bytes[begin..], "text")?;
                ends.push(bytes.len());
            }
            (_, value) => return self.push_converted(value),
        }
        Ok(())
    }

    /// Values of another type, as far as they are exactly the same.
    fn push_converted(&mut self, value: Value<'_>) -> Result<(), Refusal> {
        let exact = match (&mut self.values, value) {
            (Values::F64(values), Value::I64(number)) => exact_double(number.into()).map(|x| values.push(x)),
            (Values::F64(values), Value::U64(number)) => exact_double(number.into()).map(|x| values.push(x)),
            (Values::F32(values), Value::F64(Number { value, .. })) => {
                let narrow = value as f32;
                let is_same = f64::from(narrow) == value || value.is_nan();
                is_same.then(|| values.push(narrow))
            }
            (Values::Int(values, least, most), Value::U64(number)) => i64::try_from(number)
                .ok()
                .filter(|number| (*least..=*most).contains(number))
                .map(|number| values.push(number)),
            (Values::U64(values), Value::I64(number)) => {
                u64::try_from(number).ok().map(|number| values.push(number))
            }
            (Values::Decimal(values), value) => decimal_of(value)?.map(|decimal| values.push(decimal)),
            (Values::Scaled(values, scale), value) => {
                let scale = *scale;
                decimal_of(value)?.and_then(|x| x.to_scaled(scale).ok()).map(|x| values.push(x))
            }
            (Values::Array(values), Value::Array(array)) => {
                (array.dimensions() == values.offsets.len()).then(|| values.push(array)).transpose()?
            }
            _ => return Err(self.conflict(value)),
        };
        exact.ok_or_else(|| self.conflict(value))
    }

    fn conflict(&self, value: Value<'_>) -> Refusal {
        let shown = match value {
            Value::F64(number) => format!("{:?}", number.value),
            Value::I64(number) => format!("{number}i"),
            Value::U64(number) => format!("{number}u"),
            Value::Decimal(decimal) => format!("{decimal}"),
            Value::Array(array) => format!("of {} dimensions", array.dimensions()),
            _ => String::new(),
        };
        let space = if shown.is_empty() { "" } else { " " };
        format!("the field {} is {}, and the line has {}{space}{shown}", self.field, self.ty, value.kind())
            .into()
    }

    fn does_not_fit(&self, number: &str) -> Refusal {
        format!("{number} does not fit the field {}, which is {}", self.field, self.ty).into()
    }

    /// Adds nulls until there is a value for each of so many rows.
    pub fn fill(&mut self, rows: usize) -> Result<(), Refusal> {
        let have = self.len();
        if have >= rows {
            return Err(format!("the field {} is twice in the line", self.field).into());
        }
        self.validity.get_or_insert_with(|| vec![true; have]).resize(rows, false);
        match &mut self.values {
            Values::F64(values) => values.resize(rows, 0.0),
            Values::F32(values) => values.resize(rows, 0.0),
            Values::Int(values, ..) | Values::Time(values) | Values::Scaled(values, _) => {
                values.resize(rows, 0)
            }
            Values::U64(values) => values.resize(rows, 0),
            Values::Bool(values) => values.resize(rows, false),
            Values::Decimal(values) => values.resize(rows, Decimal64::default()),
            Values::Texts(bytes, ends) => ends.resize(rows, bytes.len()),
            Values::Dictionary(dictionary) => {
                if dictionary.is_empty() {
                    dictionary.number_of_name("");
                }
                dictionary.keys.resize(rows, 0);
            }
            Values::Array(array) => {
                let end = array.offsets[0].last().copied().unwrap_or_default();
                array.offsets[0].resize(rows + 1, end);
            }
            Values::Other => {}
        }
        Ok(())
    }

    /// Whether every value fits the field; else this shows when they are encoded.
    pub fn is_certain(&self) -> bool {
        match &self.ty {
            FieldType::Enum(_) | FieldType::Scalar(Scalar::Ascii(_)) => false,
            _ => !matches!(self.values, Values::Other),
        }
    }

    /// The first row that has no value.
    pub fn first_null(&self) -> Option<usize> {
        self.validity.as_ref()?.iter().position(|is_valid| !is_valid)
    }

    /// The values in the form in which an input column borrows them.
    pub fn prepared(&self) -> Prepared<'_> {
        fn narrowed<T: TryFrom<i64> + Default>(values: &[i64]) -> Vec<T> {
            values.iter().map(|value| T::try_from(*value).unwrap_or_default()).collect()
        }
        let values = match (&self.values, &self.ty) {
            (Values::Int(values, ..), FieldType::Scalar(scalar)) => match scalar {
                Scalar::I8 => Narrow::I8(narrowed(values)),
                Scalar::I16 => Narrow::I16(narrowed(values)),
                Scalar::I32 => Narrow::I32(narrowed(values)),
                Scalar::U8 => Narrow::U8(narrowed(values)),
                Scalar::U16 => Narrow::U16(narrowed(values)),
                Scalar::U32 => Narrow::U32(narrowed(values)),
                _ => Narrow::Same,
            },
            (Values::Texts(bytes, ends), _) => {
                let begins = std::iter::once(0).chain(ends.iter().copied());
                Narrow::Binaries(begins.zip(ends).map(|(begin, end)| &bytes[begin..*end]).collect())
            }
            (Values::Dictionary(dictionary), _) => Narrow::Texts(dictionary.texts()),
            _ => Narrow::Same,
        };
        Prepared { column: self, values }
    }
}

/// A column, and what of its values had to be made for an input column.
pub(crate) struct Prepared<'a> {
    column: &'a Column,
    values: Narrow<'a>,
}

enum Narrow<'a> {
    Same,
    I8(Vec<i8>),
    I16(Vec<i16>),
    I32(Vec<i32>),
    U8(Vec<u8>),
    U16(Vec<u16>),
    U32(Vec<u32>),
    Texts(Vec<&'a str>),
    Binaries(Vec<&'a [u8]>),
}

impl<'a> Prepared<'a> {
    /// Dimensions of arrays; 0 for other fields.
    pub fn dimensions(&self) -> usize {
        match &self.column.values {
            Values::Array(array) => array.offsets.len(),
            _ => 0,
        }
    }

    /// The lists of a dimension, from 1, over those of the next one; `items`: `None` for the last dimension.
    pub fn lists<'s>(&'s self, dimension: usize, items: &'s InputColumn<'s>) -> Option<InputColumn<'s>> {
        let Values::Array(array) = &self.column.values else { return None };
        let offsets = array.offsets.get(dimension - 1)?;
        let column = InputColumn::new("", FieldValues::List { offsets, items });
        Some(if dimension == 1 { self.named(column) } else { column })
    }

    /// The values of arrays, one after another.
    pub fn items(&self) -> InputColumn<'_> {
        match &self.column.values {
            Values::Array(array) => InputColumn::new("", FieldValues::F64(&array.items)),
            _ => InputColumn::new("", FieldValues::Nulls(0)),
        }
    }

    /// The values of a field that is no array.
    pub fn plain(&self) -> InputColumn<'_> {
        let values = match (&self.values, &self.column.values) {
            (Narrow::I8(values), _) => FieldValues::I8(values),
            (Narrow::I16(values), _) => FieldValues::I16(values),
            (Narrow::I32(values), _) => FieldValues::I32(values),
            (Narrow::U8(values), _) => FieldValues::U8(values),
            (Narrow::U16(values), _) => FieldValues::U16(values),
            (Narrow::U32(values), _) => FieldValues::U32(values),
            (Narrow::Binaries(values), _) => FieldValues::Binaries(values),
            (Narrow::Texts(texts), Values::Dictionary(dictionary)) => {
                FieldValues::Dictionary { texts, keys: &dictionary.keys }
            }
            (_, Values::F64(values)) => FieldValues::F64(values),
            (_, Values::F32(values)) => FieldValues::F32(values),
            (_, Values::Int(values, ..) | Values::Time(values) | Values::Scaled(values, _)) => {
                FieldValues::I64(values)
            }
            (_, Values::U64(values)) => FieldValues::U64(values),
            (_, Values::Bool(values)) => FieldValues::Bools(values),
            (_, Values::Decimal(values)) => FieldValues::Decimals(values),
            _ => FieldValues::Nulls(self.column.len()),
        };
        self.named(InputColumn::new("", values))
    }

    fn named<'s>(&'s self, mut column: InputColumn<'s>) -> InputColumn<'s> {
        column.name = &self.column.field;
        column.validity = self.column.validity.as_deref().map(Into::into);
        column
    }
}

impl ArrayValues {
    fn new(dimensions: usize) -> Self {
        Self { offsets: vec![vec![0]; dimensions], items: Vec::new() }
    }

    fn push(&mut self, array: Array<'_>) -> Result<(), Refusal> {
        let values = array.values();
        // Of a dimension of length 0 nothing is left, and an outer one may state any length.
        if values.len() == 0 {
            let end = self.offsets[0].last().copied().unwrap_or_default();
            self.offsets[0].push(end);
            return Ok(());
        }
        let mut lists = 1usize;
        for (offsets, length) in self.offsets.iter_mut().zip(array.shape()) {
            for _ in 0..lists {
                let end = offsets.last().copied().unwrap_or_default().checked_add(length);
                offsets.push(end.ok_or("the arrays of the request have more than 4 billion values")?);
            }
            lists *= length as usize;
        }
        self.items.extend(values);
        Ok(())
    }
}

fn values_of(scalar: Scalar) -> Values {
    let int = |least: i64, most: i64| Values::Int(Vec::new(), least, most);
    match scalar {
        Scalar::Bool => Values::Bool(Vec::new()),
        Scalar::I8 => int(i8::MIN.into(), i8::MAX.into()),
        Scalar::I16 => int(i16::MIN.into(), i16::MAX.into()),
        Scalar::I32 => int(i32::MIN.into(), i32::MAX.into()),
        Scalar::I64 => int(i64::MIN, i64::MAX),
        Scalar::U8 => int(0, u8::MAX.into()),
        Scalar::U16 => int(0, u16::MAX.into()),
        Scalar::U32 => int(0, u32::MAX.into()),
        Scalar::U64 => Values::U64(Vec::new()),
        Scalar::F32 => Values::F32(Vec::new()),
        Scalar::F64 => Values::F64(Vec::new()),
        Scalar::Decimal64 => Values::Decimal(Vec::new()),
        Scalar::Decimal(scale) => Values::Scaled(Vec::new(), scale),
        Scalar::Timestamp => Values::Time(Vec::new()),
        Scalar::Ascii(_) => Values::Dictionary(Box::default()),
        Scalar::TimeOfDay | Scalar::Char => Values::Other,
    }
}

/// Dimensions of an array of `f64`; `None`: its items are something else, or may be null.
fn dimensions_of(ty: &FieldType) -> Option<usize> {
    match ty {
        FieldType::Array(item) if !item.nullable => match &item.ty {
            FieldType::Scalar(Scalar::F64) => Some(1),
            ty => dimensions_of(ty).map(|dimensions| dimensions + 1),
        },
        _ => None,
    }
}

fn exact_double(number: i128) -> Option<f64> {
    let double = number as f64;
    (double as i128 == number).then_some(double)
}

/// The exact decimal of a value; `None`: it is no number.
fn decimal_of(value: Value<'_>) -> Result<Option<Decimal64>, Refusal> {
    let refuse = |what: String| -> Refusal { format!("{what} is not exact in a decimal64").into() };
    let parsed = |text: &[u8]| {
        Decimal64::parse_bytes(text)
            .map_err(|error| -> Refusal { format!("{:?}: {error}", String::from_utf8_lossy(text)).into() })
    };
    let decimal = match value {
        Value::F64(Number { text, .. }) if !text.is_empty() => parsed(text)?,
        Value::F64(Number { value, .. }) => Decimal64::from_f64(value),
        Value::I64(number) => Decimal64::from_parts(number, 0).map_err(|_| refuse(number.to_string()))?,
        Value::U64(number) => i64::try_from(number)
            .ok()
            .and_then(|number| Decimal64::from_parts(number, 0).ok())
            .ok_or_else(|| refuse(number.to_string()))?,
        Value::Decimal(Decimal::Text(text)) => parsed(text)?,
        Value::Decimal(decimal @ Decimal::Binary { scale, .. }) => {
            let mut exponent = -i32::from(scale);
            let mut unscaled = decimal.unscaled().ok_or_else(|| refuse(decimal.to_string()))?;
            // Zeros at the end that sixteen digits have no place for.
            while unscaled.unsigned_abs() > 9_999_999_999_999_999 && unscaled % 10 == 0 {
                unscaled /= 10;
                exponent += 1;
            }
            i64::try_from(unscaled)
                .ok()
                .and_then(|unscaled| Decimal64::from_parts(unscaled, exponent).ok())
                .ok_or_else(|| refuse(decimal.to_string()))?
        }
        _ => return Ok(None),
    };
    Ok(Some(decimal))
}
