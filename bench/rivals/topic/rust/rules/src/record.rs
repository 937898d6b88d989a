//! The records that every rival carries: 64-bit words. `Ticks.java` makes the same.
//!
//! Sequence number, time, price, size, symbol, and in longer records whatever fills them. The last record of a phase is
//! an end mark, which says how many there were and what all their words add up to.

/// Words of the short record, 40 bytes.
pub const SHORT: usize = 5;
/// Words of the long record, 256 bytes.
pub const LONG: usize = 32;
/// Sequence number of an end mark.
const END: u64 = u64::MAX;

/// Writes messages of records with `W` words each, in order, and adds them up.
#[derive(Default)]
pub struct Writer<const W: usize> {
    count: u64,
    sum: u64,
}

impl<const W: usize> Writer<W> {
    /// The next message, all its records with this time in nanoseconds.
    #[inline]
    pub fn message<const N: usize>(&mut self, time: u64) -> [u64; N] {
        let mut message = [0; N];
        for record in message.chunks_exact_mut(W) {
            self.fill(time, record);
        }
        message
    }

    /// The end mark.
    pub fn end<const N: usize>(&self) -> [u64; N] {
        let mut message = [0; N];
        message[..SHORT].copy_from_slice(&[END, 0, self.count, self.sum, 0]);
        message
    }

    #[inline]
    fn fill(&mut self, time: u64, record: &mut [u64]) {
        let random = mixed(self.count);
        let words = [self.count, time, 10_000 + (random & 127), 1 + (random >> 8 & 511), random >> 24 & 7];
        let (head, rest) = record.split_at_mut(SHORT);
        head.copy_from_slice(&words);
        rest.fill(random);
        self.count += 1;
        self.sum = record.iter().fold(self.sum, |sum, &word| sum.wrapping_add(word));
    }
}

/// Reads what a `Writer` wrote: each record must be the next, and all together must add up.
#[derive(Default)]
pub struct Reader<const W: usize> {
    count: u64,
    sum: u64,
    wrong: Option<String>,
    is_over: bool,
}

impl<const W: usize> Reader<W> {
    /// Reads a message; returns its time, or `None` once there is no more, as all came or something was wrong.
    #[inline]
    pub fn read(&mut self, message: &[u64]) -> Option<u64> {
        if self.is_over || message[0] == END {
            self.end(message);
            return None;
        }
        for record in message.chunks_exact(W) {
            if record[0] != self.count {
                self.fail(format!("record {} came where record {} was expected", record[0], self.count));
                return None;
            }
            self.count += 1;
            self.sum = record.iter().fold(self.sum, |sum, &word| sum.wrapping_add(word));
        }
        Some(message[1])
    }

    /// Whether nothing more is expected.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// How many records came, all there, in order, unchanged; or what was wrong.
    pub fn finish(self) -> Result<u64, String> {
        match self.wrong {
            Some(wrong) => Err(wrong),
            None => Ok(self.count),
        }
    }

    #[cold]
    fn end(&mut self, message: &[u64]) {
        if self.is_over {
            return self.fail("a record came after the end mark".into());
        }
        self.is_over = true;
        let (count, sum) = (message[2], message[3]);
        if (self.count, self.sum) != (count, sum) {
            self.fail(format!(
                "{count} records that add up to {sum} were sent, {} that add up to {} came",
                self.count, self.sum
            ));
        }
    }

    #[cold]
    fn fail(&mut self, wrong: String) {
        self.is_over = true;
        self.wrong.get_or_insert(wrong);
    }
}

/// A hash, one multiplication: enough that no record is like another.
fn mixed(value: u64) -> u64 {
    let product = (value + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    product ^ (product >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent() -> (Vec<[u64; 10]>, [u64; 10]) {
        let mut writer = Writer::<SHORT>::default();
        let messages = (0..3).map(|time| writer.message(time)).collect();
        (messages, writer.end())
    }

    fn read(messages: &[[u64; 10]]) -> Result<u64, String> {
        let mut reader = Reader::<SHORT>::default();
        for message in messages {
            reader.read(message);
        }
        reader.finish()
    }

    #[test]
    fn what_was_sent_is_accepted() {
        let (mut messages, end) = sent();
        messages.push(end);
        assert_eq!(read(&messages), Ok(6));
    }

    #[test]
    fn what_is_missing_or_changed_is_noticed() {
        let (messages, end) = sent();
        assert!(read(&[messages[0], messages[2], end]).is_err());
        assert!(read(&[messages[0], messages[1], end]).is_err());
        let mut changed = messages[2];
        changed[7] ^= 1;
        assert!(read(&[messages[0], messages[1], changed, end]).is_err());
    }
}
