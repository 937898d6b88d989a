//! Cuts a text into statements.

/// The statements of a text: what stands between semicolons that are in no text, quoted name or comment. Empty ones are left out.
pub struct Statements<'a> {
    rest: &'a str,
}

impl<'a> Statements<'a> {
    /// The statements of `text`.
    pub fn new(text: &'a str) -> Self {
        Self { rest: text }
    }
}

impl<'a> Iterator for Statements<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        while !self.rest.is_empty() {
            let (end, _) = end_of(self.rest);
            let statement = self.rest[..end].trim();
            self.rest = self.rest.get(end + 1..).unwrap_or_default();
            if !is_blank(statement) {
                return Some(statement);
            }
        }
        None
    }
}

/// Whether the last statement of a text is ended.
pub fn is_ended(mut text: &str) -> bool {
    loop {
        let (end, is_ended) = end_of(text);
        match text.get(end + 1..) {
            Some(rest) if is_ended && !is_blank(rest) => text = rest,
            _ => return is_ended || is_blank(text),
        }
    }
}

/// Where the first statement ends, and whether a semicolon ends it.
fn end_of(text: &str) -> (usize, bool) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b';' => return (at, true),
            quote @ (b'\'' | b'"') => at = behind(bytes, at + 1, &[quote]),
            b'-' if bytes.get(at + 1) == Some(&b'-') => at = behind(bytes, at + 2, b"\n"),
            b'/' if bytes.get(at + 1) == Some(&b'*') => at = behind(bytes, at + 2, b"*/"),
            _ => at += 1,
        }
    }
    (bytes.len(), false)
}

/// The place behind the next `end`; that behind the text if there is none.
fn behind(bytes: &[u8], from: usize, end: &[u8]) -> usize {
    let found = bytes.get(from..).and_then(|rest| rest.windows(end.len()).position(|window| window == end));
    found.map_or(bytes.len(), |at| from + at + end.len())
}

/// Whether there are only spaces and comments.
fn is_blank(text: &str) -> bool {
    let text = text.trim_start();
    let comment = if text.starts_with("--") {
        "\n"
    } else if text.starts_with("/*") {
        "*/"
    } else {
        return text.is_empty();
    };
    is_blank(&text[behind(text.as_bytes(), 2, comment.as_bytes())..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_end_at_semicolons_of_their_own() {
        let found = |text| Statements::new(text).collect::<Vec<_>>();
        assert_eq!(found("SELECT 1; SELECT 2"), ["SELECT 1", "SELECT 2"]);
        assert_eq!(found(" ;; SELECT ';';"), ["SELECT ';'"]);
        assert_eq!(
            found("SELECT 'it''s; x', \"a;b\" -- ; c\n, 2; /* ; */"),
            ["SELECT 'it''s; x', \"a;b\" -- ; c\n, 2"]
        );
        assert!(found("-- nothing").is_empty() && found("").is_empty());
        assert_eq!(found("SELECT 'open; "), ["SELECT 'open;"]);
    }

    #[test]
    fn a_statement_without_its_end_continues() {
        for text in ["", "SELECT 1;", "SELECT 1; -- x", "SELECT ';';  "] {
            assert!(is_ended(text), "{text:?}");
        }
        for text in ["SELECT", "SELECT 1; SELECT", "SELECT ';", "SELECT 1 -- ;"] {
            assert!(!is_ended(text), "{text:?}");
        }
    }
}
