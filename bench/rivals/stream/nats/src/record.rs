//! The record that every rival carries: 40 bytes, five 64-bit words, little-endian. `Record.java` is the same.
//!
//! Sequence number, time, price, size, symbol: as compressible as ticks are. The last record of a phase is an end mark,
//! which says how many there were and what they add up to.

/// Bytes of a record.
pub const BYTES: usize = 40;
/// Sequence number of an end mark.
const END: u64 = u64::MAX;

/// Writes records in order, and adds them up.
#[derive(Default)]
pub struct Writer {
    count: u64,
    sum: u64,
}

impl Writer {
    /// Appends the next record, with a time in nanoseconds.
    pub fn write(&mut self, time: u64, out: &mut Vec<u8>) {
        let random = mixed(self.count);
        let words = [self.count, time, 10_000 + (random & 127), 1 + (random >> 8 & 511), random >> 24 & 7];
        self.count += 1;
        self.sum = words.iter().fold(self.sum, |sum, &word| sum.wrapping_add(word));
        append(words, out);
    }

    /// Appends the end mark and begins again.
    pub fn end(&mut self, out: &mut Vec<u8>) {
        append([END, 0, self.count, self.sum, 0], out);
        *self = Self::default();
    }
}

/// What a reader has found.
pub enum Found {
    /// A record, with its time.
    Record(u64),
    /// The end of a phase with so many records, all there, in order, unchanged.
    End(u64),
}

/// Reads what a `Writer` wrote: each record must be the next, and all together must add up.
#[derive(Default)]
pub struct Reader {
    count: u64,
    sum: u64,
}

impl Reader {
    /// Reads one record; an error says what is wrong.
    pub fn read(&mut self, bytes: &[u8]) -> Result<Found, String> {
        let words: [u64; 5] = words(bytes)?;
        if words[0] == END {
            return self.end(words[2], words[3]);
        }
        if words[0] != self.count {
            return Err(format!("record {} came where record {} was expected", words[0], self.count));
        }
        self.count += 1;
        self.sum = words.iter().fold(self.sum, |sum, &word| sum.wrapping_add(word));
        Ok(Found::Record(words[1]))
    }

    fn end(&mut self, count: u64, sum: u64) -> Result<Found, String> {
        let found = std::mem::take(self);
        if (found.count, found.sum) != (count, sum) {
            return Err(format!(
                "{count} records that add up to {sum} were sent, {} that add up to {} came",
                found.count, found.sum
            ));
        }
        Ok(Found::End(count))
    }
}

fn words(bytes: &[u8]) -> Result<[u64; 5], String> {
    let bytes: &[u8; BYTES] =
        bytes.try_into().map_err(|_| format!("a record of {} bytes instead of {BYTES}", bytes.len()))?;
    let (words, _) = bytes.as_chunks::<8>();
    Ok(std::array::from_fn(|at| u64::from_le_bytes(words[at])))
}

fn append(words: [u64; 5], out: &mut Vec<u8>) {
    words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
}

/// A hash, one multiplication: enough to look random to a compressor.
fn mixed(value: u64) -> u64 {
    let product = (value + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    product ^ (product >> 32)
}
