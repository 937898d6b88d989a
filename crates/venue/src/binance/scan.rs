//! Frames in exactly the form in which Binance writes them, byte by byte: nearly all of a capture are. Whatever is not, is left to the
//! reader of JSON, which also says what is wrong.

use super::frames::{Number, VenueTime};
use tapedb_market::Side;
use tapedb_schema::Decimal64;

/// Digits of a decimal.
const DIGITS_MAX: usize = 16;

/// A diff without its levels.
pub(super) struct DepthHead<'a> {
    pub(super) event_time: VenueTime,
    pub(super) match_time: VenueTime,
    pub(super) symbol: &'a str,
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) previous: Option<u64>,
}

/// The diff whose envelope ends at `from`, its levels to `take`; `None` if it is written in another way, perhaps after some levels.
pub(super) fn depth(
    json: &str,
    from: usize,
    mut take: impl FnMut(Side, Number, Number),
) -> Option<DepthHead<'_>> {
    let mut scan = Scan { text: json, at: from };
    scan.expect(r#","data":{"e":"depthUpdate","E":"#)?;
    let event_time = VenueTime::of(scan.integer()?)?;
    let match_time = match scan.expect(r#","T":"#) {
        Some(()) => VenueTime::of(scan.integer()?)?,
        None => VenueTime::default(),
    };
    scan.expect(r#","s":""#)?;
    let symbol = scan.text()?;
    // The pair of a contract that is settled in coins.
    if scan.expect(r#","ps":""#).is_some() {
        scan.text()?;
    }
    scan.expect(r#","U":"#)?;
    let first = scan.integer()?;
    scan.expect(r#","u":"#)?;
    let last = scan.integer()?;
    let previous = match scan.expect(r#","pu":"#) {
        Some(()) => Some(scan.integer()?),
        None => None,
    };
    for (side, name) in [(Side::Bid, r#","b":["#), (Side::Ask, r#","a":["#)] {
        scan.expect(name)?;
        if scan.expect("]").is_some() {
            continue;
        }
        loop {
            scan.expect("[")?;
            let price = scan.number()?;
            scan.expect(",")?;
            take(side, price, scan.number()?);
            match scan.expect("],") {
                Some(()) => {}
                None => break scan.expect("]]")?,
            }
        }
    }
    scan.expect("}}")?;
    (scan.at == json.len()).then_some(DepthHead { event_time, match_time, symbol, first, last, previous })
}

struct Scan<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scan<'a> {
    #[inline]
    fn expect(&mut self, part: &str) -> Option<()> {
        let found = self.text.as_bytes().get(self.at..self.at + part.len())? == part.as_bytes();
        found.then(|| self.at += part.len())
    }

    /// A whole number without leading zeros, far below the largest.
    #[inline]
    fn integer(&mut self) -> Option<u64> {
        let bytes = self.text.as_bytes();
        let (begin, mut number) = (self.at, 0);
        while let Some(digit) =
            bytes.get(self.at).map(|byte| byte.wrapping_sub(b'0')).filter(|digit| *digit < 10)
        {
            number = u64::wrapping_mul(number, 10).wrapping_add(u64::from(digit));
            self.at += 1;
        }
        let length = self.at - begin;
        ((1..19).contains(&length) && (length == 1 || bytes[begin] != b'0')).then_some(number)
    }

    /// What is before the closing quote, without escapes.
    #[inline]
    fn text(&mut self) -> Option<&'a str> {
        let rest = &self.text[self.at..];
        let length = rest.bytes().position(|byte| byte == b'"' || byte == b'\\' || byte < b' ')?;
        self.at += length + 1;
        (rest.as_bytes()[length] == b'"').then(|| &rest[..length])
    }

    /// A decimal in quotes, of digits and at most one point between them.
    #[inline]
    fn number(&mut self) -> Option<Number> {
        let bytes = self.text.as_bytes().get(self.at..)?;
        if bytes.first() != Some(&b'"') {
            return None;
        }
        let (mut coefficient, mut point, mut end) = (0u64, 0, 1);
        loop {
            match *bytes.get(end)? {
                digit @ b'0'..=b'9' => {
                    coefficient = coefficient.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'));
                }
                b'.' if point == 0 && end > 1 => point = end,
                b'"' => break,
                _ => return None,
            }
            end += 1;
        }
        let decimals = if point == 0 { 0 } else { end - 1 - point };
        let digits = end - 1 - usize::from(point != 0);
        if !(1..=DIGITS_MAX).contains(&digits) || (point != 0 && decimals == 0) {
            return None;
        }
        self.at += end + 1;
        Decimal64::from_parts(coefficient as i64, -(decimals as i32)).ok().map(Number)
    }
}

#[cfg(test)]
mod tests {
    use super::super::frames::{Depth, Envelope};
    use super::*;
    use proptest::prelude::*;

    type Levels = Vec<(Side, Decimal64, Decimal64)>;
    type Found = (String, [u64; 2], Option<u64>, [Option<i64>; 2], Levels);

    fn scanned(json: &str) -> Option<Found> {
        let stream = super::super::enveloped_stream(json)?;
        let mut levels = Vec::new();
        let head = depth(json, super::super::ENVELOPE.len() + stream.len() + 1, |side, price, size| {
            levels.push((side, price.0, size.0));
        })?;
        let times = [head.event_time, head.match_time].map(|time| time.time().map(|time| time.nanos()));
        Some((head.symbol.into(), [head.first, head.last], head.previous, times, levels))
    }

    fn parsed(json: &str) -> Option<Found> {
        let depth = serde_json::from_str::<Envelope<Depth<'_>>>(json).ok()?.data;
        let side = |side, levels: &[(Number, Number)]| -> Levels {
            levels.iter().map(|(price, size)| (side, price.0, size.0)).collect()
        };
        let levels = [side(Side::Bid, &depth.bids), side(Side::Ask, &depth.asks)].concat();
        let times = [depth.event_time, depth.match_time].map(|time| time.time().map(|time| time.nanos()));
        Some((depth.symbol.into(), [depth.first, depth.last], depth.previous, times, levels))
    }

    fn bits(found: &Found) -> Vec<[u64; 2]> {
        found.4.iter().map(|(_, price, size)| [price.to_bits(), size.to_bits()]).collect()
    }

    const FRAMES: [&str; 3] = [
        r#"{"stream":"btcusdt@depth@0ms","data":{"e":"depthUpdate","E":1723161256299,"T":1723161256298,"s":"BTCUSDT","U":5,"u":9,"pu":4,"b":[["58710.20","0.014"],["61510.90","0.000"]],"a":[["7","8"]]}}"#,
        r#"{"stream":"btcusdt@depth@100ms","data":{"e":"depthUpdate","E":1723161255208,"s":"BTCUSDT","U":50093239189,"u":50093239202,"b":[["61737.63000000","0.00000000"]],"a":[]}}"#,
        r#"{"stream":"btcusd_perp@depth@0ms","data":{"e":"depthUpdate","E":1723161257440,"T":1723161257432,"s":"BTCUSD_PERP","ps":"BTCUSD","U":1,"u":1007198631565,"pu":0,"b":[],"a":[["61773.6","1001"],["0","0"]]}}"#,
    ];

    #[test]
    fn frames_as_they_are_written_are_those_of_json() {
        for frame in FRAMES {
            let (found, expected) = (scanned(frame).unwrap(), parsed(frame).unwrap());
            assert_eq!(bits(&found), bits(&expected), "{frame}");
            assert_eq!(found, expected);
        }
        for (from, to) in [
            ("\"U\":5", "\"U\":05"),
            ("\"8\"", "\".8\""),
            ("\"8\"", "\"8.\""),
            ("\"8\"", "\"1E3\""),
            ("\"8\"", "\"12345678901234567\""),
            ("\"8\"", "\"\""),
            ("\"8\"", "8"),
            ("\"7\",\"8\"", "\"7\",\"8\",\"9\""),
            ("BTCUSDT\"", "BTC\\u0055SDT\""),
            ("]]}}", "]]}} "),
            ("]]}}", "]],\"x\":1}}"),
            ("1723161256299", "1723161256"),
        ] {
            let other = FRAMES[0].replace(from, to);
            assert!(other != FRAMES[0] && scanned(&other).is_none(), "{other}");
        }
    }

    proptest! {
        /// Whatever is changed in a frame, what is scanned is what it says.
        #[test]
        fn what_is_scanned_is_what_json_says(
            which in 0..FRAMES.len(),
            changes in prop::collection::vec((any::<prop::sample::Index>(), r#"[0-9.,"\[\]{}:eE+ -]{0,3}"#, 0..2usize), 0..3),
        ) {
            let mut frame = FRAMES[which].to_string();
            for (at, text, removed) in changes {
                let at = at.index(frame.len());
                frame.replace_range(at..(at + removed).min(frame.len()), &text);
            }
            if let Some(found) = scanned(&frame) {
                let expected = parsed(&frame);
                prop_assert_eq!(expected.as_ref().map(bits), Some(bits(&found)));
                prop_assert_eq!(expected, Some(found));
            }
        }
    }
}
