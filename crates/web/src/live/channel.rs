//! Channels: what a tab subscribes to.

use crate::caller::Caller;
use crate::failure::Failure;
use crate::live::book::BookChannel;
use crate::live::play::{Play, PlayChannel};
use crate::live::rows::{StatusChannel, StreamsChannel};
use crate::live::tail::{Tail, TailChannel};
use crate::market::DEPTH_MAX;
use crate::state::Shared;
use serde::Deserialize;
use tapedb_access::{May, User};

/// A live channel.
pub(crate) trait Channel: Send {
    /// Its name in frames.
    fn name(&self) -> &'static str;

    /// Whether it is time to look at it.
    fn is_due(&self) -> bool {
        true
    }

    /// Writes what is new as JSON, if something is. It may read, so it is called where that is allowed.
    ///
    /// # Errors
    /// What ends the channel.
    fn look(&mut self, user: &User, out: &mut Vec<u8>) -> Result<bool, Failure>;

    /// It is paused, or goes on. While it is paused, it is not looked at.
    fn pause(&mut self, is_paused: bool) {
        let _ = is_paused;
    }
}

/// What the client subscribes to.
#[derive(Deserialize)]
#[serde(tag = "channel", rename_all = "lowercase")]
pub(crate) enum Subscribe {
    Tail(Tail),
    Streams,
    Status,
    Book { stream: String, symbol: String, depth: Option<usize> },
    Play(Play),
}

impl Subscribe {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Tail(_) => "tail",
            Self::Streams => "streams",
            Self::Status => "status",
            Self::Book { .. } => "book",
            Self::Play(_) => "play",
        }
    }

    /// Opens the channel: this may read.
    ///
    /// # Errors
    /// 404, 403, the engine's.
    pub fn open(self, state: &Shared, caller: &Caller) -> Result<Box<dyn Channel>, Failure> {
        Ok(match self {
            Self::Tail(tail) => Box::new(TailChannel::open(caller, tail)?),
            Self::Streams => Box::new(StreamsChannel::new(state)),
            Self::Status => Box::new(StatusChannel::new(state)),
            Self::Book { stream, symbol, depth } => {
                let depth = depth.unwrap_or(20).min(DEPTH_MAX);
                Box::new(BookChannel::open(state, caller, &stream, &symbol, depth)?)
            }
            Self::Play(play) => Box::new(PlayChannel::open(state, caller, play)?),
        })
    }
}

/// Checks that a user may still read a stream.
///
/// # Errors
/// 404.
pub(crate) fn check_read(user: &User, stream: &str) -> Result<(), Failure> {
    if user.may(May::Read, stream) { Ok(()) } else { Err(Failure::no_stream(stream)) }
}
