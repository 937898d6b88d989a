//! Where an answer comes.

use crate::convert;
use crate::link::Receiver;
use crate::signal::{Signal, locked};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use tapedb_engine::{Description, Error, Parts};
use tapedb_wire::{ToClient, WireError};

/// An answer, out of the frame it came in.
#[derive(Debug)]
pub(crate) enum Answer {
    Names(Vec<String>),
    /// And how many symbols there are.
    Described(Description, u32),
    Opened {
        file: u32,
        len: u64,
        identity: (u64, u64),
    },
    Bytes(Vec<u8>),
    Len(u64),
    Ids(Vec<u32>),
    Done(Parts),
    Failed(Error),
}

/// Takes one answer; whoever asked takes it out.
#[derive(Debug)]
pub(crate) struct Slot {
    is_done: AtomicBool,
    state: Mutex<State>,
    signal: Signal,
}

#[derive(Debug)]
struct State {
    /// Where bytes go.
    buffer: Vec<u8>,
    answer: Option<Answer>,
}

impl Slot {
    /// A slot that puts bytes into a buffer, whose memory is used again.
    pub fn new(buffer: Vec<u8>) -> Self {
        let state = State { buffer, answer: None };
        Self { is_done: AtomicBool::new(false), state: Mutex::new(state), signal: Signal::default() }
    }

    pub fn signal(&self) -> &Signal {
        &self.signal
    }

    /// Whether the answer is there, or none will come.
    pub fn is_done(&self) -> bool {
        self.is_done.load(Ordering::Acquire)
    }

    /// Takes the answer; `None`: none will come.
    pub fn take(&self) -> Option<Answer> {
        locked(&self.state).answer.take()
    }

    fn finish(&self) {
        self.is_done.store(true, Ordering::Release);
        self.signal.ring();
    }
}

impl Receiver for Slot {
    fn receive(&self, message: ToClient<'_>) -> Result<(), WireError> {
        {
            let State { buffer, answer } = &mut *locked(&self.state);
            *answer = Some(answer_of(message, buffer));
        }
        self.finish();
        Ok(())
    }

    fn lost(&self) {
        self.finish();
    }
}

/// The session lets nothing else through than what answers.
fn answer_of(message: ToClient<'_>, buffer: &mut Vec<u8>) -> Answer {
    match message {
        ToClient::StreamNames { names } => Answer::Names(names.into_iter().map(str::to_string).collect()),
        ToClient::Described { description } => {
            Answer::Described(convert::description(&description), description.symbols_total)
        }
        ToClient::Opened { file, len, identity } => Answer::Opened { file, len, identity },
        ToClient::Bytes { bytes } => {
            let mut buffer = std::mem::take(buffer);
            buffer.clear();
            buffer.extend_from_slice(bytes.0);
            Answer::Bytes(buffer)
        }
        ToClient::FileLenIs { len } => Answer::Len(len),
        ToClient::SymbolIds { ids } => Answer::Ids(ids),
        ToClient::Done { outcome } => Answer::Done(convert::from_wire(&outcome)),
        ToClient::Failed { failure } => Answer::Failed(convert::error(&failure)),
        other => {
            let what = format!("a frame of kind {} answers nothing", other.kind());
            Answer::Failed(Error::Protocol { what })
        }
    }
}
