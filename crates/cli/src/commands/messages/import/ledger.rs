//! The ledger of imports: a file in the stream's directory that records the imported files, so that no file is imported twice by
//! mistake, and an interrupted import continues where it stopped. `docs/format/imports.md` describes it.
//!
//! Invariants: a `begin` line is on disk before the first message of its import is written, and an `end` line only after the last
//! message is on disk. So the ledger never records an incomplete file as complete.

use super::identity::Identity;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use tapedb_codec::bytes::crc32c;
use tapedb_terminal::Failure;

/// Name of the ledger in the stream's directory.
pub const LEDGER_FILE: &str = "imports";

/// An import in the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    /// Its number, from 1.
    pub id: u64,
    /// Sequence number of its first message.
    pub first_sequence: u64,
    /// Name of the format.
    pub format: String,
    /// The files.
    pub files: Vec<Identity>,
    /// Its state.
    pub state: State,
}

/// State of an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Started; an unknown number of its messages is in the stream.
    Unfinished,
    /// All messages are in the stream.
    Finished,
    /// Started and abandoned by a forced import; some of its messages are in the stream.
    Abandoned,
    /// Started, but ended before any message was in the stream.
    Withdrawn,
}

/// One line.
#[derive(Serialize, Deserialize, Debug)]
#[serde(rename_all = "snake_case")]
enum Entry {
    Begin { id: u64, first_sequence: u64, format: String, files: Vec<Identity> },
    End { id: u64, messages: u64 },
    Abandon { id: u64 },
    Withdraw { id: u64 },
}

/// The ledger of one stream.
#[derive(Debug)]
pub struct Ledger {
    path: PathBuf,
    imports: Vec<Import>,
    /// Bytes of complete lines; an incomplete line may follow.
    end: u64,
}

impl Ledger {
    /// Reads the ledger in a stream's directory; there is none before the first import.
    ///
    /// # Errors
    /// When it cannot be read, or is damaged before its end.
    pub fn open(directory: &Path) -> Result<Self, Failure> {
        let path = directory.join(LEDGER_FILE);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(cannot("read", &path, &error)),
        };
        let mut ledger = Self { path, imports: Vec::new(), end: 0 };
        ledger.take_lines(&bytes)?;
        Ok(ledger)
    }

    /// The interrupted import, if there is one; it is the last import.
    pub fn unfinished(&self) -> Option<&Import> {
        self.imports.iter().rfind(|import| import.state == State::Unfinished)
    }

    /// The import that wrote this file, or some of it, to the stream; preferably a finished one.
    pub fn import_of(&self, file: &Identity) -> Option<&Import> {
        let has = |import: &&Import| {
            import.state != State::Withdrawn && import.files.iter().any(|known| known.same_content(file))
        };
        let having = || self.imports.iter().filter(has);
        having().find(|import| import.state == State::Finished).or_else(|| having().next_back())
    }

    /// Records on disk that an import starts; returns its number.
    pub fn begin(&mut self, first_sequence: u64, format: &str, files: &[Identity]) -> Result<u64, Failure> {
        let id = self.imports.last().map_or(1, |import| import.id + 1);
        let (format, files) = (format.to_string(), files.to_vec());
        self.append(Entry::Begin { id, first_sequence, format, files })?;
        Ok(id)
    }

    /// Records on disk that all messages of an import are on disk.
    pub fn end(&mut self, id: u64, messages: u64) -> Result<(), Failure> {
        self.append(Entry::End { id, messages })
    }

    /// Records on disk that an interrupted import is abandoned.
    pub fn abandon(&mut self, id: u64) -> Result<(), Failure> {
        self.append(Entry::Abandon { id })
    }

    /// Records on disk that no message of an import is in the stream.
    pub fn withdraw(&mut self, id: u64) -> Result<(), Failure> {
        self.append(Entry::Withdraw { id })
    }

    fn take_lines(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
        for (i, line) in lines.iter().enumerate() {
            if entry_of(line).and_then(|entry| self.apply(entry)).is_some() {
                self.end += line.len() as u64;
            } else if i + 1 < lines.len() || line.ends_with(b"\n") {
                return Err(Failure::new(format!(
                    "{}: line {} is damaged, so the imported files are unknown; restore the file from a copy, or \
                     delete the stream and import again",
                    self.path.display(),
                    i + 1
                )));
            }
        }
        Ok(())
    }

    /// Applies an entry; `None` if it contradicts earlier ones.
    fn apply(&mut self, entry: Entry) -> Option<()> {
        match entry {
            Entry::Begin { id, first_sequence, format, files } => {
                let next = self.imports.last().is_none_or(|import| import.id < id);
                let import = Import { id, first_sequence, format, files, state: State::Unfinished };
                next.then(|| self.imports.push(import))
            }
            Entry::End { id, .. } => self.set_state(id, State::Finished),
            Entry::Abandon { id } => self.set_state(id, State::Abandoned),
            Entry::Withdraw { id } => self.set_state(id, State::Withdrawn),
        }
    }

    fn set_state(&mut self, id: u64, state: State) -> Option<()> {
        self.imports.iter_mut().find(|import| import.id == id).map(|import| import.state = state)
    }

    /// Appends a line in place of an incomplete one, and waits until it is on disk.
    fn append(&mut self, entry: Entry) -> Result<(), Failure> {
        let line = line_of(&entry).ok_or_else(|| Failure::new("cannot write JSON; please report this"))?;
        self.write(&line).map_err(|error| cannot("write", &self.path, &error))?;
        self.end += line.len() as u64;
        self.apply(entry);
        Ok(())
    }

    fn write(&self, line: &[u8]) -> std::io::Result<()> {
        let is_new = !self.path.exists();
        let mut file = File::options().create(true).append(true).open(&self.path)?;
        file.set_len(self.end)?;
        file.write_all(line)?;
        file.sync_all()?;
        match self.path.parent() {
            Some(directory) if is_new => File::open(directory)?.sync_all(),
            _ => Ok(()),
        }
    }
}

/// `crc32c json\n`.
fn line_of(entry: &Entry) -> Option<Vec<u8>> {
    let json = serde_json::to_string(entry).ok()?;
    Some(format!("{:08x} {json}\n", crc32c(json.as_bytes())).into_bytes())
}

fn entry_of(line: &[u8]) -> Option<Entry> {
    let line = str::from_utf8(line.strip_suffix(b"\n")?).ok()?;
    let (stated, json) = line.split_once(' ')?;
    (stated == format!("{:08x}", crc32c(json.as_bytes()))).then_some(())?;
    serde_json::from_str(json).ok()
}

fn cannot(operation: &str, path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!(
        "cannot {operation} {}: {error}; check the free disk space and the permissions of the file",
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str) -> Identity {
        Identity {
            name: name.into(),
            bytes: name.len() as u64,
            crc64: format!("{:016x}", crc32c(name.as_bytes())),
        }
    }

    fn states(ledger: &Ledger) -> Vec<State> {
        ledger.imports.iter().map(|import| import.state).collect()
    }

    #[test]
    fn imports_are_recorded() {
        let directory = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::open(directory.path()).unwrap();
        assert!(ledger.imports.is_empty());
        let first = ledger.begin(0, "fx-ticks", &[file("a"), file("b \"c\"\n")]).unwrap();
        ledger.abandon(first).unwrap();
        let second = ledger.begin(10, "fx-ticks", &[file("a")]).unwrap();
        ledger.end(second, 5).unwrap();
        let empty = ledger.begin(15, "fx-ticks", &[file("c")]).unwrap();
        ledger.withdraw(empty).unwrap();
        let third = ledger.begin(15, "fx-ticks", &[file("d")]).unwrap();
        for ledger in [&ledger, &Ledger::open(directory.path()).unwrap()] {
            let expected = [State::Abandoned, State::Finished, State::Withdrawn, State::Unfinished];
            assert_eq!(states(ledger), expected);
            assert_eq!(ledger.import_of(&file("c")), None);
            assert_eq!(ledger.unfinished().map(|import| import.id), Some(third));
            assert_eq!(ledger.import_of(&file("a")).map(|import| import.id), Some(second));
            assert_eq!(ledger.import_of(&file("b \"c\"\n")).map(|import| import.id), Some(first));
            assert_eq!(ledger.import_of(&file("x")), None);
        }
    }

    #[test]
    fn a_torn_end_is_cut_and_a_damaged_middle_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(LEDGER_FILE);
        let mut ledger = Ledger::open(directory.path()).unwrap();
        let id = ledger.begin(0, "fx-ticks", &[file("a")]).unwrap();
        let begun = fs::read(&path).unwrap().len();
        ledger.end(id, 5).unwrap();
        let whole = fs::read(&path).unwrap();
        for cut in begun..whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            let mut ledger = Ledger::open(directory.path()).unwrap();
            assert_eq!(states(&ledger), [State::Unfinished], "{cut}");
            ledger.end(id, 5).unwrap();
            assert_eq!(fs::read(&path).unwrap(), whole);
        }
        for at in 0..begun {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            fs::write(&path, &damaged).unwrap();
            assert!(Ledger::open(directory.path()).unwrap_err().to_string().contains("line 1"), "{at}");
        }
    }
}
