//! Damaged log files whose bodies hold forged batches: recovery finds every batch that is as it was written, and no other.
//!
//! The input is a script: of which version the file is, what its batches hold, and which bytes are changed afterwards. What must
//! be found is known from the bytes alone: the batches in which none was changed.

use crate::Target;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use tapedb_codec::batch::{self, BatchBuilder, BatchHeader, assign_mark, assign_sequence};
use tapedb_log::sim::SimStorage;
use tapedb_log::{FILE_HEADER_BYTES, Log, LogOptions, LogWriter, scan_bytes};

/// See the module.
pub const TARGET: Target = Target { name: "log_recovery", run, seed };

const STREAM: u64 = 7;
const SPACE: u32 = 1;
const HEADER: usize = FILE_HEADER_BYTES as usize;
const FILE: &str = "/log/00000000000000000000.log";
const BATCHES_MAX: u8 = 6;
const CHANGES_MAX: usize = 4;

/// A batch in the file.
#[derive(Debug)]
struct Written {
    place: Range<usize>,
    sequences: Range<u64>,
}

/// Recovery of the file that the script makes finds what it must.
pub fn run(input: &[u8]) {
    let [version, count, rest @ ..] = input else { return };
    let (count, is_old) = (1 + count % BATCHES_MAX, version % 2 == 0);
    let shapes: Vec<&[u8]> = rest.chunks_exact(3).take(count.into()).collect();
    let (mut content, written) = file_of(&shapes);
    if is_old {
        make_old(&mut content, &written);
    }
    let whole = content.clone();
    // In a file of version 1 marks prove nothing: there it is one bit that may be wrong.
    let changes = rest.get(3 * shapes.len()..).unwrap_or_default().chunks_exact(3);
    for change in changes.take(if is_old { 1 } else { CHANGES_MAX }) {
        let at = HEADER
            + usize::from(u16::from_le_bytes([change[0], change[1]])) % (content.len() - HEADER).max(1);
        let mask = if is_old { 1 << (change[2] % 8) } else { change[2] };
        content.get_mut(at).into_iter().for_each(|byte| *byte ^= mask);
    }
    let expected: Vec<u64> = written
        .iter()
        .filter(|batch| content[batch.place.clone()] == whole[batch.place.clone()])
        .flat_map(|batch| batch.sequences.clone())
        .collect();
    assert_eq!(scanned(&content), expected, "by a scan");
    let end = written.last().map_or(0, |batch| batch.sequences.end);
    let disk = SimStorage::new(1);
    disk.set_content(Path::new(FILE), &content);
    let opened = Log::open(Arc::new(disk.clone()), Path::new("/log"), STREAM, SPACE, 0);
    assert_eq!(read(&opened.expect("it is a log").0), expected, "by a reader");
    let opened = LogWriter::open(Arc::new(disk), Path::new("/log"), LogOptions::new(STREAM, SPACE));
    let (mut writer, _) = opened.expect("it is a log");
    assert!(writer.next_sequence() <= end, "{} after {end}", writer.next_sequence());
    let sequences = writer.append(&mut batch_of(&[1; 9])).expect("room enough");
    assert_eq!(read(writer.log()), [expected, sequences.collect()].concat(), "by a writer");
}

/// A file with a batch of each shape, as a writer makes it.
fn file_of(shapes: &[&[u8]]) -> (Vec<u8>, Vec<Written>) {
    let disk = SimStorage::new(1);
    let opened = LogWriter::open(Arc::new(disk.clone()), Path::new("/log"), LogOptions::new(STREAM, SPACE));
    let (mut writer, _) = opened.expect("an empty directory opens");
    let (mut written, mut at) = (Vec::new(), HEADER);
    let content = || disk.content(Path::new(FILE)).expect("the file is there");
    for shape in shapes {
        let mut batch = batch_of(&body_of(shape, writer.next_sequence(), &content()));
        let sequences = writer.append(&mut batch).expect("room enough");
        written.push(Written { place: at..at + batch.len(), sequences });
        at += batch.len();
    }
    (content(), written)
}

/// A body: plain bytes, a batch with the magic, a copy of what lies in the file, or batches with guessed marks.
fn body_of(shape: &[u8], next_sequence: u64, content: &[u8]) -> Vec<u8> {
    let (kind, sequence, len) = (shape[0], shape[1], shape[2]);
    let first_sequence = match sequence % 4 {
        0 => next_sequence,
        1 => next_sequence + 1,
        2 => 1 << 63,
        _ => u64::from(sequence),
    };
    let forged = |mark: u32| {
        let mut forged = batch_of(&vec![0xee; usize::from(len % 16)]);
        let _ = assign_sequence(&mut forged, first_sequence);
        assign_mark(&mut forged, mark);
        forged
    };
    match kind % 5 {
        0 => vec![len; usize::from(len)],
        1 => forged(batch::MAGIC),
        2 => [forged(batch::MAGIC), vec![0; usize::from(len)]].concat(),
        3 => content[HEADER.min(content.len())..].to_vec(),
        _ => (0..4).flat_map(|guess| forged(u32::from(kind) << 8 | guess | 1)).collect(),
    }
}

fn batch_of(body: &[u8]) -> Vec<u8> {
    let (mut builder, mut out) = (BatchBuilder::new(), Vec::new());
    builder.push_bytes(0, 0, 0, body).expect("a short body");
    builder.finish(1, &mut out);
    out
}

/// Makes a file of version 1 of one of version 2: another header, and the magic before each batch.
fn make_old(content: &mut [u8], written: &[Written]) {
    content[8] = 1;
    content[52..60].fill(0);
    let checksum = crc32c(&content[..60]);
    content[60..64].copy_from_slice(&checksum.to_le_bytes());
    written.iter().for_each(|batch| assign_mark(&mut content[batch.place.clone()], batch::MAGIC));
}

fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

/// Sequence numbers of the batches that a scan finds.
fn scanned(content: &[u8]) -> Vec<u64> {
    let mut found = Vec::new();
    for granule in scan_bytes(content).granules {
        let mut at = granule.offset as usize;
        while at < granule.offset as usize + granule.len as usize {
            let header = BatchHeader::parse_stored(&content[at..]).expect("a granule holds batches");
            found.extend(header.sequences());
            at += header.batch_bytes();
        }
    }
    found
}

/// Sequence numbers of all messages that can be read.
fn read(log: &Log) -> Vec<u64> {
    let (mut found, mut bytes) = (Vec::new(), Vec::new());
    for granule in log.snapshot().iter() {
        log.read(granule, &mut bytes).expect("a granule is in its file");
        let batches = log.batches(&granule.span(), &bytes);
        found.extend(batches.flat_map(|batch| batch.expect("it was found whole").header.sequences()));
    }
    found
}

/// Scripts of both versions with one to four changes.
fn seed(number: u64) -> Vec<u8> {
    let mut random = crate::sample::SplitMix64::new(number);
    let count = 1 + random.below(BATCHES_MAX.into());
    let mut script = vec![number as u8, count as u8 - 1];
    script.extend((0..3 * (count + 1 + random.below(CHANGES_MAX))).map(|_| random.next_u64() as u8));
    script
}
