//! Frames of reference: a column as groups of 128 bit-packed distances from a base of each group.
//!
//! Every other integer encoding is made of one or more of these. What lies in the groups (values, differences, indexes)
//! is the business of the [`Sink`] that they are decoded into.

use std::ops::Range;

use super::EncodingError;
use super::bytes::{Reader, bit_width, byte_width, in_range, read_le, unzigzag, write_signed_varint, zigzag};
use super::groups::{
    GROUP, Packing, exception_width, pack, pack_words, payload_size, unpack_any, unpack_narrow,
};
use super::strip::{OFFSET_BITS, Strip};
use crate::simd::widest;

const BASE_BYTES: u8 = 0x0f;
const HAS_EXCEPTIONS: u8 = 0x10;
/// Bits of an exception of two bytes, without its sign.
pub(super) const EXCEPTION_BITS: u8 = 15;

/// About the bytes that [`encode`] writes for `values`, from every `step`-th group.
pub(super) fn estimate(values: &[i64], step: usize) -> usize {
    let sampled = values.chunks(GROUP).step_by(step);
    let sample: usize = sampled.clone().map(|group| Packing::of(group).cost + 2).sum();
    sample * values.len().div_ceil(GROUP) / sampled.len().max(1) + 2
}

/// Appends `values`.
pub(super) fn encode(values: &[i64], out: &mut Vec<u8>) {
    let plans: Vec<Packing> = values.chunks(GROUP).map(Packing::of).collect();
    let base = plans.iter().map(|plan| plan.base).min().unwrap_or(0);
    let widest = plans.iter().map(|plan| plan.base.wrapping_sub(base) as u64).max().unwrap_or(0);
    let base_bytes = byte_width(widest);
    let exceptional = plans.iter().any(|plan| plan.exceptions > 0);

    out.push(base_bytes as u8 | if exceptional { HAS_EXCEPTIONS } else { 0 });
    write_signed_varint(base, out);
    out.extend(plans.iter().map(|plan| plan.width));
    if exceptional {
        out.extend(plans.iter().map(|plan| plan.exceptions));
    }
    for plan in plans.iter().filter(|_| base_bytes > 0) {
        out.extend(&(plan.base.wrapping_sub(base) as u64).to_le_bytes()[..base_bytes]);
    }
    for (group, plan) in values.chunks(GROUP).zip(&plans) {
        encode_residuals(group, plan, out);
    }
    for (group, plan) in values.chunks(GROUP).zip(&plans).filter(|(_, plan)| plan.exceptions > 0) {
        encode_exceptions(group, plan, out);
    }
}

fn encode_residuals(group: &[i64], plan: &Packing, out: &mut Vec<u8>) {
    if plan.width == 0 {
        return;
    }
    if plan.width <= 32
        && plan.exceptions == 0
        && let Ok(group) = <&[i64; GROUP]>::try_from(group)
    {
        let words = widest(
            #[inline(always)]
            || group.map(|value| value.wrapping_sub(plan.base) as u32),
        );
        return pack_words(&words, plan.width, out);
    }
    let mut residuals = [0; GROUP];
    for (residual, &value) in residuals.iter_mut().zip(group) {
        *residual = plan.residual(value).unwrap_or(0);
    }
    pack(&residuals[..group.len()], plan.width, out);
}

fn encode_exceptions(group: &[i64], plan: &Packing, out: &mut Vec<u8>) {
    let Some(width) = exceptions(group, plan).map(|(_, value)| exception_width(value, plan.base)).max()
    else {
        return;
    };
    out.push(width as u8);
    out.extend(exceptions(group, plan).map(|(position, _)| position as u8));
    for (_, value) in exceptions(group, plan) {
        out.extend(&zigzag(value.wrapping_sub(plan.base)).to_le_bytes()[..width]);
    }
}

fn exceptions<'a>(group: &'a [i64], plan: &'a Packing) -> impl Iterator<Item = (usize, i64)> + 'a {
    group.iter().copied().enumerate().filter(|&(_, value)| plan.residual(value).is_none())
}

/// A linear map from what is packed to the values of the column: `offset + divisor * packed`. All arithmetic wraps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scale {
    pub(super) divisor: i64,
    pub(super) offset: i64,
}

impl Scale {
    pub(super) const NONE: Self = Self { divisor: 1, offset: 0 };

    #[inline(always)]
    pub(super) fn apply(self, packed: i64) -> i64 {
        self.offset.wrapping_add(self.divisor.wrapping_mul(packed))
    }
}

/// What becomes of the packed numbers of a group. All arithmetic wraps.
pub(super) trait Sink {
    /// Whether groups of this base and width, exceptions of up to two bytes included, stay narrow. A group of width 0 is
    /// called only if it has exceptions: without any it is [`Self::same`].
    fn fits(&self, base: i64, width: u8) -> bool;

    /// All numbers are `base`.
    fn same(&mut self, base: i64, strip: &mut Strip);

    /// The numbers are `base` plus the residuals in `payload`, a full group that fits: most groups, so the fast way.
    fn narrow(&mut self, base: i64, payload: &[u8], width: u8, strip: &mut Strip);

    /// The numbers are `base` plus the strip's offsets, a full group that fits.
    fn patched(&mut self, base: i64, strip: &mut Strip);

    /// The numbers are `base` plus the residuals in `payload`, a full group of up to 24 bits that does not fit; `false`:
    /// they have to be unpacked and settled.
    fn wide(&mut self, _base: i64, _payload: &[u8], _width: u8, _strip: &mut Strip) -> bool {
        false
    }

    /// The numbers are the wide ones of the strip, to be replaced by what becomes of them.
    fn settle(&mut self, strip: &mut Strip, count: usize);
}

/// The numbers are the values, but for their scale.
impl Sink for Scale {
    /// A residual is below 2^`width`, an exception of two bytes is from -2^15 to 2^15 - 1: times the divisor, both are
    /// below 2^(max(`width`, 15) + bits of the divisor), which is at most 2^28. The base is not in the offsets.
    fn fits(&self, _: i64, width: u8) -> bool {
        usize::from(width.max(EXCEPTION_BITS)) + bit_width(self.divisor as u64) < OFFSET_BITS
    }

    fn same(&mut self, base: i64, strip: &mut Strip) {
        strip.fill(self.apply(base));
    }

    fn narrow(&mut self, base: i64, payload: &[u8], width: u8, strip: &mut Strip) {
        unpack_narrow(payload, width, &mut strip.offsets);
        self.patched(base, strip);
    }

    fn patched(&mut self, base: i64, strip: &mut Strip) {
        (strip.base, strip.is_narrow) = (self.apply(base), true);
        strip.stretch(self.divisor as u32, 0);
    }

    fn settle(&mut self, strip: &mut Strip, _: usize) {
        strip.is_narrow = false;
        if *self != Self::NONE {
            strip.wide.iter_mut().for_each(|value| *value = self.apply(*value));
        }
    }
}

/// The parts of an encoded column, lengths and widths checked.
pub(super) struct Packed<'a> {
    count: usize,
    base: i64,
    base_bytes: usize,
    widths: &'a [u8],
    /// Exceptions of each group; empty when no group has one.
    counts: &'a [u8],
    bases: &'a [u8],
    payload: &'a [u8],
    exceptions: &'a [u8],
}

impl<'a> Packed<'a> {
    /// Takes `count` values off `reader`.
    pub(super) fn read(reader: &mut Reader<'a>, count: usize) -> Result<Self, EncodingError> {
        let groups = count.div_ceil(GROUP);
        let offset = reader.offset();
        let flags = reader.byte()?;
        in_range("flags", offset, flags.into(), (HAS_EXCEPTIONS | 8).into())?;
        let base_bytes = usize::from(flags & BASE_BYTES);
        in_range("bytes of a base", offset, base_bytes as u64, 8)?;
        let base = reader.signed_varint()?;
        let widths = read_limited(reader, "width", groups, 64)?;
        let exceptional = flags & HAS_EXCEPTIONS != 0;
        let counts =
            read_limited(reader, "exceptions of a group", if exceptional { groups } else { 0 }, GROUP as u8)?;
        let bases = reader.take(groups * base_bytes)?;
        let payload = reader.take(
            widths.iter().enumerate().map(|(g, &width)| payload_size(group_len(count, g), width)).sum(),
        )?;
        let exceptions = read_exceptions(reader, count, counts)?;
        Ok(Self { count, base, base_bytes, widths, counts, bases, payload, exceptions })
    }

    /// Replaces `out` by all numbers as they are.
    pub(super) fn decode(&self, out: &mut Vec<i64>) {
        self.decode_rows(0..self.count, Scale::NONE, out);
    }

    /// Replaces `out` by the values of `rows`, which lie within the column.
    pub(super) fn decode_rows(&self, rows: Range<usize>, mut scale: Scale, out: &mut Vec<i64>) {
        // No clearing first: what is there already is overwritten, and zeroing it would cost a tenth of the decoding.
        out.resize(rows.len(), 0);
        self.decode_into(rows.start, rows, &mut scale, out);
    }

    /// Fills `out` with what `sink` makes of `rows`. It is given whole groups, from that of row `from` on.
    pub(super) fn decode_into(&self, from: usize, rows: Range<usize>, sink: &mut impl Sink, out: &mut [i64]) {
        if rows.is_empty() {
            return;
        }
        let first = from / GROUP;
        let mut cursor = self.cursor_at(first);
        let mut strip = Strip::default();
        for g in first..rows.end.div_ceil(GROUP) {
            let group = g * GROUP..(g * GROUP + group_len(self.count, g));
            self.decode_group(g, &mut cursor, sink, &mut strip);
            let wanted = rows.start.max(group.start)..rows.end.min(group.end);
            if wanted.is_empty() {
                continue;
            }
            let out = &mut out[wanted.start - rows.start..wanted.end - rows.start];
            match wanted.start - group.start {
                0 => strip.write(out),
                skip => out.iter_mut().zip(skip..).for_each(|(value, i)| *value = strip.value(i)),
            }
        }
    }

    /// Appends the values of single `rows`, which ascend, from groups that mean something without the others; `sink` is what
    /// takes a group of that number.
    pub(super) fn decode_at<S: Sink>(&self, rows: &[u32], sink: impl Fn(usize) -> S, out: &mut Vec<i64>) {
        let (mut cursor, mut strip) = (self.cursor_at(0), Strip::default());
        let mut next = 0;
        for rows in rows.chunk_by(|a, b| *a as usize / GROUP == *b as usize / GROUP) {
            let group = rows[0] as usize / GROUP;
            (next..group).for_each(|group| self.skip(group, &mut cursor));
            self.decode_group(group, &mut cursor, &mut sink(group), &mut strip);
            out.extend(rows.iter().map(|row| strip.value(*row as usize % GROUP)));
            next = group + 1;
        }
    }

    /// Leaves a group out.
    fn skip(&self, group: usize, cursor: &mut Cursor<'a>) {
        cursor.payload(payload_size(GROUP, self.widths[group]));
        if let Some(&count) = self.counts.get(group) {
            cursor.exceptions(count.into());
        }
    }

    /// Groups of the column.
    pub(super) fn groups(&self) -> usize {
        self.count.div_ceil(GROUP)
    }

    /// Makes `strip` what `sink` makes of group `g`, whose payload comes next.
    pub(super) fn decode_group(
        &self,
        g: usize,
        cursor: &mut Cursor<'a>,
        sink: &mut impl Sink,
        strip: &mut Strip,
    ) {
        let (count, width) = (group_len(self.count, g), self.widths[g]);
        let base = self.base.wrapping_add(read_le(self.bases, g * self.base_bytes, self.base_bytes) as i64);
        let payload = cursor.payload(payload_size(count, width));
        let exceptions = self.counts.get(g).copied().unwrap_or(0);
        if exceptions == 0 && width == 0 {
            return sink.same(base, strip);
        }
        let exceptions = cursor.exceptions(exceptions.into());
        if count == GROUP && exceptions.width <= 2 && sink.fits(base, width) {
            if exceptions.positions.is_empty() {
                return sink.narrow(base, payload, width, strip);
            }
            unpack_narrow(payload, width, &mut strip.offsets);
            exceptions.each(|position, distance| strip.offsets[position] = distance as u32);
            return sink.patched(base, strip);
        }
        let is_simple = count == GROUP && width <= 24 && exceptions.positions.is_empty();
        if is_simple && sink.wide(base, payload, width, strip) {
            return;
        }
        unpack_any(payload, width, base, &mut strip.offsets, &mut strip.wide[..count]);
        exceptions.each(|position, distance| strip.wide[position] = base.wrapping_add(distance));
        sink.settle(strip, count);
        if count < GROUP {
            // The last one of a column, which otherwise might be its only wide one.
            strip.narrow(count);
        }
    }

    pub(super) fn cursor_at(&self, group: usize) -> Cursor<'a> {
        let mut cursor = Cursor { payload: self.payload, exceptions: self.exceptions };
        (0..group).for_each(|group| self.skip(group, &mut cursor));
        cursor
    }
}

/// What is left of payload and exceptions; [`Packed::read`] has made sure that it is enough.
pub(super) struct Cursor<'a> {
    payload: &'a [u8],
    exceptions: &'a [u8],
}

/// Numbers of a group that are not packed.
struct Exceptions<'a> {
    positions: &'a [u8],
    /// Distances from the base, in zigzag.
    values: &'a [u8],
    /// Bytes of a value.
    width: usize,
}

impl Exceptions<'_> {
    #[inline]
    fn each(&self, mut take: impl FnMut(usize, i64)) {
        for (i, &position) in self.positions.iter().enumerate() {
            take(position.into(), unzigzag(read_le(self.values, i * self.width, self.width)));
        }
    }
}

impl<'a> Cursor<'a> {
    fn payload(&mut self, size: usize) -> &'a [u8] {
        let (taken, rest) = self.payload.split_at(size);
        self.payload = rest;
        taken
    }

    /// The next `count` exceptions.
    fn exceptions(&mut self, count: usize) -> Exceptions<'a> {
        if count == 0 {
            return Exceptions { positions: &[], values: &[], width: 0 };
        }
        let width = usize::from(self.exceptions[0]);
        let (positions, rest) = self.exceptions[1..].split_at(count);
        let (values, rest) = rest.split_at(count * width);
        self.exceptions = rest;
        Exceptions { positions, values, width }
    }
}

fn group_len(count: usize, group: usize) -> usize {
    (count - group * GROUP).min(GROUP)
}

fn read_limited<'a>(
    reader: &mut Reader<'a>,
    what: &'static str,
    count: usize,
    max: u8,
) -> Result<&'a [u8], EncodingError> {
    let offset = reader.offset();
    let bytes = reader.take(count)?;
    match bytes.iter().position(|&byte| byte > max) {
        None => Ok(bytes),
        Some(at) => Err(EncodingError::OutOfRange {
            what,
            offset: offset + at,
            value: bytes[at].into(),
            max: max.into(),
        }),
    }
}

/// Walks over the exceptions of all groups, so that decoding need not search their ends.
fn read_exceptions<'a>(
    reader: &mut Reader<'a>,
    count: usize,
    counts: &[u8],
) -> Result<&'a [u8], EncodingError> {
    let mut ahead = reader.clone();
    for (g, &exceptions) in counts.iter().enumerate().filter(|&(_, &exceptions)| exceptions > 0) {
        let offset = ahead.offset();
        let width = ahead.byte()?;
        in_range("bytes of an exception", offset, width.wrapping_sub(1).into(), 7)?;
        let positions = exceptions.into();
        read_limited(&mut ahead, "position of an exception", positions, group_len(count, g) as u8 - 1)?;
        ahead.take(positions * usize::from(width))?;
    }
    reader.take(ahead.offset() - reader.offset())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Groups stay narrow while their residuals, exceptions of two bytes included, times the divisor are below 2^28.
    #[test]
    fn values_at_the_bound_of_narrow_strips_come_back() {
        for width in 0..=40u32 {
            for bits in 0..=40 {
                let scale = Scale { divisor: (1i64 << bits) - 1, offset: -5 };
                for exception in [None, Some(32_767), Some(-32_768)] {
                    let mut values = [(1i64 << width) - 1; GROUP];
                    values[0] = 0;
                    let plan = Packing {
                        base: 0,
                        width: width as u8,
                        exceptions: exception.map_or(0, |_| 1),
                        cost: 0,
                    };
                    // What is not in the plan's window, made by hand: an exception in the last place.
                    let mut bytes =
                        vec![if exception.is_some() { HAS_EXCEPTIONS } else { 0 }, 0, width as u8];
                    bytes.extend(exception.map(|_| 1));
                    encode_residuals(&values, &plan, &mut bytes);
                    if let Some(exception) = exception {
                        bytes.extend([2, 127]);
                        bytes.extend(&zigzag(exception).to_le_bytes()[..2]);
                        values[127] = exception;
                    }
                    let packed = Packed::read(&mut Reader::new(&bytes), GROUP).unwrap();
                    let (mut strip, mut out) = (Strip::default(), vec![0; GROUP]);
                    packed.decode_group(0, &mut packed.cursor_at(0), &mut { scale }, &mut strip);
                    strip.write(&mut out);
                    let expected =
                        values.map(|value| (i128::from(value) * i128::from(scale.divisor) - 5) as i64);
                    assert!(out == expected, "width {width}, {bits} bits, {exception:?}");
                    let fits = width.max(15) + bits < 29;
                    assert_eq!(
                        strip.is_narrow,
                        fits || width == 0 && exception.is_none(),
                        "width {width}, {bits} bits"
                    );
                }
            }
        }
    }
}
