//! The report of a benchmark: rows of medians with their spread, as a table or as JSON lines.

use crate::svg::Bar;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tapedb_terminal::Failure;

/// Maximum runs of a row; rows with more are refused.
const RUNS_MAX: u64 = 100_000;

/// Measurements of several runs, by case and metric.
#[derive(Debug)]
pub struct Report {
    bench: &'static str,
    rows: BTreeMap<(usize, String, String), Row>,
    order: Vec<(String, String)>,
    /// Machine line of the earlier runs, if there are no others.
    machine: Option<String>,
}

#[derive(Debug)]
struct Row {
    unit: String,
    values: Vec<f64>,
    /// Minimum and maximum of earlier runs, which are in `values` with their median only.
    earlier: Option<(f64, f64)>,
}

impl Report {
    /// A report without rows of the benchmark `bench`.
    pub fn new(bench: &'static str) -> Self {
        Self { bench, rows: BTreeMap::new(), order: Vec::new(), machine: None }
    }

    /// Adds one run's value.
    pub fn add(&mut self, case: &str, metric: &str, unit: &str, value: f64) {
        self.machine = None;
        self.row(case, metric, unit).values.push(value);
    }

    /// Adds earlier runs: lines of JSON as [`Report::json`] writes them. A row counts as many times as it has runs, with its median,
    /// and its spread extends the spread: one file alone gives the same rows again.
    pub fn add_rows(&mut self, lines: &str) -> Result<(), Failure> {
        for line in lines.lines() {
            if self.add_row(line).is_none() {
                let what = format!("{line:?} is not a row of `tapedb bench {} --json`", self.bench);
                return Err(Failure::usage(what));
            }
        }
        Ok(())
    }

    fn add_row(&mut self, line: &str) -> Option<()> {
        let row: Value = serde_json::from_str(line).ok()?;
        let (text, number) = (|key: &str| row[key].as_str(), |key: &str| row[key].as_f64());
        let (value, min, max) = (number("value")?, number("min")?, number("max")?);
        let runs = row["n"].as_u64().filter(|runs| (1..=RUNS_MAX).contains(runs))?;
        (text("bench")? == self.bench).then_some(())?;
        self.machine = Some(text("machine")?.into());
        let row = self.row(text("case")?, text("metric")?, text("unit")?);
        row.values.extend((0..runs).map(|_| value));
        let (low, high) = row.earlier.unwrap_or((min, max));
        row.earlier = Some((low.min(min), high.max(max)));
        Some(())
    }

    fn row(&mut self, case: &str, metric: &str, unit: &str) -> &mut Row {
        let key = (case.to_string(), metric.to_string());
        let index = self.order.iter().position(|known| *known == key).unwrap_or_else(|| {
            self.order.push(key);
            self.order.len() - 1
        });
        let row = self.rows.entry((index, case.into(), metric.into()));
        row.or_insert_with(|| Row { unit: unit.into(), values: Vec::new(), earlier: None })
    }

    /// The machine line of the earlier runs, if this run measured nothing.
    pub fn machine(&self) -> Option<&str> {
        self.machine.as_deref()
    }

    /// The cases with a metric, as bars; the spread ends at the median of the metric `high`, if given.
    pub fn bars(&self, metric: &str, high: Option<&str>) -> Vec<Bar> {
        let of = |case: &str, metric: &str| {
            self.rows
                .iter()
                .find(|((_, known, m), _)| known == case && *m == metric)
                .map(|(_, row)| row.spread())
        };
        let rows = self.rows.iter().filter(|((.., known), _)| *known == metric);
        rows.map(|((_, case, _), row)| {
            let (value, low, most) = row.spread();
            let high = high.and_then(|high| of(case, high)).map_or(most, |(high, ..)| high);
            Bar { label: case.clone(), value, low, high }
        })
        .collect()
    }

    /// One object for each row.
    pub fn json(&self, machine: &str) -> Vec<Value> {
        let row = |((_, case, metric), row): (&(usize, String, String), &Row)| {
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
            let (unit, n) = (&row.unit, row.values.len());
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
        let (min, max) = (sorted[0], sorted[sorted.len() - 1]);
        let (low, high) = self.earlier.unwrap_or((min, max));
        (median, min.min(low), max.max(high))
    }
}

/// Three significant digits; whole numbers from a hundred on.
fn number(value: f64) -> String {
    match value.abs() {
        x if x >= 100.0 => tapedb_terminal::ui::thousands(value.round() as u64),
        x if x >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_earlier_runs_count_as_runs() {
        let mut earlier = Report::new("live");
        earlier.add("live.pairs.1", "rate", "messages/s", 3.0);
        let lines: String = earlier.json("here").iter().map(|row| format!("{row}\n")).collect();
        let mut report = Report::new("live");
        report.add_rows(&lines).unwrap();
        report.add("live.pairs.1", "rate", "messages/s", 5.0);
        assert_eq!(report.json("here")[0]["value"], 4.0);
        assert_eq!((report.bars("rate", None)[0].high, report.machine()), (5.0, None));
        assert!(Report::new("read").add_rows(&lines).is_err() && report.add_rows("{}").is_err());
    }

    #[test]
    fn stored_rows_give_the_same_rows_again() {
        let mut measured = Report::new("read");
        [3.0, 9.0, 4.0].iter().for_each(|rate| measured.add("read.streams.4", "rate", "messages/s", *rate));
        measured.add("read.server-cpu", "server", "ms", 2.0);
        let rows = measured.json("there, then");
        let lines: String = rows.iter().map(|row| format!("{row}\n")).collect();
        let mut stored = Report::new("read");
        stored.add_rows(&lines).unwrap();
        assert_eq!((stored.machine(), stored.json("there, then")), (Some("there, then"), rows));
    }

    #[test]
    fn spreads_are_medians() {
        let row = |values: &[f64]| Row { unit: "ns".into(), values: values.into(), earlier: None };
        assert_eq!(row(&[3.0, 1.0, 2.0]).spread(), (2.0, 1.0, 3.0));
        assert_eq!(row(&[4.0, 1.0, 2.0, 3.0]).spread(), (2.5, 1.0, 4.0));
        assert_eq!(
            (number(1234.5), number(12.345), number(1.234)),
            ("1,235".into(), "12.3".into(), "1.23".into())
        );
    }
}
