//! Opens an Arrow IPC stream or IPC file, and reads its rows as record batches.

use crate::error::Error;
use crate::origin::Origin;
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use tapedb_arrow_ipc::Decoder;

/// Bytes read at once.
const CHUNK_BYTES: usize = 256 << 10;

/// A file whose schema has been read. It is open only while rows are read, from its first byte to its last: the footer of an IPC file is not
/// needed.
#[derive(Debug, Clone)]
pub struct IpcFile {
    path: PathBuf,
    bytes: u64,
    schema: SchemaRef,
    origin: Option<Origin>,
}

impl IpcFile {
    /// Reads the schema.
    ///
    /// # Errors
    /// When it is not Arrow's IPC format, or damaged.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let mut batches = IpcBatches::open(path)?;
        let bytes = batches.file.metadata().map_err(|error| Error::new(path, error))?.len();
        let schema = batches.schema()?;
        let origin = Origin::of_metadata(schema.metadata());
        Ok(Self { path: path.into(), bytes, schema, origin })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The stream that it was exported from; `None`: it comes from elsewhere.
    pub fn origin(&self) -> Option<&Origin> {
        self.origin.as_ref()
    }

    /// Opens the file to read its rows.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn batches(&self) -> Result<IpcBatches, Error> {
        IpcBatches::open(&self.path)
    }
}

/// The rows of a file as record batches, in their order. After an error there is nothing more.
#[derive(Debug)]
pub struct IpcBatches {
    path: PathBuf,
    file: File,
    decoder: Decoder,
    chunk: Vec<u8>,
    /// Where the bytes of `chunk` begin and end that are not decoded.
    rest: (usize, usize),
    taken: u64,
    is_over: bool,
}

impl IpcBatches {
    fn open(path: &Path) -> Result<Self, Error> {
        let file = File::open(path).map_err(|error| Error::new(path, format!("cannot open: {error}")))?;
        let (decoder, chunk) = (Decoder::default(), vec![0; CHUNK_BYTES]);
        Ok(Self { path: path.into(), file, decoder, chunk, rest: (0, 0), taken: 0, is_over: false })
    }

    /// Bytes of the file that are decoded.
    pub fn bytes(&self) -> u64 {
        self.taken
    }

    /// The schema. Rows that are read on the way are lost.
    fn schema(&mut self) -> Result<SchemaRef, Error> {
        loop {
            let found = self.decode()?;
            if let Some(schema) = self.decoder.schema() {
                return Ok(schema);
            }
            if found.is_none() && !self.fill()? {
                return Err(self.error(&"there is no schema"));
            }
        }
    }

    /// The next batch in the bytes that have been read.
    fn decode(&mut self) -> Result<Option<RecordBatch>, Error> {
        let (start, end) = self.rest;
        let mut bytes = &self.chunk[start..end];
        let decoded = self.decoder.decode(&mut bytes);
        self.rest.0 = end - bytes.len();
        self.taken += (self.rest.0 - start) as u64;
        decoded.map_err(|error| self.error(&error))
    }

    /// Reads more; `false`: the file ends, as it should.
    fn fill(&mut self) -> Result<bool, Error> {
        let count = self.file.read(&mut self.chunk).map_err(|error| self.error(&error))?;
        self.rest = (0, count);
        if count == 0 {
            self.decoder.finish().map_err(|error| self.error(&error))?;
        }
        Ok(count > 0)
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>, Error> {
        loop {
            if let Some(batch) = self.decode()? {
                return Ok(Some(batch));
            }
            if !self.fill()? {
                return Ok(None);
            }
        }
    }

    fn error(&self, what: &dyn std::fmt::Display) -> Error {
        Error::new(&self.path, what)
    }
}

impl Iterator for IpcBatches {
    type Item = Result<RecordBatch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let batch = self.next_batch().transpose();
        self.is_over = !matches!(batch, Some(Ok(_)));
        batch
    }
}
