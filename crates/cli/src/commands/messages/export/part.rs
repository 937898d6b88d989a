//! A file that has its name only when it is whole and on the disk.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use tapedb_terminal::Failure;

/// `NAME.part` until [`Part::finish`]; removed if it is dropped before.
pub struct Part {
    file: File,
    part: PathBuf,
    path: PathBuf,
    bytes: u64,
    is_whole: bool,
}

impl Part {
    /// An empty file.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn create(path: &Path) -> Result<Self, Failure> {
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        let part = PathBuf::from(part);
        let file = File::create(&part).map_err(|error| failed("create", &part, &error))?;
        Ok(Self { file, part, path: path.into(), bytes: 0, is_whole: false })
    }

    /// Syncs the file and gives it its name; its bytes.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn finish(mut self) -> Result<u64, Failure> {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let named = self.file.sync_all().and_then(|()| fs::rename(&self.part, &self.path));
        let synced = named.and_then(|()| File::open(folder.unwrap_or(Path::new(".")))?.sync_all());
        synced.map_err(|error| failed("write", &self.path, &error))?;
        self.is_whole = true;
        Ok(self.bytes)
    }

    /// The failure of a write.
    pub fn refused(&self, error: &dyn std::fmt::Display) -> Failure {
        failed("write", &self.part, error)
    }
}

impl Write for Part {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.write(bytes)?;
        self.bytes += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.is_whole {
            let _ = fs::remove_file(&self.part);
        }
    }
}

fn failed(what: &str, path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::new(format!("cannot {what} {}: {error}; free disk space or name another folder", path.display()))
}
