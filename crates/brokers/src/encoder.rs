//! Messages as records of a broker.

use crate::headers::{
    ENCODING, ROW, SCHEMA, SEQUENCE, SPACE, STREAM, STREAM_ID, SYMBOL, TIME, TYPE, id_text, schema_identity,
};
use std::str::FromStr;
use tapedb_engine::{Message, Stream};

/// What the value of a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Encoding {
    /// An object of JSON, as `tapedb read --output json` writes it.
    #[default]
    Json,
    /// The message's bytes as the stream stores them, for streams of the same schema.
    Row,
}

impl FromStr for Encoding {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "json" => Ok(Self::Json),
            ROW => Ok(Self::Row),
            _ => Err("give json or row".into()),
        }
    }
}

/// Makes records of the messages of one space of a stream.
#[derive(Debug)]
pub struct Encoder {
    encoding: Encoding,
    stream: String,
    id: String,
    space: u32,
    schema: String,
    record: Outgoing,
}

/// A record to be sent.
#[derive(Debug, Default)]
pub struct Outgoing {
    /// The message's symbol.
    pub symbol: String,
    /// Its value.
    pub value: Vec<u8>,
    /// Its time in nanoseconds since 1970.
    pub time: i64,
    /// Its sequence number.
    pub sequence: u64,
    /// Names and values of headers.
    pub headers: Vec<(&'static str, String)>,
}

impl Encoder {
    /// For a space of a stream.
    pub fn new(stream: &Stream, space: u32, encoding: Encoding) -> Self {
        Self {
            encoding,
            stream: stream.name().into(),
            id: id_text(stream.id()),
            space,
            schema: schema_identity(stream.schema()),
            record: Outgoing::default(),
        }
    }

    /// The record of a message.
    ///
    /// # Errors
    /// When the message cannot be decoded.
    pub fn encode(&mut self, message: &Message<'_>) -> Result<&Outgoing, tapedb_engine::Error> {
        let Self { encoding, stream, id, space, schema, record } = self;
        record.symbol.clear();
        record.symbol.push_str(message.symbol());
        (record.time, record.sequence) = (message.time().0, message.sequence());
        record.value.clear();
        record.headers.clear();
        record.headers.extend([
            (SEQUENCE, message.sequence().to_string()),
            (STREAM, stream.clone()),
            (STREAM_ID, id.clone()),
            (SPACE, space.to_string()),
            (TYPE, message.type_name().to_string()),
            (TIME, message.time().0.to_string()),
            (SYMBOL, message.symbol().to_string()),
        ]);
        match encoding {
            Encoding::Json => {
                message.record()?.write_message_json(message.symbol(), message.time(), &mut record.value)
            }
            Encoding::Row => {
                record.value.extend_from_slice(message.body());
                record.headers.extend([(ENCODING, ROW.to_string()), (SCHEMA, schema.clone())]);
            }
        }
        Ok(record)
    }
}
