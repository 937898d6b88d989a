//! Hands days that have ended over to the HDB, while queries are answered from memory.

use super::{InMemory, Part, Shared};
use crate::error::{TickError, asked};
use crate::hdb::{Hdb, Rows, TakeRow};
use crate::memory::{Selection, View};
use crate::rdb::names::Names;
use std::time::Duration;
use tapedb_schema::Timestamp;

/// Pause before it looks again, or tries again.
const PAUSE: Duration = Duration::from_millis(200);

/// Hands over until it shall stop.
pub(super) fn run(shared: &Shared) {
    while !shared.is_stopping() {
        let ended = shared.read().ended.first().cloned();
        match ended.map(|day| hand_over(shared, &day)) {
            None => shared.pause(PAUSE),
            Some(Ok(())) => {
                shared.write().ended.remove(0);
                shared.tell(Part::HandingOver, None);
            }
            Some(Err(error)) => {
                shared.tell(Part::HandingOver, Some(error.to_string()));
                shared.pause(PAUSE);
            }
        }
    }
}

fn hand_over(shared: &Shared, day: &InMemory) -> Result<(), TickError> {
    let Some(hdb) = &shared.options.hdb else { return Ok(()) };
    store(hdb, shared, day)
}

fn store(hdb: &Hdb, shared: &Shared, day: &InMemory) -> Result<(), TickError> {
    let handed: Vec<Handed<'_>> = day.tables.iter().zip(&shared.names).map(Handed::new).collect();
    let tables: Vec<_> = day
        .tables
        .iter()
        .zip(&handed)
        .map(|(memory, handed)| (memory.table.clone(), handed as &dyn Rows))
        .collect();
    let date = (day.day.date, day.day.midnight);
    hdb.store(shared.plan.name(), date, &tables, shared.options.hdb_stream)
}

/// The rows of a day that will not change any more.
struct Handed<'a> {
    view: View<'a>,
    order: Selection,
    names: &'a Names,
}

impl<'a> Handed<'a> {
    fn new((memory, names): (&'a std::sync::Arc<crate::memory::Memory>, &'a Names)) -> Self {
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
