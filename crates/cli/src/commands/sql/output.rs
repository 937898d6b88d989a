//! Rows as tables, csv, JSON and Arrow.

use clap::ValueEnum;
use tapedb_query::arrow::array::RecordBatch;
use tapedb_query::arrow::csv;
use tapedb_query::arrow::datatypes::SchemaRef;
use tapedb_query::arrow::ipc::writer::StreamWriter;
use tapedb_query::arrow::json::LineDelimitedWriter;
use tapedb_query::arrow::util::display::FormatOptions;
use tapedb_query::arrow::util::pretty::pretty_format_batches_with_options;
use tapedb_terminal::{Failure, ui};

/// How rows are printed.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A table for people
    Table,
    /// A line for each row, with the names of the columns in the first one
    Csv,
    /// A JSON object for each row
    Json,
    /// An Arrow IPC stream, for example for Polars or pyarrow
    Arrow,
}

impl Form {
    /// The format that a file's extension implies.
    pub fn of_name(extension: &str) -> Option<Self> {
        match extension.to_ascii_lowercase().as_str() {
            "csv" => Some(Self::Csv),
            "json" | "jsonl" | "ndjson" => Some(Self::Json),
            "arrow" | "arrows" => Some(Self::Arrow),
            "txt" => Some(Self::Table),
            _ => None,
        }
    }
}

/// Writes the rows of one query.
pub enum Writer {
    /// The batches that are shown, how many rows may still be, and how many there were in all.
    Table {
        schema: SchemaRef,
        shown: Vec<RecordBatch>,
        left: u64,
        rows: u64,
    },
    /// Whether names of columns come first, and nothing has been written.
    Csv {
        schema: SchemaRef,
        header: bool,
    },
    Json,
    Arrow(Box<StreamWriter<Vec<u8>>>),
}

impl Writer {
    /// A writer of rows with these columns.
    ///
    /// # Errors
    /// When Arrow's format has no such columns.
    pub fn new(form: Form, schema: &SchemaRef, table_rows: u64, header: bool) -> Result<Self, Failure> {
        let schema = schema.clone();
        Ok(match form {
            Form::Table => Self::Table { schema, shown: Vec::new(), left: table_rows, rows: 0 },
            Form::Csv => Self::Csv { schema, header },
            Form::Json => Self::Json,
            Form::Arrow => Self::Arrow(Box::new(StreamWriter::try_new(Vec::new(), &schema).map_err(failed)?)),
        })
    }

    /// Appends rows.
    ///
    /// # Errors
    /// When a value has no form in the format.
    pub fn write(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), Failure> {
        match self {
            Self::Table { shown, left, rows, .. } => {
                *rows += batch.num_rows() as u64;
                let taken = (batch.num_rows() as u64).min(*left);
                *left -= taken;
                if taken > 0 {
                    shown.push(batch.slice(0, taken as usize));
                }
            }
            Self::Csv { header, .. } => {
                csv_writer(out, std::mem::take(header)).write(batch).map_err(failed)?;
            }
            Self::Json => {
                let mut lines = LineDelimitedWriter::new(out);
                lines.write(batch).and_then(|()| lines.finish()).map_err(failed)?;
            }
            Self::Arrow(writer) => {
                writer.write(batch).map_err(failed)?;
                out.append(writer.get_mut());
            }
        }
        Ok(())
    }

    /// Appends what ends the output.
    ///
    /// # Errors
    /// As [`Writer::write`].
    pub fn finish(self, out: &mut Vec<u8>) -> Result<(), Failure> {
        match self {
            Self::Table { schema, shown, rows, .. } => {
                let first = RecordBatch::new_empty(schema);
                let batches: Vec<RecordBatch> = std::iter::once(first).chain(shown).collect();
                let options = FormatOptions::default().with_null("NULL");
                let table = pretty_format_batches_with_options(&batches, &options).map_err(failed)?;
                let shown: u64 = batches.iter().map(|batch| batch.num_rows() as u64).sum();
                out.extend_from_slice(table.to_string().as_bytes());
                let (rows_text, noun) = (ui::thousands(rows), if rows == 1 { "row" } else { "rows" });
                let line = match rows - shown {
                    0 => format!("\n{rows_text} {noun}\n"),
                    _ => format!(
                        "\n{rows_text} {noun}, of which the first {} are shown; --output csv prints all\n",
                        ui::thousands(shown)
                    ),
                };
                out.extend_from_slice(line.as_bytes());
            }
            Self::Csv { schema, header: true } => {
                csv_writer(out, true).write(&RecordBatch::new_empty(schema)).map_err(failed)?;
            }
            Self::Csv { .. } | Self::Json => {}
            Self::Arrow(mut writer) => {
                writer.finish().map_err(failed)?;
                out.append(writer.get_mut());
            }
        }
        Ok(())
    }
}

fn csv_writer(out: &mut Vec<u8>, header: bool) -> csv::Writer<&mut Vec<u8>> {
    csv::WriterBuilder::new().with_header(header).build(out)
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::new(format!("the rows cannot be printed: {error}; choose another format with --output"))
}
