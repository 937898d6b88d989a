//! Anything that a message may hold.

use crate::atom::Atom;
use crate::elements::Elements;
use crate::error::KdbError;
use crate::kind::{Attribute, Type};
use crate::symbols::{Symbol, Symbols};

/// A value of q.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// One element.
    Atom(Atom),
    /// Elements of one type.
    Vector(Vector),
    /// Values of any types.
    List(List),
    /// Columns with names.
    Table(Box<Table>),
    /// Keys and their values; of two tables: a keyed table.
    Dictionary(Box<Dictionary>),
    /// A function. It is passed on, never called.
    Function(Box<Function>),
    /// What went wrong, in place of an answer.
    Error(Box<[u8]>),
}

/// Elements of one type.
#[derive(Debug, Clone, PartialEq)]
pub struct Vector {
    /// Its attribute: the order of the elements.
    pub attribute: Attribute,
    /// The elements.
    pub elements: Elements,
}

/// Values of any types.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct List {
    /// Its attribute: the order of the elements.
    pub attribute: Attribute,
    /// The values.
    pub items: Vec<Value>,
}

/// Keys and their values.
#[derive(Debug, Clone, PartialEq)]
pub struct Dictionary {
    /// Whether its attribute is that the keys ascend.
    pub is_sorted: bool,
    /// The keys.
    pub keys: Value,
    /// As many values.
    pub values: Value,
}

/// A function, as messages have it.
#[derive(Debug, Clone, PartialEq)]
pub enum Function {
    /// `{x+y}`, type 100.
    Lambda {
        /// The namespace where it was written.
        context: Symbol,
        /// Its text, or its code where it is in k.
        body: Value,
    },
    /// A function or iterator of the language: type 101 to 103.
    Primitive {
        /// 101 of one argument, 102 of two, 103 an iterator.
        code: u8,
        /// Which one.
        index: u8,
    },
    /// A function with some of its arguments (type 104), or several that are called one after the other (105).
    Parts {
        /// 104 or 105.
        code: u8,
        /// The function and its arguments; the functions.
        parts: Vec<Value>,
    },
    /// A function with an iterator: type 106 to 112.
    Derived {
        /// The type.
        code: u8,
        /// The function.
        of: Value,
    },
}

/// Columns with names, all of one length.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    attribute: Attribute,
    names: Symbols,
    columns: Vec<Value>,
}

impl Table {
    /// A table of these columns. Doubled names are let through, as q lets them.
    ///
    /// # Errors
    /// [`KdbError::Shape`], when there are not as many columns as names, a column is no list, or one has another length
    /// than the first.
    pub fn new(names: Symbols, columns: Vec<Value>) -> Result<Self, KdbError> {
        if names.len() != columns.len() {
            return Err(KdbError::Shape("a table has not as many columns as names"));
        }
        let mut lengths = columns.iter().map(|column| match column {
            Value::Vector(_) | Value::List(_) => column.len(),
            _ => None,
        });
        let rows = lengths.next().unwrap_or(Some(0));
        if rows.is_none() || lengths.clone().any(|length| length.is_none()) {
            return Err(KdbError::Shape("a column of a table is neither a vector nor a list"));
        }
        if lengths.any(|length| length != rows) {
            return Err(KdbError::Shape("the columns of a table have different lengths"));
        }
        Ok(Self { attribute: Attribute::None, names, columns })
    }

    /// The same with an attribute.
    pub fn with_attribute(self, attribute: Attribute) -> Self {
        Self { attribute, ..self }
    }

    /// Its attribute: the order of its rows.
    pub fn attribute(&self) -> Attribute {
        self.attribute
    }

    /// The names of the columns.
    pub fn names(&self) -> &Symbols {
        &self.names
    }

    /// The columns: vectors and lists, of [`rows`](Self::rows) elements each.
    pub fn columns(&self) -> &[Value] {
        &self.columns
    }

    /// The columns, for good.
    pub fn into_columns(self) -> Vec<Value> {
        self.columns
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.columns.first().and_then(Value::len).unwrap_or(0)
    }

    /// The column of that name, the first if there are several.
    pub fn column(&self, name: &str) -> Option<&Value> {
        let index = self.names.iter().position(|known| known == name.as_bytes())?;
        self.columns.get(index)
    }
}

impl Value {
    /// `::`, the generic null.
    pub fn nothing() -> Self {
        Self::Function(Box::new(Function::Primitive { code: 101, index: 0 }))
    }

    /// Whether it is `::`.
    pub fn is_nothing(&self) -> bool {
        *self == Self::nothing()
    }

    /// A symbol.
    pub fn symbol(text: &str) -> Self {
        Self::Atom(Atom::Symbol(text.into()))
    }

    /// A text: a vector of chars.
    pub fn text(text: &str) -> Self {
        Elements::Char(text.as_bytes().to_vec()).into()
    }

    /// An error.
    pub fn error(text: &str) -> Self {
        Self::Error(Symbol::from(text).as_bytes().into())
    }

    /// A list of any values, as they are.
    pub fn list(items: Vec<Self>) -> Self {
        Self::List(List { attribute: Attribute::None, items })
    }

    /// What q makes of a list: atoms of one type become a vector.
    pub fn collect(items: Vec<Self>) -> Self {
        let Some(Self::Atom(first)) = items.first() else { return Self::list(items) };
        let ty = first.ty();
        if !items.iter().all(|item| item.as_atom().is_some_and(|atom| atom.ty() == ty)) {
            return Self::list(items);
        }
        let mut elements = Elements::new(ty);
        for item in items {
            if let Self::Atom(atom) = item {
                // All have the type.
                let _ = elements.push(atom);
            }
        }
        elements.into()
    }

    /// A dictionary.
    pub fn dictionary(keys: Self, values: Self) -> Self {
        Self::Dictionary(Box::new(Dictionary { is_sorted: false, keys, values }))
    }

    /// How many elements, items, rows or keys it has; `None` for atoms, functions and errors.
    pub fn len(&self) -> Option<usize> {
        match self {
            Self::Vector(vector) => Some(vector.elements.len()),
            Self::List(list) => Some(list.items.len()),
            Self::Table(table) => Some(table.rows()),
            Self::Dictionary(dictionary) => dictionary.keys.len(),
            _ => None,
        }
    }

    /// Whether it is a list, table or dictionary of nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == Some(0)
    }

    /// The atom, if it is one.
    pub fn as_atom(&self) -> Option<&Atom> {
        match self {
            Self::Atom(atom) => Some(atom),
            _ => None,
        }
    }

    /// The elements, if it is a vector.
    pub fn as_elements(&self) -> Option<&Elements> {
        match self {
            Self::Vector(vector) => Some(&vector.elements),
            _ => None,
        }
    }

    /// The type of an atom or of a vector's elements.
    pub fn ty(&self) -> Option<Type> {
        match self {
            Self::Atom(atom) => Some(atom.ty()),
            Self::Vector(vector) => Some(vector.elements.ty()),
            _ => None,
        }
    }

    /// The bytes of a symbol, a char or a text: clients give names in any of these.
    pub fn as_name(&self) -> Option<&[u8]> {
        match self {
            Self::Atom(Atom::Symbol(symbol)) => Some(symbol.as_bytes()),
            Self::Atom(Atom::Char(char)) => Some(std::slice::from_ref(char)),
            Self::Vector(Vector { elements: Elements::Char(text), .. }) => Some(text),
            _ => None,
        }
    }

    /// The element or item at `index` as a value of its own; `None` after the end, and where there are none.
    pub fn item(&self, index: usize) -> Option<Self> {
        match self {
            Self::Vector(vector) => vector.elements.get(index).map(Self::Atom),
            Self::List(list) => list.items.get(index).cloned(),
            _ => None,
        }
    }
}

impl From<Elements> for Value {
    fn from(elements: Elements) -> Self {
        Self::Vector(Vector { attribute: Attribute::None, elements })
    }
}

impl From<Atom> for Value {
    fn from(atom: Atom) -> Self {
        Self::Atom(atom)
    }
}

impl From<i64> for Value {
    fn from(long: i64) -> Self {
        Self::Atom(Atom::Long(long))
    }
}

impl From<Vec<i64>> for Value {
    fn from(longs: Vec<i64>) -> Self {
        Elements::Long(longs).into()
    }
}

impl From<Symbols> for Value {
    fn from(symbols: Symbols) -> Self {
        Elements::Symbol(symbols).into()
    }
}

impl From<Table> for Value {
    fn from(table: Table) -> Self {
        Self::Table(Box::new(table))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn atoms_of_one_type_become_a_vector() {
        assert_eq!(Value::collect(vec![1.into(), 2.into()]), vec![1, 2].into());
        let mixed = vec![1.into(), Value::symbol("a")];
        assert_eq!(Value::collect(mixed.clone()), Value::list(mixed));
        assert_eq!(Value::collect(vec![]), Value::list(vec![]));
    }

    #[test]
    fn tables_are_rectangular() {
        let names: Symbols = ["a", "b"].into_iter().collect();
        let short = Table::new(names.clone(), vec![vec![1, 2].into(), vec![1].into()]);
        assert_eq!(short, Err(KdbError::Shape("the columns of a table have different lengths")));
        assert!(Table::new(names.clone(), vec![vec![1].into()]).is_err());
        assert!(Table::new(names.clone(), vec![vec![1].into(), 1.into()]).is_err());
        let table = Table::new(names, vec![vec![1].into(), vec![7].into()]).expect("a table");
        assert_eq!((table.rows(), table.column("b")), (1, Some(&vec![7].into())));
    }

    #[test]
    fn names_come_as_symbols_and_as_texts() {
        for value in [Value::symbol("upd"), Value::text("upd")] {
            assert_eq!(value.as_name(), Some(&b"upd"[..]));
        }
        assert_eq!(Value::from(1).as_name(), None);
    }
}
