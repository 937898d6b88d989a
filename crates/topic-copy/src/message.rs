//! One message type for streams and topics.

use crate::error::CopyError;
use tapedb_codec::Record;
use tapedb_codec::dynamic::RecordRef;
use tapedb_engine::Message;
use tapedb_schema::Timestamp;
use tapedb_topic::TopicMessage;

/// A message of a stream or a topic: valid until its cursor moves on.
#[derive(Debug, Clone, Copy)]
pub enum AnyMessage<'a> {
    /// From a stream.
    Stream(Message<'a>),
    /// From a topic.
    Topic(TopicMessage<'a>),
}

macro_rules! either {
    ($self:ident, $message:ident => $get:expr) => {
        match $self {
            Self::Stream($message) => $get,
            Self::Topic($message) => $get,
        }
    };
}

impl<'a> AnyMessage<'a> {
    /// Time.
    #[inline]
    pub fn time(&self) -> Timestamp {
        either!(self, message => message.time())
    }

    /// Symbol.
    #[inline]
    pub fn symbol(&self) -> &'a str {
        either!(self, message => message.symbol())
    }

    /// Sequence number, in its stream or in its topic.
    #[inline]
    pub fn sequence(&self) -> u64 {
        either!(self, message => message.sequence())
    }

    /// Index of the record type in the schema.
    #[inline]
    pub fn type_id(&self) -> u16 {
        either!(self, message => message.type_id())
    }

    /// Name of the record type.
    pub fn type_name(&self) -> &'a str {
        either!(self, message => message.type_name())
    }

    /// The body in its bytes. Not validated.
    #[inline]
    pub fn body(&self) -> &'a [u8] {
        either!(self, message => message.body())
    }

    /// The record, if it is a `T`, of any version.
    ///
    /// # Errors
    /// As [`Message::decode`] and [`TopicMessage::decode`].
    #[inline]
    pub fn decode<T: Record + 'static>(&self) -> Result<T, CopyError> {
        Ok(either!(self, message => message.decode()?))
    }

    /// Replaces `value` by the record, if it is a `T`, reusing what `value` has allocated.
    ///
    /// # Errors
    /// As [`AnyMessage::decode`].
    #[inline]
    pub fn decode_into<T: Record + 'static>(&self, value: &mut T) -> Result<(), CopyError> {
        either!(self, message => message.decode_into(value)?);
        Ok(())
    }

    /// Validates the record, if it is a `T`, and reads it in place.
    ///
    /// # Errors
    /// As [`Message::view`] and [`TopicMessage::view`].
    #[inline]
    pub fn view<T: Record + 'static>(&self) -> Result<T::View<'a>, CopyError> {
        Ok(either!(self, message => message.view::<T>()?))
    }

    /// Validates the record, of any type, and reads it in place.
    ///
    /// # Errors
    /// When the bytes are damaged.
    pub fn record(&self) -> Result<RecordRef<'a>, CopyError> {
        Ok(either!(self, message => message.record()?))
    }
}
