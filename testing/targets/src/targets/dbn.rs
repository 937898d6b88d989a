//! Files of Databento's binary encoding. The input is the file.

use super::importers::{Folder, read};
use crate::Target;
use tapedb_venue::{Format, ImportOptions, OnBadLine};

/// See the module.
pub const TARGET: Target = Target { name: "dbn", run, seed };

/// Any bytes give rows that can be encoded, or an error that says where.
pub fn run(input: &[u8]) {
    let folder = Folder::new();
    let path = folder.path().join("input.dbn");
    std::fs::write(&path, input).expect("a temporary file can be written");
    for on_bad_line in [OnBadLine::Stop, OnBadLine::Skip(u64::MAX)] {
        let options = ImportOptions { on_bad_line, ..ImportOptions::default() };
        if let Err(error) = read(Format::Dbn, &path, &options) {
            assert!(!error.to_string().is_empty());
        }
    }
}

/// Type and length of records of each kind and version.
const RECORDS: [(u8, usize); 20] = [
    (0xA0, 56),
    (0x00, 48),
    (0x01, 80),
    (0x0A, 368),
    (0xB1, 80),
    (0xC0, 80),
    (0xC3, 80),
    (0x20, 56),
    (0x24, 56),
    (0x12, 40),
    (0x13, 360),
    (0x13, 400),
    (0x13, 520),
    (0x14, 112),
    (0x15, 320),
    (0x16, 80),
    (0x16, 176),
    (0x17, 320),
    (0x18, 64),
    (0x18, 80),
];

/// Up to four records, every third time behind metadata with a mapping.
fn seed(number: u64) -> Vec<u8> {
    let mut bytes = if number.is_multiple_of(3) { metadata(1 + (number / 3 % 3) as u8) } else { Vec::new() };
    for i in 0..=number % 4 {
        let (kind, length) = RECORDS[(number / 4 + i) as usize % RECORDS.len()];
        let sent = (number / 16 + i).is_multiple_of(2);
        let length = length + if sent { 8 } else { 0 };
        let from = bytes.len();
        // Letters are sides, actions and texts; the highest byte of times and prices stays low.
        bytes.extend((0..length).map(|at| if at % 8 == 7 { 0 } else { b"ABCNY~\0M"[at % 8] }));
        bytes[from..from + 8].copy_from_slice(&[(length / 4) as u8, kind, 1, 0, 7, 0, 0, 0]);
    }
    bytes
}

fn metadata(version: u8) -> Vec<u8> {
    let width = if version == 1 { 22 } else { 71 };
    let symbol = |text: &str| [text.as_bytes(), &vec![0; width - text.len()]].concat();
    let mut body = b"GLBX.MDP3".to_vec();
    body.resize(100, 0);
    if version > 1 {
        body[42] = 1;
        body[45..47].copy_from_slice(&(width as u16).to_le_bytes());
    } else {
        body[50] = 1;
    }
    body.extend([0; 16]);
    body.extend(1u32.to_le_bytes());
    body.extend(symbol("ESH4"));
    body.extend([1u32, 20_231_225, 20_231_226].map(u32::to_le_bytes).concat());
    body.extend(symbol("7"));
    let mut bytes = vec![b'D', b'B', b'N', version];
    bytes.extend((body.len() as u32).to_le_bytes());
    bytes.extend(body);
    bytes
}
