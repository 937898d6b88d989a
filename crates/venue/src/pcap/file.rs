//! Files of captures: their names, and their first bytes.

use super::packets::is_capture;
use crate::container::{Opened, open_gzip, open_plain};
use crate::error::ImportError;
use std::io::{self, Cursor, Read};
use std::path::Path;

/// Whether a file is named as captures are; these names do not say of which feed they are.
pub(crate) fn is_capture_named(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_ascii_lowercase();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    [".pcap", ".pcapng", ".cap"].iter().any(|end| name.ends_with(end))
}

/// A file, unpacked, and whether it is a capture.
pub(crate) fn open_file(path: &Path) -> Result<(Opened, bool), ImportError> {
    let is_gzip = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gz"));
    let Opened { mut reader, bytes_read } = if is_gzip { open_gzip(path)? } else { open_plain(path)? };
    let mut first = Vec::new();
    let read = reader.by_ref().take(4).read_to_end(&mut first);
    read.map_err(|source: io::Error| ImportError::Open { path: path.into(), source })?;
    let is_capture = is_capture(&first);
    Ok((Opened { reader: Box::new(Cursor::new(first).chain(reader)), bytes_read }, is_capture))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captures_are_told_by_name_and_by_content() {
        assert!(is_capture_named(Path::new("a/DEEP10.PCAP.gz")) && is_capture_named(Path::new("b.pcapng")));
        assert!(!is_capture_named(Path::new("pcap")) && !is_capture_named(Path::new("a.pcap.zip")));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("wrongly.named");
        std::fs::write(&path, [0x0A, 0x0D, 0x0D, 0x0A, 1]).unwrap();
        let (mut opened, is_capture) = open_file(&path).unwrap();
        let mut bytes = Vec::new();
        opened.reader.read_to_end(&mut bytes).unwrap();
        assert!(is_capture && bytes.len() == 5);
    }
}
