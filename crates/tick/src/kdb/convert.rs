//! Values of kdb+ as columns of a table, and back. [`Kind`] maps types to fields; here are the values.

use crate::column::{Column, Texts};
use crate::kind::{
    Kind, kdb_datetime_of_nanos, kdb_timestamp_of_nanos, nanos_of_kdb_datetime, nanos_of_kdb_timestamp,
};
use crate::table::{ColumnDef, Table};
use tapedb_kdb_ipc::{Atom, Attribute, Elements, Symbols, Type, Value, Vector};
use tapedb_schema::Decimal64;

/// The kind of a column of kdb+: `None` for lists of other items than texts and bytes. Empty lists are texts.
pub fn kind_of(column: &Value) -> Option<Kind> {
    match column {
        Value::List(list) if list.items.is_empty() => Some(Kind::Text),
        Value::List(list) if list.items.iter().all(|item| text_of(item, Type::Char).is_some()) => {
            Some(Kind::Text)
        }
        Value::List(list) if list.items.iter().all(|item| text_of(item, Type::Byte).is_some()) => {
            Some(Kind::Bytes)
        }
        Value::List(_) => None,
        other => Kind::of_letter(other.ty()?.letter()),
    }
}

/// A column of a table (`time` is the first) from a vector or list of its kind, or of one that it holds without loss; an atom is a column of one row. `None`: it is of another type.
pub fn column_of(kind: Kind, is_time: bool, value: &Value) -> Option<Column> {
    let column = match value {
        Value::List(list) if list.items.is_empty() => Some(empty(kind)),
        Value::List(list) => texts_of(kind, &list.items),
        Value::Vector(vector) => column_of_elements(kind, &vector.elements),
        Value::Atom(atom) => {
            let mut elements = Elements::new(atom.ty());
            elements.push(atom.clone()).ok()?;
            column_of_elements(kind, &elements)
        }
        _ => None,
    }?;
    if is_time { Some(time_column(kind, column)) } else { Some(column) }
}

/// The vector or list of a column.
pub fn value_of(kind: Kind, is_time: bool, column: &Column) -> Value {
    if is_time && let Column::Long(values) = column {
        return time_elements(kind, values).into();
    }
    match (kind, column) {
        (Kind::Text, Column::Text(texts)) => list_of(texts, |bytes| Elements::Char(bytes.to_vec())),
        (Kind::Bytes, Column::Text(texts)) => list_of(texts, |bytes| Elements::Byte(bytes.to_vec())),
        _ => elements_of(kind, column).into(),
    }
}

/// Columns with these names and kinds as a table of kdb+: as many columns as definitions, all of one length. `sym` has the
/// attribute `g` if there are no rows: as in the tables that kdb+ subscribers begin with.
pub fn table_of(defs: &[ColumnDef], columns: &[Column]) -> Value {
    let names: Symbols = defs.iter().map(|def| def.name.as_bytes()).collect();
    let values = defs.iter().zip(columns).enumerate().map(|(at, (def, column))| {
        let value = value_of(def.kind, def.name == crate::TIME && at == 0, column);
        if def.name == crate::SYM && column.is_empty() { grouped(value) } else { value }
    });
    match tapedb_kdb_ipc::Table::new(names, values.collect()) {
        Ok(table) => table.into(),
        Err(error) => Value::error(&error.to_string()),
    }
}

/// A table without rows.
pub fn empty_table(table: &Table) -> Value {
    let columns: Vec<Column> = table.columns().iter().map(|def| empty(def.kind)).collect();
    table_of(table.columns(), &columns)
}

/// An update as the table's columns: `time` may be missing. The forms are those of tickerplants: a table
/// or a dictionary, by the names of columns; a list of columns; a list of atoms, which is a row.
///
/// # Errors
/// What does not fit, as text.
pub fn update_of(table: &Table, rows: &Value) -> Result<Vec<Column>, String> {
    match rows {
        Value::Table(rows) => by_name(table, rows.names(), rows.columns()),
        Value::Dictionary(dictionary) => match (&dictionary.keys, &dictionary.values) {
            (Value::Table(keys), Value::Table(values)) => {
                let names: Symbols = keys.names().iter().chain(values.names().iter()).collect();
                by_name(table, &names, &[keys.columns(), values.columns()].concat())
            }
            (Value::Vector(Vector { elements: Elements::Symbol(names), .. }), values) => {
                by_name(table, names, &items(values)?)
            }
            _ => Err("a dictionary of rows has the names of columns as keys".into()),
        },
        other => in_order(table, &items(other)?),
    }
}

fn items(value: &Value) -> Result<Vec<Value>, String> {
    match value {
        Value::List(list) => Ok(list.items.clone()),
        Value::Vector(vector) => Ok(vector.elements.iter().map(Value::Atom).collect()),
        other => Err(format!("rows come as a list, a table or a dictionary, not as {}", what(other))),
    }
}

fn by_name(table: &Table, names: &Symbols, values: &[Value]) -> Result<Vec<Column>, String> {
    if names.len() != values.len() {
        return Err("there are not as many columns as names".into());
    }
    let place = |name: &str| names.iter().position(|known| known == name.as_bytes());
    for (at, name) in names.iter().enumerate() {
        let shown = String::from_utf8_lossy(name);
        if !table.columns().iter().any(|column| column.name.as_bytes() == name) {
            return Err(format!("table {} has no column {shown}", table.name()));
        }
        if names.iter().position(|known| known == name) != Some(at) {
            return Err(format!("column {shown} is there twice"));
        }
    }
    let (mut columns, is_row) = (Vec::with_capacity(table.columns().len()), is_row(values));
    for (at, def) in table.columns().iter().enumerate() {
        match place(&def.name) {
            Some(place) => columns.push(column(def, at == 0, is_row, &values[place])?),
            None if at == 0 => {}
            None => return Err(format!("column {} is missing", def.name)),
        }
    }
    Ok(columns)
}

fn in_order(table: &Table, values: &[Value]) -> Result<Vec<Column>, String> {
    let defs = table.columns();
    // Without `time` the plant adds it in front.
    let skipped = match defs.len().checked_sub(values.len()) {
        Some(skipped @ 0..=1) => skipped,
        _ => {
            return Err(format!(
                "{} columns came; table {} has {}, of which the first, time, may be left out",
                values.len(),
                table.name(),
                defs.len()
            ));
        }
    };
    let is_row = is_row(values);
    let columns = defs[skipped..].iter().zip(values).enumerate();
    columns.map(|(at, (def, value))| column(def, at + skipped == 0, is_row, value)).collect()
}

/// Whether these are one value for each column, not many.
fn is_row(values: &[Value]) -> bool {
    values.iter().any(|value| value.as_atom().is_some())
}

fn column(def: &ColumnDef, is_time: bool, is_row: bool, value: &Value) -> Result<Column, String> {
    // A text is many chars, and one value nevertheless.
    if is_row
        && def.kind == Kind::Text
        && let Some(text) = text_of(value, Type::Char)
    {
        return Ok(Column::Text([text].into_iter().collect()));
    }
    column_of(def.kind, is_time, value)
        .ok_or_else(|| format!("column {} takes {}s, not {}", def.name, def.kind.name(), what(value)))
}

/// The name of a value's type, for errors.
pub(crate) fn what(value: &Value) -> String {
    match (value, value.ty()) {
        (Value::Atom(_), Some(ty)) => format!("one {}", ty.name()),
        (_, Some(ty)) => format!("{}s", ty.name()),
        (Value::List(_), _) => "a mixed list".into(),
        (Value::Table(_), _) => "a table".into(),
        (Value::Dictionary(_), _) => "a dictionary".into(),
        (Value::Function(_), _) => "a function".into(),
        _ => "an error".into(),
    }
}

fn column_of_elements(kind: Kind, elements: &Elements) -> Option<Column> {
    Some(match (kind, elements) {
        (Kind::Boolean, Elements::Boolean(values)) => {
            Column::Byte(values.iter().map(|value| u8::from(*value)).collect())
        }
        (Kind::Byte, Elements::Byte(values)) => Column::Byte(values.clone()),
        (Kind::Short, Elements::Short(values)) => Column::Short(values.clone()),
        (Kind::Int, Elements::Int(values))
        | (Kind::Month, Elements::Month(values))
        | (Kind::Date, Elements::Date(values))
        | (Kind::Minute, Elements::Minute(values))
        | (Kind::Second, Elements::Second(values))
        | (Kind::Time, Elements::Time(values)) => Column::Int(values.clone()),
        (Kind::Int, Elements::Short(values)) => {
            Column::Int(values.iter().map(|value| int_of(*value)).collect())
        }
        (Kind::Long, Elements::Long(values)) | (Kind::Timespan, Elements::Timespan(values)) => {
            Column::Long(values.clone())
        }
        (Kind::Long, Elements::Short(values)) => {
            Column::Long(values.iter().map(|value| long_of(int_of(*value))).collect())
        }
        (Kind::Long, Elements::Int(values)) => {
            Column::Long(values.iter().map(|value| long_of(*value)).collect())
        }
        (Kind::Timestamp, Elements::Timestamp(values)) => {
            Column::Long(values.iter().map(|value| nanos_of_kdb_timestamp(*value)).collect())
        }
        (Kind::Real, Elements::Real(values)) => Column::Real(values.clone()),
        (Kind::Float, Elements::Float(values)) | (Kind::Datetime, Elements::Datetime(values)) => {
            Column::Float(values.clone())
        }
        (Kind::Float, Elements::Real(values)) => {
            Column::Float(values.iter().map(|value| f64::from(*value)).collect())
        }
        (Kind::Char, Elements::Char(values)) => {
            Column::Int(values.iter().map(|value| i32::from(*value)).collect())
        }
        (Kind::Symbol | Kind::Text, Elements::Symbol(values)) => Column::Text(values.iter().collect()),
        (Kind::Guid, Elements::Guid(values)) => Column::Text(values.iter().collect()),
        (Kind::Text, Elements::Char(values)) => Column::Text(values.iter().map(|value| [*value]).collect()),
        _ => return None,
    })
}

fn int_of(short: i16) -> i32 {
    match short {
        i16::MIN => i32::MIN,
        i16::MAX => i32::MAX,
        value if value == -i16::MAX => -i32::MAX,
        value => value.into(),
    }
}

fn long_of(int: i32) -> i64 {
    match int {
        i32::MIN => i64::MIN,
        i32::MAX => i64::MAX,
        value if value == -i32::MAX => -i64::MAX,
        value => value.into(),
    }
}

/// `time` is in 64 bits whatever its kind, datetimes in nanoseconds since 1970.
fn time_column(kind: Kind, column: Column) -> Column {
    match (kind, column) {
        (Kind::Datetime, Column::Float(values)) => {
            Column::Long(values.iter().map(|days| nanos_of_kdb_datetime(*days).unwrap_or(i64::MIN)).collect())
        }
        (_, Column::Int(values)) => Column::Long(values.iter().map(|value| long_of(*value)).collect()),
        (_, column) => column,
    }
}

fn time_elements(kind: Kind, values: &[i64]) -> Elements {
    let ints = || values.iter().map(|value| narrowed(*value)).collect();
    match kind {
        Kind::Time => Elements::Time(ints()),
        Kind::Second => Elements::Second(ints()),
        Kind::Minute => Elements::Minute(ints()),
        Kind::Timespan => Elements::Timespan(values.to_vec()),
        Kind::Datetime => Elements::Datetime(values.iter().map(|nanos| datetime_of(*nanos)).collect()),
        _ => Elements::Timestamp(values.iter().map(|nanos| kdb_timestamp_of_nanos(*nanos)).collect()),
    }
}

fn narrowed(value: i64) -> i32 {
    match value {
        i64::MIN => i32::MIN,
        value => value.clamp((-i32::MAX).into(), i32::MAX.into()) as i32,
    }
}

fn datetime_of(nanos: i64) -> f64 {
    if nanos == i64::MIN { f64::NAN } else { kdb_datetime_of_nanos(nanos) }
}

fn elements_of(kind: Kind, column: &Column) -> Elements {
    match column {
        Column::Byte(values) if kind == Kind::Boolean => {
            Elements::Boolean(values.iter().map(|value| *value != 0).collect())
        }
        Column::Byte(values) => Elements::Byte(values.clone()),
        Column::Short(values) => Elements::Short(values.clone()),
        Column::Int(values) => ints(kind, values),
        Column::Long(values) => longs(kind, values),
        Column::Real(values) => Elements::Real(values.clone()),
        Column::Float(values) if kind == Kind::Datetime => Elements::Datetime(values.clone()),
        Column::Float(values) => Elements::Float(values.clone()),
        Column::Decimal(values) => Elements::Float(values.iter().copied().map(Decimal64::to_f64).collect()),
        Column::Text(texts) if kind == Kind::Guid => {
            Elements::Guid(texts.iter().map(|bytes| bytes.try_into().unwrap_or_default()).collect())
        }
        Column::Text(texts) => Elements::Symbol(texts.iter().collect()),
    }
}

fn ints(kind: Kind, values: &[i32]) -> Elements {
    let ints = values.to_vec();
    match kind {
        Kind::Char => {
            Elements::Char(values.iter().map(|value| u8::try_from(*value).unwrap_or(b'?')).collect())
        }
        Kind::Month => Elements::Month(ints),
        Kind::Date => Elements::Date(ints),
        Kind::Minute => Elements::Minute(ints),
        Kind::Second => Elements::Second(ints),
        Kind::Time => Elements::Time(ints),
        _ => Elements::Int(ints),
    }
}

fn longs(kind: Kind, values: &[i64]) -> Elements {
    match kind {
        Kind::Timestamp => {
            Elements::Timestamp(values.iter().map(|nanos| kdb_timestamp_of_nanos(*nanos)).collect())
        }
        Kind::Timespan => Elements::Timespan(values.to_vec()),
        _ => Elements::Long(values.to_vec()),
    }
}

fn list_of(texts: &Texts, elements: impl Fn(&[u8]) -> Elements) -> Value {
    Value::list(texts.iter().map(|text| elements(text).into()).collect())
}

/// A list of texts or of bytes.
fn texts_of(kind: Kind, items: &[Value]) -> Option<Column> {
    let ty = match kind {
        Kind::Text => Type::Char,
        Kind::Bytes => Type::Byte,
        _ => return atoms_of(kind, items),
    };
    let texts = items.iter().map(|item| text_of(item, ty)).collect::<Option<Texts>>()?;
    Some(Column::Text(texts))
}

/// A list of atoms of one type, which some clients do not make a vector of.
fn atoms_of(kind: Kind, items: &[Value]) -> Option<Column> {
    let mut elements = Elements::new(items.first()?.as_atom()?.ty());
    items.iter().try_for_each(|item| elements.push(item.as_atom()?.clone()).ok())?;
    column_of_elements(kind, &elements)
}

/// The bytes of a text: a vector of chars, one char, or an empty list.
fn text_of(value: &Value, ty: Type) -> Option<&[u8]> {
    match value {
        Value::Vector(Vector { elements: Elements::Char(text), .. }) if ty == Type::Char => Some(text),
        Value::Vector(Vector { elements: Elements::Byte(bytes), .. }) if ty == Type::Byte => Some(bytes),
        Value::Atom(Atom::Char(letter)) if ty == Type::Char => Some(std::slice::from_ref(letter)),
        Value::Atom(Atom::Byte(byte)) if ty == Type::Byte => Some(std::slice::from_ref(byte)),
        Value::List(list) if list.items.is_empty() => Some(&[]),
        _ => None,
    }
}

fn empty(kind: Kind) -> Column {
    let elements = Type::from_letter(kind.letter()).map(Elements::new);
    let column = elements.and_then(|elements| column_of_elements(kind, &elements));
    column.unwrap_or_else(|| Column::Text(Texts::new()))
}

fn grouped(value: Value) -> Value {
    match value {
        Value::Vector(vector) => Value::Vector(Vector { attribute: Attribute::Grouped, ..vector }),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trade() -> Table {
        let columns =
            [("price".to_string(), Kind::Float), ("size".into(), Kind::Long), ("note".into(), Kind::Text)];
        Table::of_kinds("trade", Kind::Timespan, &columns).expect("a table")
    }

    fn row() -> Vec<Column> {
        vec![
            Column::Long(vec![5]),
            Column::Text(["A"].into_iter().collect()),
            Column::Float(vec![1.5]),
            Column::Long(vec![100]),
            Column::Text(["hi"].into_iter().collect()),
        ]
    }

    fn atoms() -> Vec<Value> {
        vec![
            Atom::Timespan(5).into(),
            Value::symbol("A"),
            Atom::Float(1.5).into(),
            100.into(),
            Value::text("hi"),
        ]
    }

    #[test]
    fn all_types_come_back_with_their_nulls() {
        for ty in Type::ALL {
            let kind = Kind::of_letter(ty.letter()).expect("a kind");
            let mut elements = Elements::new(ty);
            elements.push(ty.null()).expect("an element of its type");
            let shown = Value::from(elements.clone()).to_string();
            for is_time in [false, kind.is_time()] {
                let column = column_of(kind, is_time, &elements.clone().into()).expect("a column");
                assert_eq!(value_of(kind, is_time, &column).to_string(), shown);
            }
            assert_eq!(kind_of(&elements.into()), Some(kind));
        }
        let texts = Value::list(vec![Value::text("ab"), Value::text("")]);
        let column = column_of(Kind::Text, false, &texts).expect("a column");
        assert_eq!((value_of(Kind::Text, false, &column), kind_of(&texts)), (texts, Some(Kind::Text)));
    }

    #[test]
    fn rows_come_in_all_forms() {
        let table = trade();
        let lists: Vec<Value> = atoms().into_iter().map(|atom| Value::collect(vec![atom])).collect();
        let names: Symbols = ["size", "time", "sym", "note", "price"].into_iter().collect();
        let by_name = |from: &[Value]| [3, 0, 1, 4, 2].map(|at: usize| from[at].clone()).to_vec();
        let kdb = tapedb_kdb_ipc::Table::new(names.clone(), by_name(&lists)).expect("a table");
        let forms = [
            Value::list(atoms()),
            Value::list(lists.clone()),
            kdb.into(),
            Value::dictionary(names.clone().into(), Value::list(by_name(&lists))),
            Value::dictionary(names.into(), Value::list(by_name(&atoms()))),
        ];
        for form in forms {
            assert_eq!(update_of(&table, &form), Ok(row()), "{form}");
        }
        assert_eq!(update_of(&table, &Value::list(atoms()[1..].to_vec())), Ok(row()[1..].to_vec()));
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let table = trade();
        let mut wrong = atoms();
        wrong[2] = Value::symbol("x");
        let names: Symbols = ["sym", "sym"].into_iter().collect();
        let doubled = Value::dictionary(names.into(), Value::list(atoms()[..2].to_vec()));
        let cases = [
            (Value::list(wrong), "column price takes floats, not one symbol"),
            (Value::list(vec![1.into()]), "1 columns came; table trade has 5"),
            (1.into(), "not as one long"),
            (doubled, "column sym is there twice"),
            (Value::dictionary(Value::from(Symbols::from_iter(["x"])), vec![1].into()), "has no column x"),
            (
                Value::dictionary(Value::from(Symbols::from_iter(["sym"])), Symbols::from_iter(["a"]).into()),
                "column price is missing",
            ),
        ];
        for (rows, expected) in cases {
            let error = update_of(&table, &rows).unwrap_err();
            assert!(error.contains(expected), "{error:?} should say {expected:?}");
        }
    }

    #[test]
    fn a_table_without_rows_has_its_types() {
        let shown = empty_table(&trade()).to_string();
        assert_eq!(shown, "+`time`sym`price`size`note!(`timespan$();`symbol$();`float$();`long$();())");
    }

    #[test]
    fn narrow_integers_fit_wide_columns() {
        let shorts = Elements::Short(vec![1, i16::MIN, i16::MAX]).into();
        assert_eq!(column_of(Kind::Long, false, &shorts), Some(Column::Long(vec![1, i64::MIN, i64::MAX])));
        assert_eq!(column_of(Kind::Int, false, &Elements::Long(vec![1]).into()), None);
    }
}
