//! Handing a day over: it is written once, read again and compared, and only then recorded in `PLANT/days`.

use super::claims::{self, Claimant, HEARTBEAT};
use super::{DayRows, Hdb, Stored, add_content, days_schema};
use crate::calendar::Day;
use crate::cell::Cells;
use crate::clock::now;
use crate::content::Content;
use crate::date::Date;
use crate::error::{TickError, asked};
use crate::names::{DAYS, stream_name};
use crate::table::Table;
use crate::widen;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use tapedb_engine::{Stream, StreamOptions};
use tapedb_schema::Timestamp;

/// Rows between two checks whether the day is still held.
const CHECK_ROWS: u64 = 4096;

/// Takes a row: time, symbol and body.
pub(crate) type TakeRow<'a> = &'a mut dyn FnMut(Timestamp, &str, &[u8]) -> Result<(), TickError>;

/// Rows of one table that are handed over, in time order.
pub(crate) trait Rows {
    /// How many.
    fn len(&self) -> u64;
    /// Earliest and latest time; none if there is no row.
    fn times(&self) -> Option<(Timestamp, Timestamp)>;
    /// Calls `row` for rows from one on, in time order, those of equal times in order of arrival: time, symbol and body.
    fn each(&self, from: u64, row: TakeRow<'_>) -> Result<(), TickError>;
}

/// A day that is handed over.
pub(crate) struct Handover<'a> {
    pub plant: &'a str,
    pub day: &'a Day,
    pub tables: &'a [(Table, &'a dyn Rows)],
    /// Whether these are all rows of the day: then they replace other rows of it.
    pub is_whole: bool,
    /// Options of streams that are created for it.
    pub options: StreamOptions,
}

impl Hdb {
    /// Stores a day, unless it is stored. One process at a time does this.
    ///
    /// # Errors
    /// [`TickError::Asked`] while another process hands it over; when it cannot be written, or read again. The next call
    /// continues.
    pub(crate) fn take(&self, claimant: &mut Claimant, handover: &Handover<'_>) -> Result<(), TickError> {
        let (date, plant) = (handover.day.date, handover.plant);
        if self.has(handover)? {
            return Ok(());
        }
        let claims = claims::open(&self.db, plant, handover.options)?;
        if !claimant.claim(&claims, date)? {
            return asked(format!("{date} is being handed over to the HDB by another RDB"));
        }
        // Another process may have been faster.
        let stored = match self.has(handover)? {
            true => Ok(()),
            false => self.take_held(claimant, &claims, handover),
        };
        claimant.release(&claims, date)?;
        stored
    }

    /// Whether the day is stored, with these rows.
    fn has(&self, handover: &Handover<'_>) -> Result<bool, TickError> {
        let date = handover.day.date;
        if !self.stored(handover.plant)?.contains_key(&date) {
            return Ok(false);
        }
        if !handover.is_whole {
            return Ok(true);
        }
        for (table, rows) in handover.tables {
            let there = self.content(handover.plant, date, table)?;
            if there.is_some_and(|there| there.rows != rows.len()) || there != Some(content_of(*rows)?) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn take_held(
        &self,
        claimant: &Claimant,
        claims: &Stream,
        handover: &Handover<'_>,
    ) -> Result<(), TickError> {
        let date = handover.day.date;
        let tables = while_held(claimant, claims, date, |lost| {
            let tables =
                handover.tables.iter().map(|(table, rows)| self.take_table(handover, table, *rows, lost));
            tables.collect::<Result<Vec<DayRows>, _>>()
        })?;
        let name = stream_name(handover.plant, DAYS);
        let days = self.db.open_or_create_stream(&name, days_schema(), handover.options)?;
        let mut loader = days.loader()?;
        let stored = Stored { date: date.0, midnight: handover.day.midnight, tables };
        loader.append(&date.to_string(), now(), &stored)?;
        loader.close()?;
        Ok(())
    }

    /// Writes the missing rows of a table, then compares all of them.
    fn take_table(
        &self,
        handover: &Handover<'_>,
        table: &Table,
        rows: &dyn Rows,
        lost: &AtomicBool,
    ) -> Result<DayRows, TickError> {
        let name = stream_name(handover.plant, table.name());
        let stream = widen::open(&self.db, &name, table, handover.options)?;
        let (first, have) = self.begin_of(handover.plant, table, &stream, rows)?;
        let type_id = Cells::of(table, stream.layouts()).type_id;
        let mut loader = stream.loader()?;
        let mut written = 0;
        rows.each(have, &mut |time, symbol, body| {
            written += 1;
            if written % CHECK_ROWS == 0 && lost.load(Ordering::Relaxed) {
                return asked("another RDB has taken the day over");
            }
            let symbol = loader.symbol(symbol)?;
            Ok(loader.append_body_by_id(symbol, time, type_id, body)?)
        })?;
        loader.close()?;
        stream.seal()?;
        let mut there = Content::default();
        add_content(&stream, first..first + rows.len(), &mut there)?;
        if there != content_of(rows)? {
            return asked(format!(
                "{} rows of stream {name} from {first} on are not those of {}, of which there are {}: another process writes there; they are written again behind them",
                there.rows,
                handover.day.date,
                rows.len()
            ));
        }
        let (time_min, time_max) = rows.times().unwrap_or_default();
        Ok(DayRows { table: table.name().into(), first, rows: rows.len(), time_min, time_max })
    }

    /// Where the day begins in a table's stream, and how many of its rows are there: those that an interrupted handover has
    /// written, and no others.
    fn begin_of(
        &self,
        plant: &str,
        table: &Table,
        stream: &Stream,
        rows: &dyn Rows,
    ) -> Result<(u64, u64), TickError> {
        let stored = self.stored(plant)?;
        let days = stored.values().flat_map(|day| &day.tables).filter(|rows| rows.table == table.name());
        let whole = days.map(|rows| rows.sequences().end).max().unwrap_or(0);
        let end = stream.stats()?.next_sequence;
        let have = end.saturating_sub(whole);
        if have == 0 || have > rows.len() || !begins_with(stream, whole, have, rows)? {
            return Ok((end.max(whole), 0));
        }
        Ok((whole, have))
    }
}

/// Whether messages of a stream are the first rows.
fn begins_with(stream: &Stream, first: u64, have: u64, rows: &dyn Rows) -> Result<bool, TickError> {
    let mut cursor = stream.cursor().from_sequence(first).open()?;
    let (mut same, mut left) = (true, have);
    rows.each(0, &mut |time, symbol, body| {
        if left == 0 || !same {
            return Ok(());
        }
        left -= 1;
        let message = cursor.next()?;
        same = message.is_some_and(|message| {
            (message.time(), message.symbol(), message.body()) == (time, symbol, body)
        });
        Ok(())
    })?;
    Ok(same)
}

fn content_of(rows: &dyn Rows) -> Result<Content, TickError> {
    let mut content = Content::default();
    rows.each(0, &mut |time, symbol, body| {
        content.add(time, symbol, body);
        Ok(())
    })?;
    Ok(content)
}

/// Does work that may take long while heartbeats are written. The flag is set when the day is not held any more.
fn while_held<T>(
    claimant: &Claimant,
    claims: &Stream,
    date: Date,
    work: impl FnOnce(&AtomicBool) -> Result<T, TickError>,
) -> Result<T, TickError> {
    let (lost, over, ended) = (AtomicBool::new(false), Mutex::new(false), Condvar::new());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut guard = over.lock().unwrap_or_else(PoisonError::into_inner);
            loop {
                guard = ended.wait_timeout(guard, HEARTBEAT).unwrap_or_else(PoisonError::into_inner).0;
                if *guard {
                    return;
                }
                let held = claimant.write_heartbeat(claims, date).and_then(|()| claimant.holds(claims, date));
                // If a heartbeat cannot be written, writing the day fails too.
                lost.store(matches!(held, Ok(false)), Ordering::Relaxed);
            }
        });
        let done = work(&lost);
        *over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        ended.notify_all();
        done
    })
}
