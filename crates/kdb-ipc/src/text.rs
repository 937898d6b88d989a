//! Values as q shows them.

mod atom;
mod console;

use crate::elements::Elements;
use crate::kind::Type;
use crate::value::{Dictionary, Function, List, Table, Value};
use atom::Letters;
pub use console::console;
use std::fmt::{self, Display, Formatter};

/// On one line, as `.Q.s1` and `-3!` show it, but with all digits of floats.
impl Display for Value {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Atom(atom) => atom.fmt(f),
            Self::Vector(vector) => vector.elements.fmt(f),
            Self::List(list) => list.fmt(f),
            Self::Table(table) => table.fmt(f),
            Self::Dictionary(dictionary) => dictionary.fmt(f),
            Self::Function(function) => function.fmt(f),
            Self::Error(text) => write!(f, "'{}", String::from_utf8_lossy(text)),
        }
    }
}

impl Display for Elements {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Self::Char(text) = self {
            return write!(f, "{}{}", if text.len() == 1 { "," } else { "" }, Letters(text));
        }
        if self.is_empty() {
            return write!(f, "`{}$()", self.ty().name());
        }
        if self.len() == 1 {
            f.write_str(",")?;
        }
        let (before, between, after) = joints(self);
        f.write_str(before)?;
        for (index, atom) in self.iter().enumerate() {
            if index > 0 {
                f.write_str(between)?;
            }
            atom.bare(f)?;
        }
        f.write_str(after)
    }
}

/// The text before, between and after the elements of a vector.
fn joints(elements: &Elements) -> (&'static str, &'static str, &'static str) {
    let suffix = match elements {
        Elements::Boolean(_) => return ("", "", "b"),
        Elements::Byte(_) => return ("0x", "", ""),
        Elements::Symbol(_) => return ("", "", ""),
        Elements::Float(floats) if !floats.iter().all(|float| atom::looks_whole(*float)) => "",
        other => atom::suffix(other.ty()),
    };
    ("", " ", suffix)
}

impl Display for List {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.items[..] {
            [] => f.write_str("()"),
            [only] => write!(f, ",{only}"),
            [first, rest @ ..] => {
                write!(f, "({first}")?;
                rest.iter().try_for_each(|item| write!(f, ";{item}"))?;
                f.write_str(")")
            }
        }
    }
}

impl Display for Table {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let names = Elements::Symbol(self.names().clone());
        write!(f, "+{}!", Bracketed(&names))?;
        List { items: self.columns().to_vec(), ..List::default() }.fmt(f)
    }
}

impl Display for Dictionary {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let needs_brackets =
            matches!(self.keys, Value::Table(_) | Value::Dictionary(_)) || self.keys.len() == Some(1);
        if self.is_sorted {
            f.write_str("`s#")?;
        }
        if needs_brackets {
            write!(f, "({})!{}", self.keys, self.values)
        } else {
            write!(f, "{}!{}", self.keys, self.values)
        }
    }
}

impl Display for Function {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lambda { body, .. } => match body.as_name() {
                Some(text) => f.write_str(&String::from_utf8_lossy(text)),
                None => write!(f, "{{{body}}}"),
            },
            Self::Primitive { code: 101, index: 0 } => f.write_str("::"),
            Self::Primitive { code, index } => write!(f, "<function {code} {index}>"),
            Self::Parts { code: 104, parts } => match &parts[..] {
                [function, arguments @ ..] => write!(f, "{function}{}", Arguments(arguments)),
                [] => f.write_str("<function 104>"),
            },
            Self::Parts { code, parts } => write!(f, "<function {code} of {}>", parts.len()),
            Self::Derived { code, of } => {
                let iterator =
                    ["'", "/", "\\", "':", "/:", "\\:"].get(usize::from(code - 106)).unwrap_or(&"<dynamic>");
                write!(f, "{of}{iterator}")
            }
        }
    }
}

struct Arguments<'a>(&'a [Value]);

impl Display for Arguments<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (index, argument) in self.0.iter().enumerate() {
            write!(f, "{}{argument}", if index > 0 { ";" } else { "" })?;
        }
        f.write_str("]")
    }
}

/// A vector of one element needs brackets before `!`.
struct Bracketed<'a>(&'a Elements);

impl Display for Bracketed<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.0.len() == 1 { write!(f, "({})", self.0) } else { self.0.fmt(f) }
    }
}

/// What `meta` calls the type of a column: its letter, in upper case for a list of vectors of that type, a blank for a
/// list of anything.
pub(crate) fn letter(column: &Value) -> char {
    match column {
        Value::Vector(vector) => vector.elements.ty().letter(),
        Value::List(list) => {
            list.items.first().and_then(vector_type).map_or(' ', |ty| ty.letter().to_ascii_uppercase())
        }
        _ => ' ',
    }
}

fn vector_type(value: &Value) -> Option<Type> {
    value.as_elements().map(Elements::ty)
}

impl Value {
    /// The letter that `meta` shows for a column: that of its type, in upper case for a list that begins with a vector of
    /// that type, a blank for any other list.
    pub fn letter(&self) -> char {
        letter(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::atom::Atom;
    use crate::symbols::Symbols;

    #[test]
    fn values_are_shown_as_q_shows_them() {
        let symbols = |names: &[&str]| Value::from(names.iter().collect::<Symbols>());
        let table = |names: &[&str], columns| {
            Value::from(Table::new(names.iter().collect(), columns).expect("a table"))
        };
        let shorts = Elements::Short(vec![1, i16::MIN, i16::MAX]);
        let cases: [(Value, &str); 22] = [
            (1.into(), "1"),
            (vec![].into(), "`long$()"),
            (vec![1].into(), ",1"),
            (vec![1, i64::MIN, i64::MAX, -i64::MAX].into(), "1 0N 0W -0W"),
            (shorts.into(), "1 0N 0Wh"),
            (Elements::Boolean(vec![true, false]).into(), "10b"),
            (Elements::Byte(vec![1, 255]).into(), "0x01ff"),
            (Elements::Float(vec![1.0, 2.0]).into(), "1 2f"),
            (Elements::Float(vec![1.5, f64::NAN]).into(), "1.5 0n"),
            (Elements::Real(vec![1.5, f32::INFINITY]).into(), "1.5 0we"),
            (Value::text("a\"b\n"), "\"a\\\"b\\n\""),
            (Value::text("a"), ",\"a\""),
            (Value::text(""), "\"\""),
            (symbols(&["a", "", "b"]), "`a``b"),
            (symbols(&[]), "`symbol$()"),
            (Value::list(vec![]), "()"),
            (Value::list(vec![1.into(), Value::symbol("a"), Value::text("bc")]), "(1;`a;\"bc\")"),
            (Value::list(vec![vec![1, 2].into()]), ",1 2"),
            (Value::dictionary(symbols(&["a", "b"]), vec![1, 2].into()), "`a`b!1 2"),
            (table(&["a"], vec![vec![1, 2].into()]), "+(,`a)!,1 2"),
            (Value::error("type"), "'type"),
            (Value::nothing(), "::"),
        ];
        for (value, expected) in cases {
            assert_eq!(value.to_string(), expected);
        }
    }

    #[test]
    fn times_are_shown_as_q_shows_them() {
        let cases = [
            (Atom::Timestamp(0), "2000.01.01D00:00:00.000000000"),
            (Atom::Timestamp(-1), "1999.12.31D23:59:59.999999999"),
            (Atom::Timestamp(i64::MIN), "0Np"),
            (Atom::Month(12), "2001.01m"),
            (Atom::Month(-1), "1999.12m"),
            (Atom::Date(366), "2001.01.01"),
            (Atom::Date(i32::MIN), "0Nd"),
            (Atom::Date(-7389), "1979.10.09"),
            (Atom::Datetime(3.5), "2000.01.04T12:00:00.000"),
            (Atom::Datetime(f64::NAN), "0Nz"),
            (Atom::Timespan(86_400_000_000_001), "1D00:00:00.000000001"),
            (Atom::Timespan(-1), "-0D00:00:00.000000001"),
            (Atom::Minute(721), "12:01"),
            (Atom::Second(43_505), "12:05:05"),
            (Atom::Time(43_499_123), "12:04:59.123"),
            (Atom::Time(i32::MIN), "0Nt"),
            (Atom::Time(i32::MAX), "0Wt"),
            (Atom::Float(3.0), "3f"),
            (Atom::Float(1e300), "1e300"),
            (Atom::Guid([0x8c; 16]), "8c8c8c8c-8c8c-8c8c-8c8c-8c8c8c8c8c8c"),
        ];
        for (atom, expected) in cases {
            assert_eq!(atom.to_string(), expected);
        }
    }

    #[test]
    fn functions_are_shown_as_far_as_they_are_known() {
        let lambda = Function::Lambda { context: "".into(), body: Value::text("{x+y}") };
        let part = Function::Parts { code: 104, parts: vec![Value::Function(Box::new(lambda)), 3.into()] };
        assert_eq!(Value::Function(Box::new(part)).to_string(), "{x+y}[3]");
        let of = Value::Function(Box::new(Function::Primitive { code: 102, index: 1 }));
        let derived = Function::Derived { code: 107, of };
        assert_eq!(derived.to_string(), "<function 102 1>/");
    }

    #[test]
    fn columns_have_letters() {
        assert_eq!(Value::from(vec![1]).letter(), 'j');
        assert_eq!(Value::list(vec![Value::text("ab")]).letter(), 'C');
        assert_eq!(Value::list(vec![]).letter(), ' ');
    }
}
