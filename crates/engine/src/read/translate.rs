//! Converts batches of another version of the schema into the version with which a stream was opened.

use crate::error::{Error, Unreadable};
use crate::stream::reader::ReadContext;
use std::collections::VecDeque;
use tapedb_codec::batch::{self, BatchBuilder, BatchHeader, MAX_BATCH_BYTES, Rows};
use tapedb_codec::evolve::{Evolution, EvolveError};

/// A batch is closed at this length: converted bodies may be longer than the original ones.
const BYTES_MAX: usize = MAX_BATCH_BYTES / 4;

/// Whether the error for a message that has no counterpart is reported: by its time and sequence number, its symbol, and its type in
/// the version of the stream, if that has it.
pub(crate) type Reports<'a> = &'a mut dyn FnMut((i64, u64), u32, Option<u16>) -> bool;

/// Appends to `out` a whole, checked batch in the version of the stream, as one batch or several, with headers. Messages that
/// have no counterpart are left out, and reported where `reports` says so.
pub(crate) fn translate(
    (header, bytes): (&BatchHeader, &[u8]),
    context: ReadContext<'_>,
    out: &mut Vec<u8>,
    errors: &mut VecDeque<Error>,
    reports: Reports<'_>,
) {
    let evolution = match context.stream.evolution(header.schema_version) {
        Ok(evolution) => evolution,
        Err(error) => return errors.push_back(error),
    };
    let (mut rows, mut unfolded) = (Rows::default(), Vec::new());
    let loaded = match header.is_columnar() {
        false => rows.load_parsed(header, bytes),
        true => batch::to_rows(header, bytes, evolution.written(), &mut unfolded)
            .and_then(|header| rows.load_parsed(&header, &unfolded)),
    };
    let bytes = if header.is_columnar() { &unfolded } else { bytes };
    if let Err(error) = loaded {
        let error = tapedb_log::LogError::Batch(error);
        return errors.push_back(error.into());
    }
    let mut translator = Translator {
        evolution: &evolution,
        context,
        builder: BatchBuilder::new(),
        first_sequence: 0,
        body: Vec::new(),
    };
    for row in 0..rows.len() {
        let sequence = header.first_sequence + row as u64;
        let place = (rows.times()[row], rows.symbols()[row], rows.types()[row]);
        translator.push(sequence, place, &bytes[rows.body(row)], out, errors, reports);
    }
    translator.close(out);
}

struct Translator<'a> {
    evolution: &'a Evolution,
    context: ReadContext<'a>,
    builder: BatchBuilder,
    first_sequence: u64,
    body: Vec<u8>,
}

impl Translator<'_> {
    fn push(
        &mut self,
        sequence: u64,
        (time, symbol, type_id): (i64, u32, u16),
        body: &[u8],
        out: &mut Vec<u8>,
        errors: &mut VecDeque<Error>,
        reports: Reports<'_>,
    ) {
        self.body.clear();
        let converted = self.evolution.convert(type_id, body, &mut self.body);
        let pushed = match converted {
            Ok(type_id) => {
                if self.builder.is_empty() {
                    self.first_sequence = sequence;
                }
                self.builder.push_bytes(time, symbol, type_id, &self.body).map_err(Error::from)
            }
            Err(error) => Err(not_converted(self.context, sequence, error)),
        };
        if let Err(error) = pushed {
            let target = self.evolution.target(type_id);
            if !error.is_conversion() || reports((time, sequence), symbol, target) {
                errors.push_back(error);
            }
            // Sequence numbers in a batch have no hole.
            self.close(out);
        } else if self.builder.payload_bytes() >= BYTES_MAX {
            self.close(out);
        }
    }

    /// Ends the batch, if there is one.
    fn close(&mut self, out: &mut Vec<u8>) {
        let start = out.len();
        if self.builder.finish(self.context.stream.definition.schema_version, out) > 0 {
            // It has a header, so its length is valid.
            let _ = batch::assign_sequence(&mut out[start..], self.first_sequence);
        }
    }
}

/// A message that has no counterpart in the version of the stream.
pub(crate) fn not_converted(context: ReadContext<'_>, sequence: u64, error: EvolveError) -> Error {
    Error::Unreadable(Unreadable::Convert {
        stream: context.stream.name.as_str().into(),
        sequence,
        error: Box::new(error),
    })
}
