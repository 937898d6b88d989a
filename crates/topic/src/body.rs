//! Bodies of messages to be written into the ring.
//!
//! `fill_frame` has the only `unsafe` of this crate: that the claim makes the bytes exclusive is known here, not in `tapedb_shm`.

use crate::error::TopicError;
use crate::format::FRAME_HEADER;
use crate::ring::Ring;
use std::mem::MaybeUninit;
use tapedb_codec::Record;
use tapedb_shm::WORD;

/// A body that is to be published.
pub(crate) trait Body {
    /// Most bytes it takes.
    fn bound(&self) -> usize;
    /// Writes it, and returns how many bytes it took.
    fn write(&self, to: &mut [MaybeUninit<u8>]) -> usize;
    /// Appends it.
    fn append(&self, to: &mut Vec<u8>);
}

/// A record of a Rust type.
pub(crate) struct Typed<'a, T>(pub &'a T);

impl<T: Record> Body for Typed<'_, T> {
    #[inline(always)]
    fn bound(&self) -> usize {
        self.0.bound()
    }
    #[inline(always)]
    fn write(&self, to: &mut [MaybeUninit<u8>]) -> usize {
        tapedb_codec::encode_into(self.0, to)
    }
    fn append(&self, to: &mut Vec<u8>) {
        tapedb_codec::encode(self.0, to);
    }
}

/// A body that is encoded already.
pub(crate) struct Encoded<'a>(pub &'a [u8]);

impl Body for Encoded<'_> {
    fn bound(&self) -> usize {
        self.0.len()
    }
    fn write(&self, to: &mut [MaybeUninit<u8>]) -> usize {
        to.iter_mut().zip(self.0).for_each(|(to, from)| {
            to.write(*from);
        });
        self.0.len()
    }
    fn append(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(self.0);
    }
}

/// Writes a body into its frame.
#[inline(always)]
#[expect(unsafe_code, reason = "bodies are encoded in the ring")]
pub(crate) fn fill_frame(ring: &Ring, position: u64, body: &impl Body) -> usize {
    let first = ring.view().word_at(position) + FRAME_HEADER as usize / WORD;
    // SAFETY: the frame is claimed, or this publisher is exclusive and the frame lies beyond the tail and within the limit; it
    // is not committed, and only `write` gets `bytes`, whose borrow ends here.
    let bytes = unsafe { ring.words.bytes_mut(first, body.bound()) };
    body.write(bytes)
}

/// Refuses a body that is too long.
#[inline(always)]
pub(crate) fn check_size(ring: &Ring, body: usize) -> Result<(), TopicError> {
    let most = body_bytes_max(ring);
    if body > most { Err(too_large(body, most)) } else { Ok(()) }
}

/// Longest body: half of a claim, because the rest of the lap may have to be claimed too.
pub(crate) fn body_bytes_max(ring: &Ring) -> usize {
    ((ring.shape.claim_bytes_max() / 2 - FRAME_HEADER) as usize).min((1 << 24) - 1)
}

#[cold]
fn too_large(body: usize, most: usize) -> TopicError {
    TopicError::TooLarge { bytes: body as u64, most: most as u64 }
}
