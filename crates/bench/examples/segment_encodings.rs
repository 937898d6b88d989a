//! Which encoding a column gets, and what it costs: bytes a value, and million values encoded and decoded a second.
//!
//! `cargo run --release -p tapedb-bench --example segment_encodings [FILE]`: of generated bars, or of a file with an integer in
//! each line.

use std::hint::black_box;
use std::time::Instant;

use tapedb_market::bars::{Bars, BarsConfig};
use tapedb_schema::Decimal64;
use tapedb_segment::encoding::{COUNT_MAX, Tier, decode_ints, encode_ints, previous_in_run};

/// Rounds of a measurement.
const ROUNDS: usize = 15;

struct Column {
    name: &'static str,
    values: Vec<i64>,
    runs: Vec<u32>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let columns = match std::env::args().nth(1) {
        Some(path) => vec![from_file(&path)?],
        None => from_bars(),
    };
    println!("| column | tier | encoding | bytes a value | encoded, M/s | decoded, M/s |");
    println!("|---|---|---|---:|---:|---:|");
    for column in &columns {
        measure(column, Tier::Hot, ROUNDS)?;
        measure(column, Tier::Cold, ROUNDS)?;
    }
    Ok(())
}

fn measure(column: &Column, tier: Tier, rounds: usize) -> Result<(), Box<dyn std::error::Error>> {
    let Column { name, values, runs } = column;
    let (mut bytes, mut out) = (Vec::new(), Vec::new());
    let encoding = encode_ints(values, runs, tier, &mut bytes);
    decode_ints(&bytes, values.len(), runs, &mut out)?;
    if out != *values {
        return Err(format!("{name} did not come back").into());
    }
    let encoded = rate(values.len(), rounds, || {
        bytes.clear();
        encode_ints(black_box(values), runs, tier, &mut bytes);
    });
    let decoded = rate(values.len(), rounds, || {
        let _ = black_box(decode_ints(black_box(&bytes), values.len(), runs, &mut out));
    });
    let size = bytes.len() as f64 / values.len().max(1) as f64;
    println!("| {name} | {tier:?} | {} | {size:.3} | {encoded:.0} | {decoded:.0} |", encoding.name());
    Ok(())
}

/// Million values a second: the median of some rounds of 10.
fn rate(count: usize, rounds: usize, mut work: impl FnMut()) -> f64 {
    let mut seconds: Vec<f64> = (0..rounds)
        .map(|_| {
            let start = Instant::now();
            (0..10).for_each(|_| work());
            start.elapsed().as_secs_f64()
        })
        .collect();
    seconds.sort_by(f64::total_cmp);
    10.0 * count as f64 / seconds[rounds / 2] / 1e6
}

fn from_file(path: &str) -> Result<Column, Box<dyn std::error::Error>> {
    let text = std::fs::read_to_string(path)?;
    let values = text.lines().take(COUNT_MAX).map(|line| line.trim().parse()).collect::<Result<_, _>>()?;
    Ok(Column { name: "file", values, runs: Vec::new() })
}

/// Bars of ten symbols; prices and volumes in hundredths.
fn from_bars() -> Vec<Column> {
    let config = BarsConfig::default();
    let symbols = config.symbols as usize;
    let share = COUNT_MAX / symbols;
    let mut bars = Bars::new(config);
    let mut rows = vec![[0; 6]; symbols * share];
    for i in 0..rows.len() {
        let message = bars.next();
        let bar = message.bar;
        let fields = [bar.open, bar.high, bar.low, bar.close, bar.volume].map(hundredths);
        let [open, high, low, close, volume] = fields;
        rows[i % symbols * share + i / symbols] = [message.time.nanos(), open, high, low, close, volume];
    }
    let runs: Vec<u32> = (1..=symbols).map(|symbol| (symbol * share) as u32).collect();
    let [time, open, high, low, close, volume] = [0, 1, 2, 3, 4, 5].map(|i| column(&rows, i));
    let mut previous_close = Vec::new();
    previous_in_run(&close, &runs, &mut previous_close);
    [
        ("time", time),
        ("open", open.clone()),
        ("open - previous close", minus(&open, &previous_close)),
        ("high - open", minus(&high, &open)),
        ("low - open", minus(&low, &open)),
        ("close", close),
        ("volume", volume),
    ]
    .map(|(name, values)| Column { name, values, runs: runs.clone() })
    .into()
}

fn column(rows: &[[i64; 6]], i: usize) -> Vec<i64> {
    rows.iter().map(|row| row[i]).collect()
}

fn minus(values: &[i64], reference: &[i64]) -> Vec<i64> {
    values.iter().zip(reference).map(|(value, reference)| value - reference).collect()
}

fn hundredths(value: Decimal64) -> i64 {
    (value.to_f64() * 100.0).round() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_is_measured() {
        let columns = from_bars();
        assert_eq!(columns.len(), 7);
        for column in &columns {
            assert!(column.values.len() > 1000, "{}", column.name);
            [Tier::Hot, Tier::Cold].into_iter().for_each(|tier| measure(column, tier, 1).unwrap());
        }
    }
}
