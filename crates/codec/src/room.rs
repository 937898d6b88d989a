//! Spare capacity of a buffer, filled from the front: how bodies are written without growing a `Vec` field by field.
//!
//! A [`Room`] goes by value from field to field, so that its two words stay in registers; the buffer's length is set
//! once, at the end. All of this crate's `unsafe` is below.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;

/// What is left of the spare capacity that [`append`] reserved.
#[derive(Debug)]
pub struct Room<'a>(&'a mut [MaybeUninit<u8>]);

impl<'a> Room<'a> {
    /// Bytes left.
    #[inline(always)]
    pub fn left(&self) -> usize {
        self.0.len()
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
    /// As [`Room::take`].
    #[inline(always)]
    pub fn put(self, bytes: &[u8]) -> Self {
        let Some((head, rest)) = self.0.split_at_mut_checked(bytes.len()) else { too_small() };
        head.copy_from_slice(uninit(bytes));
        Self(rest)
    }

    /// The next `length` bytes, zeroed, and what is left after them.
    ///
    /// # Panics
    /// As [`Room::take`].
    #[inline]
    pub fn zeroed(self, length: usize) -> (&'a mut [u8], Self) {
        let Some((head, rest)) = self.0.split_at_mut_checked(length) else { too_small() };
        head.fill(MaybeUninit::new(0));
        // SAFETY: all of `head` was initialised in the line above, and `u8` has the layout of `MaybeUninit<u8>`.
        let head = unsafe { &mut *(std::ptr::from_mut(head) as *mut [u8]) };
        (head, Self(rest))
    }
}

/// Appends to `out` what `fill` puts into the room that it is given, which has at least `bound` bytes.
#[inline(always)]
pub fn append(out: &mut Vec<u8>, bound: usize, fill: impl for<'a> FnOnce(Room<'a>) -> Room<'a>) {
    out.reserve(bound);
    let spare = out.spare_capacity_mut();
    let before = spare.len();
    let filled = before - fill(Room(spare)).left();
    // SAFETY: the room that came back is the end of the one that was given: its lifetime leaves `fill` no other, and
    // rooms are only cut from the front by `take`, `zeroed` and `put`, which initialise what they cut. So the first `filled` bytes
    // of the spare capacity are initialised, and they are within the capacity.
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
    fn fills_from_the_front_and_keeps_what_was_there() {
        let mut out = vec![1];
        append(&mut out, 100, |room| {
            let (chunk, room) = room.take::<3>();
            chunk[1] = 7;
            room.put(&[8, 9]).zeroed(2).1.put(&[])
        });
        assert_eq!(out, [1, 0, 7, 0, 8, 9, 0, 0]);
    }

    #[test]
    fn unused_room_is_not_part_of_the_buffer() {
        let mut out = Vec::new();
        append(&mut out, 100, |room| room);
        assert!(out.is_empty() && out.capacity() >= 100);
    }

    #[test]
    #[should_panic(expected = "a layout's bound")]
    fn more_than_the_room_is_refused() {
        let mut out = Vec::with_capacity(4);
        append(&mut out, 0, |room| room.put(&[0; 64]));
    }
}
