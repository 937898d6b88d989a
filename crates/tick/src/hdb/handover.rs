//! Taking a day over: written once, read again and compared, and only then said to be there.

use super::claims::{self, BEAT, Claimant};
use super::{DAYS, Hdb, Part, Stored, add_content, days_schema};
use crate::calendar::Day;
use crate::cell::Cells;
use crate::content::Content;
use crate::date::Date;
use crate::error::{TickError, asked};
use crate::plan::stream_name;
use crate::plant::{now, widen};
use crate::table::Table;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use tapedb_engine::{Stream, StreamOptions};
use tapedb_schema::Timestamp;

/// Rows between two looks whether the day is still held.
const LOOK_ROWS: u64 = 4096;

/// Takes a row: time, symbol and body.
pub(crate) type TakeRow<'a> = &'a mut dyn FnMut(Timestamp, &str, &[u8]) -> Result<(), TickError>;

/// Rows of one table that are handed over, in time order.
pub(crate) trait Rows {
    /// How many.
    fn len(&self) -> u64;
    /// Earliest and latest time; none if there is no row.
    fn times(&self) -> Option<(Timestamp, Timestamp)>;
    /// Gives rows from one on, in time order, those of equal times as they came: time, symbol and body, until it says stop.
    fn each(&self, from: u64, row: TakeRow<'_>) -> Result<(), TickError>;
}

/// A day that is handed over.
pub(crate) struct Handing<'a> {
    pub plant: &'a str,
    pub day: &'a Day,
    pub tables: &'a [(Table, &'a dyn Rows)],
    /// Whether these are all rows of the day: then they replace others that are there.
    pub is_whole: bool,
    /// What the streams promise that are made for it.
    pub options: StreamOptions,
}

impl Hdb {
    /// Takes a day, unless it is there. One at a time takes it, whoever else tries, in whichever process.
    ///
    /// # Errors
    /// [`TickError::Asked`] while another hands it over; what keeps it from being written, or from being read again. The next
    /// call goes on.
    pub(crate) fn take(&self, claimant: &mut Claimant, handing: &Handing<'_>) -> Result<(), TickError> {
        let (date, plant) = (handing.day.date, handing.plant);
        if self.has(handing)? {
            return Ok(());
        }
        let claims = claims::open(&self.db, plant, handing.options)?;
        if !claimant.claim(&claims, date)? {
            return asked(format!("{date} is being handed over to the HDB by another RDB"));
        }
        // Another may have been quicker.
        let taken = match self.has(handing)? {
            true => Ok(()),
            false => self.take_held(claimant, &claims, handing),
        };
        claimant.let_go(&claims, date)?;
        taken
    }

    /// Whether the day is there, with these rows.
    fn has(&self, handing: &Handing<'_>) -> Result<bool, TickError> {
        let date = handing.day.date;
        if !self.stored(handing.plant)?.contains_key(&date) {
            return Ok(false);
        }
        if !handing.is_whole {
            return Ok(true);
        }
        for (table, rows) in handing.tables {
            let there = self.content(handing.plant, date, table)?;
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
        handing: &Handing<'_>,
    ) -> Result<(), TickError> {
        let date = handing.day.date;
        let parts = while_held(claimant, claims, date, |lost| {
            let parts =
                handing.tables.iter().map(|(table, rows)| self.take_table(handing, table, *rows, lost));
            parts.collect::<Result<Vec<Part>, _>>()
        })?;
        let name = stream_name(handing.plant, DAYS);
        let days = self.db.open_or_create_stream(&name, days_schema(), handing.options)?;
        let mut loader = days.loader()?;
        let stored = Stored { date: date.0, midnight: handing.day.midnight, tables: parts };
        loader.append(&date.to_string(), now(), &stored)?;
        loader.close()?;
        Ok(())
    }

    /// Writes what is not there of a table's rows, and compares what is there then.
    fn take_table(
        &self,
        handing: &Handing<'_>,
        table: &Table,
        rows: &dyn Rows,
        lost: &AtomicBool,
    ) -> Result<Part, TickError> {
        let name = stream_name(handing.plant, table.name());
        let stream = widen::open(&self.db, &name, table, handing.options)?;
        let (first, have) = self.begin_of(handing.plant, table, &stream, rows)?;
        let type_id = Cells::of(table, stream.layouts()).type_id;
        let mut loader = stream.loader()?;
        let mut written = 0;
        rows.each(have, &mut |time, symbol, body| {
            written += 1;
            if written % LOOK_ROWS == 0 && lost.load(Ordering::Relaxed) {
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
                "{} rows of stream {name} from {first} on are not those of {}, of which there are {}: somebody else writes there; it is written again behind them",
                there.rows,
                handing.day.date,
                rows.len()
            ));
        }
        let (time_min, time_max) = rows.times().unwrap_or_default();
        Ok(Part { table: table.name().into(), first, rows: rows.len(), time_min, time_max })
    }

    /// Where the day begins in a table's stream, and how many of its rows are there: what a hand-over has written that came to
    /// no end, and nothing else.
    fn begin_of(
        &self,
        plant: &str,
        table: &Table,
        stream: &Stream,
        rows: &dyn Rows,
    ) -> Result<(u64, u64), TickError> {
        let stored = self.stored(plant)?;
        let parts = stored.values().flat_map(|day| &day.tables).filter(|part| part.table == table.name());
        let whole = parts.map(|part| part.sequences().end).max().unwrap_or(0);
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

/// Does something that may take long while it is said that the day is held. What is given is set when it is not any more.
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
                guard = ended.wait_timeout(guard, BEAT).unwrap_or_else(PoisonError::into_inner).0;
                if *guard {
                    return;
                }
                let said = claimant.beat(claims, date).and_then(|()| claimant.holds(claims, date));
                // Where it cannot be said, writing the day fails too.
                lost.store(matches!(said, Ok(false)), Ordering::Relaxed);
            }
        });
        let done = work(&lost);
        *over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        ended.notify_all();
        done
    })
}
