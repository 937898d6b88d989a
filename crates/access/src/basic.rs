//! Names and passwords as HTTP's scheme `Basic` sends them (RFC 7617).

use data_encoding::{Encoding, Specification};
use std::sync::LazyLock;

/// Base 64 with the letters of either alphabet; of padding nothing is left, and clients do not all set the bits behind the last byte to 0.
static BASE64: LazyLock<Encoding> = LazyLock::new(|| {
    let mut specification = Specification::new();
    specification.symbols.push_str("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/");
    specification.translate.from.push_str("-_");
    specification.translate.to.push_str("+/");
    specification.check_trailing_bits = false;
    specification.encoding().expect("64 letters")
});

/// The name and the password of the text behind `Basic`, padded or not; the password may have colons. `None`: it is not base 64 of UTF-8 with
/// a colon.
///
/// ```
/// let ann = Some(("ann".to_string(), "a:b".to_string()));
/// assert_eq!(tapedb_access::basic_credentials("YW5uOmE6Yg=="), ann);
/// assert_eq!(tapedb_access::basic_credentials("YW5uOmE6Yg"), ann);
/// assert_eq!(tapedb_access::basic_credentials("YW5u"), None);
/// ```
pub fn basic_credentials(text: &str) -> Option<(String, String)> {
    let bytes = BASE64.decode(text.trim().trim_end_matches('=').as_bytes()).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    let (user, password) = text.split_once(':')?;
    Some((user.into(), password.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_alphabets_are_read_and_what_is_none_is_refused() {
        let sent = |text| basic_credentials(text);
        // "a:" and the two bytes of ÿ and of ¾, which need the last letters.
        assert_eq!(sent("YTrDv8K-"), Some(("a".into(), "ÿ¾".into())));
        assert_eq!(sent("YTrDv8K+"), sent("YTrDv8K-"));
        assert_eq!(sent(" YTpi\n"), Some(("a".into(), "b".into())));
        for wrong in ["", "=", "!", "YTpi Yg", "YTpiY", "/////w==", "YW5u"] {
            assert_eq!(sent(wrong), None, "{wrong:?}");
        }
    }
}
