//! What messages to people repeat of the input: shortly, for it may be of any length.

/// Most characters of it.
const SHOWN: usize = 40;

/// A text in quotes, cut where it is long.
pub fn quoted(text: &str) -> String {
    let front: String = text.chars().take(SHOWN + 1).collect();
    shortened(&format!("{front:?}"))
}

/// A text, cut where it is long.
pub(crate) fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut() {
        assert_eq!(quoted("a\"b"), r#""a\"b""#);
        let long = quoted(&"é".repeat(1_000_000));
        assert!(long.chars().count() == SHOWN + 1 && long.ends_with('…'), "{long}");
    }
}
