//! A pipe between two processes of one machine: bytes both ways through shared memory, and a Unix socket as the notifier.
//!
//! A side writes its bytes where the other side reads them, without a system call, unless the other side has stated that it
//! sleeps: then a byte on the socket wakes it. So a side that polls the socket is woken as by any socket, and a side that
//! checks the memory again and again needs a fraction of a microsecond. The end of a side is reported by the system: the
//! socket is closed. The layout is `docs/format/pipe.md`.
//!
//! Always true: the memory can be neither cut nor grown (its seals forbid it, and the side that receives it checks them), and
//! nothing that is read from it is used unchecked.

use crate::byte_ring::{Layout, Reader, Wake, Writer, field};
use crate::system::Mapping;
use crate::waiting::{sleep_on, wake_all};
use crate::words::{WORD, Words};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, Shutdown, recv, recvmsg, send, sendmsg, shutdown,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What is sent with the memory over the socket, and stands at its beginning.
pub const PIPE_MAGIC: [u8; 8] = *b"TAPEPIPE";
/// Name of the memory where the system lists it.
const NAME: &str = "tapedb-pipe";
/// Version of the layout.
const VERSION: u64 = 1;
/// Bytes before the first ring.
const HEADER_BYTES: usize = 4096;
/// Words of the header: magic, version, bytes of a ring.
const MAGIC_AT: usize = 0;
const VERSION_AT: usize = 1;
const RING_BYTES_AT: usize = 2;
/// The fields of the ring from the side that has made the memory, and of the ring to it.
const FIELDS_AT: [usize; 2] = [64, 64 + field::COUNT];
/// Bytes of a ring, at least and at most.
const RING_BYTES: std::ops::RangeInclusive<usize> = 4096..=1 << 26;
/// A side that waits for free space checks so often whether the other side still exists.
const ALIVE_INTERVAL: Duration = Duration::from_millis(100);
/// Bytes read from the socket at once, and reads in a row: a correct side sends a byte for data and one for space, and none
/// before these are read.
const NOTIFIER_BYTES: usize = 4096;
const NOTIFIER_READS_MAX: usize = 16;

/// One end of a pipe. Any thread may use it; the bytes of two threads that write at once do not mix, but their order is open.
#[derive(Debug)]
pub struct Pipe {
    words: Words,
    socket: OwnedFd,
    out: Mutex<Writer>,
    incoming: Mutex<Reader>,
    /// The words on which a writer may sleep, this side's and the other's.
    space_word: usize,
    their_space_word: usize,
    /// The other side has closed the socket.
    ended: AtomicBool,
}

/// What came over the socket instead of a pipe: the other side does not have pipes, or refuses the connection.
#[derive(Debug)]
pub struct NoPipe {
    /// The socket, as it was.
    pub socket: OwnedFd,
    /// The first bytes received, up to eight; more may follow.
    pub received: Vec<u8>,
}

impl Pipe {
    /// Makes the memory, two rings of `ring_bytes`, and sends it to the other end of a connected Unix socket.
    ///
    /// The system gives pages as they are first used, and counts memory that both processes share once.
    ///
    /// # Errors
    /// The system's; [`io::ErrorKind::InvalidInput`] when `ring_bytes` is no power of two from 4 KiB to 64 MiB.
    pub fn offer(socket: OwnedFd, ring_bytes: usize) -> io::Result<Self> {
        if !ring_bytes.is_power_of_two() || !RING_BYTES.contains(&ring_bytes) {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        let memory = new_memory()?;
        ftruncate(&memory, file_bytes(ring_bytes) as u64)?;
        fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let words = Words::mapped(Mapping::lazily(&memory, file_bytes(ring_bytes))?);
        let header = [PIPE_MAGIC, VERSION.to_le_bytes(), (ring_bytes as u64).to_le_bytes()];
        words.store(MAGIC_AT, &header);
        send_memory(&socket, memory.as_fd())?;
        Ok(Self::new(words, socket, ring_bytes, Side::Maker))
    }

    /// Receives the memory that the other end of a Unix socket [offers](Self::offer); waits for it as long as a read of the
    /// socket waits.
    ///
    /// # Errors
    /// The system's; [`io::ErrorKind::InvalidData`] for memory that is no pipe, or that the other side could cut.
    pub fn accept(socket: OwnedFd) -> io::Result<Result<Self, NoPipe>> {
        let (memory, received) = receive_memory(&socket)?;
        let Some(memory) = memory else { return Ok(Err(NoPipe { socket, received })) };
        let seals = fcntl_get_seals(&memory)?;
        let bytes = usize::try_from(fstat(&memory)?.st_size).unwrap_or(0);
        if received != PIPE_MAGIC || !seals.contains(SealFlags::SHRINK) || bytes < HEADER_BYTES {
            return Err(no_pipe());
        }
        let words = Words::mapped(Mapping::lazily(&memory, bytes)?);
        let mut header = [[0; WORD]; 3];
        words.load(MAGIC_AT, &mut header);
        let ring_bytes = u64::from_le_bytes(header[RING_BYTES_AT]);
        let is_right = header[MAGIC_AT] == PIPE_MAGIC
            && u64::from_le_bytes(header[VERSION_AT]) == VERSION
            && usize::try_from(ring_bytes).is_ok_and(|ring| {
                ring.is_power_of_two() && RING_BYTES.contains(&ring) && file_bytes(ring) == bytes
            });
        match is_right {
            true => Ok(Ok(Self::new(words, socket, ring_bytes as usize, Side::Receiver))),
            false => Err(no_pipe()),
        }
    }

    fn new(words: Words, socket: OwnedFd, ring_bytes: usize, side: Side) -> Self {
        let layout = |ring: usize| Layout {
            fields: FIELDS_AT[ring],
            data: (HEADER_BYTES + ring * ring_bytes) / WORD,
            bytes: ring_bytes as u64,
        };
        let (out, incoming) = match side {
            Side::Maker => (layout(0), layout(1)),
            Side::Receiver => (layout(1), layout(0)),
        };
        let [space_word, their_space_word] = [out, incoming].map(|ring| ring.fields + field::SPACE_WANTED);
        let (out, incoming) = (Mutex::new(Writer::new(out)), Mutex::new(Reader::new(incoming)));
        Self { words, socket, out, incoming, space_word, their_space_word, ended: AtomicBool::new(false) }
    }

    /// The socket: readable when this side, after [`Pipe::prepare_sleep`], is woken, and when the other side has ended.
    /// For polling only; what is read from it is lost.
    pub fn notifier(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Reads what there is, without waiting. 0: the other side has ended, and all that it wrote has been read.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when nothing is there; [`io::ErrorKind::InvalidData`] when the other side has broken the pipe.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        // Before the count: what was written before the end is read before the end is reported.
        let has_ended = self.ended.load(Ordering::Acquire);
        let (count, wake) = locked(&self.incoming).read(&self.words, buffer)?;
        match wake {
            None => {}
            // An error means that the other side has ended: it needs no space.
            Some(Wake::Socket) => _ = self.notify(),
            Some(Wake::Word) => wake_all(self.words.get(self.their_space_word)),
        }
        match count {
            0 if !has_ended && !buffer.is_empty() => Err(io::ErrorKind::WouldBlock.into()),
            count => Ok(count),
        }
    }

    /// Writes as much of the buffers as fits, without waiting: how many bytes.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when there is no free space; [`io::ErrorKind::BrokenPipe`] when the other side has ended,
    /// which is not always noticed at once; [`io::ErrorKind::InvalidData`] when it has broken the pipe.
    pub fn write(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut out = locked(&self.out);
        let (mut written, mut wanted) = (0, 0);
        for buffer in buffers {
            let count = out.write(&self.words, buffer)?;
            written += count;
            wanted += buffer.len();
            if count < buffer.len() {
                break;
            }
        }
        if written == 0 && wanted > 0 {
            // A side that has ended frees no space. (One that has only ended its writing still reads.)
            let has_closed = self.ended.load(Ordering::Acquire) && self.has_closed()?;
            return Err(if has_closed { io::ErrorKind::BrokenPipe } else { io::ErrorKind::WouldBlock }.into());
        }
        let is_asleep = out.publish(&self.words);
        drop(out);
        if is_asleep {
            self.notify()?;
        }
        Ok(written)
    }

    /// States that this side is about to sleep until its [notifier](Self::notifier) is readable: because bytes have arrived,
    /// because there is free space, or both, as is wanted. Whether it may: `false` when what is wanted is there already. (A
    /// side that will not read the available bytes must not want data, or it never sleeps.)
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`] when the other side has broken the pipe.
    pub fn prepare_sleep(&self, wants_data: bool, wants_space: bool) -> io::Result<bool> {
        let is_quiet = !wants_data || {
            let is_empty = locked(&self.incoming).prepare_sleep(&self.words)?;
            is_empty && !self.ended.load(Ordering::Acquire)
        };
        let is_full = !wants_space || locked(&self.out).prepare_sleep(&self.words, Wake::Socket)?;
        Ok(is_quiet && is_full)
    }

    /// States that this side is awake, and reads the notifier empty if it was `notified`. Only one thread may sleep and wake.
    pub fn end_sleep(&self, notified: bool) {
        locked(&self.incoming).end_sleep(&self.words);
        if notified {
            self.clear_notifier();
        }
    }

    /// Waits, without the notifier, until there is free space to write or the time is over. Whether there is.
    ///
    /// # Errors
    /// [`io::ErrorKind::BrokenPipe`] when the other side has ended; [`io::ErrorKind::InvalidData`] when it has broken the pipe.
    pub fn wait_for_space(&self, timeout: Duration) -> io::Result<bool> {
        let until = Instant::now() + timeout;
        loop {
            if !locked(&self.out).prepare_sleep(&self.words, Wake::Word)? {
                return Ok(true);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            if self.has_closed()? {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            sleep_on(self.words.get(self.space_word), Wake::Word.word() as u32, left.min(ALIVE_INTERVAL));
        }
    }

    /// Ends writing; the other side still reads what was written.
    pub fn end(&self) {
        // The other side may have ended already.
        let _ = shutdown(&self.socket, Shutdown::Write);
    }

    /// Ends both directions: polls of the notifier return on both sides.
    pub fn close(&self) {
        self.ended.store(true, Ordering::Release);
        let _ = shutdown(&self.socket, Shutdown::Both);
    }

    /// Wakes the other side with one byte. If the socket is full, it is being woken already.
    fn notify(&self) -> io::Result<()> {
        match send(&self.socket, b"!", SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(_) | Err(rustix::io::Errno::AGAIN) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads all notifications, up to the end after them: an edge-triggered poll reports both at once.
    fn clear_notifier(&self) {
        let mut bytes = [0; NOTIFIER_BYTES];
        for _ in 0..NOTIFIER_READS_MAX {
            match recv(&self.socket, &mut bytes, RecvFlags::DONTWAIT) {
                Ok((1.., _)) | Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return,
                Ok(_) | Err(_) => return self.ended.store(true, Ordering::Release),
            }
        }
        // A side that notifies without end would keep this side busy.
        self.close();
    }

    /// Whether the other side has closed the socket.
    fn has_closed(&self) -> io::Result<bool> {
        let mut polled = [PollFd::new(&self.socket, PollFlags::empty())];
        match poll(&mut polled, Some(&Timespec::default())) {
            Ok(_) => Ok(polled[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// The side that has made the memory, or the one that received it.
#[derive(Debug, Clone, Copy)]
enum Side {
    Maker,
    Receiver,
}

fn file_bytes(ring_bytes: usize) -> usize {
    HEADER_BYTES + 2 * ring_bytes
}

/// Memory that can be sealed; not executable, where the system supports that.
fn new_memory() -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    match memfd_create(NAME, flags | MemfdFlags::NOEXEC_SEAL) {
        Err(rustix::io::Errno::INVAL) => Ok(memfd_create(NAME, flags)?),
        made => Ok(made?),
    }
}

fn send_memory(socket: &OwnedFd, memory: BorrowedFd<'_>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let memory = [memory];
    control.push(SendAncillaryMessage::ScmRights(&memory));
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    match sendmsg(socket, &[IoSlice::new(&PIPE_MAGIC)], &mut control, flags)? {
        8 => Ok(()),
        _ => Err(io::ErrorKind::WriteZero.into()),
    }
}

/// The memory, if the other side sends it, and the bytes that come with it.
fn receive_memory(socket: &OwnedFd) -> io::Result<(Option<OwnedFd>, Vec<u8>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [0; PIPE_MAGIC.len()];
    let received = loop {
        match recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            answer => break answer?.bytes,
        }
    };
    let memory = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    Ok((memory, bytes[..received].to_vec()))
}

fn no_pipe() -> io::Error {
    let what = "the other side offers memory that is no pipe, or that it could cut; are both of one version?";
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;
    use std::thread;

    fn pair(ring_bytes: usize) -> (Pipe, Pipe) {
        let (here, there) = UnixStream::pair().unwrap();
        let maker = Pipe::offer(here.into(), ring_bytes).unwrap();
        (maker, Pipe::accept(there.into()).unwrap().unwrap())
    }

    /// Reads, asleep while there is nothing.
    fn read(pipe: &Pipe, buffer: &mut [u8]) -> usize {
        loop {
            match pipe.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return done.unwrap(),
            }
            if pipe.prepare_sleep(true, false).unwrap() {
                poll(&mut [PollFd::from_borrowed_fd(pipe.notifier(), PollFlags::IN)], None).unwrap();
            }
            pipe.end_sleep(true);
        }
    }

    fn write(pipe: &Pipe, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            match pipe.write(&[IoSlice::new(bytes)]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    assert!(pipe.wait_for_space(Duration::from_secs(60)).unwrap());
                }
                written => bytes = &bytes[written.unwrap()..],
            }
        }
    }

    fn piece(number: u64) -> Vec<u8> {
        (0..number * 37 % 9000 + 1).map(|at| (number * 31 + at * 7) as u8).collect()
    }

    /// Offsets and names of the table behind a heading of the page.
    fn table(behind: &str) -> Vec<(usize, String)> {
        let (_, rest) = include_str!("../../../docs/format/pipe.md").split_once(behind).expect("the text");
        let rows =
            rest.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
        let cells = rows.skip(2).map(|row| row.split('|').map(str::trim).collect::<Vec<_>>());
        cells
            .filter(|cells| !cells[3].is_empty())
            .map(|cells| (cells[1].parse().expect("an offset"), cells[3].trim_matches('`').to_string()))
            .collect()
    }

    #[test]
    fn the_page_has_the_real_offsets() {
        let at = |words: usize, name: &str| (words * WORD, name.to_string());
        let header = vec![
            at(MAGIC_AT, "magic"),
            at(VERSION_AT, "version"),
            at(RING_BYTES_AT, "ring_bytes"),
            at(FIELDS_AT[0], "to_client"),
            at(FIELDS_AT[1], "to_server"),
        ];
        assert_eq!(table("## Layout"), header);
        let ring = vec![
            at(field::HEAD, "head"),
            at(field::TAIL, "tail"),
            at(field::DATA_WANTED, "data_wanted"),
            at(field::SPACE_WANTED, "space_wanted"),
        ];
        assert_eq!(table("A byte ring is one direction"), ring);
        let (maker, receiver) = pair(4096);
        maker.write(&[IoSlice::new(b"to the client")]).unwrap();
        receiver.write(&[IoSlice::new(b"to the server")]).unwrap();
        for (ring, text) in [(4096, b"to the client"), (8192, b"to the server")] {
            let mut bytes = [[0; WORD]; 2];
            receiver.words.load(ring / WORD, &mut bytes);
            assert_eq!(bytes.as_flattened()[..13], text[..]);
        }
    }

    #[test]
    fn both_sides_talk_and_sleep_until_one_ends() {
        let (maker, receiver) = pair(4096);
        let pieces = 400;
        let work = |pipe: &Pipe| {
            thread::scope(|scope| {
                scope.spawn(|| {
                    (0..pieces).for_each(|number| write(pipe, &piece(number)));
                    pipe.end();
                });
                let (mut all, mut buffer) = (Vec::new(), [0; 3000]);
                loop {
                    match read(pipe, &mut buffer) {
                        0 => break,
                        count => all.extend_from_slice(&buffer[..count]),
                    }
                }
                assert!(all == (0..pieces).flat_map(piece).collect::<Vec<u8>>());
            });
        };
        thread::scope(|scope| {
            scope.spawn(|| work(&maker));
            work(&receiver);
        });
    }

    #[test]
    fn what_was_written_before_the_end_is_read() {
        let (maker, receiver) = pair(4096);
        maker.write(&[IoSlice::new(b"the "), IoSlice::new(b"end")]).unwrap();
        drop(maker);
        let mut buffer = [0; 64];
        assert_eq!(read(&receiver, &mut buffer), 7);
        assert_eq!(&buffer[..7], b"the end");
        assert_eq!(read(&receiver, &mut buffer), 0);
    }

    #[test]
    fn the_end_is_noticed_after_notifications() {
        let (maker, receiver) = pair(4096);
        for count in [0, 1, 3, 9000] {
            assert!(maker.prepare_sleep(true, false).unwrap() || count > 0);
            (0..count).for_each(|_| receiver.notify().unwrap());
            maker.end_sleep(true);
        }
        assert!(maker.prepare_sleep(true, false).unwrap());
        receiver.notify().unwrap();
        drop(receiver);
        maker.end_sleep(true);
        assert_eq!(maker.read(&mut [0; 8]).unwrap(), 0);
        while maker.write(&[IoSlice::new(&[7; 1000])]).is_ok() {}
        let error = maker.write(&[IoSlice::new(&[7; 1000])]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_side_that_notifies_without_end_is_closed() {
        let (maker, receiver) = pair(4096);
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let _ = send(&receiver.socket, &[0; 1 << 16], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
                }
            });
            while !maker.ended.load(Ordering::Relaxed) {
                maker.end_sleep(true);
            }
            done.store(true, Ordering::Relaxed);
        });
        assert!(send(&receiver.socket, b"!", SendFlags::NOSIGNAL).is_err());
    }

    #[test]
    fn a_side_that_wants_nothing_may_sleep_with_bytes_available() {
        let (maker, receiver) = pair(4096);
        receiver.write(&[IoSlice::new(b"something")]).unwrap();
        let may_sleep = |wants_data, wants_space| maker.prepare_sleep(wants_data, wants_space).unwrap();
        assert!(
            may_sleep(false, false)
                && !may_sleep(true, false)
                && !may_sleep(false, true)
                && !may_sleep(true, true)
        );
        while maker.write(&[IoSlice::new(&[7; 1000])]).is_ok() {}
        assert!(may_sleep(false, true) && !may_sleep(true, true));
        drop(receiver);
        maker.end_sleep(true);
        assert!(may_sleep(false, true) && !may_sleep(true, false), "the end counts as data");
    }

    #[test]
    fn waiting_for_space_ends_when_the_other_side_has_ended() {
        let (maker, receiver) = pair(4096);
        let full = loop {
            if let Err(error) = maker.write(&[IoSlice::new(&[7; 1000])]) {
                break error;
            }
        };
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
        assert!(!maker.wait_for_space(Duration::ZERO).unwrap());
        drop(receiver);
        let error = maker.wait_for_space(Duration::from_secs(60)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn memory_that_is_no_pipe_is_refused_and_other_bytes_are_returned() {
        let refused = |memory: &OwnedFd| {
            let (here, there) = UnixStream::pair().unwrap();
            send_memory(&here.into(), memory.as_fd()).unwrap();
            Pipe::accept(there.into()).unwrap_err().kind()
        };
        let sealed = |bytes: u64, header: [u64; 3]| {
            let memory = memfd_create("test", MemfdFlags::ALLOW_SEALING).unwrap();
            let text: Vec<u8> = header.into_iter().flat_map(u64::to_le_bytes).collect();
            rustix::io::write(&memory, &text).unwrap();
            ftruncate(&memory, bytes).unwrap();
            memory
        };
        let magic = u64::from_le_bytes(PIPE_MAGIC);
        let right = sealed(12288, [magic, 1, 4096]);
        assert_eq!(refused(&right), io::ErrorKind::InvalidData, "not sealed");
        fcntl_add_seals(&right, SealFlags::SHRINK).unwrap();
        let (here, there) = UnixStream::pair().unwrap();
        send_memory(&here.into(), right.as_fd()).unwrap();
        Pipe::accept(there.into()).unwrap().unwrap();
        for (bytes, header) in [
            (12288, [0, 1, 4096]),
            (12288, [magic, 2, 4096]),
            (12288, [magic, 1, 4097]),
            (12288, [magic, 1, 8192]),
            (12288, [magic, 1, u64::MAX]),
            (12288, [magic, 1, 0]),
            (100, [magic, 1, 4096]),
            (1 << 40, [magic, 1, 4096]),
        ] {
            let memory = sealed(bytes, header);
            fcntl_add_seals(&memory, SealFlags::SHRINK).unwrap();
            assert_eq!(refused(&memory), io::ErrorKind::InvalidData, "{bytes} {header:?}");
        }
        let (here, there) = UnixStream::pair().unwrap();
        io::Write::write_all(&mut &here, b"something else").unwrap();
        let NoPipe { socket, received } = Pipe::accept(there.into()).unwrap().unwrap_err();
        let mut rest = [0; 6];
        io::Read::read_exact(&mut UnixStream::from(socket), &mut rest).unwrap();
        assert_eq!((&received[..], &rest), (&b"somethin"[..], b"g else"));
        for bytes in [0, 100, 2048, 6000, 1 << 27] {
            let (here, _there) = UnixStream::pair().unwrap();
            assert_eq!(Pipe::offer(here.into(), bytes).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
    }

    #[test]
    fn impossible_counts_break_the_pipe_and_nothing_else() {
        for count in [4097, 1 << 32, 1 << 63] {
            let (maker, receiver) = pair(4096);
            for at in [field::HEAD, field::TAIL] {
                for fields in FIELDS_AT {
                    receiver.words.get(fields + at).store(count, Ordering::Relaxed);
                }
            }
            let is_broken = |error: io::Error| error.kind() == io::ErrorKind::InvalidData;
            assert!(is_broken(maker.read(&mut [0; 64]).unwrap_err()));
            assert!(is_broken(maker.write(&[IoSlice::new(b"x")]).unwrap_err()));
            assert!(is_broken(maker.prepare_sleep(true, false).unwrap_err()));
            assert!(is_broken(maker.wait_for_space(Duration::from_secs(60)).unwrap_err()));
        }
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]

        /// Whatever the other side writes, wherever, whenever: nothing but this pipe breaks.
        #[test]
        fn any_word_may_have_any_value(writes in proptest::collection::vec((0usize..512, proptest::num::u64::ANY, 0u32..70), 1..60)) {
            let (maker, receiver) = pair(4096);
            let mut buffer = [0; 5000];
            for (word, value, bits) in writes {
                // Small numbers too, and those around the counts.
                receiver.words.get(word).store(value.checked_shr(bits).unwrap_or(0), Ordering::Relaxed);
                let _ = receiver.notify();
                let read = maker.read(&mut buffer);
                proptest::prop_assert!(read.is_err() || read.is_ok_and(|count| count <= 4096));
                let written = maker.write(&[IoSlice::new(&buffer[..3000])]);
                proptest::prop_assert!(written.is_err() || written.is_ok_and(|count| count <= 3000));
                let _ = maker.prepare_sleep(true, true);
                maker.end_sleep(true);
                let _ = maker.wait_for_space(Duration::ZERO);
            }
        }
    }
}
