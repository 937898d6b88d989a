//! Values in and out: what a field holds, and what Python has for it.
//!
//! Out: integers, floats, texts, bytes and lists as they are; decimals as `decimal.Decimal`; times as integers of nanoseconds; enums
//! as texts, or as members of the Python enum that the schema was made from; nested records as [`Record`]s. In: the same, and what
//! converts without loss.

use crate::failure::Failure;
use crate::record::Record;
use crate::time::{time_of, time_of_day};
use crate::types::Types;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyType};
use std::cell::Cell;
use std::sync::Arc;
use tapedb_codec::dynamic::{RecordValue, TypeLayout, Value, ValueRef};
use tapedb_schema::{Ascii, Decimal64, Scalar, Timestamp};

/// The value, which is of this type, in Python.
pub fn to_python<'py>(
    py: Python<'py>,
    types: &Arc<Types>,
    ty: &TypeLayout,
    value: ValueRef<'_>,
) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        ValueRef::Null => py.None().into_bound(py),
        ValueRef::Bool(x) => PyBool::new(py, x).to_owned().into_any(),
        ValueRef::Int(x) => x.into_pyobject(py)?.into_any(),
        ValueRef::UInt(x) => x.into_pyobject(py)?.into_any(),
        ValueRef::F32(x) => PyFloat::new(py, x.into()).into_any(),
        ValueRef::F64(x) => PyFloat::new(py, x).into_any(),
        ValueRef::Decimal(x) => decimal(py, &x.to_string())?,
        ValueRef::Scaled(units, scale) => decimal(py, &scaled_text(units, scale))?,
        ValueRef::Timestamp(x) => x.0.into_pyobject(py)?.into_any(),
        ValueRef::TimeOfDay(x) => x.nanos().into_pyobject(py)?.into_any(),
        ValueRef::Char(x) => PyString::new(py, x.encode_utf8(&mut [0; 4])).into_any(),
        ValueRef::Ascii(x) => PyString::new(py, x.as_str()).into_any(),
        ValueRef::Text(x) => PyString::new(py, x).into_any(),
        ValueRef::Binary(x) => PyBytes::new(py, x).into_any(),
        ValueRef::Enum(x) => match ty {
            TypeLayout::Enum { index, .. } => {
                types.symbols(py, *index)?[usize::from(x.ordinal())].bind(py).clone()
            }
            _ => PyString::new(py, x.symbol()).into_any(),
        },
        ValueRef::Array(items) => {
            let of = if let TypeLayout::Array(item) = ty { &item.ty } else { ty };
            let items =
                items.iter().map(|item| to_python(py, types, of, item)).collect::<PyResult<Vec<_>>>()?;
            PyList::new(py, items)?.into_any()
        }
        ValueRef::Record(record) => Record::object(py, types, record.type_id(), record.as_bytes(), None)?,
    })
}

/// `decimal.Decimal`.
pub fn decimal_type(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static TYPE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    TYPE.import(py, "decimal", "Decimal")
}

/// A `decimal.Decimal` of a text.
pub fn decimal<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
    decimal_type(py)?.call1((text,))
}

/// Units of 10^-scale as a decimal number.
pub fn scaled_text(units: i64, scale: u8) -> String {
    let (sign, digits) = (if units < 0 { "-" } else { "" }, units.unsigned_abs().to_string());
    let scale = usize::from(scale);
    if scale == 0 {
        return format!("{sign}{digits}");
    }
    let digits = format!("{digits:0>width$}", width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    format!("{sign}{whole}.{fraction}")
}

/// Values with more items than this are described by their number.
const REPR_ITEMS_MAX: usize = 100;

/// Deeper values are refused here; the codec has a lower limit, of records. Objects of Python may contain themselves.
const DEPTH_MAX: u32 = 64;

thread_local! {
    /// How deep the value is nested that is being converted.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// One level of a nested value.
struct Level;

impl Level {
    fn enter() -> Result<Self, Misfit> {
        if DEPTH.get() == DEPTH_MAX {
            return Err(Misfit::new(format!("is nested deeper than {DEPTH_MAX} levels")));
        }
        DEPTH.set(DEPTH.get() + 1);
        Ok(Self)
    }
}

impl Drop for Level {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}

/// A value that does not fit: where in the record, and why.
pub struct Misfit {
    pub path: String,
    pub what: String,
}

impl Misfit {
    fn new(what: impl Into<String>) -> Self {
        Self { path: String::new(), what: what.into() }
    }

    fn need(ty: &TypeLayout, types: &Types, value: &Bound<'_, PyAny>) -> Self {
        let class = value.get_type().name().map(|name| name.to_string()).unwrap_or_default();
        // A long value is not written out to be cut.
        let mut text = match value.len() {
            Ok(items) if items > REPR_ITEMS_MAX => format!("{items} items"),
            _ => value.repr().map(|text| text.to_string()).unwrap_or_default(),
        };
        if text.chars().count() > 60 {
            text = text.chars().take(57).chain("...".chars()).collect();
        }
        Self::new(format!("needs {}, has {text} ({class})", described(ty, types)))
    }

    fn within(mut self, outer: &str) -> Self {
        let separator = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.path = format!("{outer}{separator}{}", self.path);
        self
    }
}

impl From<PyErr> for Misfit {
    fn from(error: PyErr) -> Self {
        Self::new(error.to_string())
    }
}

impl From<Misfit> for Failure {
    fn from(misfit: Misfit) -> Self {
        Self::mismatch(misfit.path, format!("not appended: {}", misfit.what))
    }
}

/// What a type holds, for people.
fn described(ty: &TypeLayout, types: &Types) -> String {
    let schema = types.layouts.schema();
    match ty {
        TypeLayout::Scalar(scalar) => scalar.to_string(),
        TypeLayout::String => "string".into(),
        TypeLayout::Binary => "binary".into(),
        TypeLayout::Enum { index, .. } => {
            let found = &schema.enums[*index];
            let symbols: Vec<&str> = found.symbols.iter().take(10).map(|(name, _)| name.as_str()).collect();
            let more = if found.symbols.len() > 10 { ", …" } else { "" };
            format!("{} ({}{more})", found.name, symbols.join(", "))
        }
        TypeLayout::Array(item) => format!("array<{}>", described(&item.ty, types)),
        TypeLayout::Record(ids) => {
            let names: Vec<&str> =
                ids.iter().map(|id| schema.records[usize::from(*id)].name.as_str()).collect();
            format!("record<{}>", names.join("|"))
        }
    }
}

/// The value of a field of this type; `None` in Python is null, which the caller handles.
pub fn to_value(types: &Types, ty: &TypeLayout, value: &Bound<'_, PyAny>) -> Result<Value, Misfit> {
    let need = || Misfit::need(ty, types, value);
    Ok(match ty {
        TypeLayout::Scalar(scalar) => return scalar_value(*scalar, value, &need),
        TypeLayout::String => Value::Text(value.cast::<PyString>().map_err(|_| need())?.to_str()?.into()),
        TypeLayout::Binary => match value.cast::<PyBytes>() {
            Ok(bytes) => Value::Binary(bytes.as_bytes().into()),
            Err(_) if value.is_instance_of::<PyString>() => return Err(need()),
            Err(_) => {
                let bytes = value.py().get_type::<PyBytes>();
                let is_buffer = value.py().import("builtins")?.getattr("memoryview")?.call1((value,)).is_ok();
                if !is_buffer {
                    return Err(need());
                }
                Value::Binary(
                    bytes.call1((value,))?.cast::<PyBytes>().map_err(PyErr::from)?.as_bytes().into(),
                )
            }
        },
        TypeLayout::Enum { index, .. } => {
            let name = match value.cast::<PyString>() {
                // A member of a `StrEnum` is a text too: its name counts.
                Ok(text) if text.is_exact_instance_of::<PyString>() => text.clone(),
                _ => {
                    let name = value.getattr(intern!(value.py(), "name")).map_err(|_| need())?;
                    name.cast_into::<PyString>().map_err(|_| need())?
                }
            };
            Value::Enum(types.layouts.schema().enums[*index].ordinal(name.to_str()?).ok_or_else(need)?)
        }
        TypeLayout::Array(item) => {
            if value.is_instance_of::<PyString>()
                || value.is_instance_of::<PyBytes>()
                || value.is_instance_of::<PyDict>()
            {
                return Err(need());
            }
            let _level = Level::enter()?;
            // An object may state any length.
            let mut items = Vec::with_capacity(value.len().unwrap_or_default().min(1 << 16));
            for (number, found) in value.try_iter().map_err(|_| need())?.enumerate() {
                let found = found?;
                let within = |misfit: Misfit| misfit.within(&format!("[{number}]"));
                items.push(match found.is_none() {
                    true if item.nullable => Value::Null,
                    true => return Err(within(Misfit::need(&item.ty, types, &found))),
                    false => to_value(types, &item.ty, &found).map_err(within)?,
                });
            }
            Value::Array(items)
        }
        TypeLayout::Record(ids) => {
            let _level = Level::enter()?;
            Value::Record(record_value(types, ids, value).map_err(|misfit| match misfit {
                Some(misfit) => misfit,
                None => need(),
            })?)
        }
    })
}

fn scalar_value(
    scalar: Scalar,
    value: &Bound<'_, PyAny>,
    need: &dyn Fn() -> Misfit,
) -> Result<Value, Misfit> {
    let refused = |_| need();
    let text = || value.cast::<PyString>().map_err(|_| need());
    if value.is_instance_of::<PyBool>() && scalar != Scalar::Bool {
        return Err(need());
    }
    Ok(match scalar {
        Scalar::Bool => Value::Bool(value.extract().map_err(refused)?),
        Scalar::I8 => Value::Int(value.extract::<i8>().map_err(refused)?.into()),
        Scalar::I16 => Value::Int(value.extract::<i16>().map_err(refused)?.into()),
        Scalar::I32 => Value::Int(value.extract::<i32>().map_err(refused)?.into()),
        Scalar::I64 => Value::Int(value.extract().map_err(refused)?),
        Scalar::U8 => Value::UInt(value.extract::<u8>().map_err(refused)?.into()),
        Scalar::U16 => Value::UInt(value.extract::<u16>().map_err(refused)?.into()),
        Scalar::U32 => Value::UInt(value.extract::<u32>().map_err(refused)?.into()),
        Scalar::U64 => Value::UInt(value.extract().map_err(refused)?),
        Scalar::F32 => {
            let wide: f64 = value.extract().map_err(refused)?;
            let narrow = wide as f32;
            // The nearest one, as every language has it; but a number must not become infinite.
            if narrow.is_infinite() && wide.is_finite() {
                return Err(need());
            }
            Value::F32(narrow)
        }
        Scalar::F64 => Value::F64(value.extract().map_err(refused)?),
        Scalar::Decimal64 => Value::Decimal(decimal64(value, need)?),
        Scalar::Decimal(scale) => Value::Scaled(scaled(value, scale, need)?, scale),
        Scalar::Timestamp => Value::Timestamp(Timestamp(time_of(value).map_err(time_misfit)?)),
        Scalar::TimeOfDay => Value::TimeOfDay(time_of_day(value).map_err(time_misfit)?),
        Scalar::Char => {
            let text = text()?;
            let mut letters = text.to_str()?.chars();
            match (letters.next(), letters.next()) {
                (Some(letter), None) => Value::Char(letter),
                _ => return Err(need()),
            }
        }
        Scalar::Ascii(width) => {
            let text = text()?;
            let text = text.to_str()?;
            if text.len() > usize::from(width) {
                return Err(need());
            }
            Value::Ascii(Ascii::new(text).map_err(|_| need())?)
        }
    })
}

fn time_misfit(failure: Failure) -> Misfit {
    match failure {
        Failure::Argument(what) => Misfit::new(what),
        Failure::Python(error) => error.into(),
        other => Misfit::new(format!("{other:?}")),
    }
}

/// An exact decimal: of a text, an integer, a `Decimal`, or the shortest decimal that reads back as a float.
fn decimal64(value: &Bound<'_, PyAny>, need: &dyn Fn() -> Misfit) -> Result<Decimal64, Misfit> {
    if let Ok(text) = value.cast::<PyString>() {
        return text.to_str()?.parse().map_err(|_| need());
    }
    if let Ok(number) = value.cast::<PyFloat>() {
        let number: f64 = number.extract()?;
        return if number.is_finite() { Ok(Decimal64::from_f64(number)) } else { Err(need()) };
    }
    number_text(value, need)?.parse().map_err(|_| need())
}

/// Units of 10^-scale, exactly.
fn scaled(value: &Bound<'_, PyAny>, scale: u8, need: &dyn Fn() -> Misfit) -> Result<i64, Misfit> {
    let text = match (value.cast::<PyString>(), value.cast::<PyFloat>()) {
        (Ok(text), _) => text.to_str()?.to_string(),
        (_, Ok(number)) => {
            let number: f64 = number.extract()?;
            if !number.is_finite() {
                return Err(need());
            }
            Decimal64::from_f64(number).to_string()
        }
        _ => number_text(value, need)?,
    };
    // Up to nineteen digits: more than a decimal64 has.
    let context = value.py().import("decimal")?;
    let unlimited = context.getattr("Context")?.call1((60,))?;
    let number = decimal_type(value.py())?.call1((text,)).map_err(|_| need())?;
    let units = number.call_method("scaleb", (scale, &unlimited), None).map_err(|_| need())?;
    let whole = units.call_method("to_integral_exact", (), None).map_err(|_| need())?;
    if !whole.eq(&units)? {
        return Err(need());
    }
    value.py().get_type::<PyInt>().call1((whole,)).and_then(|whole| whole.extract()).map_err(|_| need())
}

/// The text of an integer or `Decimal`.
fn number_text(value: &Bound<'_, PyAny>, need: &dyn Fn() -> Misfit) -> Result<String, Misfit> {
    let py = value.py();
    if value.is_instance(decimal_type(py)?)? || value.is_instance_of::<PyInt>() {
        return Ok(value.str()?.to_string());
    }
    // NumPy's numbers.
    if let Ok(number) = value.call_method0(intern!(py, "__index__")) {
        return Ok(number.str()?.to_string());
    }
    match value.extract::<f64>() {
        Ok(number) if number.is_finite() && !value.is_instance_of::<PyString>() => {
            Ok(Decimal64::from_f64(number).to_string())
        }
        _ => Err(need()),
    }
}

/// A nested record, of one of the types: from a dictionary, a record of another message, or an object with attributes. `None`: it is
/// none of these.
fn record_value(types: &Types, ids: &[u16], value: &Bound<'_, PyAny>) -> Result<RecordValue, Option<Misfit>> {
    if let Ok(record) = value.cast::<Record>() {
        let bodies = ids.iter().find_map(|id| Some((*id, record.get().body_as(types, *id)?)));
        if let Some((id, body)) = bodies {
            let decoded = types.layouts.decode(id, body);
            return decoded.map_err(|error| Some(Misfit::new(error.to_string())));
        }
    }
    let name_of = |name: Bound<'_, PyAny>| -> Option<u16> {
        let name = name.cast_into::<PyString>().ok()?;
        let id = types.type_id(name.to_str().ok()?)?;
        ids.contains(&id).then_some(id)
    };
    let mut record = RecordValue::default();
    if let Ok(fields) = value.cast::<PyDict>() {
        let stated = ["type", "$type"].iter().find_map(|key| fields.get_item(key).ok().flatten());
        record.type_id = match (stated, ids) {
            (Some(name), _) => name_of(name).ok_or(None)?,
            (None, [only]) => *only,
            (None, _) => {
                let what =
                    format!("needs \"type\": one of {}", described(&TypeLayout::Record(ids.into()), types));
                return Err(Some(Misfit::new(what)));
            }
        };
        fill_from_dict(types, &mut record, fields, &["type", "$type"]).map_err(Some)?;
        return Ok(record);
    }
    let class = value.get_type().name().map_err(|_| None)?.into_any();
    record.type_id = match (name_of(class), ids) {
        (Some(id), _) => id,
        (None, [only]) => *only,
        (None, _) => return Err(None),
    };
    let layout = &types.layouts.records()[usize::from(record.type_id)];
    if layout.fields.iter().all(|field| value.getattr(field.name.as_str()).is_err())
        && !layout.fields.is_empty()
    {
        return Err(None);
    }
    fill_from_object(types, &mut record, value).map_err(Some)?;
    Ok(record)
}

/// Sets the fields of a record to those of a dictionary. Fields that it leaves out get their defaults.
pub fn fill_from_dict(
    types: &Types,
    record: &mut RecordValue,
    fields: &Bound<'_, PyDict>,
    ignored: &[&str],
) -> Result<(), Misfit> {
    let layout = &types.layouts.records()[usize::from(record.type_id)];
    record.fields.resize(layout.fields.len(), Value::Null);
    let mut found = 0;
    for index in 0..layout.fields.len() {
        let value = fields.get_item(types.name(fields.py(), record.type_id, index))?;
        found += usize::from(value.is_some());
        record.fields[index] = field_value(types, record.type_id, index, value.as_ref())?;
    }
    if found < fields.len() {
        for (name, _) in fields.iter() {
            let name = name.cast::<PyString>().map_err(PyErr::from)?.to_string();
            if layout.field(&name).is_none() && !ignored.contains(&name.as_str()) {
                let known: Vec<&str> =
                    layout.fields.iter().take(10).map(|field| field.name.as_str()).collect();
                let what = format!(
                    "record type {} has no field {name:?}; there is {}",
                    layout.name,
                    known.join(", ")
                );
                return Err(Misfit { path: name, what });
            }
        }
    }
    Ok(())
}

/// Sets the fields of a record to the attributes of an object, such as a dataclass.
pub fn fill_from_object(
    types: &Types,
    record: &mut RecordValue,
    object: &Bound<'_, PyAny>,
) -> Result<(), Misfit> {
    let layout = &types.layouts.records()[usize::from(record.type_id)];
    record.fields.resize(layout.fields.len(), Value::Null);
    for index in 0..layout.fields.len() {
        let value = object.getattr_opt(types.name(object.py(), record.type_id, index))?;
        record.fields[index] = field_value(types, record.type_id, index, value.as_ref())?;
    }
    Ok(())
}

fn field_value(
    types: &Types,
    type_id: u16,
    index: usize,
    value: Option<&Bound<'_, PyAny>>,
) -> Result<Value, Misfit> {
    let layout = &types.layouts.records()[usize::from(type_id)];
    let field = &layout.fields[index];
    let within = |misfit: Misfit| misfit.within(&field.name);
    match value {
        None => types.defaults[usize::from(type_id)][index].clone().ok_or_else(|| {
            within(Misfit::new(format!("needs {}, and has no default; give it", described(&field.ty, types))))
        }),
        Some(value) if value.is_none() => match field.null_bit {
            Some(_) => Ok(Value::Null),
            None => Err(within(Misfit::need(&field.ty, types, value))),
        },
        Some(value) => to_value(types, &field.ty, value).map_err(within),
    }
}
