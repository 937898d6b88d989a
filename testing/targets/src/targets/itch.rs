//! Files of ITCH. The first byte says which: a file of messages, or a capture, whose packets are made here of the rest, or the capture itself.

use super::importers::{Folder, read};
use crate::Target;
use tapedb_venue::{Format, ImportOptions, OnBadLine};

/// See the module.
pub const TARGET: Target = Target { name: "itch", run, seed };

/// Bytes of a packet's payload in a capture that is made here.
const PAYLOAD_BYTES: usize = 200;

/// Any bytes give rows that can be encoded, or an error that says where.
pub fn run(input: &[u8]) {
    let [choice, bytes @ ..] = input else { return };
    let (name, bytes) = match choice % 3 {
        0 => ("01302019.NASDAQ_ITCH50", bytes.to_vec()),
        1 => ("itch.pcap", capture(bytes)),
        _ => ("itch.pcapng", bytes.to_vec()),
    };
    let folder = Folder::new();
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).expect("a temporary file can be written");
    for on_bad_line in [OnBadLine::Stop, OnBadLine::Skip(u64::MAX)] {
        let options = ImportOptions { on_bad_line, ..ImportOptions::default() };
        if let Err(error) = read(Format::Itch, &path, &options) {
            assert!(!error.to_string().is_empty());
        }
    }
}

/// Lengths of messages by their types.
const MESSAGES: [(u8, usize); 22] = [
    (b'S', 12),
    (b'R', 39),
    (b'H', 25),
    (b'Y', 20),
    (b'L', 26),
    (b'V', 35),
    (b'W', 12),
    (b'K', 28),
    (b'J', 35),
    (b'h', 21),
    (b'A', 36),
    (b'F', 40),
    (b'E', 31),
    (b'C', 36),
    (b'X', 23),
    (b'D', 19),
    (b'U', 35),
    (b'P', 44),
    (b'Q', 40),
    (b'B', 19),
    (b'I', 50),
    (b'N', 20),
];

/// Up to four messages; as they are, or in packets, of which some come twice.
fn seed(number: u64) -> Vec<u8> {
    let messages = (0..=number % 4).map(|i| message((number / 4 + i) as usize % MESSAGES.len()));
    let messages: Vec<_> = messages.collect();
    let mut bytes = vec![(number % 2) as u8];
    if number.is_multiple_of(2) {
        bytes.extend(messages.concat());
        return bytes;
    }
    for (at, message) in messages.iter().enumerate() {
        let mut payload = b"0000100001".to_vec();
        payload.extend((at as u64 / 2 + 1).to_be_bytes());
        payload.extend(1u16.to_be_bytes());
        payload.extend(message);
        payload.resize(PAYLOAD_BYTES, 0);
        bytes.extend(payload);
    }
    bytes
}

/// A message behind its length.
fn message(index: usize) -> Vec<u8> {
    let (kind, length) = MESSAGES[index];
    let mut bytes = (length as u16).to_be_bytes().to_vec();
    bytes.extend([kind, 0, 7, 0, 0, 0x1F, 0x1A, 0xCF, 0x4C, 0x4E, 0xB7]);
    bytes.resize(2 + length, b'B');
    bytes
}

/// A capture whose packets have these payloads, each as long as its messages.
fn capture(payloads: &[u8]) -> Vec<u8> {
    let payloads = payloads.chunks(PAYLOAD_BYTES).map(|payload| {
        let stated = payload.get(20..22).map_or(0, |length| u16::from_be_bytes([length[0], length[1]]));
        payload[..payload.len().min(22 + usize::from(stated))].to_vec()
    });
    capture_of(&payloads.collect::<Vec<_>>())
}

/// A capture whose packets have these payloads.
pub(super) fn capture_of(payloads: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = vec![0x4D, 0x3C, 0xB2, 0xA1, 2, 0, 4, 0];
    bytes.extend([0u32, 0, 65_535, 1].map(u32::to_le_bytes).concat());
    for payload in payloads {
        let mut frame = vec![0; 12];
        frame.extend([0x08, 0x00, 0x45, 0]);
        frame.extend((28 + payload.len() as u16).to_be_bytes());
        frame.extend([0, 1, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 233, 0, 0, 1, 0x30, 0x39, 0x30, 0x39]);
        frame.extend((8 + payload.len() as u16).to_be_bytes());
        frame.extend([0, 0]);
        frame.extend(payload);
        let length = frame.len() as u32;
        bytes.extend([1_692_711_000, 7, length, length].map(u32::to_le_bytes).concat());
        bytes.extend(frame);
    }
    bytes
}
