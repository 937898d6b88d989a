//! A load: batches go out without waiting for the answers to those before.
//!
//! Always true: `unanswered` holds, in order and without holes, the batches that have been numbered and not answered; on
//! the connection in `link` those of them that are not under way yet are being sent by whoever has `sending`. So after a
//! lost connection they are sent again, and by producer and number the server knows those that it has.

use crate::convert;
use crate::line::{Lasting, Line, random};
use crate::link::{Link, Receiver};
use crate::signal::{Signal, locked};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, Weak};
use tapedb_codec::batch::assign_producer;
use tapedb_engine::{Error, Loading};
use tapedb_wire::{FRAME_HEADER_BYTES, Parts, ToClient, ToServer, WireError, frame_header};

/// Kind of the frame that carries a batch.
const APPEND: u8 = 13;
/// Buffers that are kept to be used again.
const SPARE_MAX: usize = 8;

/// A load, until it is dropped.
#[derive(Debug)]
pub(crate) struct RemoteLoad {
    load: Arc<Load>,
    line: Arc<Line>,
}

struct Load {
    stream_id: u64,
    space: u32,
    producer: u64,
    /// Held while frames are sent, so that they go in order.
    sending: Mutex<()>,
    state: Mutex<State>,
    /// Something was answered.
    answered: Signal,
}

#[derive(Default)]
struct State {
    link: Option<(Weak<Link>, u32)>,
    unanswered: VecDeque<(u64, Arc<Vec<u8>>)>,
    unanswered_bytes: usize,
    /// Number of the batch that was numbered last.
    last_number: u64,
    /// Answers up to this batch's have been asked for.
    asked: u64,
    /// Sequence number after the last message that was acknowledged.
    next_sequence: u64,
    /// Why batches were given up, until it is told.
    failure: Option<Parts>,
    /// Why nothing can be loaded any more.
    end: Option<Parts>,
    has_begun: bool,
    is_over: bool,
    spare: Vec<Vec<u8>>,
}

impl std::fmt::Debug for Load {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { stream_id, space, .. } = self;
        f.debug_struct("Load").field("stream_id", stream_id).field("space", space).finish_non_exhaustive()
    }
}

impl RemoteLoad {
    /// Begins to load.
    ///
    /// # Errors
    /// What the server says; as [`Line::link`].
    pub fn begin(line: Arc<Line>, stream_id: u64, space: u32) -> Result<Self, Error> {
        let producer = random().max(1);
        let (sending, state) = (Mutex::default(), Mutex::default());
        let load = Arc::new(Load { stream_id, space, producer, sending, state, answered: Signal::default() });
        let weak = Arc::downgrade(&load);
        line.begin(weak)?;
        let has_begun = || {
            let state = locked(&load.state);
            state.has_begun || state.end.is_some()
        };
        line.wait(&load.answered, &has_begun)?;
        locked(&load.state).check()?;
        Ok(Self { load, line })
    }

    fn wait(&self, done: impl Fn(&State) -> bool) -> Result<(), Error> {
        let done = || {
            let state = locked(&self.load.state);
            state.failure.is_some() || state.end.is_some() || done(&state)
        };
        if done() {
            return Ok(());
        }
        self.ask();
        self.line.wait(&self.load.answered, &done)
    }

    /// Asks for the answers to what has been sent, which else may wait for others.
    fn ask(&self) {
        let mut state = locked(&self.load.state);
        if state.asked < state.last_number {
            state.asked = state.last_number;
            let link = state.link();
            drop(state);
            link.iter().for_each(|(link, channel)| link.post(*channel, &ToServer::Flush {}));
        }
    }
}

impl Loading for RemoteLoad {
    fn append(&mut self, mut batch: Vec<u8>) -> Result<Vec<u8>, Error> {
        let window = self.line.options().load_window_bytes;
        let bytes = batch.len();
        self.wait(|state| state.unanswered_bytes == 0 || state.unanswered_bytes + bytes <= window)?;
        let _sending = locked(&self.load.sending);
        let (number, link, batch, spare) = {
            let mut state = locked(&self.load.state);
            state.check()?;
            let number = state.last_number + 1;
            assign_producer(&mut batch, self.load.producer, number)
                .map_err(tapedb_engine::LogError::Batch)?;
            state.last_number = number;
            let batch = Arc::new(batch);
            state.unanswered.push_back((number, batch.clone()));
            state.unanswered_bytes += bytes;
            let link = state.link();
            (number, link, batch, state.spare.pop().unwrap_or_default())
        };
        // Without a connection it is sent when there is one again.
        if let Some((link, channel)) = link {
            send(&link, channel, number, &batch);
        }
        Ok(spare)
    }

    fn flush(&mut self) -> Result<u64, Error> {
        self.wait(|state| state.unanswered.is_empty())?;
        let mut state = locked(&self.load.state);
        state.check().map(|()| state.next_sequence)
    }
}

impl Drop for RemoteLoad {
    fn drop(&mut self) {
        let mut state = locked(&self.load.state);
        state.is_over = true;
        let link = state.link.take().and_then(|(link, channel)| Some((link.upgrade()?, channel)));
        drop(state);
        if let Some((link, channel)) = link.filter(|(link, _)| !link.is_broken()) {
            link.post(channel, &ToServer::Close {});
        }
    }
}

impl State {
    fn link(&self) -> Option<(Arc<Link>, u32)> {
        self.link.as_ref().and_then(|(link, channel)| Some((link.upgrade()?, *channel)))
    }

    /// Tells of what was given up, once; of an end always.
    fn check(&mut self) -> Result<(), Error> {
        match (self.failure.take(), &self.end) {
            (Some(failure), _) => Err(convert::error(&failure)),
            (None, Some(end)) => Err(convert::error(end)),
            (None, None) => Ok(()),
        }
    }

    /// Batches up to a number are stored.
    fn answer(&mut self, number: u64, next_sequence: u64) {
        while self.unanswered.front().is_some_and(|(sent, _)| *sent <= number) {
            let Some((_, batch)) = self.unanswered.pop_front() else { return };
            self.unanswered_bytes -= batch.len();
            // Unless it is being sent again this moment.
            if self.spare.len() < SPARE_MAX
                && let Ok(mut batch) = Arc::try_unwrap(batch)
            {
                batch.clear();
                self.spare.push(batch);
            }
        }
        self.next_sequence = self.next_sequence.max(next_sequence);
    }

    /// Batches from a number on are given up.
    fn give_up(&mut self, number: u64, failure: Parts) {
        while self.unanswered.back().is_some_and(|(sent, _)| *sent >= number) {
            let Some((_, batch)) = self.unanswered.pop_back() else { break };
            self.unanswered_bytes -= batch.len();
        }
        self.last_number = self.last_number.min(number.saturating_sub(1));
        self.asked = self.asked.min(self.last_number);
        self.failure = Some(failure);
    }
}

impl Receiver for Load {
    fn receive(&self, message: ToClient<'_>) -> Result<(), WireError> {
        {
            let mut state = locked(&self.state);
            match message {
                ToClient::Loading { last_number } => {
                    state.has_begun = true;
                    let oldest =
                        state.unanswered.front().map_or(state.last_number + 1, |(number, _)| *number);
                    if last_number.saturating_add(1) < oldest {
                        let what =
                            "the server does not know any more what it has acknowledged to this loader";
                        state.end = Some(ended(what));
                    }
                }
                ToClient::Appended { number, next_sequence, .. } => state.answer(number, next_sequence),
                ToClient::AppendFailed { number, failure } => state.give_up(number, failure),
                ToClient::Failed { failure } => state.end = Some(failure),
                _ => {}
            }
        }
        self.answered.ring();
        Ok(())
    }

    fn lost(&self) {
        self.answered.ring();
    }
}

impl Lasting for Load {
    fn restore(self: Arc<Self>, link: &Arc<Link>) {
        let _sending = locked(&self.sending);
        let load = ToServer::Load { stream_id: self.stream_id, space: self.space, producer: self.producer };
        {
            let mut state = locked(&self.state);
            if state.is_over || state.end.is_some() {
                return;
            }
            state.link = None;
        }
        let Ok(channel) = link.open_channel(&load, self.clone()) else { return };
        let unanswered = {
            let mut state = locked(&self.state);
            state.link = Some((Arc::downgrade(link), channel));
            state.unanswered.clone()
        };
        for (number, batch) in unanswered {
            send(link, channel, number, &batch);
        }
        // Who waits for answers has asked on another connection.
        link.post(channel, &ToServer::Flush {});
    }

    fn interrupted(&self) {}
}

fn send(link: &Link, channel: u32, number: u64, batch: &[u8]) {
    let mut head = [0; FRAME_HEADER_BYTES + 8];
    let (frame, tail) = head.split_at_mut(FRAME_HEADER_BYTES);
    frame.copy_from_slice(&frame_header(APPEND, channel, 8 + batch.len()));
    tail.copy_from_slice(&number.to_le_bytes());
    link.send(&head, batch);
}

fn ended(what: &str) -> Parts {
    convert::to_wire(Error::Protocol { what: what.into() }.to_parts())
}
