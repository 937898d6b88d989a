//! Numbers by the bin that each is in and its place there; which bin it is takes fewer bits the more numbers are in it, to a
//! fraction of a bit (asymmetric numeral systems by table, tANS, as in zstd and pcodec).
//!
//! Reading is a walk through the entries of a table: an entry says the bin, and with a few bits that follow which entry
//! comes next. Four walks take turns, so that none has to wait for its own last step.

use super::EncodingError;
use super::bins::{self, Bin};
use super::bytes::{Reader, bit_width, in_range, low_bits, read_le, write_signed_varint, write_varint};
use super::packed::{self, Packed};

/// Entries of a table: two to the power of this at least, …
const LOG_MIN: usize = 4;
/// … and of this at most.
const LOG_MAX: usize = 12;
/// What a writer takes at most.
const LOG: usize = 10;
/// Walks that take turns.
const WALKS: usize = 4;
/// Offsets up to this width and the bits for the next entry lie within eight bytes wherever they begin.
const NEAR: u8 = 57 - LOG_MAX as u8;

/// About the bytes that [`encode`] writes for `numbers`.
pub(super) fn estimate(numbers: &[i64]) -> usize {
    bins::choose(numbers).1 as usize / 8 + 16
}

/// Appends numbers; if there are none, nothing.
pub(super) fn encode(numbers: &[i64], out: &mut Vec<u8>) {
    if numbers.is_empty() {
        return;
    }
    let (bins, _) = bins::choose(numbers);
    let log = log_for(&bins, numbers.len());
    let weights = weights(&bins, log);
    write_bins(&bins, &weights, log, out);
    let coder = Coder::new(&weights, log);
    let places = places(numbers, &bins);
    // What is read last is written first.
    let (mut states, mut steps) = ([0u32; WALKS], vec![(0u16, 0u8); numbers.len()]);
    for (i, bin) in places.iter().enumerate().rev() {
        let (state, bits, width) = coder.step(states[i % WALKS], usize::from(*bin));
        states[i % WALKS] = state;
        steps[i] = (bits, width);
    }
    states.iter().for_each(|state| out.extend_from_slice(&(*state as u16).to_le_bytes()));
    let mut bits = BitWriter { out, held: 0, count: 0 };
    for ((number, bin), (next, width)) in numbers.iter().zip(places).zip(steps) {
        let bin = &bins[usize::from(bin)];
        bits.push(next.into(), width.into());
        bits.push(number.wrapping_sub(bin.lower) as u64, bin.bits.into());
    }
    bits.finish();
}

/// The bin of each number.
fn places(numbers: &[i64], bins: &[Bin]) -> Vec<u16> {
    // So long that halving it needs no look at how many there are, and no branch.
    let mut lowers = [i64::MAX; bins::BINS_MAX];
    lowers.iter_mut().zip(bins).for_each(|(lower, bin)| *lower = bin.lower);
    let place = |number: &i64| {
        let (mut at, mut half) = (0, bins::BINS_MAX / 2);
        while half > 0 {
            at += if lowers[at + half] <= *number { half } else { 0 };
            half /= 2;
        }
        // The largest number there is stands behind the last bin, too.
        at.min(bins.len() - 1) as u16
    };
    numbers.iter().map(place).collect()
}

/// So many entries that rare bins take little more than they must, and few enough for the cache.
fn log_for(bins: &[Bin], count: usize) -> usize {
    bit_width(count as u64).max(bit_width(bins.len() as u64) + 1).clamp(LOG_MIN, LOG)
}

/// Entries of each bin: one at least, in all two to the power of `log`.
fn weights(bins: &[Bin], log: usize) -> Vec<i64> {
    let all: i64 = bins.iter().map(|bin| i64::from(bin.count)).sum();
    let share = |bin: &Bin| (((i64::from(bin.count) << log) + all / 2) / all.max(1)).max(1);
    let mut weights: Vec<i64> = bins.iter().map(share).collect();
    let mut left = (1i64 << log) - weights.iter().sum::<i64>();
    while left != 0 {
        // The largest can give or take most easily; not all at once, for others may be nearly as large.
        let Some(largest) = weights.iter_mut().max() else { break };
        let step = left.clamp(-(*largest / 8).max(1), (*largest / 8).max(1));
        *largest += step;
        left -= step;
    }
    weights
}

fn write_bins(bins: &[Bin], weights: &[i64], log: usize, out: &mut Vec<u8>) {
    out.push(log as u8);
    write_varint(bins.len() as u64, out);
    write_signed_varint(bins.first().map_or(0, |bin| bin.lower), out);
    for pair in bins.windows(2) {
        write_varint(pair[1].lower.wrapping_sub(pair[0].lower) as u64 - 1, out);
    }
    packed::encode(&bins.iter().map(|bin| i64::from(bin.bits)).collect::<Vec<i64>>(), out);
    packed::encode(weights, out);
}

struct BitWriter<'a> {
    out: &'a mut Vec<u8>,
    held: u128,
    count: usize,
}

impl BitWriter<'_> {
    fn push(&mut self, bits: u64, width: usize) {
        self.held |= u128::from(bits & low_bits(width)) << self.count;
        self.count += width;
        if self.count >= 64 {
            self.out.extend_from_slice(&(self.held as u64).to_le_bytes());
            self.held >>= 64;
            self.count -= 64;
        }
    }

    fn finish(self) {
        self.out.extend_from_slice(&(self.held as u64).to_le_bytes()[..self.count.div_ceil(8)]);
    }
}

/// The bin of each entry of the table: a bin's entries are spread over all of it.
fn spread(weights: &[i64], log: usize) -> Vec<u16> {
    let size = 1usize << log;
    let (step, mut at) = (size / 2 + size / 8 + 3, 0);
    let mut bins = vec![0; size];
    for (bin, weight) in weights.iter().enumerate() {
        for _ in 0..*weight {
            bins[at] = bin as u16;
            at = (at + step) & (size - 1);
        }
    }
    bins
}

/// For writing: the entry that says a bin and leads to a given entry.
struct Coder {
    log: usize,
    weights: Vec<u32>,
    /// Where each bin's entries begin in `entries`.
    starts: Vec<u32>,
    entries: Vec<u32>,
}

impl Coder {
    fn new(weights: &[i64], log: usize) -> Self {
        let spread = spread(weights, log);
        let weights: Vec<u32> = weights.iter().map(|weight| *weight as u32).collect();
        let mut end = 0;
        let start = |weight: &u32| {
            end += weight;
            end - weight
        };
        let starts: Vec<u32> = weights.iter().map(start).collect();
        let (mut next, mut entries) = (starts.clone(), vec![0; spread.len()]);
        for (entry, bin) in spread.into_iter().enumerate() {
            let next = &mut next[usize::from(bin)];
            entries[*next as usize] = entry as u32;
            *next += 1;
        }
        Self { log, weights, starts, entries }
    }

    /// The entry that says `bin` and leads to entry `to`; the bits that tell it, and how many.
    fn step(&self, to: u32, bin: usize) -> (u32, u16, u8) {
        let (weight, state) = (self.weights[bin], to + (1 << self.log));
        let most = self.log as u32 - weight.ilog2();
        let width = if state >> most >= weight { most } else { most - 1 };
        let rank = (state >> width) - weight;
        let bits = state & ((1 << width) - 1);
        (self.entries[(self.starts[bin] + rank) as usize], bits as u16, width as u8)
    }
}

/// A step of a walk: 16 bytes, so that a table is small and an entry lies in one line of the cache.
#[derive(Clone, Copy)]
struct Entry {
    lower: i64,
    /// The next entry, without the bits that follow, …
    next: u16,
    /// … which are these.
    next_mask: u16,
    next_bits: u8,
    /// Bits of the place in the bin.
    bits: u8,
    /// Both.
    all_bits: u8,
}

/// Replaces `out` by the `count` numbers.
pub(super) fn decode(reader: &mut Reader, count: usize, out: &mut Vec<i64>) -> Result<(), EncodingError> {
    if count == 0 {
        out.clear();
        return reader.finish();
    }
    let (table, is_near) = read_table(reader)?;
    let mut walks = [0usize; WALKS];
    for walk in &mut walks {
        let offset = reader.offset();
        let bytes = reader.take(2)?;
        let entry = u64::from(u16::from_le_bytes([bytes[0], bytes[1]]));
        in_range("entry of a table", offset, entry, table.len() as u64 - 1)?;
        *walk = entry as usize;
    }
    let start = reader.offset();
    let bytes = reader.rest();
    out.resize(count, 0);
    let end =
        if is_near { walk_near(&table, walks, bytes, out) } else { walk_far(&table, walks, bytes, 0, out) };
    let need = end.div_ceil(8);
    match bytes.len() {
        have if have < need => Err(EncodingError::Truncated { offset: start, need, have }),
        have if have > need => Err(EncodingError::Trailing { offset: start + need, have: have - need }),
        _ => Ok(()),
    }
}

/// Bytes from which four steps of at most 57 bits each, and the eight bytes that each looks at, take theirs.
const FOUR_STEPS: usize = 40;

/// Reads a number at each step; returns where the bits end. All that a step needs lies within eight bytes.
fn walk_near(table: &[Entry], mut walks: [usize; WALKS], bytes: &[u8], out: &mut [i64]) -> usize {
    let (mut at, mut done) = (0, 0);
    for numbers in out.as_chunks_mut::<WALKS>().0 {
        let Some(window) = bytes.get(at / 8..).and_then(|rest| rest.first_chunk::<FOUR_STEPS>()) else {
            break;
        };
        let mut within = at % 8;
        for (number, walk) in numbers.iter_mut().zip(&mut walks) {
            let entry = &table[*walk];
            let word = window.get(within / 8..).and_then(|rest| rest.first_chunk());
            let bits = u64::from_le_bytes(*word.unwrap_or(&[0; 8])) >> (within % 8);
            let place = bits >> (entry.next_bits % 64) & MASKS[usize::from(entry.bits) % MASKS.len()];
            *number = entry.lower.wrapping_add(place as i64);
            *walk = usize::from(entry.next) + usize::from(bits as u16 & entry.next_mask);
            within += usize::from(entry.all_bits);
        }
        at += within - at % 8;
        done += WALKS;
    }
    walk_far(table, walks, bytes, at, &mut out[done..])
}

/// Reads the numbers whose bits begin at `at`, however many bits they have; returns where the bits end.
fn walk_far(
    table: &[Entry],
    mut walks: [usize; WALKS],
    bytes: &[u8],
    mut at: usize,
    out: &mut [i64],
) -> usize {
    for numbers in out.chunks_mut(WALKS) {
        for (number, walk) in numbers.iter_mut().zip(&mut walks) {
            let entry = &table[*walk];
            let place = word_at(bytes, at + usize::from(entry.next_bits))
                & MASKS[usize::from(entry.bits) % MASKS.len()];
            *number = entry.lower.wrapping_add(place as i64);
            *walk = usize::from(entry.next) + usize::from(word_at(bytes, at) as u16 & entry.next_mask);
            at += usize::from(entry.all_bits);
        }
    }
    at
}

/// So many low bits. No number has more than 64; a power of two needs no check.
const MASKS: [u64; 128] = {
    let mut masks = [u64::MAX; 128];
    let mut width = 0;
    while width < 64 {
        masks[width] = (1 << width) - 1;
        width += 1;
    }
    masks
};

/// 64 bits from bit `at` on; those behind the end are 0.
fn word_at(bytes: &[u8], at: usize) -> u64 {
    let (byte, shift) = (at / 8, at % 8);
    // Shifted in two steps: by 64 bits at once is not defined.
    read_le(bytes, byte, 8) >> shift | read_le(bytes, byte + 8, 1) << (63 - shift) << 1
}

/// The table, and whether all that a step needs lies within eight bytes.
fn read_table(reader: &mut Reader) -> Result<(Vec<Entry>, bool), EncodingError> {
    let offset = reader.offset();
    let log = usize::from(reader.byte()?);
    in_range(
        "size of a table",
        offset,
        (log as u64).wrapping_sub(LOG_MIN as u64),
        (LOG_MAX - LOG_MIN) as u64,
    )?;
    let count = reader.bounded("number of bins", 1 << log)?;
    let mut lowers = vec![reader.signed_varint()?];
    for i in 1..count {
        let gap = reader.varint()?;
        lowers.push(lowers[i - 1].wrapping_add(gap as i64).wrapping_add(1));
    }
    let (mut bits, mut weights) = (Vec::new(), Vec::new());
    let offset = reader.offset();
    Packed::read(reader, count)?.decode(&mut bits);
    for width in &bits {
        in_range("bits of a bin", offset, *width as u64, 64)?;
    }
    let offset = reader.offset();
    Packed::read(reader, count)?.decode(&mut weights);
    let mut sum = 0;
    for weight in &weights {
        // Each is checked before it is added, so the sum does not wrap.
        in_range("weight of a bin", offset, (*weight as u64).wrapping_sub(1), (1 << log) - 1)?;
        sum += *weight as u64;
    }
    if sum != 1 << log {
        return Err(EncodingError::Shape { what: "weights of all bins", need: 1 << log, have: sum as usize });
    }
    let is_near = bits.iter().all(|width| *width <= NEAR.into());
    let mut next: Vec<u32> = weights.iter().map(|weight| *weight as u32).collect();
    let entry = |bin: u16| {
        let bin = usize::from(bin);
        let state = next[bin];
        next[bin] += 1;
        let next_bits = log as u32 - state.ilog2();
        let next = (state << next_bits) - (1 << log);
        let bits = bits[bin] as u8;
        Entry {
            lower: lowers[bin],
            next: next as u16,
            next_mask: (1 << next_bits) - 1,
            next_bits: next_bits as u8,
            bits,
            all_bits: next_bits as u8 + bits,
        }
    };
    Ok((spread(&weights, log).into_iter().map(entry).collect(), is_near))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn back(numbers: &[i64]) -> usize {
        let (mut bytes, mut out) = (Vec::new(), vec![7; 3]);
        encode(numbers, &mut bytes);
        decode(&mut Reader::new(&bytes), numbers.len(), &mut out).unwrap();
        assert_eq!(out, numbers);
        bytes.len()
    }

    #[test]
    fn rare_numbers_are_paid_for_by_those_who_have_them() {
        let numbers: Vec<i64> = (0..20_000).map(|i| if i % 50 == 0 { 1_000 + i } else { 3 }).collect();
        // A fiftieth takes 15 bits and its rarity; that of the others is a thirtieth of a bit.
        let size = back(&numbers);
        assert!(size < 20_000 / 50 * 21 / 8 + 20_000 / 8 / 20, "{size}");
    }

    #[test]
    fn sums_of_weights_are_right_whatever_the_bins() {
        for count in [1, 2, 15, 16, 256] {
            let bins: Vec<Bin> = (0..count)
                .map(|i| Bin { lower: i, bits: 0, count: if i == 0 { 60_000 } else { 1 } })
                .collect();
            let log = log_for(&bins, 60_000);
            let weights = weights(&bins, log);
            assert!(weights.iter().all(|weight| *weight > 0));
            assert_eq!(weights.iter().sum::<i64>(), 1 << log);
        }
    }

    proptest! {
        #[test]
        fn numbers_come_back(
            numbers in prop::collection::vec(
                prop_oneof![5 => -3i64..3, 2 => any::<i64>(), 2 => 0i64..1 << 44, 1 => Just(i64::MIN)], 0..600,
            ),
        ) {
            back(&numbers);
        }
    }
}
