//! What is known of the rows of the left side that are still to be joined: it tells the thread that reads the right side by symbol which
//! rows can belong to one of them, before anything but times and symbols of the right side's rows is decoded.
//!
//! The left side is read ahead of the right one, as far as there is room. Always true: a row of the right side is left out only where the
//! block has a later row of its symbol for each row of the left side, or none that is not too late; whatever other blocks have.

use super::gallop::gallop;
use super::input::Rows;
use super::keys::NONE;
use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use tapedb_engine::{OfferedRows, RowChooser};

/// Times of a symbol that are dropped together when they have passed.
const PASSED: usize = 1_024;

/// The rows of the left side, as far as they are read.
#[derive(Debug)]
pub(super) struct Ahead {
    /// Rows of the right side at the time of a row do not belong to it.
    strict: bool,
    /// The last row of each symbol is wanted too, by what comes behind a slice of time.
    with_last: bool,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// All rows before this time have been noted; `None`: all have.
    reached: Option<i64>,
    /// More rows are noted whatever is read of the right side, so it is worth waiting for them.
    is_reading: bool,
    /// Rows before this time have been joined.
    joined: i64,
    /// By the number of the key.
    symbols: Vec<Times>,
    numbers: HashMap<Box<str>, usize>,
}

/// Times of a symbol's rows, ascending; those before `from` have passed.
#[derive(Debug, Default)]
struct Times {
    times: Vec<i64>,
    from: usize,
}

impl Ahead {
    pub fn new(strict: bool, with_last: bool) -> Self {
        let (symbols, numbers) = Default::default();
        let joined = i64::MIN;
        let state = State { reached: Some(i64::MIN), is_reading: true, joined, symbols, numbers };
        Self { strict, with_last, state: Mutex::new(state), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes rows, which follow those that were noted before. Their keys are texts.
    pub fn note(&self, rows: &Rows) {
        let mut state = self.state();
        let State { reached, joined, symbols, numbers, .. } = &mut *state;
        // Also those of symbols that the right side does not have, so that memory does not grow with rows.
        symbols.iter_mut().for_each(|times| times.pass(*joined));
        for (row, number) in
            rows.numbers[..rows.timed].iter().enumerate().filter(|(_, number)| **number != NONE)
        {
            let number = *number as usize;
            if number >= symbols.len() {
                symbols.resize_with(number + 1, Times::default);
            }
            if symbols[number].times.is_empty() {
                numbers.entry(rows.keys.text(row).into()).or_insert(number);
            }
            symbols[number].times.push(rows.times[row]);
        }
        if let Some(last) = rows.times[..rows.timed].last() {
            *reached = Some(*last);
        }
        if rows.timed < rows.times.len() {
            // The others have no time.
            *reached = None;
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Notes that all rows before this time have been joined.
    pub fn note_joined(&self, time: i64) {
        self.state().joined = time;
    }

    /// Notes that there are no more rows, or that no more are read until something is read of the right side.
    pub fn pause(&self, is_over: bool) {
        let mut state = self.state();
        state.is_reading = false;
        if is_over {
            state.reached = None;
        }
        drop(state);
        self.changed.notify_all();
    }
}

impl RowChooser for Ahead {
    fn choose(&self, offered: &OfferedRows<'_>, chosen: &mut Vec<u32>) -> bool {
        let times = offered.times();
        let last = offered.runs().iter().map(|run| times[run.end as usize - 1]).max().unwrap_or(i64::MAX);
        let waits =
            |state: &mut State| state.is_reading && state.reached.is_some_and(|reached| reached <= last);
        let waited = self.changed.wait_while(self.state(), waits);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        chosen.clear();
        let mut at = 0;
        for run in offered.runs() {
            let (start, end) = (at, run.end as usize);
            at = end;
            let State { reached, symbols, numbers, .. } = &mut *state;
            // A row that is not noted yet may want the last row before this time, and any row behind that.
            let open =
                reached.map(|reached| start + times[start..end].partition_point(|time| *time < reached));
            let unsure =
                open.map_or(end - usize::from(self.with_last), |open| open.saturating_sub(1).max(start));
            if let Some(number) = numbers.get(offered.symbol(run)) {
                symbols[*number].pass(offered.reached());
                symbols[*number].choose(&times[..unsure], start, self.strict, chosen);
            }
            chosen.extend(unsure as u32..end as u32);
        }
        true
    }
}

impl Times {
    /// Drops times before this one.
    fn pass(&mut self, time: i64) {
        self.from = gallop(self.times.len(), self.from, |at| self.times[at] < time);
        if self.from > PASSED && self.from * 2 > self.times.len() {
            self.times.drain(..self.from);
            self.from = 0;
        }
    }

    /// Appends the rows, from `start` on, that are the last ones which are not too late for one of the times.
    fn choose(&self, rows: &[i64], start: usize, strict: bool, chosen: &mut Vec<u32>) {
        let (mut row, mut at) = (start, self.from);
        while let Some(time) = self.times.get(at) {
            row = gallop(rows.len(), row, |row| rows[row] < *time || rows[row] == *time && !strict);
            if row > start {
                chosen.push(row as u32 - 1);
            }
            let Some(next) = rows.get(row) else { return };
            // Times before the next row, or at it, have the same last row.
            at = gallop(self.times.len(), at, |at| {
                self.times[at] < *next || self.times[at] == *next && strict
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::input::RowKeys;
    use super::*;
    use datafusion::arrow::array::{ArrayRef, RecordBatch, StringViewArray};
    use std::sync::Arc;

    #[test]
    fn the_last_row_of_each_time_is_chosen() {
        let mut state = 3u64;
        let mut random = move |bound: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) % bound) as i64
        };
        for round in 0..2_000 {
            let bound = 1 + random(60) as u64;
            let mut sorted = |count: i64| {
                let mut times: Vec<i64> = (0..count).map(|_| random(bound)).collect();
                times.sort_unstable();
                times
            };
            let (rows, times) = (sorted(round % 40), sorted(round % 23));
            for strict in [false, true] {
                let start = rows.len() / 3;
                let last = |time: i64| {
                    let is_early = |row: &usize| rows[*row] < time || rows[*row] == time && !strict;
                    (start..rows.len()).rev().find(is_early)
                };
                let mut expected: Vec<u32> =
                    times.iter().filter_map(|time| last(*time)).map(|row| row as u32).collect();
                expected.dedup();
                let mut chosen = Vec::new();
                Times { times: times.clone(), from: 0 }.choose(&rows, start, strict, &mut chosen);
                assert_eq!(chosen, expected, "{rows:?} {times:?} {strict}");
            }
        }
    }

    /// Of a symbol of which nothing is asked too.
    #[test]
    fn rows_that_were_joined_take_no_memory() {
        let ahead = Ahead::new(false, false);
        let symbols: ArrayRef = Arc::new(StringViewArray::from_iter_values(["A", "B"].repeat(500)));
        let batch = RecordBatch::try_from_iter([("symbol", symbols.clone())]).unwrap();
        for first in (0..1_000_000).step_by(1_000) {
            let times = (first..first + 1_000).collect::<Vec<_>>().into();
            let (numbers, keys) = ([0, 1].repeat(500), RowKeys::Columns(vec![symbols.clone()]));
            ahead.note(&Rows { batch: batch.clone(), times, timed: 1_000, bytes: 0, keys, numbers });
            ahead.note_joined(first - 2_000);
        }
        for times in &ahead.state().symbols {
            assert!(times.times.len() < 4 * PASSED, "{}", times.times.len());
        }
    }

    #[test]
    fn times_pass() {
        let mut times = Times { times: (0..5_000).collect(), from: 0 };
        for time in [0, 1_500, 1_500, 4_000, 9_000] {
            times.pass(time);
            assert_eq!(times.times.get(times.from).copied(), (time < 5_000).then_some(time));
        }
        assert!(times.times.len() <= PASSED);
    }
}
