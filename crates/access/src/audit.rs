//! The audit log: logins, refusals and changes. JSON lines in a file that only its owner can read. A long file is
//! rotated: `audit.jsonl.1` is the newest rotated file.

use crate::limits::AccessLimits;
use serde::Serialize;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use tapedb_schema::Timestamp;

/// Writes the audit log, if one is configured.
#[derive(Debug)]
pub struct AuditLog {
    open: Option<Mutex<Open>>,
}

#[derive(Debug)]
struct Open {
    path: PathBuf,
    file: File,
    bytes: u64,
    bytes_max: u64,
    files_max: u32,
}

/// One line.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct AuditEntry<'a> {
    /// The event, in a word: `login`, `refused`, `logout`, `create`, `delete`, …
    pub event: &'a str,
    /// The user; empty when it is unknown.
    pub user: &'a str,
    /// The client's address.
    pub address: &'a str,
    /// The stream.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub stream: &'a str,
    /// Details.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub what: &'a str,
}

#[derive(Serialize)]
struct Line<'a> {
    time: String,
    #[serde(flatten)]
    entry: AuditEntry<'a>,
}

impl AuditLog {
    /// Opens the log for appending.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open(path: Option<&Path>, limits: &AccessLimits) -> io::Result<Self> {
        let open = |path: &Path| {
            let (file, bytes) = open_file(path)?;
            let (bytes_max, files_max) = (limits.audit_bytes_max, limits.audit_files_max);
            Ok::<_, io::Error>(Mutex::new(Open { path: path.into(), file, bytes, bytes_max, files_max }))
        };
        Ok(Self { open: path.map(open).transpose()? })
    }

    /// Writes a line. A failed write is reported in the program's own log; it does not stop the server.
    pub fn write(&self, now: Timestamp, entry: AuditEntry<'_>) {
        let Some(open) = &self.open else { return };
        let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = open.write(now, entry) {
            let path = open.path.display();
            tracing::error!(%error, %path, event = entry.event, user = entry.user, "the audit log cannot be written");
        }
    }
}

impl Open {
    fn write(&mut self, now: Timestamp, entry: AuditEntry<'_>) -> io::Result<()> {
        let mut line = serde_json::to_vec(&Line { time: now.to_string(), entry })?;
        line.push(b'\n');
        if self.bytes > 0 && self.bytes + line.len() as u64 > self.bytes_max {
            self.rotate()?;
        }
        self.bytes += line.len() as u64;
        self.file.write_all(&line)
    }

    /// Rotates the files: each gets the next number, and the oldest is removed.
    fn rotate(&mut self) -> io::Result<()> {
        for number in (1..self.files_max).rev() {
            rename_if_there(&self.rotated_path(number), &self.rotated_path(number + 1))?;
        }
        if self.files_max == 0 {
            fs::remove_file(&self.path)?;
        } else {
            rename_if_there(&self.path, &self.rotated_path(1))?;
        }
        (self.file, self.bytes) = open_file(&self.path)?;
        Ok(())
    }

    fn rotated_path(&self, number: u32) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{number}"));
        name.into()
    }
}

fn rename_if_there(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        renamed => renamed,
    }
}

fn open_file(path: &Path) -> io::Result<(File, u64)> {
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    let bytes = file.metadata()?.len();
    Ok((file, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(what: &str) -> AuditEntry<'_> {
        AuditEntry { event: "delete", user: "ann", address: "192.0.2.1:5", stream: "ticks", what }
    }

    #[test]
    fn a_line_has_time_user_and_event() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.jsonl");
        let audit = AuditLog::open(Some(&path), &AccessLimits::default()).unwrap();
        audit.write(Timestamp(0), entry("two\nlines"));
        audit.write(Timestamp(1), AuditEntry { stream: "", ..entry("") });
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0],
            r#"{"time":"1970-01-01T00:00:00Z","event":"delete","user":"ann","address":"192.0.2.1:5","stream":"ticks","what":"two\nlines"}"#
        );
        assert_eq!(lines.len(), 2);
        assert!(!lines[1].contains("stream"));
    }

    #[test]
    fn a_long_log_is_rotated_and_the_oldest_file_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.jsonl");
        let limits = AccessLimits { audit_bytes_max: 1000, audit_files_max: 2, ..AccessLimits::default() };
        for i in 0..100 {
            // Opened again each time: the length is read from the file.
            let audit = AuditLog::open(Some(&path), &limits).unwrap();
            audit.write(Timestamp(i), entry(&i.to_string()));
        }
        let mut names: Vec<_> =
            fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["audit.jsonl", "audit.jsonl.1", "audit.jsonl.2"]);
        let text = ["audit.jsonl.2", "audit.jsonl.1", "audit.jsonl"]
            .map(|name| fs::read_to_string(directory.path().join(name)).unwrap());
        assert!(text.iter().all(|text| text.len() <= 1000));
        let whats: Vec<i64> = text
            .concat()
            .lines()
            .map(|line| {
                serde_json::from_str::<serde_json::Value>(line).unwrap()["what"]
                    .as_str()
                    .unwrap()
                    .parse()
                    .unwrap()
            })
            .collect();
        assert!(whats.is_sorted() && whats.len() > 10 && whats.last() == Some(&99), "{whats:?}");
    }

    #[test]
    fn without_a_path_nothing_is_written() {
        AuditLog::open(None, &AccessLimits::default()).unwrap().write(Timestamp(0), entry(""));
    }
}
