//! A table that was found in files, and its partitions.

use super::error::ImportError;
use crate::column::Column;
use crate::date::Date;
use crate::error::TickError;
use crate::kind::Kind;
use crate::table::{SYM, TIME, Table};
use std::fmt;
use std::path::{Path, PathBuf};

/// What the files do not contain.
#[derive(Debug, Clone, Default)]
pub struct ImportOptions {
    /// The date of times of day; default: that of the folder or the file's name.
    pub date: Option<Date>,
    /// Tables with the names and types of their columns: logs may not have names.
    pub schema: Vec<Table>,
    /// Only tables of these names; empty: all.
    pub only: Vec<String>,
}

impl ImportOptions {
    pub(super) fn wants(&self, table: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == table)
    }
}

/// A table that was found, in one or several partitions.
#[derive(Debug, Clone)]
pub struct Source {
    /// Its name and columns.
    pub table: Table,
    /// Its partitions, in order.
    pub partitions: Vec<Partition>,
    /// Whether the names of its columns were made up, because the files have none.
    pub has_no_names: bool,
}

/// A partition of a table: a log, or a folder of columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// The log, or the folder.
    pub path: PathBuf,
    /// The files that it consists of, in a fixed order.
    pub files: Vec<PathBuf>,
    /// The date of its times of day.
    pub date: Option<Date>,
}

impl Source {
    /// Adds the partitions of the same table from other files.
    pub(super) fn absorb(&mut self, other: Self) -> Result<(), ImportError> {
        if self.table != other.table {
            let partition =
                other.partitions.first().map_or(PathBuf::new(), |partition| partition.path.clone());
            return Err(ImportError::OtherColumns { path: partition, table: self.table.name().into() });
        }
        self.partitions.extend(other.partitions);
        Ok(())
    }
}

/// Columns of a table, chunk by chunk.
pub(super) trait ColumnChunks: fmt::Debug {
    /// The next chunk: `time`, `sym` and the fields. `None` at the end.
    fn next(&mut self) -> Result<Option<Vec<Column>>, ImportError>;

    /// Bytes read so far.
    fn bytes_read(&self) -> u64;

    /// Records that were skipped: of functions that bring no rows.
    fn skipped(&self) -> u64 {
        0
    }
}

/// The table of columns with these names and kinds, `time` and `sym` among them.
pub(super) fn table_of_kinds(
    path: &Path,
    name: &str,
    columns: &[(String, Kind)],
) -> Result<Table, ImportError> {
    let lacks = |what| ImportError::NoColumn { path: path.into(), table: name.into(), column: what };
    let kind_of = |wanted| columns.iter().find(|(name, _)| name == wanted).map(|(_, kind)| *kind);
    let time = kind_of(TIME).filter(|kind| kind.is_time()).ok_or_else(|| lacks(TIME))?;
    kind_of(SYM).filter(|kind| *kind == Kind::Symbol).ok_or_else(|| lacks(SYM))?;
    let fields: Vec<(String, Kind)> =
        columns.iter().filter(|(name, _)| name != TIME && name != SYM).cloned().collect();
    Table::of_kinds(name, time, &fields)
        .map_err(|error: TickError| ImportError::Content { path: path.into(), what: error.to_string() })
}

/// A date at the end of a name: `quote20220616`, `sym2022.06.16`, `tp_2022-06-16`, without what follows a last dot that is
/// not of the date.
pub(super) fn date_of_name(path: &Path) -> Option<Date> {
    let name = path.file_name()?.to_str()?;
    let ends = [name.len(), name.rfind('.').unwrap_or(name.len())];
    ends.iter().find_map(|end| {
        let name = &name[..*end];
        let dashed = name.get(name.len().checked_sub(10)?..).and_then(|date| date.parse().ok());
        dashed.or_else(|| plain_date(name.get(name.len() - 8..)?))
    })
}

fn plain_date(digits: &str) -> Option<Date> {
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    let dashed = is_plain.then(|| format!("{}-{}-{}", &digits[..4], &digits[4..6], &digits[6..]));
    dashed?.parse().ok()
}
