//! What a tab subscribes to, and its channels.

use crate::caller::Caller;
use crate::failure::Failure;
use crate::live::book::BookChannel;
use crate::live::channel::Channel;
use crate::live::play::{Play, PlayChannel};
use crate::live::rows::{StatusChannel, StreamsChannel};
use crate::live::tail::{Tail, TailChannel};
use crate::market::DEPTH_MAX;
use crate::state::Shared;
use serde::Deserialize;

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
