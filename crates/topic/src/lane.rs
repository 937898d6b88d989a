//! One direction of a pipe: a ring of bytes between one writer and one reader.
//!
//! Always true: bytes before `head` are written, those before `tail` are read; both only grow. Each side keeps its own count
//! to itself, and believes the other's only as far as it can be true: what the other side writes into its counts, its flags
//! or the bytes can break this pipe, and nothing else.
//!
//! The last word that was begun is written again, whole, with each byte that joins it, so eight bytes stay free: no byte that
//! waits to be read shares a word with one that is being written.

use crate::atomics::{AtomicU64, Ordering, fence};
use crate::words::{WORD, Words};
use std::io;

/// Words from one field of a lane to the next: 128 bytes, for processors fetch lines in pairs.
const FIELD: usize = 16;
/// Where a lane's fields are, counted in words from its first.
pub(crate) mod field {
    use super::FIELD;
    /// Bytes that were ever written.
    pub const HEAD: usize = 0;
    /// Bytes that were ever read.
    pub const TAIL: usize = FIELD;
    /// Whether the reader sleeps.
    pub const DATA_WANTED: usize = 2 * FIELD;
    /// Whether the writer sleeps, and how it is woken: a [`Wake`](super::Wake).
    pub const ROOM_WANTED: usize = 3 * FIELD;
    /// Words of all fields.
    pub const COUNT: usize = 4 * FIELD;
}

/// How somebody who sleeps is to be woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wake {
    /// By a byte on the socket.
    Bell,
    /// As somebody who sleeps on the word itself.
    Word,
}

impl Wake {
    /// What says so.
    pub const fn word(self) -> u64 {
        match self {
            Self::Bell => 1,
            Self::Word => 2,
        }
    }

    fn parse(word: u64) -> Option<Self> {
        match word {
            0 => None,
            2 => Some(Self::Word),
            _ => Some(Self::Bell),
        }
    }
}

/// Where a lane lies in the memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    /// Word of its first field.
    pub fields: usize,
    /// Word of its first byte.
    pub data: usize,
    /// Bytes of the ring: a power of two.
    pub bytes: u64,
}

impl Place {
    fn get<'w>(&self, words: &'w Words, field: usize) -> &'w AtomicU64 {
        words.get(self.fields + field)
    }

    /// The word in which a byte lies.
    fn word(&self, at: u64) -> usize {
        self.data + (at & (self.bytes - 1)) as usize / WORD
    }

    /// Whole words from a byte to the end of the ring.
    fn until_wrap(&self, at: u64) -> usize {
        (self.bytes - (at & (self.bytes - 1))) as usize / WORD
    }
}

/// Who writes.
#[derive(Debug)]
pub(crate) struct Writer {
    place: Place,
    head: u64,
    /// The bytes of the word in which `head` lies, before it.
    begun: u64,
}

/// Who reads.
#[derive(Debug)]
pub(crate) struct Reader {
    place: Place,
    tail: u64,
}

impl Writer {
    /// The writer of an empty lane.
    pub fn new(place: Place) -> Self {
        Self { place, head: 0, begun: 0 }
    }

    /// Bytes that may be written now.
    ///
    /// # Errors
    /// When the reader has read what was never written.
    fn room(&self, words: &Words) -> io::Result<u64> {
        let tail = self.place.get(words, field::TAIL).load(Ordering::Acquire);
        let waiting = self.head.wrapping_sub(tail);
        if waiting > self.place.bytes {
            return Err(impossible());
        }
        Ok((self.place.bytes - WORD as u64).saturating_sub(waiting))
    }

    /// Writes what there is room for, behind what was written before; nobody sees it before [`Writer::publish`]. How many
    /// bytes.
    ///
    /// # Errors
    /// When the reader has read what was never written.
    pub fn write(&mut self, words: &Words, bytes: &[u8]) -> io::Result<usize> {
        let count = bytes.len().min(self.room(words)? as usize);
        self.put(words, &bytes[..count]);
        Ok(count)
    }

    /// Shows the reader what was written. Whether the reader is to be woken.
    ///
    /// Release pairs with the acquire of [`Reader::there`]. The fence pairs with that of [`Reader::doze`]: either the reader
    /// sees these bytes before it sleeps, or this sees that it wants to. [SYNC: DOZE]
    pub fn publish(&self, words: &Words) -> bool {
        self.place.get(words, field::HEAD).store(self.head, Ordering::Release);
        fence(Ordering::SeqCst);
        let wanted = self.place.get(words, field::DATA_WANTED);
        wanted.load(Ordering::Relaxed) != 0 && wanted.swap(0, Ordering::AcqRel) != 0
    }

    /// Says that the writer is about to sleep until there is room. Whether it may: there is none.
    ///
    /// # Errors
    /// When the reader has read what was never written.
    pub fn doze(&self, words: &Words, wake: Wake) -> io::Result<bool> {
        let wanted = self.place.get(words, field::ROOM_WANTED);
        wanted.store(wake.word(), Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let may_sleep = self.room(words)? == 0;
        if !may_sleep {
            wanted.store(0, Ordering::Relaxed);
        }
        Ok(may_sleep)
    }

    fn put(&mut self, words: &Words, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let within = (self.head % WORD as u64) as usize;
            let taken = if within == 0 && bytes.len() >= WORD {
                let (whole, _) = bytes.as_chunks::<WORD>();
                let count = whole.len().min(self.place.until_wrap(self.head));
                words.store(self.place.word(self.head), &whole[..count]);
                count * WORD
            } else {
                let count = bytes.len().min(WORD - within);
                for (at, byte) in bytes[..count].iter().enumerate() {
                    self.begun |= u64::from(*byte) << (8 * (within + at));
                }
                words.get(self.place.word(self.head)).store(self.begun, Ordering::Relaxed);
                if within + count == WORD {
                    self.begun = 0;
                }
                count
            };
            self.head += taken as u64;
            bytes = &bytes[taken..];
        }
    }
}

impl Reader {
    /// The reader of an empty lane.
    pub fn new(place: Place) -> Self {
        Self { place, tail: 0 }
    }

    /// Bytes that wait to be read.
    ///
    /// # Errors
    /// When the writer has written more than there is room for.
    pub fn there(&self, words: &Words) -> io::Result<u64> {
        let head = self.place.get(words, field::HEAD).load(Ordering::Acquire);
        let there = head.wrapping_sub(self.tail);
        if there > self.place.bytes { Err(impossible()) } else { Ok(there) }
    }

    /// Reads what there is, up to the end of `room`: how many bytes, and how the writer is to be woken, if it is.
    ///
    /// Release pairs with the acquire of [`Writer::room`]: what was read may be written over. The fence pairs with that of
    /// [`Writer::doze`].
    ///
    /// # Errors
    /// When the writer has written more than there is room for.
    pub fn read(&mut self, words: &Words, room: &mut [u8]) -> io::Result<(usize, Option<Wake>)> {
        let there = self.there(words)?;
        let count = there.min(room.len() as u64);
        if count == 0 {
            return Ok((0, None));
        }
        self.take(words, &mut room[..count as usize]);
        self.place.get(words, field::TAIL).store(self.tail, Ordering::Release);
        // A writer that was woken for each little piece of room would do nothing but sleep and wake.
        if self.place.bytes - (there - count) < self.place.bytes / 4 {
            return Ok((count as usize, None));
        }
        fence(Ordering::SeqCst);
        let wanted = self.place.get(words, field::ROOM_WANTED);
        let wake = match wanted.load(Ordering::Relaxed) {
            0 => None,
            _ => Wake::parse(wanted.swap(0, Ordering::AcqRel)),
        };
        Ok((count as usize, wake))
    }

    /// Says that the reader is about to sleep until something comes. Whether it may: nothing has.
    ///
    /// # Errors
    /// When the writer has written more than there is room for.
    pub fn doze(&self, words: &Words) -> io::Result<bool> {
        let wanted = self.place.get(words, field::DATA_WANTED);
        wanted.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let may_sleep = self.there(words)? == 0;
        if !may_sleep {
            wanted.store(0, Ordering::Relaxed);
        }
        Ok(may_sleep)
    }

    /// Says that the reader is awake, whatever has woken it.
    pub fn awake(&self, words: &Words) {
        self.place.get(words, field::DATA_WANTED).store(0, Ordering::Relaxed);
    }

    fn take(&mut self, words: &Words, mut room: &mut [u8]) {
        while !room.is_empty() {
            let within = (self.tail % WORD as u64) as usize;
            let taken = if within == 0 && room.len() >= WORD {
                let (whole, _) = room.as_chunks_mut::<WORD>();
                let count = whole.len().min(self.place.until_wrap(self.tail));
                words.load(self.place.word(self.tail), &mut whole[..count]);
                count * WORD
            } else {
                let count = room.len().min(WORD - within);
                let word = words.get(self.place.word(self.tail)).load(Ordering::Relaxed).to_le_bytes();
                room[..count].copy_from_slice(&word[within..within + count]);
                count
            };
            self.tail += taken as u64;
            room = &mut room[taken..];
        }
    }
}

fn impossible() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the other side of the shared memory counts what cannot be")
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    #[cfg(not(miri))]
    use proptest::prelude::*;
    use std::thread;

    const BYTES: u64 = 64;

    fn lane() -> (Words, Writer, Reader) {
        let place = Place { fields: 0, data: field::COUNT, bytes: BYTES };
        (Words::owned((field::COUNT * WORD) + BYTES as usize), Writer::new(place), Reader::new(place))
    }

    #[cfg(not(miri))]
    proptest! {
        /// However it is cut up, what goes in comes out.
        #[test]
        fn bytes_come_out_as_they_went_in(steps in prop::collection::vec((0usize..80, 0usize..80), 1..60)) {
            let (words, mut writer, mut reader) = lane();
            let (mut written, mut read) = (0u64, 0u64);
            for (push, pull) in steps {
                let bytes: Vec<u8> = (0..push as u64).map(|at| ((written + at) * 7 % 251) as u8).collect();
                let count = writer.write(&words, &bytes).unwrap();
                prop_assert_eq!(count as u64, (push as u64).min(BYTES - 8 - (written - read)));
                written += count as u64;
                // Nothing is seen before it is shown.
                let before = reader.there(&words).unwrap();
                prop_assert_eq!(before, written - read - count as u64);
                writer.publish(&words);
                let mut room = vec![0; pull];
                let (count, _) = reader.read(&words, &mut room).unwrap();
                prop_assert_eq!(count as u64, (pull as u64).min(written - read));
                for byte in &room[..count] {
                    prop_assert_eq!(*byte, (read * 7 % 251) as u8);
                    read += 1;
                }
            }
        }
    }

    #[test]
    fn one_thread_writes_and_one_reads() {
        let (words, mut writer, mut reader) = lane();
        let total: u64 = if cfg!(miri) { 500 } else { 300_000 };
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut next = 0;
                while next < total {
                    let wanted = (next * 31 % 45 + 1).min(total - next);
                    let bytes: Vec<u8> = (next..next + wanted).map(|number| (number % 253) as u8).collect();
                    let count = writer.write(&words, &bytes).unwrap();
                    writer.publish(&words);
                    next += count as u64;
                    if count == 0 {
                        thread::yield_now();
                    }
                }
            });
            let (mut next, mut room) = (0, [0; 29]);
            while next < total {
                let (count, _) = reader.read(&words, &mut room).unwrap();
                for byte in &room[..count] {
                    assert_eq!(*byte, (next % 253) as u8, "at {next}");
                    next += 1;
                }
                if count == 0 {
                    thread::yield_now();
                }
            }
        });
    }

    #[test]
    fn who_sleeps_is_woken_once() {
        let (words, mut writer, mut reader) = lane();
        assert!(reader.doze(&words).unwrap());
        writer.write(&words, b"a").unwrap();
        assert!(writer.publish(&words));
        writer.write(&words, b"b").unwrap();
        assert!(!writer.publish(&words), "it has been woken");
        assert!(!reader.doze(&words).unwrap(), "something is there");
        assert!(!writer.publish(&words), "it did not sleep");
        assert_eq!(writer.write(&words, &[7; 100]).unwrap() as u64, BYTES - 8 - 2);
        writer.publish(&words);
        assert!(writer.doze(&words, Wake::Word).unwrap());
        let mut room = [0; 100];
        assert_eq!(reader.read(&words, &mut room[..2]).unwrap(), (2, None), "too little to be woken for");
        assert_eq!(reader.read(&words, &mut room).unwrap(), (BYTES as usize - 10, Some(Wake::Word)));
        assert_eq!(writer.write(&words, b"c").unwrap(), 1);
        assert!(!writer.doze(&words, Wake::Bell).unwrap());
    }

    #[test]
    fn counts_that_cannot_be_are_told() {
        for count in [BYTES + 1, 1 << 32, 1 << 63] {
            let (words, mut writer, mut reader) = lane();
            words.get(field::HEAD).store(count, Ordering::Relaxed);
            words.get(field::TAIL).store(count, Ordering::Relaxed);
            assert_eq!(reader.read(&words, &mut [0; 8]).unwrap_err().kind(), io::ErrorKind::InvalidData);
            assert_eq!(reader.doze(&words).unwrap_err().kind(), io::ErrorKind::InvalidData);
            let refused = writer.write(&words, b"x").and_then(|_| writer.doze(&words, Wake::Bell));
            assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::sync::mpsc::{Receiver, Sender, channel};
    use loom::sync::{Arc, Mutex};
    use loom::thread;

    /// Two words: one is always free, so one is always full.
    const BYTES: u64 = 16;

    fn lane() -> (Arc<Words>, Writer, Reader) {
        let place = Place { fields: 0, data: field::COUNT, bytes: BYTES };
        let used = |index: usize| index >= field::COUNT || index.is_multiple_of(FIELD);
        let words = Words::sparse(field::COUNT + BYTES as usize / WORD, used);
        (Arc::new(words), Writer::new(place), Reader::new(place))
    }

    /// Writes all, asleep while there is no room: a wake that got lost is a deadlock, which loom finds.
    fn write(words: &Words, writer: &mut Writer, mut bytes: &[u8], bell: &Sender<()>, bed: &Receiver<()>) {
        while !bytes.is_empty() {
            let count = writer.write(words, bytes).unwrap();
            bytes = &bytes[count..];
            if count > 0 {
                if writer.publish(words) {
                    bell.send(()).unwrap();
                }
            } else if writer.doze(words, Wake::Word).unwrap() {
                bed.recv().unwrap();
            }
        }
    }

    fn read(
        words: &Words,
        reader: &mut Reader,
        count: usize,
        bell: &Receiver<()>,
        bed: &Sender<()>,
    ) -> Vec<u8> {
        let (mut all, mut room) = (Vec::new(), [0; 5]);
        while all.len() < count {
            let (count, wake) = reader.read(words, &mut room).unwrap();
            all.extend_from_slice(&room[..count]);
            if wake.is_some() {
                bed.send(()).unwrap();
            }
            if count == 0 && reader.doze(words).unwrap() {
                bell.recv().unwrap();
            }
        }
        all
    }

    fn model(interruptions: usize, text: &'static [u8], pieces: usize) {
        let mut builder = loom::model::Builder::new();
        builder.max_branches = 10_000;
        builder.preemption_bound = builder.preemption_bound.or(Some(interruptions));
        builder.check(move || {
            let (words, mut writer, mut reader) = lane();
            let ((bell, rings), (bed, wakes)) = (channel(), channel());
            let theirs = words.clone();
            // loom's receivers are not `Send`: whoever waits makes none of its own.
            let wakes = Arc::new(Mutex::new(wakes));
            let thread = thread::spawn(move || {
                let wakes = wakes.lock().unwrap();
                for piece in text.chunks(pieces) {
                    write(&theirs, &mut writer, piece, &bell, &wakes);
                }
            });
            assert_eq!(read(&words, &mut reader, text.len(), &rings, &bed), text);
            thread.join().unwrap();
        });
    }

    #[test]
    fn a_reader_that_sleeps_is_woken() {
        model(3, b"abcdef", 3);
    }

    #[test]
    fn a_writer_that_waits_for_room_is_woken() {
        model(2, b"abcdefghijklmnop", 16);
    }
}
