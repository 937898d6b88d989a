//! The client's state machine of a connection: which server messages are allowed when.

use crate::error::WireError;
use crate::frame::{Frame, PREFACE};
use crate::message::{Login, ToClient, ToServer, VERSION, VERSION_MIN, VERSION_WATCH_SOME};
use std::collections::HashMap;

/// Tracks open requests, and refuses messages that do not answer them.
///
/// Always true: each number in `channels` belongs to a request, watch, load or query that was sent to the server and is neither
/// answered nor closed.
#[derive(Debug, Default)]
pub struct ClientSession {
    /// The version of the protocol, once the server has accepted the client.
    version: Option<u16>,
    last_channel: u32,
    channels: HashMap<u32, Expected>,
}

/// What the server may send on a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    /// One answer of this kind.
    Answer(u8),
    /// Pushes of a watch; `begun` after `Watching`.
    Watch { begun: bool },
    /// Answers of a load; `begun` after `Loading`.
    Load { begun: bool },
    /// Rows of a query, and their end.
    Query,
}

impl ClientSession {
    /// The state of a new connection.
    pub fn new() -> Self {
        Self::default()
    }

    /// Encodes the first bytes of a connection: the preface and a hello.
    pub fn hello(program: &str, login: Login<'_>, out: &mut Vec<u8>) {
        out.extend_from_slice(&PREFACE);
        ToServer::Hello { version_min: VERSION_MIN, version_max: VERSION, program, login }.encode(0, out);
    }

    /// Encodes a request, or the begin of a watch or load, to `out`, and returns the channel of its answer. Messages for an
    /// open channel, or for channel 0, are encoded without a session.
    pub fn ask(&mut self, message: &ToServer<'_>, out: &mut Vec<u8>) -> u32 {
        let channel = self.free_channel();
        if let Some(asked) = Expected::by(message) {
            self.channels.insert(channel, asked);
        }
        message.encode(channel, out);
        channel
    }

    /// Checks and parses a frame; returns its channel and its message.
    ///
    /// # Errors
    /// [`WireError`], after which the connection must end.
    pub fn receive<'a>(&mut self, frame: Frame<'a>) -> Result<(u32, ToClient<'a>), WireError> {
        let Frame { kind, channel, payload } = frame;
        let message = ToClient::parse(kind, payload)?;
        match self.fits(channel, &message) {
            Ok(()) => Ok((channel, message)),
            Err(why) => Err(WireError::Unexpected { kind, channel, why }),
        }
    }

    /// Whether the server accepts watches of some messages ([`ToServer::WatchSome`]).
    pub fn watches_some(&self) -> bool {
        self.version.is_some_and(|version| version >= VERSION_WATCH_SOME)
    }

    /// Whether more messages are expected on a channel.
    pub fn is_open(&self, channel: u32) -> bool {
        self.channels.contains_key(&channel)
    }

    /// Number of open channels.
    pub fn channels(&self) -> usize {
        self.channels.len()
    }

    fn free_channel(&mut self) -> u32 {
        loop {
            self.last_channel = self.last_channel.wrapping_add(1).max(1);
            if !self.channels.contains_key(&self.last_channel) {
                return self.last_channel;
            }
        }
    }

    fn fits(&mut self, channel: u32, message: &ToClient<'_>) -> Result<(), &'static str> {
        if channel == 0 {
            return self.fits_connection(message);
        }
        if self.version.is_none() {
            return Err("a welcome must come first");
        }
        let Some(asked) = self.channels.get_mut(&channel) else {
            return Err("the channel is not open");
        };
        match (*asked, message) {
            (_, ToClient::Failed { .. }) => {}
            (Expected::Answer(kind), _) if kind == message.kind() => {}
            (Expected::Watch { begun: false }, ToClient::Watching { .. }) => {
                *asked = Expected::Watch { begun: true };
                return Ok(());
            }
            (Expected::Load { begun: false }, ToClient::Loading { .. }) => {
                *asked = Expected::Load { begun: true };
                return Ok(());
            }
            (
                Expected::Watch { begun: true },
                ToClient::Grown { .. }
                | ToClient::Symbols { .. }
                | ToClient::Changed {}
                | ToClient::Picked { .. }
                | ToClient::Skipped { .. },
            )
            | (Expected::Load { begun: true }, ToClient::Appended { .. } | ToClient::AppendFailed { .. })
            | (Expected::Query, ToClient::Rows { .. }) => {
                return Ok(());
            }
            (Expected::Watch { begun: true }, ToClient::Gone { .. } | ToClient::Closed {})
            | (Expected::Load { begun: true }, ToClient::Closed {})
            | (Expected::Query, ToClient::RowsEnded {} | ToClient::Closed {}) => {}
            _ => return Err("it does not answer the request"),
        }
        self.channels.remove(&channel);
        Ok(())
    }

    fn fits_connection(&mut self, message: &ToClient<'_>) -> Result<(), &'static str> {
        match message {
            ToClient::Welcome { version, .. } if self.version.is_none() => {
                self.version = Some(*version).filter(|version| (VERSION_MIN..=VERSION).contains(version));
                if self.version.is_some() { Ok(()) } else { Err("the version was not offered") }
            }
            ToClient::Refused { .. } if self.version.is_none() => Ok(()),
            ToClient::Goodbye { .. } => Ok(()),
            ToClient::Ping { .. } | ToClient::Pong { .. } if self.version.is_some() => Ok(()),
            _ => Err("it is not allowed on channel 0 in this state"),
        }
    }
}

impl Expected {
    fn by(message: &ToServer<'_>) -> Option<Self> {
        Some(match message {
            ToServer::Streams {} => Self::Answer(66),
            ToServer::Describe { .. } => Self::Answer(67),
            ToServer::OpenFile { .. } => Self::Answer(68),
            ToServer::ReadFile { .. } => Self::Answer(69),
            ToServer::FileLen { .. } => Self::Answer(70),
            ToServer::AddSymbols { .. } => Self::Answer(71),
            ToServer::Command { .. } | ToServer::Stage { .. } => Self::Answer(72),
            ToServer::Watch { .. } | ToServer::WatchSome { .. } => Self::Watch { begun: false },
            ToServer::Load { .. } => Self::Load { begun: false },
            ToServer::Query { .. } => Self::Query,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Coded, Rest};

    fn receive(session: &mut ClientSession, channel: u32, message: ToClient<'_>) -> Result<(), WireError> {
        let mut out = Vec::new();
        message.encode(channel, &mut out);
        let payload = &mut out[crate::FRAME_HEADER_BYTES..];
        session.receive(Frame { kind: message.kind(), channel, payload }).map(drop)
    }

    fn welcome() -> ToClient<'static> {
        ToClient::Welcome {
            version: VERSION,
            server: "test",
            epoch: 1,
            user: "",
            heartbeat_ms: 1000,
            files_max: 10,
            channels_max: 10,
        }
    }

    fn welcomed() -> ClientSession {
        let mut session = ClientSession::new();
        receive(&mut session, 0, welcome()).unwrap();
        session
    }

    #[test]
    fn an_answer_matches_its_request_and_comes_once() {
        let mut session = welcomed();
        let channel = session.ask(&ToServer::FileLen { file: 1 }, &mut Vec::new());
        assert!(receive(&mut session, channel, ToClient::Bytes { bytes: Rest(b"") }).is_err());
        receive(&mut session, channel, ToClient::FileLenIs { len: 1 }).unwrap();
        assert!(receive(&mut session, channel, ToClient::FileLenIs { len: 1 }).is_err());
        let channel = session.ask(&ToServer::FileLen { file: 1 }, &mut Vec::new());
        receive(&mut session, channel, ToClient::Failed { failure: Coded::default() }).unwrap();
        assert_eq!(session.channels(), 0);
    }

    #[test]
    fn a_watch_begins_receives_pushes_and_ends() {
        let mut session = welcomed();
        let watch = ToServer::Watch { stream_id: 1, credit: 1, lag_max: 0, from: vec![] };
        let channel = session.ask(&watch, &mut Vec::new());
        assert!(receive(&mut session, channel, ToClient::Changed {}).is_err());
        receive(&mut session, channel, ToClient::Watching { from: vec![] }).unwrap();
        receive(&mut session, channel, ToClient::Changed {}).unwrap();
        receive(&mut session, channel, ToClient::Changed {}).unwrap();
        assert!(receive(&mut session, channel, ToClient::Loading { last_number: 0 }).is_err());
        receive(&mut session, channel, ToClient::Closed {}).unwrap();
        assert!(!session.is_open(channel));
    }

    #[test]
    fn servers_of_version_1_accept_no_watch_of_some_messages() {
        for (version, accepted, watches_some) in
            [(0, false, false), (1, true, false), (2, true, true), (3, false, false)]
        {
            let mut session = ClientSession::new();
            let ToClient::Welcome { server, epoch, user, heartbeat_ms, files_max, channels_max, .. } =
                welcome()
            else {
                return;
            };
            let welcome =
                ToClient::Welcome { version, server, epoch, user, heartbeat_ms, files_max, channels_max };
            assert_eq!(receive(&mut session, 0, welcome).is_ok(), accepted, "{version}");
            assert_eq!(session.watches_some(), watches_some, "{version}");
        }
    }

    #[test]
    fn a_query_has_rows_until_its_end() {
        let query = ToServer::Query {
            credit: 1,
            ms_max: 0,
            rows_max: 0,
            decimals: "float",
            text: "SELECT 1",
            parameters: Rest(b""),
        };
        let rows = || ToClient::Rows { bytes: Rest(b"x") };
        let endings =
            [ToClient::RowsEnded {}, ToClient::Closed {}, ToClient::Failed { failure: Coded::default() }];
        for end in endings {
            let mut session = welcomed();
            let channel = session.ask(&query, &mut Vec::new());
            receive(&mut session, channel, rows()).unwrap();
            receive(&mut session, channel, rows()).unwrap();
            assert!(receive(&mut session, channel, ToClient::Changed {}).is_err());
            receive(&mut session, channel, end).unwrap();
            assert!(!session.is_open(channel) && receive(&mut session, channel, rows()).is_err());
        }
    }

    #[test]
    fn a_welcome_comes_first() {
        let mut session = ClientSession::new();
        let channel = session.ask(&ToServer::Streams {}, &mut Vec::new());
        assert!(receive(&mut session, channel, ToClient::StreamNames { names: vec![] }).is_err());
        assert!(receive(&mut session, 0, ToClient::Ping { number: 1 }).is_err());
        receive(&mut session, 0, welcome()).unwrap();
        assert!(receive(&mut session, 0, welcome()).is_err());
        receive(&mut session, channel, ToClient::StreamNames { names: vec![] }).unwrap();
    }
}
