//! Hands days that have ended over to the HDB, while queries are answered from memory.

use super::{InMemory, RdbState, Task};
use crate::calendar::Day;
use crate::error::{TickError, asked};
use crate::hdb::{Claimant, Handover, Rows, TakeRow};
use crate::memory::{Selection, View};
use crate::rdb::symbols::CachedSymbols;
use std::time::Duration;
use tapedb_schema::Timestamp;

/// Pause before the next check or retry.
const PAUSE: Duration = Duration::from_millis(200);

/// Hands days over until it is to stop.
pub(super) fn run(shared: &RdbState) {
    let mut claimant = Claimant::new();
    while !shared.is_stopping() {
        let ended = {
            let state = shared.read();
            let next = state.ended.get(1).unwrap_or(&state.today).day.clone();
            state.ended.first().cloned().map(|day| (day, next))
        };
        match ended.map(|(day, next)| hand_over(shared, &mut claimant, &day, &next)) {
            None => shared.pause(PAUSE),
            Some(Ok(())) => {
                shared.write().ended.remove(0);
                shared.set_failure(Task::HandingOver, None);
            }
            Some(Err(error)) => {
                shared.set_failure(Task::HandingOver, Some(error.to_string()));
                shared.pause(PAUSE);
            }
        }
    }
}

fn hand_over(
    shared: &RdbState,
    claimant: &mut Claimant,
    day: &InMemory,
    next: &Day,
) -> Result<(), TickError> {
    let Some(hdb) = &shared.options.hdb else { return Ok(()) };
    let handed: Vec<Handed<'_>> = day.tables.iter().zip(&shared.names).map(Handed::new).collect();
    let tables = day.tables.iter().zip(&handed);
    let tables: Vec<_> = tables.map(|(memory, handed)| (memory.table.clone(), handed as &dyn Rows)).collect();
    let is_whole = tables.iter().all(|(table, rows)| {
        let first = day.day.first_of(table.name());
        rows.len() == next.first_of(table.name()).saturating_sub(first)
    });
    let (plant, options) = (shared.plan.name(), shared.options.hdb_stream);
    hdb.take(claimant, &Handover { plant, day: &day.day, tables: &tables, is_whole, options })
}

/// The rows of a day that will not change any more.
struct Handed<'a> {
    view: View<'a>,
    order: Selection,
    names: &'a CachedSymbols,
}

impl<'a> Handed<'a> {
    fn new((memory, names): (&'a std::sync::Arc<crate::memory::Memory>, &'a CachedSymbols)) -> Self {
        let view = memory.view();
        let order = view.in_time_order();
        names.refresh();
        Self { view, order, names }
    }
}

impl Rows for Handed<'_> {
    fn len(&self) -> u64 {
        self.view.rows() as u64
    }

    fn times(&self) -> Option<(Timestamp, Timestamp)> {
        let last = self.order.len().checked_sub(1)?;
        let time = |at: usize| Timestamp(self.view.time(self.order.row(at)));
        Some((time(0), time(last)))
    }

    fn each(&self, from: u64, row: TakeRow<'_>) -> Result<(), TickError> {
        let names = self.names.read();
        let mut body = Vec::new();
        for at in from as usize..self.order.len() {
            let at = self.order.row(at);
            if let Err(what) = self.view.body(at, &mut body) {
                return asked(format!("row {at} cannot be handed over: {what}"));
            }
            row(Timestamp(self.view.time(at)), names.stored(self.view.symbol(at)), &body)?;
        }
        Ok(())
    }
}
