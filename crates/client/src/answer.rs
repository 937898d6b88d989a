//! Answers to requests.

use crate::convert;
use crate::notifier::{Notifier, locked};
use crate::receiver::Receiver;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use tapedb_codes::error;
use tapedb_engine::{ConnectionError, Description, Error};
use tapedb_wire::{Coded, ToClient, WireError};

/// An answer, without borrowed data.
#[derive(Debug)]
pub(crate) enum Answer {
    Names(Vec<String>),
    /// With the number of symbols.
    Described(Description, u32),
    Opened {
        file: u32,
        len: u64,
        identity: (u64, u64),
    },
    Bytes(Vec<u8>),
    Len(u64),
    Ids(Vec<u32>),
    Done(Coded),
    Failed(Error),
}

/// Receives one answer; the requesting thread takes it.
#[derive(Debug)]
pub(crate) struct PendingAnswer {
    is_done: AtomicBool,
    state: Mutex<State>,
    notifier: Notifier,
}

#[derive(Debug)]
struct State {
    /// Receives bytes.
    buffer: Vec<u8>,
    answer: Option<Answer>,
}

impl PendingAnswer {
    /// The buffer is reused for an answer of bytes.
    pub fn new(buffer: Vec<u8>) -> Self {
        let state = State { buffer, answer: None };
        Self { is_done: AtomicBool::new(false), state: Mutex::new(state), notifier: Notifier::default() }
    }

    pub fn notifier(&self) -> &Notifier {
        &self.notifier
    }

    /// Whether the answer has arrived, or the connection was lost.
    pub fn is_done(&self) -> bool {
        self.is_done.load(Ordering::Acquire)
    }

    /// Takes the answer; `None`: the connection was lost.
    pub fn take(&self) -> Option<Answer> {
        locked(&self.state).answer.take()
    }

    fn finish(&self) {
        self.is_done.store(true, Ordering::Release);
        self.notifier.notify_all();
    }
}

impl Receiver for PendingAnswer {
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

/// The session lets only messages through that answer the request.
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
        ToClient::Done { outcome } => Answer::Done(outcome),
        ToClient::Failed { failure } => Answer::Failed(error::from_coded(&failure)),
        other => {
            let what = format!("a frame of kind {} is not an answer", other.kind());
            Answer::Failed(Error::Connection(ConnectionError::Protocol { what }))
        }
    }
}
