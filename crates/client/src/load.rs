//! A load: batches are sent without waiting for the answers to earlier ones.
//!
//! Always true: `unanswered` contains, in order and without gaps, the numbered batches without an answer; unless `halt`
//! gives a reason, those that are not in flight on the connection in `connection` are being sent by the holder of
//! `sending`. So after a lost connection they are sent again, and the server recognizes stored ones by producer and
//! number. A refused batch stays, with all later ones: the error is returned once (`failure`), and the next call sends
//! them again. Only messages that are too late for the stream are given up, because they stay too late.

use crate::connection::Connection;
use crate::notifier::{Notifier, locked};
use crate::receiver::Receiver;
use crate::reconnector::{Reconnector, Resumable, random};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, Weak};
use tapedb_codec::batch::{BatchHeader, assign_producer};
use tapedb_codes::error;
use tapedb_engine::{ConnectionError, Error, Loading, Rejected};
use tapedb_wire::{Coded, FRAME_HEADER_BYTES, ToClient, ToServer, WireError, frame_header};

/// Kind of the frame that carries a batch.
const APPEND: u8 = 13;
/// The most buffers that are stored for reuse.
const SPARE_MAX: usize = 8;

/// A load, until it is dropped.
#[derive(Debug)]
pub(crate) struct RemoteLoad {
    load: Arc<Load>,
    reconnector: Arc<Reconnector>,
}

struct Load {
    stream_id: u64,
    space: u32,
    /// Held while frames are sent, so that they stay in order.
    sending: Mutex<()>,
    state: Mutex<State>,
    /// Notified when an answer arrives.
    answered: Notifier,
}

#[derive(Default)]
struct State {
    connection: Option<(Weak<Connection>, u32)>,
    /// The server recognizes repeated batches by it and their numbers.
    producer: u64,
    unanswered: VecDeque<(u64, Arc<Vec<u8>>)>,
    unanswered_bytes: usize,
    /// Messages that were too late for the stream.
    given_up: u64,
    /// The number of the last numbered batch.
    last_number: u64,
    /// Answers up to this batch's have been requested.
    asked: u64,
    /// Sequence number after the last acknowledged message.
    next_sequence: u64,
    /// The error, until it is returned.
    failure: Option<Coded>,
    halt: Option<Halt>,
    has_begun: bool,
    is_over: bool,
    spare: Vec<Vec<u8>>,
}

/// Why nothing is sent until the next call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Halt {
    /// The server has refused the batch of this number, and waits for it.
    At(u64),
    /// The server has ended the load.
    Ended,
    /// The server does not know any more which batches of this producer it has stored: the rest is sent as another
    /// producer's.
    Forgotten,
}

impl std::fmt::Debug for Load {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { stream_id, space, .. } = self;
        f.debug_struct("Load").field("stream_id", stream_id).field("space", space).finish_non_exhaustive()
    }
}

impl RemoteLoad {
    /// Begins a load.
    ///
    /// # Errors
    /// Errors of the server; as [`Reconnector::connection`].
    pub fn begin(reconnector: Arc<Reconnector>, stream_id: u64, space: u32) -> Result<Self, Error> {
        let state = State { producer: random().max(1), ..State::default() };
        let (sending, state) = (Mutex::default(), Mutex::new(state));
        let load = Arc::new(Load { stream_id, space, sending, state, answered: Notifier::default() });
        let weak = Arc::downgrade(&load);
        reconnector.begin(weak)?;
        let has_begun = || {
            let state = locked(&load.state);
            state.has_begun || state.failure.is_some()
        };
        reconnector.wait(&load.answered, &has_begun)?;
        locked(&load.state).check()?;
        Ok(Self { load, reconnector })
    }

    fn wait(&self, done: impl Fn(&State) -> bool) -> Result<(), Error> {
        let done = || {
            let state = locked(&self.load.state);
            state.failure.is_some() || done(&state)
        };
        if done() {
            return Ok(());
        }
        self.ask();
        self.reconnector.wait(&self.load.answered, &done)
    }

    /// Returns a pending error; if there is none, sends refused batches again.
    fn resume(&self) -> Result<(), Error> {
        let halt = {
            let mut state = locked(&self.load.state);
            state.check()?;
            state.halt
        };
        match halt {
            None => Ok(()),
            Some(Halt::At(_)) => {
                self.load.send_again();
                Ok(())
            }
            Some(Halt::Ended | Halt::Forgotten) => self.reconnector.restart(self.load.clone()),
        }
    }

    /// Requests the answers to sent batches, which the server may delay otherwise.
    fn ask(&self) {
        let mut state = locked(&self.load.state);
        if state.asked < state.last_number {
            state.asked = state.last_number;
            let connection = state.connection();
            drop(state);
            connection
                .iter()
                .for_each(|(connection, channel)| connection.post(*channel, &ToServer::Flush {}));
        }
    }
}

impl Loading for RemoteLoad {
    fn append(&mut self, batch: &mut Vec<u8>) -> Result<(), Error> {
        self.resume()?;
        let window = self.reconnector.options().load_window_bytes;
        let bytes = batch.len();
        self.wait(|state| state.unanswered_bytes == 0 || state.unanswered_bytes + bytes <= window)?;
        let _sending = locked(&self.load.sending);
        let (number, connection, sent) = {
            let mut state = locked(&self.load.state);
            state.check()?;
            let number = state.last_number + 1;
            assign_producer(batch, state.producer, number).map_err(tapedb_engine::LogError::Batch)?;
            state.last_number = number;
            let spare = state.spare.pop().unwrap_or_default();
            let sent = Arc::new(std::mem::replace(batch, spare));
            state.unanswered.push_back((number, sent.clone()));
            state.unanswered_bytes += bytes;
            (number, state.connection(), sent)
        };
        // Without a connection it is sent after the reconnect.
        if let Some((connection, channel)) = connection {
            send(&connection, channel, number, &sent);
        }
        Ok(())
    }

    fn go_on(&mut self) -> Result<(), Error> {
        self.resume()
    }

    fn flush(&mut self) -> Result<u64, Error> {
        self.resume()?;
        self.wait(|state| state.unanswered.is_empty())?;
        let mut state = locked(&self.load.state);
        state.check().map(|()| state.next_sequence)
    }

    fn unacknowledged(&self) -> usize {
        locked(&self.load.state).unanswered.iter().map(|(_, batch)| messages(batch) as usize).sum()
    }

    fn given_up(&self) -> u64 {
        locked(&self.load.state).given_up
    }
}

/// The number of messages in a batch.
fn messages(batch: &[u8]) -> u64 {
    BatchHeader::parse(batch).map_or(0, |header| u64::from(header.count))
}

impl Drop for RemoteLoad {
    fn drop(&mut self) {
        let mut state = locked(&self.load.state);
        state.is_over = true;
        let connection =
            state.connection.take().and_then(|(connection, channel)| Some((connection.upgrade()?, channel)));
        drop(state);
        if let Some((connection, channel)) = connection.filter(|(connection, _)| !connection.is_broken()) {
            connection.post(channel, &ToServer::Close {});
        }
    }
}

impl State {
    fn connection(&self) -> Option<(Arc<Connection>, u32)> {
        self.connection.as_ref().and_then(|(connection, channel)| Some((connection.upgrade()?, *channel)))
    }

    /// Returns a pending error, once.
    fn check(&mut self) -> Result<(), Error> {
        self.failure.take().map_or(Ok(()), |failure| Err(error::from_coded(&failure)))
    }

    /// Batches up to a number are stored.
    fn answer(&mut self, number: u64, next_sequence: u64) {
        while self.unanswered.front().is_some_and(|(sent, _)| *sent <= number) {
            let Some((_, batch)) = self.unanswered.pop_front() else { return };
            self.unanswered_bytes -= batch.len();
            // Unless it is being sent again at this moment.
            if self.spare.len() < SPARE_MAX
                && let Ok(mut batch) = Arc::try_unwrap(batch)
            {
                batch.clear();
                self.spare.push(batch);
            }
        }
        self.next_sequence = self.next_sequence.max(next_sequence);
    }

    /// The batch of a number was refused.
    fn refuse(&mut self, number: u64, failure: Coded) {
        self.asked = self.asked.min(number.saturating_sub(1));
        match error::from_coded(&failure) {
            Error::Rejected(Rejected::Late { .. }) => self.give_up(number),
            _ => self.halt = Some(Halt::At(number)),
        }
        self.failure = Some(failure);
    }

    /// Gives up batches from a number on.
    fn give_up(&mut self, number: u64) {
        while self.unanswered.back().is_some_and(|(sent, _)| *sent >= number) {
            let Some((_, batch)) = self.unanswered.pop_back() else { break };
            self.unanswered_bytes -= batch.len();
            self.given_up += messages(&batch);
        }
        self.last_number = self.last_number.min(number.saturating_sub(1));
    }

    /// The server has stored batches of this producer up to a number.
    fn begin(&mut self, last_number: u64) {
        self.has_begun = true;
        let oldest = self.unanswered.front().map_or(self.last_number + 1, |(number, _)| *number);
        if last_number.saturating_add(1) < oldest {
            self.halt = Some(Halt::Forgotten);
            self.failure = Some(forgotten());
        }
    }

    /// Continues as another producer: the remaining batches are numbered from 1 on. Returns the channel of the old
    /// load, to be closed.
    fn restart_as(&mut self, producer: u64) -> Option<(Arc<Connection>, u32)> {
        self.producer = producer;
        for (number, (known_as, batch)) in (1..).zip(&mut self.unanswered) {
            *known_as = number;
            // Its header was valid before, so this cannot fail.
            let batch: &mut Vec<u8> = Arc::make_mut(batch);
            let _ = assign_producer(batch, producer, number);
        }
        (self.last_number, self.asked) = (self.unanswered.len() as u64, 0);
        self.connection()
    }
}

impl Load {
    /// Sends refused batches again.
    fn send_again(&self) {
        let _sending = locked(&self.sending);
        let (connection, batches) = {
            let mut state = locked(&self.state);
            let Some(Halt::At(first)) = state.halt else { return };
            state.halt = None;
            // Without a connection all of them are sent after the reconnect.
            let Some(connection) = state.connection() else { return };
            let refused = state.unanswered.iter().filter(|(number, _)| *number >= first);
            (connection, refused.cloned().collect::<Vec<_>>())
        };
        let (connection, channel) = connection;
        batches.iter().for_each(|(number, batch)| send(&connection, channel, *number, batch));
    }
}

impl Receiver for Load {
    fn receive(&self, message: ToClient<'_>) -> Result<(), WireError> {
        {
            let mut state = locked(&self.state);
            match message {
                ToClient::Loading { last_number } => state.begin(last_number),
                ToClient::Appended { number, next_sequence, .. } => state.answer(number, next_sequence),
                ToClient::AppendFailed { number, failure } => state.refuse(number, failure),
                ToClient::Failed { failure } => {
                    (state.halt, state.connection) = (Some(Halt::Ended), None);
                    state.failure = Some(failure);
                }
                _ => {}
            }
        }
        self.answered.notify_all();
        Ok(())
    }

    fn lost(&self) {
        self.answered.notify_all();
    }
}

impl Resumable for Load {
    fn resume(self: Arc<Self>, connection: &Arc<Connection>) {
        let _sending = locked(&self.sending);
        let (producer, ended) = {
            let mut state = locked(&self.state);
            if state.is_over {
                return;
            }
            let is_reported = state.failure.is_none();
            let is_forgotten = state.halt.take() == Some(Halt::Forgotten);
            let ended = if is_forgotten && is_reported { state.restart_as(random().max(1)) } else { None };
            state.connection = None;
            (state.producer, ended)
        };
        if let Some((connection, channel)) = ended {
            connection.post(channel, &ToServer::Close {});
        }
        let load = ToServer::Load { stream_id: self.stream_id, space: self.space, producer };
        let Ok(channel) = connection.open_channel(&load, self.clone()) else { return };
        let unanswered = {
            let mut state = locked(&self.state);
            state.connection = Some((Arc::downgrade(connection), channel));
            state.unanswered.clone()
        };
        for (number, batch) in unanswered {
            send(connection, channel, number, &batch);
        }
        // Waiting callers have requested their answers on the old connection.
        connection.post(channel, &ToServer::Flush {});
    }

    fn interrupted(&self) {}
}

fn send(connection: &Connection, channel: u32, number: u64, batch: &[u8]) {
    let mut head = [0; FRAME_HEADER_BYTES + 8];
    let (frame, tail) = head.split_at_mut(FRAME_HEADER_BYTES);
    frame.copy_from_slice(&frame_header(APPEND, channel, 8 + batch.len()));
    tail.copy_from_slice(&number.to_le_bytes());
    connection.send(&head, batch);
}

fn forgotten() -> Coded {
    let what = "the server does not know any more what it has stored of this loader, and may have lost messages: check the stream; \
                the loader's pending messages are sent with the next flush";
    error::to_coded(&Error::Connection(ConnectionError::Protocol { what: what.into() }))
}
