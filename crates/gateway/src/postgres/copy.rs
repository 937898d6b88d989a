//! Rows as `COPY … TO STDOUT` writes them: one message a row.

use crate::postgres::cells::Cells;
use crate::postgres::output;
use crate::postgres::statement::{CopyFormat, CopyOptions};
use crate::postgres::types::Column;

/// Writes rows in a format of `COPY`.
pub(crate) struct Copy {
    options: CopyOptions,
    /// Whether nothing was written yet.
    is_first: bool,
    text: Vec<u8>,
}

impl Copy {
    pub fn new(options: CopyOptions) -> Self {
        Self { options, is_first: true, text: Vec::new() }
    }

    pub fn is_binary(&self) -> bool {
        self.options.format == CopyFormat::Binary
    }

    /// Writes the line with names, where there is one.
    pub fn header(&mut self, columns: &[Column], out: &mut Vec<u8>) {
        if !self.options.has_header || self.is_binary() {
            return;
        }
        let at = output::begin(out, b'd');
        for (index, column) in columns.iter().enumerate() {
            if index > 0 {
                out.push(self.options.delimiter);
            }
            self.text.clear();
            self.text.extend(column.name.bytes());
            self.field(out);
        }
        out.push(b'\n');
        output::end(out, at);
    }

    /// Writes a row.
    pub fn row(&mut self, cells: &[Cells], row: usize, out: &mut Vec<u8>) {
        let at = output::begin(out, b'd');
        if self.is_binary() {
            self.signature(out);
            out.extend((cells.len() as u16).to_be_bytes());
            for cell in cells {
                match cell.is_null(row) {
                    true => out.extend((-1i32).to_be_bytes()),
                    false => cell.binary(row, out),
                }
            }
        } else {
            for (index, cell) in cells.iter().enumerate() {
                if index > 0 {
                    out.push(self.options.delimiter);
                }
                if cell.is_null(row) {
                    out.extend(self.options.null.bytes());
                    continue;
                }
                self.text.clear();
                cell.text(row, &mut self.text);
                self.field(out);
            }
            out.push(b'\n');
        }
        output::end(out, at);
    }

    /// Writes what ends the rows.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        if self.is_binary() {
            let at = output::begin(out, b'd');
            self.signature(out);
            out.extend((-1i16).to_be_bytes());
            output::end(out, at);
        }
        output::message(out, b'c', &[]);
    }

    /// What begins the binary format: in front of the first row.
    fn signature(&mut self, out: &mut Vec<u8>) {
        if std::mem::take(&mut self.is_first) {
            out.extend(b"PGCOPY\n\xff\r\n\0");
            out.extend([0; 8]);
        }
    }

    /// Writes the text of a field.
    fn field(&self, out: &mut Vec<u8>) {
        let CopyOptions { format, delimiter, null, quote, .. } = &self.options;
        if *format == CopyFormat::Csv {
            let needs_quotes = self.text == null.as_bytes()
                || self
                    .text
                    .iter()
                    .any(|byte| byte == delimiter || byte == quote || matches!(byte, b'\n' | b'\r'))
                || self.text == b"\\.";
            if !needs_quotes {
                out.extend(&self.text);
                return;
            }
            out.push(*quote);
            for byte in &self.text {
                if byte == quote {
                    out.push(*quote);
                }
                out.push(*byte);
            }
            out.push(*quote);
            return;
        }
        for byte in &self.text {
            let escaped = match byte {
                b'\\' => b'\\',
                b'\n' => b'n',
                b'\r' => b'r',
                b'\t' => b't',
                other if other == delimiter => *other,
                other => {
                    out.push(*other);
                    continue;
                }
            };
            out.extend([b'\\', escaped]);
        }
    }
}
