//! A column of integers strip by strip, for those who use each strip while it is at hand instead of all values later.

use super::EncodingError;
use super::bytes::Reader;
use super::delta::Sums;
use super::ints::{BY_RUN, IntEncoding, read_scale};
use super::packed::{Cursor, Packed, Scale};
use super::runs::Runs;
use super::strip::Strip;

/// What is left of a column that is made of groups.
pub(crate) struct Strips<'a> {
    packed: Packed<'a>,
    cursor: Cursor<'a>,
    then: Then<'a>,
    group: usize,
}

/// What becomes of the numbers in the groups.
enum Then<'a> {
    Values(Scale),
    Sums(Sums<'a>),
}

impl<'a> Strips<'a> {
    /// The first strip of `count` values that [`encode_ints`](super::encode_ints) wrote with runs that end at `ends`;
    /// `None` if it encoded them in a way that does not come in strips.
    ///
    /// # Errors
    ///
    /// When the bytes are not such a column.
    pub fn open(bytes: &'a [u8], count: usize, ends: &'a [u32]) -> Result<Option<Self>, EncodingError> {
        let mut reader = Reader::new(bytes);
        let tag = reader.byte()?;
        let (packed, then) = match IntEncoding::of(&[tag]).filter(|_| tag & BY_RUN == 0) {
            Some(IntEncoding::Packed) => {
                let scale = read_scale(&mut reader, tag)?;
                (Packed::read(&mut reader, count)?, Then::Values(scale))
            }
            Some(IntEncoding::Delta) => {
                let (scale, runs) = (read_scale(&mut reader, tag)?, Runs::new(ends, count)?);
                let firsts = Packed::read(&mut reader, runs.len())?;
                let packed = Packed::read(&mut reader, count)?;
                (packed, Then::Sums(Sums::new(scale, runs, &firsts, 0..count)))
            }
            _ => return Ok(None),
        };
        reader.finish()?;
        let cursor = packed.cursor_at(0);
        Ok(Some(Self { packed, cursor, then, group: 0 }))
    }

    /// Makes `strip` the next one. Behind the last one it stays as it is.
    pub fn next(&mut self, strip: &mut Strip) {
        if self.group == self.packed.groups() {
            return;
        }
        match &mut self.then {
            Then::Values(scale) => self.packed.decode_group(self.group, &mut self.cursor, scale, strip),
            Then::Sums(sums) => self.packed.decode_group(self.group, &mut self.cursor, sums, strip),
        }
        self.group += 1;
    }
}
