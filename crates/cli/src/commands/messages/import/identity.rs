//! Identity of a file by its content: a second import of the same content is a repetition, regardless of path and name.

use crc_fast::{CrcAlgorithm, Digest};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use tapedb_terminal::{Failure, Ui};

/// Bytes read at once.
const CHUNK_BYTES: usize = 256 << 10;

/// Identity of a file by its content.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Its name when it was imported, for messages.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// CRC-64/NVME of its bytes on disk, in 16 hexadecimal digits.
    pub crc64: String,
}

impl Identity {
    /// The identity of a file.
    pub fn of(path: &Path, ui: &Ui) -> Result<Self, Failure> {
        Self::of_all(path, "", &[path], ui)
    }

    /// The identity of several files together: of a prefix, then of each file.
    pub fn of_all<P: AsRef<Path>>(path: &Path, prefix: &str, files: &[P], ui: &Ui) -> Result<Self, Failure> {
        let mut digest = Digest::new(CrcAlgorithm::Crc64Nvme);
        digest.update(prefix.as_bytes());
        let mut bytes = 0;
        for file in files {
            bytes += add(file.as_ref(), &mut digest, ui)?;
        }
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        Ok(Self { name, bytes, crc64: format!("{:016x}", digest.finalize()) })
    }

    /// Whether both have the same bytes.
    pub fn same_content(&self, other: &Self) -> bool {
        (self.bytes, &self.crc64) == (other.bytes, &other.crc64)
    }
}

/// Adds a file to a digest; returns its size.
fn add(path: &Path, digest: &mut Digest, ui: &Ui) -> Result<u64, Failure> {
    let cannot = |error| Failure::new(format!("cannot read {}: {error}; check the path", path.display()));
    let mut file = File::open(path).map_err(cannot)?;
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut bytes = 0;
    loop {
        ui.check_interrupt()?;
        match file.read(&mut chunk).map_err(cannot)? {
            0 => return Ok(bytes),
            read => {
                digest.update(&chunk[..read]);
                bytes += read as u64;
            }
        }
    }
}

/// Whether two lists hold the same contents equally often, in any order.
pub fn same_files(a: &[Identity], b: &[Identity]) -> bool {
    let sorted = |files: &[Identity]| {
        let mut keys: Vec<_> = files.iter().map(|file| (file.bytes, file.crc64.clone())).collect();
        keys.sort();
        keys
    };
    sorted(a) == sorted(b)
}
