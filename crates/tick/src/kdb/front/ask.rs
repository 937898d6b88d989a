//! Requests of kdb+ clients, parsed from the text or the list that they send. A few forms are supported; nothing else is
//! evaluated.

use std::fmt;
use tapedb_kdb_ipc::{Atom, Elements, Symbols, Value};

/// Longest text that is parsed.
const TEXT_BYTES_MAX: usize = 8 << 10;
/// Most nested brackets.
const DEPTH_MAX: usize = 32;

/// A request.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Ask {
    /// A value as it stands.
    Value(Value),
    /// A name.
    Name(String),
    /// A function with arguments.
    Call(String, Vec<Ask>),
    /// Several requests.
    List(Vec<Ask>),
    /// Rows of a table.
    Select(Box<Select>),
}

/// `select … from …`.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Select {
    pub table: String,
    /// None: all.
    pub columns: Vec<String>,
    pub conditions: Vec<Condition>,
    /// `select by sym`.
    pub by_symbol: bool,
    /// `select[5]`.
    pub limit: Option<i64>,
}

impl Select {
    /// Whether it is of all rows, as in `count trade`.
    pub fn counts_all(&self) -> bool {
        self.conditions.is_empty() && !self.by_symbol && self.limit.is_none()
    }
}

/// A condition on a column.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Condition {
    pub column: String,
    pub operator: Operator,
    pub value: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Equal,
    In,
    Within,
    Less,
    AtMost,
    More,
    AtLeast,
}

/// The request is not supported, and so is not evaluated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unsupported(pub String);

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The request in a message.
pub(super) fn ask_of(message: Value) -> Result<Ask, Unsupported> {
    match message {
        Value::Atom(Atom::Symbol(name)) => Ok(Ask::Name(name.text().into_owned())),
        Value::Atom(Atom::Char(letter)) => parse(&char::from(letter).to_string()),
        value if value.ty() == Some(tapedb_kdb_ipc::Type::Char) => {
            parse(&String::from_utf8_lossy(value.as_name().unwrap_or_default()))
        }
        Value::Vector(vector) if vector.elements.ty() == tapedb_kdb_ipc::Type::Symbol => {
            call_of(vector.elements.iter().map(Value::Atom).collect())
        }
        Value::List(list) => call_of(list.items),
        value if value.is_nothing() => Ok(Ask::Value(value)),
        other => Err(Unsupported(format!("not evaluated here: {}", crate::kdb::convert::what(&other)))),
    }
}

/// A list whose first item is a function and whose others are its arguments.
fn call_of(items: Vec<Value>) -> Result<Ask, Unsupported> {
    let mut items = items.into_iter();
    let Some(function) = items.next() else { return Ok(Ask::Value(Value::list(vec![]))) };
    let arguments: Vec<Value> = items.collect();
    if let Value::Function(lambda) = &function {
        return supported_lambda(lambda, arguments);
    }
    let name = function.as_name().map(|name| String::from_utf8_lossy(name).into_owned());
    let name =
        name.ok_or_else(|| Unsupported(format!("not evaluated here: {}", short(&function.to_string()))))?;
    let is_name = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '.')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._".contains(&byte));
    if is_name {
        return Ok(Ask::Call(name, arguments.into_iter().map(Ask::Value).collect()));
    }
    // `({…};a;b)` as a text, and texts alone in a list.
    match (lambda_text(&name), arguments.is_empty()) {
        (Some(lambda), _) => Ok(lambda.applied_to(arguments)),
        (None, true) => parse(&name),
        (None, false) => Err(Unsupported(format!("not evaluated here: {}", short(&name)))),
    }
}

fn supported_lambda(lambda: &tapedb_kdb_ipc::Function, arguments: Vec<Value>) -> Result<Ask, Unsupported> {
    let tapedb_kdb_ipc::Function::Lambda { body, .. } = lambda else {
        return Err(Unsupported("not evaluated here: a function".into()));
    };
    let text = String::from_utf8_lossy(body.as_name().unwrap_or_default()).into_owned();
    match lambda_text(&text) {
        Some(lambda) => Ok(lambda.applied_to(arguments)),
        None => Err(Unsupported(format!("not evaluated here: {}", short(&text)))),
    }
}

/// Functions that kdb+'s own subscribers send.
#[derive(Debug, Clone, Copy)]
enum Lambda {
    /// The path of the log.
    Log,
    /// Subscribe, and the path of the log.
    SubscribeAndLog,
}

/// Of the tickerplant, or of the one that a chained tickerplant is chained to.
const LOG_OF_EITHER: &str = "$[`minkey`.u;(`.u`m)\"`.u`i`L\";`.u`i`L]";

fn lambda_text(text: &str) -> Option<Lambda> {
    let text: String = text.chars().filter(|letter| !letter.is_whitespace()).collect();
    if text == format!("{{{LOG_OF_EITHER}}}") {
        Some(Lambda::Log)
    } else if text == format!("{{[t;s](.u.sub[t;s];{LOG_OF_EITHER})}}") {
        Some(Lambda::SubscribeAndLog)
    } else {
        None
    }
}

impl Lambda {
    fn applied_to(self, arguments: Vec<Value>) -> Ask {
        let fields = ["i", "L"].into_iter().collect::<Symbols>();
        let log = Ask::Call(".u".into(), vec![Ask::Value(fields.into())]);
        match self {
            Self::Log => log,
            Self::SubscribeAndLog => {
                let arguments = arguments.into_iter().map(Ask::Value).collect();
                Ask::List(vec![Ask::Call(".u.sub".into(), arguments), log])
            }
        }
    }
}

/// The request in a text.
pub(super) fn parse(text: &str) -> Result<Ask, Unsupported> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(Unsupported(format!("not evaluated here: a text of {} bytes", text.len())));
    }
    let mut parser = Parser { text, at: 0, depth: 0 };
    let asked = parser.expression().and_then(|ask| {
        parser.skip(";");
        if parser.rest().is_empty() { Some(ask) } else { None }
    });
    asked.ok_or_else(|| Unsupported(format!("not evaluated here: {}", short(text))))
}

fn short(text: &str) -> String {
    const SHOWN: usize = 60;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}..", &text[..end]),
        None => text.into(),
    }
}

/// Parses expressions from the front of a text; `None`: this is something else.
struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn rest(&mut self) -> &'a str {
        let rest = &self.text[self.at..];
        let trimmed = rest.trim_start();
        self.at += rest.len() - trimmed.len();
        trimmed
    }

    fn skip(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn take_while(&mut self, is_part: impl Fn(char) -> bool) -> &'a str {
        let rest = &self.text[self.at..];
        let len = rest.find(|letter| !is_part(letter)).unwrap_or(rest.len());
        self.at += len;
        &rest[..len]
    }

    fn expression(&mut self) -> Option<Ask> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return None;
        }
        let rest = self.rest();
        let ask = match rest.chars().next() {
            None => Some(Ask::Value(Value::nothing())),
            Some('(') => self.brackets(),
            Some('$') => self.condition_on_chained(),
            Some('`' | '"' | '0'..='9' | '-') => self.literal(),
            Some('.' | 'a'..='z' | 'A'..='Z') => self.name(),
            Some(':') if self.skip("::") => Some(Ask::Value(Value::nothing())),
            _ => None,
        }?;
        self.depth -= 1;
        Some(ask)
    }

    fn brackets(&mut self) -> Option<Ask> {
        self.skip("(");
        let mut items = self.expressions(")")?;
        if items.len() == 1 { items.pop() } else { Some(Ask::List(items)) }
    }

    /// Expressions with semicolons between them, up to what closes them.
    fn expressions(&mut self, close: &str) -> Option<Vec<Ask>> {
        let mut items = Vec::new();
        if self.skip(close) {
            return Some(items);
        }
        loop {
            items.push(self.expression()?);
            if self.skip(close) {
                return Some(items);
            }
            if !self.skip(";") {
                return None;
            }
        }
    }

    /// `` $[`m in key`.u;…;`.u `i`L] ``: this plant is not chained in that way.
    fn condition_on_chained(&mut self) -> Option<Ask> {
        let end = self.rest().find(']')? + 1;
        let text: String = self.rest()[..end].chars().filter(|letter| !letter.is_whitespace()).collect();
        // As a text in a text, its quotes may be escaped.
        let is_known = text.replace('\\', "") == LOG_OF_EITHER;
        self.at += end;
        is_known.then(|| Lambda::Log.applied_to(Vec::new()))
    }

    fn name(&mut self) -> Option<Ask> {
        let name = self.take_while(|letter| letter.is_ascii_alphanumeric() || "._".contains(letter));
        if name == "select" {
            return self.select();
        }
        if self.skip("[") {
            return Some(Ask::Call(name.into(), self.expressions("]")?));
        }
        match self.rest().chars().next() {
            Some('`' | '"' | '(' | '.' | 'a'..='z' | 'A'..='Z' | '0'..='9') => {
                Some(Ask::Call(name.into(), vec![self.expression()?]))
            }
            _ => Some(Ask::Name(name.into())),
        }
    }

    fn literal(&mut self) -> Option<Ask> {
        let value = self.value()?;
        if value.as_name() == Some(b".u") && self.rest().starts_with('`') {
            // `` `.u `i`L ``: two things of a namespace.
            return Some(Ask::Call(".u".into(), vec![Ask::Value(self.value()?)]));
        }
        if !self.skip("+") {
            return Some(Ask::Value(value));
        }
        // The one calculation that clients send, to check the connection.
        match (value, self.expression()?) {
            (Value::Atom(Atom::Long(a)), Ask::Value(Value::Atom(Atom::Long(b)))) => {
                Some(Ask::Value(a.wrapping_add(b).into()))
            }
            _ => None,
        }
    }

    fn value(&mut self) -> Option<Value> {
        match self.rest().chars().next()? {
            '`' => Some(self.symbols()),
            '"' => self.quoted(),
            _ => self.numbers(),
        }
    }

    fn symbols(&mut self) -> Value {
        let mut symbols = Vec::new();
        // `.u `i is a namespace and a symbol: only those without a blank between them are one vector.
        while self.text[self.at..].starts_with('`') {
            self.at += 1;
            symbols.push(Value::symbol(
                self.take_while(|letter| letter.is_alphanumeric() || "._:/-".contains(letter)),
            ));
        }
        if symbols.len() == 1 { symbols.remove(0) } else { Value::collect(symbols) }
    }

    fn quoted(&mut self) -> Option<Value> {
        let mut text = Vec::new();
        let mut letters = self.text[self.at + 1..].bytes().enumerate();
        loop {
            match letters.next()? {
                (_, b'\\') => text.push(match letters.next()?.1 {
                    b'n' => b'\n',
                    b't' => b'\t',
                    b'r' => b'\r',
                    other => other,
                }),
                (at, b'"') => {
                    self.at += at + 2;
                    break;
                }
                (_, other) => text.push(other),
            }
        }
        Some(match text[..] {
            [letter] => Atom::Char(letter).into(),
            _ => Elements::Char(text).into(),
        })
    }

    /// A number or a time, or several of one type with blanks between them.
    fn numbers(&mut self) -> Option<Value> {
        let mut values = Vec::new();
        while self.rest().starts_with(|first: char| first.is_ascii_digit() || first == '-') {
            let token = self.take_while(|letter| letter.is_ascii_alphanumeric() || ".:-".contains(letter));
            values.push(Value::Atom(number(token)?));
        }
        if values.len() == 1 { values.pop() } else { Some(Value::collect(values)) }
    }

    fn select(&mut self) -> Option<Ask> {
        let mut select = Select::default();
        if self.skip("[") {
            match self.numbers()? {
                Value::Atom(Atom::Long(rows)) if self.skip("]") => select.limit = Some(rows),
                _ => return None,
            }
        }
        loop {
            let word = self.word();
            match word {
                "from" => break,
                "by" => {
                    select.by_symbol = self.word() == "sym";
                    if !select.by_symbol || !select.columns.is_empty() {
                        return None;
                    }
                }
                "" => return None,
                column => select.columns.push(column.into()),
            }
            self.skip(",");
        }
        select.table = self.word().into();
        if self.word_is("where") {
            loop {
                select.conditions.push(self.condition()?);
                if !self.skip(",") {
                    break;
                }
            }
        }
        (!select.table.is_empty()).then(|| Ask::Select(Box::new(select)))
    }

    fn word(&mut self) -> &'a str {
        self.rest();
        self.take_while(|letter| letter.is_ascii_alphanumeric() || letter == '_')
    }

    fn word_is(&mut self, word: &str) -> bool {
        let at = self.at;
        let found = self.word() == word;
        if !found {
            self.at = at;
        }
        found
    }

    fn condition(&mut self) -> Option<Condition> {
        let in_brackets = self.skip("(");
        let column = self.word().to_string();
        let operators = [
            (">=", Operator::AtLeast),
            ("<=", Operator::AtMost),
            (">", Operator::More),
            ("<", Operator::Less),
            ("=", Operator::Equal),
        ];
        let operator = match operators.into_iter().find(|(token, _)| self.skip(token)) {
            Some((_, operator)) => operator,
            None if self.word_is("in") => Operator::In,
            None if self.word_is("within") => Operator::Within,
            None => return None,
        };
        let value = self.operand()?;
        (!in_brackets || self.skip(")")).then_some(Condition { column, operator, value })
    }

    /// A value, also in brackets, as a list of values, or after `enlist`.
    fn operand(&mut self) -> Option<Value> {
        self.word_is("enlist");
        if !self.rest().starts_with('(') {
            return self.value();
        }
        match self.brackets()? {
            Ask::Value(value) => Some(value),
            Ask::List(items) => {
                let value = |item| if let Ask::Value(value) = item { Some(value) } else { None };
                Some(Value::collect(items.into_iter().map(value).collect::<Option<_>>()?))
            }
            _ => None,
        }
    }
}

/// A number or a time as q writes it.
fn number(token: &str) -> Option<Atom> {
    if token.contains([':', 'D']) || token.matches('.').count() == 2 {
        return time(token);
    }
    let (digits, suffix) = match token.strip_suffix(|letter: char| letter.is_ascii_alphabetic()) {
        Some(digits) => (digits, token.chars().next_back()?),
        None => (token, if token.contains('.') { 'f' } else { 'j' }),
    };
    match suffix {
        'j' => digits.parse().ok().map(Atom::Long),
        'i' => digits.parse().ok().map(Atom::Int),
        'h' => digits.parse().ok().map(Atom::Short),
        'f' => digits.parse().ok().map(Atom::Float),
        'e' => digits.parse().ok().map(Atom::Real),
        _ => None,
    }
}

fn time(token: &str) -> Option<Atom> {
    if let Some((day, clock)) = token.split_once('D') {
        let clock = if clock.is_empty() { 0 } else { clock_nanos(clock)?.0 };
        if day.contains('.') {
            let date: crate::Date = day.parse().ok()?;
            return Some(Atom::Timestamp(i64::from(date.to_kdb()) * crate::kind::NANOS_PER_DAY + clock));
        }
        let days: i64 = day.parse().ok()?;
        return Some(Atom::Timespan(days.checked_mul(crate::kind::NANOS_PER_DAY)?.checked_add(clock)?));
    }
    if !token.contains(':') {
        return token.parse::<crate::Date>().ok().map(|date| Atom::Date(date.to_kdb()));
    }
    let (nanos, digits) = clock_nanos(token)?;
    Some(match (token.matches(':').count(), digits) {
        (1, _) => Atom::Minute((nanos / 60_000_000_000) as i32),
        (_, 0) => Atom::Second((nanos / 1_000_000_000) as i32),
        (_, 1..=3) => Atom::Time((nanos / 1_000_000) as i32),
        _ => Atom::Timespan(nanos),
    })
}

/// Nanoseconds of `09:30`, `09:30:00` or `09:30:00.123`, and how many digits follow the point.
fn clock_nanos(text: &str) -> Option<(i64, usize)> {
    let (clock, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut nanos = 0_i64;
    let parts: Vec<&str> = clock.split(':').collect();
    if parts.len() > 3 || fraction.len() > 9 {
        return None;
    }
    for (part, unit) in parts.iter().zip([3_600, 60, 1]) {
        let value: u32 = part.parse().ok().filter(|value| *value < 1_000)?;
        nanos += i64::from(value) * unit * 1_000_000_000;
    }
    let digits: i64 = if fraction.is_empty() { 0 } else { fraction.parse::<u32>().ok()?.into() };
    Some((nanos + digits * 10_i64.pow(9 - fraction.len() as u32), fraction.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str, arguments: Vec<Value>) -> Ask {
        Ask::Call(name.into(), arguments.into_iter().map(Ask::Value).collect())
    }

    fn symbols(names: &[&str]) -> Value {
        names.iter().collect::<Symbols>().into()
    }

    #[test]
    fn the_requests_of_clients_are_parsed() {
        let empty = || Value::symbol("");
        let log = || call(".u", vec![symbols(&["i", "L"])]);
        let start = || Ask::List(vec![call(".u.sub", vec![empty(), empty()]), log()]);
        let cases = [
            ("", Ask::Value(Value::nothing())),
            ("::", Ask::Value(Value::nothing())),
            ("1+1", Ask::Value(2.into())),
            (".u.i", Ask::Name(".u.i".into())),
            ("`.u `i`L", log()),
            (".u `i`L", log()),
            (".u.sub[`;`]", call(".u.sub", vec![empty(), empty()])),
            (
                ".u.sub[`trade;`MSFT`IBM]",
                call(".u.sub", vec![Value::symbol("trade"), symbols(&["MSFT", "IBM"])]),
            ),
            ("(.u.sub[`;`];`.u `i`L)", start()),
            ("(.u.sub[`;`];.u `i`L)", start()),
            ("(.u.sub[`;`];$[`m in key`.u;(`.u `m)\"`.u `i`L\";`.u `i`L])", start()),
            ("tables[]", call("tables", vec![])),
            ("tables `.", call("tables", vec![Value::symbol(".")])),
            ("tables`", call("tables", vec![empty()])),
            ("count trade", Ask::Call("count".into(), vec![Ask::Name("trade".into())])),
            ("meta `trade", call("meta", vec![Value::symbol("trade")])),
            (".u.end[2026.11.21]", call(".u.end", vec![Atom::Date(9_821).into()])),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text), Ok(expected), "{text}");
            assert_eq!(ask_of(Value::text(text)), parse(text), "{text}");
        }
    }

    #[test]
    fn lists_are_calls() {
        let arguments = || vec![Value::symbol("trade"), Value::symbol("")];
        for function in [Value::symbol(".u.sub"), Value::text(".u.sub")] {
            let list = Value::list([vec![function], arguments()].concat());
            assert_eq!(ask_of(list), Ok(call(".u.sub", arguments())));
        }
        assert_eq!(ask_of(symbols(&[".u.sub", "trade", ""])), Ok(call(".u.sub", arguments())));
        let text = "{[t;s] (.u.sub[t;s];$[`m in key`.u;(`.u `m)\"`.u `i`L\";`.u `i`L])}";
        let lambda = tapedb_kdb_ipc::Function::Lambda { context: "".into(), body: Value::text(text) };
        let list = Value::list([vec![Value::Function(Box::new(lambda))], arguments()].concat());
        assert!(matches!(ask_of(list), Ok(Ask::List(items)) if items[0] == call(".u.sub", arguments())));
    }

    #[test]
    fn selections_are_parsed() {
        let Ok(Ask::Select(select)) = parse(
            "select[-5] time,price from trade where sym in `A`B,time within (09:30;0D16:00:00.5),size>=100",
        ) else {
            panic!("a selection")
        };
        assert_eq!((select.table.as_str(), select.limit), ("trade", Some(-5)));
        assert_eq!(select.columns, ["time", "price"]);
        let shown: Vec<String> = select
            .conditions
            .iter()
            .map(|condition| format!("{} {:?} {}", condition.column, condition.operator, condition.value))
            .collect();
        assert_eq!(shown, ["sym In `A`B", "time Within (09:30;0D16:00:00.500000000)", "size AtLeast 100"]);
        let Ok(Ask::Select(last)) = parse("select by sym from quote where sym=`A") else {
            panic!("a selection")
        };
        assert!(last.by_symbol && last.columns.is_empty());
    }

    #[test]
    fn nothing_else_is_evaluated() {
        let deep = "(".repeat(5_000) + &")".repeat(5_000);
        let long = "a".repeat(TEXT_BYTES_MAX + 1);
        for text in [
            "system \"rm -rf /\"; 1",
            "\\l x.q",
            "{x+y}",
            "hopen`:x",
            "value \"1\"+",
            "1+`a",
            "a:1",
            "select from t where f[x]",
            "delete from t",
            "select last price by sym from t",
            "\"unterminated",
            "1 2+3",
            "99999999999999999999",
            "é",
            "`a`b`",
            &deep,
            &long,
        ] {
            match parse(text) {
                Err(error) => assert!(error.0.starts_with("not evaluated here: "), "{error}"),
                // Names and values are harmless: few of them have an answer.
                Ok(ask) => assert!(matches!(&ask, Ask::Call(..) | Ask::Value(_)), "{text}: {ask:?}"),
            }
        }
        assert!(parse("system \"rm -rf /\"; 1").is_err() && parse(&deep).is_err() && parse(&long).is_err());
    }

    #[test]
    fn numbers_and_times_have_their_types() {
        for text in [
            "1",
            "-2",
            "3i",
            "4h",
            "1.5",
            "09:30",
            "09:30:01",
            "09:30:01.250",
            "0D00:00:01.000000001",
            "2026.11.21D09:30:00.000000000",
            "2026.11.21",
            "1 2 3",
        ] {
            let Ok(Ask::Value(value)) = parse(text) else { panic!("{text} is a value") };
            assert_eq!(value.to_string(), text);
        }
    }
}
