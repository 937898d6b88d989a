//! What a benchmark measured: rows of medians with their spread, as a table or as JSON lines.

use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Measurements of several runs, by case and metric.
#[derive(Debug)]
pub struct Report {
    bench: &'static str,
    rows: BTreeMap<(usize, String, &'static str), Row>,
    order: Vec<(String, &'static str)>,
}

#[derive(Debug)]
struct Row {
    unit: &'static str,
    values: Vec<f64>,
}

impl Report {
    /// A report without rows of the benchmark `bench`.
    pub fn new(bench: &'static str) -> Self {
        Self { bench, rows: BTreeMap::new(), order: Vec::new() }
    }

    /// Adds one run's value.
    pub fn add(&mut self, case: &str, metric: &'static str, unit: &'static str, value: f64) {
        let key = (case.to_string(), metric);
        let place = self.order.iter().position(|known| *known == key).unwrap_or_else(|| {
            self.order.push(key);
            self.order.len() - 1
        });
        let row = self.rows.entry((place, case.into(), metric)).or_insert(Row { unit, values: Vec::new() });
        row.values.push(value);
    }

    /// One object for each row.
    pub fn json(&self, machine: &str) -> Vec<Value> {
        let row = |((_, case, metric), row): (&(usize, String, &'static str), &Row)| {
            let (median, min, max) = row.spread();
            json!({
                "bench": self.bench, "case": case, "metric": metric, "unit": row.unit, "value": median,
                "min": min, "max": max, "n": row.values.len(), "machine": machine,
            })
        };
        self.rows.iter().map(row).collect()
    }

    /// A Markdown table, as in `docs/BENCHMARKS.md`.
    pub fn table(&self, machine: &str) -> String {
        let mut table = format!(
            "{machine}\n\n| case | metric | median | min | max | n |\n|---|---|---:|---:|---:|---:|\n"
        );
        for ((_, case, metric), row) in &self.rows {
            let (median, min, max) = row.spread();
            let (unit, n) = (row.unit, row.values.len());
            let (median, min, max) = (number(median), number(min), number(max));
            let median = format!("{median} {unit}");
            table.push_str(&format!(
                "| `{case}` | {metric} | {} | {min} | {max} | {n} |\n",
                median.trim_end()
            ));
        }
        table
    }
}

impl Row {
    /// Median, smallest and largest.
    fn spread(&self) -> (f64, f64, f64) {
        let mut sorted = self.values.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let median = if sorted.len().is_multiple_of(2) {
            (sorted[middle - 1] + sorted[middle]) / 2.0
        } else {
            sorted[middle]
        };
        (median, sorted[0], sorted[sorted.len() - 1])
    }
}

/// Three digits that matter; whole numbers from a hundred on.
fn number(value: f64) -> String {
    match value.abs() {
        x if x >= 100.0 => crate::ui::thousands(value.round() as u64),
        x if x >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreads_are_medians() {
        let row = |values: &[f64]| Row { unit: "ns", values: values.into() };
        assert_eq!(row(&[3.0, 1.0, 2.0]).spread(), (2.0, 1.0, 3.0));
        assert_eq!(row(&[4.0, 1.0, 2.0, 3.0]).spread(), (2.5, 1.0, 4.0));
        assert_eq!(
            (number(1234.5), number(12.345), number(1.234)),
            ("1,235".into(), "12.3".into(), "1.23".into())
        );
    }
}
