//! Files of vendors and venues, and what they contain, as their generator states it.

use super::numbers::Numbers;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fmt::Write as _;
use std::io::{self, Write as _};

/// Orders that rest, about.
const RESTING: u64 = 20_000;
/// Instruments of a day of ITCH.
const INSTRUMENTS: u64 = 500;
/// Levels of each side of a frame.
const LEVELS: u64 = 8;
/// 2023-12-25, in nanoseconds since 1970.
const DAY_NS: u64 = 1_703_462_400_000_000_000;

/// What a file contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Content {
    pub messages: u64,
    /// Of each message the sum of its numbers: see [`Content::add`].
    pub sum: u64,
}

impl Content {
    /// Adds a message: its order or sequence number, and prices and sizes in 1e-4.
    pub fn add(&mut self, number: u64, levels: impl IntoIterator<Item = (i64, i64)>) {
        self.messages += 1;
        self.sum = levels.into_iter().fold(self.sum.wrapping_add(number), |sum, (price, size)| {
            sum.wrapping_add(3 * price as u64).wrapping_add(5 * size as u64)
        });
    }
}

/// A file and what it contains.
pub struct Generated {
    pub bytes: Vec<u8>,
    pub content: Content,
    /// Orders in the last books; `None`: it has no orders.
    pub orders: Option<usize>,
}

/// An order that rests.
struct Resting {
    instrument: u16,
    id: u64,
    size: u32,
}

/// A day of NASDAQ's ITCH: orders that arrive, are executed, cancelled, replaced, deleted.
pub fn itch(messages: u64) -> Generated {
    let (mut numbers, mut bytes, mut content) = (Numbers::new(1), Vec::new(), Content::default());
    let (mut resting, mut next) = (Vec::<Resting>::new(), 1u64);
    for message in 0..messages {
        let is_new = resting.is_empty() || numbers.below(2 * RESTING) >= resting.len() as u64;
        let at = numbers.below(resting.len().max(1) as u64) as usize;
        let (size, price) =
            (100 * (1 + numbers.below(20) as u32), 1_000_000 + 100 * numbers.below(500) as u32);
        let instrument = if is_new { 1 + numbers.below(INSTRUMENTS) as u16 } else { resting[at].instrument };
        let part = |resting: &Resting| size.min(resting.size);
        let kind = if is_new { b'A' } else { b"DDDDDDDEXU"[numbers.below(10) as usize] };
        let mut body = vec![kind];
        body.extend(instrument.to_be_bytes());
        body.extend([0, 1]);
        body.extend(&(34_200_000_000_000 + message * 1_000).to_be_bytes()[2..]);
        if !is_new {
            body.extend(resting[at].id.to_be_bytes());
        }
        let (number, of_price, of_size) = match kind {
            b'A' => {
                body.extend(next.to_be_bytes());
                body.push(b"BS"[numbers.below(2) as usize]);
                body.extend(size.to_be_bytes());
                body.extend(format!("T{instrument:<7}").bytes());
                body.extend(price.to_be_bytes());
                resting.push(Resting { instrument, id: next, size });
                next += 1;
                (next - 1, price, size)
            }
            b'U' => {
                body.extend(
                    [next.to_be_bytes().as_slice(), &size.to_be_bytes(), &price.to_be_bytes()].concat(),
                );
                resting[at] = Resting { instrument, id: next, size };
                next += 1;
                (next - 1, price, size)
            }
            b'D' => (resting.swap_remove(at).id, 0, 0),
            _ => {
                let (id, part) = (resting[at].id, part(&resting[at]));
                body.extend(part.to_be_bytes());
                if kind == b'E' {
                    body.extend(message.to_be_bytes());
                }
                resting[at].size -= part;
                if resting[at].size == 0 {
                    resting.swap_remove(at);
                }
                (id, 0, part)
            }
        };
        content.add(number, [(of_price.into(), i64::from(of_size) * 10_000)]);
        bytes.extend((body.len() as u16).to_be_bytes());
        bytes.extend(body);
    }
    Generated { bytes, content, orders: Some(resting.len()) }
}

/// Databento's market by order of one instrument, records without metadata.
pub fn dbn(messages: u64) -> Generated {
    let (mut numbers, mut bytes, mut content) = (Numbers::new(2), Vec::new(), Content::default());
    let (mut resting, mut next) = (Vec::<(u64, u32, u8)>::new(), 1u64);
    for message in 0..messages {
        let is_new = resting.is_empty() || numbers.below(2 * RESTING) >= resting.len() as u64;
        let at = numbers.below(resting.len().max(1) as u64) as usize;
        // In 1e-9.
        let price = 4_810_000_000_000 + 250_000_000 * numbers.below(400) as i64;
        let mut size = 1 + numbers.below(20) as u32;
        let action = if is_new { b'A' } else { b"CCCCCCCMTF"[numbers.below(10) as usize] };
        if is_new {
            resting.push((next, size, b"BA"[numbers.below(2) as usize]));
            next += 1;
        }
        let (id, left, side) = if is_new { resting[resting.len() - 1] } else { resting[at] };
        match action {
            b'C' => size = resting.swap_remove(at).1,
            b'M' => resting[at].1 = size,
            b'T' | b'F' => size = left,
            _ => {}
        }
        let time = DAY_NS + message * 1_000;
        bytes.extend([14, 0xA0, 1, 0]);
        bytes.extend(17_077u32.to_le_bytes());
        bytes.extend(time.to_le_bytes());
        bytes.extend(id.to_le_bytes());
        bytes.extend(price.to_le_bytes());
        bytes.extend(size.to_le_bytes());
        bytes.extend([0x80, 0, action, side]);
        bytes.extend((time + 400).to_le_bytes());
        bytes.extend(400i32.to_le_bytes());
        bytes.extend((message as u32).to_le_bytes());
        content.add(id, [(price / 100_000, i64::from(size) * 10_000)]);
    }
    Generated { bytes, content, orders: Some(resting.len()) }
}

/// A capture of Binance's changes of a book, gzipped as all captures are.
pub fn binance(frames: u64) -> io::Result<Generated> {
    let (mut numbers, mut text, mut content) = (Numbers::new(3), String::new(), Content::default());
    for frame in 0..frames {
        let (first, last, time) = (1_000 + frame * 40, 1_039 + frame * 40, DAY_NS / 1_000_000 + frame);
        let head = format!(
            r#"{} {{"stream":"btcusdt@depth@0ms","data":{{"e":"depthUpdate","E":{time},"T":{time},"s":"BTCUSDT","U":{first},"u":{last},"pu":{}"#,
            (time + 3) * 1_000_000 + 1,
            first - 1,
        );
        text.push_str(&head);
        let mut levels = Vec::new();
        for side in ["b", "a"] {
            let _ = write!(text, r#","{side}":["#);
            for level in 0..LEVELS {
                let comma = if level == 0 { "" } else { "," };
                // In 1e-1 and 1e-3.
                let (price, size) = (617_000 + numbers.below(2_000), numbers.below(3) * numbers.below(5_000));
                let _ = write!(
                    text,
                    r#"{comma}["{}.{}","{}.{:03}"]"#,
                    price / 10,
                    price % 10,
                    size / 1_000,
                    size % 1_000
                );
                levels.push((price as i64 * 1_000, size as i64 * 10));
            }
            text.push(']');
        }
        text.push_str("}}\n");
        content.add(last, levels);
    }
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(text.as_bytes())?;
    Ok(Generated { bytes: packed.finish()?, content, orders: None })
}
