//! `tapedb inspect`: show the content of a stream's files.

use crate::args::StreamArgs;
use crate::commands::maintenance::sealed::Sealed;
use serde::Serialize;
use tapedb_codec::batch::{BatchError, BatchHeader, HEADER_BYTES, Rows};
use tapedb_engine::StoredStream;
use tapedb_log::{BatchSlice, Found};
use tapedb_schema::Timestamp;
use tapedb_terminal::{Failure, Ui, ui};

/// Show the content of the files of a stream: bytes, batches, messages, sequence numbers, times, record types; of segments
/// every column: its encodings (and their number of blocks), bytes, minimum and maximum.
///
/// Damaged batches and columns are skipped and counted; `tapedb check` lists them. Works while another process writes.
///
/// With --json: an object for each batch and block (with --batches), then one for each log file, segment, column and record
/// type; `kind` names it.
///
/// Example: tapedb inspect --db demo.tape feed --batches
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    stream: StreamArgs,

    /// First print a line for each batch and block: its location, messages, times, and the widths of its columns in bytes.
    #[arg(long)]
    batches: bool,
}

/// A log file.
#[derive(Serialize, Debug, Default)]
struct FileSum {
    kind: &'static str,
    file: String,
    bytes: u64,
    batches: u64,
    messages: u64,
    first_sequence: Option<u64>,
    last_sequence: Option<u64>,
    from: Option<String>,
    to: Option<String>,
    header_bytes: u64,
    column_bytes: u64,
    body_bytes: u64,
    damaged: u64,
}

/// A record type.
#[derive(Serialize, Debug, Default)]
struct TypeSum {
    kind: &'static str,
    name: String,
    messages: u64,
    body_bytes: u64,
    /// In segments, which have no bodies.
    column_bytes: u64,
}

/// A batch.
#[derive(Serialize)]
struct BatchLine<'a> {
    kind: &'static str,
    file: &'a str,
    offset: u64,
    bytes: u64,
    messages: u32,
    first_sequence: u64,
    last_sequence: u64,
    from: String,
    to: String,
    in_time_order: bool,
    schema_version: u16,
    time_width: u8,
    symbol_width: u8,
    type_width: u8,
    length_width: u8,
}

/// Shows the files.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    let db = args.stream.db.open_files_to_read()?;
    let stream = db.stored(&args.stream.name)?;
    let mut sums = Sums::new(&stream);
    let mut sealed = Sealed::default();
    sealed.walk(&stream, args.batches, ui)?;
    for space in 0..stream.spaces() {
        sums.walk(&stream, space, args.batches, ui)?;
    }
    sums.add_sealed(&sealed);
    sums.print(&sealed, ui)?;
    match sums.files.iter().map(|file| file.damaged).sum::<u64>() + sealed.damaged() {
        0 => Ok(()),
        damaged => {
            Err(Failure::new(format!("{damaged} damaged locations skipped; `tapedb check` lists them")))
        }
    }
}

/// The sums so far.
struct Sums {
    files: Vec<FileSum>,
    /// By type id; the last one is for ids that the schema does not have.
    types: Vec<TypeSum>,
    /// Earliest and latest time of the last file.
    times: Option<(i64, i64)>,
    rows: Rows,
}

impl Sums {
    fn new(stream: &StoredStream) -> Self {
        let names = stream.layouts().records().iter().map(|record| record.name.clone());
        let types = names.chain(["(unknown)".into()]);
        let types = types.map(|name| TypeSum { kind: "type", name, ..TypeSum::default() }).collect();
        Self { files: Vec::new(), types, times: None, rows: Rows::default() }
    }

    fn walk(&mut self, stream: &StoredStream, space: u32, batches: bool, ui: &Ui) -> Result<(), Failure> {
        let mut walk = stream.walk(space)?;
        let mut progress = ui.progress(&format!("reading the log of {:?}", stream.name()), 0);
        while let Some(found) = walk.next_found() {
            ui.check_interrupt()?;
            match found {
                Found::File { file, bytes } => self.begin(file, bytes),
                Found::Batch(batch) => match self.add(&batch) {
                    Ok(()) if batches => self.print_batch(&batch, ui)?,
                    Ok(()) => progress.update(0, self.files.iter().map(|file| file.messages).sum()),
                    Err(_) => self.add_damage(),
                },
                Found::Damage(_) => self.add_damage(),
                Found::Unreadable { file, .. } => {
                    if self.files.last().is_none_or(|last| last.file != file_name(file)) {
                        self.begin(file, 0);
                    }
                    self.add_damage();
                }
                Found::Preallocated { bytes, .. } => self.subtract(bytes),
                Found::Unfinished(_) | Found::Index { .. } | Found::Rejected { .. } => {}
            }
        }
        Ok(())
    }

    /// Adds the messages of segments by record type.
    fn add_sealed(&mut self, sealed: &Sealed) {
        for sum in &mut self.types {
            let (messages, bytes) = sealed.sum_of(&sum.name);
            sum.messages += messages;
            sum.column_bytes += bytes;
        }
    }

    fn begin(&mut self, file: u64, bytes: u64) {
        self.files.push(FileSum { kind: "file", file: file_name(file), bytes, ..FileSum::default() });
        self.times = None;
    }

    /// Subtracts unused bytes of a file.
    fn subtract(&mut self, bytes: u64) {
        if let Some(file) = self.files.last_mut() {
            file.bytes -= bytes.min(file.bytes);
        }
    }

    fn add_damage(&mut self) {
        if let Some(file) = self.files.last_mut() {
            file.damaged += 1;
        }
    }

    fn add(&mut self, batch: &BatchSlice<'_>) -> Result<(), BatchError> {
        let header = &batch.header;
        match header.is_columnar() {
            false => self.rows.load_parsed(header, batch.bytes)?,
            true => self.rows.load_places(header, batch.bytes)?,
        }
        let Some(file) = self.files.last_mut() else { return Ok(()) };
        let columns = self.rows.bodies_start() as usize - HEADER_BYTES;
        file.batches += 1;
        file.messages += u64::from(header.count);
        file.first_sequence.get_or_insert(header.first_sequence);
        file.last_sequence = Some(header.next_sequence() - 1);
        file.header_bytes += HEADER_BYTES as u64;
        file.column_bytes += columns as u64;
        file.body_bytes += header.payload_len as u64 - columns as u64;
        let (from, to) = self.times.unwrap_or((header.time_min, header.time_max));
        let (from, to) = (from.min(header.time_min), to.max(header.time_max));
        self.times = Some((from, to));
        (file.from, file.to) = (Some(Timestamp(from).to_string()), Some(Timestamp(to).to_string()));
        match header.is_columnar() {
            false => self.add_types(),
            true => self.add_columns(header, columns),
        }
        Ok(())
    }

    /// Messages of a batch of columns, all of one type.
    fn add_columns(&mut self, header: &BatchHeader, places: usize) {
        let unknown = self.types.len() - 1;
        let sum = &mut self.types[usize::from(header.type_const).min(unknown)];
        sum.messages += u64::from(header.count);
        sum.body_bytes += header.payload_len as u64 - places as u64;
    }

    fn add_types(&mut self) {
        let unknown = self.types.len() - 1;
        for (i, &type_id) in self.rows.types().iter().enumerate() {
            let sum = &mut self.types[usize::from(type_id).min(unknown)];
            sum.messages += 1;
            sum.body_bytes += self.rows.body(i).len() as u64;
        }
    }

    fn print_batch(&self, batch: &BatchSlice<'_>, ui: &Ui) -> Result<(), Failure> {
        let file = self.files.last().map_or("", |file| &file.file);
        let line = BatchLine::of(file, batch);
        if ui.json() { ui.print_json(&line) } else { ui.print(&line.text()) }
    }

    fn print(&self, sealed: &Sealed, ui: &Ui) -> Result<(), Failure> {
        let types = || self.types.iter().filter(|sum| sum.messages > 0);
        if ui.json() {
            self.files.iter().try_for_each(|file| ui.print_json(file))?;
            sealed.print(ui)?;
            return types().try_for_each(|sum| ui.print_json(sum));
        }
        let rows: Vec<Vec<String>> = self.files.iter().map(FileSum::row).collect();
        let head = [
            "file", "bytes", "batches", "messages", "first", "last", "from", "to", "headers", "columns",
            "bodies", "damaged",
        ];
        ui.print(&ui::table(&head, &[1, 2, 3, 4, 5, 8, 9, 10, 11], &rows))?;
        if !sealed.is_empty() {
            sealed.print(ui)?;
        }
        let rows: Vec<Vec<String>> = types().map(TypeSum::row).collect();
        ui.print("\n")?;
        ui.print(&ui::table(&["type", "messages", "bodies", "columns"], &[1, 2, 3], &rows))
    }
}

impl FileSum {
    fn row(&self) -> Vec<String> {
        let sequence = |number: Option<u64>| number.map_or("-".into(), |number| number.to_string());
        let time = |time: &Option<String>| time.clone().unwrap_or("-".into());
        let mut row = vec![self.file.clone()];
        row.extend([self.bytes, self.batches, self.messages].map(ui::thousands));
        row.extend([sequence(self.first_sequence), sequence(self.last_sequence)]);
        row.extend([time(&self.from), time(&self.to)]);
        row.extend([self.header_bytes, self.column_bytes, self.body_bytes, self.damaged].map(ui::thousands));
        row
    }
}

impl TypeSum {
    fn row(&self) -> Vec<String> {
        let mut row = vec![self.name.clone()];
        row.extend([self.messages, self.body_bytes, self.column_bytes].map(ui::thousands));
        row
    }
}

impl<'a> BatchLine<'a> {
    fn of(file: &'a str, batch: &BatchSlice<'_>) -> Self {
        let header: &BatchHeader = &batch.header;
        Self {
            kind: "batch",
            file,
            offset: batch.offset,
            bytes: batch.bytes.len() as u64,
            messages: header.count,
            first_sequence: header.first_sequence,
            last_sequence: header.next_sequence() - 1,
            from: Timestamp(header.time_min).to_string(),
            to: Timestamp(header.time_max).to_string(),
            in_time_order: header.sorted(),
            schema_version: header.schema_version,
            time_width: header.time_width,
            symbol_width: header.symbol_width,
            type_width: header.type_width,
            length_width: header.length_width,
        }
    }

    fn text(&self) -> String {
        let Self { file, offset, bytes, messages, first_sequence, last_sequence, from, to, .. } = self;
        let Self { time_width, symbol_width, type_width, length_width, schema_version, .. } = self;
        let order = if self.in_time_order { "in order" } else { "unordered" };
        format!(
            "{file} offset {offset}: rows, {bytes} bytes, {messages} messages {first_sequence} to {last_sequence}, \
             {from} to {to}, {order}, widths time {time_width} symbol {symbol_width} type {type_width} length \
             {length_width}, schema {schema_version}\n"
        )
    }
}

fn file_name(file: u64) -> String {
    format!("{file:020}.log")
}
