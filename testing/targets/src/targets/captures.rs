//! Captures of IEX and of CME. The first byte says which, and whether the rest is the capture itself or messages that are packed into
//! one here; of the latter a second, simple reader says how many rows there are.

use super::importers::Folder;
use super::itch::capture_of;
use crate::Target;
use tapedb_venue::{AnyRecord, Format, ImportError, ImportOptions, Merge, OnBadLine, discover};

/// See the module.
pub const TARGET: Target = Target { name: "captures", run, seed };

/// Bytes of a message in a capture that is made here, behind the byte that says how many of them there are.
const MESSAGE_BYTES: usize = 100;

/// Any bytes give rows, or an error that says where. Of messages that are packed here, each that the second reader accepts gives its
/// rows, in order.
pub fn run(input: &[u8]) {
    let [choice, bytes @ ..] = input else { return };
    let format = if choice & 1 == 0 { Format::Iex } else { Format::Mdp3 };
    if choice & 2 != 0 {
        for on_bad_line in [OnBadLine::Stop, OnBadLine::Skip(u64::MAX)] {
            let _ = rows(format, bytes, on_bad_line).map_err(|error| assert!(!error.to_string().is_empty()));
        }
        return;
    }
    let messages: Vec<Vec<u8>> = bytes.chunks(MESSAGE_BYTES + 1).map(message).collect();
    let mut payloads = Vec::new();
    for (number, message) in messages.iter().enumerate() {
        payloads.push(match format {
            Format::Iex => iex_packet(number as u64 + 1, message),
            _ => mdp3_packet(number as u32 + 1, message),
        });
    }
    // So that it is a capture of the format, whatever the messages are.
    payloads.insert(0, if format == Format::Iex { iex_packet(1, &[]) } else { mdp3_packet(0, &[]) });
    let found = rows(format, &capture_of(&payloads), OnBadLine::Skip(u64::MAX)).expect("whole packets");
    let expected: usize = messages
        .iter()
        .map(|message| if format == Format::Iex { iex_rows(message) } else { mdp3_rows(message) })
        .sum();
    assert_eq!(found, expected);
}

fn message(chunk: &[u8]) -> Vec<u8> {
    let (length, rest) = (usize::from(chunk[0]), &chunk[1..]);
    rest[..length.min(rest.len())].to_vec()
}

/// Rows but gaps and notices; a row can be encoded.
fn rows(format: Format, capture: &[u8], on_bad_line: OnBadLine) -> Result<usize, ImportError> {
    let folder = Folder::new();
    let path = folder.path().join("feed.pcap");
    std::fs::write(&path, capture).expect("a temporary file can be written");
    let options = ImportOptions { on_bad_line, ..ImportOptions::default() };
    let mut merge = Merge::new(discover(format, &[&path], &options)?);
    let (mut record, mut rows, mut body) = (AnyRecord::default(), 0, Vec::new());
    while let Some(row) = merge.next(&mut record)? {
        assert!(!row.symbol.is_empty());
        body.clear();
        record.encode(&mut body);
        rows += usize::from(!matches!(record, AnyRecord::Gap(_) | AnyRecord::Notice(_)));
    }
    Ok(rows)
}

fn iex_packet(number: u64, message: &[u8]) -> Vec<u8> {
    let mut bytes = vec![1, 0, 4, 0x80, 1, 0, 0, 0, 7, 0, 0, 0];
    let (length, count) = if message.is_empty() { (0, 0) } else { (message.len() as u16 + 2, 1) };
    bytes.extend([length, count].map(u16::to_le_bytes).concat());
    bytes.extend([0, number, 1_492_000_000_000_000_000].map(u64::to_le_bytes).concat());
    if count > 0 {
        bytes.extend((message.len() as u16).to_le_bytes());
        bytes.extend(message);
    }
    bytes
}

/// Rows of a message of DEEP or TOPS.
fn iex_rows(message: &[u8]) -> usize {
    let lengths: &[(u8, usize, &[usize])] = &[
        (b'S', 10, &[]),
        (b'D', 31, &[22]),
        (b'H', 22, &[]),
        (b'I', 18, &[]),
        (b'O', 18, &[]),
        (b'E', 18, &[]),
        (b'P', 19, &[]),
        (b'Q', 42, &[22, 30]),
        (b'8', 30, &[22]),
        (b'5', 30, &[22]),
        (b'T', 38, &[22]),
        (b'B', 38, &[22]),
        (b'X', 26, &[18]),
        (b'A', 80, &[22, 30, 48, 56, 64, 72]),
    ];
    let Some(&kind) = message.first() else { return 0 };
    let Some((_, length, prices)) = lengths.iter().find(|(known, ..)| *known == kind) else { return 0 };
    if message.len() < *length {
        return 0;
    }
    let number = |at: usize| i64::from_le_bytes(message[at..at + 8].try_into().expect("eight bytes"));
    let is_text = |from: usize, width: usize| {
        let text = message[from..from + width].trim_ascii_end();
        text.iter().all(|byte| (b' '..=b'~').contains(byte))
    };
    let fits = prices.iter().all(|at| number(*at).unsigned_abs() < 10_000_000_000_000_000);
    let texts = (kind == b'S' || is_text(10, 8))
        && (kind != b'H' || is_text(18, 4))
        && (kind != b'A' || is_text(1, 1));
    let ids = !matches!(kind, b'T' | b'B') || number(30) >= 0;
    if !(fits && texts && ids) {
        return 0;
    }
    1 + usize::from(kind == b'A' && number(56) != 0)
}

fn mdp3_packet(number: u32, message: &[u8]) -> Vec<u8> {
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.extend(1_700_000_000_000_000_000u64.to_le_bytes());
    // A message of volumes whose size is right.
    if message.len() >= 10 {
        let mut message = message.to_vec();
        message[0] = message.len() as u8;
        message[1] = 0;
        message[4..8].copy_from_slice(&[37, 0, 1, 0]);
        bytes.extend(message);
    } else {
        bytes.extend(heartbeat());
    }
    bytes
}

fn heartbeat() -> Vec<u8> {
    [10u16, 0, 12, 1, 9].map(u16::to_le_bytes).concat()
}

/// Rows of a message of volumes, up to the first that is wrong.
fn mdp3_rows(message: &[u8]) -> usize {
    if message.len() < 10 {
        return 0;
    }
    let root = usize::from(u16::from_le_bytes([message[2], message[3]]));
    let Some(time) = message.get(10..18).filter(|_| root >= 9) else { return 0 };
    let time = u64::from_le_bytes(time.try_into().expect("eight bytes"));
    let Some(behind) = message.get(10 + root..) else { return 0 };
    if behind.len() < 3 {
        return 0;
    }
    let (length, count) = (usize::from(u16::from_le_bytes([behind[0], behind[1]])), usize::from(behind[2]));
    if behind.len() - 3 < length * count || count > 0 && length < 13 || time != u64::MAX && time >> 63 == 1 {
        return 0;
    }
    let entries = behind[3..3 + length * count].chunks(length.max(1));
    entries.take_while(|entry| entry[4..8] != [0xFF; 4]).count()
}

/// Messages of all types, or of volumes.
fn seed(number: u64) -> Vec<u8> {
    let mut bytes = vec![(number % 2) as u8];
    for at in 0..=number % 3 {
        let mut message = if number.is_multiple_of(2) {
            let kind = b"SDHIOEPQ85TBXA"[(number / 2 + at) as usize % 14];
            let mut message = vec![kind, 1];
            message.resize(10, 7);
            message.extend(b"ZIEXT   ");
            message.resize(80, 0);
            message
        } else {
            let count = (number / 2 % 4) as u8;
            let mut message =
                [10u16 + 11 + 3 + 16 * u16::from(count), 11, 37, 1, 9].map(u16::to_le_bytes).concat();
            message.extend([1; 11]);
            message.extend([16, 0, count]);
            message.resize(message.len() + 16 * usize::from(count), 5);
            message
        };
        bytes.push(message.len() as u8);
        message.resize(MESSAGE_BYTES, 0);
        bytes.extend(message);
    }
    bytes
}
