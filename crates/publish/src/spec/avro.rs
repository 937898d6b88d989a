//! Files of Avro: read by the schema that they have in them, and written by one.
//!
//! Always true: what a file states is compared with what there is, before room is made for it.

use flate2::Compression;
use flate2::read::{DeflateDecoder, DeflateEncoder};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::io::Read;

const MAGIC: &[u8] = b"Obj\x01";
/// Most bytes of a block when it is expanded.
const BLOCK_BYTES_MAX: u64 = 1 << 30;
/// Most levels of a schema.
const DEPTH_MAX: usize = 32;
/// Most items of no bytes, such as nulls.
const EMPTY_MAX: u64 = 1 << 20;

/// A value of a file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Long(i64),
    Float(f32),
    Double(f64),
    /// Bytes, texts and fixed.
    Bytes(Vec<u8>),
    Array(Vec<Value>),
    Map(Vec<(String, Value)>),
    /// Values in the order of the schema's fields.
    Record(Vec<Value>),
}

/// A type of a file.
#[derive(Debug, Clone)]
pub(crate) enum Type {
    Null,
    Bool,
    Long,
    Float,
    Double,
    Bytes,
    Fixed(usize),
    Array(Box<Type>),
    Map(Box<Type>),
    Record(Vec<Field>),
    Union(Vec<Type>),
}

/// A field of a record: its number in Iceberg, if it has one.
#[derive(Debug, Clone)]
pub(crate) struct Field {
    pub id: Option<i64>,
    pub name: String,
    pub ty: Type,
}

/// A file's content.
#[derive(Debug, Clone)]
pub(crate) struct AvroFile {
    /// What the file states of itself, with the schema and without the compression.
    pub metadata: BTreeMap<String, Vec<u8>>,
    pub schema: Type,
    pub records: Vec<Value>,
}

impl Type {
    /// From a schema's JSON.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let json: Json = serde_json::from_slice(text).map_err(|error| format!("schema: {error}"))?;
        Self::of(&json, &mut BTreeMap::new(), 0)
    }

    fn of(json: &Json, named: &mut BTreeMap<String, Self>, depth: usize) -> Result<Self, String> {
        if depth > DEPTH_MAX {
            return Err("schema: it has too many levels".into());
        }
        let wrong = || format!("schema: {json} is no type");
        match json {
            Json::String(name) => Ok(match name.as_str() {
                "null" => Self::Null,
                "boolean" => Self::Bool,
                "int" | "long" => Self::Long,
                "float" => Self::Float,
                "double" => Self::Double,
                "bytes" | "string" => Self::Bytes,
                name => named.get(name).cloned().ok_or_else(wrong)?,
            }),
            Json::Array(types) => {
                let types = types.iter().map(|ty| Self::of(ty, named, depth + 1));
                Ok(Self::Union(types.collect::<Result<_, _>>()?))
            }
            Json::Object(object) => {
                let part = |key: &str| object.get(key).ok_or_else(wrong);
                let ty = match part("type")? {
                    Json::String(name) if name == "record" => {
                        let fields = part("fields")?.as_array().ok_or_else(wrong)?.iter();
                        let fields = fields.map(|field| {
                            Ok(Field {
                                id: field.get("field-id").and_then(Json::as_i64),
                                name: field.get("name").and_then(Json::as_str).unwrap_or_default().into(),
                                ty: Self::of(field.get("type").ok_or_else(wrong)?, named, depth + 1)?,
                            })
                        });
                        Self::Record(fields.collect::<Result<_, String>>()?)
                    }
                    Json::String(name) if name == "array" => {
                        Self::Array(Box::new(Self::of(part("items")?, named, depth + 1)?))
                    }
                    Json::String(name) if name == "map" => {
                        Self::Map(Box::new(Self::of(part("values")?, named, depth + 1)?))
                    }
                    Json::String(name) if name == "enum" => Self::Long,
                    Json::String(name) if name == "fixed" => {
                        let size = part("size")?.as_u64().filter(|size| *size <= 1 << 20);
                        Self::Fixed(size.ok_or_else(wrong)? as usize)
                    }
                    inner => Self::of(inner, named, depth + 1)?,
                };
                if let Some(name) = object.get("name").and_then(Json::as_str) {
                    named.insert(name.into(), ty.clone());
                }
                Ok(ty)
            }
            _ => Err(wrong()),
        }
    }

    /// The place of a field of a record.
    pub fn place(&self, id: i64) -> Option<usize> {
        match self {
            Self::Record(fields) => fields.iter().position(|field| field.id == Some(id)),
            _ => None,
        }
    }

    /// The type of a field of a record, without `null`.
    pub fn part(&self, id: i64) -> Option<&Self> {
        let Self::Record(fields) = self else { return None };
        let ty = &fields.iter().find(|field| field.id == Some(id))?.ty;
        match ty {
            Self::Union(types) => types.iter().find(|ty| !matches!(ty, Self::Null)),
            ty => Some(ty),
        }
    }

    fn encode(&self, value: &Value, out: &mut Vec<u8>) -> Result<(), String> {
        match (self, value) {
            (Self::Union(types), value) => {
                let fits = |ty: &Self| matches!(ty, Self::Null) == (*value == Value::Null);
                let index = types.iter().position(fits).ok_or("a value is missing that has to be there")?;
                put_long(index as i64, out);
                types[index].encode(value, out)?;
            }
            (Self::Null, Value::Null) => {}
            (Self::Bool, Value::Bool(value)) => out.push(u8::from(*value)),
            (Self::Long, Value::Long(value)) => put_long(*value, out),
            (Self::Float, Value::Float(value)) => out.extend_from_slice(&value.to_le_bytes()),
            (Self::Double, Value::Double(value)) => out.extend_from_slice(&value.to_le_bytes()),
            (Self::Bytes, Value::Bytes(bytes)) => put_bytes(bytes, out),
            (Self::Fixed(size), Value::Bytes(bytes)) if bytes.len() == *size => out.extend_from_slice(bytes),
            (Self::Array(item), Value::Array(items)) => {
                if !items.is_empty() {
                    put_long(items.len() as i64, out);
                    items.iter().try_for_each(|value| item.encode(value, out))?;
                }
                put_long(0, out);
            }
            (Self::Map(item), Value::Map(items)) => {
                if !items.is_empty() {
                    put_long(items.len() as i64, out);
                    for (key, value) in items {
                        put_bytes(key.as_bytes(), out);
                        item.encode(value, out)?;
                    }
                }
                put_long(0, out);
            }
            (Self::Record(fields), Value::Record(values)) if fields.len() == values.len() => {
                for (field, value) in fields.iter().zip(values) {
                    field.ty.encode(value, out).map_err(|error| format!("{}: {error}", field.name))?;
                }
            }
            _ => return Err("a value has another type than the schema".into()),
        }
        Ok(())
    }

    fn decode(&self, input: &mut &[u8]) -> Result<Value, String> {
        Ok(match self {
            Self::Null => Value::Null,
            Self::Bool => Value::Bool(take(input, 1)?[0] != 0),
            Self::Long => Value::Long(long(input)?),
            Self::Float => Value::Float(f32::from_le_bytes(array(take(input, 4)?))),
            Self::Double => Value::Double(f64::from_le_bytes(array(take(input, 8)?))),
            Self::Bytes => Value::Bytes(bytes(input)?.to_vec()),
            Self::Fixed(size) => Value::Bytes(take(input, *size)?.to_vec()),
            Self::Array(item) => {
                let mut items = Vec::new();
                blocks(input, |input| {
                    items.push(item.decode(input)?);
                    Ok(())
                })?;
                Value::Array(items)
            }
            Self::Map(item) => {
                let mut items = Vec::new();
                blocks(input, |input| {
                    let key = String::from_utf8(bytes(input)?.to_vec()).map_err(|error| error.to_string())?;
                    items.push((key, item.decode(input)?));
                    Ok(())
                })?;
                Value::Map(items)
            }
            Self::Record(fields) => {
                let values = fields.iter().map(|field| field.ty.decode(input));
                Value::Record(values.collect::<Result<_, _>>()?)
            }
            Self::Union(types) => {
                let index = usize::try_from(long(input)?).ok().and_then(|index| types.get(index));
                index.ok_or("a union has no such type")?.decode(input)?
            }
        })
    }
}

impl Value {
    /// A field of a record, by its number in the schema.
    pub fn get<'a>(&'a self, ty: &Type, id: i64) -> &'a Value {
        match self {
            Self::Record(values) => ty.place(id).and_then(|place| values.get(place)).unwrap_or(&Value::Null),
            _ => &Value::Null,
        }
    }

    /// Replaces a field of a record, where the schema has it.
    pub fn set(&mut self, ty: &Type, id: i64, value: Value) {
        if let (Self::Record(values), Some(place)) = (self, ty.place(id))
            && let Some(field) = values.get_mut(place)
        {
            *field = value;
        }
    }

    pub fn as_long(&self) -> Option<i64> {
        match self {
            Self::Long(value) => Some(*value),
            _ => None,
        }
    }

    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Bytes(bytes) => str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// A text as a value.
    pub fn text(text: &str) -> Self {
        Self::Bytes(text.as_bytes().to_vec())
    }
}

impl AvroFile {
    /// Reads a file.
    pub fn parse(file: &[u8]) -> Result<Self, String> {
        let mut input = file.strip_prefix(MAGIC).ok_or("this is no file of Avro")?;
        let mut metadata = BTreeMap::new();
        blocks(&mut input, |input| {
            let key = String::from_utf8(bytes(input)?.to_vec()).map_err(|error| error.to_string())?;
            metadata.insert(key, bytes(input)?.to_vec());
            Ok(())
        })?;
        let sync = take(&mut input, 16)?;
        let codec = metadata.remove("avro.codec").unwrap_or_else(|| b"null".to_vec());
        let schema = Type::parse(metadata.get("avro.schema").ok_or("the file has no schema")?)?;
        let mut records = Vec::new();
        while !input.is_empty() {
            let count = long(&mut input)?;
            let block = bytes(&mut input)?;
            let expanded = expand(&codec, block)?;
            let mut rest = &expanded[..];
            for _ in 0..count {
                let before = rest.len();
                records.push(schema.decode(&mut rest)?);
                if rest.len() == before && count as u64 > EMPTY_MAX {
                    return Err("a block has too many records without bytes".into());
                }
            }
            if !rest.is_empty() || take(&mut input, 16)? != sync {
                return Err("a block is damaged".into());
            }
        }
        Ok(Self { metadata, schema, records })
    }

    /// The file's bytes, compressed with deflate.
    pub fn to_bytes(&self) -> Result<Vec<u8>, String> {
        let mut out = MAGIC.to_vec();
        let codec = ("avro.codec".to_string(), b"deflate".to_vec());
        let metadata: Vec<_> = self.metadata.clone().into_iter().chain([codec]).collect();
        put_long(metadata.len() as i64, &mut out);
        for (key, value) in &metadata {
            put_bytes(key.as_bytes(), &mut out);
            put_bytes(value, &mut out);
        }
        put_long(0, &mut out);
        let sync = *uuid::Uuid::new_v4().as_bytes();
        out.extend_from_slice(&sync);
        if !self.records.is_empty() {
            let mut block = Vec::new();
            self.records.iter().try_for_each(|record| self.schema.encode(record, &mut block))?;
            let mut packed = Vec::new();
            let packing = DeflateEncoder::new(&block[..], Compression::default()).read_to_end(&mut packed);
            packing.map_err(|error| error.to_string())?;
            put_long(self.records.len() as i64, &mut out);
            put_bytes(&packed, &mut out);
            out.extend_from_slice(&sync);
        }
        Ok(out)
    }
}

fn expand(codec: &[u8], block: &[u8]) -> Result<Vec<u8>, String> {
    match codec {
        b"null" => Ok(block.to_vec()),
        b"deflate" => {
            let mut out = Vec::new();
            let mut limited = DeflateDecoder::new(block).take(BLOCK_BYTES_MAX);
            limited.read_to_end(&mut out).map_err(|error| format!("a block cannot be expanded: {error}"))?;
            Ok(out)
        }
        other => Err(format!(
            "it is compressed with {}, which TapeDB does not read; set write.avro.compression-codec of the table to gzip and rewrite its \
             manifests",
            String::from_utf8_lossy(other)
        )),
    }
}

fn take<'a>(input: &mut &'a [u8], count: usize) -> Result<&'a [u8], String> {
    let (taken, rest) = input.split_at_checked(count).ok_or("the file ends too early")?;
    *input = rest;
    Ok(taken)
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(bytes);
    out
}

fn bytes<'a>(input: &mut &'a [u8]) -> Result<&'a [u8], String> {
    let count = usize::try_from(long(input)?).map_err(|_| "a length is negative")?;
    take(input, count)
}

fn long(input: &mut &[u8]) -> Result<i64, String> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = take(input, 1)?[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok((value >> 1) as i64 ^ -((value & 1) as i64));
        }
    }
    Err("a number is too long".into())
}

/// Reads the items of an array or map.
fn blocks(input: &mut &[u8], mut item: impl FnMut(&mut &[u8]) -> Result<(), String>) -> Result<(), String> {
    loop {
        let count = long(input)?;
        if count == 0 {
            return Ok(());
        }
        if count < 0 {
            long(input)?;
        }
        let count = count.unsigned_abs();
        // Each item has at least one byte, but for nulls.
        if count > (input.len() as u64).max(EMPTY_MAX) {
            return Err("an array states more items than there are bytes".into());
        }
        for _ in 0..count {
            item(input)?;
        }
    }
}

fn put_long(value: i64, out: &mut Vec<u8>) {
    let mut value = ((value << 1) ^ (value >> 63)) as u64;
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    put_long(bytes.len() as i64, out);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: &str = r#"{"type": "record", "name": "r", "fields": [
        {"name": "a", "type": "int", "field-id": 1},
        {"name": "b", "type": ["null", {"type": "array", "items": {"type": "record", "name": "kv", "fields": [
            {"name": "key", "type": "int", "field-id": 3}, {"name": "value", "type": "bytes", "field-id": 4}]}}], "field-id": 2},
        {"name": "c", "type": {"type": "map", "values": "double"}}, {"name": "d", "type": ["null", "kv"]}, {"name": "e", "type": "boolean"}]}"#;

    fn file() -> AvroFile {
        let pair = |key| Value::Record(vec![Value::Long(key), Value::Bytes(vec![1, 2])]);
        let record = |number| {
            Value::Record(vec![
                Value::Long(number),
                if number % 2 == 0 { Value::Null } else { Value::Array(vec![pair(number), pair(-number)]) },
                Value::Map(vec![("x".into(), Value::Double(1.5))]),
                pair(i64::MIN),
                Value::Bool(true),
            ])
        };
        let metadata = BTreeMap::from([("avro.schema".to_string(), SCHEMA.as_bytes().to_vec())]);
        let schema = Type::parse(SCHEMA.as_bytes()).unwrap();
        AvroFile { metadata, schema, records: vec![record(1), record(2), record(i64::MAX)] }
    }

    #[test]
    fn written_and_read() {
        let file = file();
        let read = AvroFile::parse(&file.to_bytes().unwrap()).unwrap();
        assert_eq!(read.records, file.records);
        assert_eq!(read.records[0].get(&read.schema, 1), &Value::Long(1));
        assert_eq!(read.records[1].get(&read.schema, 2), &Value::Null);
        assert_eq!(read.metadata, file.metadata);
    }

    #[test]
    fn damage_is_an_error() {
        let bytes = file().to_bytes().unwrap();
        for end in 0..bytes.len() {
            let _ = AvroFile::parse(&bytes[..end]);
        }
        for at in 0..bytes.len() {
            for flip in [1, 0x80, 0xff] {
                let mut bad = bytes.clone();
                bad[at] ^= flip;
                let _ = AvroFile::parse(&bad);
            }
        }
        assert!(AvroFile::parse(b"Obj\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01").is_err());
    }
}
