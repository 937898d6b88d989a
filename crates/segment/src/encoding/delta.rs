//! Differences to the row before, within each run; the first value of every run apart.

use std::ops::Range;

use super::EncodingError;
use super::bytes::Reader;
use super::groups::GROUP;
use super::packed::{self, Packed, Scale, Sink};
use super::runs::Runs;

/// Differences of `values`. Where a run begins stands another difference of the same group: it
/// is not used, and makes the group no wider.
pub(super) fn differences(values: &[i64], runs: Runs) -> Vec<i64> {
    let mut deltas = Vec::with_capacity(values.len());
    deltas.extend(values.first().map(|_| 0));
    deltas.extend(values.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])));
    let starts: Vec<usize> = runs.starts().collect();
    for starts in starts.chunk_by(|a, b| a / GROUP == b / GROUP) {
        let group = starts[0] / GROUP * GROUP;
        let mut rows = group..values.len().min(group + GROUP);
        let filler = rows.find(|row| starts.binary_search(row).is_err()).map_or(0, |row| deltas[row]);
        starts.iter().for_each(|&start| deltas[start] = filler);
    }
    deltas
}

/// The first value of each run.
pub(super) fn firsts(values: &[i64], runs: Runs) -> Vec<i64> {
    runs.starts().map(|start| values[start]).collect()
}

/// Appends the `firsts` of the runs and the `differences` between rows.
pub(super) fn encode(firsts: &[i64], differences: &[i64], out: &mut Vec<u8>) {
    packed::encode(firsts, out);
    packed::encode(differences, out);
}

/// Replaces `out` by the values of `rows`.
pub(super) fn decode(
    reader: &mut Reader,
    runs: Runs,
    count: usize,
    rows: Range<usize>,
    scale: Scale,
    out: &mut Vec<i64>,
) -> Result<(), EncodingError> {
    let firsts = Packed::read(reader, runs.len())?;
    let deltas = Packed::read(reader, count)?;
    reader.finish()?;
    out.resize(rows.len(), 0);
    if rows.is_empty() {
        return Ok(());
    }
    let from = runs.start_of(rows.start);
    let row = from / GROUP * GROUP;
    let first_run = runs.first_from(row);
    let mut first_values = Vec::new();
    firsts.decode_rows(first_run..runs.first_from(rows.end), Scale::NONE, &mut first_values);
    let mut sums = Sums { scale, runs, first_run, firsts: &first_values, used: 0, row, last: 0 };
    deltas.decode_into(from, rows, &mut sums, out);
    Ok(())
}

/// Adds differences up, beginning anew with each run.
struct Sums<'a> {
    scale: Scale,
    runs: Runs<'a>,
    /// The run that `firsts` begins with.
    first_run: usize,
    firsts: &'a [i64],
    /// Firsts that are used up.
    used: usize,
    /// The row that comes next.
    row: usize,
    last: i64,
}

impl Sums<'_> {
    /// Rows until the next run begins, at most `max`.
    fn until_next_run(&self, max: usize) -> usize {
        self.runs.start(self.first_run + self.used).map_or(max, |start| (start - self.row).min(max))
    }

    /// Splits the next `count` rows where runs begin, sets the first values, and lets `add` fill the rows between.
    fn split(&mut self, out: &mut [i64], mut add: impl FnMut(&mut i64, Range<usize>, &mut [i64])) {
        let mut at = 0;
        loop {
            let part = at..at + self.until_next_run(out.len() - at);
            self.row += part.len();
            at = part.end;
            add(&mut self.last, part.clone(), &mut out[part]);
            if at == out.len() {
                return;
            }
            // A range of rows may end before the last run of its last group begins: then it has no first.
            self.last = self.firsts.get(self.used).map_or(0, |&first| self.scale.apply(first));
            self.used += 1;
            out[at] = self.last;
            self.row += 1;
            at += 1;
        }
    }
}

impl Sink for Sums<'_> {
    fn same(&mut self, base: i64, out: &mut [i64]) {
        let step = self.scale.divisor.wrapping_mul(base);
        self.split(out, |last, _, out| {
            let first = *last;
            for (value, i) in out.iter_mut().zip(1..) {
                *value = first.wrapping_add(step.wrapping_mul(i));
            }
            *last = out.last().copied().unwrap_or(first);
        });
    }

    fn narrow(&mut self, base: i64, residuals: &[u32; GROUP], out: &mut [i64; GROUP]) {
        let divisor = self.scale.divisor;
        let step = divisor.wrapping_mul(base);
        self.split(out, |last, part, out| {
            let residuals = residuals[part].iter().map(|&residual| i64::from(residual));
            match divisor {
                1 => add_up(last, out, residuals.map(|residual| residual.wrapping_add(step))),
                _ => add_up(
                    last,
                    out,
                    residuals.map(|residual| residual.wrapping_mul(divisor).wrapping_add(step)),
                ),
            }
        });
    }

    fn settle(&mut self, out: &mut [i64]) {
        let divisor = self.scale.divisor;
        self.split(out, |last, _, out| {
            for value in out {
                *last = last.wrapping_add(value.wrapping_mul(divisor));
                *value = *last;
            }
        });
    }
}

#[inline(always)]
fn add_up(last: &mut i64, out: &mut [i64], differences: impl Iterator<Item = i64>) {
    let mut sum = *last;
    for (value, difference) in out.iter_mut().zip(differences) {
        sum = sum.wrapping_add(difference);
        *value = sum;
    }
    *last = sum;
}
