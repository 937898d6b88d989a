//! An IPC stream that comes in pieces, each of which is kept until it is decoded.

use crate::decoder::{Decoder, Error};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

/// The batches of a stream whose bytes come in pieces of any size.
#[derive(Debug, Default)]
pub struct Pieces {
    decoder: Decoder,
    piece: Vec<u8>,
    /// Bytes of the piece that are decoded.
    done: usize,
}

impl Pieces {
    /// The columns; `None`: they have not come yet.
    pub fn schema(&self) -> Option<SchemaRef> {
        self.decoder.schema()
    }

    /// The next batch of the piece; `None`: it has no more, and [`Pieces::take`] takes the next one.
    ///
    /// # Errors
    /// When the bytes are damaged, or beyond the limits.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>, Error> {
        let mut rest = &self.piece[self.done..];
        let before = rest.len();
        let decoded = self.decoder.decode(&mut rest);
        self.done += before - rest.len();
        decoded
    }

    /// Where the next piece goes: what is there has been decoded, and is removed.
    pub fn take(&mut self) -> &mut Vec<u8> {
        self.piece.clear();
        self.done = 0;
        &mut self.piece
    }

    /// Checks that the stream may end here.
    ///
    /// # Errors
    /// When it ends in the middle.
    pub fn finish(&self) -> Result<(), Error> {
        self.decoder.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::Int64Array;
    use arrow_ipc::writer::StreamWriter;
    use arrow_schema::{DataType, Field, Schema};
    use std::sync::Arc;

    #[test]
    fn pieces_of_any_size_have_the_same_batches() {
        let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
        let batch = |from: i64| {
            RecordBatch::try_new(schema.clone(), vec![Arc::new(Int64Array::from_iter_values(from..from + 5))])
                .unwrap()
        };
        let mut writer = StreamWriter::try_new(Vec::new(), &schema).unwrap();
        let batches = [batch(0), batch(5), batch(10)];
        batches.iter().for_each(|batch| writer.write(batch).unwrap());
        writer.finish().unwrap();
        let bytes = writer.into_inner().unwrap();
        for size in [1, 7, 100, bytes.len()] {
            let (mut pieces, mut found) = (Pieces::default(), Vec::new());
            for piece in bytes.chunks(size) {
                pieces.take().extend_from_slice(piece);
                while let Some(batch) = pieces.next_batch().unwrap() {
                    found.push(batch);
                }
            }
            pieces.finish().unwrap();
            assert_eq!((pieces.schema(), &found[..]), (Some(schema.clone()), &batches[..]), "{size}");
        }
        let mut half = Pieces::default();
        half.take().extend_from_slice(&bytes[..bytes.len() / 2]);
        while half.next_batch().unwrap().is_some() {}
        assert!(half.finish().is_err());
    }
}
