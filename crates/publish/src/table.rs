//! A table in whatever format: made, verified, and changed in steps that happen once.

use crate::columns::Columns;
use crate::error::{Error, check_interrupt};
use crate::format::{CommitFailure, Format, Removed, Step, Version};
use crate::progress::Progress;
use crate::settings::Options;
use std::thread;
use std::time::Duration;

/// How often a commit is tried again after others were first, or its outcome is not certain.
const ATTEMPTS: u32 = 8;

/// A table by its name.
#[derive(Debug)]
pub(crate) struct Table {
    pub format: Box<dyn Format>,
    pub name: String,
}

/// What became of a commit.
#[derive(Debug)]
pub(crate) enum Outcome {
    Done,
    /// The table has another progress by now: nothing was changed.
    Overtaken,
}

impl Table {
    /// Makes the table, without rows.
    ///
    /// # Errors
    /// When the place does not answer or refuses.
    pub fn create(
        &self,
        columns: &Columns,
        progress: &Progress,
        options: &Options,
    ) -> Result<Box<dyn Version>, Error> {
        match self.format.create(columns, progress, options) {
            Ok(version) => Ok(version),
            Err(CommitFailure::Failed(error)) => Err(error),
            Err(CommitFailure::Conflict(what)) => self.format.load()?.ok_or(Error::Away(what)),
            Err(CommitFailure::Unknown(error)) => match self.format.load() {
                Ok(Some(version)) => Ok(version),
                _ => Err(error),
            },
        }
    }

    /// Checks that a table is one of this stream and record type, and has the partitions that it was made with.
    ///
    /// # Errors
    /// When it is not, or has others.
    pub fn verify(
        &self,
        version: &dyn Version,
        expected: &Progress,
        options: &Options,
        columns: &Columns,
    ) -> Result<Progress, Error> {
        let name = &self.name;
        let wrong = |what: String| Err(Error::Table(format!("{name}: {what}")));
        let Some(found) = self.progress(version)? else {
            return wrong(
                "this table was not made by `tapedb publish`; choose another name, or drop it".into(),
            );
        };
        if (found.stream_id, &found.record) != (expected.stream_id, &expected.record) {
            let Progress { stream, stream_id, record, .. } = &found;
            return wrong(format!(
                "this table has {record} messages of stream {stream:?} with the id {stream_id:016x}, which is another one; choose another name, or drop it"
            ));
        }
        if found.shape != expected.shape {
            let text = |shape: &str| if shape.is_empty() { "none".to_string() } else { format!("{shape:?}") };
            return wrong(format!(
                "this table was made with other options for its columns and partitions ({}, not {}); use the same, or another table",
                text(&found.shape),
                text(&expected.shape)
            ));
        }
        if found.sequences.len() != expected.sequences.len() {
            return wrong(format!(
                "the stream has {} spaces, and the table {}; publish to another table",
                expected.sequences.len(),
                found.sequences.len()
            ));
        }
        match version.check_layout(columns, options) {
            Ok(()) => Ok(found),
            Err(what) => wrong(what),
        }
    }

    /// What a version states of its stream.
    fn progress(&self, version: &dyn Version) -> Result<Option<Progress>, Error> {
        version.progress().map_err(|error| Error::Table(format!("{}: {error}", self.name)))
    }

    /// Commits a step: the files, and the progress that counts them. What others did to the table in between stays, as long as they left
    /// its rows, its progress and its schema as they were.
    ///
    /// # Errors
    /// When the place does not answer or refuses, or others changed the rows. With [`Error::Away`] the commit may have happened.
    pub fn commit(&self, base: &dyn Version, before: &Progress, step: &Step<'_>) -> Result<Outcome, Error> {
        let mut uncertain = None;
        let mut newer: Option<Box<dyn Version>> = None;
        let schema = base.schema()?;
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                thread::sleep(Duration::from_millis(50 << attempt.min(6)));
                check_interrupt()?;
                let version = match self.format.load() {
                    Ok(Some(version)) => version,
                    Ok(None) => return Err(dropped(&self.name)),
                    Err(error) if error.is_temporary() => {
                        uncertain.get_or_insert(error);
                        continue;
                    }
                    Err(error) => return Err(error),
                };
                if version.identity() != base.identity() {
                    return Err(dropped(&self.name));
                }
                let found = self.progress(&*version)?.unwrap_or_default();
                if found.commit == step.progress.commit {
                    return Ok(Outcome::Done);
                }
                if (&found.sequences, &found.commit) != (&before.sequences, &before.commit)
                    || version.schema()?.fields != schema.fields
                {
                    return Ok(Outcome::Overtaken);
                }
                if step.removed != Removed::All {
                    check_rows(&self.name, &*version, &found)?;
                }
                newer = Some(version);
            }
            match newer.as_deref().unwrap_or(base).commit(step) {
                Ok(_) => return Ok(Outcome::Done),
                Err(CommitFailure::Failed(error)) if uncertain.is_none() && !error.is_temporary() => {
                    return Err(error);
                }
                Err(CommitFailure::Failed(error) | CommitFailure::Unknown(error)) => uncertain = Some(error),
                Err(CommitFailure::Conflict(_)) => {}
            }
        }
        Err(uncertain.unwrap_or_else(|| {
            Error::Away(format!(
                "{}: other programs change the table all the time; try again later",
                self.name
            ))
        }))
    }

    /// Changes the progress alone: where a range has no rows of the record type, and to state that the table is stale. Where another program
    /// was first, it is noted the next time.
    ///
    /// # Errors
    /// When the place does not answer or refuses. Nothing is lost then.
    pub fn note(&self, base: Box<dyn Version>, progress: &Progress) -> Result<Box<dyn Version>, Error> {
        match base.note(progress) {
            Ok(version) => Ok(version),
            Err(CommitFailure::Conflict(_)) => Ok(base),
            Err(CommitFailure::Failed(error) | CommitFailure::Unknown(error)) => Err(error),
        }
    }
}

/// Checks that the rows of a table are those that its progress counts: since our last commit others have at most rewritten files.
///
/// # Errors
/// When they have added or deleted rows, or gone back to an earlier version.
pub(crate) fn check_rows(name: &str, version: &dyn Version, progress: &Progress) -> Result<(), Error> {
    match version.foreign_change(progress) {
        None => Ok(()),
        Some(what) => {
            Err(Error::Table(format!("{name}: {what}; `tapedb publish --repair` writes what the stream has")))
        }
    }
}

pub(crate) fn dropped(name: &str) -> Error {
    Error::Table(format!(
        "{name}: the table has been dropped or replaced since; start `tapedb publish` again to make it again from the beginning of the stream"
    ))
}
