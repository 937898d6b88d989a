//! Files of kdb+, as bytes: the caller reads and writes the files.
//!
//! * [`log`]: the tickerplant's log.
//! * [`flat`]: one value in a file, such as `.d` and `sym`.
//! * [`mod@column`]: a column of a splayed table.

pub mod column;
pub mod flat;
pub mod log;

use crate::error::KdbError;

/// What a file begins with that holds a flat value or a log.
pub(crate) const FLAT: [u8; 2] = [0xff, 0x01];

/// Names what a file is that is not read here, from its first bytes.
pub(crate) fn refuse(bytes: &[u8]) -> KdbError {
    let unreadable = |what, what_now| KdbError::Unreadable { what, what_now };
    if bytes.starts_with(b"kxzip") {
        return unreadable(
            "a compressed file",
            "write it uncompressed: with .z.zd unset, or -19! with algorithm 0",
        );
    }
    if bytes.starts_with(b"kxenc") {
        return unreadable("an encrypted file", "write it without encryption");
    }
    if bytes.starts_with(&[0xfd, 0x20]) || bytes.starts_with(&[0xfd, 0x00]) {
        return unreadable("a nested column", "write a simple or enumerated column");
    }
    unreadable("a file that kdb+ does not write in this place", "name a kdb+ file")
}
