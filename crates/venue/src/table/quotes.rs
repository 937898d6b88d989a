//! Quotes of a table that are not closed, or closed before the cell ends: a reader of tables would take the rows behind them as text.

/// Where in a table its bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// In no quotes; the byte before.
    Outside(u8),
    /// In a cell's quotes.
    Inside,
    /// Behind a quote in quotes: the cell ends, or the quote is doubled.
    Closed,
}

/// Follows the quotes of a table, chunk by chunk.
#[derive(Debug)]
pub(super) struct Quotes {
    delimiter: u8,
    state: State,
    /// Bytes before the chunk.
    before: usize,
}

impl Quotes {
    pub(super) fn new(delimiter: u8) -> Self {
        Self { delimiter, state: State::Outside(b'\n'), before: 0 }
    }

    /// The bytes of a chunk that are in order; fewer than it has if there is something else than a cell's end behind its quotes.
    pub(super) fn sound(&mut self, chunk: &[u8]) -> usize {
        let mut at = 0;
        while at < chunk.len() {
            let quote = memchr::memchr(b'"', &chunk[at..]).map(|found| at + found);
            match (self.state, quote) {
                (State::Inside, Some(quote)) => (self.state, at) = (State::Closed, quote + 1),
                (State::Inside, None) => break,
                (State::Closed, _) => {
                    self.state = match chunk[at] {
                        b'"' => State::Inside,
                        byte if self.ends_cell(byte) => State::Outside(byte),
                        _ => return at,
                    };
                    at += 1;
                }
                (State::Outside(before), Some(quote)) => {
                    let before = if quote == at { before } else { chunk[quote - 1] };
                    // The mark of the byte order is no part of the first cell.
                    let is_first = before == 0xbf && self.before + quote == 3;
                    let opens = self.ends_cell(before) || is_first;
                    (self.state, at) = (if opens { State::Inside } else { State::Outside(b'"') }, quote + 1);
                }
                (State::Outside(_), None) => {
                    self.state = State::Outside(chunk[chunk.len() - 1]);
                    break;
                }
            }
        }
        self.before += chunk.len();
        chunk.len()
    }

    /// Whether the file ends in quotes.
    pub(super) fn is_open(&self) -> bool {
        self.state == State::Inside
    }

    fn ends_cell(&self, byte: u8) -> bool {
        byte == self.delimiter || byte == b'\n' || byte == b'\r'
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many bytes are in order, whatever the chunks are, and whether the end is in quotes.
    fn check(text: &str) -> (usize, bool) {
        let of_chunks = |length: usize| {
            let (mut quotes, mut sound) = (Quotes::new(b','), 0);
            for chunk in text.as_bytes().chunks(length) {
                let found = quotes.sound(chunk);
                sound += found;
                if found < chunk.len() {
                    break;
                }
            }
            (sound, quotes.is_open())
        };
        let whole = of_chunks(text.len());
        assert!((1..text.len()).all(|length| of_chunks(length) == whole), "{text}");
        whole
    }

    #[test]
    fn quotes_begin_and_end_with_their_cell() {
        for sound in
            ["a,b\nc,d", "\"a\",\"b,\n\"\"c\"\r\n\"\"\n", "5\" pipe,a\"b\"c\n", "\u{feff}\"a\"\n\"b\""]
        {
            assert_eq!(check(sound), (sound.len(), false), "{sound}");
        }
        assert_eq!(check("a,\"1\"5\n"), (5, false));
        assert_eq!(check("a,\"x\nb,\"y\nc,z"), (8, false));
        assert_eq!(check("a,\"x\nb,y\n"), (9, true));
        assert_eq!(check("a,\"\"\"x"), (6, true));
    }
}
