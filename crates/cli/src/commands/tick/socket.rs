//! The Unix sockets for requests to roles: their paths, and access for their user only.

use std::env;
use std::fs::{self, DirBuilder, File, Permissions, TryLockError};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use tapedb_terminal::Failure;

/// Holds a socket's path against other processes; the socket is removed when this is dropped.
#[derive(Debug)]
pub struct Claim {
    path: PathBuf,
    /// Locked for as long as it is open: a process that was killed leaves no lock.
    _lock: File,
}

impl Drop for Claim {
    fn drop(&mut self) {
        // A socket that cannot be removed is replaced by the next process.
        let _ = fs::remove_file(&self.path);
    }
}

/// Default socket of a role: `tick-ROLE.sock` in a folder of the user.
pub fn of_role(role: &str) -> Result<PathBuf, Failure> {
    Ok(folder()?.join(format!("tick-{role}.sock")))
}

/// Default socket for a request: that of the first running role, or else of the first role.
pub fn of_some_role(roles: &[&str]) -> Result<PathBuf, Failure> {
    let folder = folder()?;
    let places = roles.iter().map(|role| folder.join(format!("tick-{role}.sock")));
    let places: Vec<PathBuf> = places.collect();
    let answers = |place: &&PathBuf| UnixStream::connect(place).is_ok();
    let found = places.iter().find(answers).or(places.first()).cloned();
    found.ok_or_else(|| Failure::usage("give a socket with --at"))
}

/// The user's folder for sockets, which other users cannot enter: `$XDG_RUNTIME_DIR/tapedb`, else one in the folder for temporary
/// files.
fn folder() -> Result<PathBuf, Failure> {
    let user = fs::metadata("/proc/self").map(|process| process.uid()).unwrap_or_default();
    let runtime = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|folder| folder.is_dir());
    let folder = match runtime {
        Some(runtime) => runtime.join("tapedb"),
        None => env::temp_dir().join(format!("tapedb-{user}")),
    };
    let failed = |what: String| {
        Failure::new(format!("{}: {what}; name a socket with --ask and --at", folder.display()))
    };
    match DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if !folder.is_dir() => return Err(failed(error.to_string())),
        _ => {}
    }
    let found = fs::symlink_metadata(&folder).map_err(|error| failed(error.to_string()))?;
    let is_ours = found.is_dir() && found.uid() == user && found.mode() & 0o077 == 0;
    if is_ours { Ok(folder) } else { Err(failed("it is not a folder with access for this user only".into())) }
}

/// Listens on a socket that only this user can open. Replaces a socket that a process left behind.
pub fn listen(place: &Path) -> Result<(UnixListener, Claim), Failure> {
    let failed =
        |what: String| Failure::new(format!("cannot listen for queries on {}: {what}", place.display()));
    let mut beside = place.as_os_str().to_owned();
    beside.push(".lock");
    let lock = File::options().create(true).truncate(false).write(true).open(&beside);
    let lock = lock.map_err(|error| failed(format!("{error}; name another socket with --ask")))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(failed(
                "another process uses this socket; name another one with --ask, or off".into(),
            ));
        }
        Err(TryLockError::Error(error)) => return Err(failed(error.to_string())),
    }
    match fs::symlink_metadata(place) {
        Ok(found) if found.file_type().is_socket() => {
            fs::remove_file(place).map_err(|error| failed(error.to_string()))?;
        }
        Ok(_) => return Err(failed("the path exists and is something else; name another path".into())),
        Err(_) => {}
    }
    let listener = private(place).map_err(|error| {
        failed(format!("{error}; a socket's path has at most 107 bytes, and its folder must exist"))
    })?;
    Ok((listener, Claim { path: place.into(), _lock: lock }))
}

/// A socket that only this user can open.
fn private(place: &Path) -> std::io::Result<UnixListener> {
    let listener = UnixListener::bind(place)?;
    fs::set_permissions(place, Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Parser of a socket's path; refuses an address.
pub fn path(text: &str) -> Result<PathBuf, String> {
    let is_number = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let is_address = !text.contains('/') && text.rsplit_once(':').is_some_and(|(_, port)| is_number(port));
    if is_address {
        return Err("queries use a Unix socket, because every program of this machine can reach a port; name a path, or off".into());
    }
    Ok(text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_private_and_has_one_listener() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("ask.sock");
        let (listener, claim) = listen(&place).unwrap();
        assert_eq!(fs::metadata(&place).unwrap().mode() & 0o777, 0o600);
        assert!(listen(&place).unwrap_err().to_string().contains("another process"));
        drop((listener, claim));
        assert!(!place.exists());
        // The socket of a killed process.
        drop(UnixListener::bind(&place).unwrap());
        drop(listen(&place).unwrap());
        fs::write(&place, "notes").unwrap();
        assert!(listen(&place).unwrap_err().to_string().contains("something else"));
        assert_eq!(fs::read(&place).unwrap(), b"notes");
        assert!(path("127.0.0.1:7850").unwrap_err().contains("Unix socket"));
        assert_eq!(path("/run/a:1"), Ok("/run/a:1".into()));
    }
}
