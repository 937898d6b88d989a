//! What a table format does, whatever files its tables are made of. [`crate::iceberg`] and [`crate::delta`] are the two that there are.
//!
//! Always true: a commit changes a table from the version that it begins with to the next, rows and progress together, or not at all; of
//! two that begin with the same version, one gets [`CommitFailure::Conflict`].

use crate::columns::{Column, Columns};
use crate::error::Error;
use crate::fields::Schema;
use crate::files::NewFile;
use crate::progress::Progress;
use crate::schema::Misfits;
use crate::settings::Options;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

/// Where a table is found and made.
pub(crate) trait Format: Debug + Send {
    /// The newest version; `None`: there is no such table.
    ///
    /// # Errors
    /// [`Error::Away`] if the place does not answer; when what is there cannot be read.
    fn load(&self) -> Result<Option<Box<dyn Version>>, Error>;

    /// Makes the table, without rows.
    ///
    /// # Errors
    /// [`CommitFailure::Conflict`]: there is such a table by now.
    fn create(
        &self,
        columns: &Columns,
        progress: &Progress,
        options: &Options,
    ) -> Result<Box<dyn Version>, CommitFailure>;

    /// What the place is, for messages.
    fn describe(&self) -> String;

    /// Names and types of the columns that a new table has.
    fn described(&self, columns: &[Column]) -> Vec<(String, String)>;
}

/// A table at one moment.
pub(crate) trait Version: Debug {
    /// What distinguishes the table from others, whatever they are called.
    fn identity(&self) -> &str;

    /// What it states of its stream; `None`: it was not made by TapeDB.
    ///
    /// # Errors
    /// When that was changed, so that it states nothing.
    fn progress(&self) -> Result<Option<Progress>, Error>;

    /// Checks that files can be added as the table is divided now.
    ///
    /// # Errors
    /// What others have changed.
    fn check_layout(&self, columns: &Columns, options: &Options) -> Result<(), String>;

    /// What makes rows of the table others than those that its progress counts; `None`: others have at most rewritten files.
    fn foreign_change(&self, progress: &Progress) -> Option<String>;

    /// Rows of each day.
    ///
    /// # Errors
    /// When its files cannot be listed.
    fn rows_of_days(&self) -> Result<BTreeMap<i32, u64>, Error>;

    /// The folder of its files, as a URL without a slash at its end.
    fn data(&self) -> String;

    /// Its schema.
    ///
    /// # Errors
    /// When it cannot be read.
    fn schema(&self) -> Result<Schema, Error>;

    /// The schema that has all columns, where the table's lacks some; `None`: it has all.
    ///
    /// # Errors
    /// When a type cannot become the column's.
    fn evolved(&self, columns: &[Column], misfits: Misfits) -> Result<Option<Schema>, Error>;

    /// Changes rows and progress.
    ///
    /// # Errors
    /// [`CommitFailure`].
    fn commit(&self, step: &Step<'_>) -> Result<Box<dyn Version>, CommitFailure>;

    /// Changes the progress alone.
    ///
    /// # Errors
    /// [`CommitFailure`].
    fn note(&self, progress: &Progress) -> Result<Box<dyn Version>, CommitFailure>;
}

/// What is committed.
#[derive(Debug)]
pub(crate) struct Step<'a> {
    pub progress: Progress,
    /// The schema, where it is another one than the table's.
    pub schema: Option<Schema>,
    pub added: &'a [NewFile],
    pub removed: Removed,
}

/// Which files of the table go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Removed {
    /// None: rows are added.
    Nothing,
    /// Those of some days.
    Days(BTreeSet<i32>),
    /// All, with what others have recorded as deleted in them.
    All,
}

impl Removed {
    /// Whether a file of a day goes.
    pub fn contains(&self, day: Option<i32>) -> bool {
        match self {
            Self::Nothing => false,
            Self::All => true,
            Self::Days(days) => day.is_some_and(|day| days.contains(&day)),
        }
    }
}

/// Why a table was not changed.
#[derive(Debug)]
pub enum CommitFailure {
    /// It is another one by now: load it again.
    Conflict(String),
    /// It is unchanged.
    Failed(Error),
    /// It may have been changed: load it and look.
    Unknown(Error),
}

impl From<Error> for CommitFailure {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}
