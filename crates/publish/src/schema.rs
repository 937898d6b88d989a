//! Columns as a table's schema: for a new table, for one that exists, and from one version of the record type to the next.

use crate::columns::{Column, Ids, Type};
use crate::error::Error;
use crate::fields::{Primitive, Schema, TableField, TableType};
use serde_json::Map;

/// The schema of a new table. Catalogues may give its fields other numbers: [`ids`] finds them.
pub(crate) fn new(columns: &[Column]) -> Schema {
    let mut last = 0;
    Schema { id: 0, fields: columns.iter().map(|column| field(column, &mut last)).collect() }
}

/// A new field, with numbers behind the last one.
fn field(column: &Column, last: &mut i32) -> TableField {
    *last += 1;
    let (id, name, required) = (*last, column.name.clone(), column.required);
    let ty = match &column.ty {
        Type::List(item) => TableType::List(Box::new(field(item, last))),
        Type::Struct(parts) => TableType::Struct(parts.iter().map(|part| field(part, last)).collect()),
        ty => TableType::Primitive(primitive(ty)),
    };
    TableField { id, name, required, ty, more: Map::new() }
}

/// The type of a column without parts.
pub(crate) fn primitive(ty: &Type) -> Primitive {
    match ty {
        Type::Boolean => Primitive::Boolean,
        Type::Int => Primitive::Int,
        Type::Long => Primitive::Long,
        Type::Float => Primitive::Float,
        Type::Double => Primitive::Double,
        Type::Decimal(precision, scale) => Primitive::Decimal(*precision, *scale),
        Type::Timestamp => Primitive::Timestamptz,
        Type::String { .. } => Primitive::String,
        Type::Binary | Type::List(_) | Type::Struct(_) => Primitive::Binary,
    }
}

/// What is to become of fields whose types do not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Misfits {
    /// They are an error.
    Refuse,
    /// A new field takes the name, and the old one goes: rows are written again. `is_all`: no row of before stays.
    Replace { is_all: bool },
}

/// Whether a field that exists may get a wider type while its files stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Widening {
    Allowed,
    /// It is a misfit.
    Misfit,
}

/// What is done about fields whose types are others.
pub(crate) type Rules = (Misfits, Widening);

/// The schema with all columns, where the table's lacks some or has narrower types; `None`: it has all. Fields of the table that are no
/// columns stay: they are of earlier versions, or of others.
///
/// # Errors
/// When a type cannot become the column's, and misfits are refused.
pub(crate) fn evolved(
    columns: &[Column],
    schema: &Schema,
    last_id: i32,
    rules: Rules,
) -> Result<Option<Schema>, Error> {
    let mut last = last_id;
    let fields = merged(columns, &schema.fields, (&mut last, rules), "")?;
    Ok(fields.map(|fields| Schema { id: schema.id, fields }))
}

type Merging<'a> = (&'a mut i32, Rules);

/// Fields with all columns; `None`: they are as they were.
fn merged(
    columns: &[Column],
    old: &[TableField],
    (last, rules): Merging<'_>,
    path: &str,
) -> Result<Option<Vec<TableField>>, Error> {
    let (mut fields, mut is_changed) = (old.to_vec(), false);
    for column in columns {
        let path = format!("{path}{}", column.name);
        let Some(found) = fields.iter_mut().find(|field| field.name == column.name) else {
            fields.push(TableField { required: false, ..field(column, last) });
            is_changed = true;
            continue;
        };
        match merged_type(&column.ty, &found.ty, (&mut *last, rules), &path)? {
            Merged::Same => continue,
            Merged::New(ty) => found.ty = ty,
            Merged::Other => {
                let new = field(column, last);
                *found = TableField { required: new.required && found.required, ..new };
            }
        }
        is_changed = true;
    }
    Ok(is_changed.then_some(fields))
}

enum Merged {
    Same,
    /// The same field with a wider type.
    New(TableType),
    /// It has to be another field.
    Other,
}

fn merged_type(ty: &Type, old: &TableType, (last, rules): Merging<'_>, path: &str) -> Result<Merged, Error> {
    let (misfits, widening) = rules;
    match (ty, old) {
        (Type::List(item), TableType::List(element)) => {
            Ok(match merged_type(&item.ty, &element.ty, (last, rules), &format!("{path}.element"))? {
                Merged::New(ty) => {
                    Merged::New(TableType::List(Box::new(TableField { ty, ..(**element).clone() })))
                }
                other => other,
            })
        }
        (Type::Struct(parts), TableType::Struct(record)) => {
            let fields = merged(parts, record, (last, rules), &format!("{path}."))?;
            Ok(fields.map_or(Merged::Same, |fields| Merged::New(TableType::Struct(fields))))
        }
        (ty, TableType::Primitive(old)) if !matches!(ty, Type::List(_) | Type::Struct(_)) => {
            let new = primitive(ty);
            if new == *old || widens(&new, old) {
                Ok(Merged::Same)
            } else if widens(old, &new) && widening == Widening::Allowed {
                Ok(Merged::New(TableType::Primitive(new)))
            } else {
                misfit(misfits, path, old, &new)
            }
        }
        (ty, old) => misfit(misfits, path, old, &kind(ty)),
    }
}

fn misfit(
    misfits: Misfits,
    path: &str,
    old: &impl std::fmt::Display,
    new: &impl std::fmt::Display,
) -> Result<Merged, Error> {
    match misfits {
        Misfits::Replace { .. } => Ok(Merged::Other),
        Misfits::Refuse => Err(Error::Table(format!(
            "field {path:?} has the type {old} in the table and {new} in the stream, which readers of the table do not convert; write the table again with \
             `publish --repair --all`, or publish to another table"
        ))),
    }
}

fn kind(ty: &Type) -> String {
    match ty {
        Type::List(_) => "list".into(),
        Type::Struct(_) => "struct".into(),
        ty => primitive(ty).to_string(),
    }
}

/// Whether Iceberg reads values of one type as another that is wider.
fn widens(from: &Primitive, to: &Primitive) -> bool {
    match (from, to) {
        (Primitive::Int, Primitive::Long) | (Primitive::Float, Primitive::Double) => true,
        (Primitive::Decimal(from, one), Primitive::Decimal(to, other)) => from < to && one == other,
        _ => false,
    }
}

/// The numbers of the columns in a table's schema, found by their names.
///
/// # Errors
/// When one is missing.
pub(crate) fn ids(columns: &[Column], schema: &Schema) -> Result<Vec<Ids>, Error> {
    ids_in(columns, &schema.fields)
}

fn ids_in(columns: &[Column], fields: &[TableField]) -> Result<Vec<Ids>, Error> {
    let ids = columns.iter().map(|column| {
        let field = fields.iter().find(|field| field.name == column.name);
        let missing = || Error::Table(format!("the table has no column {:?}; publish again", column.name));
        let field = field.ok_or_else(missing)?;
        Ok(Ids { id: field.id, parts: parts(&column.ty, &field.ty, &missing)? })
    });
    ids.collect()
}

fn parts(ty: &Type, found: &TableType, missing: &dyn Fn() -> Error) -> Result<Vec<Ids>, Error> {
    match (ty, found) {
        (Type::List(item), TableType::List(element)) => {
            Ok(vec![Ids { id: element.id, parts: parts(&item.ty, &element.ty, missing)? }])
        }
        (Type::Struct(columns), TableType::Struct(record)) => ids_in(columns, record),
        (Type::List(_) | Type::Struct(_), _) => Err(missing()),
        _ => Ok(Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::How;

    const REFUSE: Rules = (Misfits::Refuse, Widening::Allowed);

    fn column(name: &str, ty: Type) -> Column {
        Column { name: name.into(), required: false, ty, how: How::Same, source: 0 }
    }

    fn columns(price: Type, more: &[&str]) -> Vec<Column> {
        let entry = vec![column("price", price), column("size", Type::Long)];
        let item = column("element", Type::Struct(entry));
        let mut columns = vec![column("flag", Type::Boolean), column("entries", Type::List(Box::new(item)))];
        columns.extend(more.iter().map(|name| column(name, Type::Int)));
        columns
    }

    #[test]
    fn numbers_stay_with_names() {
        let first = new(&columns(Type::Float, &[]));
        let before = ids(&columns(Type::Float, &[]), &first).unwrap();
        assert!(evolved(&columns(Type::Float, &[]), &first, 5, REFUSE).unwrap().is_none());
        let wider = columns(Type::Double, &["more"]);
        let second = evolved(&wider, &first, 5, REFUSE).unwrap().unwrap();
        let after = ids(&wider, &second).unwrap();
        assert_eq!(after[..2], before);
        assert_eq!(after[2].id, 6);
        let strict = (Misfits::Refuse, Widening::Misfit);
        assert!(evolved(&columns(Type::Double, &[]), &first, 5, strict).is_err());
        assert!(evolved(&columns(Type::Float, &["more"]), &first, 5, strict).unwrap().is_some());
        // A table that is wider takes narrower values, and what is not published any more stays.
        assert!(evolved(&columns(Type::Float, &[]), &second, 6, REFUSE).unwrap().is_none());
    }

    #[test]
    fn types_that_do_not_fit_are_named() {
        let first = new(&columns(Type::Double, &[]));
        let other = columns(Type::Decimal(18, 4), &[]);
        let error = evolved(&other, &first, 5, REFUSE).unwrap_err().to_string();
        assert!(error.contains("entries.element.price") && error.contains("--repair"), "{error}");
        let second = evolved(&other, &first, 5, (Misfits::Replace { is_all: true }, Widening::Allowed))
            .unwrap()
            .unwrap();
        assert_eq!(ids(&other, &second).unwrap()[1].parts[0].parts[0].id, 6);
        let list = vec![column("flag", Type::List(Box::new(column("element", Type::Int))))];
        assert!(evolved(&list, &first, 5, REFUSE).is_err());
    }
}
