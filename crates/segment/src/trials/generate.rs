//! Difficult columns: market data at its worst, and the weak spots of encodings.

/// A generator of random numbers that are the same for the same seed: that of Steele, Lea and Flood. A fuzzer turns it where
/// it likes: the bits of its input turn over those of the first numbers.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
    turned: std::collections::VecDeque<u8>,
}

/// Values with the ends of their runs.
#[derive(Debug, Clone, Default)]
pub struct Column {
    /// The values.
    pub values: Vec<i64>,
    /// Where runs end; the last one is the number of values.
    pub ends: Vec<u32>,
}

impl Random {
    /// A generator whose numbers depend on the seed alone.
    pub fn new(seed: u64) -> Self {
        Self { state: seed, turned: [].into() }
    }

    /// A generator whose numbers depend on all of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self { state: 0, turned: bytes.to_vec().into() }
    }

    /// The next 64 bits.
    pub fn number(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        let turned = (0..8).fold(0, |bits, _| bits << 8 | u64::from(self.turned.pop_front().unwrap_or(0)));
        z ^ z >> 31 ^ turned
    }

    /// A number below `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.number()) * end as u128) >> 64) as usize
    }

    /// One of them.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// A number of up to `width` bits, most often one at an end of what they hold.
    pub fn bits(&mut self, width: u32) -> i64 {
        let mask = u64::MAX.checked_shr(64 - width).unwrap_or(0);
        match self.below(4) {
            0 => mask as i64,
            1 => 0,
            _ => (self.number() & mask) as i64,
        }
    }

    /// A number of any width and sign, most often at the edge of a width.
    pub fn any(&mut self) -> i64 {
        let width = self.below(65) as u32;
        let edge = 1i64.checked_shl(width).unwrap_or(0).wrapping_add(self.below(3) as i64 - 1);
        match self.below(4) {
            0 => edge,
            1 => edge.wrapping_neg(),
            2 => self.bits(width),
            _ => self.pick(&[
                0,
                1,
                -1,
                i64::MIN,
                i64::MAX,
                i64::from(i32::MAX),
                i64::from(u32::MAX),
                32_767,
                32_768,
                -32_769,
            ]),
        }
    }

    /// How many rows: often one group, one less or one more.
    pub fn count(&mut self) -> usize {
        match self.below(8) {
            0 => 1 + self.below(5),
            1 => 1 + self.below(1_000),
            _ => (128 * (1 + self.below(6)) + self.below(3)).saturating_sub(1),
        }
    }

    /// What steps are multiples of: units of time and ticks, and divisors at the edge of a width, most often of a width that
    /// leaves narrow sums little space.
    fn unit(&mut self) -> i64 {
        match self.below(8) {
            0 => 1,
            1 => self.pick(&[10, 25, 100, 1_000_000_000]),
            2 => (1i64 << self.below(45)).wrapping_add(self.below(3) as i64 - 1).max(1),
            3 => 1 + self.below(100_000) as i64,
            4 | 5 => self.pick(&[1_000, 1_000_000]),
            _ => (1i64 << (4 + self.below(18))).wrapping_add(self.below(3) as i64 - 1),
        }
    }
}

impl Column {
    /// A column that depends on the generator alone.
    pub fn new(random: &mut Random) -> Self {
        let count = random.count();
        let kind = random.below(KINDS.len());
        let mut values = Vec::with_capacity(count);
        while values.len() < count {
            // Sometimes half of a column is of one kind and the rest of another.
            let kind = if random.below(6) == 0 { random.below(KINDS.len()) } else { kind };
            let left = count - values.len();
            let length = if random.below(3) == 0 { 1 + random.below(left) } else { left };
            KINDS[kind](random, length, &mut values);
        }
        values.truncate(count);
        Self { values, ends: ends(random, count) }
    }
}

/// Where runs end: one, a few, at edges of groups, each group, each value.
fn ends(random: &mut Random, count: usize) -> Vec<u32> {
    let share = random.pick(&[usize::MAX, usize::MAX, usize::MAX, 300, 128, 40, 3, 1]);
    let is_grouped = random.below(3) == 0;
    let mut ends: Vec<u32> = (1..count)
        .filter(|end| match is_grouped {
            true => {
                share < usize::MAX && [0, 1, 127].contains(&(end % 128)) && random.below(3) > 0
                    || share == 128 && end % 128 == 0
            }
            false => share < usize::MAX && random.below(share) == 0,
        })
        .map(|end| end as u32)
        .collect();
    ends.push(count as u32);
    ends
}

type Kind = fn(&mut Random, usize, &mut Vec<i64>);

const KINDS: [Kind; 20] = [
    pauses,
    pauses,
    pauses,
    pauses,
    jittered_pauses,
    walk,
    width_of_each_group,
    exceptions_at_edges,
    extremes,
    few_distinct,
    repetitions,
    back_and_forth,
    climbing,
    sizes,
    wrapping,
    decimals,
    turns,
    turns,
    multiples,
    turns_of_units,
];

/// Adds a step to the last value, so many times.
fn steps(count: usize, values: &mut Vec<i64>, start: i64, mut step: impl FnMut(usize) -> i64) {
    let mut at = values.last().copied().unwrap_or(start);
    for i in 0..count {
        at = at.wrapping_add(step(i));
        values.push(at);
    }
}

/// A time of today, nanoseconds.
const TODAY: i64 = 1_381_156_202_000_000_000;

/// Bursts at one time, with some pauses among them, in units: most often in milliseconds, of some seconds.
fn pauses(random: &mut Random, count: usize, values: &mut Vec<i64>) {
    let unit = if random.below(2) == 0 { 1_000_000 } else { random.unit() };
    let share = random.pick(&[2, 10, 30, 60, 128, 300]);
    let width = random.pick(&[1, 7, 8, 12, 13, 14, 15, 15, 16, 17, 23, 31]);
    steps(count, values, TODAY, |_| match random.below(share) {
        0 => unit.wrapping_mul(random.bits(width)),
        _ => 0,
    });
}

/// The same with small steps between.
fn jittered_pauses(random: &mut Random, count: usize, values: &mut Vec<i64>) {
    let unit = random.unit();
    let (small, share) = (random.below(20) as u32, 3 + random.below(100));
    let width = random.pick(&[8, 12, 14, 15, 16, 17, 20, 24, 31]);
    steps(count, values, TODAY, |_| {
        let is_pause = random.below(share) == 0;
        let own = random.bits(if is_pause { width } else { small });
        unit.wrapping_mul(if random.below(2) == 0 { own } else { own.wrapping_neg() })
    });
}

fn walk(random: &mut Random, count: usize, values: &mut Vec<i64>) {
    let (unit, width) = (random.unit(), random.below(30) as u32);
    let start = random.any();
    steps(count, values, start, |_| unit.wrapping_mul(random.bits(width) - (1i64 << width >> 1)));
}

/// Each group of 128 has its own base and width, the widest number at its first, last or any place.
fn width_of_each_group(random: &mut Random, count: usize, values: &mut Vec<i64>) {
    let unit = random.unit();
    let end = values.len() + count;
    while values.len() < end {
        let (base, width) = (random.any(), random.below(65) as u32);
        for _ in 0..128.min(end - values.len()) {
            values.push(base.wrapping_add(unit.wrapping_mul(random.bits(width))));
        }
    }
}

/// Narrow groups with exceptions of each size where groups begin and end.
fn exceptions_at_edges(random: &mut Random, count: usize, values: &mut Vec<i64>) {
    let (unit, narrow) = (random.unit(), random.below(4) as u32);
    let start = random.any();
    for _ in 0..count {
        let is_edge = [0, 1, 126, 127].contains(&(values.len() % 128)) && random.below(2) == 0;
        let wide = random.pick(&[7, 8, 14, 15, 16, 23, 24, 31, 32, 63, 64]);
        let is_wide = is_edge || random.below(60) == 0;
        let number = random.bits(if is_wide { wide } else { narrow });
        let number = if is_edge && random.below(2) == 0 { number.wrapping_neg() } else { number };
        values.push(start.wrapping_add(unit.wrapping_mul(number)));
    }
}

fn extremes(random: &mut Random, count: usize, values: &mut Vec<i64>) {
    (0..count).for_each(|_| values.push(random.any()));
}

fn few_distinct(random: &mut Random, count: usize, values: &mut Vec<i64>) {
    let distinct: Vec<i64> = (0..1 + random.below(40)).map(|_| random.any()).collect();
    (0..count).for_each(|_| values.push(distinct[random.below(distinct.len()) * random.below(2)]));
}

fn repetitions(random: &mut Random, count: usize, values: &mut Vec<i64>) {
    let end = values.len() + count;
    let most = random.pick(&[2, 9, 130, 600]);
    while values.len() < end {
        let (value, length) = (random.any(), 1 + random.below(most));
        (0..length.min(end - values.len())).for_each(|_| values.push(value));
    }
}

/// Sums that leave 32 bits and return.
fn back_and_forth(random: &mut Random, count: usize, values: &mut Vec<i64>) {
    let step = random.unit().wrapping_mul(random.bits(31));
    steps(count, values, 0, |i| if i % 256 < 128 { step } else { step.wrapping_neg() });
}

/// Equal steps, but for some.
fn climbing(random: &mut Random, count: usize, values: &mut Vec<i64>) {
    let (step, other) = (random.any(), random.any());
    let share = 1 + random.below(400);
    let start = random.any();
    steps(count, values, start, |_| if random.below(share) == 0 { other } else { step });
}

/// Numbers of very different sizes.
fn sizes(random: &mut Random, count: usize, values: &mut Vec<i64>) {
    let most = random.pick(&[20, 57, 58, 59, 64]);
    let start = random.any();
    for _ in 0..count {
        let width = random.below(most + 1) as u32;
        values.push(start.wrapping_add(random.bits(width)));
    }
}

/// Around the place where 64 bits wrap.
fn wrapping(random: &mut Random, count: usize, values: &mut Vec<i64>) {
    let width = random.below(40) as u32;
    for _ in 0..count {
        values.push(i64::MAX.wrapping_add(random.bits(width)).wrapping_sub(1 << width >> 1));
    }
}

/// Coefficients with trailing zeros.
fn decimals(random: &mut Random, count: usize, values: &mut Vec<i64>) {
    for _ in 0..count {
        let zeros = 10i64.pow(random.below(10) as u32);
        values.push(random.bits(20).wrapping_mul(zeros));
    }
}

/// Values that take turns: each walks, stands still or jumps on its own, most often far from the others.
fn turns(random: &mut Random, count: usize, values: &mut Vec<i64>) {
    let unit = random.unit();
    let mut turns: Vec<(i64, u32)> =
        (0..2 + random.below(8)).map(|_| (random.any(), random.pick(&[0, 0, 1, 4, 9, 30, 63, 64]))).collect();
    let (length, share) = (turns.len(), 1 + random.below(300));
    for i in 0..count {
        // Sometimes one misses its turn, so that all others are elsewhere from then on.
        let skipped = usize::from(random.below(share) == 0);
        let (value, width) = &mut turns[(i + skipped) % length];
        let step = unit.wrapping_mul(random.bits(*width));
        *value = if random.below(2) == 0 { value.wrapping_add(step) } else { value.wrapping_sub(step) };
        values.push(*value);
    }
}

/// Multiples of one divisor of any width, from one end of 64 bits to the other; sometimes with one that is none, where a sample of
/// distances does not find it.
fn multiples(random: &mut Random, count: usize, values: &mut Vec<i64>) {
    let divisor = (1u64 << random.below(64)).wrapping_add(random.below(3) as u64).saturating_sub(1).max(1);
    let most = u64::MAX / divisor;
    let start = random.pick(&[i64::MIN, i64::MIN, i64::MIN + 1, 0, -1]);
    let share = random.pick(&[usize::MAX, usize::MAX, 3 * count, 200]);
    for _ in 0..count {
        let number = random.number();
        let multiple = match random.below(4) {
            0 => 0,
            1 => most,
            _ => most.checked_add(1).map_or(number, |end| number % end),
        };
        let other = if random.below(share) == 0 { random.any() } else { 0 };
        values.push(start.wrapping_add(multiple.wrapping_mul(divisor) as i64).wrapping_add(other));
    }
}

/// Values that take turns, each a multiple of a unit of its own, and all of one that may be large.
fn turns_of_units(random: &mut Random, count: usize, values: &mut Vec<i64>) {
    let common = random.unit();
    let turns: Vec<(i64, i64)> =
        (0..2 + random.below(3)).map(|_| (random.any(), random.unit().wrapping_mul(common))).collect();
    let width = random.pick(&[0, 1, 3, 8, 20]);
    for i in 0..count {
        let (base, unit) = turns[i % turns.len()];
        values.push(base.wrapping_mul(common).wrapping_add(unit.wrapping_mul(random.bits(width))));
    }
}
