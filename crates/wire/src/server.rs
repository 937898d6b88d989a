//! The server's state machine of a connection: which client messages are allowed when.

use crate::error::WireError;
use crate::flow::Credit;
use crate::frame::Frame;
use crate::message::{Login, ToServer, VERSION, VERSION_MIN, split_append};
use std::collections::HashMap;
use std::sync::Arc;

/// Limits of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Watches, loads and queries together.
    pub channels_max: u32,
    /// Credit of a watch or a query, in bytes; grants beyond it are ignored.
    pub credit_max: u64,
}

/// A channel that stays open.
#[derive(Debug, Clone)]
pub enum Channel {
    /// A watch, and its credit.
    Watch(Arc<Credit>),
    /// A query, and its credit.
    Query(Arc<Credit>),
    /// A load, and the number of its next batch.
    Load {
        /// 0 until the server has reported the last stored number.
        next_number: u64,
    },
}

/// A batch that was received; it can be changed in place.
#[derive(Debug, PartialEq, Eq)]
pub struct ReceivedBatch<'a> {
    /// The load's channel.
    pub channel: u32,
    /// The batch's number.
    pub number: u64,
    /// The batch.
    pub batch: &'a mut [u8],
}

/// Tracks the state of a connection, and refuses messages that are not allowed.
///
/// Always true: before the hello there is no channel; a channel has one use from its first frame until it is closed.
#[derive(Debug)]
pub struct ServerSession {
    limits: Limits,
    greeted: bool,
    channels: HashMap<u32, Channel>,
}

impl ServerSession {
    /// The state of a new connection.
    pub fn new(limits: Limits) -> Self {
        Self { limits, greeted: false, channels: HashMap::new() }
    }

    /// Checks and parses a frame.
    ///
    /// # Errors
    /// [`WireError`], after which the connection must end.
    pub fn receive<'a>(&mut self, frame: Frame<'a>) -> Result<ToServer<'a>, WireError> {
        let Frame { kind, channel, payload } = frame;
        let message = ToServer::parse(kind, payload)?;
        self.check(kind, channel, &message)?;
        Ok(message)
    }

    /// Checks an [`Append`](ToServer::Append) without copying its batch. `None`, and the frame is unchanged, if it is
    /// another message.
    ///
    /// # Errors
    /// As [`receive`](Self::receive).
    pub fn receive_append<'f>(
        &mut self,
        frame: &'f mut Frame<'_>,
    ) -> Result<Option<ReceivedBatch<'f>>, WireError> {
        if frame.kind != 13 {
            return Ok(None);
        }
        let (kind, channel) = (frame.kind, frame.channel);
        let (number, batch) = split_append(frame.payload)?;
        self.check_append(kind, channel, number)?;
        Ok(Some(ReceivedBatch { channel, number, batch }))
    }

    /// The protocol version to use; `None` when no version fits.
    pub fn version_of(version_min: u16, version_max: u16) -> Option<u16> {
        let newest = VERSION.min(version_max);
        (newest >= VERSION_MIN.max(version_min)).then_some(newest)
    }

    /// Notes that the client is accepted.
    pub fn welcome(&mut self) {
        self.greeted = true;
    }

    /// Opens the channel of a watch; the credit is shared with the threads that push.
    pub fn open_watch(&mut self, channel: u32, credit: u64) -> Arc<Credit> {
        let credit = self.credit(credit);
        self.channels.insert(channel, Channel::Watch(Arc::clone(&credit)));
        credit
    }

    /// Opens the channel of a query; the credit is shared with the thread that sends its rows.
    pub fn open_query(&mut self, channel: u32, credit: u64) -> Arc<Credit> {
        let credit = self.credit(credit);
        self.channels.insert(channel, Channel::Query(Arc::clone(&credit)));
        credit
    }

    fn credit(&self, bytes: u64) -> Arc<Credit> {
        Arc::new(Credit::new(bytes.min(self.limits.credit_max)))
    }

    /// Opens the channel of a load; its first batch must have `next_number`.
    pub fn open_load(&mut self, channel: u32, next_number: u64) {
        self.channels.insert(channel, Channel::Load { next_number });
    }

    /// A batch was not stored: the load continues with its number. Batches after it that are in flight are ignored: see
    /// [`is_expected`](Self::is_expected).
    pub fn go_back(&mut self, channel: u32, number: u64) {
        if let Some(Channel::Load { next_number }) = self.channels.get_mut(&channel) {
            *next_number = number;
        }
    }

    /// Ends a channel.
    pub fn close(&mut self, channel: u32) -> Option<Channel> {
        self.channels.remove(&channel)
    }

    /// An open channel.
    pub fn channel(&self, channel: u32) -> Option<&Channel> {
        self.channels.get(&channel)
    }

    /// Number of open channels.
    pub fn channels(&self) -> usize {
        self.channels.len()
    }

    /// Whether a batch of this number is the next one, or a repeat: an earlier one, which is stored already and is
    /// answered again. (After a failure, batches sent before the client is notified are neither.)
    pub fn is_expected(&self, channel: u32, number: u64) -> bool {
        matches!(self.channels.get(&channel), Some(Channel::Load { next_number }) if number <= *next_number)
    }

    /// Notes that the batch with this number is being stored.
    pub fn note_append(&mut self, channel: u32, number: u64) {
        self.go_back(channel, number + 1);
    }

    fn check(&mut self, kind: u8, channel: u32, message: &ToServer<'_>) -> Result<(), WireError> {
        let unexpected = |why| Err(WireError::Unexpected { kind, channel, why });
        match message {
            ToServer::Hello { login, .. } => {
                let fits = channel == 0 && !self.greeted && !is_empty(login);
                if fits {
                    Ok(())
                } else {
                    unexpected("a hello comes once and first, and its user or token is not empty")
                }
            }
            ToServer::Goodbye { .. } if channel == 0 => Ok(()),
            _ if !self.greeted => unexpected("a hello must come first"),
            ToServer::CloseFile { .. }
            | ToServer::Ping { .. }
            | ToServer::Pong { .. }
            | ToServer::Goodbye { .. } => {
                if channel == 0 {
                    Ok(())
                } else {
                    unexpected("it belongs on channel 0")
                }
            }
            ToServer::Append { number, .. } => self.check_append(kind, channel, *number),
            ToServer::Credit { bytes } => self.grant(kind, channel, *bytes),
            // A channel that has ended here may still be closed by the client.
            ToServer::Close {} if channel != 0 => Ok(()),
            ToServer::Flush {} => match self.channels.get(&channel) {
                Some(Channel::Watch(_)) => unexpected("the channel is used by a watch"),
                Some(Channel::Query(_)) => unexpected("the channel is used by a query"),
                _ if channel == 0 => unexpected("channel 0 is the connection's own"),
                // A load, or one that has ended.
                _ => Ok(()),
            },
            ToServer::Watch { .. }
            | ToServer::WatchSome { .. }
            | ToServer::Load { .. }
            | ToServer::Query { .. } => {
                self.check_free(kind, channel)?;
                let is_room = self.channels.len() < self.limits.channels_max as usize;
                if is_room { Ok(()) } else { unexpected("the connection has reached its limit of channels") }
            }
            _ => self.check_free(kind, channel),
        }
    }

    fn check_free(&self, kind: u8, channel: u32) -> Result<(), WireError> {
        let why = match channel {
            0 => "channel 0 is the connection's own",
            _ if self.channels.contains_key(&channel) => "the channel is in use",
            _ => return Ok(()),
        };
        Err(WireError::Unexpected { kind, channel, why })
    }

    fn check_append(&self, kind: u8, channel: u32, number: u64) -> Result<(), WireError> {
        let why = match self.channels.get(&channel) {
            _ if !self.greeted => "a hello must come first",
            Some(Channel::Watch(_)) => "the channel is used by a watch",
            Some(Channel::Query(_)) => "the channel is used by a query",
            _ if number == 0 || number == u64::MAX => "a batch's number is between 1 and 2^64 - 2",
            // The server may have ended the load while batches are in flight.
            _ => return Ok(()),
        };
        Err(WireError::Unexpected { kind, channel, why })
    }

    fn grant(&self, kind: u8, channel: u32, bytes: u64) -> Result<(), WireError> {
        match self.channels.get(&channel) {
            Some(Channel::Watch(credit) | Channel::Query(credit)) => {
                let spare = self.limits.credit_max.saturating_sub(credit.left());
                credit.grant(bytes.min(spare));
                Ok(())
            }
            Some(Channel::Load { .. }) => {
                Err(WireError::Unexpected { kind, channel, why: "the channel is used by a load" })
            }
            // A watch or a query that has ended.
            None => Ok(()),
        }
    }
}

fn is_empty(login: &Login<'_>) -> bool {
    match login {
        Login::Anonymous => false,
        Login::Password { user, .. } => user.is_empty(),
        Login::Token(token) => token.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Rest;

    const LIMITS: Limits = Limits { channels_max: 2, credit_max: 1000 };

    fn hear(session: &mut ServerSession, channel: u32, message: ToServer<'_>) -> Result<(), WireError> {
        let mut out = Vec::new();
        message.encode(channel, &mut out);
        let payload = &mut out[crate::FRAME_HEADER_BYTES..];
        session.receive(Frame { kind: message.kind(), channel, payload }).map(drop)
    }

    fn hello() -> ToServer<'static> {
        ToServer::Hello { version_min: 1, version_max: 1, program: "test", login: Login::Anonymous }
    }

    fn watch() -> ToServer<'static> {
        ToServer::Watch { stream_id: 1, credit: 10, lag_max: 0, from: vec![0] }
    }

    fn greeted() -> ServerSession {
        let mut session = ServerSession::new(LIMITS);
        hear(&mut session, 0, hello()).unwrap();
        session.welcome();
        session
    }

    #[test]
    fn a_hello_comes_first_and_once() {
        let mut session = ServerSession::new(LIMITS);
        assert!(hear(&mut session, 1, ToServer::Streams {}).is_err());
        assert!(hear(&mut session, 1, ToServer::Append { number: 1, batch: Rest(b"") }).is_err());
        hear(&mut session, 0, hello()).unwrap();
        session.welcome();
        assert!(hear(&mut session, 0, hello()).is_err());
        hear(&mut session, 1, ToServer::Streams {}).unwrap();
    }

    #[test]
    fn the_newest_version_of_both_ends_is_spoken() {
        let of = ServerSession::version_of;
        assert_eq!((of(1, 1), of(1, 2), of(2, 2), of(1, 9)), (Some(1), Some(2), Some(2), Some(2)));
        assert_eq!((of(0, 0), of(3, 9), of(2, 1)), (None, None, None));
    }

    #[test]
    fn channels_have_one_use_and_a_limit() {
        let mut session = greeted();
        assert!(hear(&mut session, 0, watch()).is_err());
        hear(&mut session, 1, watch()).unwrap();
        let credit = session.open_watch(1, 10);
        assert!(hear(&mut session, 1, ToServer::Streams {}).is_err());
        assert!(hear(&mut session, 1, ToServer::Append { number: 1, batch: Rest(b"") }).is_err());
        hear(&mut session, 1, ToServer::Credit { bytes: u64::MAX }).unwrap();
        assert_eq!(credit.left(), 1000, "limited by the server");
        session.open_load(2, 1);
        assert!(hear(&mut session, 2, ToServer::Credit { bytes: 1 }).is_err());
        hear(&mut session, 2, ToServer::Flush {}).unwrap();
        assert!(hear(&mut session, 1, ToServer::Flush {}).is_err());
        assert!(hear(&mut session, 3, watch()).is_err(), "there are two already");
        session.close(1);
        hear(&mut session, 3, watch()).unwrap();
        hear(&mut session, 1, ToServer::Credit { bytes: 1 }).unwrap();
    }

    #[test]
    fn a_query_has_a_channel_with_credit() {
        let mut session = greeted();
        let query = || ToServer::Query {
            credit: 1,
            ms_max: 0,
            rows_max: 0,
            decimals: "float",
            text: "SELECT 1",
            parameters: Rest(b""),
        };
        hear(&mut session, 1, query()).unwrap();
        let credit = session.open_query(1, u64::MAX);
        assert_eq!(credit.left(), 1000, "limited by the server");
        assert!(hear(&mut session, 1, query()).is_err(), "the channel is in use");
        assert!(hear(&mut session, 1, ToServer::Append { number: 1, batch: Rest(b"") }).is_err());
        assert!(hear(&mut session, 1, ToServer::Flush {}).is_err());
        credit.spend(600, 1000);
        hear(&mut session, 1, ToServer::Credit { bytes: 5 }).unwrap();
        assert_eq!(credit.left(), 405);
        session.open_load(2, 1);
        assert!(hear(&mut session, 3, query()).is_err(), "there are two channels already");
        hear(&mut session, 1, ToServer::Close {}).unwrap();
        session.close(1);
        hear(&mut session, 1, ToServer::Credit { bytes: 5 }).unwrap();
    }

    #[test]
    fn batches_are_expected_in_order() {
        let mut session = greeted();
        session.open_load(5, 8);
        let mut out = Vec::new();
        ToServer::Append { number: 8, batch: Rest(b"abc") }.encode(5, &mut out);
        let mut frame = Frame { kind: 13, channel: 5, payload: &mut out[crate::FRAME_HEADER_BYTES..] };
        let arrived = session.receive_append(&mut frame).unwrap().unwrap();
        assert_eq!(arrived, ReceivedBatch { channel: 5, number: 8, batch: &mut b"abc".to_owned() });
        assert!(session.is_expected(5, 8) && !session.is_expected(5, 9));
        session.note_append(5, 8);
        assert!(session.is_expected(5, 9));
        session.go_back(5, 8);
        assert!(session.is_expected(5, 8));
    }
}
