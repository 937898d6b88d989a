//! What clients of PostgreSQL send: start-up packets and messages of version 3 of its protocol. Bytes in, values out.
//!
//! Always true: nothing is allocated for a length that a client states before so many bytes have arrived, and no count is believed that
//! the message has no bytes for.

use std::fmt;

/// Bytes of a start-up packet, and of a message before the client is authenticated. PostgreSQL allows as many.
pub const STARTUP_BYTES_MAX: usize = 10_000;
/// Bytes of a message.
pub const MESSAGE_BYTES_MAX: usize = 64 << 20;

const CANCEL: i32 = (1234 << 16) | 5678;
const TLS: i32 = (1234 << 16) | 5679;
const GSS: i32 = (1234 << 16) | 5680;

/// Bytes that are not the protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed(pub String);

impl std::error::Error for Malformed {}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn malformed<T>(what: impl Into<String>) -> Result<T, Malformed> {
    Err(Malformed(what.into()))
}

/// The first packets of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Startup<'a> {
    /// Asks for TLS.
    Tls,
    /// Asks for encryption with GSSAPI.
    Gss,
    /// Asks that the query of another connection is cancelled.
    Cancel {
        /// The connection.
        process: i32,
        /// Its key.
        secret: &'a [u8],
    },
    /// Starts a session.
    Start {
        /// Minor version of the protocol 3.
        minor: u16,
        /// Names and values: `user`, `database`, settings.
        parameters: Vec<(&'a str, &'a str)>,
    },
}

/// A packet at the beginning of bytes, and its length; `None`: more bytes are needed.
///
/// # Errors
/// When it is none.
pub fn startup(bytes: &[u8]) -> Result<Option<(Startup<'_>, usize)>, Malformed> {
    let Some(length) = bytes.first_chunk::<4>().map(|length| i32::from_be_bytes(*length)) else {
        return Ok(None);
    };
    let length = match usize::try_from(length) {
        Ok(length) if (8..=STARTUP_BYTES_MAX).contains(&length) => length,
        _ => return malformed(format!("a start-up packet of {length} bytes")),
    };
    let Some(packet) = bytes.get(4..length) else { return Ok(None) };
    let mut body = Body(packet);
    let startup = match body.i32()? {
        TLS => Startup::Tls,
        GSS => Startup::Gss,
        CANCEL => {
            let process = body.i32()?;
            if !(4..=256).contains(&body.0.len()) {
                return malformed("a cancel key of a wrong length");
            }
            return Ok(Some((Startup::Cancel { process, secret: body.0 }, length)));
        }
        version if version >> 16 == 3 => {
            let mut parameters = Vec::new();
            loop {
                let name = body.text()?;
                if name.is_empty() {
                    break;
                }
                parameters.push((name, body.text()?));
            }
            Startup::Start { minor: version as u16, parameters }
        }
        version => {
            return malformed(format!("version {}.{} of the protocol", version >> 16, version & 0xffff));
        }
    };
    body.end()?;
    Ok(Some((startup, length)))
}

/// A message's kind, its body, and the bytes of its frame.
pub type Frame<'a> = (u8, &'a [u8], usize);

/// The kind and the body of a message at the beginning of bytes, and its length; `None`: more bytes are needed.
///
/// # Errors
/// When its length is negative, or above the limit.
pub fn frame(bytes: &[u8], bytes_max: usize) -> Result<Option<Frame<'_>>, Malformed> {
    let (Some(kind), Some(length)) = (bytes.first(), bytes.get(1..).and_then(|rest| rest.first_chunk::<4>()))
    else {
        return Ok(None);
    };
    let length = i32::from_be_bytes(*length);
    match usize::try_from(length) {
        Ok(length) if length >= 4 && length <= bytes_max => {
            Ok(bytes.get(5..length + 1).map(|body| (*kind, body, length + 1)))
        }
        _ => malformed(format!("a message of {length} bytes, where at most {bytes_max} are allowed")),
    }
}

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message<'a> {
    /// Texts of statements, to run at once.
    Query(&'a str),
    /// A statement to prepare.
    Parse {
        /// Its name; empty: the unnamed one.
        name: &'a str,
        /// Its text.
        text: &'a str,
        /// Types of parameters; 0: not stated.
        types: Vec<u32>,
    },
    /// A portal: a prepared statement with values.
    Bind(Bind<'a>),
    /// Asks for the columns of a statement (`S`) or a portal (`P`).
    Describe {
        /// `S` or `P`.
        kind: u8,
        /// Its name.
        name: &'a str,
    },
    /// Asks for rows of a portal.
    Execute {
        /// Its name.
        portal: &'a str,
        /// How many; 0: all.
        rows: usize,
    },
    /// Closes a statement (`S`) or a portal (`P`).
    Close {
        /// `S` or `P`.
        kind: u8,
        /// Its name.
        name: &'a str,
    },
    /// Asks for the answers so far.
    Flush,
    /// Ends a series of messages.
    Sync,
    /// Ends the session.
    Terminate,
    /// A password.
    Password(&'a str),
    /// Rows of `COPY … FROM`.
    CopyData(&'a [u8]),
    /// The end of `COPY … FROM`.
    CopyDone,
    /// The client gives up `COPY … FROM`.
    CopyFail(&'a str),
    /// A call of a function, which is not supported.
    FunctionCall,
}

/// Values for a prepared statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bind<'a> {
    /// Name of the portal.
    pub portal: &'a str,
    /// Name of the statement.
    pub statement: &'a str,
    /// Whether values are binary: none, one for all, or one for each.
    pub formats: Vec<bool>,
    /// The values.
    pub values: Vec<Option<&'a [u8]>>,
    /// Whether columns are to be binary: none, one for all, or one for each.
    pub results: Vec<bool>,
}

/// A message of a kind.
///
/// # Errors
/// When it is none.
pub fn message(kind: u8, body: &[u8]) -> Result<Message<'_>, Malformed> {
    let mut body = Body(body);
    let message = match kind {
        b'Q' => Message::Query(body.text()?),
        b'P' => Message::Parse {
            name: body.text()?,
            text: body.text()?,
            types: body.list(4, |body| body.i32().map(|oid| oid as u32))?,
        },
        b'B' => Message::Bind(Bind {
            portal: body.text()?,
            statement: body.text()?,
            formats: body.list(2, Body::format)?,
            values: body.list(4, Body::value)?,
            results: body.list(2, Body::format)?,
        }),
        b'D' => Message::Describe { kind: body.kind()?, name: body.text()? },
        b'E' => Message::Execute { portal: body.text()?, rows: usize::try_from(body.i32()?).unwrap_or(0) },
        b'C' => Message::Close { kind: body.kind()?, name: body.text()? },
        b'H' => Message::Flush,
        b'S' => Message::Sync,
        b'X' => Message::Terminate,
        b'p' => Message::Password(body.text()?),
        b'd' => return Ok(Message::CopyData(body.0)),
        b'c' => Message::CopyDone,
        b'f' => Message::CopyFail(body.text()?),
        b'F' => return Ok(Message::FunctionCall),
        _ => return malformed(format!("a message of kind {kind}")),
    };
    body.end()?;
    Ok(message)
}

/// The rest of a message.
struct Body<'a>(&'a [u8]);

impl<'a> Body<'a> {
    fn take(&mut self, bytes: usize) -> Result<&'a [u8], Malformed> {
        match self.0.split_at_checked(bytes) {
            Some((taken, rest)) => {
                self.0 = rest;
                Ok(taken)
            }
            None => malformed("a message that is too short"),
        }
    }

    fn i16(&mut self) -> Result<i16, Malformed> {
        self.take(2).map(|bytes| i16::from_be_bytes([bytes[0], bytes[1]]))
    }

    fn i32(&mut self) -> Result<i32, Malformed> {
        self.take(4).map(|bytes| i32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    /// A text that ends with a zero.
    fn text(&mut self) -> Result<&'a str, Malformed> {
        let Some(end) = self.0.iter().position(|byte| *byte == 0) else {
            return malformed("a text without an end");
        };
        let text = self.take(end)?;
        self.take(1)?;
        std::str::from_utf8(text).map_err(|_| Malformed("a text that is not UTF-8".into()))
    }

    /// A count and so many items, which have some bytes at least.
    fn list<T>(
        &mut self,
        least: usize,
        item: impl Fn(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let count = self.i16()? as u16 as usize;
        if count * least > self.0.len() {
            return malformed(format!("a list of {count} items in {} bytes", self.0.len()));
        }
        (0..count).map(|_| item(self)).collect()
    }

    fn format(&mut self) -> Result<bool, Malformed> {
        match self.i16()? {
            0 => Ok(false),
            1 => Ok(true),
            other => malformed(format!("format {other}")),
        }
    }

    fn value(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        match self.i32()? {
            -1 => Ok(None),
            length => match usize::try_from(length) {
                Ok(length) => self.take(length).map(Some),
                Err(_) => malformed(format!("a value of {length} bytes")),
            },
        }
    }

    fn kind(&mut self) -> Result<u8, Malformed> {
        match self.take(1)?[0] {
            kind @ (b'S' | b'P') => Ok(kind),
            other => malformed(format!("neither statement nor portal, but {other}")),
        }
    }

    fn end(&self) -> Result<(), Malformed> {
        match self.0.len() {
            0 => Ok(()),
            more => malformed(format!("{more} bytes too many")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(body: &[u8]) -> Vec<u8> {
        [&(body.len() as i32 + 4).to_be_bytes(), body].concat()
    }

    #[test]
    fn start_up_packets_are_read() {
        let start = packet(b"\0\x03\0\0user\0ann\0database\0tapedb\0\0");
        let parameters = vec![("user", "ann"), ("database", "tapedb")];
        assert_eq!(startup(&start), Ok(Some((Startup::Start { minor: 0, parameters }, start.len()))));
        for cut in 0..start.len() {
            assert_eq!(startup(&start[..cut]), Ok(None));
        }
        let cancel = packet(&[&CANCEL.to_be_bytes()[..], &7i32.to_be_bytes(), b"\x01\x02\x03\x04"].concat());
        assert_eq!(startup(&cancel), Ok(Some((Startup::Cancel { process: 7, secret: &[1, 2, 3, 4] }, 16))));
    }

    #[test]
    fn other_packets_are_refused() {
        for bytes in [
            &(-1i32).to_be_bytes()[..],
            &7i32.to_be_bytes(),
            &i32::MAX.to_be_bytes(),
            &packet(b"\0\x02\0\0"),
            &packet(b"\0\x03\0\0user\0ann"),
            &packet(b"\0\x03\0\0user\0\xff\0\0"),
            &packet(b"\0\x03\0\0\0more"),
            &packet(&CANCEL.to_be_bytes()),
        ] {
            assert!(startup(bytes).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn counts_are_not_believed() {
        for (kind, body) in [
            (b'P', &b"\0SELECT 1\0\x7f\xff"[..]),
            (b'B', b"\0\0\0\0\xff\xff\0\0"),
            (b'B', b"\0\0\0\0\0\x01\xff\xff\xff\xfe\0\0"),
            (b'B', b"\0\0\0\x01\0\x02\0\0\0\0"),
            (b'D', b"Xname\0"),
            (b'E', b"\0\0"),
            (b'Q', b"no end"),
            (b'S', b"x"),
            (b'!', b""),
        ] {
            assert!(message(kind, body).is_err(), "{kind} {body:?}");
        }
        assert!(frame(b"Q\x7f\xff\xff\xff", MESSAGE_BYTES_MAX).is_err());
        assert!(frame(b"Q\0\0\0\x03", MESSAGE_BYTES_MAX).is_err());
        assert_eq!(frame(b"Q\0\0\0\x05", MESSAGE_BYTES_MAX), Ok(None));
        assert_eq!(frame(b"S\0\0\0\x04rest", MESSAGE_BYTES_MAX), Ok(Some((b'S', &b""[..], 5))));
    }
}
