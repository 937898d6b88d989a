//! Into a topic.

use crate::error::ReplayError;
use crate::sink::{Delivery, Sink, check_types};
use std::time::Duration;
use tapedb_engine::{Message, Stream};
use tapedb_topic::{Publisher, Sent, Topic};

/// How long a full topic is waited for before the replay obeys commands.
const WAIT: Duration = Duration::from_millis(50);

/// Publishes messages to a topic: each is visible at once. A reliable topic that is full slows the replay down.
#[derive(Debug)]
pub struct TopicSink {
    publisher: Publisher,
}

impl TopicSink {
    /// A sink into `topic`, for messages of `streams`.
    ///
    /// # Errors
    /// [`ReplayError::OtherTypes`]; the topic's, when it has no place for a publisher.
    pub fn new(topic: &Topic, streams: &[Stream]) -> Result<Self, ReplayError> {
        check_types(topic.name(), topic.schema(), streams)?;
        let mut publisher = topic.publisher()?;
        publisher.set_timeout(WAIT);
        Ok(Self { publisher })
    }
}

impl Sink for TopicSink {
    #[inline]
    fn deliver(&mut self, message: &Message<'_>) -> Result<Delivery, ReplayError> {
        let (symbol, time) = (message.symbol(), message.time());
        Ok(match self.publisher.publish_body(symbol, time, message.type_id(), message.body())? {
            Sent::Published { .. } => Delivery::Taken,
            Sent::BackPressured(_) => Delivery::Busy,
        })
    }
}
