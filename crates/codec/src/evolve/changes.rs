//! The differences between two schemas, as text for people, and the stored values that they lose.

use super::error::IncompatibleSchema;
use super::plan::{Conversion, Draft, Origin, Planner};
use crate::dynamic::Layouts;
use std::fmt;
use tapedb_schema::{Field, RecordType};

/// One difference between a written schema and the one that it is read under.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The record type.
    pub record: String,
    /// The field, as the reading schema calls it, or the written one where the reading has none; `None`: the whole type.
    pub field: Option<String>,
    /// What happens to it.
    pub kind: ChangeKind,
    /// The written values that cannot be read by it.
    pub losses: Vec<Loss>,
}

/// What happens to a record type or a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeKind {
    /// It is new. Of a field: its type, and what messages have that were written without it.
    Added {
        /// The type, as `u32?`; empty for a record type.
        ty: String,
        /// The default, `null`, or empty for a record type.
        instead: String,
    },
    /// The reading schema does not have it. Of a field: the type it had.
    Dropped {
        /// The type, as `u32?`; empty for a record type.
        ty: String,
    },
    /// A field has another name or another type; a record type is a message or nested now. Names and types are the same
    /// where that has not changed.
    Converted {
        /// The name it had.
        from_name: String,
        /// The type it had.
        from: String,
        /// The type it has.
        to: String,
    },
}

/// Values that cannot be read any more once a schema has changed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Loss {
    /// All values of a field.
    Field,
    /// A record type that only others held.
    Type,
    /// Nulls cannot be distinguished from this default.
    Nulls(String),
    /// These symbols of an enum: they become null, or messages with them cannot be read.
    Symbols(Vec<String>, Unknown),
    /// Records of these types: they become null, or messages with them cannot be read.
    Records(Vec<String>, Unknown),
    /// Messages whose number does not fit the new type exactly cannot be read.
    Range,
}

/// What a value that the reading schema does not have becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unknown {
    /// Null.
    Null,
    /// Its whole message cannot be read.
    Unreadable,
}

impl Loss {
    /// A word for its kind: `fields`, `types`, `nulls`, `symbols`, `records`, `ranges`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Field => "fields",
            Self::Type => "types",
            Self::Nulls(_) => "nulls",
            Self::Symbols(..) => "symbols",
            Self::Records(..) => "records",
            Self::Range => "ranges",
        }
    }

    /// All kinds.
    pub const KINDS: [&'static str; 6] = ["fields", "types", "nulls", "symbols", "records", "ranges"];
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = |what: &str, names: &[String], unknown: Unknown, f: &mut fmt::Formatter<'_>| {
            let names = names.join(", ");
            match unknown {
                Unknown::Null => write!(f, "{what} {names} read as null"),
                Unknown::Unreadable => write!(f, "messages with {what} {names} cannot be read"),
            }
        };
        match self {
            Self::Field => f.write_str("its values cannot be read any more"),
            Self::Type => f.write_str("records of it cannot be read any more"),
            Self::Nulls(default) => write!(f, "nulls cannot be distinguished from {default}"),
            Self::Symbols(names, unknown) => known("symbols", names, *unknown, f),
            Self::Records(names, unknown) => known("records", names, *unknown, f),
            Self::Range => f.write_str("messages whose number does not fit exactly cannot be read"),
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { record, field, kind, .. } = self;
        let name = field.as_ref().map_or(record.clone(), |field| format!("{record}.{field}"));
        match kind {
            ChangeKind::Added { ty, .. } if ty.is_empty() => write!(f, "{name} is added"),
            ChangeKind::Added { ty, instead } => {
                write!(f, "{name} is added: {ty}, {instead} in stored messages")
            }
            ChangeKind::Dropped { ty } if ty.is_empty() => write!(f, "{name} is dropped"),
            ChangeKind::Dropped { ty } => write!(f, "{name} is dropped: it was {ty}"),
            ChangeKind::Converted { from_name, from, to } => {
                let is_renamed = field.as_ref().is_some_and(|field| field != from_name);
                match (is_renamed, from == to) {
                    (true, true) => write!(f, "{name} is {record}.{from_name} renamed"),
                    (true, false) => write!(f, "{name} is {record}.{from_name} renamed, {from} becomes {to}"),
                    (false, true) => write!(f, "{name} is {to} as before, with other values"),
                    (false, false) => write!(f, "{name} is converted: {from} becomes {to}"),
                }
            }
        }
    }
}

/// The differences, in the order of the written types and the reading fields, then what is new.
pub(super) fn changes(written: &Layouts, read: &Layouts) -> Result<Vec<Change>, IncompatibleSchema> {
    let drafts = Planner::new(written, read).drafts()?;
    let mut changes = Vec::new();
    for (from, draft) in written.schema().records.iter().zip(&drafts) {
        match draft {
            Some(draft) => changes_of_type((written, read), from, draft, &mut changes),
            None => changes.push(Change {
                record: from.name.clone(),
                field: None,
                kind: ChangeKind::Dropped { ty: String::new() },
                losses: vec![Loss::Type],
            }),
        }
    }
    let is_new = |record: &&RecordType| written.schema().record(&record.name).is_none();
    changes.extend(read.schema().records.iter().filter(is_new).map(|record| Change {
        record: record.name.clone(),
        field: None,
        kind: ChangeKind::Added { ty: String::new(), instead: String::new() },
        losses: Vec::new(),
    }));
    Ok(changes)
}

fn changes_of_type(
    (written, read): (&Layouts, &Layouts),
    from: &RecordType,
    draft: &Draft,
    changes: &mut Vec<Change>,
) {
    let to = &read.schema().records[usize::from(draft.target)];
    let change = |field: Option<&str>, kind, losses| Change {
        record: from.name.clone(),
        field: field.map(str::to_string),
        kind,
        losses,
    };
    if from.message != to.message {
        let word = |message| if message { "message" } else { "record" }.to_string();
        let (from, to) = (word(from.message), word(to.message));
        changes.push(change(None, ChangeKind::Converted { from_name: String::new(), from, to }, Vec::new()));
    }
    for (field, origin) in to.fields.iter().zip(&draft.fields) {
        match origin {
            Origin::Default(_) => {
                let (ty, instead) = (type_of(field), instead_of(field));
                changes.push(change(Some(&field.name), ChangeKind::Added { ty, instead }, Vec::new()));
            }
            Origin::Field(source, conversion, instead) => {
                let source = &from.fields[*source];
                let mut losses = Vec::new();
                if instead.is_some() && source.nullable {
                    losses.push(Loss::Nulls(instead_of(field)));
                }
                lost_by(conversion, (written, read), field.nullable, &mut losses);
                let (from, to) = (type_of(source), type_of(field));
                if from != to || source.name != field.name || !losses.is_empty() {
                    let from_name = source.name.clone();
                    changes.push(change(
                        Some(&field.name),
                        ChangeKind::Converted { from_name, from, to },
                        losses,
                    ));
                }
            }
        }
    }
    let taken = |index: usize| {
        draft.fields.iter().any(|origin| matches!(origin, Origin::Field(source, ..) if *source == index))
    };
    let dropped = from.fields.iter().enumerate().filter(|(index, _)| !taken(*index));
    changes.extend(dropped.map(|(_, field)| {
        change(Some(&field.name), ChangeKind::Dropped { ty: type_of(field) }, vec![Loss::Field])
    }));
}

/// What a conversion loses; `nullable`: an unknown value becomes null.
fn lost_by(
    conversion: &Conversion,
    (written, read): (&Layouts, &Layouts),
    nullable: bool,
    losses: &mut Vec<Loss>,
) {
    let unknown = if nullable { Unknown::Null } else { Unknown::Unreadable };
    match conversion {
        Conversion::Decimal(number, _) if number.width == 8 => losses.push(Loss::Range),
        Conversion::Scaled(number, factor, _) if may_overflow(number.width, number.signed, *factor) => {
            losses.push(Loss::Range);
        }
        Conversion::Symbols(symbols) => {
            let names = &written.schema().enums[symbols.written].symbols;
            let lost = names.iter().zip(&symbols.ordinals).filter(|(_, ordinal)| ordinal.is_none());
            let lost: Vec<String> = lost.map(|((name, _), _)| name.clone()).collect();
            if !lost.is_empty() {
                losses.push(Loss::Symbols(lost, unknown));
            }
        }
        Conversion::Array(array) => lost_by(&array.conversion, (written, read), array.to.nullable, losses),
        Conversion::Record(records) => {
            let lost = records.written.iter().zip(&records.tags).filter(|(_, tag)| tag.is_none());
            let name = |id: &u16| written.records()[usize::from(*id)].name.clone();
            let lost: Vec<String> = lost.map(|(id, _)| name(id)).collect();
            if !lost.is_empty() {
                losses.push(Loss::Records(lost, unknown));
            }
        }
        _ => {}
    }
}

/// Whether an integer of so many bytes times a factor may have more than the eighteen digits of a scaled decimal.
fn may_overflow(width: usize, signed: bool, factor: i64) -> bool {
    let bits = 8 * width as u32 - u32::from(signed);
    (1_i128 << bits) * i128::from(factor) >= 10_i128.pow(18)
}

fn type_of(field: &Field) -> String {
    format!("{}{}", field.ty, if field.nullable { "?" } else { "" })
}

/// What a field has where nothing was written.
fn instead_of(field: &Field) -> String {
    field.default.as_ref().map_or("null".into(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::super::Evolution;
    use super::*;

    fn layouts(text: &str) -> Layouts {
        Layouts::new(text.parse().unwrap()).unwrap()
    }

    /// Each change in words, with the kinds of what it loses.
    fn lines(written: &str, read: &str) -> Vec<String> {
        let changes = Evolution::changes(&layouts(written), &layouts(read)).unwrap();
        let line = |change: &Change| {
            let losses: Vec<String> =
                change.losses.iter().map(|loss| format!(" [{}: {loss}]", loss.kind())).collect();
            format!("{change}{}", losses.concat())
        };
        changes.iter().map(line).collect()
    }

    fn field(written: &str, read: &str) -> Vec<String> {
        let message = |ty: &str| {
            format!(
                "enum E {{ A, B, C }} enum F {{ C, X, A }} record R {{ x: u8 }} record S {{ y: u8 }} message M {{ a: {ty} }}"
            )
        };
        lines(&message(written), &message(read))
    }

    #[test]
    fn every_difference_is_named() {
        let written = "message Tick { bid: i32, note: string, old: u8? } record Gone { x: u8 } message Same { a: i64, b: u8 }";
        let read = "message Tick { price: decimal64 [alias bid], size: u32 = 7, flag: bool?, note: string } \
                    message Same { b: u8, a: i64 } message New { x: u8 }";
        assert_eq!(
            lines(written, read),
            [
                "Tick.price is Tick.bid renamed, i32 becomes decimal64",
                "Tick.size is added: u32, 7 in stored messages",
                "Tick.flag is added: bool?, null in stored messages",
                "Tick.old is dropped: it was u8? [fields: its values cannot be read any more]",
                "Gone is dropped [types: records of it cannot be read any more]",
                "New is added",
            ]
        );
        assert!(lines(written, written).is_empty());
    }

    #[test]
    fn changes_that_lose_values_name_them() {
        for (written, read, lost) in [
            ("u8?", "u8 = 3", "nulls cannot be distinguished from 3"),
            ("E", "F", "messages with symbols B cannot be read"),
            ("E?", "F?", "symbols B read as null"),
            ("array<E>", "array<F>", "messages with symbols B cannot be read"),
            ("array<E?>", "array<F?>", "symbols B read as null"),
            ("record<R|S>", "record<S>", "messages with records R cannot be read"),
            ("record<R|S>?", "record<S>?", "records R read as null"),
            ("i64", "decimal64", "messages whose number does not fit exactly cannot be read"),
            ("decimal(18,2)", "decimal64", "messages whose number does not fit exactly cannot be read"),
            ("u32", "decimal(18,9)", "messages whose number does not fit exactly cannot be read"),
        ] {
            let lines = field(written, read);
            assert!(
                lines.len() == 1 && lines[0].ends_with(&format!(": {lost}]")),
                "{written} as {read}: {lines:?}"
            );
        }
        for (written, read) in [
            ("i32", "decimal64"),
            ("u32", "decimal(18,8)"),
            ("u8", "i64?"),
            ("f32", "f64"),
            ("ascii(3)", "string"),
            ("record<R>", "record<S|R>"),
            ("array<u8>", "array<i16?>"),
        ] {
            let lines = field(written, read);
            assert!(lines.len() == 1 && !lines[0].contains('['), "{written} as {read}: {lines:?}");
        }
        assert!(field("i64", "i64?")[0].ends_with("i64 becomes i64?"));
    }

    /// Where no loss is named, the extremes of a type convert; where one is, some value does not.
    #[test]
    fn stated_losses_of_ranges_are_real() {
        for (written, extremes, read) in [
            ("i8", ["-128", "127"], "decimal64"),
            ("i32", ["-2147483648", "2147483647"], "decimal64"),
            ("u32", ["0", "4294967295"], "decimal64"),
            ("u32", ["0", "4294967295"], "decimal(18,8)"),
            ("u32", ["0", "4294967295"], "decimal(18,10)"),
            ("i32", ["-2147483648", "2147483647"], "decimal(18,8)"),
            ("i64", ["-9223372036854775808", "9223372036854775807"], "decimal64"),
            ("u64", ["0", "18446744073709551615"], "decimal64"),
            ("i64", ["-9223372036854775808", "9223372036854775807"], "decimal(18,0)"),
        ] {
            let (from, to) = (
                layouts(&format!("message M {{ a: {written} }}")),
                layouts(&format!("message M {{ a: {read} }}")),
            );
            let changes = Evolution::changes(&from, &to).unwrap();
            let evolution = Evolution::new(&from, &to).unwrap();
            let fits = |value: &&str| {
                let (mut body, mut out) = (Vec::new(), Vec::new());
                from.encode(
                    &from.from_json(&format!("{{\"$type\":\"M\",\"a\":{value}}}")).unwrap(),
                    &mut body,
                )
                .unwrap();
                evolution.convert(0, &body, &mut out).is_ok()
            };
            let all_fit = extremes.iter().all(fits);
            if changes[0].losses.is_empty() {
                assert!(all_fit, "{written} as {read}");
            }
            if all_fit && written != "i64" {
                assert!(changes[0].losses.is_empty() || read == "decimal(18,10)", "{written} as {read}");
            }
        }
    }
}
