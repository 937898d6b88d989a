//! Many elements of one type.

use crate::atom::Atom;
use crate::kind::{Type, fixed_types};
use crate::symbols::{Symbol, Symbols};

macro_rules! elements {
    ($($name:ident: $element:ty = $code:literal,)*) => {
        /// The elements of a vector. [`Type`] defines the meaning of the numbers.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Elements {
            $(
                #[doc = concat!("Elements of [`Type::", stringify!($name), "`].")]
                $name(Vec<$element>),
            )*
            /// Elements of [`Type::Symbol`].
            Symbol(Symbols),
        }

        impl Elements {
            /// No elements of a type.
            pub fn new(ty: Type) -> Self {
                match ty {
                    $(Type::$name => Self::$name(Vec::new()),)*
                    Type::Symbol => Self::Symbol(Symbols::new()),
                }
            }

            /// Their type.
            pub fn ty(&self) -> Type {
                match self {
                    $(Self::$name(_) => Type::$name,)*
                    Self::Symbol(_) => Type::Symbol,
                }
            }

            /// How many there are.
            pub fn len(&self) -> usize {
                match self {
                    $(Self::$name(elements) => elements.len(),)*
                    Self::Symbol(symbols) => symbols.len(),
                }
            }

            /// The element at `index`; `None` after the end.
            pub fn get(&self, index: usize) -> Option<Atom> {
                match self {
                    $(Self::$name(elements) => elements.get(index).map(|element| Atom::$name(*element)),)*
                    Self::Symbol(symbols) => symbols.get(index).map(|bytes| Atom::Symbol(Symbol::new(bytes))),
                }
            }

            /// Adds an element.
            ///
            /// # Errors
            /// The atom, if it is of another type.
            pub fn push(&mut self, atom: Atom) -> Result<(), Atom> {
                match (self, atom) {
                    $((Self::$name(elements), Atom::$name(element)) => elements.push(element),)*
                    (Self::Symbol(symbols), Atom::Symbol(symbol)) => symbols.push(symbol.as_bytes()),
                    (_, atom) => return Err(atom),
                }
                Ok(())
            }

            /// The elements at these places, in their order; places after the end are skipped.
            pub fn pick(&self, rows: &[u32]) -> Self {
                match self {
                    $(Self::$name(elements) => {
                        Self::$name(rows.iter().filter_map(|row| elements.get(*row as usize).copied()).collect())
                    })*
                    Self::Symbol(symbols) => {
                        Self::Symbol(rows.iter().filter_map(|row| symbols.get(*row as usize)).collect())
                    }
                }
            }
        }
    };
}

fixed_types!(elements);

impl Elements {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All elements, in order.
    pub fn iter(&self) -> impl Iterator<Item = Atom> {
        (0..self.len()).filter_map(|index| self.get(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_take_atoms_of_their_type() {
        for ty in Type::ALL {
            let mut elements = Elements::new(ty);
            assert_eq!(elements.push(ty.null()), Ok(()).map_err(|()| ty.null()));
            let other = if ty == Type::Long { Atom::Int(1) } else { Atom::Long(1) };
            assert_eq!(elements.push(other.clone()), Err(other));
            assert_eq!((elements.len(), elements.ty()), (1, ty));
            assert_eq!(elements.iter().map(|atom| atom.ty()).collect::<Vec<_>>(), [ty]);
        }
    }

    #[test]
    fn rows_are_picked() {
        let longs = Elements::Long(vec![10, 11, 12]);
        assert_eq!(longs.pick(&[2, 0, 9]), Elements::Long(vec![12, 10]));
        let symbols = Elements::Symbol(["a", "b"].into_iter().collect());
        assert_eq!(symbols.pick(&[1]), Elements::Symbol(["b"].into_iter().collect()));
    }
}
