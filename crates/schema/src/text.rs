//! The human-readable form of a schema: [`Display`](fmt::Display) prints it, [`FromStr`] reads it.
//!
//! For every schema that [`Schema::validate`] accepts, reading the printed text gives an equal schema. Reading never
//! recurses and reads at most [`MAX_TEXT_BYTES`], so that hostile text costs only an error.

use std::fmt::{self, Write};
use std::str::FromStr;

use crate::{
    Decimal64, ElementType, EnumType, Field, FieldType, Literal, MAX_ARRAY_DEPTH, RecordType, Scalar, Schema,
    SchemaError,
};

/// Longest schema text, in bytes; a schema whose printed text would be longer is not valid.
pub const MAX_TEXT_BYTES: usize = 1 << 20;

/// Reserved words in place of a literal: no enum symbol has such a name.
pub(crate) const RESERVED_WORDS: [&str; 3] = ["null", "true", "false"];

/// Reserved words in place of a type: no enum or record type has such a name.
pub(crate) const RESERVED_TYPE_NAMES: [&str; 22] = [
    "bool",
    "i8",
    "i16",
    "i32",
    "i64",
    "u8",
    "u16",
    "u32",
    "u64",
    "f32",
    "f64",
    "decimal64",
    "decimal",
    "timestamp",
    "time_of_day",
    "char",
    "ascii",
    "string",
    "binary",
    "array",
    "record",
    "enum",
];

/// An enum on one line is at most this long; a longer one gets a line for each symbol.
const ENUM_LINE_BYTES: usize = 100;

impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for e in &self.enums {
            f.write_str(separator)?;
            write_enum(f, e)?;
            separator = "\n";
        }
        for record in &self.records {
            f.write_str(separator)?;
            write_record(f, record)?;
            separator = "\n";
        }
        Ok(())
    }
}

/// As in a schema text, without nullability: `array<record<Trade|Quote>?>`.
impl fmt::Display for FieldType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Scalar(scalar) => return scalar.fmt(f),
            Self::String => "string",
            Self::Binary => "binary",
            Self::Enum(name) => name,
            Self::Array(element) => return write!(f, "array<{}{}>", element.ty, mark(element.nullable)),
            Self::Record(alternatives) => return write!(f, "record<{}>", alternatives.join("|")),
        })
    }
}

/// As in a schema text.
impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Integer(integer) => write!(f, "{integer}"),
            Self::Text(text) => write_quoted(f, text),
            Self::Symbol(symbol) => f.write_str(symbol),
        }
    }
}

/// Reads and validates a schema text.
///
/// ```
/// let schema: tapedb_schema::Schema = "message Trade { price: decimal64, size: decimal64? }".parse()?;
/// assert_eq!(schema.record("Trade").unwrap().1.fields.len(), 2);
/// # Ok::<(), tapedb_schema::SchemaError>(())
/// ```
impl FromStr for Schema {
    type Err = SchemaError;

    fn from_str(text: &str) -> Result<Self, SchemaError> {
        if text.len() > MAX_TEXT_BYTES {
            return Err(SchemaError::Limit {
                place: "the schema text".into(),
                what: "bytes",
                have: text.len(),
                min: 0,
                max: MAX_TEXT_BYTES,
            });
        }
        let schema = Parser { text, at: 0 }.schema()?;
        schema.validate()?;
        Ok(schema)
    }
}

/// Reads a literal as after the `=` of a field. [`Schema::validate`] checks whether it fits the field.
///
/// ```
/// use tapedb_schema::Literal;
/// assert_eq!("1.50".parse(), Ok(Literal::Number("1.50".parse()?)));
/// assert_eq!("BID".parse(), Ok(Literal::Symbol("BID".into())));
/// # Ok::<(), tapedb_schema::DecimalError>(())
/// ```
impl FromStr for Literal {
    type Err = SchemaError;

    fn from_str(text: &str) -> Result<Self, SchemaError> {
        let mut parser = Parser { text, at: 0 };
        let literal = parser.literal()?;
        parser.skip();
        if parser.rest().is_empty() {
            Ok(literal)
        } else {
            Err(parser.expected_at(parser.at, "the end of the literal"))
        }
    }
}

fn mark(nullable: bool) -> &'static str {
    if nullable { "?" } else { "" }
}

fn write_doc(f: &mut fmt::Formatter<'_>, indent: &str, doc: &str) -> fmt::Result {
    if doc.is_empty() {
        return Ok(());
    }
    for line in doc.split('\n') {
        let space = if line.is_empty() { "" } else { " " };
        writeln!(f, "{indent}///{space}{line}")?;
    }
    Ok(())
}

fn write_enum(f: &mut fmt::Formatter<'_>, e: &EnumType) -> fmt::Result {
    write_doc(f, "", &e.doc)?;
    // Number, " = ", ", " and twenty digits at most: this bound finds short enums without printing them.
    let long = e.symbols.iter().map(|(name, number)| name.len() + 5 + decimal_width(*number));
    if e.name.len() + 8 + long.sum::<usize>() <= ENUM_LINE_BYTES {
        let symbols: Vec<_> = e.symbols.iter().map(|(name, number)| format!("{name} = {number}")).collect();
        return writeln!(f, "enum {} {{ {} }}", e.name, symbols.join(", "));
    }
    writeln!(f, "enum {} {{", e.name)?;
    e.symbols.iter().try_for_each(|(name, number)| writeln!(f, "    {name} = {number},"))?;
    f.write_str("}\n")
}

fn decimal_width(number: i64) -> usize {
    number.unsigned_abs().checked_ilog10().unwrap_or(0) as usize + 1 + usize::from(number < 0)
}

fn write_record(f: &mut fmt::Formatter<'_>, record: &RecordType) -> fmt::Result {
    write_doc(f, "", &record.doc)?;
    let keyword = if record.message { "message" } else { "record" };
    if record.fields.is_empty() {
        return writeln!(f, "{keyword} {} {{}}", record.name);
    }
    writeln!(f, "{keyword} {} {{", record.name)?;
    record.fields.iter().try_for_each(|field| write_field(f, field))?;
    f.write_str("}\n")
}

fn write_field(f: &mut fmt::Formatter<'_>, field: &Field) -> fmt::Result {
    write_doc(f, "    ", &field.doc)?;
    write!(f, "    {}: {}{}", field.name, field.ty, mark(field.nullable))?;
    if let Some(default) = &field.default {
        write!(f, " = {default}")?;
    }
    if !field.aliases.is_empty() {
        write!(f, " [alias {}]", field.aliases.join(", "))?;
    }
    f.write_str(",\n")
}

fn write_quoted(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    f.write_char('"')?;
    for c in text.chars() {
        match c {
            '"' => f.write_str("\\\"")?,
            '\\' => f.write_str("\\\\")?,
            '\n' => f.write_str("\\n")?,
            '\r' => f.write_str("\\r")?,
            '\t' => f.write_str("\\t")?,
            c if c.is_control() => write!(f, "\\u{{{:x}}}", u32::from(c))?,
            c => f.write_char(c)?,
        }
    }
    f.write_char('"')
}

/// Reads one text from left to right; `at` is a byte offset on a character boundary.
struct Parser<'a> {
    text: &'a str,
    at: usize,
}

type Parsed<T> = Result<T, SchemaError>;

impl<'a> Parser<'a> {
    fn schema(mut self) -> Parsed<Schema> {
        let mut schema = Schema::default();
        loop {
            let doc = self.doc();
            if self.rest().is_empty() {
                return Ok(schema);
            }
            let start = self.at;
            match self.word() {
                "enum" => schema.enums.push(self.enumeration(doc)?),
                "record" => schema.records.push(self.record(doc, false)?),
                "message" => schema.records.push(self.record(doc, true)?),
                _ => return Err(self.expected_at(start, "'enum', 'record' or 'message'")),
            }
        }
    }

    fn enumeration(&mut self, doc: String) -> Parsed<EnumType> {
        let name = self.name("a name for the enum")?;
        self.expect('{')?;
        let mut symbols = Vec::new();
        let mut next = Some(0i64);
        while !self.take('}') {
            let symbol = self.name("an enum symbol or '}'")?;
            let number = if self.take('=') { self.number()? } else { self.counted(next)? };
            next = number.checked_add(1);
            symbols.push((symbol, number));
            self.separator('}')?;
        }
        Ok(EnumType { name, symbols, doc })
    }

    fn record(&mut self, doc: String, message: bool) -> Parsed<RecordType> {
        let name = self.name("a name for the record type")?;
        self.expect('{')?;
        let mut fields = Vec::new();
        loop {
            let field_doc = self.doc();
            if self.take('}') {
                return Ok(RecordType { name, message, fields, doc });
            }
            fields.push(self.field(field_doc)?);
            self.separator('}')?;
        }
    }

    /// `name: type? = default [alias a, b]`; default and aliases in either order.
    fn field(&mut self, doc: String) -> Parsed<Field> {
        let name = self.name("a field name or '}'")?;
        self.expect(':')?;
        let ElementType { ty, nullable } = self.field_type()?;
        let (mut default, mut aliases) = (None, Vec::new());
        loop {
            if default.is_none() && self.take('=') {
                default = Some(self.literal()?);
            } else if aliases.is_empty() && self.take('[') {
                aliases = self.aliases()?;
            } else {
                return Ok(Field { name, ty, nullable, default, aliases, doc });
            }
        }
    }

    fn aliases(&mut self) -> Parsed<Vec<String>> {
        self.skip();
        let start = self.at;
        if self.word() != "alias" {
            return Err(self.expected_at(start, "'alias'"));
        }
        let mut aliases = vec![self.name("a former name of the field")?];
        while self.take(',') {
            aliases.push(self.name("a former name of the field")?);
        }
        self.expect(']')?;
        Ok(aliases)
    }

    /// Counts `array<` on the way in and closes them on the way out, instead of recursing.
    fn field_type(&mut self) -> Parsed<ElementType> {
        let mut depth = 0;
        let mut element = loop {
            self.skip();
            let start = self.at;
            match self.word() {
                "array" if depth == MAX_ARRAY_DEPTH => {
                    return Err(self.expected_at(start, &format!("at most {MAX_ARRAY_DEPTH} nested arrays")));
                }
                "array" => self.expect('<')?,
                "" => return Err(self.expected_at(start, "a type")),
                word => break self.nullability(|parser| parser.plain_type(word))?,
            }
            depth += 1;
        };
        for _ in 0..depth {
            self.expect('>')?;
            element = self.nullability(|_| Ok(FieldType::Array(Box::new(element))))?;
        }
        Ok(element)
    }

    /// A type and whether a `?` follows it.
    fn nullability(&mut self, ty: impl FnOnce(&mut Self) -> Parsed<FieldType>) -> Parsed<ElementType> {
        let ty = ty(self)?;
        Ok(ElementType { ty, nullable: self.take('?') })
    }

    /// The type that begins with `word`; any word that is no type's is the name of an enum.
    fn plain_type(&mut self, word: &str) -> Parsed<FieldType> {
        Ok(match word {
            "decimal" => self.scaled_decimal()?,
            "ascii" => self.ascii()?,
            "string" => FieldType::String,
            "binary" => FieldType::Binary,
            "record" => FieldType::Record(self.alternatives()?),
            name => match Scalar::of_name(name) {
                Some(scalar) => scalar.into(),
                None => FieldType::Enum(name.to_string()),
            },
        })
    }

    fn scaled_decimal(&mut self) -> Parsed<FieldType> {
        self.expect('(')?;
        self.skip();
        let start = self.at;
        if self.number()? != 18 {
            return Err(self.expected_at(start, "'18', the digits of every scaled decimal"));
        }
        self.expect(',')?;
        let scale = self.small_number("a scale of 0 to 18")?;
        self.expect(')')?;
        Ok(Scalar::Decimal(scale).into())
    }

    fn ascii(&mut self) -> Parsed<FieldType> {
        self.expect('(')?;
        let size = self.small_number("a size of 1 to 16")?;
        self.expect(')')?;
        Ok(Scalar::Ascii(size).into())
    }

    fn alternatives(&mut self) -> Parsed<Vec<String>> {
        self.expect('<')?;
        let mut names = vec![self.name("the name of a record type")?];
        while self.take('|') {
            names.push(self.name("the name of a record type")?);
        }
        self.expect('>')?;
        Ok(names)
    }

    fn literal(&mut self) -> Parsed<Literal> {
        self.skip();
        match self.rest().chars().next() {
            Some('"') => self.quoted().map(Literal::Text),
            Some('-' | '+' | '.' | '0'..='9') => self.numeric_literal(),
            _ => match self
                .name("a default: null, true, false, a number, a \"text\" or an enum symbol")?
                .as_str()
            {
                "null" => Ok(Literal::Null),
                "true" => Ok(Literal::Bool(true)),
                "false" => Ok(Literal::Bool(false)),
                symbol => Ok(Literal::Symbol(symbol.to_string())),
            },
        }
    }

    fn numeric_literal(&mut self) -> Parsed<Literal> {
        let start = self.at;
        let text = self.numeric_text();
        let as_integer = || text.parse().ok().map(Literal::Integer);
        match text.parse::<Decimal64>() {
            Ok(number) => Ok(Literal::Number(number)),
            Err(why) => as_integer().ok_or_else(|| self.expected_at(start, &format!("a number ({why})"))),
        }
    }

    fn quoted(&mut self) -> Parsed<String> {
        self.at += 1;
        let mut text = String::new();
        loop {
            let start = self.at;
            match self.next_char() {
                Some('"') => return Ok(text),
                Some('\\') => text.push(self.escape(start)?),
                Some(c) if c != '\n' => text.push(c),
                _ => return Err(self.expected_at(start, "a closing '\"' on the same line")),
            }
        }
    }

    fn escape(&mut self, start: usize) -> Parsed<char> {
        let escaped = match self.next_char() {
            Some('n') => Some('\n'),
            Some('r') => Some('\r'),
            Some('t') => Some('\t'),
            Some(c @ ('"' | '\\')) => Some(c),
            Some('u') => self.unicode_escape(),
            _ => None,
        };
        escaped.ok_or_else(|| self.expected_at(start, "an escape: \\\" \\\\ \\n \\r \\t or \\u{hex}"))
    }

    /// `{1f600}` after `\u`.
    fn unicode_escape(&mut self) -> Option<char> {
        let hex = self.rest().strip_prefix('{')?;
        // Six digits are enough for every character; a bound limits the cost of a long line.
        let end = hex.bytes().take(7).position(|byte| byte == b'}')?;
        let digits = &hex[..end];
        self.at += end + 2;
        let plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        plain.then(|| u32::from_str_radix(digits, 16).ok()).flatten().and_then(char::from_u32)
    }

    fn counted(&self, next: Option<i64>) -> Parsed<i64> {
        next.ok_or_else(|| {
            self.expected_at(self.at, "'=' and a number: the one after the previous is out of range")
        })
    }

    fn number(&mut self) -> Parsed<i64> {
        self.skip();
        let start = self.at;
        let number = self.numeric_text().parse();
        number.map_err(|_| self.expected_at(start, "a whole number of 64 bits"))
    }

    fn small_number(&mut self, expected: &str) -> Parsed<u8> {
        self.skip();
        let start = self.at;
        let number = self.numeric_text().parse();
        number.map_err(|_| self.expected_at(start, expected))
    }

    /// Everything that may belong to a number, whether it makes sense or not.
    fn numeric_text(&mut self) -> &'a str {
        self.take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
    }

    fn name(&mut self, expected: &str) -> Parsed<String> {
        self.skip();
        let start = self.at;
        match self.word() {
            "" => Err(self.expected_at(start, expected)),
            word => Ok(word.to_string()),
        }
    }

    /// A name, dotted or not, or nothing if none begins here.
    fn word(&mut self) -> &'a str {
        if self.rest().starts_with(|c: char| c.is_ascii_digit() || c == '.') {
            return "";
        }
        self.take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.'))
    }

    fn take_while(&mut self, belongs: impl Fn(u8) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.bytes().position(|byte| !belongs(byte)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// A comma, unless the list ends here.
    fn separator(&mut self, end: char) -> Parsed<()> {
        self.skip();
        if self.rest().starts_with(end) || self.take(',') {
            return Ok(());
        }
        Err(self.expected_at(self.at, &format!("',' or '{end}'")))
    }

    fn expect(&mut self, c: char) -> Parsed<()> {
        if self.take(c) { Ok(()) } else { Err(self.expected_at(self.at, &format!("'{c}'"))) }
    }

    /// Whether the next character after space and comments is `c`, which is then taken.
    fn take(&mut self, c: char) -> bool {
        self.skip();
        let found = self.rest().starts_with(c);
        if found {
            self.at += c.len_utf8();
        }
        found
    }

    /// Skips space and comments, documentation among them.
    fn skip(&mut self) {
        self.doc();
    }

    /// Skips space and comments and returns the text of the `///` lines among them.
    fn doc(&mut self) -> String {
        let mut doc: Option<String> = None;
        loop {
            self.take_while(|byte| byte.is_ascii_whitespace());
            if !self.rest().starts_with("//") {
                return doc.unwrap_or_default();
            }
            let line = self.take_while(|byte| byte != b'\n');
            if let Some(text) = doc_text(line) {
                match &mut doc {
                    Some(doc) => doc.extend(["\n", text]),
                    None => doc = Some(text.to_string()),
                }
            }
        }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn next_char(&mut self) -> Option<char> {
        let c = self.rest().chars().next()?;
        self.at += c.len_utf8();
        Some(c)
    }

    #[cold]
    fn expected_at(&self, at: usize, expected: &str) -> SchemaError {
        let before = &self.text[..at];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        SchemaError::Text {
            line: before.matches('\n').count() as u32 + 1,
            column: before[line_start..].chars().count() as u32 + 1,
            expected: expected.to_string(),
            found: found(&self.text[at..]),
        }
    }
}

/// The text of a `///` line; `None` for other comments, `////` among them.
fn doc_text(line: &str) -> Option<&str> {
    let text = line.strip_prefix("///").filter(|text| !text.starts_with('/'))?;
    let text = text.strip_suffix('\r').unwrap_or(text);
    Some(text.strip_prefix(' ').unwrap_or(text))
}

/// The word or character at this offset, for an error message.
fn found(rest: &str) -> String {
    let word: String =
        rest.chars().take(32).take_while(|c| c.is_alphanumeric() || "_.+-".contains(*c)).collect();
    match rest.chars().next() {
        None => "the end of the text".to_string(),
        Some(c) if word.is_empty() => format!("{c:?}"),
        Some(_) => format!("'{word}'"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const EXAMPLE: &str = r#"/// Which side of the book.
enum Side { BID = 0, ASK = 1 }

/// One execution.
record Trade {
    /// Price per unit.
    price: decimal64,
    size: decimal64?,
    side: Side = ASK,
    condition: ascii(8)? [alias cond],
    flags: u32 = 0,
    note: string = "a \"b\"\u{1}" [alias text, remark],
}

record Quote {}

message feed.Package {
    source_time: timestamp?,
    entries: array<record<Trade|Quote>>,
    deep: array<array<decimal(18,4)?>>?,
}
"#;

    fn parse(text: &str) -> Result<Schema, SchemaError> {
        text.parse()
    }

    /// Line, column, expected and found of a text error.
    fn text_error(text: &str) -> (u32, u32, String, String) {
        match parse(text) {
            Err(SchemaError::Text { line, column, expected, found }) => (line, column, expected, found),
            other => panic!("{text:?} gave {other:?}"),
        }
    }

    #[test]
    fn prints_what_it_read() {
        assert_eq!(parse(EXAMPLE).unwrap().to_string(), EXAMPLE);
        assert_eq!(parse(""), Ok(Schema::default()));
    }

    #[test]
    fn the_example_of_the_format_page_is_valid() {
        let page = include_str!("../../../docs/format/schema.md");
        let example = page.split("```tapedb\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
        assert_eq!(parse(example).unwrap().to_string(), example);
    }

    #[test]
    fn reads_loose_forms() {
        let loose = "// a comment\nmessage feed.Package{source_time:timestamp?\n,entries:array < record<Trade | Quote> >,\
            deep: array<array<decimal( 18 , 4 )?>>?}\r\n////no doc\n///Which side of the book.\r\nenum Side{BID,ASK}
            /// One execution.\nrecord Trade{/// Price per unit.\nprice:decimal64,size:decimal64 ?,side:Side=ASK,\
            condition:ascii(8)?[alias cond],flags:u32=0,note:string [alias text,remark] = \"a \\u{22}b\\\"\\u{01}\"}\
            record Quote{}";
        let mut loose = parse(loose).unwrap();
        loose.records.rotate_left(1);
        assert_eq!(loose, parse(EXAMPLE).unwrap());
    }

    #[test]
    fn numbers_enum_symbols_from_the_previous_one() {
        let schema = parse("enum E { A, B = 7, C, D = -3, F, }").unwrap();
        let numbers: Vec<_> = schema.enums[0].symbols.iter().map(|(_, number)| *number).collect();
        assert_eq!(numbers, [0, 7, 8, -3, -2]);
        assert!(text_error("enum E { A = 9223372036854775807, B }").2.contains("out of range"));
    }

    #[test]
    fn keeps_integers_beyond_sixteen_digits() {
        let schema =
            parse("record R { a: u64 = 18446744073709551615, b: u64 = 10000000000000000000 }").unwrap();
        assert_eq!(schema.records[0].fields[0].default, Some(Literal::Integer(u64::MAX.into())));
        assert_eq!(schema.records[0].fields[1].default.as_ref().unwrap().integer(), Some(10i128.pow(19)));
        assert_eq!(parse(&schema.to_string()), Ok(schema));
    }

    #[test]
    fn errors_name_line_and_column() {
        let (line, column, expected, found) = text_error("record R {\n    ü: u8,\n}");
        assert_eq!((line, column, found.as_str()), (2, 5, "'ü'"));
        assert!(expected.contains("field name"));
        assert_eq!(text_error("record R { a: u8 b: u8 }").1, 18);
        assert_eq!(text_error("/* no */").3, "'/'");
        assert_eq!(text_error("record R { a: u8").3, "the end of the text");
        assert!(text_error("record R { a: string = \"x\ny\" }").2.contains("closing"));
        assert!(text_error("record R { a: string = \"\\q\" }").2.contains("escape"));
        assert!(text_error("record R { a: string = \"\\u{d800}\" }").2.contains("escape"));
        assert!(text_error("record R { a: f64 = 1.23456789012345678 }").2.contains("needs 18 digits"));
        assert!(text_error("record R { a: decimal(17,2) }").2.contains("18"));
        assert!(text_error("record R { a: ascii(300) }").2.contains("1 to 16"));
        let shown = parse("record R { a u8 }").unwrap_err().to_string();
        assert_eq!(shown, "schema text, line 1, column 14: expected ':', found 'u8'");
    }

    #[test]
    fn refuses_deep_and_huge_texts() {
        let deep = format!("record R {{ a: {}", "array<".repeat(100_000));
        assert!(text_error(&deep).2.contains("nested arrays"));
        let huge = "\n".repeat(MAX_TEXT_BYTES + 1);
        assert!(matches!(parse(&huge), Err(SchemaError::Limit { .. })));
        assert!(parse(&huge[1..]).is_ok());
    }

    proptest! {
        #[test]
        fn texts_and_docs_read_back(text in any::<String>(), doc in "[^\\p{Cc}]*(\n[^\\p{Cc}]*){0,3}") {
            let field = Field {
                name: "f".into(),
                ty: FieldType::String,
                nullable: false,
                default: Some(Literal::Text(text)),
                aliases: vec![],
                doc: doc.clone(),
            };
            let record = RecordType { name: "R".into(), message: true, fields: vec![field], doc };
            let schema = Schema { enums: vec![], records: vec![record] };
            prop_assert_eq!(parse(&schema.to_string()), Ok(schema));
        }

        #[test]
        fn no_text_panics(text in any::<String>()) {
            let _ = parse(&text);
        }
    }
}
