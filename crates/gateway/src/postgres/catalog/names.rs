//! Numbers of schemas and tables: the same for the same name, as long as no other name has taken the number.

use crate::postgres::catalog::asked::Asked;
use crate::postgres::failure::Failure;
use crate::postgres::source;
use crate::postgres::types::Column;
use std::collections::BTreeSet;

/// Numbers below are PostgreSQL's own.
const FIRST: i64 = 16_384;
/// Tables of PostgreSQL that clients name, and their numbers there.
pub(crate) const KNOWN: [(&str, i64); 12] = [
    ("pg_type", 1247),
    ("pg_attribute", 1249),
    ("pg_proc", 1255),
    ("pg_class", 1259),
    ("pg_authid", 1260),
    ("pg_database", 1262),
    ("pg_am", 2601),
    ("pg_attrdef", 2604),
    ("pg_constraint", 2606),
    ("pg_description", 2609),
    ("pg_namespace", 2615),
    ("pg_extension", 3079),
];

/// What a user may see.
#[derive(Debug)]
pub(crate) struct Names {
    pub tables: Vec<Table>,
    /// Streams and their numbers.
    pub schemas: Vec<(String, i64)>,
}

/// A message type of a stream.
#[derive(Debug)]
pub(crate) struct Table {
    pub oid: i64,
    pub schema: String,
    pub schema_oid: i64,
    pub name: String,
    /// Whether each may be null.
    pub columns: Vec<(Column, bool)>,
}

impl Names {
    pub fn of(asked: &Asked<'_>) -> Result<Self, Failure> {
        let mut taken = BTreeSet::new();
        let mut names = Self { tables: Vec::new(), schemas: Vec::new() };
        for found in asked.backend.options.queries.tables(false, &asked.user)? {
            let schema_oid = match names.schemas.last() {
                Some((last, oid)) if *last == found.stream => *oid,
                _ => {
                    let oid = number(&[&found.stream], &mut taken);
                    names.schemas.push((found.stream.clone(), oid));
                    oid
                }
            };
            let nullable = found.columns.fields().iter().map(|field| field.is_nullable());
            let columns = source::columns(&found.columns).into_iter().zip(nullable).collect();
            let oid = number(&[&found.stream, &found.table], &mut taken);
            names.tables.push(Table { oid, schema: found.stream, schema_oid, name: found.table, columns });
        }
        Ok(names)
    }

    /// The number of a table by its name, perhaps with its schema and quotes.
    pub fn table(&self, name: &str) -> Option<i64> {
        let parts = parts(name);
        let (schema, table) = match &parts[..] {
            [table] => (None, table),
            [schema, table] => (Some(schema), table),
            _ => return None,
        };
        let known = KNOWN.iter().find(|(known, _)| known == table).map(|(_, oid)| *oid);
        let is_it =
            |found: &&Table| found.name == *table && schema.is_none_or(|schema| found.schema == *schema);
        known.or_else(|| self.tables.iter().find(is_it).map(|found| found.oid))
    }
}

/// The parts of a name: those within quotes are taken as they are.
fn parts(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut is_quoted = false;
    for letter in name.chars() {
        match letter {
            '"' => is_quoted = !is_quoted,
            '.' if !is_quoted => parts.push(String::new()),
            _ => {
                let last = parts.last_mut().expect("there is one");
                match is_quoted {
                    true => last.push(letter),
                    false => last.extend(letter.to_lowercase()),
                }
            }
        }
    }
    parts
}

/// The number of a name: its hash (FNV), or the next one that is free.
fn number(parts: &[&str], taken: &mut BTreeSet<i64>) -> i64 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for byte in parts.join("\0").bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    let mut oid = FIRST + (hash % 2_000_000_000) as i64;
    while !taken.insert(oid) {
        oid += 1;
    }
    oid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_parts_and_numbers() {
        assert_eq!(parts("Ticks.\"Trade.x\""), ["ticks", "Trade.x"]);
        let mut taken = BTreeSet::new();
        let first = number(&["a"], &mut taken);
        assert_eq!(number(&["a"], &mut taken), first + 1, "it was taken");
        assert_eq!(number(&["a"], &mut BTreeSet::new()), first);
    }
}
