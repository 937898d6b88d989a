//! The content of a stream's segments by column, for `tapedb inspect`.

use serde::Serialize;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::path::Path;
use tapedb_engine::{StoredPart, StoredSegment, StoredStream};
use tapedb_schema::{Decimal64, Timestamp};
use tapedb_segment::{Block, BlockEntry, Chunk, ColumnKind, Head, Plan};
use tapedb_terminal::{Failure, Ui, ui};

/// The names of a block's own columns.
const OWN: [&str; 3] = ["time", "sequence", "lane"];
/// The names of the last columns of a group, which assign rows to symbols; the last one is column 65,535.
const LANES: [&str; 4] = ["lane time", "lane symbol", "lane count", "position"];

/// The sums of segments so far.
#[derive(Default)]
pub struct Sealed {
    segments: Vec<SegmentSum>,
    /// By record type and number; the block's own columns last.
    columns: BTreeMap<(u32, u16), ColumnSum>,
    block: Block,
}

/// A segment, or a range whose messages were all deleted.
#[derive(Serialize, Debug)]
struct SegmentSum {
    kind: &'static str,
    space: u32,
    file: Option<String>,
    bytes: u64,
    blocks: u64,
    messages: u64,
    first_sequence: u64,
    last_sequence: u64,
    from: Option<String>,
    to: Option<String>,
    tier: &'static str,
    symbols: u64,
    lost: u64,
    damaged: u64,
    /// Blocks that have a checksum of their content: all, in segments since version 2 of the format.
    blocks_with_content: u64,
    /// The dump of a block that failed verification when the segment was written, if there is one.
    mismatch_dump: Option<String>,
}

/// A column of a record type, in all segments together.
#[derive(Debug)]
struct ColumnSum {
    record: String,
    column: String,
    kind: Option<ColumnKind>,
    /// Number of blocks by encoding.
    encodings: BTreeMap<&'static str, u64>,
    blocks: u64,
    /// Messages of the record type in those blocks.
    messages: u64,
    bytes: u64,
    range: Option<(Bound, Bound)>,
}

/// The same in JSON output.
#[derive(Serialize)]
struct ColumnLine<'a> {
    kind: &'static str,
    record: &'a str,
    column: &'a str,
    encodings: &'a BTreeMap<&'static str, u64>,
    blocks: u64,
    messages: u64,
    bytes: u64,
    bytes_per_message: f64,
    min: Option<String>,
    max: Option<String>,
}

/// A block.
#[derive(Serialize)]
struct BlockLine<'a> {
    kind: &'static str,
    file: &'a str,
    block: usize,
    offset: u64,
    bytes: u32,
    head_bytes: u32,
    messages: u32,
    first_sequence: u64,
    last_sequence: u64,
    from: String,
    to: String,
}

/// The name of the dump beside a segment, if there is one.
fn dump_of(segment: &Path) -> Option<String> {
    let name = format!("{}.mismatch", segment.file_name()?.to_str()?);
    segment.with_file_name(&name).exists().then_some(name)
}

/// The minimum or the maximum of a column.
#[derive(Debug, Clone, Copy)]
enum Bound {
    Int(i128),
    Float(f64),
    Decimal(Decimal64),
    Time(i64),
}

impl Sealed {
    /// Reads all segments of a stream; `blocks`: prints a line for each block.
    pub fn walk(&mut self, stream: &StoredStream, blocks: bool, ui: &Ui) -> Result<(), Failure> {
        let parts: Result<Vec<_>, _> = (0..stream.spaces()).map(|space| stream.parts(space)).collect();
        let parts: Vec<StoredPart> = parts?.into_iter().flatten().collect();
        let total = parts.iter().map(|part| part.bytes).sum();
        let mut progress = ui.progress(&format!("reading {:?}", stream.name()), total);
        let (mut done, mut seen) = (0, 0);
        for part in &parts {
            let mut sum = SegmentSum::of(part);
            match stream.segment(part) {
                Ok(Some((segment, damaged))) => {
                    sum.damaged += damaged.len() as u64;
                    sum.blocks = segment.blocks().len() as u64;
                    sum.symbols = segment.symbols().len() as u64;
                    for index in 0..segment.blocks().len() {
                        ui.check_interrupt()?;
                        sum.damaged += self.add_block(&segment, index);
                        sum.blocks_with_content += u64::from(self.block.head().content.is_some());
                        let entry = &segment.blocks()[index];
                        (done, seen) = (done + u64::from(entry.len), seen + u64::from(entry.count));
                        progress.update(done, seen);
                        if blocks {
                            progress.hide();
                            print_block(&sum, index, entry, ui)?;
                        }
                    }
                }
                Ok(None) => {}
                Err(_) => sum.damaged += 1,
            }
            self.segments.push(sum);
        }
        Ok(())
    }

    /// Damaged locations.
    pub fn damaged(&self) -> u64 {
        self.segments.iter().map(|segment| segment.damaged).sum()
    }

    /// Whether there is nothing to print.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Messages and bytes of a record type; `None` for the bytes that all types share.
    pub fn sum_of(&self, record: &str) -> (u64, u64) {
        let columns = || self.columns.values().filter(|column| column.record == record);
        let messages = columns().map(|column| column.messages).max().unwrap_or(0);
        (messages, columns().map(|column| column.bytes).sum())
    }

    /// Adds a block; returns its number of damaged locations.
    fn add_block(&mut self, segment: &StoredSegment, index: usize) -> u64 {
        let mut block = std::mem::take(&mut self.block);
        let damaged = match segment.read_block(index, &mut block) {
            Ok(()) => {
                let head = block.head();
                for chunk in &head.chunks {
                    self.add_column(segment.plan(), head, chunk, block.encoding_of(chunk));
                }
                block.damaged_columns().len() as u64
            }
            Err(_) => 1,
        };
        self.block = block;
        damaged
    }

    fn add_column(&mut self, plan: &Plan, head: &Head, chunk: &Chunk, encoding: Option<&'static str>) {
        let group = head.groups.get(usize::from(chunk.group));
        let key = (group.map_or(u32::MAX, |group| group.type_id.into()), chunk.column);
        let sum = self.columns.entry(key).or_insert_with(|| {
            ColumnSum::new(plan, group.map(|group| (group.type_id, group.is_whole)), chunk.column)
        });
        *sum.encodings.entry(encoding.unwrap_or("damaged")).or_default() += 1;
        // A record type that is split has the column several times.
        let before = usize::from(chunk.group).checked_sub(1).and_then(|before| head.groups.get(before));
        let is_again =
            group.is_some() && before.map(|group| group.type_id) == group.map(|group| group.type_id);
        sum.blocks += u64::from(!is_again);
        sum.messages += u64::from(group.map_or(head.count, |group| group.count));
        sum.bytes += u64::from(chunk.len);
        if let Some((min, max)) = chunk.range {
            let (min, max) = (sum.bound(min, group.is_none()), sum.bound(max, group.is_none()));
            let (least, most) = sum.range.unwrap_or((min, max));
            sum.range = Some((least.least(min, Ordering::Less), most.least(max, Ordering::Greater)));
        }
    }

    /// Prints segments and columns.
    pub fn print(&self, ui: &Ui) -> Result<(), Failure> {
        if ui.json() {
            self.segments.iter().try_for_each(|segment| ui.print_json(segment))?;
            return self.columns.values().try_for_each(|column| ui.print_json(&column.line()));
        }
        let rows: Vec<Vec<String>> = self.segments.iter().map(SegmentSum::row).collect();
        let head = [
            "segment", "bytes", "blocks", "messages", "first", "last", "from", "to", "tier", "symbols",
            "lost", "damaged",
        ];
        ui.print("\n")?;
        ui.print(&ui::table(&head, &[1, 2, 3, 4, 5, 9, 10, 11], &rows))?;
        let rows: Vec<Vec<String>> = self.columns.values().map(ColumnSum::row).collect();
        let head = ["type", "column", "encodings", "blocks", "bytes", "bytes/message", "min", "max"];
        ui.print("\n")?;
        ui.print(&ui::table(&head, &[3, 4, 5, 6, 7], &rows))
    }
}

impl SegmentSum {
    fn of(part: &StoredPart) -> Self {
        let file = part.path.as_ref().and_then(|path| path.file_name());
        Self {
            kind: "segment",
            space: part.space,
            file: file.map(|name| name.to_string_lossy().into_owned()),
            bytes: part.bytes,
            blocks: 0,
            messages: part.messages,
            first_sequence: part.first_sequence,
            last_sequence: part.next_sequence.saturating_sub(1),
            from: part.times.map(|(from, _)| from.to_string()),
            to: part.times.map(|(_, to)| to.to_string()),
            tier: if part.is_cold { "cold" } else { "hot" },
            symbols: 0,
            lost: part.lost,
            damaged: 0,
            blocks_with_content: 0,
            mismatch_dump: part.path.as_deref().and_then(dump_of),
        }
    }

    fn row(&self) -> Vec<String> {
        let text = |text: &Option<String>| text.clone().unwrap_or("-".into());
        let mut row = vec![self.file.clone().unwrap_or("(all deleted)".into())];
        row.extend([self.bytes, self.blocks, self.messages].map(ui::thousands));
        row.extend([self.first_sequence, self.last_sequence].map(|number| number.to_string()));
        row.extend([text(&self.from), text(&self.to), self.tier.into()]);
        row.extend([self.symbols, self.lost, self.damaged].map(ui::thousands));
        row
    }
}

impl ColumnSum {
    fn new(plan: &Plan, group: Option<(u16, bool)>, column: u16) -> Self {
        let (record, column, kind) = match group {
            None => ("(rows)".into(), OWN.get(usize::from(column)).map(ToString::to_string), None),
            Some((type_id, is_whole)) => {
                let record = plan.layouts().records().get(usize::from(type_id));
                let record = record.map_or("(unknown)".to_string(), |record| record.name.clone());
                let columns = plan.group(type_id).map_or(&[][..], |group| group.columns());
                let found = columns.get(usize::from(column)).filter(|_| !is_whole);
                let of_lanes = LANES.iter().rev().nth(usize::from(u16::MAX - column));
                let unnamed = of_lanes.unwrap_or(&"(whole bodies)").to_string();
                let path = found.map_or(unnamed, |column| column.path.clone());
                (record, Some(path), found.map(|column| column.kind))
            }
        };
        let column = column.unwrap_or("(unknown)".into());
        let (encodings, range) = (BTreeMap::new(), None);
        Self { record, column, kind, encodings, blocks: 0, messages: 0, bytes: 0, range }
    }

    fn bound(&self, bits: i64, is_own: bool) -> Bound {
        match self.kind {
            None if is_own && self.column == OWN[0] => Bound::Time(bits),
            Some(ColumnKind::F64) => Bound::Float(f64::from_bits(bits as u64)),
            Some(ColumnKind::F32) => Bound::Float(f32::from_bits(bits as u32).into()),
            Some(ColumnKind::Decimal64) => Bound::Decimal(Decimal64::from_bits(bits as u64)),
            Some(ColumnKind::Int { signed: false, .. }) => Bound::Int((bits as u64).into()),
            _ => Bound::Int(bits.into()),
        }
    }

    fn bytes_per_message(&self) -> f64 {
        self.bytes as f64 / self.messages.max(1) as f64
    }

    fn line(&self) -> ColumnLine<'_> {
        ColumnLine {
            kind: "column",
            record: &self.record,
            column: &self.column,
            encodings: &self.encodings,
            blocks: self.blocks,
            messages: self.messages,
            bytes: self.bytes,
            bytes_per_message: self.bytes_per_message(),
            min: self.range.map(|(min, _)| min.text()),
            max: self.range.map(|(_, max)| max.text()),
        }
    }

    fn row(&self) -> Vec<String> {
        let encodings: Vec<String> = match self.encodings.len() {
            1 => self.encodings.keys().map(ToString::to_string).collect(),
            _ => self.encodings.iter().map(|(name, blocks)| format!("{name} {blocks}")).collect(),
        };
        let mut row = vec![self.record.clone(), self.column.clone(), encodings.join(", ")];
        row.extend([self.blocks, self.bytes].map(ui::thousands));
        row.push(format!("{:.3}", self.bytes_per_message()));
        let text = |bound: Option<Bound>| bound.map_or("-".into(), Bound::text);
        row.extend([text(self.range.map(|(min, _)| min)), text(self.range.map(|(_, max)| max))]);
        row
    }
}

impl Bound {
    fn text(self) -> String {
        match self {
            Self::Int(value) => value.to_string(),
            Self::Float(value) => value.to_string(),
            Self::Decimal(value) => value.to_string(),
            Self::Time(time) => Timestamp(time).to_string(),
        }
    }

    /// The lesser or the greater of both.
    fn least(self, other: Self, wanted: Ordering) -> Self {
        let order = match (self, other) {
            (Self::Int(a), Self::Int(b)) => a.cmp(&b),
            (Self::Time(a), Self::Time(b)) => a.cmp(&b),
            (Self::Float(a), Self::Float(b)) => a.total_cmp(&b),
            (Self::Decimal(a), Self::Decimal(b)) => a.numeric_cmp(&b).unwrap_or(Ordering::Equal),
            _ => Ordering::Equal,
        };
        if order == wanted || order == Ordering::Equal { self } else { other }
    }
}

fn print_block(segment: &SegmentSum, index: usize, entry: &BlockEntry, ui: &Ui) -> Result<(), Failure> {
    let file = segment.file.as_deref().unwrap_or_default();
    let line = BlockLine {
        kind: "block",
        file,
        block: index,
        offset: entry.offset,
        bytes: entry.len,
        head_bytes: entry.head_len,
        messages: entry.count,
        first_sequence: entry.sequence_min,
        last_sequence: entry.sequence_max,
        from: Timestamp(entry.time_min).to_string(),
        to: Timestamp(entry.time_max).to_string(),
    };
    if ui.json() {
        return ui.print_json(&line);
    }
    let BlockLine { offset, bytes, messages, first_sequence, last_sequence, from, to, .. } = line;
    ui.print(&format!(
        "{file} offset {offset}: block {index}, {bytes} bytes, {messages} messages {first_sequence} to {last_sequence}, \
         {from} to {to}\n"
    ))
}
