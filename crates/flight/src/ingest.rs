//! Rows that clients upload: messages of a stream that exists, or of one that is created for them.
//!
//! Always true: an upload whose rows have at most [`PIECE_BYTES`] is stored whole or not at all; a longer one in pieces of that, each
//! checked before any of it is stored. A client that leaves before its end leaves nothing of the last piece.

use crate::caller::Caller;
use crate::received::Received;
use crate::shared::{Shared, SharedState};
use crate::status::{internal, shutting_down, status, unsupported};
use arrow_flight::FlightData;
use arrow_flight::sql::{CommandStatementIngest, TableExistsOption, TableNotExistOption};
use std::sync::atomic::Ordering;
use tapedb_access::May;
use tapedb_arrow::{AppendOptions, BatchAppender, schema_text};
use tapedb_engine::{Error as EngineError, Stream};
use tapedb_query::arrow::array::RecordBatch;
use tapedb_query::arrow::datatypes::Schema;
use tonic::{Code, Status};

/// Bytes of rows that are checked before any of them is stored.
const PIECE_BYTES: usize = 64 << 20;
/// Rows of one message.
pub(crate) const ROWS_MAX: usize = 4 << 20;

/// Columns of the header, which are no fields.
const HEADER: [&str; 2] = ["time", "symbol"];

/// Where rows go.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    stream: String,
    /// `None`: the only message type of the stream, or the one with the stream's name.
    record: Option<String>,
    may_create: bool,
    may_append: bool,
}

impl Target {
    /// # Errors
    /// For what is not supported.
    pub fn of(asked: &CommandStatementIngest) -> Result<Self, Status> {
        if asked.temporary {
            return Err(unsupported("temporary tables are not supported; name a stream"));
        }
        if asked.transaction_id.is_some() {
            return Err(unsupported("transactions are not supported; rows are stored when the upload ends"));
        }
        if asked.catalog.as_deref().is_some_and(|catalog| !matches!(catalog, "" | "tapedb")) {
            return Err(status(Code::NotFound, "the only catalogue is tapedb"));
        }
        let definition = asked.table_definition_options.unwrap_or_default();
        if definition.if_exists() == TableExistsOption::Replace {
            return Err(unsupported("streams are not replaced; delete the stream first, or append to it"));
        }
        let schema = asked.schema.clone().filter(|schema| !schema.is_empty());
        let (stream, record) = match schema {
            Some(stream) => (stream, Some(asked.table.clone())),
            None => (asked.table.clone(), None),
        };
        Ok(Self {
            stream,
            record,
            may_create: definition.if_not_exist() == TableNotExistOption::Create,
            may_append: definition.if_exists() != TableExistsOption::Fail,
        })
    }
}

/// What arrives of an upload.
#[derive(Debug)]
pub(crate) enum Piece {
    Message(FlightData),
    /// The client has sent all.
    End,
    /// Nothing more arrives.
    Failed(Status),
}

/// Stores an upload. `next` waits for what arrives; `None`: the client has left.
///
/// # Errors
/// When rows cannot be stored; the text states how many are.
pub(crate) fn store(
    shared: &Shared,
    caller: &Caller,
    target: Target,
    mut next: impl FnMut() -> Option<Piece>,
) -> Result<i64, Status> {
    let mut upload = Upload {
        shared,
        caller,
        target,
        received: Received::new(ROWS_MAX),
        writer: None,
        waiting: Vec::new(),
        waiting_bytes: 0,
        last: None,
    };
    let failed = loop {
        let piece = match next() {
            Some(_) if shared.is_stopping.load(Ordering::Acquire) => break shutting_down(),
            Some(piece) => piece,
            None => break status(Code::Cancelled, "the client has left"),
        };
        let done = match piece {
            Piece::Message(message) => upload.take(&message),
            Piece::Failed(failure) => Err(failure),
            Piece::End => match upload.finish() {
                Ok(()) => return Ok(upload.stored() as i64),
                Err(failure) => Err(failure),
            },
        };
        if let Err(failure) = done {
            break failure;
        }
    };
    upload.discard();
    let text = match upload.stored() {
        0 => format!("{}; no row was stored", failed.message()),
        stored => format!("{}; {stored} rows before it are stored", failed.message()),
    };
    Err(status(failed.code(), text))
}

struct Upload<'a> {
    shared: &'a SharedState,
    caller: &'a Caller,
    target: Target,
    received: Received,
    writer: Option<BatchAppender>,
    /// Batches that are checked and not stored.
    waiting: Vec<RecordBatch>,
    waiting_bytes: usize,
    /// Latest time of the checked batches.
    last: Option<i64>,
}

impl Upload<'_> {
    fn take(&mut self, message: &FlightData) -> Result<(), Status> {
        let Some(batch) = self.received.rows(message)? else { return Ok(()) };
        let writer = match &mut self.writer {
            Some(writer) => writer,
            none => {
                let stream = open(self.shared, self.caller, &self.target, &batch.schema())?;
                none.insert(appender(&stream, &self.target)?)
            }
        };
        self.last = writer.check(&batch, self.last).map_err(|error| of_rows(&error))?;
        self.waiting_bytes += batch.get_array_memory_size();
        self.waiting.push(batch);
        if self.waiting_bytes >= PIECE_BYTES { self.append() } else { Ok(()) }
    }

    fn finish(&mut self) -> Result<(), Status> {
        self.append()
    }

    fn append(&mut self) -> Result<(), Status> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        let user = self.caller.present()?;
        if !user.may(May::Write, &self.target.stream) && !self.target.may_create {
            return Err(denied(&user.name, &self.target.stream));
        }
        let before = writer.loader().stored();
        for batch in self.waiting.drain(..) {
            writer.append(&batch).map_err(|error| of_rows(&error))?;
        }
        writer.flush().map_err(|error| of_rows(&error))?;
        self.waiting_bytes = 0;
        self.shared.rows_stored.fetch_add(writer.loader().stored() - before, Ordering::Relaxed);
        Ok(())
    }

    fn discard(&mut self) {
        if let Some(writer) = &mut self.writer {
            writer.loader().discard();
        }
    }

    /// Rows that are stored: on a full disk, also the first ones of a piece.
    fn stored(&mut self) -> u64 {
        self.writer.as_mut().map_or(0, |writer| writer.loader().stored())
    }
}

fn denied(user: &str, stream: &str) -> Status {
    // Whether there is a stream is nothing that every user may see.
    status(Code::PermissionDenied, format!("user {user:?} may not write stream {stream:?}, or there is none"))
}

/// The stream, which is created if that is asked for and allowed.
fn open(shared: &SharedState, caller: &Caller, target: &Target, columns: &Schema) -> Result<Stream, Status> {
    let (user, name) = (caller.present()?, &target.stream);
    let database = &shared.options.database;
    match database.stream(name) {
        Ok(stream) => {
            if !user.may(May::Write, name) {
                return Err(denied(&user.name, name));
            }
            if !target.may_append {
                return Err(status(
                    Code::AlreadyExists,
                    format!("there is a stream {name:?} already; append to it"),
                ));
            }
            Ok(stream)
        }
        Err(EngineError::NotFound(_)) => {
            if !user.may(May::Create, name) {
                return Err(denied(&user.name, name));
            }
            if !target.may_create {
                let text = format!(
                    "there is no stream {name:?}; create it first, or upload with the option to create it"
                );
                return Err(status(Code::NotFound, text));
            }
            create(shared, caller, target, columns)
        }
        Err(error) => Err(of_engine(&error)),
    }
}

fn create(
    shared: &SharedState,
    caller: &Caller,
    target: &Target,
    columns: &Schema,
) -> Result<Stream, Status> {
    let name = &target.stream;
    let record = target.record.clone().unwrap_or_else(|| record_name(name));
    let text = schema_text(columns, &record, &HEADER).map_err(|error| of_rows(&error))?;
    let invalid = |error: String| {
        let text = format!("the columns are no fields of a stream: {error}; rename them");
        status(Code::InvalidArgument, text)
    };
    let schema: tapedb_schema::Schema = text.parse().map_err(|error| invalid(format!("{error}")))?;
    let created = shared.options.database.create_stream(name, schema, shared.options.stream);
    let stream = created.map_err(|error| of_engine(&error))?;
    caller.audit(shared, "create", name);
    Ok(stream)
}

/// The name of a stream as the name of a message type.
fn record_name(stream: &str) -> String {
    let letters = stream.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' });
    let name: String = letters.collect();
    match name.bytes().next() {
        Some(first) if first.is_ascii_alphabetic() || first == b'_' => name,
        _ => format!("_{name}"),
    }
}

fn appender(stream: &Stream, target: &Target) -> Result<BatchAppender, Status> {
    let named = target.record.clone().or_else(|| {
        // Where there are several, the one of the stream's name.
        let name = record_name(stream.name());
        let messages = || stream.schema().records.iter().filter(|record| record.message);
        (messages().count() > 1 && messages().any(|record| record.name == name)).then_some(name)
    });
    let loader = stream.loader().map_err(|error| of_engine(&error))?;
    let options = AppendOptions { record: named, naive_is_utc: true };
    BatchAppender::new(stream, loader, options).map_err(|error| of_rows(&error))
}

fn of_rows(error: &tapedb_arrow::Error) -> Status {
    match error {
        tapedb_arrow::Error::Engine(error) => of_engine(error),
        tapedb_arrow::Error::Arrow(error) => internal(error),
        error => status(Code::InvalidArgument, error.to_string()),
    }
}

fn of_engine(error: &EngineError) -> Status {
    let code = match error {
        EngineError::Invalid(_) | EngineError::Rejected(_) => Code::InvalidArgument,
        EngineError::NotFound(_) => Code::NotFound,
        _ => Code::Internal,
    };
    status(code, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_streams_become_names_of_types() {
        for (stream, record) in
            [("bars", "bars"), ("us.bars/1", "us_bars_1"), ("1m", "_1m"), ("ü", "_"), ("", "_")]
        {
            assert_eq!(record_name(stream), record);
        }
    }
}
