//! A load: batches go out without waiting for the answers to those before.
//!
//! Always true: `unanswered` holds, in order and without holes, the batches that have been numbered and not answered; unless
//! `halt` says why not, those of them that are not under way yet on the connection in `link` are being sent by whoever has
//! `sending`. So after a lost connection they are sent again, and by producer and number the server knows those that it has.
//! A batch that the server refuses stays, with those behind it: the error is told once (`failure`), and the next call sends them
//! again. Only what is too late for its stream is given up, as it will be too late for ever.

use crate::convert;
use crate::line::{Lasting, Line, random};
use crate::link::{Link, Receiver};
use crate::signal::{Signal, locked};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, Weak};
use tapedb_codec::batch::{BatchHeader, assign_producer};
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
    /// Held while frames are sent, so that they go in order.
    sending: Mutex<()>,
    state: Mutex<State>,
    /// Something was answered.
    answered: Signal,
}

#[derive(Default)]
struct State {
    link: Option<(Weak<Link>, u32)>,
    /// By what the server knows batches that come again, with their numbers.
    producer: u64,
    unanswered: VecDeque<(u64, Arc<Vec<u8>>)>,
    unanswered_bytes: usize,
    /// Messages that were too late for the stream.
    given_up: u64,
    /// Number of the batch that was numbered last.
    last_number: u64,
    /// Answers up to this batch's have been asked for.
    asked: u64,
    /// Sequence number after the last message that was acknowledged.
    next_sequence: u64,
    /// What went wrong, until it is told.
    failure: Option<Parts>,
    halt: Option<Halt>,
    has_begun: bool,
    is_over: bool,
    spare: Vec<Vec<u8>>,
}

/// Why nothing is sent until somebody calls again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Halt {
    /// The server has refused the batch of this number, and waits for it.
    At(u64),
    /// The server has ended the load.
    Ended,
    /// The server does not know any more what it has stored of this producer: what is left goes on as another's.
    Forgotten,
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
        let state = State { producer: random().max(1), ..State::default() };
        let (sending, state) = (Mutex::default(), Mutex::new(state));
        let load = Arc::new(Load { stream_id, space, sending, state, answered: Signal::default() });
        let weak = Arc::downgrade(&load);
        line.begin(weak)?;
        let has_begun = || {
            let state = locked(&load.state);
            state.has_begun || state.failure.is_some()
        };
        line.wait(&load.answered, &has_begun)?;
        locked(&load.state).check()?;
        Ok(Self { load, line })
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
        self.line.wait(&self.load.answered, &done)
    }

    /// Tells of what has failed; where that has been told, sends again what is kept.
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
            Some(Halt::Ended | Halt::Forgotten) => self.line.again(self.load.clone()),
        }
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
    fn append(&mut self, batch: &mut Vec<u8>) -> Result<(), Error> {
        self.resume()?;
        let window = self.line.options().load_window_bytes;
        let bytes = batch.len();
        self.wait(|state| state.unanswered_bytes == 0 || state.unanswered_bytes + bytes <= window)?;
        let _sending = locked(&self.load.sending);
        let (number, link, sent) = {
            let mut state = locked(&self.load.state);
            state.check()?;
            let number = state.last_number + 1;
            assign_producer(batch, state.producer, number).map_err(tapedb_engine::LogError::Batch)?;
            state.last_number = number;
            let spare = state.spare.pop().unwrap_or_default();
            let sent = Arc::new(std::mem::replace(batch, spare));
            state.unanswered.push_back((number, sent.clone()));
            state.unanswered_bytes += bytes;
            (number, state.link(), sent)
        };
        // Without a connection it is sent when there is one again.
        if let Some((link, channel)) = link {
            send(&link, channel, number, &sent);
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

/// Messages of a batch.
fn messages(batch: &[u8]) -> u64 {
    BatchHeader::parse(batch).map_or(0, |header| u64::from(header.count))
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

    /// Tells of what went wrong, once.
    fn check(&mut self) -> Result<(), Error> {
        self.failure.take().map_or(Ok(()), |failure| Err(convert::error(&failure)))
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

    /// The batch of a number is refused.
    fn refuse(&mut self, number: u64, failure: Parts) {
        self.asked = self.asked.min(number.saturating_sub(1));
        match convert::error(&failure) {
            Error::Late { .. } => self.give_up(number),
            _ => self.halt = Some(Halt::At(number)),
        }
        self.failure = Some(failure);
    }

    /// Batches from a number on are given up.
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

    /// Goes on under another name: what is left is numbered anew, from 1 on. Returns what the server is to be told that it has ended.
    fn become_another(&mut self, producer: u64) -> Option<(Arc<Link>, u32)> {
        self.producer = producer;
        for (number, (known_as, batch)) in (1..).zip(&mut self.unanswered) {
            *known_as = number;
            // Its header has been good before, so this cannot fail.
            let batch: &mut Vec<u8> = Arc::make_mut(batch);
            let _ = assign_producer(batch, producer, number);
        }
        (self.last_number, self.asked) = (self.unanswered.len() as u64, 0);
        self.link()
    }
}

impl Load {
    /// Sends batches again that the server has refused.
    fn send_again(&self) {
        let _sending = locked(&self.sending);
        let (link, batches) = {
            let mut state = locked(&self.state);
            let Some(Halt::At(first)) = state.halt else { return };
            state.halt = None;
            // Without a connection all are sent when there is one again.
            let Some(link) = state.link() else { return };
            let refused = state.unanswered.iter().filter(|(number, _)| *number >= first);
            (link, refused.cloned().collect::<Vec<_>>())
        };
        let (link, channel) = link;
        batches.iter().for_each(|(number, batch)| send(&link, channel, *number, batch));
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
                    (state.halt, state.link) = (Some(Halt::Ended), None);
                    state.failure = Some(failure);
                }
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
        let (producer, ended) = {
            let mut state = locked(&self.state);
            if state.is_over {
                return;
            }
            let is_told = state.failure.is_none();
            let is_forgotten = state.halt.take() == Some(Halt::Forgotten);
            let ended = if is_forgotten && is_told { state.become_another(random().max(1)) } else { None };
            state.link = None;
            (state.producer, ended)
        };
        if let Some((link, channel)) = ended {
            link.post(channel, &ToServer::Close {});
        }
        let load = ToServer::Load { stream_id: self.stream_id, space: self.space, producer };
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

fn forgotten() -> Parts {
    let what = "the server does not know any more what it has stored of this loader, and may have lost some of it: look what is there; \
                what the loader still has is sent when you flush again";
    convert::to_wire(Error::Protocol { what: what.into() }.to_parts())
}
