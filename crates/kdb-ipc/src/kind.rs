//! Types of kdb+'s elements, and attributes of vectors.

use crate::atom::Atom;

/// Calls a macro with every type whose elements have a fixed width: name, element, code.
macro_rules! fixed_types {
    ($then:ident) => {
        $then! {
            Boolean: bool = 1,
            Guid: [u8; 16] = 2,
            Byte: u8 = 4,
            Short: i16 = 5,
            Int: i32 = 6,
            Long: i64 = 7,
            Real: f32 = 8,
            Float: f64 = 9,
            Char: u8 = 10,
            Timestamp: i64 = 12,
            Month: i32 = 13,
            Date: i32 = 14,
            Datetime: f64 = 15,
            Timespan: i64 = 16,
            Minute: i32 = 17,
            Second: i32 = 18,
            Time: i32 = 19,
        }
    };
}
pub(crate) use fixed_types;

/// The type of an atom or of the elements of a vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Type {
    /// Truth value.
    Boolean = 1,
    /// 16 bytes.
    Guid = 2,
    /// Unsigned 8 bits.
    Byte = 4,
    /// Signed 16 bits.
    Short = 5,
    /// Signed 32 bits.
    Int = 6,
    /// Signed 64 bits.
    Long = 7,
    /// IEEE 754, 32 bits.
    Real = 8,
    /// IEEE 754, 64 bits.
    Float = 9,
    /// One byte of a text.
    Char = 10,
    /// A name without zero bytes.
    Symbol = 11,
    /// Nanoseconds since 2000-01-01.
    Timestamp = 12,
    /// Months since January 2000.
    Month = 13,
    /// Days since 2000-01-01.
    Date = 14,
    /// Days since 2000-01-01 with a fraction.
    Datetime = 15,
    /// Nanoseconds.
    Timespan = 16,
    /// Minutes.
    Minute = 17,
    /// Seconds.
    Second = 18,
    /// Milliseconds.
    Time = 19,
}

impl Type {
    /// All types, by code.
    pub const ALL: [Self; 18] = [
        Self::Boolean,
        Self::Guid,
        Self::Byte,
        Self::Short,
        Self::Int,
        Self::Long,
        Self::Real,
        Self::Float,
        Self::Char,
        Self::Symbol,
        Self::Timestamp,
        Self::Month,
        Self::Date,
        Self::Datetime,
        Self::Timespan,
        Self::Minute,
        Self::Second,
        Self::Time,
    ];

    /// The code that vectors carry; atoms carry its negative.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The type of a vector's code.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.code() == code)
    }

    /// The letter that `meta` shows and casts take: `j` for long.
    pub fn letter(self) -> char {
        char::from(b" bg xhijefcspmdznuvt"[usize::from(self.code())])
    }

    /// The type of a letter, as in `"j"$x`.
    pub fn from_letter(letter: char) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.letter() == letter)
    }

    /// The name as q has it: `long`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Boolean => "boolean",
            Self::Guid => "guid",
            Self::Byte => "byte",
            Self::Short => "short",
            Self::Int => "int",
            Self::Long => "long",
            Self::Real => "real",
            Self::Float => "float",
            Self::Char => "char",
            Self::Symbol => "symbol",
            Self::Timestamp => "timestamp",
            Self::Month => "month",
            Self::Date => "date",
            Self::Datetime => "datetime",
            Self::Timespan => "timespan",
            Self::Minute => "minute",
            Self::Second => "second",
            Self::Time => "time",
        }
    }

    /// The type of a name, as in `` `long$x ``.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == name)
    }

    /// Bytes of an element; symbols, which end with a zero byte, have at least 1.
    pub fn bytes_min(self) -> usize {
        match self {
            Self::Boolean | Self::Byte | Self::Char | Self::Symbol => 1,
            Self::Short => 2,
            Self::Guid => 16,
            Self::Long | Self::Float | Self::Timestamp | Self::Datetime | Self::Timespan => 8,
            _ => 4,
        }
    }

    /// The null of this type. Booleans and bytes have no such value: they give 0.
    pub fn null(self) -> Atom {
        match self {
            Self::Boolean => Atom::Boolean(false),
            Self::Guid => Atom::Guid([0; 16]),
            Self::Byte => Atom::Byte(0),
            Self::Short => Atom::Short(i16::MIN),
            Self::Int => Atom::Int(i32::MIN),
            Self::Long => Atom::Long(i64::MIN),
            Self::Real => Atom::Real(f32::NAN),
            Self::Float => Atom::Float(f64::NAN),
            Self::Char => Atom::Char(b' '),
            Self::Symbol => Atom::Symbol("".into()),
            Self::Timestamp => Atom::Timestamp(i64::MIN),
            Self::Month => Atom::Month(i32::MIN),
            Self::Date => Atom::Date(i32::MIN),
            Self::Datetime => Atom::Datetime(f64::NAN),
            Self::Timespan => Atom::Timespan(i64::MIN),
            Self::Minute => Atom::Minute(i32::MIN),
            Self::Second => Atom::Second(i32::MIN),
            Self::Time => Atom::Time(i32::MIN),
        }
    }
}

/// The attribute of a vector, list or table: the order of its elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Attribute {
    /// Nothing.
    #[default]
    None = 0,
    /// `s`: ascending.
    Sorted = 1,
    /// `u`: each once.
    Unique = 2,
    /// `p`: equal ones together.
    Parted = 3,
    /// `g`: has an index.
    Grouped = 4,
}

impl Attribute {
    /// The attribute of a byte.
    pub fn from_code(code: u8) -> Option<Self> {
        let all = [Self::None, Self::Sorted, Self::Unique, Self::Parted, Self::Grouped];
        all.get(usize::from(code)).copied()
    }

    /// Its byte.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The letter that `meta` shows; none for [`None`](Self::None).
    pub fn letter(self) -> Option<char> {
        [None, Some('s'), Some('u'), Some('p'), Some('g')][usize::from(self.code())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_found_by_code_letter_and_name() {
        for known in Type::ALL {
            assert_eq!(Type::from_code(known.code()), Some(known));
            assert_eq!(Type::from_letter(known.letter()), Some(known));
            assert_eq!(Type::from_name(known.name()), Some(known));
            assert_eq!(known.null().ty(), known);
        }
        assert_eq!((Type::from_code(3), Type::from_code(20), Type::from_letter(' ')), (None, None, None));
        assert_eq!(Type::Long.letter(), 'j');
        assert_eq!(Type::Time.letter(), 't');
    }

    #[test]
    fn attributes_have_codes() {
        for code in 0..5 {
            assert_eq!(Attribute::from_code(code).map(Attribute::code), Some(code));
        }
        assert_eq!(Attribute::from_code(5), None);
        assert_eq!(Attribute::Grouped.letter(), Some('g'));
    }
}
