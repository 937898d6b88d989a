//! The quarantine of log files that were damaged when they were sealed. Their readable messages are in segments; the files
//! are kept under another name, for recovery by other means. Nothing in TapeDB removes them.
//!
//! They are renamed after the manifest records the loss, and before the log removes what is sealed: a crash in between leaves
//! them under their old name, and the next writer renames them first.

use crate::error::Error;
use crate::space::catalog::Catalog;
use std::path::Path;
use tapedb_log::Storage;

/// Extension of a damaged file in quarantine.
pub(crate) const DAMAGED_EXTENSION: &str = "damaged";
const LOG_EXTENSION: &str = ".log";

/// Renames the log files that were sealed with losses.
///
/// # Errors
/// When the directory cannot be listed or a file cannot be renamed: the log must then not remove what is sealed.
pub(crate) fn quarantine_damaged(
    storage: &dyn Storage,
    directory: &Path,
    catalog: &Catalog,
) -> Result<(), Error> {
    if catalog.parts.totals().lost == 0 {
        return Ok(());
    }
    let mut is_renamed = false;
    let kept = |name: &str| name.strip_suffix(DAMAGED_EXTENSION)?.strip_suffix('.').and_then(log_of);
    let names = storage
        .list_where(directory, &mut |name| log_of(name).is_some() || kept(name).is_some())
        .map_err(Error::io("list", directory))?;
    let mut starts: Vec<u64> = names.iter().filter_map(|name| log_of(name).or_else(|| kept(name))).collect();
    starts.sort_unstable();
    for pair in starts.windows(2) {
        // A file ends where the next one begins.
        let (name, next) = (log_name(pair[0]), pair[1]);
        let mut parts = catalog.parts_between(pair[0]..next);
        if next <= catalog.sealed && names.contains(&name) && parts.any(|part| part.lost > 0) {
            let path = directory.join(&name);
            let kept = directory.join(format!("{name}.{DAMAGED_EXTENSION}"));
            storage.rename(&path, &kept).map_err(Error::io("rename", &path))?;
            is_renamed = true;
        }
    }
    match is_renamed {
        true => storage.sync_dir(directory).map_err(Error::io("sync", directory)),
        false => Ok(()),
    }
}

/// The sequence number in the name of a log file; `None` for any other name.
fn log_of(name: &str) -> Option<u64> {
    let file = name.strip_suffix(LOG_EXTENSION)?.parse().ok()?;
    (log_name(file) == name).then_some(file)
}

/// Name of a log file.
pub(crate) fn log_name(file: u64) -> String {
    format!("{file:020}{LOG_EXTENSION}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::catalog::Part;
    use std::sync::Arc;
    use tapedb_log::sim::SimStorage;

    #[test]
    fn only_what_was_sealed_with_losses_is_renamed() {
        let (disk, directory) = (SimStorage::new(1), Path::new("/space"));
        disk.create_dir_all(directory).unwrap();
        for file in [0, 10, 20, 30] {
            disk.create_new(&directory.join(log_name(file))).unwrap();
        }
        let part = |start, end, lost| Arc::new(Part { sequences: start..end, lost, content: None });
        let parts = [part(0, 10, 0), part(10, 20, 3)].into_iter().collect();
        let catalog = Catalog { sealed: 20, parts, ..Catalog::default() };
        quarantine_damaged(&disk, directory, &catalog).unwrap();
        quarantine_damaged(&disk, directory, &catalog).unwrap();
        let mut names = disk.list(directory).unwrap();
        names.sort();
        let kept = format!("{}.damaged", log_name(10));
        assert_eq!(names, [log_name(0), kept, log_name(20), log_name(30)]);
    }
}
