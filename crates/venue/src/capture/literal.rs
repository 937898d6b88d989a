//! Bytes written as a literal of Python: `b'\x1f\x8b…'`.

/// The bytes of a literal; `None` if the text is none.
///
/// # Errors
/// The place where the literal is broken.
pub(super) fn unescape(text: &[u8]) -> Result<Option<Vec<u8>>, usize> {
    let [b'b', quote @ (b'\'' | b'"'), rest @ ..] = text else { return Ok(None) };
    let mut bytes = Vec::with_capacity(rest.len());
    let mut at = 0;
    while let Some(&byte) = rest.get(at) {
        at += 1;
        if byte == *quote {
            return if at == rest.len() { Ok(Some(bytes)) } else { Err(2 + at) };
        }
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        let escaped = *rest.get(at).ok_or(2 + at)?;
        at += 1;
        bytes.push(match escaped {
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'\\' | b'\'' | b'"' => escaped,
            b'x' => {
                let digits = rest.get(at..at + 2).and_then(|digits| std::str::from_utf8(digits).ok());
                at += 2;
                digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).ok_or(at)?
            }
            _ => return Err(1 + at),
        });
    }
    Err(2 + at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_unescaped_or_refused() {
        assert_eq!(
            unescape(br#"b'\x1f\x8b\n\'a"\\'"#),
            Ok(Some(vec![0x1f, 0x8b, b'\n', b'\'', b'a', b'"', b'\\']))
        );
        assert_eq!(unescape(br#"b"it's""#), Ok(Some(b"it's".to_vec())));
        assert_eq!(unescape(b"{}"), Ok(None));
        for broken in [&br"b'\x1"[..], br"b'\x1g'", br"b'\q'", b"b'a", b"b'a'b", br"b'\"] {
            assert!(unescape(broken).is_err(), "{broken:?}");
        }
    }
}
