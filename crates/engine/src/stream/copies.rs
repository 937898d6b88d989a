//! Small text files that a stream needs: replaced whole, with a checksum, and stored twice, so that damage to one copy does
//! not make the stream unreadable.

use crate::error::{Error, Unreadable};
use std::io;
use std::path::Path;
use tapedb_log::Storage;

/// First bytes of the line after the first one.
const CHECKSUM: &str = "\nchecksum ";

/// The content of a file: its magic, its checksum, and the body.
pub(crate) fn sealed(magic: &str, body: &str) -> String {
    format!("{magic}{CHECKSUM}{:08x}\n{body}", checksum(body))
}

/// The body of a file; else its fault.
pub(crate) fn unsealed<'a>(magic: &str, text: &'a str) -> Result<&'a str, String> {
    let rest = text.strip_prefix(magic).and_then(|rest| rest.strip_prefix(CHECKSUM));
    let rest = rest.ok_or_else(|| format!("does not begin with {magic:?} and a checksum"))?;
    let (stated, body) = rest.split_once('\n').unwrap_or((rest, ""));
    let found = format!("{:08x}", checksum(body));
    if stated != found {
        return Err(format!("is damaged: its checksum is {found}, not {stated} as stated"));
    }
    Ok(body)
}

/// CRC-32C of a text.
pub(crate) fn checksum(body: &str) -> u32 {
    tapedb_codec::bytes::crc32c(body.as_bytes())
}

/// The text of a file; `None` if it does not exist.
pub(crate) fn read_text(storage: &dyn Storage, path: &Path, bytes_max: u64) -> Result<Option<String>, Error> {
    let bad = |what: &str| Error::Unreadable(Unreadable::Definition { path: path.into(), what: what.into() });
    match storage.read(path, bytes_max) {
        Ok(bytes) => String::from_utf8(bytes).map(Some).map_err(|_| bad("is damaged: not UTF-8")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => Err(bad("is too long")),
        Err(error) => Err(Error::io("read", path)(error)),
    }
}

/// Replaces or creates a file, in one step and on the disk.
pub(crate) fn replace(
    storage: &dyn Storage,
    directory: &Path,
    name: &str,
    draft: &str,
    text: &str,
) -> Result<(), Error> {
    let (draft, path) = (directory.join(draft), directory.join(name));
    match storage.remove(&draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(Error::io("remove", &draft)(error));
        }
        _ => {}
    }
    let file = storage.create_new(&draft).map_err(Error::io("create", &draft))?;
    file.write_at(text.as_bytes(), 0).map_err(Error::io("write", &draft))?;
    file.sync_data().map_err(Error::io("sync", &draft))?;
    storage.rename(&draft, &path).map_err(Error::io("rename", &draft))?;
    storage.sync_dir(directory).map_err(Error::io("sync", directory))
}
