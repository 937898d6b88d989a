//! A pipe between two processes of one machine: bytes both ways through shared memory, and a Unix socket as the bell.
//!
//! The side that has something to say writes it where the other reads it, and no call of the system is made, unless the other
//! side has said that it sleeps: then a byte on the socket wakes it. So who polls the socket is woken as by any socket, and
//! who looks at the memory again and again needs a fraction of a microsecond. That a side has ended, however, the system says:
//! the socket is closed. The layout is `docs/format/pipe.md`.
//!
//! Always true: the memory can be neither cut nor grown (its seals say so, and whoever is handed it looks), and nothing that
//! is read from it is believed unchecked.

use crate::lane::{Place, Reader, Wake, Writer, field};
use crate::system::{Mapping, sleep_on, wake_all};
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

/// What comes with the memory, over the socket, and at its beginning.
pub const PIPE_MAGIC: [u8; 8] = *b"TAPEPIPE";
/// What the memory is called where the system lists it.
const NAME: &str = "tapedb-pipe";
/// Version of the layout.
const VERSION: u64 = 1;
/// Bytes before the first ring.
const HEADER_BYTES: usize = 4096;
/// Words of the header: magic, version, bytes of a ring.
const MAGIC_AT: usize = 0;
const VERSION_AT: usize = 1;
const RING_BYTES_AT: usize = 2;
/// The fields of the lane from who has made the memory, and of the lane to it.
const FIELDS_AT: [usize; 2] = [64, 64 + field::COUNT];
/// Bytes of a ring, at least and at most.
const RING_BYTES: std::ops::RangeInclusive<usize> = 4096..=1 << 26;
/// Those who wait for room look so often whether the other side is still there.
const ROOM_LOOK: Duration = Duration::from_millis(100);
/// What is taken from the bell at once, and how often in a row: an honest side rings for data and for room, and is heard before it
/// rings again.
const BELL_BYTES: usize = 4096;
const BELL_READS_MAX: usize = 16;

/// One end of a pipe. Any thread may use it; what two threads write at once does not mix, but its order is chance.
#[derive(Debug)]
pub struct Pipe {
    words: Words,
    bell: OwnedFd,
    out: Mutex<Writer>,
    incoming: Mutex<Reader>,
    /// The words on which a writer may sleep, this side's and the other's.
    bed: usize,
    their_bed: usize,
    /// The other side has closed the socket.
    ended: AtomicBool,
}

/// What came over the socket instead of a pipe: the other side knows of none, or turns away who asks.
#[derive(Debug)]
pub struct NoPipe {
    /// The socket, as it was.
    pub bell: OwnedFd,
    /// The first bytes that came, up to eight; more may follow.
    pub came: Vec<u8>,
}

impl Pipe {
    /// Makes the memory, two rings of `ring_bytes`, and hands it to whoever is at the other end of a connected Unix socket.
    ///
    /// The memory is taken page by page as it is first used, and is this process's and the other's: the system counts it once.
    ///
    /// # Errors
    /// The system's; [`io::ErrorKind::InvalidInput`] when `ring_bytes` is no power of two from 4 KiB to 64 MiB.
    pub fn offer(bell: OwnedFd, ring_bytes: usize) -> io::Result<Self> {
        if !ring_bytes.is_power_of_two() || !RING_BYTES.contains(&ring_bytes) {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        let memory = new_memory()?;
        ftruncate(&memory, file_bytes(ring_bytes) as u64)?;
        fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let words = Words::mapped(Mapping::lazily(&memory, file_bytes(ring_bytes))?);
        let header = [PIPE_MAGIC, VERSION.to_le_bytes(), (ring_bytes as u64).to_le_bytes()];
        words.store(MAGIC_AT, &header);
        hand_over(&bell, memory.as_fd())?;
        Ok(Self::new(words, bell, ring_bytes, Side::Maker))
    }

    /// Takes the memory that the other end of a Unix socket [offers](Self::offer); waits for it as long as a read of the
    /// socket waits.
    ///
    /// # Errors
    /// The system's; [`io::ErrorKind::InvalidData`] for memory that is no pipe, or that the other side could cut.
    pub fn accept(bell: OwnedFd) -> io::Result<Result<Self, NoPipe>> {
        let (memory, came) = take_over(&bell)?;
        let Some(memory) = memory else { return Ok(Err(NoPipe { bell, came })) };
        let seals = fcntl_get_seals(&memory)?;
        let bytes = usize::try_from(fstat(&memory)?.st_size).unwrap_or(0);
        if came != PIPE_MAGIC || !seals.contains(SealFlags::SHRINK) || bytes < HEADER_BYTES {
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
            true => Ok(Ok(Self::new(words, bell, ring_bytes as usize, Side::Taker))),
            false => Err(no_pipe()),
        }
    }

    fn new(words: Words, bell: OwnedFd, ring_bytes: usize, side: Side) -> Self {
        let place = |lane: usize| Place {
            fields: FIELDS_AT[lane],
            data: (HEADER_BYTES + lane * ring_bytes) / WORD,
            bytes: ring_bytes as u64,
        };
        let (out, incoming) = match side {
            Side::Maker => (place(0), place(1)),
            Side::Taker => (place(1), place(0)),
        };
        let [bed, their_bed] = [out, incoming].map(|lane| lane.fields + field::ROOM_WANTED);
        let (out, incoming) = (Mutex::new(Writer::new(out)), Mutex::new(Reader::new(incoming)));
        Self { words, bell, out, incoming, bed, their_bed, ended: AtomicBool::new(false) }
    }

    /// The socket: readable when this side, which has said that it [sleeps](Self::doze), is woken, and when the other has ended.
    /// For polling alone; what is read from it is lost.
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Reads what there is, without waiting. 0: the other side has ended, and all that it wrote has been read.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when nothing is there; [`io::ErrorKind::InvalidData`] when the other side has broken the pipe.
    pub fn read(&self, room: &mut [u8]) -> io::Result<usize> {
        // Before the count: what was written before the end is read before the end is told.
        let has_ended = self.ended.load(Ordering::Acquire);
        let (count, wake) = locked(&self.incoming).read(&self.words, room)?;
        match wake {
            None => {}
            // Who is gone needs no room.
            Some(Wake::Bell) => _ = self.ring(),
            Some(Wake::Word) => wake_all(self.words.get(self.their_bed)),
        }
        match count {
            0 if !has_ended && !room.is_empty() => Err(io::ErrorKind::WouldBlock.into()),
            count => Ok(count),
        }
    }

    /// Writes as much of the pieces as there is room for, without waiting: how many bytes.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when there is no room; [`io::ErrorKind::BrokenPipe`] when the other side is found to be gone,
    /// which is not always noticed at once; [`io::ErrorKind::InvalidData`] when it has broken the pipe.
    pub fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut out = locked(&self.out);
        let (mut written, mut wanted) = (0, 0);
        for part in parts {
            let count = out.write(&self.words, part)?;
            written += count;
            wanted += part.len();
            if count < part.len() {
                break;
            }
        }
        if written == 0 && wanted > 0 {
            // Room that nobody will make is not waited for. (Who only writes no more still reads.)
            let is_gone = self.ended.load(Ordering::Acquire) && self.is_gone()?;
            return Err(if is_gone { io::ErrorKind::BrokenPipe } else { io::ErrorKind::WouldBlock }.into());
        }
        let is_asleep = out.publish(&self.words);
        drop(out);
        if is_asleep {
            self.ring()?;
        }
        Ok(written)
    }

    /// Says that this side is about to sleep until its [bell](Self::bell) rings: because something has come, because there is room to
    /// write, or both, as is wanted. Whether it may: `false` when what is wanted is so already. (Whoever will not read
    /// what is there anyhow wants nothing, or would never sleep.)
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`] when the other side has broken the pipe.
    pub fn doze(&self, wants_data: bool, wants_room: bool) -> io::Result<bool> {
        let is_quiet = !wants_data || {
            let nothing_came = locked(&self.incoming).doze(&self.words)?;
            nothing_came && !self.ended.load(Ordering::Acquire)
        };
        let is_full = !wants_room || locked(&self.out).doze(&self.words, Wake::Bell)?;
        Ok(is_quiet && is_full)
    }

    /// Says that this side is awake; takes what has rung from the bell. Only one thread may sleep and wake.
    pub fn woke(&self, has_rung: bool) {
        locked(&self.incoming).awake(&self.words);
        if has_rung {
            self.clear_bell();
        }
    }

    /// Waits until there is room to write, or the time is over; the bell is not used for that. Whether there is.
    ///
    /// # Errors
    /// [`io::ErrorKind::BrokenPipe`] when the other side is gone; [`io::ErrorKind::InvalidData`] when it has broken the pipe.
    pub fn wait_for_room(&self, timeout: Duration) -> io::Result<bool> {
        let until = Instant::now() + timeout;
        loop {
            if !locked(&self.out).doze(&self.words, Wake::Word)? {
                return Ok(true);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            if self.is_gone()? {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            sleep_on(self.words.get(self.bed), Wake::Word.word() as u32, left.min(ROOM_LOOK));
        }
    }

    /// Says that nothing more will be written; the other side still reads what was.
    pub fn end(&self) {
        // It may be gone already.
        let _ = shutdown(&self.bell, Shutdown::Write);
    }

    /// Ends both directions: whoever polls the bell, here or there, is told.
    pub fn close(&self) {
        self.ended.store(true, Ordering::Release);
        let _ = shutdown(&self.bell, Shutdown::Both);
    }

    /// One byte: it wakes the other side. Where bytes already wait, it is being woken.
    fn ring(&self) -> io::Result<()> {
        match send(&self.bell, b"!", SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(_) | Err(rustix::io::Errno::AGAIN) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes all that has rung, up to the end behind it: a poll that tells of changes tells of both at once.
    fn clear_bell(&self) {
        let mut bytes = [0; BELL_BYTES];
        for _ in 0..BELL_READS_MAX {
            match recv(&self.bell, &mut bytes, RecvFlags::DONTWAIT) {
                Ok((1.., _)) | Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return,
                Ok(_) | Err(_) => return self.ended.store(true, Ordering::Release),
            }
        }
        // Who rings without end would keep this side from everything else.
        self.close();
    }

    /// Whether the other side has closed the socket.
    fn is_gone(&self) -> io::Result<bool> {
        let mut polled = [PollFd::new(&self.bell, PollFlags::empty())];
        match poll(&mut polled, Some(&Timespec::default())) {
            Ok(_) => Ok(polled[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// Who has made the memory, and who was handed it.
#[derive(Debug, Clone, Copy)]
enum Side {
    Maker,
    Taker,
}

fn file_bytes(ring_bytes: usize) -> usize {
    HEADER_BYTES + 2 * ring_bytes
}

/// Memory that can be sealed; never to be executed, where the system knows of that.
fn new_memory() -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    match memfd_create(NAME, flags | MemfdFlags::NOEXEC_SEAL) {
        Err(rustix::io::Errno::INVAL) => Ok(memfd_create(NAME, flags)?),
        made => Ok(made?),
    }
}

fn hand_over(bell: &OwnedFd, memory: BorrowedFd<'_>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let memory = [memory];
    control.push(SendAncillaryMessage::ScmRights(&memory));
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    match sendmsg(bell, &[IoSlice::new(&PIPE_MAGIC)], &mut control, flags)? {
        8 => Ok(()),
        _ => Err(io::ErrorKind::WriteZero.into()),
    }
}

/// The memory, if some comes, and what comes with it.
fn take_over(bell: &OwnedFd) -> io::Result<(Option<OwnedFd>, Vec<u8>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [0; PIPE_MAGIC.len()];
    let came = loop {
        match recvmsg(bell, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            came => break came?.bytes,
        }
    };
    let memory = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    Ok((memory, bytes[..came].to_vec()))
}

fn no_pipe() -> io::Error {
    let what = "what the other side offers to share is no memory of this kind, or it could cut it; are both of one version?";
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
    fn read(pipe: &Pipe, room: &mut [u8]) -> usize {
        loop {
            match pipe.read(room) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return done.unwrap(),
            }
            if pipe.doze(true, false).unwrap() {
                poll(&mut [PollFd::from_borrowed_fd(pipe.bell(), PollFlags::IN)], None).unwrap();
            }
            pipe.woke(true);
        }
    }

    fn write(pipe: &Pipe, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            match pipe.write(&[IoSlice::new(bytes)]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    assert!(pipe.wait_for_room(Duration::from_secs(60)).unwrap());
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
        let lane = vec![
            at(field::HEAD, "head"),
            at(field::TAIL, "tail"),
            at(field::DATA_WANTED, "data_wanted"),
            at(field::ROOM_WANTED, "room_wanted"),
        ];
        assert_eq!(table("A lane is one direction"), lane);
        let (maker, taker) = pair(4096);
        maker.write(&[IoSlice::new(b"to the client")]).unwrap();
        taker.write(&[IoSlice::new(b"to the server")]).unwrap();
        for (ring, text) in [(4096, b"to the client"), (8192, b"to the server")] {
            let mut bytes = [[0; WORD]; 2];
            taker.words.load(ring / WORD, &mut bytes);
            assert_eq!(bytes.as_flattened()[..13], text[..]);
        }
    }

    #[test]
    fn both_sides_talk_and_sleep_until_one_ends() {
        let (maker, taker) = pair(4096);
        let pieces = 400;
        let work = |pipe: &Pipe| {
            thread::scope(|scope| {
                scope.spawn(|| {
                    (0..pieces).for_each(|number| write(pipe, &piece(number)));
                    pipe.end();
                });
                let (mut all, mut room) = (Vec::new(), [0; 3000]);
                loop {
                    match read(pipe, &mut room) {
                        0 => break,
                        count => all.extend_from_slice(&room[..count]),
                    }
                }
                assert!(all == (0..pieces).flat_map(piece).collect::<Vec<u8>>());
            });
        };
        thread::scope(|scope| {
            scope.spawn(|| work(&maker));
            work(&taker);
        });
    }

    #[test]
    fn what_was_written_before_the_end_is_read() {
        let (maker, taker) = pair(4096);
        maker.write(&[IoSlice::new(b"the "), IoSlice::new(b"end")]).unwrap();
        drop(maker);
        let mut room = [0; 64];
        assert_eq!(read(&taker, &mut room), 7);
        assert_eq!(&room[..7], b"the end");
        assert_eq!(read(&taker, &mut room), 0);
    }

    #[test]
    fn the_end_is_heard_behind_what_rings() {
        let (maker, taker) = pair(4096);
        for rings in [0, 1, 3, 9000] {
            assert!(maker.doze(true, false).unwrap() || rings > 0);
            (0..rings).for_each(|_| taker.ring().unwrap());
            maker.woke(true);
        }
        assert!(maker.doze(true, false).unwrap());
        taker.ring().unwrap();
        drop(taker);
        maker.woke(true);
        assert_eq!(maker.read(&mut [0; 8]).unwrap(), 0);
        while maker.write(&[IoSlice::new(&[7; 1000])]).is_ok() {}
        let error = maker.write(&[IoSlice::new(&[7; 1000])]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn who_rings_without_end_is_left() {
        let (maker, taker) = pair(4096);
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let _ = send(&taker.bell, &[0; 1 << 16], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
                }
            });
            while !maker.ended.load(Ordering::Relaxed) {
                maker.woke(true);
            }
            done.store(true, Ordering::Relaxed);
        });
        assert!(send(&taker.bell, b"!", SendFlags::NOSIGNAL).is_err());
    }

    #[test]
    fn who_wants_nothing_sleeps_whatever_is_there() {
        let (maker, taker) = pair(4096);
        taker.write(&[IoSlice::new(b"something")]).unwrap();
        let dozes = |wants_data, wants_room| maker.doze(wants_data, wants_room).unwrap();
        assert!(dozes(false, false) && !dozes(true, false) && !dozes(false, true) && !dozes(true, true));
        while maker.write(&[IoSlice::new(&[7; 1000])]).is_ok() {}
        assert!(dozes(false, true) && !dozes(true, true));
        drop(taker);
        maker.woke(true);
        assert!(dozes(false, true) && !dozes(true, false), "the end is something that comes");
    }

    #[test]
    fn who_waits_for_room_learns_that_nobody_will_make_any() {
        let (maker, taker) = pair(4096);
        let full = loop {
            if let Err(error) = maker.write(&[IoSlice::new(&[7; 1000])]) {
                break error;
            }
        };
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
        assert!(!maker.wait_for_room(Duration::ZERO).unwrap());
        drop(taker);
        let error = maker.wait_for_room(Duration::from_secs(60)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn what_is_no_pipe_is_refused_and_what_came_instead_is_kept() {
        let refused = |memory: &OwnedFd| {
            let (here, there) = UnixStream::pair().unwrap();
            hand_over(&here.into(), memory.as_fd()).unwrap();
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
        hand_over(&here.into(), right.as_fd()).unwrap();
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
        let NoPipe { bell, came } = Pipe::accept(there.into()).unwrap().unwrap_err();
        let mut rest = [0; 6];
        io::Read::read_exact(&mut UnixStream::from(bell), &mut rest).unwrap();
        assert_eq!((&came[..], &rest), (&b"somethin"[..], b"g else"));
        for bytes in [0, 100, 2048, 6000, 1 << 27] {
            let (here, _there) = UnixStream::pair().unwrap();
            assert_eq!(Pipe::offer(here.into(), bytes).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
    }

    #[test]
    fn counts_that_cannot_be_break_the_pipe_and_nothing_else() {
        for count in [4097, 1 << 32, 1 << 63] {
            let (maker, taker) = pair(4096);
            for at in [field::HEAD, field::TAIL] {
                for fields in FIELDS_AT {
                    taker.words.get(fields + at).store(count, Ordering::Relaxed);
                }
            }
            let is_broken = |error: io::Error| error.kind() == io::ErrorKind::InvalidData;
            assert!(is_broken(maker.read(&mut [0; 64]).unwrap_err()));
            assert!(is_broken(maker.write(&[IoSlice::new(b"x")]).unwrap_err()));
            assert!(is_broken(maker.doze(true, false).unwrap_err()));
            assert!(is_broken(maker.wait_for_room(Duration::from_secs(60)).unwrap_err()));
        }
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]

        /// Whatever the other side writes, wherever, whenever: nothing but this pipe breaks.
        #[test]
        fn anything_may_be_anywhere(writes in proptest::collection::vec((0usize..512, proptest::num::u64::ANY, 0u32..70), 1..60)) {
            let (maker, taker) = pair(4096);
            let mut room = [0; 5000];
            for (word, value, bits) in writes {
                // Small numbers too, and those around the counts.
                taker.words.get(word).store(value.checked_shr(bits).unwrap_or(0), Ordering::Relaxed);
                let _ = taker.ring();
                let read = maker.read(&mut room);
                proptest::prop_assert!(read.is_err() || read.is_ok_and(|count| count <= 4096));
                let written = maker.write(&[IoSlice::new(&room[..3000])]);
                proptest::prop_assert!(written.is_err() || written.is_ok_and(|count| count <= 3000));
                let _ = maker.doze(true, true);
                maker.woke(true);
                let _ = maker.wait_for_room(Duration::ZERO);
            }
        }
    }
}
