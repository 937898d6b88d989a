//! Rows that clients send: each message is bounded in what it may state, whatever it claims.

use crate::status::status;
use arrow_flight::FlightData;
use tapedb_arrow_ipc::{Decoder, Limits};
use tapedb_query::arrow::array::RecordBatch;
use tonic::{Code, Status};

/// Bytes of a message's head.
const HEAD_BYTES_MAX: usize = 16 << 20;
/// Bytes of a message's body, and of all arrays that it becomes.
const BODY_BYTES_MAX: usize = 64 << 20;
const EXPANDED_BYTES_MAX: usize = 256 << 20;
/// What begins a message of a stream.
const CONTINUATION: [u8; 4] = [0xff; 4];

/// Reads rows from messages.
#[derive(Debug)]
pub(crate) struct Received {
    decoder: Decoder,
    bytes: Vec<u8>,
}

impl Received {
    /// For messages with so many rows at most.
    pub fn new(rows_max: usize) -> Self {
        let limits = Limits {
            metadata_bytes_max: HEAD_BYTES_MAX,
            body_bytes_max: BODY_BYTES_MAX,
            rows_max,
            expanded_bytes_max: EXPANDED_BYTES_MAX,
        };
        Self { decoder: Decoder::new(limits), bytes: Vec::new() }
    }

    /// The rows of a message; `None`: it has none, as the schema.
    ///
    /// # Errors
    /// When it is not Arrow's format, or states more than is allowed.
    pub fn rows(&mut self, message: &FlightData) -> Result<Option<RecordBatch>, Status> {
        let invalid = |what: String| {
            status(Code::InvalidArgument, format!("the rows are not Arrow's IPC format: {what}"))
        };
        let (head, body) = (&message.data_header, &message.data_body);
        if head.is_empty() {
            return match body.is_empty() {
                // Only metadata of the client.
                true => Ok(None),
                false => Err(invalid("a body without a head".into())),
            };
        }
        // As it would lie in a stream.
        let length = head.len().next_multiple_of(8);
        let stated = i32::try_from(length).map_err(|_| invalid("a head that is too long".into()))?;
        self.bytes.clear();
        self.bytes.extend(CONTINUATION);
        self.bytes.extend(stated.to_le_bytes());
        self.bytes.extend(&head[..]);
        self.bytes.resize(8 + length, 0);
        self.bytes.extend(&body[..]);
        let mut rest = &self.bytes[..];
        let mut found = None;
        while !rest.is_empty() {
            let batch = self.decoder.decode(&mut rest).map_err(|error| invalid(error.to_string()))?;
            if batch.is_some() && found.is_some() {
                return Err(invalid("two batches in one message".into()));
            }
            found = batch.or(found);
        }
        if self.decoder.pending() > 0 {
            return Err(invalid("a body that is shorter than its head states".into()));
        }
        Ok(found)
    }
}
