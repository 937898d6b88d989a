//! Schemas as Delta's log has them. Fields have no numbers there: those that they get here hold within one commit, for statistics of files.

use crate::columns::Column;
use crate::fields::{Primitive, Schema, TableField, TableType};
use crate::files::DAY_PARTITION;
use serde_json::{Map, Value as Json, json};

/// Most levels of a schema.
const DEPTH_MAX: usize = 64;

/// Names that differ from Iceberg's.
const NAMES: [(&str, &str); 2] = [("int", "integer"), ("timestamptz", "timestamp")];

/// The schema of a new table: the columns, and the day that it is divided by.
pub(crate) fn of_columns(columns: &[Column]) -> Schema {
    let mut schema = crate::schema::new(columns);
    schema.fields.push(TableField {
        id: schema.last_id() + 1,
        name: DAY_PARTITION.into(),
        required: false,
        ty: TableType::Primitive(Primitive::Other("date".into())),
        more: Map::new(),
    });
    schema
}

/// From a `schemaString`.
pub(crate) fn of_text(text: &str) -> Result<Schema, String> {
    let json: Json = serde_json::from_str(text)
        .map_err(|error| format!("the table's schema in its log is no JSON: {error}"))?;
    let mut last = 0;
    Ok(Schema { id: 0, fields: fields_of(&json, &mut last, 0)? })
}

fn fields_of(json: &Json, last: &mut i32, depth: usize) -> Result<Vec<TableField>, String> {
    let fields = json.get("fields").and_then(Json::as_array).ok_or("a struct of the schema has no fields")?;
    let field = |field: &Json| {
        let wrong = || format!("{field} is no field of a schema");
        let mut more = field.as_object().ok_or_else(wrong)?.clone();
        let (name, ty, nullable) = (more.remove("name"), more.remove("type"), more.remove("nullable"));
        *last += 1;
        let id = *last;
        Ok(TableField {
            id,
            name: name.as_ref().and_then(Json::as_str).ok_or_else(wrong)?.into(),
            required: nullable.as_ref().and_then(Json::as_bool) == Some(false),
            ty: type_of(&ty.ok_or_else(wrong)?, last, depth + 1)?,
            more,
        })
    };
    fields.iter().map(field).collect()
}

fn type_of(json: &Json, last: &mut i32, depth: usize) -> Result<TableType, String> {
    if depth > DEPTH_MAX {
        return Err("the table's schema has too many levels".into());
    }
    if let Some(name) = json.as_str() {
        let ours = NAMES.iter().find(|(_, delta)| *delta == name).map_or(name, |(ours, _)| ours);
        return Ok(TableType::Primitive(Primitive::of(ours)));
    }
    Ok(match json.get("type").and_then(Json::as_str) {
        Some("struct") => TableType::Struct(fields_of(json, last, depth)?),
        Some("array") => {
            *last += 1;
            let id = *last;
            TableType::List(Box::new(TableField {
                id,
                name: "element".into(),
                required: json.get("containsNull").and_then(Json::as_bool) == Some(false),
                ty: type_of(json.get("elementType").unwrap_or(&Json::Null), last, depth + 1)?,
                more: Map::new(),
            }))
        }
        _ => TableType::Other(json.clone()),
    })
}

/// As a `schemaString`.
pub(crate) fn to_json(schema: &Schema) -> Json {
    struct_json(&schema.fields)
}

fn struct_json(fields: &[TableField]) -> Json {
    let field = |field: &TableField| {
        let mut json =
            json!({ "name": field.name, "type": type_json(&field.ty), "nullable": !field.required });
        if let Json::Object(object) = &mut json {
            object.extend(field.more.clone());
            object.entry("metadata").or_insert_with(|| json!({}));
        }
        json
    };
    json!({ "type": "struct", "fields": fields.iter().map(field).collect::<Vec<_>>() })
}

fn type_json(ty: &TableType) -> Json {
    match ty {
        TableType::Primitive(ty) => Json::String(primitive_name(ty)),
        TableType::List(item) => {
            json!({ "type": "array", "elementType": type_json(&item.ty), "containsNull": !item.required })
        }
        TableType::Struct(fields) => struct_json(fields),
        TableType::Other(json) => json.clone(),
    }
}

fn primitive_name(ty: &Primitive) -> String {
    match ty {
        // As Spark writes it: without a space.
        Primitive::Decimal(precision, scale) => format!("decimal({precision},{scale})"),
        ty => {
            let name = ty.to_string();
            NAMES.iter().find(|(ours, _)| *ours == name).map_or(name, |(_, delta)| (*delta).to_string())
        }
    }
}

/// The name of a type, for people.
pub(crate) fn name_of(ty: &TableType) -> String {
    match ty {
        TableType::Primitive(ty) => primitive_name(ty),
        TableType::List(item) => format!("array<{}>", name_of(&item.ty)),
        TableType::Struct(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|field| format!("{}: {}", field.name, name_of(&field.ty))).collect();
            format!("struct<{}>", fields.join(", "))
        }
        TableType::Other(_) => "map".into(),
    }
}

/// Whether a field's metadata states a condition that writers have to check.
pub(crate) fn has_invariant(metadata: &Json) -> bool {
    metadata.get("delta.invariants").is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn from_text_and_back() {
        let json = json!({ "type": "struct", "fields": [
            { "name": "time", "type": "timestamp", "nullable": false, "metadata": {} },
            { "name": "price", "type": "decimal(18,4)", "nullable": true, "metadata": { "comment": "in euros" } },
            { "name": "count", "type": "integer", "nullable": true, "metadata": {} },
            { "name": "levels", "type": { "type": "array", "containsNull": true, "elementType": { "type": "struct", "fields": [
                { "name": "size", "type": "long", "nullable": true, "metadata": {} }] } }, "nullable": true, "metadata": {} },
            { "name": "tags", "type": { "type": "map", "keyType": "string", "valueType": "string", "valueContainsNull": true },
                "nullable": true, "metadata": {} },
            { "name": "time_day", "type": "date", "nullable": true, "metadata": {} },
        ] });
        let schema = of_text(&json.to_string()).unwrap();
        assert_eq!(to_json(&schema), json);
        assert_eq!(schema.fields[1].ty, TableType::Primitive(Primitive::Decimal(18, 4)));
        assert_eq!(name_of(&schema.fields[3].ty), "array<struct<size: long>>");
        let deep = format!("{}\"int\"{}", r#"{"type":"array","elementType":"#.repeat(80), "}".repeat(80));
        let deep = format!(r#"{{"fields":[{{"name":"a","type":{deep}}}]}}"#);
        for bad in ["", "[]", r#"{"fields":[1]}"#, r#"{"fields":[{"name":1,"type":"long"}]}"#, &deep] {
            assert!(of_text(bad).is_err(), "{bad}");
        }
    }
}
