//! Spare capacity of a buffer, filled from the front: how bodies are written without growing a `Vec` field by field.
//!
//! A [`Spare`] goes by value from field to field, so that its two words stay in registers; the buffer's length is set
//! once, at the end. All of this crate's `unsafe` is below.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;

/// The rest of the spare capacity that `append` reserved.
#[derive(Debug)]
pub struct Spare<'a>(&'a mut [MaybeUninit<u8>]);

impl<'a> Spare<'a> {
    /// All of `bytes`.
    #[inline(always)]
    pub(crate) fn new(bytes: &'a mut [MaybeUninit<u8>]) -> Self {
        Self(bytes)
    }

    /// Bytes left.
    #[inline(always)]
    pub fn left(&self) -> usize {
        self.0.len()
    }

    /// The next `N` bytes, to be filled one field after the other.
    ///
    /// # Panics
    /// As [`Spare::take`].
    #[inline(always)]
    pub fn fixed<const N: usize>(self) -> FixedPart<'a, N> {
        let Some((bytes, rest)) = self.0.split_first_chunk_mut::<N>() else { too_small() };
        FixedPart { bytes, filled: 0, rest: Self(rest) }
    }

    /// The next `N` bytes, zeroed, and what is left after them.
    ///
    /// # Panics
    /// When less than `N` bytes are left: a [`Layout::bound`](crate::Layout::bound) was too small.
    #[inline(always)]
    pub fn take<const N: usize>(self) -> (&'a mut [u8; N], Self) {
        let Some((head, rest)) = self.0.split_first_chunk_mut::<N>() else { too_small() };
        *head = [MaybeUninit::new(0); N];
        // SAFETY: all N bytes were initialised in the line above, and `u8` has the layout of `MaybeUninit<u8>`.
        let head = unsafe { &mut *std::ptr::from_mut(head).cast::<[u8; N]>() };
        (head, Self(rest))
    }

    /// Fills the next bytes with `bytes`.
    ///
    /// # Panics
    /// As [`Spare::take`].
    #[inline(always)]
    pub fn put(self, bytes: &[u8]) -> Self {
        let Some((head, rest)) = self.0.split_at_mut_checked(bytes.len()) else { too_small() };
        head.copy_from_slice(uninit(bytes));
        Self(rest)
    }

    /// The next `length` bytes, zeroed, and what is left after them.
    ///
    /// # Panics
    /// As [`Spare::take`].
    #[inline]
    pub fn zeroed(self, length: usize) -> (&'a mut [u8], Self) {
        let Some((head, rest)) = self.0.split_at_mut_checked(length) else { too_small() };
        head.fill(MaybeUninit::new(0));
        // SAFETY: all of `head` was initialised in the line above, and `u8` has the layout of `MaybeUninit<u8>`.
        let head = unsafe { &mut *(std::ptr::from_mut(head) as *mut [u8]) };
        (head, Self(rest))
    }
}

/// The fixed part of a body, filled from the front: nothing is zeroed that is overwritten anyway.
///
/// Always true: the first `filled` bytes are initialised.
#[derive(Debug)]
pub struct FixedPart<'a, const N: usize> {
    bytes: &'a mut [MaybeUninit<u8>; N],
    filled: usize,
    rest: Spare<'a>,
}

impl<'a, const N: usize> FixedPart<'a, N> {
    /// Fills the next bytes with `bytes`.
    ///
    /// # Panics
    /// When less bytes are left.
    #[inline(always)]
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes[self.filled..self.filled + bytes.len()].copy_from_slice(uninit(bytes));
        self.filled += bytes.len();
    }

    /// The next `width` bytes, zeroed.
    ///
    /// # Panics
    /// When less than `width` bytes are left.
    #[inline(always)]
    pub fn next(&mut self, width: usize) -> &mut [u8] {
        let slot = &mut self.bytes[self.filled..self.filled + width];
        slot.fill(MaybeUninit::new(0));
        self.filled += width;
        // SAFETY: all of `slot` was initialised two lines above, and `u8` has the layout of `MaybeUninit<u8>`.
        unsafe { &mut *(std::ptr::from_mut(slot) as *mut [u8]) }
    }

    /// The bytes filled so far.
    #[inline(always)]
    pub fn filled(&mut self) -> &mut [u8] {
        let filled = &mut self.bytes[..self.filled];
        // SAFETY: `filled` grows in `next` and `push` alone, by bytes that are initialised there; `u8` has the layout of
        // `MaybeUninit<u8>`.
        unsafe { &mut *(std::ptr::from_mut(filled) as *mut [u8]) }
    }

    /// The whole fixed part, and what is left after it.
    ///
    /// # Panics
    /// When it has not been filled.
    #[inline(always)]
    pub fn finish(self) -> (&'a mut [u8; N], Spare<'a>) {
        assert!(self.filled == N, "a fixed part was not filled");
        // SAFETY: all N bytes are initialised, as the type promises; `u8` has the layout of `MaybeUninit<u8>`.
        let bytes = unsafe { &mut *std::ptr::from_mut(self.bytes).cast::<[u8; N]>() };
        (bytes, self.rest)
    }
}

/// Appends to `out` the bytes that `fill` puts into the spare capacity, which has at least `bound` bytes.
#[inline(always)]
pub fn append(out: &mut Vec<u8>, bound: usize, fill: impl for<'a> FnOnce(Spare<'a>) -> Spare<'a>) {
    out.reserve(bound);
    let spare = out.spare_capacity_mut();
    let before = spare.len();
    let filled = before - fill(Spare(spare)).left();
    // SAFETY: the returned `Spare` is the end of the given one: its lifetime leaves `fill` no other, and it is only cut
    // from the front by `take`, `zeroed` and `put`, which initialise the bytes they cut, and by `fixed`, whose part holds
    // the rest until it is filled. So the first `filled` bytes of the spare capacity are initialised, and
    // they are within the capacity.
    unsafe { out.set_len(out.len() + filled) };
}

/// Initialised bytes are a special case of bytes that may be.
#[inline(always)]
fn uninit(bytes: &[u8]) -> &[MaybeUninit<u8>] {
    // SAFETY: `MaybeUninit<u8>` has the layout of `u8`, and through a shared reference nothing can be made uninitialised.
    unsafe { &*(std::ptr::from_ref(bytes) as *const [MaybeUninit<u8>]) }
}

#[cold]
#[inline(never)]
fn too_small() -> ! {
    panic!("a layout's bound is smaller than what it writes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fills_from_the_front_and_preserves_earlier_bytes() {
        let mut out = vec![1];
        append(&mut out, 100, |spare| {
            let (chunk, spare) = spare.take::<3>();
            chunk[1] = 7;
            spare.put(&[8, 9]).zeroed(2).1.put(&[])
        });
        assert_eq!(out, [1, 0, 7, 0, 8, 9, 0, 0]);
    }

    #[test]
    fn unused_capacity_is_not_part_of_the_buffer() {
        let mut out = Vec::new();
        append(&mut out, 100, |spare| spare);
        assert!(out.is_empty() && out.capacity() >= 100);
    }

    #[test]
    fn a_fixed_part_is_filled_in_order() {
        let mut out = vec![1];
        append(&mut out, 100, |spare| {
            let mut part = spare.fixed::<4>();
            part.next(1)[0] = 2;
            part.next(3)[1] = 3;
            part.filled()[0] |= 4;
            let (bytes, spare) = part.finish();
            bytes[3] = 5;
            spare.put(&[6])
        });
        assert_eq!(out, [1, 6, 0, 3, 5, 6]);
    }

    #[test]
    #[should_panic(expected = "was not filled")]
    fn a_fixed_part_with_a_hole_is_refused() {
        append(&mut Vec::new(), 100, |spare| {
            let mut part = spare.fixed::<4>();
            part.next(3);
            part.finish().1
        });
    }

    #[test]
    #[should_panic(expected = "a layout's bound")]
    fn more_than_the_bound_is_refused() {
        let mut out = Vec::with_capacity(4);
        append(&mut out, 0, |spare| spare.put(&[0; 64]));
    }
}
