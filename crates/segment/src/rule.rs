//! What values of a column may be, for readers that do not trust who wrote them.

use crate::head::BLOCK_BYTES_MAX;
use crate::plan::ColumnKind;
use crate::stats::Stats;
use crate::values::Values;
use tapedb_codec::dynamic::TypeLayout;
use tapedb_schema::{Decimal64, Scalar, TimeOfDay, is_valid_ascii};

/// What the values of a column may be, each by itself; from [`GroupPlan::rule`](crate::GroupPlan::rule).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    kind: ColumnKind,
    what: What,
}

impl Rule {
    pub(crate) fn new(kind: ColumnKind, what: What) -> Self {
        Self { kind, what }
    }

    /// Whether all values are what they may be. `false`: they may be nevertheless, which reading rows and checking them decides.
    pub fn holds(&self, values: Values<'_>) -> bool {
        let is_of_kind = match self.kind {
            ColumnKind::F64 => matches!(values, Values::F64s(_)),
            ColumnKind::F32 => matches!(values, Values::F32s(_)),
            ColumnKind::Bytes | ColumnKind::Ascii(_) => matches!(values, Values::Bytes(..)),
            _ => matches!(values, Values::Ints(_)),
        };
        is_of_kind && self.what.holds(values)
    }

    /// Whether a look at each value by itself finds what is wrong.
    pub(crate) fn is_known(&self) -> bool {
        self.what != What::Unknown
    }

    /// [`Self::holds`] of integers read from slots of this field's width, which have these `stats`.
    pub(crate) fn holds_of_slots(&self, values: &[i64], stats: Stats) -> bool {
        let is_positive = stats.min >= 0;
        match self.what {
            What::Any | What::Bytes { .. } => true,
            What::AtMost(most) => is_positive && stats.max as u64 <= most,
            What::Decimal64 if is_positive && stats.max as u64 <= SMALL_MAX => true,
            // Of values that are all the same, one stands for all.
            what if stats.differing == 0 => what.holds(Values::Ints(&values[..values.len().min(1)])),
            what => what.holds(Values::Ints(values)),
        }
    }
}

/// The greatest decimal of the small form that is not negative, by its bits: nearly all are below.
const SMALL_MAX: u64 = (0b11 << 61) - 1;

/// What values may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// Anything: every pattern of bits is a value.
    Any,
    /// Numbers of so many bytes.
    Bytes {
        width: u8,
        signed: bool,
    },
    /// Numbers from 0 to this one.
    AtMost(u64),
    Char,
    /// Texts of at most so many bytes, padded with zeros.
    Ascii(u8),
    Decimal64,
    Utf8,
    /// More than a look at single values can tell.
    Unknown,
}

impl What {
    /// What the fixed-width values of a type may be, or its texts.
    pub fn of(ty: &TypeLayout) -> Self {
        match ty {
            TypeLayout::Scalar(scalar) => match scalar {
                Scalar::Bool => Self::AtMost(1),
                Scalar::F32 | Scalar::F64 => Self::Any,
                Scalar::Decimal64 => Self::Decimal64,
                Scalar::TimeOfDay => Self::AtMost(TimeOfDay::MAX.nanos() as u64),
                Scalar::Char => Self::Char,
                Scalar::Ascii(width) => Self::Ascii(*width),
                _ => Self::Bytes { width: scalar.width() as u8, signed: scalar.is_signed() },
            },
            TypeLayout::Enum { symbols, .. } => Self::AtMost(symbols.saturating_sub(1) as u64),
            TypeLayout::String => Self::Utf8,
            TypeLayout::Binary => Self::Any,
            TypeLayout::Array(_) | TypeLayout::Record(_) => Self::Unknown,
        }
    }

    /// What the values of a column may be that says which others there are.
    pub fn of_structure(kind: ColumnKind) -> Self {
        match kind {
            ColumnKind::Presence => Self::AtMost(1),
            ColumnKind::Tag(alternatives) => Self::AtMost(u64::from(alternatives).saturating_sub(1)),
            ColumnKind::Count => Self::AtMost(BLOCK_BYTES_MAX as u64),
            _ => Self::Unknown,
        }
    }

    fn holds(self, values: Values<'_>) -> bool {
        match (self, values) {
            (Self::Any, _) => true,
            (Self::Unknown, _) => false,
            // Every value is looked at, for as good as always all are right: so there is nothing to decide on the way.
            (Self::AtMost(most), Values::Ints(values)) => {
                !values.iter().fold(false, |wrong, value| wrong | (*value as u64 > most))
            }
            (Self::Bytes { width, signed }, Values::Ints(values)) => fit(values, width, signed),
            (Self::Decimal64, Values::Ints(values)) => are_decimals(values),
            (Self::Char, Values::Ints(values)) => values
                .iter()
                .all(|value| u32::try_from(*value).is_ok_and(|code| char::from_u32(code).is_some())),
            (Self::Ascii(width), Values::Ints(values)) => {
                let is_wrong = |value: &i64| !is_valid_ascii(&value.to_le_bytes());
                fit(values, width, false)
                    && !values.iter().fold(false, |wrong, value| wrong | is_wrong(value))
            }
            (Self::Ascii(width), Values::Bytes(ends, content)) => texts(ends, content)
                .all(|text| text.is_some_and(|text| text.len() <= width.into() && is_valid_ascii(text))),
            (Self::Utf8, Values::Bytes(ends, content)) => {
                texts(ends, content).all(|text| text.is_some_and(|text| str::from_utf8(text).is_ok()))
            }
            _ => false,
        }
    }
}

/// Whether numbers have at most so many bytes.
fn fit(values: &[i64], width: u8, signed: bool) -> bool {
    let bits = 64 - 8 * u32::from(width.clamp(1, 8));
    let cut =
        |value: i64| if signed { value << bits >> bits } else { ((value as u64) << bits >> bits) as i64 };
    values.iter().fold(0, |wrong, value| wrong | (cut(*value) ^ value)) == 0
}

fn are_decimals(values: &[i64]) -> bool {
    let is_doubtful = values.iter().fold(false, |doubtful, value| doubtful | (*value as u64 > SMALL_MAX));
    !is_doubtful || values.iter().all(|bits| Decimal64::from_bits(*bits as u64).is_canonical())
}

/// The texts; `None` for one that is not there.
fn texts<'a>(ends: &'a [u32], content: &'a [u8]) -> impl Iterator<Item = Option<&'a [u8]>> {
    let mut start = 0;
    ends.iter().map(move |end| {
        let from = std::mem::replace(&mut start, *end as usize);
        content.get(from..start)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ints(what: What, values: &[i64]) -> bool {
        what.holds(Values::Ints(values))
    }

    #[test]
    fn numbers_are_within_their_bytes() {
        let signed = What::Bytes { width: 1, signed: true };
        assert!(ints(signed, &[-128, 0, 127]) && !ints(signed, &[128]) && !ints(signed, &[0, -129]));
        let unsigned = What::Bytes { width: 2, signed: false };
        assert!(ints(unsigned, &[0, 65_535]) && !ints(unsigned, &[65_536]) && !ints(unsigned, &[-1]));
        for signed in [true, false] {
            assert!(ints(What::Bytes { width: 8, signed }, &[i64::MIN, -1, 0, i64::MAX]));
        }
        assert!(
            ints(What::AtMost(1), &[0, 1])
                && !ints(What::AtMost(1), &[0, 2])
                && !ints(What::AtMost(1), &[-1])
        );
    }

    #[test]
    fn texts_are_texts() {
        assert!(ints(What::Char, &['ä' as i64]) && !ints(What::Char, &[0xd800]) && !ints(What::Char, &[-1]));
        let text = |text: &[u8]| {
            let mut bytes = [0; 8];
            bytes[..text.len()].copy_from_slice(text);
            i64::from_le_bytes(bytes)
        };
        assert!(ints(What::Ascii(3), &[text(b"abc"), text(b"")]));
        for wrong in [&b"abcd"[..], b"a\0b", b"\xff"] {
            assert!(!ints(What::Ascii(3), &[text(wrong)]), "{wrong:?}");
        }
        let bytes = |what: What, ends: &[u32], content: &[u8]| what.holds(Values::Bytes(ends, content));
        assert!(bytes(What::Ascii(9), &[9, 9], b"abcdefghi"));
        assert!(!bytes(What::Ascii(9), &[10], b"abcdefghij") && !bytes(What::Ascii(9), &[1], b"\x80"));
        assert!(bytes(What::Utf8, &[2, 2, 3], "äb".as_bytes()));
        // Each value by itself, and all of them there.
        assert!(!bytes(What::Utf8, &[1, 2], "ä".as_bytes()) && !bytes(What::Utf8, &[2, 1], b"ab"));
        assert!(!bytes(What::Utf8, &[5], b"ab") && bytes(What::Any, &[1], b"\xff"));
        assert!(!bytes(What::Unknown, &[0], b""));
    }

    #[test]
    fn values_are_of_the_kind_of_their_column() {
        let any = |kind| Rule::new(kind, What::Any);
        assert!(any(ColumnKind::F64).holds(Values::F64s(&[f64::NAN])));
        assert!(
            !any(ColumnKind::F64).holds(Values::Ints(&[1])) && !any(ColumnKind::F32).holds(Values::F64s(&[]))
        );
        assert!(any(ColumnKind::Bytes).holds(Values::Bytes(&[1], b"x")));
        assert!(
            !any(ColumnKind::Bytes).holds(Values::Ints(&[]))
                && !any(ColumnKind::Count).holds(Values::F64s(&[]))
        );
    }

    #[test]
    fn decimals_are_canonical() {
        let bits = |text: &str| text.parse::<Decimal64>().unwrap().to_bits() as i64;
        assert!(ints(
            What::Decimal64,
            &[bits("1.5"), bits("-1.5"), bits("NaN"), bits("9999999999999999E369")]
        ));
        let wrong = (0..64)
            .map(|bit| bits("NaN") | 1 << bit)
            .find(|bits| !Decimal64::from_bits(*bits as u64).is_canonical());
        assert!(!ints(What::Decimal64, &[bits("1.5"), wrong.unwrap()]));
    }
}
