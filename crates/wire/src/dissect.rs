//! Splits payloads into fields for `docs/format/wire.md`: traits and implementations, for tests only.

use crate::fields::Put;
use crate::message::{Login, Rest};
use std::fmt::Display;

/// A piece of a payload: its label on the page, and its bytes.
#[derive(Debug)]
pub(crate) struct FieldBytes {
    pub label: String,
    pub bytes: Vec<u8>,
}

/// A value that can be split into labelled fields.
pub(crate) trait Dissect {
    fn dissect(&self, name: &str, out: &mut Vec<FieldBytes>);
}

fn piece(label: impl Display, field: &impl Put, out: &mut Vec<FieldBytes>) {
    let mut bytes = Vec::new();
    field.put(&mut bytes);
    out.push(FieldBytes { label: label.to_string(), bytes });
}

macro_rules! plain {
    ($($plain:ty),*) => {$(
        impl Dissect for $plain {
            fn dissect(&self, name: &str, out: &mut Vec<FieldBytes>) {
                piece(format_args!("{name} {self}"), self, out);
            }
        }
    )*};
}

plain!(u16, u32, i64, bool);

impl Dissect for u64 {
    fn dissect(&self, name: &str, out: &mut Vec<FieldBytes>) {
        // Counts and positions are small; a large number is a random id.
        let is_id = *self > 1 << 48;
        if is_id {
            piece(format_args!("{name} {self:016x}"), self, out);
        } else {
            piece(format_args!("{name} {self}"), self, out);
        }
    }
}

impl Dissect for &str {
    fn dissect(&self, name: &str, out: &mut Vec<FieldBytes>) {
        if self.len() <= ROW_BYTES - 4 {
            piece(format_args!("{name} {self:?}"), self, out);
        } else {
            self.as_bytes().dissect(name, out);
        }
    }
}

impl Dissect for String {
    fn dissect(&self, name: &str, out: &mut Vec<FieldBytes>) {
        self.as_str().dissect(name, out);
    }
}

impl Dissect for &[u8] {
    fn dissect(&self, name: &str, out: &mut Vec<FieldBytes>) {
        piece(format_args!("{name}, {} bytes", self.len()), &(self.len() as u32), out);
        for row in self.chunks(ROW_BYTES) {
            out.push(FieldBytes {
                label: String::from_utf8_lossy(row).escape_debug().to_string(),
                bytes: row.into(),
            });
        }
    }
}

impl Dissect for Rest<'_> {
    fn dissect(&self, name: &str, out: &mut Vec<FieldBytes>) {
        out.push(FieldBytes { label: format!("{name}, {} bytes", self.0.len()), bytes: self.0.into() });
    }
}

impl<T: Dissect> Dissect for Vec<T> {
    fn dissect(&self, name: &str, out: &mut Vec<FieldBytes>) {
        piece(format_args!("{name}, {} elements", self.len()), &(self.len() as u32), out);
        for (i, element) in self.iter().enumerate() {
            element.dissect(&format!("{name}[{i}]"), out);
        }
    }
}

impl<T: Dissect> Dissect for Option<T> {
    fn dissect(&self, name: &str, out: &mut Vec<FieldBytes>) {
        self.is_some().dissect(&format!("{name} is there:"), out);
        self.iter().for_each(|value| value.dissect(name, out));
    }
}

impl<A: Dissect, B: Dissect> Dissect for (A, B) {
    fn dissect(&self, name: &str, out: &mut Vec<FieldBytes>) {
        self.0.dissect(&format!("{name}.0"), out);
        self.1.dissect(&format!("{name}.1"), out);
    }
}

impl Dissect for Login<'_> {
    fn dissect(&self, name: &str, out: &mut Vec<FieldBytes>) {
        match self {
            Self::Anonymous => piece(format_args!("{name} 0: anonymous"), &0_u8, out),
            Self::Password { user, password } => {
                piece(format_args!("{name} 1: a user with a password"), &1_u8, out);
                user.dissect("user", out);
                password.dissect("password", out);
            }
            Self::Token(token) => {
                piece(format_args!("{name} 2: a token"), &2_u8, out);
                token.dissect("token", out);
            }
        }
    }
}

/// Bytes in a row of the page.
pub(crate) const ROW_BYTES: usize = 16;
