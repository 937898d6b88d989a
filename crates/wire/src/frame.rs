//! Frames: how the bytes of a connection are divided.

use crate::error::WireError;

/// The first bytes that a client sends. No other protocol starts with them.
pub const PREFACE: [u8; 8] = *b"TAPEDB1\n";
/// Sent by a client at a Unix socket, before anything else, to request shared memory. The server answers with the
/// memory; the rest of the connection, from the [`PREFACE`] on, goes through it.
pub const SHM_REQUEST: [u8; 8] = *b"TAPEMEM\n";

/// What follows the first bytes of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    /// They were the [`PREFACE`]: frames follow.
    Frames,
    /// They were an [`SHM_REQUEST`].
    SharedMemory,
}

/// Bytes before the payload of a frame.
pub const FRAME_HEADER_BYTES: usize = 12;

/// The longest payload: the longest batch and its fields.
pub const FRAME_BYTES_MAX: usize = 17 << 20;

/// An empty buffer of a [`Decoder`] is shrunk to this size.
const BUFFER_BYTES_KEPT: usize = 512 << 10;

/// A complete frame.
#[derive(Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The kind of message.
    pub kind: u8,
    /// The channel; 0 is the connection itself.
    pub channel: u32,
    /// The message's fields. They can be changed in place: a batch gets its sequence number without a copy.
    pub payload: &'a mut [u8],
}

/// Divides bytes into frames. Holds at most one frame beyond the last bytes that were given to it.
///
/// ```
/// use tapedb_wire::{Decoder, ToServer};
///
/// let mut sent = Vec::new();
/// ToServer::Ping { number: 7 }.encode(0, &mut sent);
/// let mut decoder = Decoder::new();
/// for byte in sent {
///     assert!(decoder.next_frame()?.is_none());
///     decoder.push(&[byte]);
/// }
/// let frame = decoder.next_frame()?.expect("it is whole now");
/// assert_eq!(ToServer::parse(frame.kind, frame.payload)?, ToServer::Ping { number: 7 });
/// # Ok::<(), tapedb_wire::WireError>(())
/// ```
#[derive(Debug)]
pub struct Decoder {
    buffer: Vec<u8>,
    /// Bytes that have arrived and were not taken: `start..end`.
    start: usize,
    end: usize,
    bytes_max: usize,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Decoder {
    /// A decoder at the beginning of a frame that takes payloads of up to [`FRAME_BYTES_MAX`] bytes.
    pub fn new() -> Self {
        Self::with_bytes_max(FRAME_BYTES_MAX)
    }

    /// A decoder that refuses longer payloads than `bytes_max`.
    pub fn with_bytes_max(bytes_max: usize) -> Self {
        Self { buffer: Vec::new(), start: 0, end: 0, bytes_max }
    }

    /// Sets the longest payload from now on: it is shorter before the client is authenticated.
    pub fn set_bytes_max(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
    }

    /// Buffer space for the next bytes: at least `least`, or the rest of the current frame where that is more. Report
    /// with [`filled`](Self::filled) how many bytes were read into it.
    pub fn spare(&mut self, least: usize) -> &mut [u8] {
        let least = least.max(self.missing());
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            if self.buffer.len() > BUFFER_BYTES_KEPT.max(least) {
                self.buffer = Vec::new();
            }
        }
        if self.buffer.len() - self.end < least {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            let needed = self.end + least;
            if self.buffer.len() < needed {
                self.buffer.resize(needed, 0);
            }
        }
        &mut self.buffer[self.end..]
    }

    /// Adds the first `bytes` of what [`spare`](Self::spare) returned; clamped to its length.
    pub fn filled(&mut self, bytes: usize) {
        self.end = (self.end + bytes).min(self.buffer.len());
    }

    /// Adds bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.spare(bytes.len())[..bytes.len()].copy_from_slice(bytes);
        self.filled(bytes.len());
    }

    /// Bytes that have arrived and were not taken.
    pub fn pending(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Takes the [`PREFACE`]; `false`: it is not complete yet.
    ///
    /// # Errors
    /// [`WireError::Preface`] as soon as the bytes cannot become it.
    pub fn take_preface(&mut self) -> Result<bool, WireError> {
        self.take_first(&PREFACE)
    }

    /// Takes the [`PREFACE`] or an [`SHM_REQUEST`]; `None`: it is not complete yet.
    ///
    /// # Errors
    /// [`WireError::Preface`] as soon as the bytes can become neither.
    pub fn take_opening(&mut self) -> Result<Option<Opening>, WireError> {
        let (text, opening) = match SHM_REQUEST.starts_with(self.first(SHM_REQUEST.len())) {
            true => (&SHM_REQUEST, Opening::SharedMemory),
            false => (&PREFACE, Opening::Frames),
        };
        Ok(self.take_first(text)?.then_some(opening))
    }

    fn take_first(&mut self, text: &[u8; 8]) -> Result<bool, WireError> {
        let there = self.first(text.len());
        if !text.starts_with(there) {
            return Err(WireError::Preface { looks_like: looks_like(self.pending()) });
        }
        let is_whole = there.len() == text.len();
        if is_whole {
            self.start += text.len();
        }
        Ok(is_whole)
    }

    fn first(&self, count: usize) -> &[u8] {
        let pending = self.pending();
        &pending[..pending.len().min(count)]
    }

    /// The next frame, if it is complete.
    ///
    /// # Errors
    /// [`WireError::TooLong`], and [`WireError::Invalid`] for a header that no version writes.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, WireError> {
        let Some((len, kind, channel)) = self.header()? else { return Ok(None) };
        let begin = self.start + FRAME_HEADER_BYTES;
        if self.end - begin < len {
            return Ok(None);
        }
        self.start = begin + len;
        Ok(Some(Frame { kind, channel, payload: &mut self.buffer[begin..begin + len] }))
    }

    fn header(&self) -> Result<Option<(usize, u8, u32)>, WireError> {
        let Some(header) = self.pending().first_chunk::<FRAME_HEADER_BYTES>() else { return Ok(None) };
        let &[a, b, c, d, kind, zero @ .., e, f, g, h] = header;
        let len = u32::from_le_bytes([a, b, c, d]) as usize;
        if len > self.bytes_max {
            return Err(WireError::TooLong { bytes: len as u64, bytes_max: self.bytes_max as u64 });
        }
        if zero != [0; 3] {
            return Err(WireError::Invalid { kind, offset: 0, what: "bytes 5 to 7 of its header are not 0" });
        }
        Ok(Some((len, kind, u32::from_le_bytes([e, f, g, h]))))
    }

    /// Bytes that are missing in the current frame.
    fn missing(&self) -> usize {
        match self.header() {
            Ok(Some((len, ..))) => (FRAME_HEADER_BYTES + len).saturating_sub(self.end - self.start),
            _ => 0,
        }
    }
}

/// The header of a frame whose payload has `len` bytes, at most [`FRAME_BYTES_MAX`]: for callers that write the payload
/// from another buffer.
pub fn frame_header(kind: u8, channel: u32, len: usize) -> [u8; FRAME_HEADER_BYTES] {
    let [a, b, c, d] = (len as u32).to_le_bytes();
    let [e, f, g, h] = channel.to_le_bytes();
    [a, b, c, d, kind, 0, 0, 0, e, f, g, h]
}

/// Begins a frame at the end of `out`; the payload is appended before [`end_frame`], which takes the returned offset.
pub fn begin_frame(kind: u8, channel: u32, out: &mut Vec<u8>) -> usize {
    let begin = out.len();
    out.extend_from_slice(&frame_header(kind, channel, 0));
    begin
}

/// Ends a frame that begins at `begin`.
pub fn end_frame(begin: usize, out: &mut [u8]) {
    let len = out.len() - begin - FRAME_HEADER_BYTES;
    out[begin..begin + 4].copy_from_slice(&(len as u32).to_le_bytes());
}

fn looks_like(bytes: &[u8]) -> &'static str {
    let verbs: [&[u8]; 6] = [b"GET ", b"POST", b"HEAD", b"PUT ", b"OPTI", b"PRI "];
    match bytes {
        [0x16, 3, ..] => "TLS; use an address with TLS, or connect without TLS",
        [0x16] | [] => "no known protocol",
        _ if verbs.iter().any(|verb| bytes.starts_with(verb)) => "HTTP; HTTP has its own port",
        _ if bytes.starts_with(b"TAPEDB") => "another version of the protocol",
        _ => "no known protocol",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(kind: u8, channel: u32, payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let begin = begin_frame(kind, channel, &mut out);
        out.extend_from_slice(payload);
        end_frame(begin, &mut out);
        assert_eq!(out[..FRAME_HEADER_BYTES], frame_header(kind, channel, payload.len()));
        out
    }

    proptest! {
        /// The frames are decoded correctly, however their bytes are split.
        #[test]
        fn frames_are_decoded_however_their_bytes_are_split(
            frames in prop::collection::vec((any::<u8>(), any::<u32>(), prop::collection::vec(any::<u8>(), 0..300)), 1..20),
            cuts in prop::collection::vec(1usize..200, 1..50),
        ) {
            let bytes: Vec<u8> = frames.iter().flat_map(|(kind, channel, payload)| frame(*kind, *channel, payload)).collect();
            let (mut decoder, mut found, mut rest) = (Decoder::new(), Vec::new(), &bytes[..]);
            for cut in cuts.iter().cycle() {
                let (piece, after) = rest.split_at((*cut).min(rest.len()));
                decoder.push(piece);
                while let Some(Frame { kind, channel, payload }) = decoder.next_frame().unwrap() {
                    found.push((kind, channel, payload.to_vec()));
                }
                rest = after;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(found, frames);
            prop_assert!(decoder.pending().is_empty());
        }
    }

    #[test]
    fn a_long_frame_is_refused_before_memory_is_allocated() {
        let mut decoder = Decoder::with_bytes_max(100);
        decoder.push(&frame_header(1, 0, 101));
        assert_eq!(decoder.next_frame(), Err(WireError::TooLong { bytes: 101, bytes_max: 100 }));
        assert!(decoder.spare(1).len() < 1000);
    }

    #[test]
    fn a_header_with_reserved_bytes_set_is_refused() {
        let mut decoder = Decoder::new();
        decoder.push(&[0, 0, 0, 0, 9, 1, 0, 0, 0, 0, 0, 0]);
        assert!(matches!(decoder.next_frame(), Err(WireError::Invalid { kind: 9, .. })));
    }

    #[test]
    fn the_preface_comes_first() {
        let mut decoder = Decoder::new();
        decoder.push(&PREFACE[..3]);
        assert_eq!(decoder.take_preface(), Ok(false));
        decoder.push(&PREFACE[3..]);
        decoder.push(b"rest");
        assert_eq!(decoder.take_preface(), Ok(true));
        assert_eq!(decoder.pending(), b"rest");
        for (bytes, like) in
            [(&b"GET / HTTP/1.1"[..], "HTTP"), (&[0x16, 3, 1], "TLS"), (b"TAPEDB9\n", "another version")]
        {
            let mut decoder = Decoder::new();
            decoder.push(bytes);
            let error = decoder.take_preface().unwrap_err().to_string();
            assert!(error.contains(like), "{error}");
        }
    }

    #[test]
    fn the_buffer_shrinks_after_a_long_frame() {
        let mut decoder = Decoder::new();
        decoder.push(&frame(1, 1, &vec![7; 4 << 20]));
        assert_eq!(decoder.next_frame().unwrap().unwrap().payload.len(), 4 << 20);
        decoder.spare(1);
        assert!(decoder.buffer.len() <= BUFFER_BYTES_KEPT);
    }

    #[test]
    fn a_connection_opens_with_the_preface_or_a_shared_memory_request() {
        for (text, opening) in [(PREFACE, Opening::Frames), (SHM_REQUEST, Opening::SharedMemory)] {
            let mut decoder = Decoder::new();
            for byte in &text[..7] {
                decoder.push(&[*byte]);
                assert_eq!(decoder.take_opening(), Ok(None));
            }
            decoder.push(&text[7..]);
            decoder.push(b"more");
            assert_eq!(decoder.take_opening(), Ok(Some(opening)));
            assert_eq!(decoder.pending(), b"more");
        }
        for text in [&b"TAPEX"[..], b"TAPEME?", b"TAPEMEM1", b"TAPEDB2", b"x"] {
            let mut decoder = Decoder::new();
            decoder.push(text);
            assert!(decoder.take_opening().is_err(), "{text:?}");
        }
    }
}
