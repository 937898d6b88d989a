//! Schemas of tables: fields with numbers that they keep.

use serde_json::{Map, Value as Json, json};
use std::fmt;

/// Most levels of a schema.
const DEPTH_MAX: usize = 64;

/// A version of a table's schema.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Schema {
    pub id: i64,
    pub fields: Vec<TableField>,
}

/// A field, with what else is stated of it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TableField {
    pub id: i32,
    pub name: String,
    pub required: bool,
    pub ty: TableType,
    /// Documentation, defaults.
    pub more: Map<String, Json>,
}

/// A type of a field.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TableType {
    Primitive(Primitive),
    List(Box<TableField>),
    Struct(Vec<TableField>),
    /// What TapeDB does not make, such as maps.
    Other(Json),
}

/// A type without parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Primitive {
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Decimal(u8, u8),
    Timestamptz,
    String,
    Binary,
    Other(String),
}

impl fmt::Display for Primitive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Boolean => "boolean",
            Self::Int => "int",
            Self::Long => "long",
            Self::Float => "float",
            Self::Double => "double",
            Self::Decimal(precision, scale) => return write!(f, "decimal({precision}, {scale})"),
            Self::Timestamptz => "timestamptz",
            Self::String => "string",
            Self::Binary => "binary",
            Self::Other(name) => name,
        })
    }
}

impl Primitive {
    /// By its name in Iceberg.
    pub fn of(name: &str) -> Self {
        let decimal = || {
            let (precision, scale) = name.strip_prefix("decimal(")?.strip_suffix(')')?.split_once(',')?;
            Some(Self::Decimal(precision.trim().parse().ok()?, scale.trim().parse().ok()?))
        };
        match name {
            "boolean" => Self::Boolean,
            "int" => Self::Int,
            "long" => Self::Long,
            "float" => Self::Float,
            "double" => Self::Double,
            "timestamptz" => Self::Timestamptz,
            "string" => Self::String,
            "binary" => Self::Binary,
            name => decimal().unwrap_or_else(|| Self::Other(name.into())),
        }
    }
}

impl fmt::Display for TableType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Primitive(ty) => ty.fmt(f),
            Self::List(item) => write!(f, "list<{}>", item.ty),
            Self::Struct(fields) => {
                f.write_str("struct<")?;
                for (index, field) in fields.iter().enumerate() {
                    let comma = if index == 0 { "" } else { ", " };
                    write!(f, "{comma}{}: {}", field.name, field.ty)?;
                }
                f.write_str(">")
            }
            Self::Other(_) => f.write_str("map"),
        }
    }
}

impl Schema {
    /// From a table's metadata.
    pub fn of(json: &Json) -> Result<Self, String> {
        let id = json.get("schema-id").and_then(Json::as_i64).unwrap_or(0);
        Ok(Self { id, fields: fields_of(json, 0)? })
    }

    /// As it is in metadata.
    pub fn to_json(&self) -> Json {
        let fields: Vec<Json> = self.fields.iter().map(TableField::to_json).collect();
        json!({ "type": "struct", "schema-id": self.id, "fields": fields })
    }

    /// The largest number of a field.
    pub fn last_id(&self) -> i32 {
        self.fields.iter().map(TableField::last_id).max().unwrap_or(0)
    }

    /// The number of a field, by its name.
    pub fn id_of(&self, name: &str) -> Option<i32> {
        self.fields.iter().find(|field| field.name == name).map(|field| field.id)
    }
}

fn fields_of(json: &Json, depth: usize) -> Result<Vec<TableField>, String> {
    let fields = json.get("fields").and_then(Json::as_array).ok_or("a schema has no fields")?;
    fields.iter().map(|field| TableField::of(field, depth)).collect()
}

impl TableField {
    fn of(json: &Json, depth: usize) -> Result<Self, String> {
        let wrong = || format!("{json} is no field of a schema");
        let mut more = json.as_object().ok_or_else(wrong)?.clone();
        let mut part = |key: &str| more.remove(key).ok_or_else(wrong);
        let (id, name, required, ty) = (part("id")?, part("name")?, part("required")?, part("type")?);
        Ok(Self {
            id: id.as_i64().and_then(|id| i32::try_from(id).ok()).ok_or_else(wrong)?,
            name: name.as_str().ok_or_else(wrong)?.into(),
            required: required.as_bool().ok_or_else(wrong)?,
            ty: TableType::of(&ty, depth + 1)?,
            more,
        })
    }

    fn to_json(&self) -> Json {
        let mut json =
            json!({ "id": self.id, "name": self.name, "required": self.required, "type": self.ty.to_json() });
        if let Json::Object(object) = &mut json {
            object.extend(self.more.clone());
        }
        json
    }

    fn last_id(&self) -> i32 {
        let inner = match &self.ty {
            TableType::List(item) => item.last_id(),
            TableType::Struct(fields) => fields.iter().map(Self::last_id).max().unwrap_or(0),
            TableType::Primitive(_) => 0,
            TableType::Other(json) => {
                let ids = ["key-id", "value-id"].iter().filter_map(|key| json.get(*key)?.as_i64());
                ids.max().and_then(|id| i32::try_from(id).ok()).unwrap_or(0)
            }
        };
        self.id.max(inner)
    }
}

impl TableType {
    fn of(json: &Json, depth: usize) -> Result<Self, String> {
        if depth > DEPTH_MAX {
            return Err("a schema has too many levels".into());
        }
        if let Some(name) = json.as_str() {
            return Ok(Self::Primitive(Primitive::of(name)));
        }
        Ok(match json.get("type").and_then(Json::as_str) {
            Some("struct") => Self::Struct(fields_of(json, depth)?),
            Some("list") => {
                let id = json.get("element-id").and_then(Json::as_i64).and_then(|id| i32::try_from(id).ok());
                Self::List(Box::new(TableField {
                    id: id.ok_or("a list has no number for its element")?,
                    name: "element".into(),
                    required: json.get("element-required").and_then(Json::as_bool).unwrap_or(false),
                    ty: Self::of(json.get("element").unwrap_or(&Json::Null), depth + 1)?,
                    more: Map::new(),
                }))
            }
            _ => Self::Other(json.clone()),
        })
    }

    fn to_json(&self) -> Json {
        match self {
            Self::Primitive(ty) => Json::String(ty.to_string()),
            Self::List(item) => json!({
                "type": "list", "element-id": item.id, "element-required": item.required, "element": item.ty.to_json(),
            }),
            Self::Struct(fields) => {
                let fields: Vec<Json> = fields.iter().map(TableField::to_json).collect();
                json!({ "type": "struct", "fields": fields })
            }
            Self::Other(json) => json.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn from_json_and_back() {
        let json = json!({ "type": "struct", "schema-id": 3, "fields": [
            { "id": 1, "name": "time", "required": true, "type": "timestamptz", "doc": "when" },
            { "id": 2, "name": "price", "required": false, "type": "decimal(18, 4)" },
            { "id": 3, "name": "levels", "required": false, "type": { "type": "list", "element-id": 4, "element-required": false,
                "element": { "type": "struct", "fields": [{ "id": 5, "name": "size", "required": false, "type": "long" }] } } },
            { "id": 6, "name": "tags", "required": false, "type": { "type": "map", "key-id": 7, "key": "string", "value-id": 8,
                "value-required": false, "value": "string" } },
        ] });
        let schema = Schema::of(&json).unwrap();
        assert_eq!(schema.to_json(), json);
        assert_eq!((schema.last_id(), schema.id_of("price")), (8, Some(2)));
        assert_eq!(schema.fields[2].ty.to_string(), "list<struct<size: long>>");
        assert_eq!(schema.fields[1].ty, TableType::Primitive(Primitive::Decimal(18, 4)));
        for bad in [json!({}), json!({ "fields": [{ "id": 1 }] }), json!({ "fields": [1] })] {
            assert!(Schema::of(&bad).is_err());
        }
    }
}
