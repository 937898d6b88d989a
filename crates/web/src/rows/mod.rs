//! Rows of queries: what comes as an Arrow IPC stream, in the format that is asked for.

mod csv;
mod json;
mod parameters;

pub(crate) use parameters::parameters;

use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamDecoder;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, SchemaRef};
use serde::Deserialize;
use std::io::Write;
use std::time::Instant;

/// A format of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Format {
    /// An Arrow IPC stream.
    Arrow,
    /// Values with commas between them, after a line with names.
    Csv,
    /// An array of objects.
    #[default]
    Json,
    /// An object on each line.
    Jsonl,
    /// One object with columns, and rows as arrays: for the console.
    Table,
}

impl Format {
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Arrow => "application/vnd.apache.arrow.stream",
            Self::Csv => "text/csv; charset=utf-8; header=present",
            Self::Json | Self::Table => "application/json",
            Self::Jsonl => "application/jsonl",
        }
    }
}

/// Writes the rows of one query.
pub(crate) struct RowWriter {
    format: Format,
    /// Rows that may still be written.
    left: Option<u64>,
    began: Instant,
    decoder: StreamDecoder,
    schema: Option<SchemaRef>,
    rows: u64,
    is_truncated: bool,
    /// For Arrow with a limit.
    arrow: Option<StreamWriter<Vec<u8>>>,
}

impl RowWriter {
    pub fn new(format: Format, limit: Option<u64>, began: Instant) -> Self {
        Self {
            format,
            left: limit,
            began,
            decoder: StreamDecoder::new(),
            schema: None,
            rows: 0,
            is_truncated: false,
            arrow: None,
        }
    }

    /// Takes bytes of an Arrow IPC stream, and appends rows; whether the limit is reached.
    ///
    /// # Errors
    /// Bytes that are no such stream: a defect.
    pub fn write(&mut self, bytes: Vec<u8>, out: &mut Vec<u8>) -> Result<bool, String> {
        if self.format == Format::Arrow && self.left.is_none() {
            out.extend_from_slice(&bytes);
            return Ok(false);
        }
        self.decode(bytes, out).map_err(|error| format!("the rows cannot be written: {error}"))
    }

    fn decode(&mut self, bytes: Vec<u8>, out: &mut Vec<u8>) -> Result<bool, ArrowError> {
        let mut buffer = bytes.into();
        loop {
            let batch = self.decoder.decode(&mut buffer)?;
            if self.schema.is_none()
                && let Some(schema) = self.decoder.schema()
            {
                self.head(&schema, out)?;
                self.schema = Some(schema);
            }
            let Some(batch) = batch else { return Ok(false) };
            let mut batch = batch;
            if let Some(left) = &mut self.left {
                let taken = (batch.num_rows() as u64).min(*left);
                self.is_truncated |= taken < batch.num_rows() as u64;
                batch = batch.slice(0, taken as usize);
                // One row more tells whether there are more.
                if self.is_truncated {
                    *left = 0;
                    self.body(&batch, out)?;
                    return Ok(true);
                }
                *left -= taken;
            }
            self.body(&batch, out)?;
        }
    }

    fn head(&mut self, schema: &SchemaRef, out: &mut Vec<u8>) -> Result<(), ArrowError> {
        match self.format {
            Format::Arrow => self.arrow = Some(StreamWriter::try_new(Vec::new(), schema)?),
            Format::Csv => csv::head(schema, out),
            Format::Json => out.push(b'['),
            Format::Jsonl => {}
            Format::Table => json::head(schema, out),
        }
        Ok(())
    }

    fn body(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), ArrowError> {
        match self.format {
            Format::Arrow => {
                if let Some(writer) = &mut self.arrow {
                    writer.write(batch)?;
                    out.append(writer.get_mut());
                }
            }
            Format::Csv => csv::rows(batch, out)?,
            Format::Json => json::objects(batch, self.rows > 0, b",\n", out)?,
            Format::Jsonl => {
                json::objects(batch, false, b"\n", out)?;
                if batch.num_rows() > 0 {
                    out.push(b'\n');
                }
            }
            Format::Table => json::arrays(batch, self.rows > 0, out)?,
        }
        self.rows += batch.num_rows() as u64;
        Ok(())
    }

    /// Appends the end.
    ///
    /// # Errors
    /// As [`RowWriter::write`].
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), String> {
        match (self.format, &self.schema) {
            (Format::Arrow, _) => {
                if let Some(writer) = &mut self.arrow {
                    writer.finish().map_err(|error| error.to_string())?;
                    out.append(writer.get_mut());
                }
            }
            (Format::Json, Some(_)) => out.extend_from_slice(b"]\n"),
            (Format::Json, None) => out.extend_from_slice(b"[]\n"),
            (Format::Table, schema) => {
                if schema.is_none() {
                    out.extend_from_slice(b"{\"columns\":[],\"rows\":[");
                }
                let milliseconds = self.began.elapsed().as_millis();
                let (rows, is_truncated) = (self.rows, self.is_truncated);
                // A vector takes every write.
                let _ = writeln!(
                    out,
                    "],\"count\":{rows},\"truncated\":{is_truncated},\"milliseconds\":{milliseconds}}}"
                );
            }
            (Format::Csv | Format::Jsonl, _) => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
