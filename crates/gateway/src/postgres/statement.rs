//! Texts of statements: where each ends, which parameters it has, and what answers it.
//!
//! Queries are not taken apart here: what is neither of PostgreSQL's sessions nor about its catalogue goes to the queries of streams
//! as it is.

use crate::postgres::failure::Failure;

/// A piece of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    /// A name or a key word, without quotes.
    Word(&'a str),
    /// A name within quotes.
    Quoted(&'a str),
    /// A text within quotes.
    Text(&'a str),
    /// A number of a parameter.
    Parameter(usize),
    Other(&'a str),
}

/// What answers a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    Empty,
    /// The queries of streams.
    Query,
    /// The catalogue.
    Catalog,
    Show(String),
    Set {
        name: String,
        value: Option<String>,
    },
    Begin,
    Commit,
    Rollback,
    DiscardAll,
    /// Removes a prepared statement, or all.
    Deallocate(Option<String>),
    /// A cursor for a query.
    Declare {
        name: String,
        query: String,
        is_held: bool,
    },
    /// Rows of a cursor; `None`: all that are left.
    Fetch {
        name: String,
        rows: Option<usize>,
    },
    /// Closes a cursor, or all.
    Close(Option<String>),
    CopyOut {
        query: String,
        options: CopyOptions,
    },
    /// Rows of the client into a table: its name and its columns, as they are in a query.
    CopyIn {
        table: String,
        columns: String,
        options: CopyOptions,
    },
    /// Changes nothing here; its tag.
    Nothing(&'static str),
    Refused(String),
}

/// How `COPY` writes rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CopyOptions {
    pub format: CopyFormat,
    pub has_header: bool,
    pub delimiter: u8,
    pub null: String,
    pub quote: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CopyFormat {
    Text,
    Csv,
    Binary,
}

/// The statements of a text, without what separates them.
pub(crate) fn split(text: &str) -> Vec<&str> {
    let mut statements = Vec::new();
    let mut start = 0;
    for (at, token) in tokens(text) {
        if token == Token::Other(";") {
            statements.push(text[start..at].trim());
            start = at + 1;
        }
    }
    statements.push(text[start..].trim());
    // Text that is only comments is none.
    statements.retain(|text| !tokens(text).is_empty());
    statements
}

/// The greatest number of a parameter.
pub(crate) fn parameters(text: &str) -> usize {
    let number = |(_, token)| if let Token::Parameter(number) = token { number } else { 0 };
    tokens(text).into_iter().map(number).max().unwrap_or(0)
}

/// What answers a statement.
pub(crate) fn kind(text: &str) -> Kind {
    let tokens: Vec<(usize, Token<'_>)> = tokens(text);
    let words: Vec<String> = tokens.iter().map(|(_, token)| lower(*token)).collect();
    let word = |index: usize| words.get(index).map_or("", String::as_str);
    match word(0) {
        "" => Kind::Empty,
        "begin" | "start" => Kind::Begin,
        "commit" | "end" => Kind::Commit,
        "rollback" if matches!(word(1), "to") || matches!(word(2), "to") => Kind::Nothing("ROLLBACK"),
        "rollback" | "abort" => Kind::Rollback,
        "savepoint" => Kind::Nothing("SAVEPOINT"),
        "release" => Kind::Nothing("RELEASE"),
        "set" => set(text, &tokens, &words),
        "reset" if word(1) == "all" => Kind::Nothing("RESET"),
        "reset" => Kind::Set { name: word(1).into(), value: None },
        "show" if matches!(word(1), "tables" | "columns" | "functions") => Kind::Query,
        "show" if word(1) == "time" => Kind::Show("timezone".into()),
        "show" if word(1) == "transaction" => Kind::Show("transaction_isolation".into()),
        "show" => Kind::Show(words[1..].concat()),
        "discard" if word(1) == "all" => Kind::DiscardAll,
        "discard" => Kind::Nothing("DISCARD"),
        "deallocate" => {
            let at = if word(1) == "prepare" { 2 } else { 1 };
            Kind::Deallocate(name(&tokens, at).filter(|name| !name.eq_ignore_ascii_case("all")))
        }
        "declare" => declare(text, &tokens, &words),
        "fetch" => fetch(&tokens, &words),
        "close" => Kind::Close(name(&tokens, 1).filter(|name| !name.eq_ignore_ascii_case("all"))),
        "copy" => match copy(text, &tokens, &words) {
            Ok(kind) => kind,
            Err(failure) => Kind::Refused(failure.text),
        },
        "unlisten" => Kind::Nothing("UNLISTEN"),
        "select" | "with" | "values" | "table" | "explain" | "describe" | "(" if is_catalog(&tokens) => {
            Kind::Catalog
        }
        _ => Kind::Query,
    }
}

/// Whether a statement is about the session or PostgreSQL's catalogue, by its names.
fn is_catalog(tokens: &[(usize, Token<'_>)]) -> bool {
    const FUNCTIONS: [&str; 12] = [
        "version",
        "current_schema",
        "current_schemas",
        "current_database",
        "current_catalog",
        "current_setting",
        "set_config",
        "format_type",
        "obj_description",
        "quote_ident",
        "inet_server_addr",
        "txid_current",
    ];
    const NAMES: [&str; 6] = [
        "current_catalog",
        "current_user",
        "session_user",
        "current_role",
        "current_schema",
        "information_schema",
    ];
    // What a source of rows follows may be a stream's.
    let mut has_source = false;
    for (index, (_, token)) in tokens.iter().enumerate() {
        let (Token::Word(name) | Token::Quoted(name)) = token else { continue };
        let name = name.to_ascii_lowercase();
        let follows =
            |what: &str| matches!(tokens.get(index + 1), Some((_, Token::Other(other))) if *other == what);
        has_source |= name == "from";
        if name == "information_schema" || name == "pg_catalog" || name.starts_with("pg_") {
            return true;
        }
        if !has_source
            && (FUNCTIONS.contains(&name.as_str()) && follows("(") || NAMES.contains(&name.as_str()))
        {
            return true;
        }
    }
    false
}

fn set(text: &str, tokens: &[(usize, Token<'_>)], words: &[String]) -> Kind {
    let word = |index: usize| words.get(index).map_or("", String::as_str);
    let at = if matches!(word(1), "session" | "local") && word(2) != "=" { 2 } else { 1 };
    match word(at) {
        "transaction" | "characteristics" | "constraints" | "role" | "authorization" => {
            return Kind::Nothing("SET");
        }
        "time" if word(at + 1) == "zone" => {
            return Kind::Set { name: "timezone".into(), value: value(text, tokens, at + 2) };
        }
        "names" => return Kind::Set { name: "client_encoding".into(), value: value(text, tokens, at + 1) },
        _ => {}
    }
    // Names may have a point.
    let sign = (at..words.len()).find(|index| matches!(word(*index), "=" | "to"));
    let Some(sign) = sign else { return Kind::Refused("SET needs a name and a value".into()) };
    Kind::Set { name: words[at..sign].concat(), value: value(text, tokens, sign + 1) }
}

/// The value that begins at a token; `None`: the default.
fn value(text: &str, tokens: &[(usize, Token<'_>)], at: usize) -> Option<String> {
    let (start, first) = tokens.get(at)?;
    match first {
        Token::Word(word) if word.eq_ignore_ascii_case("default") => None,
        Token::Text(only) | Token::Quoted(only) if tokens.len() == at + 1 => Some((*only).into()),
        _ => Some(text[*start..].trim().into()),
    }
}

fn declare(text: &str, tokens: &[(usize, Token<'_>)], words: &[String]) -> Kind {
    let at = words.iter().position(|word| word == "for").and_then(|at| tokens.get(at + 1));
    match (name(tokens, 1), at) {
        (Some(name), Some((start, _))) => {
            let is_held = words.windows(2).any(|two| two[0] == "with" && two[1] == "hold");
            Kind::Declare { name, query: text[*start..].into(), is_held }
        }
        _ => Kind::Refused("DECLARE needs a name and FOR with a query".into()),
    }
}

fn fetch(tokens: &[(usize, Token<'_>)], words: &[String]) -> Kind {
    let (Some((_, last)), Some(last_word)) = (tokens.last(), words.last()) else { return Kind::Empty };
    let name = match last {
        Token::Quoted(name) => (*name).to_string(),
        _ => last_word.clone(),
    };
    let mut rows = Some(1);
    for word in &words[1..words.len().saturating_sub(1)] {
        match word.as_str() {
            "forward" | "next" | "from" | "in" => {}
            "all" => rows = None,
            number => match number.parse() {
                Ok(number) => rows = Some(number),
                Err(_) => {
                    return Kind::Refused("cursors only go forward: FETCH, FETCH 100, FETCH ALL".into());
                }
            },
        }
    }
    Kind::Fetch { name, rows }
}

fn copy(text: &str, tokens: &[(usize, Token<'_>)], words: &[String]) -> Result<Kind, Failure> {
    let refused = |what: &str| Err(Failure::unsupported(what));
    let mut depth = 0;
    let mut to = None;
    for (index, word) in words.iter().enumerate() {
        match word.as_str() {
            "(" => depth += 1,
            ")" => depth -= 1,
            "to" | "from" if depth == 0 => {
                to = Some(index);
                break;
            }
            _ => {}
        }
    }
    let Some(to) = to else { return refused("COPY needs TO STDOUT or FROM STDIN") };
    if words[to] == "from" {
        return copy_in(text, tokens, words, to);
    }
    if words.get(to + 1).map(String::as_str) != Some("stdout") {
        return refused("COPY writes to STDOUT alone, neither to files nor to programs");
    }
    let source = text[tokens[1].0..tokens[to].0].trim();
    let query = match source.strip_prefix('(') {
        Some(rest) => rest.trim_end().strip_suffix(')').unwrap_or(rest).to_string(),
        // A table, and perhaps columns.
        None => match source.split_once('(') {
            Some((table, columns)) => {
                format!("SELECT {} FROM {table}", columns.trim_end().trim_end_matches(')'))
            }
            None => format!("SELECT * FROM {source}"),
        },
    };
    Ok(Kind::CopyOut { query, options: copy_options(&tokens[to + 2..], &words[to + 2..])? })
}

/// `COPY table (columns) FROM STDIN`, whose `FROM` is the token `from`.
fn copy_in(
    text: &str,
    tokens: &[(usize, Token<'_>)],
    words: &[String],
    from: usize,
) -> Result<Kind, Failure> {
    if words.get(from + 1).map(String::as_str) != Some("stdin") {
        return Err(Failure::unsupported(
            "COPY reads from STDIN alone, neither from files nor from programs",
        ));
    }
    let wrong = || Failure::new("42601", "COPY needs a table, and perhaps columns: COPY t (a, b) FROM STDIN");
    let open = (1..from).find(|index| words[*index] == "(" && matches!(tokens[*index].1, Token::Other(_)));
    // A name, then what separates it from the next one.
    let are_names = |range: std::ops::Range<usize>, between: &str| {
        range.len() % 2 == 1
            && range.clone().enumerate().all(|(place, index)| match tokens[index].1 {
                Token::Word(_) | Token::Quoted(_) => place % 2 == 0,
                Token::Other(other) => place % 2 == 1 && other == between,
                _ => false,
            })
    };
    let of =
        |range: std::ops::Range<usize>| text[tokens[range.start].0..tokens[range.end].0].trim().to_string();
    let table = 1..open.unwrap_or(from);
    if !are_names(table.clone(), ".") {
        return Err(wrong());
    }
    let columns = match open {
        None => "*".to_string(),
        Some(open) if words[from - 1] == ")" && are_names(open + 1..from - 1, ",") => of(open + 1..from - 1),
        Some(_) => return Err(wrong()),
    };
    Ok(Kind::CopyIn {
        table: of(table),
        columns,
        options: copy_options(&tokens[from + 2..], &words[from + 2..])?,
    })
}

/// The last name of a table's, and whether its letters count as they are; `None`: it has only one.
pub(crate) fn type_name(table: &str) -> Option<(&str, bool)> {
    match tokens(table)[..] {
        [_, .., (_, Token::Quoted(name))] => Some((name, true)),
        [_, .., (_, Token::Word(name))] => Some((name, false)),
        _ => None,
    }
}

fn copy_options(tokens: &[(usize, Token<'_>)], words: &[String]) -> Result<CopyOptions, Failure> {
    let mut format = CopyFormat::Text;
    let (mut has_header, mut delimiter, mut null, mut quote) = (false, None, None, b'"');
    let text = |index: usize| match tokens.get(index) {
        Some((_, Token::Text(text))) => Ok((*text).to_string()),
        _ => Err(Failure::new("42601", "an option of COPY needs a text")),
    };
    let byte = |index: usize| {
        let text = text(index)?;
        // E'\t' is a tab.
        match text.replace("\\t", "\t").as_bytes() {
            [byte] => Ok(*byte),
            _ => Err(Failure::new("22023", "a delimiter and a quote of COPY have one byte")),
        }
    };
    let mut index = 0;
    while let Some(word) = words.get(index) {
        // A format may be a text.
        let named = match tokens[index].1 {
            Token::Text(text) => text.to_ascii_lowercase(),
            _ => word.clone(),
        };
        match named.as_str() {
            "with" | "(" | ")" | "," | "format" | "e" | "as" => {}
            "text" => format = CopyFormat::Text,
            "csv" => format = CopyFormat::Csv,
            "binary" => format = CopyFormat::Binary,
            "header" => {
                has_header = !matches!(words.get(index + 1).map(String::as_str), Some("false" | "off" | "0"))
            }
            "true" | "on" | "false" | "off" | "0" | "1" => {}
            "delimiter" | "null" | "quote" => {
                // AS and E before the text.
                let at = (index + 1..tokens.len()).find(|at| !matches!(words[*at].as_str(), "as" | "e"));
                let at = at.unwrap_or(index);
                match named.as_str() {
                    "delimiter" => delimiter = Some(byte(at)?),
                    "null" => null = Some(text(at)?),
                    _ => quote = byte(at)?,
                }
                index = at;
            }
            "encoding" => index += 1,
            other => return Err(Failure::unsupported(format!("COPY has no option {other:?} here"))),
        }
        index += 1;
    }
    let is_csv = format == CopyFormat::Csv;
    Ok(CopyOptions {
        format,
        has_header,
        delimiter: delimiter.unwrap_or(if is_csv { b',' } else { b'\t' }),
        null: null.unwrap_or_else(|| if is_csv { String::new() } else { "\\N".into() }),
        quote,
    })
}

/// The name at a token.
fn name(tokens: &[(usize, Token<'_>)], at: usize) -> Option<String> {
    match tokens.get(at)?.1 {
        Token::Word(word) => Some(word.to_ascii_lowercase()),
        Token::Quoted(name) => Some(name.into()),
        _ => None,
    }
}

fn lower(token: Token<'_>) -> String {
    match token {
        Token::Word(word) | Token::Other(word) => word.to_ascii_lowercase(),
        Token::Quoted(name) => name.into(),
        // No key word.
        Token::Text(_) => "'".into(),
        Token::Parameter(_) => "$".into(),
    }
}

/// The tokens of a text, and where they begin. Comments are left out.
fn tokens(text: &str) -> Vec<(usize, Token<'_>)> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let start = at;
        match byte {
            _ if byte.is_ascii_whitespace() => at += 1,
            b'-' if bytes.get(at + 1) == Some(&b'-') => at = find(text, at, "\n"),
            b'/' if bytes.get(at + 1) == Some(&b'*') => at = comment_end(bytes, at),
            b'\'' => {
                // E'…' has backslashes.
                let is_escaped =
                    matches!(found.last(), Some((before, Token::Word("E" | "e"))) if before + 1 == at);
                at = quoted_end(bytes, at, is_escaped);
                found.push((start, Token::Text(inside(text, start, at))));
            }
            b'"' => {
                at = quoted_end(bytes, at, false);
                found.push((start, Token::Quoted(inside(text, start, at))));
            }
            b'$' => match dollar(text, at) {
                Dollar::Parameter(number, end) => {
                    at = end;
                    found.push((start, Token::Parameter(number)));
                }
                Dollar::Text(end) => {
                    at = end;
                    found.push((start, Token::Text(&text[start..end])));
                }
                Dollar::Other => {
                    at += 1;
                    found.push((start, Token::Other("$")));
                }
            },
            _ if is_word(*byte) => {
                while bytes.get(at).is_some_and(|byte| is_word(*byte) || *byte == b'$') {
                    at += 1;
                }
                found.push((start, Token::Word(&text[start..at])));
            }
            _ => {
                at += 1;
                found.push((start, Token::Other(&text[start..at])));
            }
        }
    }
    found
}

/// Letters, digits, and all of a letter that is no ASCII.
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// Behind the next occurrence of a text.
fn find(text: &str, at: usize, what: &str) -> usize {
    text[at..].find(what).map_or(text.len(), |found| at + found + what.len())
}

/// Behind a comment, which may contain others.
fn comment_end(bytes: &[u8], mut at: usize) -> usize {
    let mut depth = 0;
    while at < bytes.len() {
        match (bytes[at], bytes.get(at + 1)) {
            (b'/', Some(b'*')) => {
                depth += 1;
                at += 2;
            }
            (b'*', Some(b'/')) => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    at
}

/// Behind the quote that ends what one begins; two are one inside.
fn quoted_end(bytes: &[u8], start: usize, is_escaped: bool) -> usize {
    let quote = bytes[start];
    let mut at = start + 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\\' if is_escaped => at += 2,
            byte if *byte == quote && bytes.get(at + 1) == Some(&quote) => at += 2,
            byte if *byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// What is within quotes.
fn inside(text: &str, start: usize, end: usize) -> &str {
    text.get(start + 1..end - 1).unwrap_or_default()
}

enum Dollar {
    Parameter(usize, usize),
    Text(usize),
    Other,
}

/// A parameter, or a text between two tags.
fn dollar(text: &str, start: usize) -> Dollar {
    let rest = &text[start + 1..];
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    if digits > 0 {
        return match rest[..digits].parse() {
            Ok(number) => Dollar::Parameter(number, start + 1 + digits),
            Err(_) => Dollar::Other,
        };
    }
    let tag = rest.bytes().take_while(|byte| is_word(*byte)).count();
    match rest.as_bytes().get(tag) {
        Some(b'$') => {
            let tag = &text[start..start + tag + 2];
            Dollar::Text(find(text, start + tag.len(), tag))
        }
        _ => Dollar::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_end_at_semicolons_outside_of_texts() {
        let text = "SELECT ';', \";\", $$;$$, E'\\';' -- ;\n; /* ; /* */ */ SELECT 'ü' ; -- end";
        assert_eq!(split(text), ["SELECT ';', \";\", $$;$$, E'\\';' -- ;", "/* ; /* */ */ SELECT 'ü'"]);
        assert_eq!(parameters("SELECT '$9', $2, $1 -- $7"), 2);
        for broken in ["'", "\"", "$$", "$a$ $b$", "/*", "--", "E'\\", "$99999999999999999999999"] {
            split(broken);
            kind(broken);
        }
    }

    #[test]
    fn statements_of_sessions_are_told_from_queries() {
        let set =
            |name: &str, value: Option<&str>| Kind::Set { name: name.into(), value: value.map(Into::into) };
        for (text, expected) in [
            ("", Kind::Empty),
            ("-- nothing", Kind::Empty),
            ("BEGIN READ ONLY", Kind::Begin),
            ("start transaction", Kind::Begin),
            ("rollback to savepoint a", Kind::Nothing("ROLLBACK")),
            ("SET extra_float_digits = 3", set("extra_float_digits", Some("3"))),
            ("SET SESSION datestyle TO 'ISO, MDY'", set("datestyle", Some("ISO, MDY"))),
            ("SET TIME ZONE 'UTC'", set("timezone", Some("UTC"))),
            ("SET search_path TO DEFAULT", set("search_path", None)),
            ("SET a.b = c", set("a.b", Some("c"))),
            ("SHOW TRANSACTION ISOLATION LEVEL", Kind::Show("transaction_isolation".into())),
            ("show tables", Kind::Query),
            ("SELECT * FROM bars", Kind::Query),
            ("SELECT version()", Kind::Catalog),
            ("SELECT version FROM bars", Kind::Query),
            ("SELECT 'pg_class'", Kind::Query),
            ("SELECT 1 FROM pg_catalog.pg_class", Kind::Catalog),
            ("DEALLOCATE ALL", Kind::Deallocate(None)),
            ("FETCH FORWARD 10 FROM \"C\"", Kind::Fetch { name: "C".into(), rows: Some(10) }),
            ("FETCH ALL c", Kind::Fetch { name: "c".into(), rows: None }),
            (
                "DECLARE c CURSOR WITH HOLD FOR SELECT 1",
                Kind::Declare { name: "c".into(), query: "SELECT 1".into(), is_held: true },
            ),
        ] {
            assert_eq!(kind(text), expected, "{text}");
        }
        assert!(matches!(kind("FETCH PRIOR FROM c"), Kind::Refused(_)));
    }

    #[test]
    fn copy_writes_to_the_client_alone() {
        let Kind::CopyOut { query, options } = kind("COPY (SELECT a, (b) FROM c) TO STDOUT (FORMAT binary)")
        else {
            panic!()
        };
        assert_eq!((query.as_str(), options.format), ("SELECT a, (b) FROM c", CopyFormat::Binary));
        let Kind::CopyOut { query, options } =
            kind("copy bars (time, close) to stdout with csv header delimiter ';'")
        else {
            panic!()
        };
        assert_eq!(
            (query.as_str(), options.delimiter, options.has_header),
            ("SELECT time, close FROM bars ", b';', true)
        );
        for refused in [
            "COPY bars TO '/tmp/x'",
            "COPY bars FROM '/etc/passwd'",
            "COPY bars TO PROGRAM 'sh'",
            "COPY bars FROM PROGRAM 'sh'",
            "COPY (SELECT 1) FROM STDIN",
            "COPY bars (a b) FROM STDIN",
            "COPY bars (a, ) FROM STDIN",
            "COPY bars () FROM STDIN",
            "COPY bars LIMIT 1 FROM STDIN",
            "COPY FROM STDIN",
            "COPY",
        ] {
            assert!(matches!(kind(refused), Kind::Refused(_)), "{refused}");
        }
    }

    #[test]
    fn copy_reads_from_the_client_alone() {
        for (text, table, columns) in [
            ("COPY bars FROM STDIN", "bars", "*"),
            (
                "copy us.\"Bar\" (time, \"Close\") from stdin with (format csv)",
                "us.\"Bar\"",
                "time, \"Close\"",
            ),
            ("COPY bars(time) FROM STDIN", "bars", "time"),
        ] {
            let Kind::CopyIn { table: found, columns: found_columns, .. } = kind(text) else {
                panic!("{text}")
            };
            assert_eq!((found.as_str(), found_columns.as_str()), (table, columns));
        }
        assert_eq!(type_name("us.\"Bar\""), Some(("Bar", true)));
        assert_eq!(type_name("us.bar"), Some(("bar", false)));
        assert_eq!(type_name("bars"), None);
    }
}
