//! Stream names and their directories.
//!
//! A name is 1 to 80 bytes of UTF-8 without control characters. Its directory is the name with every byte that is not an
//! ASCII letter, digit, `_`, `-` or inner `.` as `%XX`: readable where possible, valid on every file system.

use crate::error::{Error, Invalid};

/// Longest stream name in bytes; its directory name stays under the limit of 255 bytes of file systems.
pub const MAX_STREAM_NAME_BYTES: usize = 80;

/// Checks a stream's name.
pub(crate) fn check(name: &str) -> Result<(), Error> {
    let rule = if name.is_empty() {
        "it is empty"
    } else if name.len() > MAX_STREAM_NAME_BYTES {
        "it is longer than 80 bytes"
    } else if name.chars().any(char::is_control) {
        "it has a control character"
    } else {
        return Ok(());
    };
    Err(Error::Invalid(Invalid::StreamName { name: name.chars().take(100).collect(), rule }))
}

/// The directory of a stream.
pub(crate) fn directory_of(name: &str) -> String {
    let mut directory = String::new();
    for (i, byte) in name.bytes().enumerate() {
        let plain = byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-') || (byte == b'.' && i > 0);
        if plain {
            directory.push(byte.into());
        } else {
            directory.push_str(&format!("%{byte:02X}"));
        }
    }
    directory
}

/// The stream of a directory; `None` if the directory is not a stream's.
pub(crate) fn name_of(directory: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = directory.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        if first == b'%' {
            let digits = str::from_utf8(tail.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &tail[2..];
        } else {
            bytes.push(first);
            rest = tail;
        }
    }
    let name = String::from_utf8(bytes).ok()?;
    (check(&name).is_ok() && directory_of(&name) == directory).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for name in ["bars", "us.equity-ticks_2013", ".hidden", "a/b", "100%", "Ünïcödé", "CON", "a b"] {
            check(name).unwrap();
            let directory = directory_of(name);
            assert_eq!(name_of(&directory).as_deref(), Some(name), "{directory}");
            assert!(!directory.contains('/') && !directory.starts_with('.'));
        }
        let longest = "\u{1F600}".repeat(MAX_STREAM_NAME_BYTES / 4);
        assert!(directory_of(&longest).len() < 255);
    }

    #[test]
    fn bad_names_are_refused() {
        for name in ["", "a\nb", &"x".repeat(MAX_STREAM_NAME_BYTES + 1)] {
            assert!(check(name).is_err());
        }
        for directory in [".new-bars", "%2", "%zz", "%41", "a%ff"] {
            assert_eq!(name_of(directory), None, "{directory}");
        }
    }
}
