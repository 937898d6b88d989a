//! Reads what the log files of a directory contain: from their indexes where these are valid, else by a scan.

use crate::directory::LogDir;
use crate::error::LogError;
use crate::format::{FILE_HEADER_BYTES, FileHeader, FileKind};
use crate::granule::Granule;
use crate::report::{Damage, Reason};
use crate::scan::{Scan, scan_file, scan_region, zeros_at_end};
use crate::search::Region;
use crate::storage::StorageFile;

/// Read before all the rest: a file that is being written ends with preallocated zeros most of the time.
const PROBE_BYTES: u64 = 4096;

/// What one log file contains.
#[derive(Debug)]
pub(crate) struct LoadedFile {
    pub(crate) file: u64,
    pub(crate) bytes: u64,
    pub(crate) scan: Scan,
    pub(crate) by_index: bool,
}

impl LogDir {
    /// Reads what a log file contains; `expected` is the sequence number after the file before it.
    pub(crate) fn load(&self, file: u64, expected: u64, trust_index: bool) -> Result<LoadedFile, LogError> {
        let handle = self.open_read(file)?;
        let bytes = self.size(&*handle, file)?;
        let head = self.read(&*handle, file, 0, bytes.min(FILE_HEADER_BYTES))?;
        let header = FileHeader::parse(FileKind::Log, &head);
        self.check_owner(file, header.as_ref())?;
        if trust_index && let Some(granules) = self.read_index(file, expected, bytes) {
            let scan = scan_of_index(file, expected, header, granules);
            return Ok(LoadedFile { file, bytes, scan, by_index: true });
        }
        let content = self.read(&*handle, file, 0, bytes)?;
        let region = Region { file, offset: 0, marks: self.marks(file, header.as_ref(), &content) };
        let scan =
            self.confirmed((&*handle, file, 0), &content, |bytes| scan_file(bytes, region, expected))?;
        // A writer may have cut preallocated space off since the size was read.
        let bytes = content.len() as u64;
        Ok(LoadedFile { file, bytes, scan, by_index: false })
    }

    /// Scans what was read from `offset` on. Damage is reported only if it is read twice: while a writer fills preallocated
    /// space, a batch may be read before the one in front of it. The second read finds all that lies before a whole batch.
    fn confirmed(
        &self,
        (handle, file, offset): (&dyn StorageFile, u64, u64),
        content: &[u8],
        scan: impl Fn(&[u8]) -> Scan,
    ) -> Result<Scan, LogError> {
        let first = scan(content);
        if first.damaged.is_empty() {
            return Ok(first);
        }
        let again = scan(&self.read(handle, file, offset, first.end - offset)?);
        Ok(Scan { end_error: first.end_error, preallocated: first.preallocated, ..again })
    }

    /// Scans a log file from `offset` on. If that begins with preallocated space, there is nothing new.
    pub(crate) fn load_from(&self, file: u64, offset: u64, expected: u64) -> Result<LoadedFile, LogError> {
        let handle = self.open_read(file)?;
        let bytes = self.size(&*handle, file)?;
        let rest = bytes.saturating_sub(offset);
        let mut content = self.read(&*handle, file, offset, rest.min(PROBE_BYTES))?;
        if zeros_at_end(&content) < content.len() {
            content = self.read(&*handle, file, offset, rest)?;
        }
        let region = Region { file, offset, marks: self.marks_of(file)? };
        let scan = |bytes: &[u8]| scan_region(bytes, region, expected);
        let scan = self.confirmed((&*handle, file, offset), &content, scan)?;
        Ok(LoadedFile { file, bytes, scan, by_index: false })
    }
}

/// The result of a scan, taken from the index: bytes between its granules were not readable.
fn scan_of_index(file: u64, expected: u64, header: Option<FileHeader>, granules: Vec<Granule>) -> Scan {
    let mut scan = Scan { header, end: FILE_HEADER_BYTES, next_sequence: expected, ..Scan::default() };
    for granule in &granules {
        if granule.offset > scan.end || granule.first_sequence > scan.next_sequence {
            scan.damaged.push(Damage {
                file,
                offset: scan.end,
                bytes: granule.offset - scan.end,
                first_sequence: scan.next_sequence,
                count: Some(granule.first_sequence - scan.next_sequence),
                reason: Reason::Unindexed,
            });
        }
        (scan.end, scan.next_sequence) = (granule.end(), granule.next_sequence());
    }
    scan.granules = granules;
    scan
}
