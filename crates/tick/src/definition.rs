//! Reads the tables of a plant from a text: our schema, or the `sym.q` of a kdb+tick installation.

use crate::error::TickError;
use crate::kind::Kind;
use crate::table::{SYM, TIME, Table};
use tapedb_schema::Schema;

/// Most bytes of a text.
pub const DEFINITION_BYTES_MAX: usize = 1 << 20;

/// The tables that a text defines: of a schema each message type; of a `sym.q` each definition of the forms
/// ``trade:([]time:`timespan$();sym:`g#`symbol$();price:`float$())`` and ``quote:flip `time`sym`bid!"nsf"$\:()``. Columns may
/// also be typed by `0#` and a literal, as in `price:0#0n`; `()` is a column of texts. Nothing of the text is ever evaluated.
///
/// # Errors
/// [`TickError::Definition`] with the line.
pub fn tables(text: &str) -> Result<Vec<Table>, TickError> {
    if text.len() > DEFINITION_BYTES_MAX {
        let what = format!("the text has {} bytes; at most {DEFINITION_BYTES_MAX} are read", text.len());
        return Err(TickError::Definition { line: 0, what });
    }
    let tables = if is_q(text) { q_tables(text)? } else { schema_tables(text)? };
    match doubled(&tables) {
        Some(name) => Err(TickError::Definition { line: 0, what: format!("{name} is defined twice") }),
        None if tables.is_empty() => {
            let what = "no table is defined; write `message Trade { price: f64 }`, or trade:([]time:`timespan$();sym:`symbol$();price:`float$())";
            Err(TickError::Definition { line: 0, what: what.into() })
        }
        None => Ok(tables),
    }
}

fn doubled(tables: &[Table]) -> Option<&str> {
    let twice = |(at, table): (usize, &Table)| tables[..at].iter().any(|other| other.name() == table.name());
    (0..tables.len()).find(|at| twice((*at, &tables[*at]))).map(|at| tables[at].name())
}

/// A `sym.q` has a statement that is a name, a colon and a table; a schema has none.
fn is_q(text: &str) -> bool {
    let is_table =
        |value: &str| value.trim_start().starts_with('(') || value.trim_start().starts_with("flip");
    statements(text).any(|(_, statement)| {
        statement.split_once(':').is_some_and(|(name, value)| is_name(name.trim()) && is_table(value))
    })
}

fn schema_tables(text: &str) -> Result<Vec<Table>, TickError> {
    let schema: Schema = text.parse().map_err(|error: tapedb_schema::SchemaError| TickError::Definition {
        line: 0,
        what: error.to_string(),
    })?;
    Table::all_of_schema(&schema)
}

fn q_tables(text: &str) -> Result<Vec<Table>, TickError> {
    statements(text)
        .map(|(line, statement)| q_table(&statement).map_err(|what| TickError::Definition { line, what }))
        .collect()
}

/// Statements with the line they begin on: a line that begins with a space, or an open bracket, continues the one before.
fn statements(text: &str) -> impl Iterator<Item = (usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut open = 0;
    for (number, line) in text.lines().enumerate() {
        let code = without_comment(line);
        let goes_on = open > 0 || code.starts_with([' ', '\t']);
        match found.last_mut() {
            Some((_, statement)) if goes_on => statement.push_str(code.trim()),
            _ if code.trim().is_empty() => continue,
            _ => found.push((number + 1, code.trim().into())),
        }
        let depth = |at: char| match at {
            '(' | '[' | '{' => 1,
            ')' | ']' | '}' => -1,
            _ => 0,
        };
        open += code.chars().map(depth).sum::<i32>();
    }
    found.into_iter().map(|(line, statement)| (line, statement.trim_end_matches(';').trim().to_string()))
}

/// A comment begins with a slash at the beginning of a line or after a space.
fn without_comment(line: &str) -> &str {
    let begins = |(at, _): &(usize, &str)| *at == 0 || line[..*at].ends_with([' ', '\t']);
    line.match_indices('/').find(begins).map_or(line, |(at, _)| &line[..at])
}

fn q_table(statement: &str) -> Result<Table, String> {
    let (name, value) =
        statement.split_once(':').ok_or_else(|| expected("a table's name and a colon", statement))?;
    let (name, value) = (name.trim(), value.trim());
    if !is_name(name) {
        return Err(expected("a table's name", name));
    }
    let columns = match value.strip_prefix("flip") {
        Some(dictionary) => flipped(dictionary.trim())?,
        None => bracketed(value)?,
    };
    let [(time, time_kind), (sym, sym_kind), fields @ ..] = &columns[..] else {
        return Err(format!("{name} has no columns time and sym, with which every table begins"));
    };
    if time != TIME || sym != SYM || *sym_kind != Kind::Symbol {
        return Err(format!(
            "the first columns of {name} must be time and sym, a symbol; they are {time} and {sym}"
        ));
    }
    Table::of_kinds(name, *time_kind, fields).map_err(|error| match error {
        TickError::Definition { what, .. } => what,
        error => error.to_string(),
    })
}

/// `([]time:…;sym:…)`
fn bracketed(value: &str) -> Result<Vec<(String, Kind)>, String> {
    let inner = value.strip_prefix('(').and_then(|value| value.strip_suffix(')'));
    let inner = inner.and_then(|inner| inner.trim_start().strip_prefix('['));
    let (keys, columns) =
        inner.and_then(|inner| inner.split_once(']')).ok_or_else(|| expected("([] and columns)", value))?;
    if !keys.trim().is_empty() {
        return Err("a keyed table is not a plant's; leave the brackets empty".into());
    }
    columns.split(';').map(str::trim).filter(|column| !column.is_empty()).map(column).collect()
}

fn column(text: &str) -> Result<(String, Kind), String> {
    let (name, value) = text.split_once(':').ok_or_else(|| expected("a column's name and a colon", text))?;
    let (name, value) = (name.trim(), value.trim());
    if !is_name(name) {
        return Err(expected("a column's name", name));
    }
    let kind = kind_of(value)
        .ok_or_else(|| expected(&format!("a typed empty list for column {name}, as `float$()"), value))?;
    Ok((name.into(), kind))
}

/// The kind of an empty list.
fn kind_of(value: &str) -> Option<Kind> {
    let value = without_attribute(value.trim().trim_matches(['(', ')']).trim());
    if value.is_empty() {
        return Some(Kind::Text);
    }
    if let Some(cast) = value.strip_suffix("$()").or_else(|| value.strip_suffix('$')) {
        return match cast.strip_prefix('`') {
            Some(name) => Kind::of_name(name),
            None => cast.trim_matches('"').chars().next().and_then(Kind::of_letter),
        };
    }
    let literal = value.strip_prefix("0#").or_else(|| value.strip_prefix("0 #"))?.trim();
    of_literal(literal)
}

/// `` `g#`symbol$() `` without its attribute.
fn without_attribute(value: &str) -> &str {
    let attributes = ["`g#", "`s#", "`p#", "`u#", "`#"];
    attributes.iter().find_map(|attribute| value.strip_prefix(attribute)).unwrap_or(value).trim()
}

/// The kind of a literal, such as `0n` and `` ` ``.
fn of_literal(literal: &str) -> Option<Kind> {
    let named = [
        ("`", Kind::Symbol),
        ("0n", Kind::Float),
        ("0f", Kind::Float),
        ("0b", Kind::Boolean),
        ("\" \"", Kind::Char),
        ("\"\"", Kind::Char),
    ];
    if let Some((_, kind)) = named.iter().find(|(text, _)| *text == literal) {
        return Some(*kind);
    }
    if literal.starts_with("0x") {
        return Some(Kind::Byte);
    }
    let digits =
        literal.trim_start_matches(|letter: char| letter.is_ascii_digit() || "NW.:".contains(letter));
    match (digits, literal.contains('.')) {
        ("", true) => Some(Kind::Float),
        ("", false) => Some(Kind::Long),
        (letters, _) if letters.len() == 1 => letters.chars().next().and_then(Kind::of_letter),
        _ => None,
    }
}

/// `` `time`sym`bid!"nsf"$\:() ``
fn flipped(text: &str) -> Result<Vec<(String, Kind)>, String> {
    let form = "flip `time`sym!\"ns\"$\\:()";
    let (names, letters) = text.split_once('!').ok_or_else(|| expected(form, text))?;
    let letters = letters.trim().strip_suffix("$\\:()").map(str::trim);
    let letters = letters.and_then(|letters| letters.strip_prefix('"')?.strip_suffix('"'));
    let letters = letters.ok_or_else(|| expected(form, text))?;
    let names: Vec<&str> = names.trim().trim_matches(['(', ')']).split('`').skip(1).map(str::trim).collect();
    if names.len() != letters.chars().count() {
        return Err(format!(
            "{} columns and {} types; give each column one",
            names.len(),
            letters.chars().count()
        ));
    }
    let kind = |letter: char| match letter {
        '*' | ' ' => Some(Kind::Text),
        letter => Kind::of_letter(letter.to_ascii_lowercase()),
    };
    let typed = names.iter().zip(letters.chars()).map(|(name, letter)| {
        let kind = kind(letter).ok_or_else(|| expected("a type's letter", &letter.to_string()))?;
        Ok((name.to_string(), kind))
    });
    typed.collect()
}

fn is_name(text: &str) -> bool {
    let mut letters = text.chars();
    letters.next().is_some_and(|first| first.is_ascii_alphabetic())
        && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

fn expected(what: &str, found: &str) -> String {
    let found: String = found.chars().take(40).collect();
    format!("expected {what}, found {found:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> String {
        let tables = tables(text).unwrap();
        let letters =
            |table: &Table| table.columns().iter().map(|column| column.kind.letter()).collect::<String>();
        tables
            .iter()
            .map(|table| format!("{} {}", table.name(), letters(table)))
            .collect::<Vec<_>>()
            .join(", ")
    }

    #[test]
    fn what_kdb_tick_ships_is_read() {
        let text = "/ tables\nquote:([]time:`timespan$(); sym:`g#`symbol$(); bid:`float$(); ask:`float$(); bsize:`long$(); asize:`long$(); mode:`char$(); ex:`char$())\n\
            trade:([]time:`timespan$();\n  sym:`symbol$();price:`float$(); / what it cost\n  size:`int$();stop:`boolean$())\n";
        assert_eq!(kinds(text), "quote nsffjjcc, trade nsfib");
        assert_eq!(
            kinds("t:([] time:0#0Np; sym:0#`; a:0#0n; b:0#0; c:(); d:0#0Nd; e:\"j\"$())"),
            "t psfjCdj"
        );
        assert_eq!(kinds("trade:flip `time`sym`price`size!\"nsfj\"$\\:()"), "trade nsfj");
    }

    #[test]
    fn schemas_are_read() {
        assert_eq!(
            kinds("message trade { price: f64, size: i64? } message quote { bid: decimal64 }"),
            "trade psfj, quote psf"
        );
    }

    #[test]
    fn what_is_no_definition_is_refused_with_its_line() {
        let refused = |text: &str| tables(text).unwrap_err().to_string();
        assert!(
            refused("a:([]time:`timespan$();sym:`symbol$())\nsystem \"rm\"\nb:([]x:`long$())")
                .contains("line 2")
        );
        assert!(refused("t:([]time:`timespan$();sym:`symbol$();x:value \"\\\\l\")").contains("x"));
        assert!(refused("t:([k:`long$()]time:`timespan$();sym:`symbol$())").contains("keyed"));
        assert!(refused("").contains("no table"));
        assert!(refused("message t { a: f64 } message t { a: f64 }").contains('t'));
        assert!(refused("t:flip `time`sym!\"n\"$\\:()").contains("2 columns"));
    }
}
