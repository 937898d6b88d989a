//! A secret of the database: 32 random bytes that stay the same while the database exists. A server derives from it what
//! clients must not be able to choose. It protects no stored data: a lost or damaged secret is replaced by a new one.

use crate::database::Database;
use crate::error::Error;
use crate::files::sync_dir;
use std::path::Path;
use tapedb_log::Storage;

/// Holds the secret.
const FILE: &str = "secret";
const DRAFT: &str = "secret.tmp";
const HEAD: &str = "tapedb-secret 1\n";
const SECRET_BYTES: usize = 32;
/// The head, and the bytes in hexadecimal in a line of their own.
const FILE_BYTES: usize = HEAD.len() + 2 * SECRET_BYTES + 1;

impl Database {
    /// The database's secret; if it has none yet, stores `new` and returns it.
    ///
    /// # Errors
    /// [`Error::ReadOnly`] for a database that is not open for writing here; when the file cannot be read or written.
    pub fn secret(&self, new: [u8; SECRET_BYTES]) -> Result<[u8; SECRET_BYTES], Error> {
        if !self.is_writer() {
            return Err(Error::ReadOnly);
        }
        let (storage, directory) = (&**self.storage(), self.path());
        if let Some(found) = read(storage, directory)? {
            return Ok(found);
        }
        write(storage, directory, &new)?;
        Ok(new)
    }
}

/// The secret; `None` if the file is missing or not valid.
fn read(storage: &dyn Storage, directory: &Path) -> Result<Option<[u8; SECRET_BYTES]>, Error> {
    let path = directory.join(FILE);
    match storage.read(&path, 2 * FILE_BYTES as u64) {
        Ok(text) => Ok(parse(&text)),
        Err(error) => match error.kind() {
            std::io::ErrorKind::NotFound | std::io::ErrorKind::FileTooLarge => Ok(None),
            _ => Err(Error::io("read", &path)(error)),
        },
    }
}

fn parse(text: &[u8]) -> Option<[u8; SECRET_BYTES]> {
    let digits = text.strip_prefix(HEAD.as_bytes())?.strip_suffix(b"\n")?;
    let (pairs, rest) = digits.as_chunks::<2>();
    let mut secret = [0; SECRET_BYTES];
    if pairs.len() != SECRET_BYTES || !rest.is_empty() {
        return None;
    }
    for (byte, pair) in secret.iter_mut().zip(pairs) {
        let digit = |digit: u8| char::from(digit).to_digit(16);
        *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
    }
    Some(secret)
}

/// Writes the file whole or not at all, and puts it on the disk.
fn write(storage: &dyn Storage, directory: &Path, secret: &[u8; SECRET_BYTES]) -> Result<(), Error> {
    let (path, draft) = (directory.join(FILE), directory.join(DRAFT));
    let digits: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    let text = format!("{HEAD}{digits}\n");
    storage.write(&draft, text.as_bytes()).map_err(Error::io("write", &draft))?;
    storage.sync_file(&draft).map_err(Error::io("sync", &draft))?;
    storage.rename(&draft, &path).map_err(Error::io("create", &path))?;
    sync_dir(storage, directory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::Access;
    use std::sync::Arc;
    use tapedb_log::sim::SimStorage;

    #[test]
    fn a_secret_stays_until_it_is_lost() {
        let disk = SimStorage::new(1);
        let open = |access| Database::open_on(Arc::new(disk.clone()), "/db", access).unwrap();
        assert_eq!(open(Access::Write).secret([7; 32]).unwrap(), [7; 32]);
        assert_eq!(open(Access::Write).secret([8; 32]).unwrap(), [7; 32]);
        assert!(matches!(open(Access::Read).secret([8; 32]), Err(Error::ReadOnly)));
        for damaged in [&b""[..], b"tapedb-secret 1\n07", &[b'7'; 1000]] {
            disk.write(Path::new("/db/secret"), damaged).unwrap();
            assert_eq!(open(Access::Write).secret([8; 32]).unwrap(), [8; 32], "another one is made");
        }
    }
}
