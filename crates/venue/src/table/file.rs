//! Files of tables, opened and read record by record in bounded memory.

use super::quotes::Quotes;
use crate::container::{self, Member, Opened};
use crate::error::{ImportError, LineLocation};
use crate::lines::MAX_LINE_BYTES;
use csv::{ByteRecord, Reader, ReaderBuilder};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A file, or a member of a zip file, with a table.
#[derive(Debug, Clone)]
pub struct TableFile {
    pub(super) path: PathBuf,
    member: Option<Member>,
    pub(super) bytes: u64,
}

impl TableFile {
    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is another member of the same zip file as these, which has not been among them.
    pub fn is_further_member(&self, others: &[Self]) -> bool {
        self.member.is_some()
            && others.iter().all(|other| other.path == self.path && other.member != self.member)
    }

    pub(super) fn place(&self, line: u64) -> LineLocation {
        let member = self.member.as_ref().map(|member| member.name.clone());
        LineLocation { path: self.path.clone(), member, line, column: None }
    }

    /// Opens it at its first record.
    pub(super) fn records(&self, delimiter: u8) -> Result<Records, ImportError> {
        let extension = self.path.extension().unwrap_or_default().to_ascii_lowercase();
        let Opened { reader, bytes_read } = match &self.member {
            Some(member) => container::open_member(&self.path, member)?,
            None if extension == "gz" => container::open_gzip(&self.path)?,
            None => container::open_plain(&self.path)?,
        };
        let since = Arc::new(AtomicU64::new(0));
        let quotes = Quotes::new(delimiter);
        let limited = Limited { reader, since: Arc::clone(&since), quotes, is_broken: false };
        let reader =
            ReaderBuilder::new().delimiter(delimiter).has_headers(false).flexible(true).from_reader(limited);
        Ok(Records { reader, since, bytes_read, place: self.place(0) })
    }
}

/// The tables of files: plain ones, `.gz`, and the members of `.zip`; of folders, those that are named `.csv`.
///
/// # Errors
/// [`ImportError::Open`], [`ImportError::WrongFormat`] for a damaged zip file, [`ImportError::NothingFound`] for a folder without tables.
pub fn find_tables<P: AsRef<Path>>(paths: &[P]) -> Result<Vec<TableFile>, ImportError> {
    let mut found = Vec::new();
    for path in paths.iter().map(AsRef::as_ref) {
        let open = |source| ImportError::Open { path: path.into(), source };
        if !path.metadata().map_err(open)?.is_dir() {
            add(path, &mut found)?;
            continue;
        }
        let before = found.len();
        let entries = path.read_dir().and_then(Iterator::collect::<io::Result<Vec<_>>>).map_err(open)?;
        let mut names: Vec<PathBuf> = entries.iter().map(std::fs::DirEntry::path).collect();
        names.sort();
        for name in names.iter().filter(|name| is_table_named(name) && name.is_file()) {
            add(name, &mut found)?;
        }
        if found.len() == before {
            let looked_for = "files named `.csv`, `.csv.gz` or `.csv.zip`";
            return Err(ImportError::NothingFound { path: path.into(), looked_for });
        }
    }
    Ok(found)
}

/// Whether a file's name says that it is a table.
fn is_table_named(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    [".csv", ".csv.gz", ".csv.zip"].iter().any(|end| name.ends_with(end))
}

fn add(path: &Path, found: &mut Vec<TableFile>) -> Result<(), ImportError> {
    let is_zip = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("zip"));
    if is_zip {
        for member in container::members(path)? {
            let bytes = member.compressed_bytes;
            found.push(TableFile { path: path.into(), member: Some(member), bytes });
        }
        return Ok(());
    }
    let metadata = path.metadata().map_err(|source| ImportError::Open { path: path.into(), source })?;
    found.push(TableFile { path: path.into(), member: None, bytes: metadata.len() });
    Ok(())
}

/// The records of a file.
pub(super) struct Records {
    reader: Reader<Limited>,
    /// Bytes since the begin of the record.
    since: Arc<AtomicU64>,
    pub(super) bytes_read: Arc<AtomicU64>,
    /// The last record.
    pub(super) place: LineLocation,
}

impl Records {
    /// Reads the next record; `false` at the end.
    pub(super) fn next(&mut self, record: &mut ByteRecord) -> Result<bool, ImportError> {
        self.since.store(0, Ordering::Relaxed);
        match self.reader.read_byte_record(record) {
            Ok(found) => {
                self.place.line = record.position().map_or(self.place.line, csv::Position::line);
                Ok(found)
            }
            Err(error) => {
                let source = match error.into_kind() {
                    csv::ErrorKind::Io(source) => source,
                    other => io::Error::other(format!("{other:?}")),
                };
                Err(ImportError::Read { place: self.place.clone(), source })
            }
        }
    }
}

/// Ends with an error where a record does not end, or quotes are not those of a whole cell.
struct Limited {
    reader: Box<dyn Read + Send>,
    since: Arc<AtomicU64>,
    quotes: Quotes,
    /// Something else than a cell's end is behind quotes.
    is_broken: bool,
}

impl Read for Limited {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let damaged = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
        let count = if self.is_broken { 0 } else { self.reader.read(out)? };
        let sound = self.quotes.sound(&out[..count]);
        self.is_broken |= sound < count;
        if self.is_broken && sound == 0 {
            return Err(damaged("a row behind it has quotes that end before their cell does".into()));
        }
        if count == 0 && !out.is_empty() && self.quotes.is_open() {
            return Err(damaged("a row behind it has a quote that is not closed".into()));
        }
        let since = self.since.fetch_add(sound as u64, Ordering::Relaxed) + sound as u64;
        if since > MAX_LINE_BYTES as u64 {
            return Err(damaged(format!(
                "the row behind it has more than {} MiB; a quote may not be closed",
                MAX_LINE_BYTES >> 20
            )));
        }
        Ok(sound)
    }
}
