//! Files that were uploaded, and their imports.
//!
//! Always true: at most [`UPLOADS_MAX`] files are stored, each of at most the size that the limits state, in a directory that only the
//! server's user can enter and that is removed with the server; one import runs at a time.

use crate::options::{ImportJob, ImportProgress};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Files that are stored at once, those that arrive included.
pub(crate) const UPLOADS_MAX: usize = 8;
/// A file that is not imported is removed after this time.
const KEPT_MAX: Duration = Duration::from_secs(3600);
/// Bytes of the name of a file.
const NAME_BYTES_MAX: usize = 200;

/// The uploaded files.
#[derive(Debug, Default)]
pub(crate) struct Uploads {
    inner: Mutex<Inner>,
    next: AtomicU64,
}

#[derive(Debug, Default)]
struct Inner {
    directory: Option<PathBuf>,
    files: BTreeMap<u64, Upload>,
}

/// A file, and what becomes of it.
#[derive(Debug)]
struct Upload {
    user: String,
    name: String,
    stream: String,
    bytes: u64,
    since: Instant,
    state: State,
}

#[derive(Debug)]
enum State {
    Arriving,
    Here,
    Running { job: Arc<dyn ImportJob>, is_preview: bool },
    Ended { end: ImportProgress, is_preview: bool, failure: Option<String> },
}

/// A file that arrives; it is removed unless it is complete.
#[derive(Debug)]
pub(crate) struct Arriving<'a> {
    uploads: &'a Uploads,
    pub id: u64,
    pub path: PathBuf,
    is_complete: bool,
}

impl Arriving<'_> {
    /// Gives the space of what has arrived back, before the rest has.
    pub fn empty(&self) {
        // It is removed at the end.
        let _ = fs::File::create(&self.path);
    }

    /// All of it is here.
    pub fn complete(mut self, bytes: u64) {
        self.is_complete = true;
        if let Some(upload) = self.uploads.lock().files.get_mut(&self.id) {
            (upload.bytes, upload.state, upload.since) = (bytes, State::Here, Instant::now());
        }
    }
}

impl Drop for Arriving<'_> {
    fn drop(&mut self) {
        if !self.is_complete {
            self.uploads.forget(self.id);
        }
    }
}

/// Why an upload or an import does not begin.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Busy {
    /// As many files are stored as may be.
    Full,
    /// Another import is running.
    Running,
    /// There is no such file of the user.
    Unknown,
    /// It arrives still.
    Arriving,
    /// The disk has no space for the file.
    NoSpace,
    /// The directory cannot be made, or no thread started.
    System(String),
}

impl Uploads {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a file of a user, for a stream.
    pub fn begin(&self, user: &str, name: &str, stream: &str) -> Result<Arriving<'_>, Busy> {
        let system =
            |error: io::Error| if is_full(&error) { Busy::NoSpace } else { Busy::System(error.to_string()) };
        let mut inner = self.lock();
        inner.forget_old();
        if inner.files.len() >= UPLOADS_MAX {
            return Err(Busy::Full);
        }
        let id = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        let directory = inner.directory().map_err(system)?.join(id.to_string());
        fs::create_dir(&directory).map_err(system)?;
        let name = file_name(name);
        let path = directory.join(&name);
        let upload = Upload {
            user: user.into(),
            name,
            stream: stream.into(),
            bytes: 0,
            since: Instant::now(),
            state: State::Arriving,
        };
        inner.files.insert(id, upload);
        Ok(Arriving { uploads: self, id, path, is_complete: false })
    }

    /// The file of a user, and its stream.
    pub fn file(&self, id: u64, user: &str) -> Result<(PathBuf, String), Busy> {
        let inner = self.lock();
        let upload = inner.files.get(&id).filter(|upload| upload.user == user).ok_or(Busy::Unknown)?;
        let directory = inner.directory.as_ref().ok_or(Busy::Unknown)?;
        Ok((directory.join(id.to_string()).join(&upload.name), upload.stream.clone()))
    }

    /// Runs an import of a user's file on a thread; calls `ended` with its outcome.
    pub fn run(
        self: &Arc<Self>,
        id: u64,
        user: &str,
        job: Arc<dyn ImportJob>,
        is_preview: bool,
        ended: impl FnOnce(&Result<(), String>, &ImportProgress) + Send + 'static,
    ) -> Result<(), Busy> {
        let mut inner = self.lock();
        if inner.files.values().any(|upload| matches!(upload.state, State::Running { .. })) {
            return Err(Busy::Running);
        }
        let upload = inner.files.get_mut(&id).filter(|upload| upload.user == user).ok_or(Busy::Unknown)?;
        if matches!(upload.state, State::Arriving) {
            return Err(Busy::Arriving);
        }
        let (uploads, running) = (self.clone(), job.clone());
        let work = move || {
            // A panic of an importer is an error of its file, and no more.
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| running.run()));
            let outcome = outcome
                .unwrap_or_else(|_| Err("the import has crashed; please report this with the file".into()));
            let end = running.progress();
            ended(&outcome, &end);
            if let Some(upload) = uploads.lock().files.get_mut(&id) {
                let failure = outcome.err();
                (upload.state, upload.since) = (State::Ended { end, is_preview, failure }, Instant::now());
            }
        };
        let thread = thread::Builder::new().name("tape-import".into()).spawn(work);
        thread.map_err(|error| Busy::System(error.to_string()))?;
        (upload.state, upload.since) = (State::Running { job, is_preview }, Instant::now());
        Ok(())
    }

    /// Cancels an import that runs, or removes a file.
    pub fn remove(&self, id: u64, user: &str) -> Result<(), Busy> {
        let inner = self.lock();
        match inner.files.get(&id).filter(|upload| upload.user == user) {
            None => return Err(Busy::Unknown),
            Some(Upload { state: State::Running { job, .. }, .. }) => {
                job.cancel();
                return Ok(());
            }
            Some(Upload { state: State::Arriving, .. }) => return Err(Busy::Arriving),
            Some(_) => {}
        }
        drop(inner);
        self.forget(id);
        Ok(())
    }

    fn forget(&self, id: u64) {
        let mut inner = self.lock();
        inner.files.remove(&id);
        inner.remove_file(id);
    }

    /// Stops the import that runs, and waits for it until a moment.
    pub fn stop(&self, until: Instant) {
        loop {
            let mut is_running = false;
            for upload in self.lock().files.values() {
                if let State::Running { job, .. } = &upload.state {
                    is_running = true;
                    job.cancel();
                }
            }
            if !is_running || Instant::now() >= until {
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// The files of a user.
    pub fn rows(&self, user: &str) -> Vec<Value> {
        let mut inner = self.lock();
        inner.forget_old();
        // Where the server stores them is of no use to clients.
        let place = |id: &u64| {
            inner.directory.as_ref().map(|directory| format!("{}/", directory.join(id.to_string()).display()))
        };
        let own = inner.files.iter().filter(|(_, upload)| upload.user == user);
        own.map(|(id, upload)| upload.row(*id, &place(id).unwrap_or_default())).collect()
    }
}

impl Drop for Uploads {
    fn drop(&mut self) {
        if let Some(directory) = &self.lock().directory {
            // What cannot be removed stays in the system's folder for temporary files.
            let _ = fs::remove_dir_all(directory);
        }
    }
}

impl Inner {
    /// The directory, which only this user can enter.
    fn directory(&mut self) -> io::Result<&Path> {
        if self.directory.is_none() {
            static NUMBER: AtomicU64 = AtomicU64::new(0);
            let name =
                format!("tapedb-uploads-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
            let path = std::env::temp_dir().join(name);
            DirBuilder::new().mode(0o700).create(&path)?;
            self.directory = Some(path);
        }
        self.directory.as_deref().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn remove_file(&self, id: u64) {
        if let Some(directory) = &self.directory {
            // It may not have been created.
            let _ = fs::remove_dir_all(directory.join(id.to_string()));
        }
    }

    fn forget_old(&mut self) {
        let is_old = |upload: &Upload| {
            let may_go = matches!(upload.state, State::Here | State::Ended { .. });
            may_go && upload.since.elapsed() > KEPT_MAX
        };
        let old: Vec<u64> =
            self.files.iter().filter(|(_, upload)| is_old(upload)).map(|(id, _)| *id).collect();
        for id in old {
            self.files.remove(&id);
            self.remove_file(id);
        }
    }
}

impl Upload {
    fn row(&self, id: u64, place: &str) -> Value {
        let none = ImportProgress::default;
        let (state, is_preview, ImportProgress { done, total, messages, text }, failure) = match &self.state {
            State::Arriving => ("arriving", false, none(), None),
            State::Here => ("here", false, none(), None),
            State::Running { job, is_preview } => ("running", *is_preview, job.progress(), None),
            State::Ended { end, is_preview, failure: None } => ("done", *is_preview, end.clone(), None),
            State::Ended { end, is_preview, failure } => {
                ("failed", *is_preview, end.clone(), failure.clone())
            }
        };
        json!({
            "id": id,
            "name": self.name,
            "stream": self.stream,
            "bytes": self.bytes,
            "state": state,
            "preview": is_preview,
            "done": done,
            "total": total,
            "messages": messages.to_string(),
            "text": text.replace(place, ""),
            "failure": failure.map(|failure| failure.replace(place, "")),
        })
    }
}

/// Whether the disk has no space, or the server's user may not have more of it.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// The last part of a path, as a name of a file: formats are found out by it.
fn file_name(sent: &str) -> String {
    let last = sent.rsplit(['/', '\\']).next().unwrap_or_default();
    let mut name = String::new();
    for letter in last.chars() {
        let letter = if letter.is_control() { '_' } else { letter };
        if name.len() + letter.len_utf8() > NAME_BYTES_MAX {
            break;
        }
        name.push(letter);
    }
    if name.trim_matches('.').trim().is_empty() { "file".into() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_of_files() {
        for (sent, name) in [
            ("../../etc/passwd", "passwd"),
            ("C:\\x\\ticks.csv", "ticks.csv"),
            ("..", "file"),
            ("", "file"),
            ("a/", "file"),
            (" . ", " . "),
            ("a\0b\n.csv", "a_b_.csv"),
        ] {
            assert_eq!(file_name(sent), name, "{sent:?}");
        }
        assert_eq!(file_name(&"é".repeat(500)).len(), NAME_BYTES_MAX);
    }

    #[test]
    fn files_are_of_their_user_and_go_with_the_server() {
        let uploads = Uploads::default();
        let arriving = uploads.begin("ann", "x.csv", "a").unwrap();
        let (id, path) = (arriving.id, arriving.path.clone());
        fs::write(&path, "1").unwrap();
        assert_eq!(uploads.remove(id, "ann"), Err(Busy::Arriving));
        arriving.complete(1);
        assert_eq!(uploads.file(id, "bob"), Err(Busy::Unknown));
        assert_eq!(uploads.file(id, "ann").unwrap(), (path.clone(), "a".into()));
        assert_eq!((uploads.rows("ann").len(), uploads.rows("bob").len()), (1, 0));
        let broken = uploads.begin("ann", "y.csv", "a").unwrap();
        let half = broken.path.clone();
        fs::write(&half, "1").unwrap();
        drop(broken);
        assert!(!half.exists() && path.exists(), "what did not arrive is removed");
        let more: Vec<u64> = (1..UPLOADS_MAX)
            .map(|_| {
                let arriving = uploads.begin("ann", "z.csv", "a").unwrap();
                let id = arriving.id;
                arriving.complete(0);
                id
            })
            .collect();
        assert_eq!(uploads.begin("ann", "z.csv", "a").unwrap_err(), Busy::Full);
        assert_eq!(uploads.remove(more[0], "ann"), Ok(()));
        assert!(uploads.begin("ann", "z.csv", "a").is_ok());
        drop(uploads);
        assert!(!path.exists());
    }
}
