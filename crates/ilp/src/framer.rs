//! Where lines end, in bytes that arrive in pieces.

/// Finds the ends of lines in bytes that arrive in pieces of any size. Each byte is looked at once.
///
/// A line break within a text or a binary value ends no line, so that the ends depend on what comes before them. Of lines that are
/// right it finds exactly the ends that [`Parser`](crate::Parser) finds.
#[derive(Debug, Clone, Default)]
pub struct Framer {
    state: State,
    /// Bytes of the line so far.
    length: usize,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    /// Before the first byte of a line.
    #[default]
    Begin,
    Comment,
    /// Measurement and tags.
    Head {
        is_escaped: bool,
    },
    /// The name of a field, or a timestamp.
    Name {
        is_escaped: bool,
    },
    /// Behind the `=` of a field.
    Value,
    /// In a value that is not quoted, or behind one that is.
    Rest,
    Quoted {
        is_escaped: bool,
    },
    /// The type of a binary value.
    Binary,
    /// So many bytes of a binary value.
    Bytes(u64),
    ArrayType,
    ArrayDimensions,
    ArrayShape {
        dimensions: u8,
        bytes: u8,
        length: u32,
        items: u64,
    },
    DecimalScale,
    DecimalLength,
    /// Behind the fields.
    Time,
}

/// Binary values: a double, an array, a decimal; an array of doubles, and one that is none.
pub(crate) const DOUBLE: u8 = 0x10;
pub(crate) const ARRAY: u8 = 0x0E;
pub(crate) const DECIMAL: u8 = 0x17;
pub(crate) const ITEM_DOUBLE: u8 = 0x0A;
pub(crate) const ITEM_NONE: u8 = 0x21;

impl Framer {
    /// Before the first line.
    pub fn new() -> Self {
        Self::default()
    }

    /// Looks at the next bytes. `Some(n)`: the last line that is whole ends with the first `n` of them; the rest, and all bytes where
    /// it is `None`, belong to a line that goes on.
    pub fn push(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut end = None;
        let mut at = 0;
        while at < bytes.len() {
            if let State::Bytes(left) = self.state {
                let taken = left.min((bytes.len() - at) as u64);
                at += taken as usize;
                self.length += taken as usize;
                self.state = if taken == left { State::Rest } else { State::Bytes(left - taken) };
                continue;
            }
            let is_end = self.step(bytes[at]);
            at += 1;
            self.length += 1;
            if is_end {
                (self.state, self.length) = (State::Begin, 0);
                end = Some(at);
            }
        }
        end
    }

    /// Bytes of the line that goes on.
    pub fn pending(&self) -> usize {
        self.length
    }

    /// Whether the byte ends the line.
    #[inline]
    fn step(&mut self, byte: u8) -> bool {
        let is_break = byte == b'\n';
        self.state = match self.state {
            State::Begin => match byte {
                b'\n' => return true,
                b'\r' | b' ' => State::Begin,
                b'#' => State::Comment,
                _ => State::Head { is_escaped: byte == b'\\' },
            },
            State::Comment | State::Time if is_break => return true,
            State::Comment | State::Time => return false,
            State::Head { is_escaped: true } => State::Head { is_escaped: false },
            State::Head { .. } => match byte {
                b'\n' => return true,
                b' ' => State::Name { is_escaped: false },
                _ => State::Head { is_escaped: byte == b'\\' },
            },
            State::Name { is_escaped: true } => State::Name { is_escaped: false },
            State::Name { .. } => match byte {
                b'\n' => return true,
                b'=' => State::Value,
                _ => State::Name { is_escaped: byte == b'\\' },
            },
            State::Value => match byte {
                b'"' => State::Quoted { is_escaped: false },
                b'=' => State::Binary,
                _ => return self.rest(byte),
            },
            State::Rest => return self.rest(byte),
            State::Quoted { is_escaped: true } => State::Quoted { is_escaped: false },
            State::Quoted { .. } => match byte {
                b'"' => State::Rest,
                _ => State::Quoted { is_escaped: byte == b'\\' },
            },
            State::Binary => match byte {
                DOUBLE => State::Bytes(8),
                ARRAY => State::ArrayType,
                DECIMAL => State::DecimalScale,
                _ => return self.rest(byte),
            },
            // Handled by the caller.
            State::Bytes(_) => State::Rest,
            State::ArrayType => match byte {
                ITEM_DOUBLE => State::ArrayDimensions,
                ITEM_NONE => State::Rest,
                _ => return self.rest(byte),
            },
            State::ArrayDimensions if byte == 0 => State::Rest,
            State::ArrayDimensions => State::ArrayShape { dimensions: byte, bytes: 0, length: 0, items: 1 },
            State::ArrayShape { dimensions, bytes, length, items } => {
                let length = length | u32::from(byte) << (8 * bytes);
                match (bytes, dimensions) {
                    (0..3, _) => State::ArrayShape { dimensions, bytes: bytes + 1, length, items },
                    (_, 1) => bytes_of(items.saturating_mul(length.into())),
                    _ => {
                        let items = items.saturating_mul(length.into());
                        State::ArrayShape { dimensions: dimensions - 1, bytes: 0, length: 0, items }
                    }
                }
            }
            State::DecimalScale => State::DecimalLength,
            State::DecimalLength => bytes_of_length(byte.into()),
        };
        false
    }

    fn rest(&mut self, byte: u8) -> bool {
        self.state = match byte {
            b'\n' => return true,
            b',' => State::Name { is_escaped: false },
            b' ' => State::Time,
            _ => State::Rest,
        };
        false
    }
}

fn bytes_of(items: u64) -> State {
    bytes_of_length(items.saturating_mul(8))
}

fn bytes_of_length(bytes: u64) -> State {
    if bytes == 0 { State::Rest } else { State::Bytes(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ends of lines, when the bytes arrive in pieces of a size.
    fn ends(bytes: &[u8], size: usize) -> Vec<usize> {
        let (mut framer, mut ends) = (Framer::new(), Vec::new());
        for (piece, begin) in bytes.chunks(size).zip((0..).step_by(size)) {
            ends.extend(framer.push(piece).map(|end| begin + end));
        }
        ends
    }

    #[test]
    fn line_breaks_in_texts_and_binary_values_end_no_line() {
        for line in [
            &b"t,a=\\\nb f=\"x\ny\\\"\n\",g=1 7\n"[..],
            b"t f==\x10\n\n\n\n\n\n\n\n,g=1\n",
            b"t f==\x0e\x0a\x02\x01\0\0\0\x02\0\0\0\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n 7n\n",
            b"t f==\x17\n\x02\n\n,g==\x17\x01\0 \n",
            b"t f==\x0e\x21\n",
            b"# a \" comment\n",
            b"\r\n",
            b"t \"a\"=1\n",
        ] {
            for size in 1..=line.len() {
                assert_eq!(ends(line, size), [line.len()], "{line:?} in pieces of {size}");
            }
        }
        assert_eq!(ends(b"a b=1\nc d=", 100), [6]);
    }

    #[test]
    fn pending_bytes_are_counted() {
        let mut framer = Framer::new();
        assert_eq!(framer.push(b"a b==\x0e\x0a\x01\xff\xff\xff\xff12"), None);
        assert_eq!(framer.pending(), 14);
    }
}
