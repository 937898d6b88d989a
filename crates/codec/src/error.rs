//! Why bytes are not a message.

use std::fmt;

/// What is wrong at [`DecodeError::offset`]. `need` and `have` are counts of bytes unless the kind has others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeErrorKind {
    /// The bytes end before the value does.
    Short,
    /// Bytes are left over after the last value.
    Trailing,
    /// The end of a variable-length field is before its start or after the message; `need` is the end as read,
    /// `have` the start it must not precede or the length it must not pass.
    End,
    /// An array counts more items (`need`) than its bytes can hold (`have`).
    Count,
    /// A record's tag (`need`) is not below the number of alternatives (`have`).
    Tag,
    /// A `bool` byte (`need`) is neither 0 nor 1.
    Bool,
    /// An enum ordinal (`need`) is not below the number of symbols (`have`).
    Enum,
    /// A `char` (`need`) is not a Unicode scalar value.
    Char,
    /// A `string` is not UTF-8; `have` is how many of its bytes are.
    Utf8,
    /// An `ascii(n)` holds a byte above 127, or text after its padding began.
    Ascii,
    /// A `time_of_day` (`need`) is not within a day.
    TimeOfDay,
    /// A `decimal64` (`need`, its bits) is not in canonical form.
    Decimal,
    /// Records or arrays are nested deeper (`need`) than allowed (`have`).
    Depth,
    /// A null field's slot, or an unused bit of a null bitmap, is not zero.
    NullSlot,
    /// The type id (`need`) is not below the number of record types (`have`).
    UnknownType,
}

/// Bytes that do not match the schema. Nothing was read past the end and nothing is half changed on disk;
/// a destination that was being decoded into holds unspecified, valid values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecodeError {
    /// What is wrong.
    pub kind: DecodeErrorKind,
    /// Byte offset in the message body.
    pub offset: usize,
    /// What the layout needs; see the kind.
    pub need: u64,
    /// What is there; see the kind.
    pub have: u64,
}

impl DecodeError {
    /// An error of `kind` at byte `offset`.
    #[cold]
    pub fn new(kind: DecodeErrorKind, offset: usize, need: u64, have: u64) -> Self {
        Self { kind, offset, need, have }
    }

    /// The same error, seen from a message that has the bytes at `at`.
    #[cold]
    pub(crate) fn shifted(self, at: usize) -> Self {
        Self { offset: self.offset + at, ..self }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use DecodeErrorKind::*;
        let Self { kind, offset, need, have } = self;
        write!(f, "message byte {offset}: ")?;
        match kind {
            Short => write!(f, "needs {need} bytes, has {have}"),
            Trailing => write!(f, "{have} bytes where the record ends after {need}"),
            End => write!(f, "a field's end is {need}, out of order with {have}"),
            Count => write!(f, "an array counts {need} items in {have} bytes"),
            Tag => write!(f, "record tag {need} of {have} alternatives"),
            Bool => write!(f, "a bool is {need}, not 0 or 1"),
            Enum => write!(f, "enum ordinal {need} of {have} symbols"),
            Char => write!(f, "a char is {need:#x}, not a Unicode scalar value"),
            Utf8 => write!(f, "a string stops being UTF-8 after {have} of {need} bytes"),
            Ascii => write!(f, "an ascii text of {need} bytes has a bad byte {have:#x}"),
            TimeOfDay => write!(f, "a time of day is {} ns, not within a day", *need as i64),
            Decimal => write!(f, "a decimal64 {need:#018x} is not canonical"),
            Depth => write!(f, "nested {need} deep, at most {have} is allowed"),
            NullSlot => write!(f, "a null's slot is {need:#x}, not zero"),
            UnknownType => write!(f, "type id {need} of {have} record types"),
        }
    }
}

impl std::error::Error for DecodeError {}
