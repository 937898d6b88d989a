//! The messages of the protocol: one for each kind of frame, with its fields.

use crate::error::WireError;
use crate::fields::{FieldReader, Put, Take, field_by_field};
use crate::frame::{begin_frame, end_frame};
use std::fmt;

/// The newest version of the protocol that this crate speaks; it speaks all from [`VERSION_MIN`] on.
pub const VERSION: u16 = 2;
/// The oldest version of the protocol that this crate speaks.
pub const VERSION_MIN: u16 = 1;
/// The version from which on a watch may be of some messages ([`ToServer::WatchSome`]).
pub const VERSION_WATCH_SOME: u16 = 2;
/// Clients of this version on accept changes of a manifest ([`SpaceDescription::manifest`]).
pub const VERSION_CHANGES: u16 = 2;

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

    fn take(from: &mut FieldReader<'a>) -> Result<Self, WireError> {
        Ok(Self(from.rest()))
    }
}

/// A client's credentials. `Debug` does not show the secret.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Login<'a> {
    /// No credentials.
    Anonymous,
    /// A user with a password.
    Password {
        /// The user's name.
        user: &'a str,
        /// The password in plain text.
        password: &'a str,
    },
    /// An access token.
    Token(&'a str),
}

impl fmt::Debug for Login<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anonymous => f.write_str("Anonymous"),
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
            Self::Anonymous => 0_u8.put(out),
            Self::Password { user, password } => (1_u8, (*user, *password)).put(out),
            Self::Token(token) => (2_u8, *token).put(out),
        }
    }
}

impl<'a> Take<'a> for Login<'a> {
    const BYTES_MIN: usize = 1;

    fn take(from: &mut FieldReader<'a>) -> Result<Self, WireError> {
        match u8::take(from)? {
            0 => Ok(Self::Anonymous),
            1 => Ok(Self::Password { user: Take::take(from)?, password: Take::take(from)? }),
            2 => Ok(Self::Token(Take::take(from)?)),
            _ => Err(from.invalid("an unknown kind of login")),
        }
    }
}

/// A command, its outcome or an error: a code, with texts and numbers. `docs/format/wire.md` has the tables of codes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Coded {
    /// The code.
    pub code: u16,
    /// Texts, in the order of the table.
    pub texts: Vec<String>,
    /// Numbers, in the order of the table.
    pub numbers: Vec<i64>,
}
field_by_field!(Coded { code: u16, texts: Vec<String>, numbers: Vec<i64> });

/// What a client has cached of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedStream {
    /// The stream's id: another stream of the same name has another one.
    pub stream_id: u64,
    /// The run that is cached: a stream in memory gets a new run each time it is opened.
    pub run: u64,
    /// Revision of its definition.
    pub revision: u64,
    /// Number of symbols.
    pub symbols: u32,
    /// What is cached of each space.
    pub spaces: Vec<CachedSpace>,
}
field_by_field!(CachedStream { stream_id: u64, run: u64, revision: u64, symbols: u32, spaces: Vec<CachedSpace> });

/// What a client has cached of a space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedSpace {
    /// Generation of its catalog.
    pub generation: u64,
    /// Sequence number after the last message of its log.
    pub next_sequence: u64,
}
field_by_field!(CachedSpace { generation: u64, next_sequence: u64 });

/// The description of a stream, without what the client has cached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its id.
    pub stream_id: u64,
    /// The run: if it differs from the cached one, nothing that is cached is valid.
    pub run: u64,
    /// Identifies the stream in positions.
    pub position_id: u64,
    /// Revision of its definition.
    pub revision: u64,
    /// The text of its definition file; `None` when the cached revision is current.
    pub definition: Option<&'a [u8]>,
    /// Id of the first of `symbols`.
    pub symbols_from: u32,
    /// Symbols in the order of their ids. The list may be incomplete; the client requests the rest.
    pub symbols: Vec<&'a str>,
    /// Number of symbols in the stream.
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

/// The description of a space, without what the client has cached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpaceDescription<'a> {
    /// Generation of its catalog.
    pub generation: u64,
    /// The text of its manifest; `None` when the cached generation is current.
    pub manifest: Option<&'a [u8]>,
    /// Sequence number of the first message in its log.
    pub first_sequence: u64,
    /// Sequence number after its last message.
    pub next_sequence: u64,
    /// Granules of its log, in order: those with messages at or after the cached sequence number.
    pub granules: Vec<Granule>,
    /// Its log files, by the sequence numbers in their names: those with messages at or after that number, and the
    /// last.
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

/// A range of a log file, as `docs/format/log.md` defines it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Granule {
    /// The log file: the sequence number in its name.
    pub file: u64,
    /// Offset in the file.
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

/// Defines messages with their kinds and fields, and generates encoder and parser from one list.
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
            /// [`WireError`] for an unknown kind, and for a payload that no encoder writes.
            pub fn parse(kind: u8, payload: &$life [u8]) -> Result<Self, WireError> {
                let mut from = FieldReader::new(kind, payload);
                let message = match kind {
                    $( $kind => Self::$message { $( $field: <$type as Take<$life>>::take(&mut from)? ),* }, )*
                    _ => return Err(WireError::UnknownKind(kind)),
                };
                from.end()?;
                Ok(message)
            }

            /// Its fields, one after the other, for the page.
            #[cfg(test)]
            pub(crate) fn dissected(&self) -> Vec<crate::dissect::FieldBytes> {
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
    /// Messages from client to server.
    ToServer<'a> {
        /// The first message, on channel 0.
        Hello = 1 {
            /// The oldest version of the protocol that the client speaks.
            version_min: u16,
            /// The newest.
            version_max: u16,
            /// The program, for logs: its name and version.
            program: &'a str,
            /// Credentials.
            login: Login<'a>,
        }
        /// Requests the names of the streams. Answer: [`ToClient::StreamNames`].
        Streams = 2 {}
        /// Requests the description of a stream. Answer: [`ToClient::Described`].
        Describe = 3 {
            /// Its name.
            name: &'a str,
            /// What the client has cached.
            known: Option<CachedStream>,
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
            /// The file's number in [`ToClient::Opened`].
            file: u32,
            /// First byte.
            offset: u64,
            /// Bytes; fewer are returned where the file ends.
            len: u32,
        }
        /// Requests the length of an open file. Answer: [`ToClient::FileLenIs`].
        FileLen = 6 {
            /// The file.
            file: u32,
        }
        /// Closes a file, on channel 0. No answer.
        CloseFile = 7 {
            /// The file.
            file: u32,
        }
        /// Requests the ids of symbols; new symbols are added. Answer: [`ToClient::SymbolIds`].
        AddSymbols = 8 {
            /// The stream.
            stream_id: u64,
            /// Their names.
            names: Vec<&'a str>,
        }
        /// Executes a command. Answer: [`ToClient::Done`].
        Command = 9 {
            /// The command.
            command: Coded,
        }
        /// Subscribes to a stream's appends: the channel stays open. Answer: [`ToClient::Watching`], then pushes.
        Watch = 10 {
            /// The stream.
            stream_id: u64,
            /// Initial credit: bytes of batches that may be pushed.
            credit: u64,
            /// The server ends the watch when it is more than this many bytes behind; 0: never.
            lag_max: u64,
            /// Sequence number of the first message wanted, for each space.
            from: Vec<u64>,
        }
        /// Grants more credit to a watch or a query.
        Credit = 11 {
            /// Bytes of batches, or of rows.
            bytes: u64,
        }
        /// Begins to load into a space: the channel stays open. Answer: [`ToClient::Loading`].
        Load = 12 {
            /// The stream.
            stream_id: u64,
            /// The space.
            space: u32,
            /// The producer, as in the headers of its batches; 0: batches are not numbered.
            producer: u64,
        }
        /// A batch, on a load's channel. Answer, in the order of batches: [`ToClient::Appended`], which may answer
        /// several, or [`ToClient::AppendFailed`]. [`split_append`] parses it so that the batch can be changed in
        /// place.
        Append = 13 {
            /// Its number: one more than that of the previous batch.
            number: u64,
            /// The batch.
            batch: Rest<'a>,
        }
        /// Ends a watch, a load or a query. Nothing follows on the channel after [`ToClient::Closed`].
        Close = 14 {}
        /// Requests the answers to all batches sent on a load's channel: the server then delays none of them.
        Flush = 15 {}
        /// A batch of replacement messages, of a rewrite that a command has begun. Answer: [`ToClient::Done`], with the
        /// number of the last batch that is stored.
        Stage = 16 {
            /// The rewrite's number in the command.
            rewrite: u64,
            /// The batch's number, from 1: one more than that of the previous batch. A batch that is stored already is
            /// not stored again.
            number: u64,
            /// The batch.
            batch: Rest<'a>,
        }
        /// Runs a query where the data is: the channel stays open. Answer: [`ToClient::Rows`], any number of times, then
        /// [`ToClient::RowsEnded`].
        Query = 17 {
            /// Initial credit: bytes of rows that may be sent.
            credit: u64,
            /// The query ends with an error after so many milliseconds; 0: at the server's limit.
            ms_max: u64,
            /// The query ends with an error when it has more rows; 0: at the server's limit.
            rows_max: u64,
            /// What becomes of values of `decimal64`.
            decimals: &'a str,
            /// The query.
            text: &'a str,
            /// Values of its parameters: an Arrow IPC stream with one row; empty: it has none.
            parameters: Rest<'a>,
        }
        /// [`ToServer::Watch`] of some of the messages: those of other symbols and record types are left out. From version 2 on.
        WatchSome = 18 {
            /// The stream.
            stream_id: u64,
            /// Initial credit: bytes of rows that may be pushed.
            credit: u64,
            /// The server ends the watch when it is more than this many bytes behind; 0: never.
            lag_max: u64,
            /// Sequence number of the first message wanted, for each space.
            from: Vec<u64>,
            /// Names of the symbols whose messages are wanted; `None`: of all.
            symbols: Option<Vec<&'a str>>,
            /// The version of the schema that `types` are of. Of other versions all record types are pushed.
            schema_version: u16,
            /// Record types that are wanted, by their numbers; `None`: all.
            types: Option<Vec<u16>>,
        }
        /// Asks for a pong, on channel 0.
        Ping = 128 {
            /// Returned in the pong.
            number: u64,
        }
        /// Answers a ping, on channel 0.
        Pong = 129 {
            /// The ping's number.
            number: u64,
        }
        /// The client is about to close the connection, on channel 0.
        Goodbye = 130 {
            /// The reason.
            reason: &'a str,
        }
    }
}

messages! {
    /// Messages from server to client.
    ToClient<'a> {
        /// Accepts the client, on channel 0.
        Welcome = 64 {
            /// The version of the protocol for this connection.
            version: u16,
            /// The server: its name and version.
            server: &'a str,
            /// Random at each start of the server: files and watches of another epoch do not exist any more.
            epoch: u64,
            /// The user's name on the server.
            user: &'a str,
            /// Each side sends something at least once in this time, in milliseconds; a connection that is silent for
            /// three times as long is closed.
            heartbeat_ms: u32,
            /// The most files that a connection may have open.
            files_max: u32,
            /// The most channels that a connection may have.
            channels_max: u32,
        }
        /// Refuses the client, on channel 0; the connection is closed.
        Refused = 65 {
            /// The reason.
            failure: Coded,
        }
        /// The streams that the user may see.
        StreamNames = 66 {
            /// Their names, sorted.
            names: Vec<&'a str>,
        }
        /// The description of a stream.
        Described = 67 {
            /// Without what the client has cached.
            description: Description<'a>,
        }
        /// A file is open.
        Opened = 68 {
            /// Its number on this connection.
            file: u32,
            /// Its length, in bytes.
            len: u64,
            /// Identifies the file: another file of the same name has another one.
            identity: (u64, u64),
        }
        /// Bytes of a file.
        Bytes = 69 {
            /// As many as were requested, or as there are.
            bytes: Rest<'a>,
        }
        /// Length of a file.
        FileLenIs = 70 {
            /// Bytes.
            len: u64,
        }
        /// Ids of symbols.
        SymbolIds = 71 {
            /// In the order of the names.
            ids: Vec<u32>,
        }
        /// A command was executed.
        Done = 72 {
            /// Its outcome.
            outcome: Coded,
        }
        /// A request failed; for a watch, load or query also later, which ends it.
        Failed = 73 {
            /// The reason.
            failure: Coded,
        }
        /// The watch has begun.
        Watching = 74 {
            /// Sequence number of the first message that will be pushed, for each space: the requested one, or a later
            /// one if older messages have been sealed into segments.
            from: Vec<u64>,
        }
        /// Batches, as stored in the log. They cost as much credit as they have bytes.
        Grown = 75 {
            /// The space.
            space: u32,
            /// The log file: the sequence number in its name.
            file: u64,
            /// Their offset in the file.
            offset: u64,
            /// Sequence number of the first message.
            first_sequence: u64,
            /// Complete batches.
            batches: Rest<'a>,
        }
        /// New symbols, before the batches that use them.
        Symbols = 76 {
            /// Id of the first.
            from: u32,
            /// In the order of their ids.
            names: Vec<&'a str>,
        }
        /// The description of the stream has changed: its options, its schema or its segments.
        Changed = 77 {}
        /// The stream has been deleted or renamed. The watch has ended.
        Gone = 78 {
            /// Its new name, if it has one.
            renamed: Option<&'a str>,
        }
        /// The load has begun: batches can be sent.
        Loading = 79 {
            /// Number of the producer's last stored batch; 0: none is stored.
            last_number: u64,
        }
        /// A batch, and all batches before it, are as durable as the stream promises.
        Appended = 80 {
            /// The batch's number.
            number: u64,
            /// Sequence number of its first message.
            first_sequence: u64,
            /// Sequence number after its last message.
            next_sequence: u64,
        }
        /// A batch was not stored, and neither are later ones: the load continues with this number.
        AppendFailed = 81 {
            /// The batch's number.
            number: u64,
            /// The reason.
            failure: Coded,
        }
        /// A watch, load or query was closed as requested.
        Closed = 82 {}
        /// A watch continues with a later message: the messages between are in segments, or dropped.
        Skipped = 83 {
            /// The space.
            space: u32,
            /// Sequence number of the next message to be pushed.
            next_sequence: u64,
        }
        /// Rows of a query: the next bytes of an Arrow IPC stream, wherever they are cut. They cost as much credit as they have bytes.
        Rows = 84 {
            /// The bytes.
            bytes: Rest<'a>,
        }
        /// The query has no more rows. The channel is closed.
        RowsEnded = 85 {}
        /// Rows that a watch of some messages wants, of those from one sequence number to another. They cost as much credit as
        /// they have bytes.
        Picked = 86 {
            /// The space.
            space: u32,
            /// Sequence number of the first message that may be among them: where the last push of the space has ended.
            first_sequence: u64,
            /// Sequence number after the last such message.
            next_sequence: u64,
            /// Batches of rows, each followed by the sequence numbers of its rows.
            rows: Rest<'a>,
        }
        /// Asks for a pong, on channel 0.
        Ping = 128 {
            /// Returned in the pong.
            number: u64,
        }
        /// Answers a ping, on channel 0.
        Pong = 129 {
            /// The ping's number.
            number: u64,
        }
        /// The server is about to close the connection, on channel 0.
        Goodbye = 130 {
            /// The reason.
            failure: Coded,
        }
    }
}

/// The number and the batch in the payload of an [`Append`](ToServer::Append); the batch can be changed in place.
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

    fn parts() -> Coded {
        Coded { code: 7, texts: vec!["a".into(), String::new()], numbers: vec![-1, i64::MAX] }
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
    fn messages_round_trip() {
        let space = CachedSpace { generation: 3, next_sequence: 4 };
        let known = CachedStream { stream_id: 1, run: 7, revision: 2, symbols: 5, spaces: vec![space] };
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
            ToServer::WatchSome {
                stream_id: 1,
                credit: 2,
                lag_max: 0,
                from: vec![1],
                symbols: Some(vec!["AIG"]),
                schema_version: 3,
                types: Some(vec![1, 4]),
            },
            ToServer::Append { number: 9, batch: Rest(b"batch") },
            ToServer::Close {},
            ToServer::Flush {},
            ToServer::Stage { rewrite: u64::MAX, number: 2, batch: Rest(b"batch") },
            ToServer::Query {
                credit: 9,
                ms_max: 0,
                rows_max: 7,
                decimals: "18,4",
                text: "SELECT 1",
                parameters: Rest(b"arrow"),
            },
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
        for message in [
            ToClient::Described { description },
            ToClient::Gone { renamed: Some("new") },
            ToClient::Rows { bytes: Rest(b"arrow") },
            ToClient::RowsEnded {},
            ToClient::Picked { space: 1, first_sequence: 2, next_sequence: 9, rows: Rest(b"rows") },
        ] {
            let mut out = Vec::new();
            message.encode(3, &mut out);
            assert_eq!(ToClient::parse(message.kind(), &out[FRAME_HEADER_BYTES..]), Ok(message));
        }
    }

    #[test]
    fn debug_output_hides_secrets() {
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
    fn bytes_after_the_last_field_are_refused() {
        let error = ToServer::parse(2, &[1]).unwrap_err();
        assert!(matches!(error, WireError::Invalid { kind: 2, offset: 0, .. }), "{error}");
        assert_eq!(ToServer::parse(99, &[]), Err(WireError::UnknownKind(99)));
    }

    proptest! {
        /// Every payload that is parsed is encoded to the same bytes.
        #[test]
        fn every_payload_has_one_encoding(kind in any::<u8>(), payload in prop::collection::vec(0_u8..4, 0..80)) {
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
