//! One direction of a pipe: a ring of bytes between one writer and one reader.
//!
//! Always true: bytes before `head` are written, those before `tail` are read; both only grow. Each side has a private copy of
//! its own count and checks the other's: what the other side writes into its counts, its flags or the bytes can break this
//! pipe, and nothing else.
//!
//! The last word is written again, whole, with each byte that is added to it, so eight bytes stay free: no byte that waits to
//! be read shares a word with one that is being written.

use crate::atomics::{AtomicU64, Ordering, fence};
use crate::words::{WORD, Words};
use std::io;

/// Words from one field to the next: 128 bytes, because processors fetch lines in pairs.
const FIELD: usize = 16;
/// Where the fields are, counted in words from the first.
pub(crate) mod field {
    use super::FIELD;
    /// Bytes that were ever written.
    pub const HEAD: usize = 0;
    /// Bytes that were ever read.
    pub const TAIL: usize = FIELD;
    /// Whether the reader sleeps.
    pub const DATA_WANTED: usize = 2 * FIELD;
    /// Whether the writer sleeps, and how it is woken: a [`Wake`](super::Wake).
    pub const SPACE_WANTED: usize = 3 * FIELD;
    /// Words of all fields.
    pub const COUNT: usize = 4 * FIELD;
}

/// How a sleeping side is woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wake {
    /// By a byte on the socket.
    Socket,
    /// It sleeps on the word itself.
    Word,
}

impl Wake {
    /// Its value in the field.
    pub const fn word(self) -> u64 {
        match self {
            Self::Socket => 1,
            Self::Word => 2,
        }
    }

    fn parse(word: u64) -> Option<Self> {
        match word {
            0 => None,
            2 => Some(Self::Word),
            _ => Some(Self::Socket),
        }
    }
}

/// Where a ring lies in the memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    /// Word of its first field.
    pub fields: usize,
    /// Word of its first byte.
    pub data: usize,
    /// Bytes of the ring: a power of two.
    pub bytes: u64,
}

impl Layout {
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

/// The writing side.
#[derive(Debug)]
pub(crate) struct Writer {
    layout: Layout,
    head: u64,
    /// The bytes of the word in which `head` lies, before it.
    partial: u64,
}

/// The reading side.
#[derive(Debug)]
pub(crate) struct Reader {
    layout: Layout,
    tail: u64,
}

impl Writer {
    /// The writer of an empty ring.
    pub fn new(layout: Layout) -> Self {
        Self { layout, head: 0, partial: 0 }
    }

    /// Bytes that may be written now.
    ///
    /// # Errors
    /// When the reader's count is greater than the writer's, or too small.
    fn free(&self, words: &Words) -> io::Result<u64> {
        let tail = self.layout.get(words, field::TAIL).load(Ordering::Acquire);
        let waiting = self.head.wrapping_sub(tail);
        if waiting > self.layout.bytes {
            return Err(impossible_count());
        }
        Ok((self.layout.bytes - WORD as u64).saturating_sub(waiting))
    }

    /// Writes as many of the bytes as fit; the reader does not see them before [`Writer::publish`]. How many were written.
    ///
    /// # Errors
    /// When the reader's count is greater than the writer's, or too small.
    pub fn write(&mut self, words: &Words, bytes: &[u8]) -> io::Result<usize> {
        let count = bytes.len().min(self.free(words)? as usize);
        self.put(words, &bytes[..count]);
        Ok(count)
    }

    /// Makes what was written visible to the reader. Whether the reader must be woken.
    ///
    /// Release pairs with the acquire of [`Reader::available`]. The fence pairs with that of [`Reader::prepare_sleep`]: either
    /// the reader sees these bytes before it sleeps, or this sees that it wants to. [SYNC: SLEEP]
    pub fn publish(&self, words: &Words) -> bool {
        self.layout.get(words, field::HEAD).store(self.head, Ordering::Release);
        fence(Ordering::SeqCst);
        let wanted = self.layout.get(words, field::DATA_WANTED);
        wanted.load(Ordering::Relaxed) != 0 && wanted.swap(0, Ordering::AcqRel) != 0
    }

    /// States that the writer is about to sleep until there is free space. Whether it may: there is none.
    ///
    /// # Errors
    /// When the reader's count is greater than the writer's, or too small.
    pub fn prepare_sleep(&self, words: &Words, wake: Wake) -> io::Result<bool> {
        let wanted = self.layout.get(words, field::SPACE_WANTED);
        wanted.store(wake.word(), Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let may_sleep = self.free(words)? == 0;
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
                let count = whole.len().min(self.layout.until_wrap(self.head));
                words.store(self.layout.word(self.head), &whole[..count]);
                count * WORD
            } else {
                let count = bytes.len().min(WORD - within);
                for (at, byte) in bytes[..count].iter().enumerate() {
                    self.partial |= u64::from(*byte) << (8 * (within + at));
                }
                words.get(self.layout.word(self.head)).store(self.partial, Ordering::Relaxed);
                if within + count == WORD {
                    self.partial = 0;
                }
                count
            };
            self.head += taken as u64;
            bytes = &bytes[taken..];
        }
    }
}

impl Reader {
    /// The reader of an empty ring.
    pub fn new(layout: Layout) -> Self {
        Self { layout, tail: 0 }
    }

    /// Bytes that wait to be read.
    ///
    /// # Errors
    /// When the writer's count is more than a ring ahead.
    pub fn available(&self, words: &Words) -> io::Result<u64> {
        let head = self.layout.get(words, field::HEAD).load(Ordering::Acquire);
        let available = head.wrapping_sub(self.tail);
        if available > self.layout.bytes { Err(impossible_count()) } else { Ok(available) }
    }

    /// Reads what there is, up to the length of `buffer`: how many bytes, and how the writer must be woken, if it must.
    ///
    /// Release pairs with the acquire of [`Writer::free`]: what was read may be overwritten. The fence pairs with that of
    /// [`Writer::prepare_sleep`]. [SYNC: SLEEP]
    ///
    /// # Errors
    /// When the writer's count is more than a ring ahead.
    pub fn read(&mut self, words: &Words, buffer: &mut [u8]) -> io::Result<(usize, Option<Wake>)> {
        let available = self.available(words)?;
        let count = available.min(buffer.len() as u64);
        if count == 0 {
            return Ok((0, None));
        }
        self.take(words, &mut buffer[..count as usize]);
        self.layout.get(words, field::TAIL).store(self.tail, Ordering::Release);
        // A writer that is woken for every few free bytes does nothing but sleep and wake.
        if self.layout.bytes - (available - count) < self.layout.bytes / 4 {
            return Ok((count as usize, None));
        }
        fence(Ordering::SeqCst);
        let wanted = self.layout.get(words, field::SPACE_WANTED);
        let wake = match wanted.load(Ordering::Relaxed) {
            0 => None,
            _ => Wake::parse(wanted.swap(0, Ordering::AcqRel)),
        };
        Ok((count as usize, wake))
    }

    /// States that the reader is about to sleep until bytes arrive. Whether it may: there are none.
    ///
    /// # Errors
    /// When the writer's count is more than a ring ahead.
    pub fn prepare_sleep(&self, words: &Words) -> io::Result<bool> {
        let wanted = self.layout.get(words, field::DATA_WANTED);
        wanted.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let may_sleep = self.available(words)? == 0;
        if !may_sleep {
            wanted.store(0, Ordering::Relaxed);
        }
        Ok(may_sleep)
    }

    /// States that the reader is awake.
    pub fn end_sleep(&self, words: &Words) {
        self.layout.get(words, field::DATA_WANTED).store(0, Ordering::Relaxed);
    }

    fn take(&mut self, words: &Words, mut buffer: &mut [u8]) {
        while !buffer.is_empty() {
            let within = (self.tail % WORD as u64) as usize;
            let taken = if within == 0 && buffer.len() >= WORD {
                let (whole, _) = buffer.as_chunks_mut::<WORD>();
                let count = whole.len().min(self.layout.until_wrap(self.tail));
                words.load(self.layout.word(self.tail), &mut whole[..count]);
                count * WORD
            } else {
                let count = buffer.len().min(WORD - within);
                let word = words.get(self.layout.word(self.tail)).load(Ordering::Relaxed).to_le_bytes();
                buffer[..count].copy_from_slice(&word[within..within + count]);
                count
            };
            self.tail += taken as u64;
            buffer = &mut buffer[taken..];
        }
    }
}

fn impossible_count() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "the other side of the shared memory has written an impossible count",
    )
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    #[cfg(not(miri))]
    use proptest::prelude::*;
    use std::thread;

    const BYTES: u64 = 64;

    fn ring() -> (Words, Writer, Reader) {
        let layout = Layout { fields: 0, data: field::COUNT, bytes: BYTES };
        (Words::owned((field::COUNT * WORD) + BYTES as usize), Writer::new(layout), Reader::new(layout))
    }

    #[cfg(not(miri))]
    proptest! {
        /// The same bytes come out, whatever the sizes of writes and reads.
        #[test]
        fn bytes_come_out_as_they_went_in(steps in prop::collection::vec((0usize..80, 0usize..80), 1..60)) {
            let (words, mut writer, mut reader) = ring();
            let (mut written, mut read) = (0u64, 0u64);
            for (push, pull) in steps {
                let bytes: Vec<u8> = (0..push as u64).map(|at| ((written + at) * 7 % 251) as u8).collect();
                let count = writer.write(&words, &bytes).unwrap();
                prop_assert_eq!(count as u64, (push as u64).min(BYTES - 8 - (written - read)));
                written += count as u64;
                // Nothing is visible before it is published.
                let before = reader.available(&words).unwrap();
                prop_assert_eq!(before, written - read - count as u64);
                writer.publish(&words);
                let mut buffer = vec![0; pull];
                let (count, _) = reader.read(&words, &mut buffer).unwrap();
                prop_assert_eq!(count as u64, (pull as u64).min(written - read));
                for byte in &buffer[..count] {
                    prop_assert_eq!(*byte, (read * 7 % 251) as u8);
                    read += 1;
                }
            }
        }
    }

    #[test]
    fn one_thread_writes_and_one_reads() {
        let (words, mut writer, mut reader) = ring();
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
            let (mut next, mut buffer) = (0, [0; 29]);
            while next < total {
                let (count, _) = reader.read(&words, &mut buffer).unwrap();
                for byte in &buffer[..count] {
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
    fn a_sleeping_side_is_woken_once() {
        let (words, mut writer, mut reader) = ring();
        assert!(reader.prepare_sleep(&words).unwrap());
        writer.write(&words, b"a").unwrap();
        assert!(writer.publish(&words));
        writer.write(&words, b"b").unwrap();
        assert!(!writer.publish(&words), "it has been woken");
        assert!(!reader.prepare_sleep(&words).unwrap(), "bytes are available");
        assert!(!writer.publish(&words), "it did not sleep");
        assert_eq!(writer.write(&words, &[7; 100]).unwrap() as u64, BYTES - 8 - 2);
        writer.publish(&words);
        assert!(writer.prepare_sleep(&words, Wake::Word).unwrap());
        let mut buffer = [0; 100];
        assert_eq!(reader.read(&words, &mut buffer[..2]).unwrap(), (2, None), "too little to be woken for");
        assert_eq!(reader.read(&words, &mut buffer).unwrap(), (BYTES as usize - 10, Some(Wake::Word)));
        assert_eq!(writer.write(&words, b"c").unwrap(), 1);
        assert!(!writer.prepare_sleep(&words, Wake::Socket).unwrap());
    }

    #[test]
    fn impossible_counts_are_errors() {
        for count in [BYTES + 1, 1 << 32, 1 << 63] {
            let (words, mut writer, mut reader) = ring();
            words.get(field::HEAD).store(count, Ordering::Relaxed);
            words.get(field::TAIL).store(count, Ordering::Relaxed);
            assert_eq!(reader.read(&words, &mut [0; 8]).unwrap_err().kind(), io::ErrorKind::InvalidData);
            assert_eq!(reader.prepare_sleep(&words).unwrap_err().kind(), io::ErrorKind::InvalidData);
            let refused = writer.write(&words, b"x").and_then(|_| writer.prepare_sleep(&words, Wake::Socket));
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

    /// Two words: one always stays free.
    const BYTES: u64 = 16;

    fn ring() -> (Arc<Words>, Writer, Reader) {
        let layout = Layout { fields: 0, data: field::COUNT, bytes: BYTES };
        let used = |index: usize| index >= field::COUNT || index.is_multiple_of(FIELD);
        let words = Words::sparse(field::COUNT + BYTES as usize / WORD, used);
        (Arc::new(words), Writer::new(layout), Reader::new(layout))
    }

    /// Writes all bytes, asleep while there is no free space: a lost wake-up is a deadlock, which loom finds.
    fn write(
        words: &Words,
        writer: &mut Writer,
        mut bytes: &[u8],
        wake_reader: &Sender<()>,
        wakes: &Receiver<()>,
    ) {
        while !bytes.is_empty() {
            let count = writer.write(words, bytes).unwrap();
            bytes = &bytes[count..];
            if count > 0 {
                if writer.publish(words) {
                    wake_reader.send(()).unwrap();
                }
            } else if writer.prepare_sleep(words, Wake::Word).unwrap() {
                wakes.recv().unwrap();
            }
        }
    }

    fn read(
        words: &Words,
        reader: &mut Reader,
        count: usize,
        wakes: &Receiver<()>,
        wake_writer: &Sender<()>,
    ) -> Vec<u8> {
        let (mut all, mut buffer) = (Vec::new(), [0; 5]);
        while all.len() < count {
            let (count, wake) = reader.read(words, &mut buffer).unwrap();
            all.extend_from_slice(&buffer[..count]);
            if wake.is_some() {
                wake_writer.send(()).unwrap();
            }
            if count == 0 && reader.prepare_sleep(words).unwrap() {
                wakes.recv().unwrap();
            }
        }
        all
    }

    fn model(interruptions: usize, text: &'static [u8], pieces: usize) {
        let mut builder = loom::model::Builder::new();
        builder.max_branches = 10_000;
        builder.preemption_bound = builder.preemption_bound.or(Some(interruptions));
        builder.check(move || {
            let (words, mut writer, mut reader) = ring();
            let ((wake_reader, reader_wakes), (wake_writer, wakes)) = (channel(), channel());
            let theirs = words.clone();
            // loom's receivers are not `Send`, so the waiting thread gets it in a mutex.
            let wakes = Arc::new(Mutex::new(wakes));
            let thread = thread::spawn(move || {
                let wakes = wakes.lock().unwrap();
                for piece in text.chunks(pieces) {
                    write(&theirs, &mut writer, piece, &wake_reader, &wakes);
                }
            });
            assert_eq!(read(&words, &mut reader, text.len(), &reader_wakes, &wake_writer), text);
            thread.join().unwrap();
        });
    }

    #[test]
    fn a_reader_that_sleeps_is_woken() {
        model(3, b"abcdef", 3);
    }

    #[test]
    fn a_writer_that_waits_for_space_is_woken() {
        model(2, b"abcdefghijklmnop", 16);
    }
}
