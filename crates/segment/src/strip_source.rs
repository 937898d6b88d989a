//! Where the values of a field come from, strip by strip.

use crate::coefficients::{DecimalForm, restore};
use crate::damage::Flaw;
use crate::encoding::{COUNT_MAX, GROUP, Strip, Strips};
use crate::spaced::Spaced;

/// A fixed-width field whose values differ from body to body.
pub(crate) struct Varying<'a> {
    /// Number of the column.
    pub column: usize,
    /// Where the field's slot lies in a body.
    pub offset: u32,
    /// Bytes of the slot.
    pub width: u32,
    pub source: StripSource<'a>,
    /// What the values are added to.
    pub follows: Option<Follows>,
}

/// Where the values of a column come from.
pub(crate) enum StripSource<'a> {
    Strips(Box<Strips<'a>>),
    /// They have been decoded.
    Values(Vec<i64>),
    /// The same for a slot of one byte.
    Bytes(Vec<u8>),
    /// All are this one.
    Same(i64),
    /// Of more values than an encoding takes: the pieces that the column is cut into.
    Pieces(Vec<StripSource<'a>>),
    Decimals(Box<DecimalStrips<'a>>),
    /// Of a nullable field: the values that are there, and where they are.
    Spaced(Box<(Spaced<'a>, StripSource<'a>)>),
}

/// The column that another one is the difference to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Follows {
    /// Its number; later its index among those that vary.
    pub other: usize,
    /// Its value one place before in the run counts.
    pub previous: bool,
}

/// Strips of a piece.
const PIECE: usize = COUNT_MAX / GROUP;

impl StripSource<'_> {
    /// Makes `strip` number `index`; they come in order.
    pub fn next(&mut self, index: usize, strip: &mut Strip) {
        match self {
            Self::Strips(strips) => strips.next(strip),
            Self::Values(values) => {
                let values = values.chunks(GROUP).nth(index).unwrap_or_default();
                strip.set_wide(values);
            }
            Self::Bytes(values) => {
                let values = values.chunks(GROUP).nth(index).unwrap_or_default();
                let wide = strip.offsets.iter_mut().zip(values);
                wide.for_each(|(offset, value)| *offset = u32::from(*value));
                (strip.base, strip.is_narrow) = (0, true);
            }
            Self::Same(value) => strip.fill(*value),
            Self::Pieces(pieces) => {
                if let Some(piece) = pieces.get_mut(index / PIECE) {
                    piece.next(index % PIECE, strip);
                }
            }
            Self::Decimals(decimals) => decimals.next(index, strip),
            Self::Spaced(spaced) => {
                let (spaced, source) = &mut **spaced;
                spaced.next(index, strip, |index, strip| source.next(index, strip));
            }
        }
    }

    /// The first value that cannot be: what strips hold from there on means nothing. Only after all strips.
    pub fn flaw(&self) -> Option<Flaw> {
        match self {
            Self::Decimals(decimals) => decimals.flaw,
            Self::Spaced(spaced) => spaced.1.flaw(),
            Self::Strips(_) | Self::Values(_) | Self::Bytes(_) | Self::Same(_) | Self::Pieces(_) => None,
        }
    }
}

/// What is left of a column of decimals.
pub(crate) struct DecimalStrips<'a> {
    header: DecimalForm,
    numbers: StripSource<'a>,
    /// With memory for a strip of it.
    shifts: Option<(StripSource<'a>, Strip)>,
    /// Numbers of the strips that have not been read.
    left: usize,
    flaw: Option<Flaw>,
    /// Strips have the coefficients as they are stored.
    is_raw: bool,
}

impl<'a> DecimalStrips<'a> {
    /// `count` numbers of a column without exceptions that has this header, with `shifts` if it has any.
    pub fn new(
        header: DecimalForm,
        numbers: StripSource<'a>,
        shifts: Option<StripSource<'a>>,
        count: usize,
    ) -> Self {
        let shifts = shifts.map(|source| (source, Strip::default()));
        Self { header, numbers, shifts, left: count, flaw: None, is_raw: false }
    }

    /// Leaves the coefficients as they are stored, to be restored later by what is returned, and by [`Self::shifts`] if there are any;
    /// `None`: there are, and not `with_shifts`.
    pub fn stay_raw(&mut self, with_shifts: bool) -> Option<DecimalForm> {
        self.is_raw = with_shifts || self.shifts.is_none();
        self.is_raw.then_some(self.header)
    }

    /// The shifts of the strip that was made last, if coefficients stay as they are stored and need them.
    pub fn shifts(&self) -> Option<&Strip> {
        self.shifts.as_ref().filter(|_| self.is_raw).map(|(_, shifts)| shifts)
    }

    /// Makes `strip` number `index`; they come in order.
    fn next(&mut self, index: usize, strip: &mut Strip) {
        let count = self.left.min(GROUP);
        self.left -= count;
        self.numbers.next(index, strip);
        if self.is_raw {
            self.shifts.iter_mut().for_each(|(source, shifts)| source.next(index, shifts));
            return;
        }
        strip.widen();
        let shifts = match &mut self.shifts {
            Some((source, shifts)) => {
                source.next(index, shifts);
                shifts.widen();
                &shifts.wide[..count]
            }
            None => &[0; GROUP][..count],
        };
        let restored = restore(self.header, &mut strip.wide[..count], shifts);
        self.flaw = self.flaw.or(restored.err());
    }
}
