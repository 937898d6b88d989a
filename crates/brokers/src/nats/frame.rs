//! What a NATS server sends. Bytes in, frames out: no socket, and a limit on what a frame may state.

use crate::headers::Marks;
use std::ops::Range;

/// The longest line.
const LINE_BYTES_MAX: usize = 1 << 20;
/// The most bytes of headers and payload: what servers allow at most.
pub(super) const PAYLOAD_BYTES_MAX: usize = 64 << 20;

/// A frame; ranges are of the buffer that it was parsed from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Frame {
    Info(Range<usize>),
    Message { subject: Range<usize>, reply: Range<usize>, headers: Range<usize>, payload: Range<usize> },
    Ping,
    Pong,
    Ok,
    Refused(String),
}

/// The first frame of the bytes, and how many bytes it has; `None`: it is not there whole.
pub(super) fn parse(bytes: &[u8]) -> Result<Option<(Frame, usize)>, String> {
    let Some(line_end) = find_line(bytes)? else { return Ok(None) };
    let line = &bytes[..line_end];
    let after = line_end + 2;
    let text = str::from_utf8(line).map_err(|_| "a line that is not UTF-8".to_string())?;
    let operation = text.split([' ', '\t']).next().unwrap_or_default();
    let frame = match operation.to_ascii_uppercase().as_str() {
        "MSG" => return message(bytes, text, after, false),
        "HMSG" => return message(bytes, text, after, true),
        "INFO" => Frame::Info(operation.len()..line_end),
        "PING" => Frame::Ping,
        "PONG" => Frame::Pong,
        "+OK" => Frame::Ok,
        "-ERR" => Frame::Refused(text[operation.len()..].trim().trim_matches('\'').to_string()),
        _ => return Err(format!("{:?}, which is no operation of NATS", shortened(text))),
    };
    Ok(Some((frame, after)))
}

/// Where the first line ends.
fn find_line(bytes: &[u8]) -> Result<Option<usize>, String> {
    let searched = &bytes[..bytes.len().min(LINE_BYTES_MAX)];
    match searched.windows(2).position(|pair| pair == b"\r\n") {
        None if searched.len() == LINE_BYTES_MAX => Err("a line without an end".into()),
        found => Ok(found),
    }
}

fn message(
    bytes: &[u8],
    line: &str,
    start: usize,
    has_headers: bool,
) -> Result<Option<(Frame, usize)>, String> {
    let wrong = || format!("{:?}, which states no message", shortened(line));
    let words: Vec<&str> = line.split([' ', '\t']).filter(|word| !word.is_empty()).collect();
    let sizes = if has_headers { 2 } else { 1 };
    let (head, sizes) = words.split_at_checked(words.len().saturating_sub(sizes)).ok_or_else(wrong)?;
    let (subject, reply) = match head {
        [_, subject, _] => (*subject, None),
        [_, subject, _, reply] => (*subject, Some(*reply)),
        _ => return Err(wrong()),
    };
    let sizes: Vec<usize> =
        sizes.iter().map(|size| size.parse().map_err(|_| wrong())).collect::<Result<_, _>>()?;
    let (header_bytes, total) = match sizes[..] {
        [headers, total] if headers <= total => (headers, total),
        [total] if !has_headers => (0, total),
        _ => return Err(wrong()),
    };
    if total > PAYLOAD_BYTES_MAX {
        return Err(format!("a message of {total} bytes; the most is {PAYLOAD_BYTES_MAX}"));
    }
    let Some(ends) = bytes.get(start + total..start + total + 2) else { return Ok(None) };
    if ends != b"\r\n" {
        return Err("a message that is longer than it states".into());
    }
    let at = |word: &str| {
        let from = word.as_ptr() as usize - line.as_ptr() as usize;
        from..from + word.len()
    };
    let frame = Frame::Message {
        subject: at(subject),
        reply: reply.map_or(0..0, at),
        headers: start..start + header_bytes,
        payload: start + header_bytes..start + total,
    };
    Ok(Some((frame, start + total + 2)))
}

/// A status in headers, such as 404 for no messages; 0: there is none, it is a message.
pub(super) fn status(headers: &[u8]) -> (u16, &str) {
    let line = headers.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let line = str::from_utf8(line).unwrap_or_default();
    let rest = line.strip_prefix("NATS/1.0").unwrap_or_default().trim_start();
    let (code, text) = rest.split_once(' ').unwrap_or((rest, ""));
    (code.parse().unwrap_or(0), text.trim())
}

/// The headers, one after the other.
pub(super) fn headers(bytes: &[u8]) -> impl Iterator<Item = (&str, &str)> {
    let text = str::from_utf8(bytes).unwrap_or_default();
    text.split("\r\n").skip(1).filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        Some((name.trim(), value.trim()))
    })
}

/// What headers state of a message.
pub(super) fn marks(bytes: &[u8]) -> Marks {
    let mut marks = Marks::default();
    headers(bytes).for_each(|(name, value)| marks.take(name, value.as_bytes()));
    marks
}

fn shortened(text: &str) -> String {
    text.chars().take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: &[u8] =
        b"HMSG a.b 1 $JS.ACK.s.c.1.22.3.4.5 38 43\r\nNATS/1.0\r\ntapedb-sequence: 7\r\nb: c\r\n\r\nhello\r\n";

    #[test]
    fn frames_arrive_in_any_pieces() {
        let all =
            [b"INFO {\"a\":1}\r\n".as_slice(), b"PING\r\n", b"MSG x 1 0\r\n\r\n", MESSAGE, b"-ERR 'no'\r\n"]
                .concat();
        let mut found = Vec::new();
        let mut rest = &all[..];
        while !rest.is_empty() {
            let (frame, length) = parse(rest).expect("frames").expect("whole");
            for cut in 0..length {
                assert_eq!(parse(&rest[..cut]), Ok(None), "{cut}");
            }
            found.push((frame, length));
            rest = &rest[length..];
        }
        assert_eq!(found.len(), 5);
        let Frame::Message { subject, reply, headers, payload } = &found[3].0 else { panic!("{found:?}") };
        assert_eq!((&MESSAGE[subject.clone()], &MESSAGE[payload.clone()]), (&b"a.b"[..], &b"hello"[..]));
        assert_eq!(&MESSAGE[reply.clone()], b"$JS.ACK.s.c.1.22.3.4.5");
        assert_eq!(marks(&MESSAGE[headers.clone()]).sequence, Some(7));
        assert_eq!(found[4].0, Frame::Refused("no".into()));
    }

    #[test]
    fn what_is_stated_is_bounded() {
        let long = vec![b'x'; LINE_BYTES_MAX];
        for bad in [
            b"MSG x 1 99999999999999999999\r\n".as_slice(),
            b"MSG x 1 99999999999\r\n",
            b"MSG x 1 67108865\r\n",
            b"HMSG x 1 9 5\r\n",
            b"MSG x\r\n",
            b"MSG\r\n",
            b"HMSG 1\r\n",
            b"MSG x 1 2\r\nabcde\r\n",
            b"GET / HTTP/1.1\r\n",
            b"\xff\r\n",
            &long,
        ] {
            assert!(parse(bad).is_err(), "{:?}", String::from_utf8_lossy(&bad[..bad.len().min(40)]));
        }
    }

    #[test]
    fn bytes_of_any_kind_are_read_or_refused() {
        let mut seed = 1u64;
        for _ in 0..20_000 {
            let mut bytes = MESSAGE.to_vec();
            for _ in 0..3 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let at = (seed >> 33) as usize % bytes.len();
                bytes[at] = (seed >> 24) as u8;
            }
            crate::nats::read_hostile_frames(&bytes);
        }
    }

    #[test]
    fn statuses() {
        assert_eq!(status(b"NATS/1.0 404 No Messages\r\n\r\n"), (404, "No Messages"));
        assert_eq!(status(b"NATS/1.0 100\r\n\r\n"), (100, ""));
        assert_eq!(status(b"NATS/1.0\r\na: b\r\n\r\n"), (0, ""));
        assert_eq!(status(b""), (0, ""));
    }
}
