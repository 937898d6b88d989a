//! One element.

use crate::kind::{Type, fixed_types};
use crate::symbols::Symbol;

macro_rules! atom {
    ($($name:ident: $element:ty = $code:literal,)*) => {
        /// One element of any type. [`Type`] defines the meaning of the numbers.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Atom {
            $(
                #[doc = concat!("An element of [`Type::", stringify!($name), "`].")]
                $name($element),
            )*
            /// An element of [`Type::Symbol`].
            Symbol(Symbol),
        }

        impl Atom {
            /// Its type.
            pub fn ty(&self) -> Type {
                match self {
                    $(Self::$name(_) => Type::$name,)*
                    Self::Symbol(_) => Type::Symbol,
                }
            }
        }
    };
}
fixed_types!(atom);

impl Atom {
    /// Whether it is its type's null. Booleans and bytes have none.
    pub fn is_null(&self) -> bool {
        match self {
            Self::Boolean(_) | Self::Byte(_) => false,
            Self::Real(number) => number.is_nan(),
            Self::Float(number) | Self::Datetime(number) => number.is_nan(),
            other => *other == other.ty().null(),
        }
    }

    /// The whole number that it holds, whatever its width and unit; `None` for guids, floats, symbols and chars.
    pub fn as_integer(&self) -> Option<i64> {
        Some(match self {
            Self::Boolean(value) => i64::from(*value),
            Self::Byte(value) => i64::from(*value),
            Self::Short(value) => i64::from(*value),
            Self::Int(value)
            | Self::Month(value)
            | Self::Date(value)
            | Self::Minute(value)
            | Self::Second(value)
            | Self::Time(value) => i64::from(*value),
            Self::Long(value) | Self::Timestamp(value) | Self::Timespan(value) => *value,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nulls_are_recognized() {
        for ty in Type::ALL {
            let has_null = !matches!(ty, Type::Boolean | Type::Byte);
            assert_eq!(ty.null().is_null(), has_null, "{ty:?}");
        }
        assert!(!Atom::Long(0).is_null());
        assert_eq!(Atom::Short(-3).as_integer(), Some(-3));
    }
}
