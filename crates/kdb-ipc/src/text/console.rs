//! Values on several lines.

use crate::elements::Elements;
use crate::symbols::Symbols;
use crate::value::{Dictionary, Table, Value};

/// A value as q's console shows it: tables and dictionaries in columns, lists of lists line by line, anything else on one
/// line. After `rows_max` rows there is `..`. Every line ends with a line feed.
pub fn console(value: &Value, rows_max: usize) -> String {
    match value {
        Value::Table(table) => grid(&[table], rows_max),
        Value::Dictionary(dictionary) if !value.is_empty() => keyed(dictionary, rows_max),
        Value::List(list) if !list.items.is_empty() => {
            lines(list.items.iter().take(rows_max).map(Value::to_string), list.items.len() > rows_max)
        }
        other => format!("{other}\n"),
    }
}

fn keyed(dictionary: &Dictionary, rows_max: usize) -> String {
    if let (Value::Table(keys), Value::Table(values)) = (&dictionary.keys, &dictionary.values) {
        return grid(&[keys, values], rows_max);
    }
    let count = dictionary.keys.len().unwrap_or(0);
    let keys: Vec<String> = (0..count.min(rows_max)).map(|row| cell(&dictionary.keys, row)).collect();
    let width = keys.iter().map(|key| key.chars().count()).max().unwrap_or(0);
    let pairs = keys.iter().enumerate();
    lines(
        pairs.map(|(row, key)| format!("{key:width$}| {}", cell(&dictionary.values, row))),
        count > rows_max,
    )
}

/// Tables side by side, the rows of one key those of the next.
fn grid(tables: &[&Table], rows_max: usize) -> String {
    let rows = tables.iter().map(|table| table.rows()).max().unwrap_or(0);
    let blocks: Vec<Vec<String>> = tables.iter().map(|table| block(table, rows.min(rows_max))).collect();
    let line = |index: usize| {
        let parts: Vec<&str> = blocks.iter().map(|block| block[index].as_str()).collect();
        parts.join("| ").trim_end().to_string()
    };
    let mut all = vec![line(0), "-".repeat(line(0).chars().count())];
    all.extend((1..=rows.min(rows_max)).map(line));
    lines(all.into_iter(), rows > rows_max)
}

/// The lines of a table: names, then rows, all of one width.
fn block(table: &Table, rows: usize) -> Vec<String> {
    let mut lines = vec![String::new(); rows + 1];
    for (index, column) in table.columns().iter().enumerate() {
        let name = String::from_utf8_lossy(table.names().get(index).unwrap_or_default()).into_owned();
        let cells: Vec<String> =
            std::iter::once(name).chain((0..rows).map(|row| cell(column, row))).collect();
        let width = cells.iter().map(|cell| cell.chars().count()).max().unwrap_or(0);
        let gap = if index > 0 { " " } else { "" };
        for (line, cell) in lines.iter_mut().zip(cells) {
            line.push_str(&format!("{gap}{cell:width$}"));
        }
    }
    lines
}

/// An element as in a table: nothing for nulls of numbers, names without backticks, chars without quotes.
fn cell(list: &Value, row: usize) -> String {
    match list {
        Value::Vector(vector) => element(&vector.elements, row),
        other => other.item(row).map(|item| item.to_string()).unwrap_or_default(),
    }
}

fn element(elements: &Elements, row: usize) -> String {
    match elements {
        Elements::Symbol(symbols) => name(symbols, row),
        Elements::Char(text) => {
            text.get(row).map(|letter| char::from(*letter).to_string()).unwrap_or_default()
        }
        Elements::Boolean(values) => {
            values.get(row).map(|value| u8::from(*value).to_string()).unwrap_or_default()
        }
        Elements::Byte(bytes) => bytes.get(row).map(|byte| format!("{byte:02x}")).unwrap_or_default(),
        other => match other.get(row) {
            Some(atom) if !atom.is_null() => Bare(atom).to_string(),
            _ => String::new(),
        },
    }
}

fn name(symbols: &Symbols, row: usize) -> String {
    String::from_utf8_lossy(symbols.get(row).unwrap_or_default()).into_owned()
}

struct Bare(crate::atom::Atom);

impl std::fmt::Display for Bare {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.bare(f)
    }
}

fn lines(lines: impl Iterator<Item = String>, is_cut: bool) -> String {
    let mut text: String = lines.map(|line| line + "\n").collect();
    if is_cut {
        text.push_str("..\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let columns = vec![
            Elements::Symbol(["MSFT", "A"].into_iter().collect()).into(),
            Elements::Float(vec![10.5, f64::NAN]).into(),
            Elements::Char(b"xy".to_vec()).into(),
        ];
        Table::new(["sym", "price", "c"].into_iter().collect(), columns).expect("a table")
    }

    #[test]
    fn tables_are_shown_in_columns() {
        let expected = "sym  price c\n------------\nMSFT 10.5  x\nA          y\n";
        assert_eq!(console(&table().into(), 10), expected);
        assert_eq!(console(&table().into(), 1), "sym  price c\n------------\nMSFT 10.5  x\n..\n");
    }

    #[test]
    fn dictionaries_and_keyed_tables_are_shown_in_columns() {
        let keys = Table::new(["k"].into_iter().collect(), vec![vec![1, 2].into()]).expect("a table");
        let keyed = Value::dictionary(keys.into(), table().into());
        assert_eq!(console(&keyed, 10).lines().next(), Some("k| sym  price c"));
        assert_eq!(console(&keyed, 10).lines().nth(2), Some("1| MSFT 10.5  x"));
        let names: Symbols = ["a", "bcd"].into_iter().collect();
        assert_eq!(console(&Value::dictionary(names.into(), vec![1, 2].into()), 10), "a  | 1\nbcd| 2\n");
    }

    #[test]
    fn anything_else_is_on_a_line() {
        assert_eq!(console(&vec![1, 2].into(), 10), "1 2\n");
        assert_eq!(console(&Value::list(vec![1.into(), Value::symbol("a")]), 10), "1\n`a\n");
    }
}
