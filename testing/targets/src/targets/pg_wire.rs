//! What clients of PostgreSQL send: start-up packets, and messages within frames.

use crate::Target;
use crate::sample::SplitMix64;
use tapedb_pg_wire::{Message, frame, message, startup};

/// See the module.
pub const TARGET: Target = Target { name: "pg_wire", run, seed };

const BYTES_MAX: usize = 1 << 16;

/// Nothing panics; what is taken has arrived; a part of a packet or frame is never taken for another one than the whole.
pub fn run(input: &[u8]) {
    if let Ok(Some((found, length))) = startup(input) {
        assert!(length <= input.len() && length >= 8);
        let part = startup(&input[..length - 1]);
        assert_eq!(part, Ok(None), "the packet {found:?} has {length} bytes");
    }
    let mut rest = input;
    while let Ok(Some((kind, body, length))) = frame(rest, BYTES_MAX) {
        assert_eq!(length, body.len() + 5);
        if let Ok(Message::Bind(bind)) = message(kind, body) {
            let bytes: usize = bind.values.iter().flatten().map(|value| value.len()).sum();
            assert!(bytes <= body.len(), "values are within the message");
        }
        rest = &rest[length..];
    }
}

fn seed(number: u64) -> Vec<u8> {
    let mut random = SplitMix64::new(number);
    let mut word = || random.next_u64() as u8;
    let sized = |body: &[u8]| [&(body.len() as u32 + 4).to_be_bytes()[..], body].concat();
    match number % 4 {
        0 => sized(b"\0\x03\0\0user\0ann\0database\0tapedb\0\0"),
        1 => sized(
            &[&80_877_102u32.to_be_bytes()[..], &[0, 0, 0, word()], &[word(), word(), word(), word()]]
                .concat(),
        ),
        2 => {
            let parse = [&b"P"[..], &sized(b"name\0SELECT $1\0\0\x01\0\0\0\x14")].concat();
            let bind = [
                &b"B"[..],
                &sized(&[b"\0name\0\0\x01\0\x01\0\x01\0\0\0\x01", &[word()][..], b"\0\x01\0\x01"].concat()),
            ]
            .concat();
            [&parse[..], &bind, b"D\0\0\0\x06P\0", b"E\0\0\0\x09\0\0\0\0\x07", b"S\0\0\0\x04"].concat()
        }
        _ => [
            &b"Q"[..],
            &sized(b"SELECT 1\0"),
            b"d",
            &sized(&[word(), word()]),
            b"c\0\0\0\x04",
            b"X\0\0\0\x04",
        ]
        .concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tapedb_pg_wire::Startup;

    #[test]
    fn seeds_are_right() {
        assert!(matches!(startup(&seed(0)), Ok(Some((Startup::Start { .. }, _)))));
        assert!(matches!(startup(&seed(1)), Ok(Some((Startup::Cancel { .. }, _)))));
        for number in [2, 3] {
            let bytes = seed(number);
            let mut rest = &bytes[..];
            while let Some((kind, body, length)) = frame(rest, BYTES_MAX).unwrap() {
                message(kind, body).unwrap();
                rest = &rest[length..];
            }
            assert!(rest.is_empty());
        }
    }
}
