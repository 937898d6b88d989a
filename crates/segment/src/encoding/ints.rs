//! Columns of integers: what is chosen, and the tag in front of it.

use std::ops::Range;

use super::bytes::{Reader, unzigzag, write_signed_varint, zigzag};
use super::delta;
use super::dictionary::{self, Dictionary};
use super::groups::{GROUP, bounds};
use super::habit::Habit;
use super::lag;
use super::packed::{self, Packed, Scale};
use super::run_length::{self, Repetitions};
use super::runs::Runs;
use super::scaled::{BY_RUN, SCALED, Scaled, Scales, apply, read_scale, read_scales, write_scales};
use super::split;
use super::{COUNT_MAX, EncodingError, Tier, cold, cold_sample};
use crate::spare::Ints;

/// What was chosen for a column of integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum IntEncoding {
    /// One value for all rows.
    Constant = 0,
    /// Eight bytes a value.
    Plain = 1,
    /// Distances from a base per 128 rows, bit-packed.
    Packed = 2,
    /// Differences to the row before in the run, bit-packed.
    Delta = 3,
    /// Distinct values once, and bit-packed indexes.
    Dictionary = 4,
    /// Values that repeat row after row once, with their number.
    RunLength = 5,
    /// The `pco` format, of the values; cold tier only.
    Pco = 6,
    /// Distances from the smallest value, each with as many bits as it has.
    Split = 7,
    /// Differences to the row before in the run, each with as many bits as it has.
    SplitDelta = 8,
    /// Differences to the value some places before in the run, bit-packed: of values that take turns.
    Lag = 9,
    /// The same, each with as many bits as it has.
    SplitLag = 10,
    /// The same in the `pco` format, or differences to the row before; cold tier only.
    PcoLag = 11,
}

impl IntEncoding {
    const ALL: [Self; 12] = [
        Self::Constant,
        Self::Plain,
        Self::Packed,
        Self::Delta,
        Self::Dictionary,
        Self::RunLength,
        Self::Pco,
        Self::Split,
        Self::SplitDelta,
        Self::Lag,
        Self::SplitLag,
        Self::PcoLag,
    ];

    /// What encodes the integers of a column, from its first byte; `None` for an unknown tag or no bytes.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let tag = bytes.first()? & !(SCALED | BY_RUN);
        Self::ALL.into_iter().find(|&encoding| encoding as u8 == tag)
    }

    fn layout(self) -> Layout {
        match self {
            Self::Split | Self::SplitDelta | Self::SplitLag => Layout::Split,
            _ => Layout::Groups,
        }
    }

    /// The name that `tapedb inspect` shows.
    pub fn name(self) -> &'static str {
        match self {
            Self::Constant => "constant",
            Self::Plain => "plain",
            Self::Packed => "packed",
            Self::Delta => "delta",
            Self::Dictionary => "dictionary",
            Self::RunLength => "run-length",
            Self::Pco => "pco",
            Self::Split => "split",
            Self::SplitDelta => "split-delta",
            Self::Lag => "lag",
            Self::SplitLag => "split-lag",
            Self::PcoLag => "pco-lag",
        }
    }
}

/// Half bits that a value takes less where differences that reach back farther than one place are used.
const LAG_HALF_BITS: usize = 10;

/// Of large columns the choice samples every eighth group.
const SAMPLE_STEP: usize = 8;

/// Appends `values` to `out` in the smallest encoding that `tier` allows; one that decodes faster is taken instead if it is
/// at most a few percent larger. `u64` values go in as their bit pattern.
///
/// # Panics
///
/// When there are more than [`COUNT_MAX`] values, or `runs` do not ascend to their number.
pub fn encode_ints(values: &[i64], runs: &[u32], tier: Tier, out: &mut Vec<u8>) -> IntEncoding {
    encode_ints_again(values, runs, tier, &mut Habit::default(), out)
}

/// [`encode_ints`] of a column that comes block after block: in the hot tier, what was smallest is taken again, without a
/// try anything else, until it is due or takes more bytes than it did.
///
/// # Panics
///
/// As [`encode_ints`].
pub fn encode_ints_again(
    values: &[i64],
    runs: &[u32],
    tier: Tier,
    habit: &mut Habit<IntEncoding>,
    out: &mut Vec<u8>,
) -> IntEncoding {
    assert!(values.len() <= COUNT_MAX, "a column of a block holds at most {COUNT_MAX} values");
    let runs = Runs::new(runs, values.len()).expect("runs ascend to the number of values");
    let start = out.len();
    if are_equal(values) {
        Choice::Constant(values.first().copied().unwrap_or(0)).encode(values, out);
        return IntEncoding::Constant;
    }
    // In the cold tier size is more important than speed: each block tries everything.
    if let Some(encoding) = habit.usual().filter(|_| tier == Tier::Hot)
        && encode_as(encoding, values, runs, out)
    {
        if habit.holds(values.len(), out.len() - start) {
            return encoding;
        }
        out.truncate(start);
    }
    let encoding = encode_best(values, runs, tier, out);
    habit.learn(encoding, values.len(), out.len() - start);
    encoding
}

/// Appends `values` in this encoding if they can be.
fn encode_as(encoding: IntEncoding, values: &[i64], runs: Runs, out: &mut Vec<u8>) -> bool {
    Choice::of(encoding, values, runs).is_some_and(|choice| {
        choice.encode(values, out);
        true
    })
}

fn encode_best(values: &[i64], runs: Runs, tier: Tier, out: &mut Vec<u8>) -> IntEncoding {
    let start = out.len();
    let choice = Choice::best(values, runs).choice;
    choice.encode(values, out);
    let cold = if tier == Tier::Cold { encode_cold(values, runs, start, out) } else { None };
    cold.unwrap_or_else(|| choice.encoding())
}

fn are_equal(values: &[i64]) -> bool {
    values.first().is_none_or(|first| values.iter().all(|value| value == first))
}

/// Puts pco's bytes in place of what `out` holds from `start`, if they are at least a twentieth smaller: of the values or of their
/// differences, whichever takes less.
fn encode_cold(values: &[i64], runs: Runs, start: usize, out: &mut Vec<u8>) -> Option<IntEncoding> {
    let scaled = Scaled::of(values, runs);
    let far = lag::best(scaled.numbers(values));
    let lags = [None, Some(1)].into_iter().chain(far.map(Some));
    let hot = out.len() - start;
    let best = if values.len() < 4 * cold_sample::VALUES {
        lags.filter_map(|lag| pco_of(values, &scaled, runs, lag)).min_by_key(Vec::len)?
    } else {
        pco_of(values, &scaled, runs, cold_sample::choose(scaled.numbers(values), lags, hot)?)?
    };
    if best.len() * 20 >= hot * 19 {
        return None;
    }
    out.truncate(start);
    out.extend_from_slice(&best);
    IntEncoding::of(&best)
}

/// A column whose numbers are in the `pco` format: the divided values, or their differences to those `lag` places before.
fn pco_of(values: &[i64], scaled: &Scaled, runs: Runs, lag: Option<usize>) -> Option<Vec<u8>> {
    let numbers = scaled.numbers(values);
    let mut out = vec![if lag.is_some() { IntEncoding::PcoLag } else { IntEncoding::Pco } as u8];
    write_scales(&scaled.scale, &mut out);
    let bytes = match lag {
        None => cold::encode(numbers)?,
        Some(lag) => {
            write_lag(lag, &delta::firsts(numbers, runs), &mut out);
            cold::encode(&lag::differences(numbers, runs, lag))?
        }
    };
    out.extend(bytes);
    Some(out)
}

/// Appends how far differences reach back, and the first value of each run.
fn write_lag(lag: usize, firsts: &[i64], out: &mut Vec<u8>) {
    out.push(lag as u8);
    packed::encode(firsts, out);
}

/// About how many bits [`encode_ints`] needs for `values` in the hot tier; of large columns it uses a sample.
///
/// # Panics
///
/// As [`encode_ints`].
pub fn estimate_bits(values: &[i64], runs: &[u32]) -> u64 {
    let runs = Runs::new(runs, values.len()).expect("runs ascend to the number of values");
    8 * Choice::best(values, runs).cost as u64
}

/// [`estimate_bits`] of differences between two columns, of which many are estimated: without what they hardly ever are, few
/// distinct values in no order.
pub(crate) fn estimate_difference_bits(values: &[i64], runs: &[u32]) -> u64 {
    let runs = Runs::new(runs, values.len()).expect("runs ascend to the number of values");
    8 * Choice::best_of_numbers(values, runs).cost as u64
}

/// An encoding with what it was computed from.
enum Choice {
    Constant(i64),
    Plain,
    Packed(Scaled, Layout),
    /// Differences to the value `lag` places before.
    Delta {
        scale: Scales,
        firsts: Vec<i64>,
        deltas: Ints,
        layout: Layout,
        lag: usize,
    },
    Dictionary(Dictionary),
    RunLength(Repetitions),
}

/// How numbers are laid out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Layout {
    Groups,
    Split,
}

impl Choice {
    /// This one for `values`, which are not all equal, if it can hold them.
    fn of(encoding: IntEncoding, values: &[i64], runs: Runs) -> Option<Self> {
        match encoding {
            IntEncoding::Constant | IntEncoding::Pco | IntEncoding::PcoLag => None,
            IntEncoding::Plain => Some(Self::Plain),
            IntEncoding::Packed => Some(Self::Packed(Scaled::of(values, runs), Layout::Groups)),
            IntEncoding::Split => Some(Self::Packed(Scaled::of(values, runs), Layout::Split)),
            IntEncoding::Delta | IntEncoding::SplitDelta => {
                Some(Self::delta(values, &Scaled::of(values, runs), runs, encoding.layout()))
            }
            IntEncoding::Lag | IntEncoding::SplitLag => {
                let scaled = Scaled::of(values, runs);
                let lag = lag::best(scaled.numbers(values)).unwrap_or(2);
                Some(Self::lag(values, &scaled, runs, (encoding.layout(), lag)))
            }
            IntEncoding::Dictionary => Dictionary::of_any(values).map(Self::Dictionary),
            IntEncoding::RunLength => Some(Self::RunLength(Repetitions::of(values))),
        }
    }

    fn delta(values: &[i64], scaled: &Scaled, runs: Runs, layout: Layout) -> Self {
        let packed = scaled.numbers(values);
        let (firsts, deltas) = (delta::firsts(packed, runs), delta::differences(packed, runs));
        Self::Delta { scale: scaled.scale.clone(), firsts, deltas, layout, lag: 1 }
    }

    fn lag(values: &[i64], scaled: &Scaled, runs: Runs, (layout, lag): (Layout, usize)) -> Self {
        let packed = scaled.numbers(values);
        let (firsts, deltas) = (delta::firsts(packed, runs), lag::differences(packed, runs, lag));
        Self::Delta { scale: scaled.scale.clone(), firsts, deltas, layout, lag }
    }

    /// The best for `values`.
    fn best(values: &[i64], runs: Runs) -> Costed {
        let best = Self::best_of_numbers(values, runs);
        match best.choice {
            Self::Constant(_) => best,
            _ => match Self::dictionary(values, best.cost) {
                Some(dictionary) => best.or(dictionary.with_cost(values)),
                None => best,
            },
        }
    }

    /// The best for `values` without a dictionary.
    fn best_of_numbers(values: &[i64], runs: Runs) -> Costed {
        let first = values.first().copied().unwrap_or(0);
        let changes = values.windows(2).filter(|pair| pair[0] != pair[1]).count();
        if changes == 0 {
            return Self::Constant(first).with_cost(values);
        }
        let scaled = Scaled::of(values, runs);
        let delta = Self::delta(values, &scaled, runs, Layout::Groups);
        let far = lag::best(scaled.numbers(values)).map(|lag| {
            Self::lag(values, &scaled, runs, (Layout::Groups, lag)).with_cost(values).or_split(values)
        });
        let mut best = Self::Plain.with_cost(values);
        for choice in [Some(Self::Packed(scaled, Layout::Groups)), repetitions(values, changes), Some(delta)]
            .into_iter()
            .flatten()
        {
            best = best.or(choice.with_cost(values));
        }
        let best = best.or_split(values);
        match far {
            // Values have to be read as a whole, and added up: so they must take clearly less.
            Some(far) if far.cost + values.len() * LAG_HALF_BITS / 16 < best.cost => far,
            _ => best,
        }
    }

    /// Not tried where the column is small already.
    fn dictionary(values: &[i64], cost: usize) -> Option<Self> {
        let small = cost < values.len() / 4;
        if small { None } else { Dictionary::of(values, cost).map(Self::Dictionary) }
    }

    fn with_cost(self, values: &[i64]) -> Costed {
        Costed { cost: self.cost(values), choice: self }
    }

    /// Does nothing to encodings that have only one.
    fn set_layout(&mut self, new: Layout) -> &Self {
        if let Self::Packed(_, layout) | Self::Delta { layout, .. } = self {
            *layout = new;
        }
        self
    }

    /// In percent: an encoding must be smaller by that much to be taken instead of a faster one.
    fn slowness(&self) -> usize {
        match self {
            Self::Constant(_) | Self::Plain => 100,
            Self::Packed(_, Layout::Split) => 112,
            Self::Delta { layout: Layout::Split, .. } => 118,
            Self::Packed(..) | Self::RunLength(_) => 101,
            Self::Delta { .. } => 104,
            Self::Dictionary(_) => 106,
        }
    }

    fn encoding(&self) -> IntEncoding {
        match self {
            Self::Constant(_) => IntEncoding::Constant,
            Self::Plain => IntEncoding::Plain,
            Self::Packed(_, Layout::Groups) => IntEncoding::Packed,
            Self::Packed(_, Layout::Split) => IntEncoding::Split,
            Self::Delta { layout: Layout::Groups, lag: 1, .. } => IntEncoding::Delta,
            Self::Delta { layout: Layout::Split, lag: 1, .. } => IntEncoding::SplitDelta,
            Self::Delta { layout: Layout::Groups, .. } => IntEncoding::Lag,
            Self::Delta { layout: Layout::Split, .. } => IntEncoding::SplitLag,
            Self::Dictionary(_) => IntEncoding::Dictionary,
            Self::RunLength(_) => IntEncoding::RunLength,
        }
    }

    fn cost(&self, values: &[i64]) -> usize {
        1 + match self {
            Self::Constant(_) => 4,
            Self::Plain => 8 * values.len(),
            Self::Packed(scaled, Layout::Groups) => scaled.scale.cost() + sampled(scaled.numbers(values)),
            Self::Packed(scaled, Layout::Split) => {
                let (numbers, min) = (scaled.numbers(values), bounds(scaled.numbers(values)).0);
                let distance = |i: usize| numbers[i].wrapping_sub(min) as u64;
                scaled.scale.cost() + 2 + split::estimate(distance, values.len(), step(values))
            }
            Self::Delta { scale, firsts, deltas, layout, .. } => {
                let deltas = match layout {
                    Layout::Groups => sampled(deltas),
                    Layout::Split => split::estimate(|i| zigzag(deltas[i]), deltas.len(), step(deltas)),
                };
                scale.cost() + sampled(firsts) + deltas
            }
            Self::Dictionary(dictionary) => 3 + sampled(&dictionary.distinct) + sampled(&dictionary.indexes),
            Self::RunLength(repetitions) => 3 + sampled(&repetitions.lengths) + sampled(&repetitions.values),
        }
    }

    fn encode(&self, values: &[i64], out: &mut Vec<u8>) {
        out.push(self.encoding() as u8);
        match self {
            Self::Constant(value) => write_signed_varint(*value, out),
            Self::Plain => out.extend(values.iter().flat_map(|value| value.to_le_bytes())),
            Self::Packed(scaled, layout) => {
                write_scales(&scaled.scale, out);
                let numbers = scaled.numbers(values);
                if *layout == Layout::Groups {
                    return packed::encode(numbers, out);
                }
                let min = bounds(numbers).0;
                write_signed_varint(min, out);
                split::encode(numbers.iter().map(|number| number.wrapping_sub(min) as u64), out);
            }
            Self::Delta { scale, firsts, deltas, layout, lag } => {
                write_scales(scale, out);
                match lag {
                    1 => packed::encode(firsts, out),
                    lag => write_lag(*lag, firsts, out),
                }
                if *layout == Layout::Groups {
                    return packed::encode(deltas, out);
                }
                split::encode(deltas.iter().map(|delta| zigzag(*delta)), out);
            }
            Self::Dictionary(dictionary) => dictionary.encode(out),
            Self::RunLength(repetitions) => repetitions.encode(out),
        }
    }
}

/// A choice with the bytes that it takes, estimated.
struct Costed {
    choice: Choice,
    cost: usize,
}

impl Costed {
    /// The same with its numbers split, if that is smaller.
    fn or_split(mut self, values: &[i64]) -> Self {
        let whole = self.cost * self.choice.slowness();
        let cost = self.choice.set_layout(Layout::Split).cost(values);
        if cost * self.choice.slowness() < whole {
            self.cost = cost;
        } else {
            self.choice.set_layout(Layout::Groups);
        }
        self
    }

    fn or(self, other: Self) -> Self {
        let weighed = |costed: &Self| costed.cost * costed.choice.slowness();
        if weighed(&other) < weighed(&self) { other } else { self }
    }
}

/// Only where values repeat four times or more on average: shorter ones pack better.
fn repetitions(values: &[i64], changes: usize) -> Option<Choice> {
    (4 * changes < values.len()).then(|| Choice::RunLength(Repetitions::of(values)))
}

fn sampled(values: &[i64]) -> usize {
    packed::estimate(values, step(values))
}

fn step(values: &[i64]) -> usize {
    if values.len() > 4 * SAMPLE_STEP * GROUP { SAMPLE_STEP } else { 1 }
}

/// Replaces `out` by the `count` values that [`encode_ints`] wrote with the same `runs`.
///
/// # Errors
///
/// When the bytes are not such a column. What `out` holds then is of no use.
pub fn decode_ints(
    bytes: &[u8],
    count: usize,
    runs: &[u32],
    out: &mut Vec<i64>,
) -> Result<(), EncodingError> {
    decode_ints_in(bytes, count, runs, 0..count, out)
}

/// Replaces `out` by the values of `rows`, a part of the `count` values that [`encode_ints`] wrote with the same `runs`.
/// Costs what the rows from the beginning of the first one's run cost, and a little per 128 rows before.
///
/// # Errors
///
/// When the bytes are not such a column, or `rows` do not lie in it. What `out` holds then is of no use.
pub fn decode_ints_in(
    bytes: &[u8],
    count: usize,
    runs: &[u32],
    rows: Range<usize>,
    out: &mut Vec<i64>,
) -> Result<(), EncodingError> {
    check_shape(count, &rows)?;
    let runs = Runs::new(runs, count)?;
    let mut reader = Reader::new(bytes);
    let tag = reader.byte()?;
    match IntEncoding::of(&[tag]) {
        Some(IntEncoding::Packed | IntEncoding::Delta) if tag & BY_RUN != 0 => {
            decode_by_run(&mut reader, tag, runs, count, rows, out)
        }
        Some(IntEncoding::Split | IntEncoding::SplitDelta) => {
            decode_split(&mut reader, tag, runs, count, rows, out)
        }
        Some(IntEncoding::Lag | IntEncoding::SplitLag | IntEncoding::PcoLag | IntEncoding::Pco) => {
            decode_whole(&mut reader, tag, runs, count, out)?;
            out.truncate(rows.end);
            out.drain(..rows.start);
            Ok(())
        }
        Some(IntEncoding::Packed) => decode_packed(&mut reader, tag, count, rows, out),
        Some(IntEncoding::Delta) => {
            let scale = read_scale(&mut reader, tag)?;
            delta::decode(&mut reader, runs, count, rows, scale, out)
        }
        _ if tag & (SCALED | BY_RUN) != 0 => Err(EncodingError::UnknownTag { offset: 0, tag }),
        Some(IntEncoding::Constant) => {
            let value = reader.signed_varint()?;
            out.clear();
            out.resize(rows.len(), value);
            reader.finish()
        }
        Some(IntEncoding::Plain) => {
            let words = reader.take(8 * count)?.as_chunks::<8>().0;
            out.clear();
            out.extend(words[rows].iter().map(|word| i64::from_le_bytes(*word)));
            reader.finish()
        }
        Some(IntEncoding::Dictionary) => dictionary::decode(&mut reader, count, rows, out),
        Some(IntEncoding::RunLength) => run_length::decode(&mut reader, count, rows, out),
        None => Err(EncodingError::UnknownTag { offset: 0, tag }),
    }
}

/// Replaces `out` by the values of single `rows`, which ascend and lie in the column. `false`: nothing was read, for with this
/// encoding it would cost as much as reading all rows.
///
/// # Errors
///
/// When the bytes are not such a column. What `out` holds then is of no use.
pub(crate) fn decode_ints_at(
    bytes: &[u8],
    count: usize,
    runs: &[u32],
    rows: &[u32],
    out: &mut Vec<i64>,
) -> Result<bool, EncodingError> {
    check_shape(count, &(0..rows.last().map_or(0, |row| *row as usize + 1)))?;
    let runs = Runs::new(runs, count)?;
    let mut reader = Reader::new(bytes);
    let tag = reader.byte()?;
    out.clear();
    match IntEncoding::of(&[tag]) {
        Some(IntEncoding::Packed) if tag & BY_RUN == 0 => {
            let scale = read_scale(&mut reader, tag)?;
            let column = Packed::read(&mut reader, count)?;
            reader.finish()?;
            column.decode_at(rows, |_| scale, out);
        }
        Some(IntEncoding::Delta) if tag & BY_RUN == 0 && runs.are_groups() => {
            let scale = read_scale(&mut reader, tag)?;
            delta::decode_at(&mut reader, runs, count, rows, scale, out)?;
        }
        Some(IntEncoding::RunLength) if tag & (SCALED | BY_RUN) == 0 => {
            run_length::decode_at(&mut reader, count, rows, out)?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn check_shape(count: usize, rows: &Range<usize>) -> Result<(), EncodingError> {
    if count > COUNT_MAX {
        return Err(EncodingError::Shape { what: "values of a column", need: COUNT_MAX, have: count });
    }
    if rows.start > rows.end || rows.end > count {
        return Err(EncodingError::Shape {
            what: "end of rows",
            need: count,
            have: rows.end.max(rows.start),
        });
    }
    Ok(())
}

fn decode_packed(
    reader: &mut Reader,
    tag: u8,
    count: usize,
    rows: Range<usize>,
    out: &mut Vec<i64>,
) -> Result<(), EncodingError> {
    let scale = read_scale(reader, tag)?;
    let column = Packed::read(reader, count)?;
    reader.finish()?;
    column.decode_rows(rows, scale, out);
    Ok(())
}

/// Decodes packed values or differences, and scales each run by its own divisor and offset.
fn decode_by_run(
    reader: &mut Reader,
    tag: u8,
    runs: Runs,
    count: usize,
    rows: Range<usize>,
    out: &mut Vec<i64>,
) -> Result<(), EncodingError> {
    let scales = read_scales(reader, tag, runs)?;
    let inner = tag & !BY_RUN;
    if inner == IntEncoding::Delta as u8 {
        delta::decode(reader, runs, count, rows.clone(), Scale::NONE, out)?;
    } else {
        decode_packed(reader, inner, count, rows.clone(), out)?;
    }
    apply(&scales, runs, rows, out);
    Ok(())
}

/// Decodes all values and cuts `rows` out.
fn decode_split(
    reader: &mut Reader,
    tag: u8,
    runs: Runs,
    count: usize,
    rows: Range<usize>,
    out: &mut Vec<i64>,
) -> Result<(), EncodingError> {
    let scales = match read_scales(reader, tag, runs)? {
        none if none.is_empty() => vec![read_scale(reader, tag)?],
        scales => scales,
    };
    // One scale of all runs is applied as soon as a value is there.
    let one = if let [scale] = scales[..] { Some(scale) } else { None };
    let scale = one.unwrap_or(Scale::NONE);
    if IntEncoding::of(&[tag]) == Some(IntEncoding::Split) {
        let min = reader.signed_varint()?;
        split::decode(
            reader,
            count,
            out,
            #[inline(always)]
            |number| scale.apply(min.wrapping_add(number as i64)),
        )?;
    } else {
        let mut firsts = Vec::new();
        Packed::read(reader, runs.len())?.decode(&mut firsts);
        split::decode(reader, count, out, unzigzag)?;
        let starts = runs.starts().chain([count]).collect::<Vec<usize>>();
        for (bounds, first) in starts.windows(2).zip(firsts) {
            let run = &mut out[bounds[0]..bounds[1]];
            run[0] = first;
            let mut sum = 0i64;
            for value in run {
                sum = sum.wrapping_add(*value);
                *value = scale.apply(sum);
            }
        }
    }
    if one.is_none() {
        apply(&scales, runs, 0..count, out);
    }
    out.truncate(rows.end);
    out.drain(..rows.start);
    Ok(())
}

/// Decodes all values of an encoding that has no faster way to some of them.
fn decode_whole(
    reader: &mut Reader,
    tag: u8,
    runs: Runs,
    count: usize,
    out: &mut Vec<i64>,
) -> Result<(), EncodingError> {
    let scales = match read_scales(reader, tag, runs)? {
        none if none.is_empty() => vec![read_scale(reader, tag)?],
        scales => scales,
    };
    // Differences are multiplied by the one divisor while they are at hand: their sums are then the values.
    let (one, encoding) =
        (if let [scale] = scales[..] { Some(scale) } else { None }, IntEncoding::of(&[tag]));
    let scale = one.map_or(Scale::NONE, |scale| Scale { offset: 0, ..scale });
    if encoding == Some(IntEncoding::Pco) {
        decode_pco(reader, count, out)?;
        apply(&scales, runs, 0..count, out);
        return Ok(());
    }
    let (offset, lag) = (reader.offset(), usize::from(reader.byte()?));
    if !(1..=lag::LAG_MAX).contains(&lag) {
        let (value, max) = (lag as u64, lag::LAG_MAX as u64);
        return Err(EncodingError::OutOfRange { what: "places between values", offset, value, max });
    }
    let mut firsts = Vec::new();
    Packed::read(reader, runs.len())?.decode(&mut firsts);
    match encoding {
        Some(IntEncoding::PcoLag) => {
            decode_pco(reader, count, out)?;
            apply(&[scale], runs, 0..count, out);
        }
        Some(IntEncoding::SplitLag) => split::decode(
            reader,
            count,
            out,
            #[inline(always)]
            |number| scale.apply(unzigzag(number)),
        )?,
        _ => {
            let differences = Packed::read(reader, count)?;
            reader.finish()?;
            differences.decode_rows(0..count, scale, out);
        }
    }
    match one {
        Some(scale) => {
            firsts.iter_mut().for_each(|first| *first = scale.apply(*first));
            lag::add_up(&firsts, runs, lag, out);
        }
        None => {
            lag::add_up(&firsts, runs, lag, out);
            apply(&scales, runs, 0..count, out);
        }
    }
    Ok(())
}

fn decode_pco(reader: &mut Reader, count: usize, out: &mut Vec<i64>) -> Result<(), EncodingError> {
    let offset = reader.offset();
    cold::decode(reader.rest(), offset, count, out)
}

/// [`encode_ints`] of `values` minus `reference`, row by row: for columns that follow another one, as high follows open
/// and ask follows bid. [`estimate_bits`] of the difference shows whether it pays off.
///
/// # Panics
///
/// When the two do not have the same length, and as [`encode_ints`].
pub fn encode_ints_against(
    values: &[i64],
    reference: &[i64],
    runs: &[u32],
    tier: Tier,
    out: &mut Vec<u8>,
) -> IntEncoding {
    assert_eq!(values.len(), reference.len(), "a column and its reference have the same rows");
    let difference: Vec<i64> = values.iter().zip(reference).map(|(a, b)| a.wrapping_sub(*b)).collect();
    encode_ints(&difference, runs, tier, out)
}

/// Replaces `out` by what [`encode_ints_against`] was given, from the same `reference`.
///
/// # Errors
///
/// As [`decode_ints`].
pub fn decode_ints_against(
    bytes: &[u8],
    reference: &[i64],
    runs: &[u32],
    out: &mut Vec<i64>,
) -> Result<(), EncodingError> {
    decode_ints(bytes, reference.len(), runs, out)?;
    for (value, reference) in out.iter_mut().zip(reference) {
        *value = value.wrapping_add(*reference);
    }
    Ok(())
}

/// Replaces `out` by each row's value one row before in its run; a run's first row has its own. A reference for
/// columns that begin where another one ended, as open follows the close before.
pub fn previous_in_run(values: &[i64], runs: &[u32], out: &mut Vec<i64>) {
    out.clear();
    out.extend(values.first());
    out.extend_from_slice(&values[..values.len().saturating_sub(1)]);
    for &end in runs {
        if let Some(first) = values.get(end as usize) {
            out[end as usize] = *first;
        }
    }
}

/// All ways to encode a column, not only the one chosen: for tests.
///
/// # Panics
/// As [`encode_ints`].
#[cfg(any(test, feature = "trials"))]
pub fn every_encoding(values: &[i64], ends: &[u32]) -> Vec<Vec<u8>> {
    let runs = Runs::new(ends, values.len()).expect("runs ascend to the number of values");
    let constant = are_equal(values).then(|| Choice::Constant(values.first().copied().unwrap_or(0)));
    let chosen = IntEncoding::ALL.into_iter().filter_map(|encoding| Choice::of(encoding, values, runs));
    let by_run = [Layout::Groups, Layout::Split].into_iter().flat_map(|layout| {
        let scaled = || Scaled::of_each_run(values, runs, 1).0;
        let far = (2..=lag::LAG_MAX).map(move |lag| Choice::lag(values, &scaled(), runs, (layout, lag)));
        [Choice::Packed(scaled(), layout), Choice::delta(values, &scaled(), runs, layout)]
            .into_iter()
            .chain(far)
    });
    let choices = constant.into_iter().chain(chosen).chain(by_run);
    let encoded = choices.map(|choice| {
        let mut bytes = Vec::new();
        choice.encode(values, &mut bytes);
        bytes
    });
    let best = [Tier::Hot, Tier::Cold].map(|tier| {
        let mut bytes = Vec::new();
        encode_ints(values, ends, tier, &mut bytes);
        bytes
    });
    let scales = [Scaled::of(values, runs), Scaled::of_each_run(values, runs, 1).0];
    let lags = || [None].into_iter().chain((1..=lag::LAG_MAX).map(Some));
    let pco = scales.iter().flat_map(|scaled| lags().filter_map(|lag| pco_of(values, scaled, runs, lag)));
    encoded.chain(best).chain(pco).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encode(values: &[i64], runs: &[u32], tier: Tier) -> (IntEncoding, Vec<u8>) {
        let mut bytes = Vec::new();
        let encoding = encode_ints(values, runs, tier, &mut bytes);
        assert_eq!(IntEncoding::of(&bytes), Some(encoding));
        (encoding, bytes)
    }

    fn check(values: &[i64], runs: &[u32], tier: Tier) -> (IntEncoding, Vec<u8>) {
        let (encoding, bytes) = encode(values, runs, tier);
        let mut out = Vec::new();
        decode_ints(&bytes, values.len(), runs, &mut out).unwrap();
        assert_eq!(out, values, "{encoding:?}");
        (encoding, bytes)
    }

    fn hot(values: &[i64], runs: &[u32]) -> (IntEncoding, usize) {
        let (encoding, bytes) = check(values, runs, Tier::Hot);
        (encoding, bytes.len())
    }

    /// Pseudo-random numbers, the same every time.
    fn noise(count: usize, below: u64) -> Vec<i64> {
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((state >> 33) % below) as i64
        };
        (0..count).map(|_| next()).collect()
    }

    fn walk(count: usize, start: i64, step: u64) -> Vec<i64> {
        let mut at = start;
        let moved = |step_up: i64| {
            at += step_up - step as i64 / 2;
            at
        };
        noise(count, step).into_iter().map(moved).collect()
    }

    #[test]
    fn equal_values_are_constant() {
        assert_eq!(hot(&[-7; 65_536], &[]), (IntEncoding::Constant, 2));
        assert_eq!(hot(&[], &[]), (IntEncoding::Constant, 2));
    }

    #[test]
    fn each_run_has_its_own_divisor() {
        let values: Vec<i64> = noise(2_000, 900)
            .into_iter()
            .enumerate()
            .map(|(i, n)| if i < 1_000 { 7 * n } else { 50_000 + 1_000 * n })
            .collect();
        let runs = [1_000, 2_000];
        let (encoding, bytes) = check(&values, &runs, Tier::Hot);
        assert_eq!((encoding, bytes[0]), (IntEncoding::Packed, BY_RUN | IntEncoding::Packed as u8));
        assert!(bytes.len() < 2_000 * 11 / 8, "{}", bytes.len());
        for rows in [0..2_000, 990..1_010, 3..4, 1_000..1_000, 1_999..2_000] {
            let mut out = Vec::new();
            decode_ints_in(&bytes, 2_000, &runs, rows.clone(), &mut out).unwrap();
            assert_eq!(out, values[rows]);
        }
        let climbing: Vec<i64> = (0..2_000)
            .zip(noise(2_000, 9))
            .map(|(i, n)| if i < 1_000 { 70 * i + 7 * n } else { 10_000 * i + 1_000 * n })
            .collect();
        let (encoding, bytes) = check(&climbing, &runs, Tier::Hot);
        assert_eq!((encoding, bytes[0]), (IntEncoding::Delta, BY_RUN | IntEncoding::Delta as u8));
    }

    #[test]
    fn numbers_of_very_different_sizes_are_split() {
        let sizes = |i: usize, n: i64| (n >> (i * 7 % 20)) * 3 + 5;
        let values: Vec<i64> =
            noise(5_000, 1 << 20).into_iter().enumerate().map(|(i, n)| sizes(i, n)).collect();
        let runs = [2_000, 5_000];
        let (encoding, bytes) = check(&values, &runs, Tier::Hot);
        assert_eq!(encoding, IntEncoding::Split);
        assert!(bytes.len() < 5_000 * 15 / 8, "{}", bytes.len());
        let mut sum = 0i64;
        let steps: Vec<i64> = values
            .iter()
            .enumerate()
            .map(|(i, step)| {
                sum += if i % 3 == 0 { -step } else { *step };
                sum
            })
            .collect();
        let (encoding, bytes) = check(&steps, &runs, Tier::Hot);
        assert_eq!(encoding, IntEncoding::SplitDelta);
        let mut out = Vec::new();
        decode_ints_in(&bytes, 5_000, &runs, 1_990..2_010, &mut out).unwrap();
        assert_eq!(out, steps[1_990..2_010]);
    }

    #[test]
    fn small_noise_is_packed() {
        let (encoding, size) = hot(&noise(65_536, 256), &[]);
        assert_eq!(encoding, IntEncoding::Packed);
        assert!(size < 65_536 * 102 / 100, "{size}");
    }

    #[test]
    fn a_common_divisor_is_taken_out() {
        let values: Vec<i64> = noise(10_000, 16).into_iter().map(|value| value * 1_000_000 + 7).collect();
        let (encoding, size) = hot(&values, &[]);
        assert_eq!(encoding, IntEncoding::Packed);
        assert!(size < 5_300, "{size}");
    }

    #[test]
    fn prices_are_walks_and_symbols_do_not_disturb_each_other() {
        let (mut values, mut runs) = (Vec::new(), Vec::new());
        for symbol in 0..1_000 {
            values.extend(walk(65, 1_000_000 * (symbol * 7_919 % 1_000), 16));
            runs.push(values.len() as u32);
        }
        let (encoding, size) = hot(&values, &runs);
        assert_eq!(encoding, IntEncoding::Delta);
        let per_value = size as f64 / values.len() as f64;
        assert!(per_value < 0.7, "{per_value}");
    }

    #[test]
    fn equal_intervals_cost_nearly_nothing() {
        let values: Vec<i64> = (0..65_536).map(|i| 1_700_000_000_000_000_000 + i * 60_000_000_000).collect();
        let (_, size) = hot(&values, &[]);
        assert!(size < 1_200, "{size}");
    }

    #[test]
    fn few_large_values_go_into_a_dictionary() {
        let values: Vec<i64> = noise(20_000, 30).into_iter().map(|i| i * i * 1_000_003 + i * 77).collect();
        assert_eq!(hot(&values, &[]).0, IntEncoding::Dictionary);
    }

    #[test]
    fn long_repetitions_are_counted() {
        let values: Vec<i64> = noise(500, 1 << 30).into_iter().flat_map(|value| vec![value; 40]).collect();
        assert_eq!(hot(&values, &[]).0, IntEncoding::RunLength);
    }

    #[test]
    fn noise_of_64_bits_is_plain() {
        let high = noise(2_000, 1 << 31);
        let low = noise(6_000, 1 << 31);
        let values: Vec<i64> =
            high.iter().zip(&low[3_000..]).map(|(high, low)| high << 33 ^ low << 2 ^ high >> 20).collect();
        let (_, size) = hot(&values, &[]);
        assert!(size <= 8 * values.len() + 1, "{size}");
    }

    #[test]
    fn skewed_noise_is_smaller_cold() {
        let values: Vec<i64> =
            noise(20_000, 1 << 12).into_iter().map(|i| (((i * i) >> 12) * i) >> 12).collect();
        assert_eq!(check(&values, &[], Tier::Cold).0, IntEncoding::Pco);
    }

    /// The worked examples of the format page.
    #[test]
    fn the_page_shows_these_bytes() {
        let page = include_str!("../../../../docs/format/segment-encodings.md");
        let symbols = [1_000, 1_200, 1_100, 1_300, 5_000, 5_100];
        let outlier: Vec<i64> = (0..40).map(|row| if row == 9 { -7 } else { 60 + row % 4 }).collect();
        for (values, runs, expected) in [
            (&symbols[..], &[4, 6][..], IntEncoding::Packed),
            (&outlier, &[], IntEncoding::Packed),
            (&[7, 8, 9, 10, 500, 501, 502, 503], &[4, 8], IntEncoding::Delta),
        ] {
            let (encoding, bytes) = check(values, runs, Tier::Hot);
            let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(encoding, expected);
            assert!(page.contains(&hex.join(" ")), "{}", hex.join(" "));
        }
    }

    #[test]
    fn references_are_added_again() {
        let low = walk(5_000, 10_000, 32);
        let high: Vec<i64> = low.iter().zip(noise(5_000, 8)).map(|(low, above)| low + above).collect();
        let (mut bytes, mut out) = (Vec::new(), Vec::new());
        encode_ints_against(&high, &low, &[], Tier::Hot, &mut bytes);
        assert!(bytes.len() < encode(&high, &[], Tier::Hot).1.len() * 3 / 4);
        decode_ints_against(&bytes, &low, &[], &mut out).unwrap();
        assert_eq!(out, high);
    }

    #[test]
    fn previous_stays_within_the_run() {
        let mut out = Vec::new();
        previous_in_run(&[1, 2, 3, 10, 20, 5], &[3, 5, 6], &mut out);
        assert_eq!(out, [1, 1, 2, 10, 10, 5]);
        previous_in_run(&[], &[], &mut out);
        assert!(out.is_empty());
    }

    #[test]
    fn the_estimate_is_near() {
        for values in [noise(65_536, 1_000), walk(65_536, 5_000_000, 64), noise(65_536, 3)] {
            let size = 8 * encode(&values, &[], Tier::Hot).1.len() as u64;
            let estimate = estimate_bits(&values, &[]);
            assert!(estimate.abs_diff(size) < size / 20, "{estimate} {size}");
        }
    }

    #[test]
    fn shapes_that_do_not_fit_are_errors() {
        let (_, bytes) = encode(&noise(300, 9), &[], Tier::Hot);
        let mut out = Vec::new();
        assert!(matches!(decode_ints(&bytes, 300, &[100, 299], &mut out), Err(EncodingError::Shape { .. })));
        assert!(matches!(
            decode_ints_in(&bytes, 300, &[], 200..301, &mut out),
            Err(EncodingError::Shape { .. })
        ));
        assert!(matches!(
            decode_ints(&bytes, COUNT_MAX + 1, &[], &mut out),
            Err(EncodingError::Shape { .. })
        ));
        assert!(decode_ints(&bytes, 301, &[], &mut out).is_err());
    }

    /// Columns of every kind that encoding distinguishes, with the ends of their runs.
    fn columns() -> impl Strategy<Value = (Vec<i64>, Vec<u32>)> {
        let small = prop::collection::vec(-50i64..50, 0..700);
        let wide = prop::collection::vec(any::<i64>(), 0..700);
        let outliers = prop::collection::vec(prop_oneof![20 => 0i64..16, 1 => any::<i64>()], 0..700);
        let scaled = small.clone().prop_map(|values| values.iter().map(|value| value * 25_000 - 3).collect());
        let few = prop::collection::vec(prop::sample::select(vec![5i64, -1 << 60, 1 << 40, 77]), 0..700);
        let repeated = prop::collection::vec((any::<i64>(), 1usize..60), 0..20)
            .prop_map(|parts| parts.into_iter().flat_map(|(value, count)| vec![value; count]).collect());
        let medium = prop::collection::vec(0i64..1 << 45, 0..700);
        let walks = (any::<i64>(), small.clone()).prop_map(|(start, steps)| {
            steps
                .iter()
                .scan(start, |at, step| {
                    *at = at.wrapping_add(*step);
                    Some(*at)
                })
                .collect()
        });
        let values = prop_oneof![small, wide, outliers, scaled, few, repeated, medium, walks];
        (values, prop::collection::btree_set(1u32..700, 0..30)).prop_map(|(values, ends)| {
            let mut ends: Vec<u32> = ends.into_iter().filter(|&end| (end as usize) < values.len()).collect();
            ends.extend((!values.is_empty()).then_some(values.len() as u32));
            (values, ends)
        })
    }

    proptest! {
        #[test]
        fn columns_come_back((values, ends) in columns(), rows: (prop::sample::Index, prop::sample::Index)) {
            let (a, b) = (rows.0.index(values.len() + 1), rows.1.index(values.len() + 1));
            let rows = a.min(b)..a.max(b);
            let mut out = vec![9; 3];
            for bytes in every_encoding(&values, &ends) {
                decode_ints(&bytes, values.len(), &ends, &mut out).unwrap();
                prop_assert_eq!(&out, &values);
                decode_ints_in(&bytes, values.len(), &ends, rows.clone(), &mut out).unwrap();
                prop_assert_eq!(&out, &values[rows.clone()]);
            }
        }

        #[test]
        fn damaged_columns_do_not_panic(
            (values, ends) in columns(),
            flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
            cut in any::<prop::sample::Index>(),
            rows: (prop::sample::Index, prop::sample::Index),
        ) {
            let (a, b) = (rows.0.index(values.len() + 1), rows.1.index(values.len() + 1));
            let rows = a.min(b)..a.max(b);
            let mut out = Vec::new();
            for mut bytes in every_encoding(&values, &ends) {
                let cut = &bytes[..cut.index(bytes.len())];
                prop_assert!(decode_ints(cut, values.len(), &ends, &mut out).is_err());
                for (at, byte) in &flips {
                    let at = at.index(bytes.len());
                    bytes[at] = *byte;
                }
                if decode_ints(&bytes, values.len(), &ends, &mut out).is_ok() {
                    prop_assert_eq!(out.len(), values.len());
                }
                if decode_ints_in(&bytes, values.len(), &ends, rows.clone(), &mut out).is_ok() {
                    prop_assert_eq!(out.len(), rows.len());
                }
            }
        }

        #[test]
        fn any_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), tag in 0u8..13, count in 0usize..300) {
            let mut out = Vec::new();
            for tag in [tag, tag | SCALED, tag | BY_RUN] {
                let bytes: Vec<u8> = [tag].into_iter().chain(bytes.iter().copied()).collect();
                if decode_ints(&bytes, count, &[], &mut out).is_ok() {
                    prop_assert_eq!(out.len(), count);
                }
            }
        }
    }
}
