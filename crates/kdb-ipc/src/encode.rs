//! Values to bytes.

use crate::atom::Atom;
use crate::decode::code;
use crate::elements::Elements;
use crate::kind::{Attribute, fixed_types};
use crate::symbols::Symbols;
use crate::value::{Dictionary, Function, Table, Value};

/// The byte order of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ByteOrder {
    /// The lowest first. All that is sent by us.
    #[default]
    Little,
    /// The highest first: clients in Java.
    Big,
}

impl ByteOrder {
    /// The number of four bytes.
    pub(crate) fn i32(self, bytes: [u8; 4]) -> i32 {
        match self {
            Self::Little => i32::from_le_bytes(bytes),
            Self::Big => i32::from_be_bytes(bytes),
        }
    }

    /// The number of four bytes.
    pub(crate) fn u32(self, bytes: [u8; 4]) -> u32 {
        self.i32(bytes) as u32
    }

    /// The four bytes of a number.
    pub(crate) fn bytes(self, number: u32) -> [u8; 4] {
        match self {
            Self::Little => number.to_le_bytes(),
            Self::Big => number.to_be_bytes(),
        }
    }
}

/// Puts the bytes of a value at the end of `out`, as a message holds them.
pub fn encode(value: &Value, order: ByteOrder, out: &mut Vec<u8>) {
    Writer { order, out }.value(value);
}

struct Writer<'a> {
    order: ByteOrder,
    out: &'a mut Vec<u8>,
}

impl Writer<'_> {
    fn value(&mut self, value: &Value) {
        match value {
            Value::Atom(atom) => self.atom(atom),
            Value::Vector(vector) => {
                self.head(vector.elements.ty().code(), vector.attribute, vector.elements.len());
                self.elements(&vector.elements);
            }
            Value::List(list) => {
                self.head(code::LIST, list.attribute, list.items.len());
                list.items.iter().for_each(|item| self.value(item));
            }
            Value::Table(table) => self.table(table),
            Value::Dictionary(dictionary) => self.dictionary(dictionary),
            Value::Function(function) => self.function(function),
            Value::Error(text) => {
                self.out.push(code::ERROR);
                self.zero_terminated(text);
            }
        }
    }

    fn head(&mut self, code: u8, attribute: Attribute, count: usize) {
        self.out.extend_from_slice(&[code, attribute.code()]);
        self.count(count);
    }

    /// Counts beyond what fits make messages that [`end_message`](crate::end_message) refuses: they are too long.
    fn count(&mut self, count: usize) {
        self.out.extend_from_slice(&self.order.bytes(count as u32));
    }

    fn table(&mut self, table: &Table) {
        self.out.extend_from_slice(&[code::TABLE, table.attribute().code(), code::DICTIONARY]);
        self.head(crate::Type::Symbol.code(), Attribute::None, table.names().len());
        self.symbols(table.names());
        self.head(code::LIST, Attribute::None, table.columns().len());
        table.columns().iter().for_each(|column| self.value(column));
    }

    fn dictionary(&mut self, dictionary: &Dictionary) {
        let code = if dictionary.is_sorted { code::SORTED_DICTIONARY } else { code::DICTIONARY };
        self.out.push(code);
        self.value(&dictionary.keys);
        self.value(&dictionary.values);
    }

    fn function(&mut self, function: &Function) {
        match function {
            Function::Lambda { context, body } => {
                self.out.push(code::LAMBDA);
                self.zero_terminated(context.as_bytes());
                self.value(body);
            }
            Function::Primitive { code, index } => self.out.extend_from_slice(&[*code, *index]),
            Function::Parts { code, parts } => {
                self.out.push(*code);
                self.count(parts.len());
                parts.iter().for_each(|part| self.value(part));
            }
            Function::Derived { code, of } => {
                self.out.push(*code);
                self.value(of);
            }
        }
    }

    fn symbols(&mut self, symbols: &Symbols) {
        self.out.extend_from_slice(symbols.as_bytes());
    }

    fn zero_terminated(&mut self, text: &[u8]) {
        self.out.extend(text.iter().take_while(|byte| **byte != 0));
        self.out.push(0);
    }
}

macro_rules! write_elements {
    ($($name:ident: $element:ty = $code:literal,)*) => {
        impl Writer<'_> {
            fn atom(&mut self, atom: &Atom) {
                self.out.push(atom.ty().code().wrapping_neg());
                match atom {
                    $(Atom::$name(element) => <$element>::write_all(&[*element], self.order, self.out),)*
                    Atom::Symbol(symbol) => self.zero_terminated(symbol.as_bytes()),
                }
            }

            fn elements(&mut self, elements: &Elements) {
                match elements {
                    $(Elements::$name(elements) => <$element>::write_all(elements, self.order, self.out),)*
                    Elements::Symbol(symbols) => self.symbols(symbols),
                }
            }
        }
    };
}
fixed_types!(write_elements);

/// Elements of fixed width to their bytes.
pub(crate) trait Element: Sized {
    fn write_all(elements: &[Self], order: ByteOrder, out: &mut Vec<u8>);
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Element for $number {
            fn write_all(elements: &[Self], order: ByteOrder, out: &mut Vec<u8>) {
                match order {
                    ByteOrder::Little => out.extend(elements.iter().flat_map(|number| number.to_le_bytes())),
                    ByteOrder::Big => out.extend(elements.iter().flat_map(|number| number.to_be_bytes())),
                }
            }
        }
    )*};
}
numbers!(i16, i32, i64, f32, f64);

impl Element for u8 {
    fn write_all(elements: &[Self], _: ByteOrder, out: &mut Vec<u8>) {
        out.extend_from_slice(elements);
    }
}

impl Element for bool {
    fn write_all(elements: &[Self], _: ByteOrder, out: &mut Vec<u8>) {
        out.extend(elements.iter().map(|element| u8::from(*element)));
    }
}

impl Element for [u8; 16] {
    fn write_all(elements: &[Self], _: ByteOrder, out: &mut Vec<u8>) {
        out.extend_from_slice(elements.as_flattened());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_byte_orders_are_written() {
        let mut little = Vec::new();
        encode(&vec![1_i64].into(), ByteOrder::Little, &mut little);
        assert_eq!(little, [7, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
        let mut big = Vec::new();
        encode(&vec![1_i64].into(), ByteOrder::Big, &mut big);
        assert_eq!(big, [7, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1]);
    }
}
