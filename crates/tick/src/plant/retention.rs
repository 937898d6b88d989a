//! The days that a plant keeps: its last ones, and each older one until the HDB has it.
//!
//! Always true: nothing of a day is purged before its rows in the HDB have been read and compared with the plant's (counts and
//! checksums), if there is an HDB. That takes as long as reading the day, so a thread does it.

use super::options::PlantOptions;
use crate::calendar::Day;
use crate::content::Content;
use crate::date::Date;
use crate::error::{TickError, asked};
use crate::hdb::Hdb;
use crate::kind::NANOS_PER_DAY;
use crate::plan::Plan;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;
use tapedb_engine::Stream;
use tapedb_schema::Timestamp;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct DayRetention {
    shared: Arc<RetentionState>,
    comparing: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct RetentionState {
    state: Mutex<State>,
    stopping: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    /// All days before this date have been purged.
    purged: Option<Date>,
    /// Days that are the same in the HDB.
    compared: BTreeSet<Date>,
    is_busy: bool,
    tried: Option<Instant>,
    kept_back: Option<String>,
}

impl DayRetention {
    /// Purges the days before the last `keep` ones that ended, and that are in the HDB. With an HDB it only starts a
    /// thread.
    ///
    /// # Errors
    /// When streams cannot be purged; problems with an HDB are reported by [`DayRetention::kept_back`].
    pub fn purge(
        &self,
        plan: &Plan,
        options: &PlantOptions,
        today: Date,
        keep: u32,
    ) -> Result<(), TickError> {
        let first_kept = Date(today.0.saturating_sub(i32::try_from(keep).unwrap_or(i32::MAX)));
        let mut state = self.shared.lock();
        let is_done = state.purged.is_some_and(|date| date >= first_kept);
        let is_early = state.tried.is_some_and(|tried| tried.elapsed() < options.compare_pause);
        if is_done || state.is_busy || is_early {
            return Ok(());
        }
        let Some(hdb) = &options.hdb else {
            purge_before(plan, &plan.days()?, first_kept)?;
            state.purged = Some(first_kept);
            return Ok(());
        };
        (state.is_busy, state.tried) = (true, Some(Instant::now()));
        drop(state);
        let (shared, plan, hdb) = (self.shared.clone(), plan.clone(), hdb.clone());
        let work = move || shared.compare_and_purge(&plan, &hdb, first_kept);
        match std::thread::Builder::new().name("tape-retention".into()).spawn(work) {
            Ok(thread) => *self.comparing.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread),
            Err(error) => {
                self.shared.lock().is_busy = false;
                return asked(format!("cannot start a thread: {error}; it is tried again"));
            }
        }
        Ok(())
    }

    /// Why a day is kept that is older than the days to keep.
    pub fn kept_back(&self) -> Option<String> {
        self.shared.lock().kept_back.clone()
    }
}

impl Drop for DayRetention {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Release);
        let comparing = self.comparing.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = comparing.take() {
            let _ = thread.join();
        }
    }
}

impl RetentionState {
    fn compare_and_purge(&self, plan: &Plan, hdb: &Hdb, first_kept: Date) {
        let done = self.purge_compared(plan, hdb, first_kept);
        let mut state = self.lock();
        state.is_busy = false;
        state.kept_back = match done {
            Ok(kept_back) => {
                state.purged = kept_back.is_none().then_some(first_kept);
                kept_back
            }
            Err(error) => Some(error.to_string()),
        };
    }

    /// Purges days; why a day may not be purged.
    fn purge_compared(&self, plan: &Plan, hdb: &Hdb, first_kept: Date) -> Result<Option<String>, TickError> {
        let days = plan.days()?;
        let mut kept_back = None;
        let mut kept_from = first_kept;
        for pair in days.windows(2).filter(|pair| pair[0].date < first_kept) {
            if self.lock().compared.contains(&pair[0].date) {
                continue;
            }
            if let Some(what) = self.compare(plan, hdb, &pair[0], &pair[1])? {
                kept_back = Some(format!("{} is kept: {what}", pair[0].date));
                kept_from = pair[0].date;
                break;
            }
            self.lock().compared.insert(pair[0].date);
        }
        purge_before(plan, &days, kept_from)?;
        Ok(kept_back)
    }

    /// Compares a day here with that in the HDB; what is different.
    fn compare(&self, plan: &Plan, hdb: &Hdb, day: &Day, next: &Day) -> Result<Option<String>, TickError> {
        for (table, stream) in plan.tables() {
            let rows = day.first_of(table.name())..next.first_of(table.name());
            let here = self.content(stream, rows.clone())?;
            if here.rows == 0 {
                continue;
            }
            // Of a day that has been purged before, rows may be left that have later times: the HDB then has more.
            let is_whole = here.rows == rows.end.saturating_sub(rows.start);
            let there = hdb.content(plan.name(), day.date, table)?;
            let what = match there {
                None => "the HDB does not have it whole yet".into(),
                Some(there) if !is_whole && there.rows > here.rows => continue,
                Some(there) if there.rows != here.rows => {
                    format!(
                        "table {} has {} rows here and {} in the HDB",
                        table.name(),
                        here.rows,
                        there.rows
                    )
                }
                Some(there) if there != here => {
                    format!("the {} rows of table {} are others in the HDB", here.rows, table.name())
                }
                Some(_) => continue,
            };
            return Ok(Some(what));
        }
        Ok(None)
    }

    fn content(&self, stream: &Stream, rows: std::ops::Range<u64>) -> Result<Content, TickError> {
        let mut content = Content::default();
        if rows.is_empty() {
            return Ok(content);
        }
        let mut cursor = stream.cursor().from_sequence(rows.start).open()?;
        while let Some(message) = cursor.next()? {
            if message.sequence() >= rows.end {
                break;
            }
            if content.rows % 4096 == 0 && self.stopping.load(Ordering::Acquire) {
                return asked("it was ended before all days were compared");
            }
            content.add(message.time(), message.symbol(), message.body());
        }
        Ok(content)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Purges all tables before the first day that is kept.
fn purge_before(plan: &Plan, days: &[Day], first_kept: Date) -> Result<(), TickError> {
    let Some(kept) = days.iter().find(|day| day.date >= first_kept) else { return Ok(()) };
    for (table, stream) in plan.tables() {
        purge(stream, kept, kept.first_of(table.name()))?;
    }
    let arrivals = plan.arrivals()?;
    purge(arrivals, kept, kept.first_of(crate::arrivals::ARRIVALS))
}

/// Purges rows older than a day that is kept: than its midnight, the day before it, and its first message.
fn purge(stream: &Stream, kept: &Day, first: u64) -> Result<(), TickError> {
    let mut before = kept.midnight.0.saturating_sub(NANOS_PER_DAY);
    if first < stream.seen_end() {
        let mut cursor = stream.cursor().from_sequence(first).open()?;
        if let Some(message) = cursor.next()? {
            before = before.min(message.time().0);
        }
    }
    Ok(stream.purge(Timestamp(before))?)
}
