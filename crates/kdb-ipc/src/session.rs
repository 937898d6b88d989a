//! One end of a connection.

use crate::compress::expand;
use crate::decode::{Limits, decode};
use crate::encode::ByteOrder;
use crate::error::KdbError;
use crate::frame::{HEADER_BYTES, Header, Kind};
use crate::greeting::{CAPABILITY, Greeting};
use crate::value::Value;
use std::borrow::Cow;

/// The buffer shrinks to this when nothing is in it.
const BUFFER_BYTES_IDLE: usize = 256 << 10;

/// Bytes that arrive go in, events come out. Holds at most one message beyond the bytes added last, and allocates memory
/// for a long one only as it arrives.
///
/// ```
/// use tapedb_kdb_ipc::{Event, Kind, Limits, Session, Value, greeting, message};
///
/// let mut server = Session::server(Limits::default());
/// server.push(&greeting("me", "secret")?);
/// let Some(Event::Greeting(hello)) = server.next_event()? else { panic!("a greeting") };
/// assert_eq!((hello.user.as_str(), hello.password.as_str()), ("me", "secret"));
/// let answer = server.accept(hello.capability);
/// assert_eq!(answer, [3]); // goes to the client
/// server.push(&message(Kind::Synchronous, &Value::text("1+1"))?);
/// let Some(Event::Message(query)) = server.next_event()? else { panic!("a message") };
/// assert_eq!(query.value(&Limits::default())?, Value::text("1+1"));
/// # Ok::<(), tapedb_kdb_ipc::KdbError>(())
/// ```
#[derive(Debug)]
pub struct Session {
    limits: Limits,
    state: State,
    buffer: Vec<u8>,
    /// The bytes that have not been read begin here.
    start: usize,
    end: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// A server that has not been greeted.
    Greeting,
    /// A server that has been greeted and has not answered.
    Greeted,
    /// A client that has not been answered.
    Answer,
    Open,
}

/// An event of a connection.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// To a server, first of all: it answers with [`Session::accept`], or closes the connection.
    Greeting(Greeting),
    /// To a client, first of all: the capability that both speak. A server that refuses closes the connection.
    Accepted(u8),
    /// A message.
    Message(Message<'a>),
}

/// A message that has arrived whole.
#[derive(Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// What it wants.
    pub kind: Kind,
    /// Of every number in it.
    pub order: ByteOrder,
    /// The bytes of its value, expanded.
    pub payload: Cow<'a, [u8]>,
}

impl Message<'_> {
    /// Its value.
    ///
    /// # Errors
    /// As [`decode`].
    pub fn value(&self, limits: &Limits) -> Result<Value, KdbError> {
        decode(&self.payload, self.order, limits)
    }
}

impl Session {
    /// The end that is called.
    pub fn server(limits: Limits) -> Self {
        Self { limits, state: State::Greeting, buffer: Vec::new(), start: 0, end: 0 }
    }

    /// The end that calls; it has sent a [`greeting`](crate::greeting).
    pub fn client(limits: Limits) -> Self {
        Self { state: State::Answer, ..Self::server(limits) }
    }

    /// Accepts a client with this capability; returns the answer to be sent.
    pub fn accept(&mut self, offered: u8) -> [u8; 1] {
        self.state = State::Open;
        [offered.min(CAPABILITY)]
    }

    /// Spare capacity for the next bytes, at least `least` of them. Call [`filled`](Self::filled) with the number written.
    pub fn spare(&mut self, least: usize) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            if self.buffer.len() > BUFFER_BYTES_IDLE.max(least) {
                self.buffer = Vec::new();
            }
        }
        if self.buffer.len() - self.end < least {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            // Twice the present size, so that long messages are moved a few times only.
            let needed = (self.end + least).max(self.end.saturating_mul(2));
            if self.buffer.len() < self.end + least {
                self.buffer.resize(needed, 0);
            }
        }
        &mut self.buffer[self.end..]
    }

    /// Adds the first `bytes` of the slice from [`spare`](Self::spare); at most all of it.
    pub fn filled(&mut self, bytes: usize) {
        self.end = (self.end + bytes).min(self.buffer.len());
    }

    /// Adds bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.spare(bytes.len())[..bytes.len()].copy_from_slice(bytes);
        self.filled(bytes.len());
    }

    /// Bytes that have arrived and were not read.
    pub fn pending(&self) -> usize {
        self.end - self.start
    }

    /// The next event, if it is whole. A server with a greeting gets nothing more before it has answered.
    ///
    /// # Errors
    /// [`KdbError`]; the connection must be closed.
    pub fn next_event(&mut self) -> Result<Option<Event<'_>>, KdbError> {
        let pending = &self.buffer[self.start..self.end];
        match self.state {
            State::Greeting => Ok(Greeting::take(pending)?.map(|(greeting, len)| {
                self.start += len;
                self.state = State::Greeted;
                Event::Greeting(greeting)
            })),
            State::Greeted => Ok(None),
            State::Answer => Ok(pending.first().map(|capability| {
                self.start += 1;
                self.state = State::Open;
                Event::Accepted(*capability)
            })),
            State::Open => Ok(self.message()?.map(Event::Message)),
        }
    }

    fn message(&mut self) -> Result<Option<Message<'_>>, KdbError> {
        let pending = &self.buffer[self.start..self.end];
        let Some(header) = pending.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
        let Header { order, kind, is_compressed, len } = Header::parse(*header)?;
        let count_max = self.limits.message_bytes_max;
        if len > count_max {
            let what = "bytes of a message";
            return Err(KdbError::TooMuch { what, count: len as u64, count_max: count_max as u64 });
        }
        let Some(payload) = pending.get(HEADER_BYTES..len) else { return Ok(None) };
        self.start += len;
        let payload = if is_compressed {
            Cow::Owned(expanded(payload, order, self.limits.expanded_bytes_max)?)
        } else {
            Cow::Borrowed(payload)
        };
        Ok(Some(Message { kind, order, payload }))
    }
}

fn expanded(payload: &[u8], order: ByteOrder, bytes_max: usize) -> Result<Vec<u8>, KdbError> {
    let truncated = KdbError::Truncated { offset: HEADER_BYTES, need: 4, have: payload.len() };
    let (len, payload) = payload.split_first_chunk::<4>().ok_or(truncated)?;
    expand(payload, order.u32(*len) as usize, bytes_max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::message;
    use crate::{compress, greeting};
    use proptest::prelude::*;

    fn open() -> Session {
        let mut session = Session::server(Limits::default());
        session.push(b"\x03\0");
        assert!(matches!(session.next_event(), Ok(Some(Event::Greeting(_)))));
        assert_eq!(session.next_event(), Ok(None));
        assert_eq!(session.accept(6), [3]);
        session
    }

    proptest! {
        /// Messages are the same however their bytes are split.
        #[test]
        fn messages_come_out_however_they_arrive(
            texts in prop::collection::vec("[a-c]{0,3000}", 1..8),
            cuts in prop::collection::vec(1_usize..2000, 1..30),
        ) {
            let bytes: Vec<u8> = texts.iter().flat_map(|text| {
                let plain = message(Kind::Asynchronous, &Value::text(text)).unwrap();
                compress(&plain).unwrap_or(plain)
            }).collect();
            let (mut session, mut found, mut rest) = (open(), Vec::new(), &bytes[..]);
            for cut in cuts.iter().cycle() {
                let (piece, after) = rest.split_at((*cut).min(rest.len()));
                session.push(piece);
                while let Some(Event::Message(message)) = session.next_event().unwrap() {
                    found.push(message.value(&Limits::default()).unwrap());
                }
                rest = after;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(found, texts.iter().map(|text| Value::text(text)).collect::<Vec<_>>());
            prop_assert_eq!(session.pending(), 0);
        }
    }

    #[test]
    fn both_ends_greet_each_other() {
        let (mut client, mut server) =
            (Session::client(Limits::default()), Session::server(Limits::default()));
        for byte in greeting("me", "it is I").unwrap() {
            assert_eq!(server.next_event(), Ok(None));
            server.push(&[byte]);
        }
        let expected = Greeting { user: "me".into(), password: "it is I".into(), capability: 3 };
        assert_eq!(server.next_event(), Ok(Some(Event::Greeting(expected))));
        assert_eq!(client.next_event(), Ok(None));
        let answer = server.accept(3);
        client.push(&answer);
        assert_eq!(client.next_event(), Ok(Some(Event::Accepted(3))));
    }

    #[test]
    fn a_long_message_takes_memory_only_as_it_arrives() {
        let mut session = open();
        session.push(&[1, 0, 0, 0, 0, 0, 0, 5]);
        assert!(matches!(session.next_event(), Err(KdbError::TooMuch { .. })));
        let mut session = open();
        session.push(&[1, 0, 0, 0, 0, 0, 0, 4]);
        assert_eq!(session.next_event(), Ok(None));
        assert!(session.spare(1).len() < 100);
    }
}
