//! What can be said: each kind of frame, and what is in it.

use crate::error::WireError;
use crate::fields::{Put, Take, Taker, field_by_field};
use crate::frame::{begin_frame, end_frame};
use std::fmt;

/// The version of the protocol that this crate speaks.
pub const VERSION: u16 = 1;

/// The rest of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rest<'a>(pub &'a [u8]);

impl Put for Rest<'_> {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.0);
    }
}

impl<'a> Take<'a> for Rest<'a> {
    const BYTES_MIN: usize = 0;

    fn take(from: &mut Taker<'a>) -> Result<Self, WireError> {
        Ok(Self(from.rest()))
    }
}

/// Who a client says it is. Does not show its secret.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Login<'a> {
    /// Nobody in particular.
    Anyone,
    /// A user with a password.
    Password {
        /// The user's name.
        user: &'a str,
        /// The password as it was typed.
        password: &'a str,
    },
    /// Whoever has this token.
    Token(&'a str),
}

impl fmt::Debug for Login<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anyone => f.write_str("Anyone"),
            Self::Password { user, .. } => {
                f.debug_struct("Password").field("user", user).finish_non_exhaustive()
            }
            Self::Token(_) => f.write_str("Token(..)"),
        }
    }
}

impl Put for Login<'_> {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Anyone => 0_u8.put(out),
            Self::Password { user, password } => (1_u8, (*user, *password)).put(out),
            Self::Token(token) => (2_u8, *token).put(out),
        }
    }
}

impl<'a> Take<'a> for Login<'a> {
    const BYTES_MIN: usize = 1;

    fn take(from: &mut Taker<'a>) -> Result<Self, WireError> {
        match u8::take(from)? {
            0 => Ok(Self::Anyone),
            1 => Ok(Self::Password { user: Take::take(from)?, password: Take::take(from)? }),
            2 => Ok(Self::Token(Take::take(from)?)),
            _ => Err(from.invalid("an unknown way to log in")),
        }
    }
}

/// A command, what came of it, or why not: a code, and what goes with it. `docs/format/wire.md` has the tables of codes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Parts {
    /// Which.
    pub code: u16,
    /// Its texts, in the order of the table.
    pub texts: Vec<String>,
    /// Its numbers, in the order of the table.
    pub numbers: Vec<i64>,
}
field_by_field!(Parts { code: u16, texts: Vec<String>, numbers: Vec<i64> });

/// What a client knows of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// The stream's id: another stream of its name is not known.
    pub stream_id: u64,
    /// The run of it that is known: a stream in memory is another one each time it is opened.
    pub run: u64,
    /// Revision of its definition.
    pub revision: u64,
    /// How many symbols.
    pub symbols: u32,
    /// What it knows of each space.
    pub spaces: Vec<KnownSpace>,
}
field_by_field!(Known { stream_id: u64, run: u64, revision: u64, symbols: u32, spaces: Vec<KnownSpace> });

/// What a client knows of a space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownSpace {
    /// Generation of its catalog.
    pub generation: u64,
    /// Sequence number after the last message of its log.
    pub next_sequence: u64,
}
field_by_field!(KnownSpace { generation: u64, next_sequence: u64 });

/// What a stream is, as far as that was not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its id.
    pub stream_id: u64,
    /// The run of it: another one means that nothing that was known counts.
    pub run: u64,
    /// Names it in positions.
    pub position_id: u64,
    /// Revision of its definition.
    pub revision: u64,
    /// The text of its definition file; `None` when the revision that was known is the newest.
    pub definition: Option<&'a [u8]>,
    /// Id of the first of `symbols`.
    pub symbols_from: u32,
    /// Symbols in the order of their ids: not always all; who has asked asks again for the rest.
    pub symbols: Vec<&'a str>,
    /// How many symbols there are.
    pub symbols_total: u32,
    /// Its spaces.
    pub spaces: Vec<SpaceDescription<'a>>,
}
field_by_field!(Description<'a> {
    name: &'a str,
    stream_id: u64,
    run: u64,
    position_id: u64,
    revision: u64,
    definition: Option<&'a [u8]>,
    symbols_from: u32,
    symbols: Vec<&'a str>,
    symbols_total: u32,
    spaces: Vec<SpaceDescription<'a>>,
});

/// What a space is, as far as that was not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpaceDescription<'a> {
    /// Generation of its catalog.
    pub generation: u64,
    /// The text of its manifest; `None` when the generation that was known is the newest.
    pub manifest: Option<&'a [u8]>,
    /// Sequence number with which its log begins.
    pub first_sequence: u64,
    /// Sequence number after its last message.
    pub next_sequence: u64,
    /// Granules of its log, in order: those with messages from the sequence number on that was known.
    pub granules: Vec<Granule>,
    /// Its log files, by the sequence numbers in their names: those with messages from that number on, and the last.
    pub files: Vec<u64>,
}
field_by_field!(SpaceDescription<'a> {
    generation: u64,
    manifest: Option<&'a [u8]>,
    first_sequence: u64,
    next_sequence: u64,
    granules: Vec<Granule>,
    files: Vec<u64>,
});

/// A part of a log, as `docs/format/log.md` defines it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Granule {
    /// The log file: the sequence number in its name.
    pub file: u64,
    /// Where it begins in the file.
    pub offset: u64,
    /// Bytes.
    pub len: u32,
    /// Sequence number of its first message.
    pub first_sequence: u64,
    /// Messages.
    pub count: u64,
    /// Earliest time, in nanoseconds since the Unix epoch.
    pub time_min: i64,
    /// Latest time, in nanoseconds since the Unix epoch.
    pub time_max: i64,
    /// Whether times never decrease in order of arrival.
    pub sorted: bool,
}
field_by_field!(Granule {
    file: u64,
    offset: u64,
    len: u32,
    first_sequence: u64,
    count: u64,
    time_min: i64,
    time_max: i64,
    sorted: bool,
});

/// Messages with their kinds and fields, encoded and parsed alike.
macro_rules! messages {
    (
        $(#[$doc:meta])*
        $name:ident<$life:lifetime> {
            $( $(#[$about:meta])* $message:ident = $kind:literal { $( $(#[$what:meta])* $field:ident: $type:ty ),* $(,)? } )*
        }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum $name<$life> {
            $( $(#[$about])* $message { $( $(#[$what])* $field: $type ),* }, )*
        }

        impl<$life> $name<$life> {
            /// The kind of its frame.
            pub fn kind(&self) -> u8 {
                match self {
                    $( Self::$message { .. } => $kind, )*
                }
            }

            /// Adds the message, as a whole frame on a channel, to `out`.
            pub fn encode(&self, channel: u32, out: &mut Vec<u8>) {
                let begin = begin_frame(self.kind(), channel, out);
                match self {
                    $( Self::$message { $($field),* } => { $( $field.put(out); )* } )*
                }
                end_frame(begin, out);
            }

            /// The message in the payload of a frame of that kind. It points into the payload.
            ///
            /// # Errors
            /// [`WireError`] for a kind that this side does not know, and for a payload that no other side would write.
            pub fn parse(kind: u8, payload: &$life [u8]) -> Result<Self, WireError> {
                let mut from = Taker::new(kind, payload);
                let message = match kind {
                    $( $kind => Self::$message { $( $field: <$type as Take<$life>>::take(&mut from)? ),* }, )*
                    _ => return Err(WireError::UnknownKind(kind)),
                };
                from.end()?;
                Ok(message)
            }

            /// Its fields, one after the other, for the page that shows them.
            #[cfg(test)]
            pub(crate) fn dissected(&self) -> Vec<crate::dissect::Part> {
                let mut out = Vec::new();
                match self {
                    $( Self::$message { $($field),* } => {
                        $( crate::dissect::Dissect::dissect($field, stringify!($field), &mut out); )*
                    } )*
                }
                out
            }
        }
    };
}

messages! {
    /// What a client says to a server.
    ToServer<'a> {
        /// The first of all, on channel 0.
        Hello = 1 {
            /// The oldest version of the protocol that the client speaks.
            version_min: u16,
            /// The newest.
            version_max: u16,
            /// The program, for logs: its name and version.
            program: &'a str,
            /// Who wants in.
            login: Login<'a>,
        }
        /// Asks for the names of the streams. Answer: [`ToClient::StreamNames`].
        Streams = 2 {}
        /// Asks what a stream is. Answer: [`ToClient::Described`].
        Describe = 3 {
            /// Its name.
            name: &'a str,
            /// What is known of it already.
            known: Option<Known>,
        }
        /// Opens a file of a stream for reading. Answer: [`ToClient::Opened`].
        OpenFile = 4 {
            /// The stream.
            stream_id: u64,
            /// Its name within the stream's directory: of a segment, a log file or a schema.
            name: &'a str,
        }
        /// Reads from an open file. Answer: [`ToClient::Bytes`].
        ReadFile = 5 {
            /// The file, as [`ToClient::Opened`] called it.
            file: u32,
            /// First byte.
            offset: u64,
            /// Bytes; where the file ends before, fewer come.
            len: u32,
        }
        /// Asks for the length of an open file. Answer: [`ToClient::FileLenIs`].
        FileLen = 6 {
            /// The file.
            file: u32,
        }
        /// Closes a file, on channel 0. No answer.
        CloseFile = 7 {
            /// The file.
            file: u32,
        }
        /// Asks for the ids of symbols, which are added where they are new. Answer: [`ToClient::SymbolIds`].
        AddSymbols = 8 {
            /// The stream.
            stream_id: u64,
            /// Their names.
            names: Vec<&'a str>,
        }
        /// Something to be done. Answer: [`ToClient::Done`].
        Command = 9 {
            /// What.
            command: Parts,
        }
        /// Begins to follow a stream: the channel stays. Answer: [`ToClient::Watching`], then pushes.
        Watch = 10 {
            /// The stream.
            stream_id: u64,
            /// Bytes of batches that may be pushed, to begin with.
            credit: u64,
            /// The watch is ended when it is so many bytes behind; 0: never.
            lag_max: u64,
            /// Sequence number of the first message wanted, for each space.
            from: Vec<u64>,
        }
        /// Lets more be pushed on a watch.
        Credit = 11 {
            /// Bytes of batches.
            bytes: u64,
        }
        /// Begins to load into a space: the channel stays. Answer: [`ToClient::Loading`].
        Load = 12 {
            /// The stream.
            stream_id: u64,
            /// The space.
            space: u32,
            /// The producer, as in the headers of its batches; 0: batches have no numbers.
            producer: u64,
        }
        /// A batch, on a load's channel. Answer, in the order of batches: [`ToClient::Appended`], which may answer several,
        /// or [`ToClient::AppendFailed`]. [`split_append`] parses it so that the batch can be changed in place.
        Append = 13 {
            /// Its number: one more than that of the batch before.
            number: u64,
            /// The batch.
            batch: Rest<'a>,
        }
        /// Ends a watch or a load. Nothing more comes on the channel after [`ToClient::Closed`].
        Close = 14 {}
        /// Asks for the answers to the batches that were sent on a load's channel: they then wait for no others.
        Flush = 15 {}
        /// A batch of the messages that take the place of others, of a rewrite that a command has begun. Answer:
        /// [`ToClient::Done`], with the number of the last batch that is there.
        Stage = 16 {
            /// The rewrite, as the command called it.
            rewrite: u64,
            /// Its number, from 1: one more than that of the batch before. One that is there already is not taken again.
            number: u64,
            /// The batch.
            batch: Rest<'a>,
        }
        /// Asks for a sign of life, on channel 0.
        Ping = 128 {
            /// Comes back.
            number: u64,
        }
        /// Answers a ping, on channel 0.
        Pong = 129 {
            /// The ping's.
            number: u64,
        }
        /// The client is about to close the connection, on channel 0.
        Goodbye = 130 {
            /// Why.
            reason: &'a str,
        }
    }
}

messages! {
    /// What a server says to a client.
    ToClient<'a> {
        /// Lets the client in, on channel 0.
        Welcome = 64 {
            /// The version of the protocol that both speak from now on.
            version: u16,
            /// The server: its name and version.
            server: &'a str,
            /// Random at each start of the server: files and watches of another epoch are gone.
            epoch: u64,
            /// Who the client is for the server.
            user: &'a str,
            /// Each side says something at least so often, in milliseconds; three times as long a silence ends the
            /// connection.
            heartbeat_ms: u32,
            /// Most files a connection may have open.
            files_max: u32,
            /// Most channels a connection may have.
            channels_max: u32,
        }
        /// Does not let the client in, on channel 0; the connection is closed.
        Refused = 65 {
            /// Why.
            failure: Parts,
        }
        /// The streams that the user may see.
        StreamNames = 66 {
            /// Their names, sorted.
            names: Vec<&'a str>,
        }
        /// What a stream is.
        Described = 67 {
            /// Beyond what was known.
            description: Description<'a>,
        }
        /// A file is open.
        Opened = 68 {
            /// What it is called on this connection.
            file: u32,
            /// Its bytes, now.
            len: u64,
            /// Tells it from another file of its name.
            identity: (u64, u64),
        }
        /// Bytes of a file.
        Bytes = 69 {
            /// As many as were asked for, or as there are.
            bytes: Rest<'a>,
        }
        /// Length of a file.
        FileLenIs = 70 {
            /// Bytes.
            len: u64,
        }
        /// Ids of symbols.
        SymbolIds = 71 {
            /// In the order in which their names were given.
            ids: Vec<u32>,
        }
        /// A command has been carried out.
        Done = 72 {
            /// What came of it.
            outcome: Parts,
        }
        /// What was asked for failed; of a watch or load also later on, which ends it.
        Failed = 73 {
            /// Why.
            failure: Parts,
        }
        /// The stream is being followed.
        Watching = 74 {
            /// Sequence number of the first message that will be pushed, for each space: the one that was asked for, or a later
            /// one where older messages are in segments by now.
            from: Vec<u64>,
        }
        /// Batches, as they lie in the log. Costs as much credit as they have bytes.
        Grown = 75 {
            /// The space.
            space: u32,
            /// The log file: the sequence number in its name.
            file: u64,
            /// Where they begin in it.
            offset: u64,
            /// Sequence number of the first message.
            first_sequence: u64,
            /// Whole batches.
            batches: Rest<'a>,
        }
        /// New symbols, before the batches that use them.
        Symbols = 76 {
            /// Id of the first.
            from: u32,
            /// In the order of their ids.
            names: Vec<&'a str>,
        }
        /// Something of the stream that a description tells has changed: its options, its schema, its segments.
        Changed = 77 {}
        /// The stream has been deleted or renamed. The watch has ended.
        Gone = 78 {
            /// Its new name, if it has one.
            renamed: Option<&'a str>,
        }
        /// Batches can be sent.
        Loading = 79 {
            /// Number of the producer's last batch that is stored; 0: none is.
            last_number: u64,
        }
        /// A batch is as durable as the stream promises, and so are those before it, which this answers too.
        Appended = 80 {
            /// The batch's.
            number: u64,
            /// Sequence number of its first message.
            first_sequence: u64,
            /// Sequence number after its last message.
            next_sequence: u64,
        }
        /// A batch is not stored, nor are those after it: the load goes on with this number.
        AppendFailed = 81 {
            /// The batch's.
            number: u64,
            /// Why.
            failure: Parts,
        }
        /// A watch or load has ended as was asked.
        Closed = 82 {}
        /// A watch goes on with a later message: what lies between is in segments by now, or dropped.
        Skipped = 83 {
            /// The space.
            space: u32,
            /// Sequence number of the message that is pushed next.
            next_sequence: u64,
        }
        /// Asks for a sign of life, on channel 0.
        Ping = 128 {
            /// Comes back.
            number: u64,
        }
        /// Answers a ping, on channel 0.
        Pong = 129 {
            /// The ping's.
            number: u64,
        }
        /// The server is about to close the connection, on channel 0.
        Goodbye = 130 {
            /// Why.
            failure: Parts,
        }
    }
}

/// The number and the batch in the payload of an [`Append`](ToServer::Append), to be changed in place.
///
/// # Errors
/// [`WireError::Truncated`].
pub fn split_append(payload: &mut [u8]) -> Result<(u64, &mut [u8]), WireError> {
    let have = payload.len();
    match payload.split_first_chunk_mut::<8>() {
        Some((number, batch)) => Ok((u64::from_le_bytes(*number), batch)),
        None => Err(WireError::Truncated { kind: 13, offset: 0, need: 8, have }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::FRAME_HEADER_BYTES;
    use proptest::prelude::*;

    fn parts() -> Parts {
        Parts { code: 7, texts: vec!["a".into(), String::new()], numbers: vec![-1, i64::MAX] }
    }

    fn granule() -> Granule {
        Granule {
            file: 1,
            offset: 64,
            len: 3,
            first_sequence: 4,
            count: 5,
            time_min: -6,
            time_max: 7,
            sorted: true,
        }
    }

    #[test]
    fn what_is_said_is_heard() {
        let space = KnownSpace { generation: 3, next_sequence: 4 };
        let known = Known { stream_id: 1, run: 7, revision: 2, symbols: 5, spaces: vec![space] };
        let said = [
            ToServer::Hello {
                version_min: 1,
                version_max: 2,
                program: "p",
                login: Login::Password { user: "u", password: "s" },
            },
            ToServer::Describe { name: "bars", known: Some(known) },
            ToServer::AddSymbols { stream_id: 1, names: vec!["AIG", "é"] },
            ToServer::Command { command: parts() },
            ToServer::Watch { stream_id: 1, credit: 2, lag_max: 0, from: vec![1, 2] },
            ToServer::Append { number: 9, batch: Rest(b"batch") },
            ToServer::Close {},
            ToServer::Flush {},
            ToServer::Stage { rewrite: u64::MAX, number: 2, batch: Rest(b"batch") },
        ];
        for message in said {
            let mut out = Vec::new();
            message.encode(3, &mut out);
            assert_eq!(ToServer::parse(message.kind(), &out[FRAME_HEADER_BYTES..]), Ok(message));
        }
        let space = SpaceDescription {
            generation: 4,
            manifest: Some(b"text"),
            first_sequence: 1,
            next_sequence: 2,
            granules: vec![granule()],
            files: vec![0, 1],
        };
        let description = Description {
            name: "bars",
            stream_id: 1,
            run: 1,
            position_id: 2,
            revision: 3,
            definition: None,
            symbols_from: 1,
            symbols: vec!["x"],
            symbols_total: 9,
            spaces: vec![space],
        };
        for message in [ToClient::Described { description }, ToClient::Gone { renamed: Some("new") }] {
            let mut out = Vec::new();
            message.encode(3, &mut out);
            assert_eq!(ToClient::parse(message.kind(), &out[FRAME_HEADER_BYTES..]), Ok(message));
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let shown = format!(
            "{:?} {:?}",
            Login::Password { user: "ann", password: "hunter2" },
            Login::Token("hunter2")
        );
        assert!(shown.contains("ann") && !shown.contains("hunter2"), "{shown}");
    }

    #[test]
    fn a_batch_can_be_changed_in_place() {
        let mut out = Vec::new();
        ToServer::Append { number: 9, batch: Rest(b"abc") }.encode(1, &mut out);
        let (number, batch) = split_append(&mut out[FRAME_HEADER_BYTES..]).unwrap();
        assert_eq!((number, &*batch), (9, &b"abc"[..]));
        batch[0] = b'x';
        assert!(out.ends_with(b"xbc"));
        assert!(split_append(&mut [1, 2]).is_err());
    }

    #[test]
    fn what_is_left_over_is_refused() {
        let error = ToServer::parse(2, &[1]).unwrap_err();
        assert!(matches!(error, WireError::Invalid { kind: 2, offset: 0, .. }), "{error}");
        assert_eq!(ToServer::parse(99, &[]), Err(WireError::UnknownKind(99)));
    }

    proptest! {
        /// Whatever is understood has one way to be written.
        #[test]
        fn what_is_heard_can_be_said(kind in any::<u8>(), payload in prop::collection::vec(0_u8..4, 0..80)) {
            let frame = |out: &[u8]| out[FRAME_HEADER_BYTES..].to_vec();
            if let Ok(message) = ToServer::parse(kind, &payload) {
                let mut out = Vec::new();
                message.encode(0, &mut out);
                prop_assert_eq!(frame(&out), payload.clone());
            }
            if let Ok(message) = ToClient::parse(kind, &payload) {
                let mut out = Vec::new();
                message.encode(0, &mut out);
                prop_assert_eq!(frame(&out), payload);
            }
        }
    }
}
