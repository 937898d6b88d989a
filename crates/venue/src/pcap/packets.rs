//! Packets of a file, with the time at which each was captured.

use crate::container::Opened;
use pcap_parser::traits::{PcapNGPacketBlock, PcapReaderIterator};
use pcap_parser::{Block, LegacyPcapReader, Linktype, PcapBlockOwned, PcapError, PcapNGReader};
use std::io::{self, Cursor, Read};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use tapedb_schema::Timestamp;

/// Bytes read at once.
const BUFFER_BYTES: usize = 256 << 10;
/// Most bytes of a packet or block with its options.
const BLOCK_BYTES_MAX: usize = 16 << 20;
/// Most interfaces of a section.
const INTERFACES_MAX: usize = 4_096;
/// Begins of files: pcapng, and pcap in both byte orders with microseconds and nanoseconds.
const NEXT_GENERATION: [u8; 4] = [0x0A, 0x0D, 0x0D, 0x0A];
const LEGACY: [[u8; 4]; 4] =
    [[0xD4, 0xC3, 0xB2, 0xA1], [0xA1, 0xB2, 0xC3, 0xD4], [0x4D, 0x3C, 0xB2, 0xA1], [0xA1, 0xB2, 0x3C, 0x4D]];

/// Whether a file with these first bytes is a capture.
pub(super) fn is_capture(first: &[u8]) -> bool {
    first.first_chunk().is_some_and(|first| *first == NEXT_GENERATION || LEGACY.contains(first))
}

/// A packet, borrowed until the next.
pub(super) struct Captured<'a> {
    pub(super) time: Timestamp,
    pub(super) link: Linktype,
    pub(super) data: &'a [u8],
}

/// The packets of a file.
pub(super) struct Packets {
    reader: Box<dyn PcapReaderIterator + Send>,
    capacity: usize,
    /// Bytes of the block that was returned last.
    passed: usize,
    is_next_generation: bool,
    is_big_endian: bool,
    /// The packet that the file ends in was returned.
    is_cut: bool,
    /// Units of time per second and link of the file, or of each interface of the section.
    interfaces: Vec<Interface>,
    pub(super) bytes_read: Arc<AtomicU64>,
    /// Why reading failed: the parser's errors do not say.
    failure: Failure,
}

#[derive(Debug, Clone, Copy)]
struct Interface {
    units_per_second: u64,
    offset_seconds: i64,
    link: Linktype,
}

type Failure = Arc<Mutex<Option<io::Error>>>;

impl Packets {
    /// # Errors
    /// Those of reading; `InvalidData` if it is no capture.
    pub(super) fn new(opened: Opened) -> io::Result<Self> {
        let Opened { mut reader, bytes_read } = opened;
        let mut first = Vec::new();
        reader.by_ref().take(BUFFER_BYTES as u64).read_to_end(&mut first)?;
        let is_next_generation = first.starts_with(&NEXT_GENERATION);
        let is_big_endian = first.first() == Some(&0xA1);
        let failure = Failure::default();
        let rest = Noted { reader, failure: failure.clone() };
        // All of `first` is read at once: it has the whole header.
        let bytes = Cursor::new(first).chain(rest);
        let reader: Result<Box<dyn PcapReaderIterator + Send>, _> = if is_next_generation {
            PcapNGReader::new(BUFFER_BYTES, bytes).map(|reader| Box::new(reader) as _)
        } else {
            LegacyPcapReader::new(BUFFER_BYTES, bytes).map(|reader| Box::new(reader) as _)
        };
        let reader = reader.map_err(|error| unreadable(&error, &failure))?;
        Ok(Self {
            reader,
            capacity: BUFFER_BYTES,
            passed: 0,
            is_next_generation,
            is_big_endian,
            is_cut: false,
            interfaces: Vec::new(),
            bytes_read,
            failure,
        })
    }

    /// Bytes before the block that was returned last.
    pub(super) fn offset(&self) -> u64 {
        self.reader.consumed() as u64
    }

    /// Calls `take` with the next packet; `None` at the end. Of a packet that the file ends in, what is there comes before the error.
    ///
    /// # Errors
    /// Those of reading; `InvalidData` for bytes that are no packets, `UnexpectedEof` for a file that is cut.
    pub(super) fn next<T>(&mut self, take: impl FnOnce(Captured<'_>) -> T) -> io::Result<Option<T>> {
        let mut take = Some(take);
        loop {
            self.reader.consume(std::mem::take(&mut self.passed));
            let wanted = match self.reader.next() {
                Ok((length, block)) => {
                    self.passed = length;
                    if let Some(packet) = captured(&block, &mut self.interfaces)? {
                        let take = take.take().expect("one packet is taken");
                        return Ok(Some(take(packet)));
                    }
                    continue;
                }
                Err(PcapError::Eof) => return self.end(),
                Err(PcapError::Incomplete(_)) => self.capacity,
                Err(PcapError::BufferTooSmall) => self.capacity * 2,
                Err(error) => {
                    let error = unreadable(&error, &self.failure);
                    if error.kind() == io::ErrorKind::UnexpectedEof
                        && !std::mem::replace(&mut self.is_cut, true)
                        && let Some(packet) = self.last_packet()
                    {
                        let take = take.take().expect("one packet is taken");
                        return Ok(Some(take(packet)));
                    }
                    return Err(error);
                }
            };
            if wanted > BLOCK_BYTES_MAX {
                return Err(invalid(format!("a block has more than {BLOCK_BYTES_MAX} bytes")));
            }
            if wanted > self.capacity {
                self.reader.grow(wanted);
                self.capacity = wanted;
            }
            self.reader.refill().map_err(|error| unreadable(&error, &self.failure))?;
        }
    }

    /// The packet that a pcap file ends in; `None`: it ends before the packet's data.
    fn last_packet(&self) -> Option<Captured<'_>> {
        let bytes = self.reader.data();
        let u32_at = |at: usize| {
            let word = *bytes.get(at..)?.first_chunk()?;
            Some(if self.is_big_endian { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) })
        };
        let [interface] = &self.interfaces[..] else { return None };
        if self.is_next_generation {
            return None;
        }
        let units = u64::from(u32_at(0)?) * interface.units_per_second + u64::from(u32_at(4)?);
        let data = bytes.get(16..).filter(|data| !data.is_empty())?;
        Some(Captured { time: time(units, interface)?, link: interface.link, data })
    }

    fn end<T>(&self) -> io::Result<Option<T>> {
        match self.failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(error) => Err(error),
            None => Ok(None),
        }
    }
}

/// The packet of a block; takes note of what describes packets.
fn captured<'a>(
    block: &'a PcapBlockOwned<'_>,
    interfaces: &mut Vec<Interface>,
) -> io::Result<Option<Captured<'a>>> {
    let (interface, units, data) = match block {
        PcapBlockOwned::LegacyHeader(header) => {
            let units_per_second = if header.is_nanosecond_precision() { 1_000_000_000 } else { 1_000_000 };
            *interfaces = vec![Interface { units_per_second, offset_seconds: 0, link: header.network }];
            return Ok(None);
        }
        PcapBlockOwned::NG(Block::SectionHeader(_)) => {
            interfaces.clear();
            return Ok(None);
        }
        PcapBlockOwned::NG(Block::InterfaceDescription(block)) => {
            let units = block.ts_resolution().filter(|units| *units > 0);
            let units_per_second = units.ok_or_else(|| invalid("an interface's unit of time".into()))?;
            if interfaces.len() == INTERFACES_MAX {
                return Err(invalid(format!("more than {INTERFACES_MAX} interfaces")));
            }
            let offset_seconds = block.ts_offset();
            interfaces.push(Interface { units_per_second, offset_seconds, link: block.linktype });
            return Ok(None);
        }
        PcapBlockOwned::Legacy(packet) => {
            let interface = interfaces.first().ok_or_else(|| invalid("a packet without a header".into()))?;
            let units = u64::from(packet.ts_sec) * interface.units_per_second + u64::from(packet.ts_usec);
            (interface, units, packet.data)
        }
        PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
            let interface = interfaces.get(packet.if_id as usize);
            let interface = interface.ok_or_else(|| invalid("a packet of an unknown interface".into()))?;
            (interface, u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low), packet.packet_data())
        }
        // Packets without a time, statistics, names.
        PcapBlockOwned::NG(_) => return Ok(None),
    };
    let time = time(units, interface).ok_or_else(|| invalid("a packet's time after the year 2262".into()))?;
    Ok(Some(Captured { time, link: interface.link, data }))
}

fn time(units: u64, interface: &Interface) -> Option<Timestamp> {
    let per_second = i128::from(interface.units_per_second);
    let nanos =
        i128::from(units) * 1_000_000_000 / per_second + i128::from(interface.offset_seconds) * 1_000_000_000;
    i64::try_from(nanos).ok().map(Timestamp)
}

/// The system's reason if there is one, else the parser's.
fn unreadable<I: std::fmt::Debug>(error: &PcapError<I>, failure: &Failure) -> io::Error {
    if let Some(error) = failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
        return error;
    }
    match error {
        PcapError::UnexpectedEof | PcapError::Eof | PcapError::Incomplete(_) => {
            io::ErrorKind::UnexpectedEof.into()
        }
        PcapError::HeaderNotRecognized => invalid("no capture of pcap or pcapng".into()),
        _ => invalid("no packet where one was expected".into()),
    }
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Keeps the error that the parser forgets, and begins again where a signal came between.
struct Noted<R> {
    reader: R,
    failure: Failure,
}

impl<R: Read> Read for Noted<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.reader.read(out) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let kind = error.kind();
                    *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    return Err(kind.into());
                }
                read => return read,
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A capture of Ethernet frames, each with its seconds and nanoseconds.
    pub(crate) fn capture(frames: &[(u32, u32, Vec<u8>)]) -> Vec<u8> {
        let mut bytes = LEGACY[2].to_vec();
        bytes.extend([2u16, 4].map(u16::to_le_bytes).concat());
        bytes.extend([0u32, 0, 65_535, 1].map(u32::to_le_bytes).concat());
        for (seconds, nanos, frame) in frames {
            let length = frame.len() as u32;
            bytes.extend([*seconds, *nanos, length, length].map(u32::to_le_bytes).concat());
            bytes.extend(frame);
        }
        bytes
    }

    fn opened(bytes: Vec<u8>) -> Opened {
        Opened { reader: Box::new(Cursor::new(bytes)), bytes_read: Arc::default() }
    }

    fn read(bytes: Vec<u8>) -> io::Result<Vec<(i64, Vec<u8>)>> {
        let mut packets = Packets::new(opened(bytes))?;
        let mut found = Vec::new();
        while let Some(packet) = packets.next(|packet| (packet.time.nanos(), packet.data.to_vec()))? {
            found.push(packet);
        }
        Ok(found)
    }

    /// A block of pcapng: its type, its body, which is padded.
    fn block(kind: u32, body: &[u8]) -> Vec<u8> {
        let padded = body.len().next_multiple_of(4);
        let length = (padded as u32 + 12).to_le_bytes();
        let mut bytes = [&kind.to_le_bytes()[..], &length, body].concat();
        bytes.resize(8 + padded, 0);
        bytes.extend(length);
        bytes
    }

    #[test]
    fn packets_of_both_kinds_of_captures_keep_their_times() {
        let frames = [(7, 1, b"one".to_vec()), (8, 999_999_999, Vec::new())];
        let expected = vec![(7_000_000_001, b"one".to_vec()), (8_999_999_999, Vec::new())];
        assert_eq!(read(capture(&frames)).unwrap(), expected);

        let mut bytes =
            block(0x0A0D_0D0A, &[0x4D, 0x3C, 0x2B, 0x1A, 1, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255]);
        // Ethernet; the time's resolution is 10^-9.
        bytes.extend(block(1, &[1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0]));
        let units = 7_000_000_001u64;
        let mut body = [0, (units >> 32) as u32, units as u32, 3, 3].map(u32::to_le_bytes).concat();
        body.extend(b"one");
        bytes.extend(block(6, &body));
        assert_eq!(read(bytes.clone()).unwrap(), expected[..1]);
        // A packet of an interface that is not described.
        body[0] = 1;
        bytes.extend(block(6, &body));
        assert_eq!(read(bytes).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn cut_and_other_files_are_errors() {
        let bytes = capture(&[(7, 1, vec![1; 100]), (8, 1, vec![2; 100])]);
        for length in 0..bytes.len() {
            let whole = [24, 140].contains(&length);
            let result = read(bytes[..length].to_vec());
            assert_eq!(result.is_ok(), whole, "{length}");
        }
        let mut packets = Packets::new(opened(bytes[..200].to_vec())).unwrap();
        let mut sizes = Vec::new();
        let error = loop {
            match packets.next(|packet| packet.data.len()) {
                Ok(size) => sizes.push(size.unwrap()),
                Err(error) => break error,
            }
        };
        assert_eq!((sizes, error.kind()), (vec![100, 44], io::ErrorKind::UnexpectedEof));
        assert!(is_capture(&bytes) && !is_capture(b"DBN"));
        assert!(read(b"no capture of any kind, but longer than a header".to_vec()).is_err());
    }
}
