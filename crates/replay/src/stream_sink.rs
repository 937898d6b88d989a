//! Into streams.

use crate::error::ReplayError;
use crate::sink::{Delivery, Sink, check_types};
use tapedb_engine::{Loader, Message, Stream};

/// Appends messages to streams, with their own times and symbols. They are sent together, before the replay waits; what is sent is
/// acknowledged at a pause and at the end.
#[derive(Debug)]
pub struct StreamSink {
    loaders: Vec<Loader>,
    /// Names of streams that are replayed, and the loader of each.
    routes: Vec<(String, usize)>,
    /// The route of the last message.
    last: usize,
}

impl StreamSink {
    /// A sink of messages of all of `streams` into `target`.
    ///
    /// # Errors
    /// [`ReplayError::OtherTypes`], [`ReplayError::Itself`]; the engine's, when the stream cannot be written.
    pub fn new(target: &Stream, streams: &[Stream]) -> Result<Self, ReplayError> {
        check(target, streams)?;
        let routes = streams.iter().map(|stream| (stream.name().to_string(), 0)).collect();
        Ok(Self { loaders: vec![target.loader()?], routes, last: 0 })
    }

    /// A sink of messages of each stream into a target of its own: the first of each pair into the second.
    ///
    /// # Errors
    /// As [`StreamSink::new`].
    pub fn each(pairs: &[(Stream, Stream)]) -> Result<Self, ReplayError> {
        let mut sink = Self { loaders: Vec::new(), routes: Vec::new(), last: 0 };
        for (stream, target) in pairs {
            check(target, std::slice::from_ref(stream))?;
            sink.routes.push((stream.name().to_string(), sink.loaders.len()));
            sink.loaders.push(target.loader()?);
        }
        Ok(sink)
    }

    #[inline]
    fn loader_of(&mut self, stream: &str) -> Option<&mut Loader> {
        if self.routes.get(self.last).is_none_or(|route| route.0 != stream) {
            self.last = self.routes.iter().position(|route| route.0 == stream)?;
        }
        self.loaders.get_mut(self.routes[self.last].1)
    }
}

impl Sink for StreamSink {
    #[inline]
    fn deliver(&mut self, message: &Message<'_>) -> Result<Delivery, ReplayError> {
        let stream = message.stream_name();
        let Some(loader) = self.loader_of(stream) else {
            return Err(ReplayError::NoRoute { stream: stream.into() });
        };
        loader.append_body(message.symbol(), message.time(), message.type_id(), message.body())?;
        Ok(Delivery::Taken)
    }

    fn send(&mut self) -> Result<(), ReplayError> {
        for loader in &mut self.loaders {
            loader.send()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), ReplayError> {
        for loader in &mut self.loaders {
            loader.flush()?;
        }
        Ok(())
    }
}

/// Proves that a target can hold what the streams have, and is none of them.
fn check(target: &Stream, streams: &[Stream]) -> Result<(), ReplayError> {
    // Also where the same database is reached in another way, and in a copy of it.
    let is_target = |stream: &&Stream| (stream.name(), stream.created()) == (target.name(), target.created());
    match streams.iter().find(is_target) {
        Some(stream) => Err(ReplayError::Itself { stream: stream.name().into() }),
        None => check_types(target.name(), target.schema(), streams),
    }
}
