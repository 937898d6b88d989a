//! What each server is asked for, as SQL.

use super::text::quoted;
use crate::wanted::TimeOrder;

/// Columns of a table's rows, or of groups of them. It is the same for all servers but for the sequence numbers below which messages count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    pub stream: String,
    pub table: String,
    /// Only the last message of each symbol.
    pub is_latest: bool,
    /// Expressions.
    pub columns: Vec<String>,
    pub conditions: Vec<String>,
    /// The first so many columns are the keys of groups; `None`: rows are not grouped.
    pub keys: Option<usize>,
}

impl Request {
    /// The query of a server whose spaces end there. Rows that are to be merged by time have it as their last column.
    pub fn text(&self, ends: &[u64], order: TimeOrder, limit: Option<usize>) -> String {
        let mut columns = self.columns.clone();
        if order != TimeOrder::None {
            columns.push(quoted("time"));
        }
        if columns.is_empty() {
            // Rows without columns are counted.
            columns.push("true".into());
        }
        let columns = columns.iter().enumerate().map(|(index, column)| format!("{column} AS c{index}"));
        let function = if self.is_latest { "latest" } else { "as_of" };
        let ends: String = ends.iter().map(|end| format!(", {end}")).collect();
        let mut text = format!(
            "SELECT {} FROM {function}({}.{}{ends}) AS part",
            columns.collect::<Vec<_>>().join(", "),
            quoted(&self.stream),
            quoted(&self.table),
        );
        if !self.conditions.is_empty() {
            text.push_str(&format!(" WHERE {}", self.conditions.join(" AND ")));
        }
        if let Some(keys) = self.keys.filter(|keys| *keys > 0) {
            let numbers: Vec<_> = (1..=keys).map(|key| key.to_string()).collect();
            text.push_str(&format!(" GROUP BY {}", numbers.join(", ")));
        }
        match order {
            TimeOrder::None => {}
            TimeOrder::Ascending => text.push_str(" ORDER BY \"time\""),
            TimeOrder::Descending => text.push_str(" ORDER BY \"time\" DESC"),
        }
        if let Some(limit) = limit {
            text.push_str(&format!(" LIMIT {limit}"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_queries() {
        let rows = Request {
            stream: "a\"b".into(),
            table: "Trade".into(),
            is_latest: false,
            columns: vec!["\"price\"".into()],
            conditions: vec!["(\"size\" > 5)".into(), "(\"symbol\" = 'A')".into()],
            keys: None,
        };
        assert_eq!(
            rows.text(&[7, 9], TimeOrder::Descending, Some(3)),
            "SELECT \"price\" AS c0, \"time\" AS c1 FROM as_of(\"a\"\"b\".\"Trade\", 7, 9) AS part \
             WHERE (\"size\" > 5) AND (\"symbol\" = 'A') ORDER BY \"time\" DESC LIMIT 3"
        );
        let groups = Request {
            columns: vec!["\"symbol\"".into(), "count(1)".into()],
            conditions: Vec::new(),
            keys: Some(1),
            is_latest: true,
            ..rows
        };
        assert_eq!(
            groups.text(&[7], TimeOrder::None, None),
            "SELECT \"symbol\" AS c0, count(1) AS c1 FROM latest(\"a\"\"b\".\"Trade\", 7) AS part GROUP BY 1"
        );
    }
}
