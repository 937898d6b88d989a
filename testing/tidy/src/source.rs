//! Rust source as tokens: enough to find paths, comments and texts, without a parser of the whole language.

/// What a token is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// An identifier or keyword.
    Word,
    /// `::`
    PathSeparator,
    /// Any other character that means something.
    Mark,
    /// The content of a string literal, escapes as written.
    Text,
    /// A line or block comment, documentation too, with its slashes.
    Comment,
    /// A number, a character, a lifetime.
    Other,
}

/// A token and where it begins.
#[derive(Clone, Copy, Debug)]
pub struct Token<'a> {
    /// What it is.
    pub kind: Kind,
    /// Its characters.
    pub text: &'a str,
    /// Its line, from 1.
    pub line: usize,
}

impl Token<'_> {
    /// Whether this is the word or mark `text`.
    pub fn is(&self, text: &str) -> bool {
        matches!(self.kind, Kind::Word | Kind::Mark | Kind::PathSeparator) && self.text == text
    }
}

/// All tokens of a source file.
pub fn tokens(source: &str) -> Vec<Token<'_>> {
    let mut lexer = Lexer { source, at: 0, line: 1, tokens: Vec::new() };
    while lexer.at < source.len() {
        lexer.step();
    }
    lexer.tokens
}

struct Lexer<'a> {
    source: &'a str,
    at: usize,
    line: usize,
    tokens: Vec<Token<'a>>,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.source[self.at..]
    }

    fn step(&mut self) {
        let rest = self.rest();
        let first = rest.chars().next().expect("not at the end");
        if first.is_whitespace() {
            self.skip(first.len_utf8());
        } else if rest.starts_with("//") {
            self.push(Kind::Comment, rest.find('\n').unwrap_or(rest.len()));
        } else if rest.starts_with("/*") {
            self.push(Kind::Comment, block_comment(rest));
        } else if let Some((before, content, after)) = string(rest) {
            self.skip(before);
            self.push(Kind::Text, content);
            self.skip(after);
        } else if let Some(raw) = rest.strip_prefix("r#").filter(|raw| raw.starts_with(is_word)) {
            self.skip(2);
            self.push(Kind::Word, word(raw));
        } else if first.is_alphabetic() || first == '_' {
            self.push(Kind::Word, word(rest));
        } else if first.is_ascii_digit() {
            self.push(Kind::Other, word(rest));
        } else if first == '\'' {
            self.push(Kind::Other, quoted(rest));
        } else if rest.starts_with("::") {
            self.push(Kind::PathSeparator, 2);
        } else {
            self.push(Kind::Mark, first.len_utf8());
        }
    }

    fn push(&mut self, kind: Kind, length: usize) {
        self.tokens.push(Token { kind, text: &self.rest()[..length], line: self.line });
        self.skip(length);
    }

    fn skip(&mut self, length: usize) {
        self.line += self.rest()[..length].matches('\n').count();
        self.at += length;
    }
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

fn word(rest: &str) -> usize {
    rest.find(|character| !is_word(character)).unwrap_or(rest.len())
}

/// A character literal or a lifetime.
fn quoted(rest: &str) -> usize {
    let mut characters = rest.char_indices().skip(1);
    match characters.next() {
        Some((_, '\\')) => {
            characters.next();
            characters.find(|(_, character)| *character == '\'').map_or(rest.len(), |(at, _)| at + 1)
        }
        Some((at, _)) => match characters.next() {
            Some((end, '\'')) => end + 1,
            _ => at + word(&rest[at..]),
        },
        None => rest.len(),
    }
}

/// Block comments nest.
fn block_comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    loop {
        let here = &rest[at..];
        if here.is_empty() {
            return at;
        } else if here.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if here.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += here.chars().next().map_or(1, char::len_utf8);
        }
    }
}

/// The lengths of a string literal's prefix with its quote, its content and its end.
fn string(rest: &str) -> Option<(usize, usize, usize)> {
    let prefix = usize::from(rest.starts_with(['b', 'c']));
    let after = &rest[prefix..];
    if let Some(raw) = after.strip_prefix('r') {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        let content = raw[hashes..].strip_prefix('"')?;
        let end = format!("\"{}", "#".repeat(hashes));
        let length = content.find(&end).unwrap_or(content.len());
        return Some((prefix + 1 + hashes + 1, length, end.len().min(content.len() - length)));
    }
    let content = after.strip_prefix('"')?;
    let mut escaped = false;
    let end = content.find(|character| {
        let is_end = character == '"' && !escaped;
        escaped = character == '\\' && !escaped;
        is_end
    });
    let length = end.unwrap_or(content.len());
    Some((prefix + 1, length, end.map_or(0, |_| 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(source: &str) -> Vec<(Kind, &str)> {
        tokens(source).iter().map(|token| (token.kind, token.text)).collect()
    }

    #[test]
    fn paths_and_marks() {
        use Kind::{Mark, PathSeparator, Word};
        assert_eq!(kinds("a::b;"), [(Word, "a"), (PathSeparator, "::"), (Word, "b"), (Mark, ";")]);
        assert_eq!(kinds("r#type"), [(Word, "type")]);
    }

    #[test]
    fn comments_are_one_token_and_nest() {
        assert_eq!(kinds("// a \"b\nc"), [(Kind::Comment, "// a \"b"), (Kind::Word, "c")]);
        assert_eq!(kinds("/* a /* b */ c */d"), [(Kind::Comment, "/* a /* b */ c */"), (Kind::Word, "d")]);
    }

    #[test]
    fn strings_with_escapes_and_hashes() {
        assert_eq!(kinds(r#""a\"b" c"#), [(Kind::Text, r#"a\"b"#), (Kind::Word, "c")]);
        assert_eq!(kinds(r#""\\" c"#), [(Kind::Text, r"\\"), (Kind::Word, "c")]);
        assert_eq!(kinds(r###"br#"a"b"# c"###), [(Kind::Text, r#"a"b"#), (Kind::Word, "c")]);
        assert_eq!(kinds("b\"a\"b"), [(Kind::Text, "a"), (Kind::Word, "b")]);
    }

    #[test]
    fn characters_and_lifetimes() {
        assert_eq!(kinds(r"'\'' a"), [(Kind::Other, r"'\''"), (Kind::Word, "a")]);
        assert_eq!(kinds("'\"' a"), [(Kind::Other, "'\"'"), (Kind::Word, "a")]);
        assert_eq!(kinds("&'a str"), [(Kind::Mark, "&"), (Kind::Other, "'a"), (Kind::Word, "str")]);
        assert_eq!(kinds("'ä'"), [(Kind::Other, "'ä'")]);
    }

    #[test]
    fn lines_are_counted_through_texts() {
        let source = "a\n\"b\nc\"\nd";
        let lines: Vec<_> = tokens(source).iter().map(|token| token.line).collect();
        assert_eq!(lines, [1, 2, 4]);
    }
}
