//! Two versions of a schema, and what a message of the first is in the second, computed by way of values.
//!
//! The second version is the first with a few random changes of the kinds that `docs/format/schema.md` allows. Which
//! field comes from which is noted while it changes, so that nothing here compares names as the codec does.

use crate::sample::{self, SplitMix64};
use tapedb_codec::dynamic::{Layouts, RecordValue, Value};
use tapedb_schema::{Decimal64, ElementType, Field, FieldType, Literal, RecordType, Scalar, Schema};

/// Most changes between two versions, of which some come to nothing.
const CHANGES_MAX: usize = 12;

/// A written schema and one that reads it.
#[derive(Debug)]
pub struct Versions {
    /// The schema that messages are written under.
    pub written: Layouts,
    /// The schema that they are read under.
    pub read: Layouts,
    origins: Vec<Origin>,
    /// Defaults of the reading fields.
    defaults: Vec<Vec<Option<Value>>>,
}

/// Where a reading record type comes from.
#[derive(Debug, Clone)]
struct Origin {
    record: Option<usize>,
    fields: Vec<Option<usize>>,
}

/// A value without a counterpart in the reading schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    /// A symbol or record that it does not know: null where null may be.
    Unknown,
    /// The message cannot be read.
    Message,
}

impl Versions {
    /// Versions of a sample schema that depend on the seed alone.
    pub fn new(seed: u64) -> Self {
        let mut random = SplitMix64::new(seed ^ 0x5eed_0f5c_4e3a_0000);
        let written = sample::schema(seed);
        let (mut read, mut origins) = (written.clone(), unchanged(&written));
        for number in 0..random.below(CHANGES_MAX + 1) {
            let mut next = Change { schema: read.clone(), origins: origins.clone(), random, number };
            next.change(&written);
            random = next.random;
            if next.schema.validate().is_ok() && has_common(&written, &next.schema, &next.origins) {
                (read, origins) = (next.schema, next.origins);
            }
        }
        let defaults = read.records.iter().map(|r| r.fields.iter().map(|f| default_of(&read, f)).collect());
        let defaults = defaults.collect();
        Self { written: prepared(written), read: prepared(read), origins, defaults }
    }

    /// The type id in the reading schema.
    pub fn target(&self, type_id: u16) -> Option<u16> {
        self.origins.iter().position(|o| o.record == Some(usize::from(type_id))).map(|id| id as u16)
    }

    /// What a record is in the reading schema.
    ///
    /// # Errors
    /// When it is nothing there.
    pub fn expected(&self, record: &RecordValue) -> Result<RecordValue, Lost> {
        let target = self.target(record.type_id).ok_or(Lost::Unknown)?;
        let from = &self.written.schema().records[usize::from(record.type_id)];
        let to = &self.read.schema().records[usize::from(target)];
        let mut fields = Vec::with_capacity(to.fields.len());
        for (index, (field, source)) in
            to.fields.iter().zip(&self.origins[usize::from(target)].fields).enumerate()
        {
            let default = || self.defaults[usize::from(target)][index].clone().ok_or(Lost::Message);
            fields.push(match source {
                None => default()?,
                Some(source) => match (&record.fields[*source], field.nullable) {
                    (Value::Null, true) => Value::Null,
                    (Value::Null, false) => default()?,
                    (value, nullable) => {
                        or_null(nullable, self.value(&from.fields[*source].ty, &field.ty, value))?
                    }
                },
            });
        }
        Ok(RecordValue { type_id: target, fields })
    }

    fn value(&self, from: &FieldType, to: &FieldType, value: &Value) -> Result<Value, Lost> {
        match (from, to, value) {
            (FieldType::Enum(from), FieldType::Enum(to), Value::Enum(ordinal)) => {
                let find = |layouts: &Layouts, name: &str| {
                    layouts.schema().enums.iter().find(|e| e.name == *name).cloned().expect("an enum")
                };
                let symbol = &find(&self.written, from).symbols[usize::from(*ordinal)].0;
                find(&self.read, to).ordinal(symbol).map(Value::Enum).ok_or(Lost::Unknown)
            }
            (FieldType::Array(from), FieldType::Array(to), Value::Array(items)) => {
                let item = |value: &Value| match value {
                    Value::Null => Ok(Value::Null),
                    value => or_null(to.nullable, self.value(&from.ty, &to.ty, value)),
                };
                items.iter().map(item).collect::<Result<_, _>>().map(Value::Array)
            }
            (_, FieldType::Record(names), Value::Record(record)) => {
                let target = self.target(record.type_id).ok_or(Lost::Unknown)?;
                let name = &self.read.records()[usize::from(target)].name;
                if !names.contains(name) {
                    return Err(Lost::Unknown);
                }
                self.expected(record).map(Value::Record)
            }
            (_, to, value) => scalar(to, value).ok_or(Lost::Message),
        }
    }
}

fn or_null(nullable: bool, value: Result<Value, Lost>) -> Result<Value, Lost> {
    match value {
        Err(Lost::Unknown) if nullable => Ok(Value::Null),
        Err(_) => Err(Lost::Message),
        value => value,
    }
}

/// A scalar as the reading type holds it; `None` if it cannot.
fn scalar(to: &FieldType, value: &Value) -> Option<Value> {
    use FieldType as T;
    use Scalar as S;
    Some(match (value, to) {
        (Value::Int(x), T::Scalar(S::Decimal64)) => Value::Decimal(x.to_string().parse().ok()?),
        (Value::UInt(x), T::Scalar(S::Decimal64)) => Value::Decimal(x.to_string().parse().ok()?),
        (Value::Int(x), T::Scalar(S::Decimal(scale))) => scaled(i128::from(*x), 0, *scale)?,
        (Value::UInt(x), T::Scalar(S::Decimal(scale))) => scaled(i128::from(*x), 0, *scale)?,
        (Value::UInt(x), T::Scalar(S::I16 | S::I32 | S::I64)) => Value::Int(*x as i64),
        (Value::Scaled(x, had), T::Scalar(S::Decimal(scale))) => scaled(i128::from(*x), *had, *scale)?,
        (Value::Scaled(x, had), T::Scalar(S::Decimal64)) => {
            Value::Decimal(Decimal64::from_scaled(*x, *had).ok()?)
        }
        (Value::F32(x), T::Scalar(S::F64)) => Value::F64(f64::from(*x)),
        (Value::Ascii(x), T::String) => Value::Text(x.as_str().into()),
        (Value::Char(x), T::String) => Value::Text(x.to_string()),
        (value, _) => value.clone(),
    })
}

fn scaled(units: i128, had: u8, scale: u8) -> Option<Value> {
    let units = units * 10i128.pow((scale - had).into());
    i64::try_from(units).ok().map(|units| Value::Scaled(units, scale))
}

/// By way of a schema with one field and a message without it.
fn default_of(schema: &Schema, field: &Field) -> Option<Value> {
    if field.default.is_none() && !field.nullable {
        return None;
    }
    if matches!(field.default, None | Some(Literal::Null)) {
        return Some(Value::Null);
    }
    let record = RecordType { name: "M".into(), message: true, fields: vec![field.clone()], doc: "".into() };
    let layouts = prepared(Schema { enums: schema.enums.clone(), records: vec![record] });
    Some(layouts.from_json("{}").expect("a field with a default may be left out").fields[0].clone())
}

fn prepared(schema: Schema) -> Layouts {
    Layouts::new(schema).expect("a valid schema")
}

fn unchanged(schema: &Schema) -> Vec<Origin> {
    let origin = |(id, record): (usize, &RecordType)| Origin {
        record: Some(id),
        fields: (0..record.fields.len()).map(Some).collect(),
    };
    schema.records.iter().enumerate().map(origin).collect()
}

/// Enums and unions that share nothing are another field, not another version.
fn has_common(written: &Schema, read: &Schema, origins: &[Origin]) -> bool {
    origins.iter().zip(&read.records).all(|(origin, record)| {
        let Some(from) = origin.record.map(|id| &written.records[id]) else { return true };
        record.fields.iter().zip(&origin.fields).all(|(to, source)| {
            source.is_none_or(|source| common_type(written, read, &from.fields[source].ty, &to.ty))
        })
    })
}

fn common_type(written: &Schema, read: &Schema, from: &FieldType, to: &FieldType) -> bool {
    match (from, to) {
        (FieldType::Array(a), FieldType::Array(b)) => common_type(written, read, &a.ty, &b.ty),
        (FieldType::Record(a), FieldType::Record(b)) => a.iter().any(|name| b.contains(name)),
        (FieldType::Enum(a), FieldType::Enum(b)) => {
            let (Some(a), Some(b)) = (written.enumeration(a), read.enumeration(b)) else { return false };
            a.symbols.iter().any(|(name, _)| b.ordinal(name).is_some())
        }
        _ => true,
    }
}

/// A schema that changes.
struct Change {
    schema: Schema,
    origins: Vec<Origin>,
    random: SplitMix64,
    number: usize,
}

impl Change {
    fn change(&mut self, written: &Schema) {
        let record = self.random.below(self.schema.records.len());
        let count = self.schema.records[record].fields.len();
        let field = self.random.below(count);
        match self.random.below(16) {
            0 | 1 => self.add_field(record),
            2 => self.enumeration(),
            3 => self.add_record(record),
            4 => self.swap_records(record),
            5 if self.schema.records.len() > 1 => self.drop_record(record),
            _ if count == 0 => {}
            6 => self.drop_field(record, field),
            7 => self.rename(written, record, field),
            8 => self.swap_fields(record, field),
            9 => self.schema.records[record].fields[field].nullable = true,
            10 => self.forbid_null(record, field),
            11 | 12 => self.alternatives(record, field),
            _ => self.widen(record, field),
        }
    }

    fn add_field(&mut self, record: usize) {
        let (ty, nullable, default) = match self.random.below(8) {
            0 => (Scalar::U32.into(), false, Some(Literal::Number(Decimal64::ZERO))),
            1 => (FieldType::String, false, Some(Literal::Text("added".into()))),
            2 => (Scalar::Decimal64.into(), true, "1.50".parse().ok().map(Literal::Number)),
            3 => (Scalar::Bool.into(), false, Some(Literal::Bool(true))),
            4 => (Scalar::Ascii(4).into(), true, None),
            5 => (array(Scalar::I16.into()), true, None),
            6 => (FieldType::Record(vec![self.schema.records[record].name.clone()]), true, None),
            _ => (FieldType::Binary, true, Some(Literal::Null)),
        };
        let fields = &mut self.schema.records[record].fields;
        let at = self.random.below(fields.len() + 1);
        let name = format!("added_{}", self.number);
        fields.insert(at, Field { name, ty, nullable, default, aliases: Vec::new(), doc: String::new() });
        self.origins[record].fields.insert(at, None);
    }

    fn drop_field(&mut self, record: usize, field: usize) {
        self.schema.records[record].fields.remove(field);
        self.origins[record].fields.remove(field);
    }

    /// The old name becomes an alias, or an alias of the written schema becomes the name.
    fn rename(&mut self, written: &Schema, record: usize, index: usize) {
        let origin = &self.origins[record];
        let field = &mut self.schema.records[record].fields[index];
        let source = origin.record.zip(origin.fields[index]).map(|(r, f)| &written.records[r].fields[f]);
        let former = source.filter(|source| source.name == field.name).and_then(|s| s.aliases.first());
        if let Some(former) = former.filter(|_| self.random.once_in(2)) {
            field.name = former.clone();
            field.aliases.clear();
        } else {
            let name = format!("renamed_{}", self.number);
            field.name = name;
            let written = source.map(|source| source.name.clone());
            field.aliases = written.into_iter().collect();
        }
    }

    fn swap_fields(&mut self, record: usize, field: usize) {
        let other = self.random.below(self.schema.records[record].fields.len());
        self.schema.records[record].fields.swap(field, other);
        self.origins[record].fields.swap(field, other);
    }

    /// Only fields with a default may stop being nullable; validation refuses the others.
    fn forbid_null(&mut self, record: usize, field: usize) {
        let field = &mut self.schema.records[record].fields[field];
        let zero = Some(Literal::Number(Decimal64::ZERO));
        if !matches!(field.default, None | Some(Literal::Null)) {
            field.nullable = false;
        } else if field.nullable {
            (field.nullable, field.default) = (false, zero);
        }
    }

    fn widen(&mut self, record: usize, field: usize) {
        let mut ty = &mut self.schema.records[record].fields[field].ty;
        while let FieldType::Array(item) = ty {
            item.nullable |= self.random.once_in(3);
            ty = &mut item.ty;
        }
        if let Some(wider) = wider(ty, &mut self.random) {
            *ty = wider;
        }
    }

    fn enumeration(&mut self) {
        let Some(count) = self.schema.enums.len().checked_sub(1) else { return };
        let symbols = &mut self.schema.enums[self.random.below(count + 1)].symbols;
        let (a, b) = (self.random.below(symbols.len()), self.random.below(symbols.len()));
        match self.random.below(3) {
            0 => symbols.insert(a, (format!("ADDED_{}", self.number), 1 << 40 | self.number as i64)),
            1 => symbols.swap(a, b),
            _ => drop(symbols.remove(a)),
        }
    }

    fn alternatives(&mut self, record: usize, field: usize) {
        let names: Vec<String> = self.schema.records.iter().map(|record| record.name.clone()).collect();
        let mut ty = &mut self.schema.records[record].fields[field].ty;
        while let FieldType::Array(item) = ty {
            ty = &mut item.ty;
        }
        let FieldType::Record(alternatives) = ty else { return };
        let (a, b) = (self.random.below(alternatives.len()), self.random.below(alternatives.len()));
        match self.random.below(3) {
            0 => alternatives.insert(a, names[self.random.below(names.len())].clone()),
            1 => alternatives.swap(a, b),
            _ => drop(alternatives.remove(a)),
        }
    }

    fn add_record(&mut self, at: usize) {
        let name = format!("Added{}", self.number);
        self.schema
            .records
            .insert(at, RecordType { name, message: true, fields: Vec::new(), doc: String::new() });
        self.origins.insert(at, Origin { record: None, fields: Vec::new() });
    }

    fn swap_records(&mut self, record: usize) {
        let other = self.random.below(self.schema.records.len());
        self.schema.records.swap(record, other);
        self.origins.swap(record, other);
    }

    /// Validation refuses it where a field still names the record.
    fn drop_record(&mut self, record: usize) {
        self.schema.records.remove(record);
        self.origins.remove(record);
    }
}

fn array(ty: FieldType) -> FieldType {
    FieldType::Array(Box::new(ElementType { ty, nullable: false }))
}

fn wider(ty: &FieldType, random: &mut SplitMix64) -> Option<FieldType> {
    use Scalar as T;
    let FieldType::Scalar(scalar) = *ty else { return None };
    let scalars: &[Scalar] = match scalar {
        T::I8 => &[T::I16, T::I32, T::I64, T::Decimal64, T::Decimal(3)],
        T::I16 => &[T::I32, T::I64, T::Decimal64, T::Decimal(5)],
        T::I32 => &[T::I64, T::Decimal64, T::Decimal(9)],
        T::I64 => &[T::Decimal64, T::Decimal(0), T::Decimal(2)],
        T::U8 => &[T::U16, T::I16, T::U32, T::I32, T::U64, T::I64, T::Decimal64, T::Decimal(18)],
        T::U16 => &[T::U32, T::I32, T::U64, T::I64, T::Decimal64],
        T::U32 => &[T::U64, T::I64, T::Decimal64, T::Decimal(10)],
        T::U64 => &[T::Decimal64, T::Decimal(0), T::Decimal(1)],
        T::F32 => &[T::F64],
        T::Decimal(scale) if scale < 18 => &[T::Decimal64, T::Decimal(scale + 1), T::Decimal(18)],
        T::Decimal(_) => &[T::Decimal64],
        T::Ascii(size) if size < 16 => &[T::Ascii(size + 1), T::Ascii(16)],
        T::Ascii(_) | T::Char => &[],
        _ => return None,
    };
    let text = matches!(scalar, T::Ascii(_) | T::Char).then_some(FieldType::String);
    let choices: Vec<FieldType> = text.into_iter().chain(scalars.iter().map(|&to| to.into())).collect();
    Some(choices[random.below(choices.len())].clone())
}
