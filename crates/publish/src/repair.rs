//! Writes days of a table again, or all of it, where its rows are not those of the stream any more.

use crate::error::Error;
use crate::format::{Removed, Step};
use crate::progress::{Progress, checksum, new_commit};
use crate::publisher::Publisher;
use crate::schema::Misfits;
use crate::sealed::Sealed;
use crate::stale::{self, Stale, first_day, times};
use crate::table::Outcome;
use std::collections::BTreeSet;

/// What a repair has done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Repaired {
    /// Why; empty: nothing was stale.
    pub reasons: Vec<String>,
    /// Days that were written again; `None`: all.
    pub days: Option<u64>,
    /// Rows that were removed.
    pub removed: u64,
    /// Rows that were written.
    pub rows: u64,
    /// Files that were written.
    pub files: u64,
}

impl Publisher {
    /// Writes again what is stale, in one commit: readers see the old rows or the new ones. With `all`, everything, also with the types that
    /// the stream has now. Nothing but the table's earlier snapshots has the old rows afterwards.
    ///
    /// What the stream's retention has dropped stays in the table.
    ///
    /// # Errors
    /// As [`Publisher::step`]; [`Error::Table`] when there is no table, or another publisher was at work at the same time.
    pub fn repair(&mut self, all: bool) -> Result<Repaired, Error> {
        let name = self.table.name.clone();
        let sealed = Sealed::of(&self.db, &self.stream)?;
        let names = self.stream.symbols();
        let missing = || {
            Error::Table(format!(
                "{name}: there is no such table; `tapedb publish` without --repair makes it"
            ))
        };
        let version = self.table.format.load()?.ok_or_else(missing)?;
        self.recognize(&*version)?;
        let before = self.verify(&*version)?;
        let mut found = stale::compare(self, &*version, &before)?;
        if all {
            found.whole.push("all was asked for".into());
        }
        if found.is_none() {
            if before.stale.is_some() {
                self.table.note(version, &Progress { stale: None, ..before })?;
            }
            return Ok(Repaired { days: Some(0), ..Repaired::default() });
        }
        let first = first_day(&self.stream)?;
        let is_whole = !found.whole.is_empty();
        if is_whole && first.is_some() && self.columns.flattened.is_some() {
            return Err(Error::Table(format!(
                "{name}: the stream drops old messages, and a flattened table does not state which rows those are; publish to another table"
            )));
        }
        // All of a table, but for what the stream has dropped by its retention.
        let in_table =
            if self.columns.flattened.is_some() { Default::default() } else { version.rows_of_days()? };
        let removed = match (is_whole, first) {
            (true, None) => Removed::All,
            (true, Some(first)) => {
                Removed::Days(in_table.keys().copied().filter(|day| *day >= first).collect())
            }
            (false, _) => Removed::Days(found.days.iter().map(|day| day.day).collect()),
        };
        // A whole table is written up to what is sealed now; days up to where the table is.
        let ends: Vec<u64> = match is_whole {
            true => sealed.ends(),
            false => before.sequences.clone(),
        };
        let misfits = match is_whole {
            true => Misfits::Replace { is_all: removed == Removed::All },
            false => Misfits::Refuse,
        };
        let current = version.schema()?;
        let evolved = version
            .evolved(&self.columns.columns, misfits)
            .map_err(|error| Error::Table(format!("{name}: {error}")))?;
        let fields = evolved.as_ref().unwrap_or(&current);
        let commit = new_commit();
        let mut writer = self.writer(fields, &version.data(), &commit)?;
        let written = self.write_days(&found, is_whole, first, &ends, &mut writer);
        let (messages, rows) = match written {
            Ok(counts) => counts,
            Err(error) => {
                writer.discard();
                return Err(error);
            }
        };
        let files = writer.files();
        let kept = match &removed {
            Removed::All | Removed::Nothing => 0,
            Removed::Days(days) => {
                in_table.iter().filter(|(day, _)| !days.contains(day)).map(|(_, rows)| rows).sum()
            }
        };
        let progress = Progress {
            stream: self.stream.name().into(),
            messages: kept + messages,
            rows: kept + rows,
            lost: sealed.lost(&ends),
            sequences: ends,
            symbols: if is_whole {
                (names.len() as u32, checksum(names.iter().map(String::as_str)))
            } else {
                before.symbols
            },
            commit,
            stale: None,
            ..before.clone()
        };
        let step = Step { progress, schema: evolved, added: &files, removed };
        match self.table.commit(&*version, &before, &step) {
            Ok(Outcome::Done) => {}
            Ok(Outcome::Overtaken) => {
                self.remove(&files);
                return Err(Error::Away(format!(
                    "{name}: another publisher was at work at the same time; repair again"
                )));
            }
            Err(error @ (Error::Away(_) | Error::Interrupted)) => return Err(error),
            Err(error) => {
                self.remove(&files);
                return Err(error);
            }
        }
        let mut reasons = found.whole.clone();
        reasons.extend(Stale { whole: Vec::new(), ..found.clone() }.text());
        Ok(Repaired {
            reasons,
            days: (!is_whole).then_some(found.days.len() as u64),
            removed: before.rows.saturating_sub(kept),
            rows,
            files: files.len() as u64,
        })
    }

    /// Writes the stale days, or all that the stream has.
    fn write_days(
        &self,
        stale: &Stale,
        is_whole: bool,
        first: Option<i32>,
        ends: &[u64],
        writer: &mut crate::write::Writer,
    ) -> Result<(u64, u64), Error> {
        let cursor = || self.stream.cursor().to_sequences(ends.to_vec());
        if is_whole {
            let cursor = match first.filter(|first| *first < i32::MAX) {
                Some(first) => cursor().from(times(first).0),
                None => cursor(),
            };
            return self.write(cursor, &[], writer);
        }
        let days: BTreeSet<i32> = stale.days.iter().map(|day| day.day).collect();
        let (mut messages, mut rows) = (0, 0);
        for day in days {
            let (from, to) = times(day);
            let (more, all) = self.write(cursor().from(from).to(to), &[], writer)?;
            (messages, rows) = (messages + more, all);
        }
        Ok((messages, rows))
    }
}
