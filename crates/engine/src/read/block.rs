//! Rows of a stream in memory: batches of the log or a block of a segment, and a current row among them.

mod gathering;

use crate::counts::note_bytes;
use crate::error::Error;
use crate::read::decoded::{Decoded, RowPlaces};
use crate::read::filter::Filter;
use crate::read::translate::{not_converted, translate};
use crate::read::untrusted::{check_batch, check_row};
use crate::space::deletion::Deletion;
use crate::stream::reader::ReadContext;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tapedb_codec::batch::{self, BatchColumns, BatchError, BatchHeader, PickedRows, Rows};
use tapedb_codec::evolve::Evolution;
use tapedb_log::{Damage, Reason, Span};
use tapedb_segment as segment;

/// Key of a message in a stream's history: its time, then its sequence number.
pub(crate) type Key = (i64, u64);

/// The order in which rows are returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// In order of arrival.
    Arrival,
    /// By time, equal times in order of arrival.
    Time,
    /// By time backwards, equal times in reverse of arrival.
    TimeReversed,
}

impl Order {
    /// The rank of a key in this order: the first row has the smallest rank. Backwards, the complement reverses the order of
    /// both parts of a key.
    #[inline]
    pub fn rank(self, key: Key) -> Key {
        match self {
            Self::Arrival => (0, key.1),
            Self::Time => key,
            Self::TimeReversed => (!key.0, !key.1),
        }
    }
}

/// The largest rank.
pub(crate) const LAST: Key = (i64::MAX, u64::MAX);

/// Which loaded rows are wanted, apart from the filter.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bounds {
    /// Only rows after this key, in the order of reading.
    pub after: Option<Key>,
    /// Only rows with sequence numbers below this.
    pub end: u64,
    /// Deletions that may cover rows.
    pub deletions: Vec<Arc<Deletion>>,
    /// Counts the rows that are not wanted, where the reader asks for their number.
    pub removed: Option<Arc<AtomicU64>>,
}

impl Bounds {
    fn admits(&self, order: Order, (time, sequence): Key, symbol: u32) -> bool {
        sequence < self.end
            && self.after.is_none_or(|after| order.rank((time, sequence)) > order.rank(after))
            && !self.deletions.iter().any(|deletion| deletion.covers(time, sequence, symbol))
    }

    /// Whether the error for a row that has no counterpart in the stream's version of the schema is reported, as the row would be
    /// returned if it had one. `of`: its symbol, and its type in that version if it has the type. Others are counted as rows that are
    /// not wanted.
    #[cold]
    fn report(
        &self,
        order: Order,
        (time, sequence): Key,
        of: (u32, Option<u16>),
        (filter, context): (&mut Filter, ReadContext<'_>),
    ) -> bool {
        if !self.admits(order, (time, sequence), of.0) {
            if let Some(removed) = &self.removed {
                removed.fetch_add(1, Ordering::Relaxed);
            }
            return false;
        }
        filter.wants_unconverted(time, of, context.stream)
    }

    /// Whether rows with such keys may be unwanted.
    pub fn cut(&self, order: Order, first: Key, sequence_max: u64) -> bool {
        sequence_max >= self.end
            || self.after.is_some_and(|after| order.rank(first) <= order.rank(after))
            || !self.deletions.is_empty()
    }
}

/// Where the rows of the current run are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RowsIn {
    /// `rows`, of one batch.
    Batch,
    /// `columns`, of a block of a segment.
    Columns,
    /// `gathered`.
    Gathered,
}

/// Batches or a block of a segment in memory. Reused: loading the next ones reuses the memory.
///
/// Rows form runs: those of a batch, or of a block of a segment, or all rows of batches that had to be sorted. Always
/// true: `batches` are whole and checked; those before `batch` have been begun; of the current run, `row` was returned last,
/// and the rows from index `next` on have not been returned.
#[derive(Debug)]
pub(crate) struct Block {
    order: Order,
    bounds: Bounds,
    /// Bytes of the log, and the batches in them.
    bytes: Vec<u8>,
    batches: Vec<BatchAt>,
    batch: usize,
    /// Where there are batches of columns: the bytes of the log, while `bytes` has the rows that they are. Empty otherwise.
    stored: Vec<u8>,
    /// Rows of all batches stay in `bytes`, not only those of the current one.
    keeps_rows: bool,
    /// Batches of columns stay columns where whole runs of their rows can be taken, and …
    defers_rows: bool,
    /// … this one is current, without bodies.
    deferred: Option<BatchAt>,
    /// Log file and offset of the bytes, for errors.
    origin: (u64, u64),
    rows_in: RowsIn,
    rows: Rows,
    /// First byte and first sequence number of the batch in `rows`.
    base: (u32, u64),
    columns: segment::Rows,
    /// The columns of the rows in `columns`, if these have no bodies.
    decoded: Decoded,
    has_decoded: bool,
    gathered: Vec<Gathered>,
    row: usize,
    /// Rows of the run in the order in which they are returned, if that is not from the first to the last.
    picks: Option<Vec<u32>>,
    spare_picks: Vec<u32>,
    /// Index into the run, or into its picks.
    next: usize,
    stop: usize,
    /// Rows before this index are plain steps: each rank is below `limit`.
    plain_stop: usize,
    limit: Key,
    /// Whether the run is of all rows of a block in order of arrival; `None`: it is not known.
    is_of_arrivals: Option<bool>,
}

#[derive(Debug, Clone, Copy)]
struct BatchAt {
    start: u32,
    end: u32,
    header: BatchHeader,
}

/// Rows of a block that follow each other in the order of reading.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    /// Index of the first one; `None`: it is the current row.
    first: Option<usize>,
    pub count: usize,
}

/// Neighbouring rows of a batch, as it has them.
#[derive(Debug, Clone, Copy)]
pub(crate) enum BatchRun<'a> {
    Rows(segment::RowRun<'a>),
    Columns(segment::ColumnRun<'a>),
}

/// The rows of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunRows<'a> {
    block: &'a Block,
    run: Run,
}

/// A row copied out of its batch, to be sorted.
#[derive(Debug, Clone, Copy)]
struct Gathered {
    time: i64,
    sequence: u64,
    symbol: u32,
    type_id: u16,
    /// Start and end of the body in the block's bytes.
    body: (u32, u32),
}

impl Block {
    pub fn new(order: Order) -> Self {
        Self {
            order,
            bounds: Bounds::default(),
            bytes: Vec::new(),
            batches: Vec::new(),
            batch: 0,
            stored: Vec::new(),
            keeps_rows: false,
            defers_rows: false,
            deferred: None,
            origin: (0, 0),
            rows_in: RowsIn::Batch,
            rows: Rows::default(),
            base: (0, 0),
            columns: segment::Rows::new(),
            decoded: Decoded::default(),
            has_decoded: false,
            gathered: Vec::new(),
            row: 0,
            picks: None,
            spare_picks: Vec::new(),
            next: 0,
            stop: 0,
            plain_stop: 0,
            limit: LAST,
            is_of_arrivals: None,
        }
    }

    /// Time of the current row.
    #[inline]
    pub fn time(&self) -> i64 {
        match self.rows_in {
            RowsIn::Batch => self.rows.times()[self.row],
            RowsIn::Columns => self.columns.times()[self.row],
            RowsIn::Gathered => self.gathered[self.row].time,
        }
    }

    /// Sequence number of the current row.
    #[inline]
    pub fn sequence(&self) -> u64 {
        match self.rows_in {
            RowsIn::Batch => self.base.1 + self.row as u64,
            RowsIn::Columns => self.columns.sequence(self.row),
            RowsIn::Gathered => self.gathered[self.row].sequence,
        }
    }

    /// Symbol of the current row.
    #[inline]
    pub fn symbol(&self) -> u32 {
        match self.rows_in {
            RowsIn::Batch => self.rows.symbols()[self.row],
            RowsIn::Columns => self.columns.lane(self.row).1,
            RowsIn::Gathered => self.gathered[self.row].symbol,
        }
    }

    /// Type of the current row.
    #[inline]
    pub fn type_id(&self) -> u16 {
        match self.rows_in {
            RowsIn::Batch => self.rows.types()[self.row],
            RowsIn::Columns => self.columns.lane(self.row).0,
            RowsIn::Gathered => self.gathered[self.row].type_id,
        }
    }

    /// Body of the current row.
    #[inline]
    pub fn body(&self) -> &[u8] {
        match self.rows_in {
            RowsIn::Columns => self.columns.body(self.row),
            _ => self.body_in_bytes(),
        }
    }

    fn body_in_bytes(&self) -> &[u8] {
        match self.rows_in {
            RowsIn::Columns => &[],
            RowsIn::Batch => {
                let body = self.rows.body(self.row);
                let start = self.base.0 as usize;
                &self.bytes[start + body.start..start + body.end]
            }
            RowsIn::Gathered => {
                let (start, end) = self.gathered[self.row].body;
                &self.bytes[start as usize..end as usize]
            }
        }
    }

    /// The columns, if the rows of the current run have no bodies.
    pub fn decoded(&self) -> Option<&Decoded> {
        (self.has_decoded && self.rows_in == RowsIn::Columns).then_some(&self.decoded)
    }

    /// Place of the current row's values in the columns, if it has no body.
    pub fn place(&self) -> Option<u32> {
        self.decoded().map(|_| self.columns.place(self.row))
    }

    /// Key of the current row.
    #[inline]
    pub fn key(&self) -> Key {
        (self.time(), self.sequence())
    }

    /// Rank of the current row among those of other blocks.
    #[inline]
    pub fn rank(&self) -> Key {
        self.order.rank(self.key())
    }

    /// Limits plain steps to ranks below `limit` and to the next `rows`. Returns how many plain steps there are.
    pub fn set_limit(&mut self, limit: Key, rows: usize) -> usize {
        self.limit = limit;
        self.find_plain_stop();
        self.plain_stop = self.plain_stop.min(self.next.saturating_add(rows));
        self.plain_stop.saturating_sub(self.next)
    }

    /// Whether batches of columns stay columns, for a reader that takes rows with [`Block::run`] and nothing else.
    pub fn defer_rows(&mut self, defers: bool) {
        self.defers_rows = defers;
    }

    /// The buffer to read the log into, before [`Block::load`].
    pub fn bytes_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// The rows to decode a block of a segment into, before [`Block::load_columns`].
    pub fn columns_mut(&mut self) -> &mut segment::Rows {
        &mut self.columns
    }

    /// The columns to decode a block of a segment into, before [`Block::load_decoded`].
    pub fn decoded_mut(&mut self) -> (&mut segment::Rows, &mut Decoded) {
        (&mut self.columns, &mut self.decoded)
    }

    /// [`Block::load_columns`] for rows without bodies, whose columns [`Block::decoded_mut`] has been filled with.
    pub fn load_decoded(&mut self, bounds: Bounds, sequence_max: u64) {
        self.load_columns(bounds, sequence_max);
        self.has_decoded = true;
    }

    /// Steps over the plain steps after the current row, so that no more than `most` rows have been taken with it. Returns the
    /// run of them.
    pub fn take_run(&mut self, most: usize) -> Run {
        // A row that was set alone is in no run.
        let Some(first) = self.next.checked_sub(1) else { return Run { first: None, count: 1 } };
        let end = self.plain_stop.max(self.next).min(first.saturating_add(most.max(1)));
        if end > self.next {
            self.next = end;
            self.row = self.row_at(end - 1);
        }
        Run { first: Some(first), count: end - first }
    }

    /// The rows of a run, and their columns if they have no bodies.
    pub fn rows_of(&self, run: Run) -> RunRows<'_> {
        RunRows { block: self, run }
    }

    /// Approximate bytes of memory.
    pub fn memory(&self) -> usize {
        let batch_row = 24;
        self.bytes.capacity()
            + self.stored.capacity()
            + self.batches.capacity() * size_of::<BatchAt>()
            + self.rows.len() * batch_row
            + self.columns.memory()
            + self.decoded.memory()
            + self.gathered.capacity() * size_of::<Gathered>()
            + (self.spare_picks.capacity() + self.picks.as_ref().map_or(0, Vec::capacity)) * size_of::<u32>()
    }

    pub fn order(&self) -> Order {
        self.order
    }

    /// Removes all rows and frees the memory.
    pub fn free(&mut self) {
        *self = Self { limit: self.limit, ..Self::new(self.order) };
    }

    /// Copies the next rows of another block of the same order, about `bytes` of them. Returns the key of the last one if there
    /// are more.
    pub fn take_slice(
        &mut self,
        from: &mut Self,
        bytes: usize,
        (filter, context): (&mut Filter, ReadContext<'_>),
        errors: &mut VecDeque<Error>,
    ) -> Option<Key> {
        self.clear(Bounds::default());
        self.rows_in = RowsIn::Gathered;
        self.gathered.clear();
        self.bytes.clear();
        let mut more = None;
        while from.advance(filter, context, errors) {
            let taken = self.bytes.len() + self.gathered.len() * size_of::<Gathered>();
            if self.gathered.is_empty() {
                self.reserve_slice(bytes, from.body().len());
            }
            if let Some(last) = self.gathered.last()
                && taken + from.body().len() + size_of::<Gathered>() > bytes
            {
                more = Some((last.time, last.sequence));
                break;
            }
            let start = self.bytes.len() as u32;
            self.bytes.extend_from_slice(from.body());
            let body = (start, self.bytes.len() as u32);
            let ((time, sequence), symbol, type_id) = (from.key(), from.symbol(), from.type_id());
            self.gathered.push(Gathered { time, sequence, symbol, type_id, body });
        }
        from.empty();
        self.stop = self.gathered.len();
        self.find_plain_stop();
        more
    }

    /// Allocates a slice whose rows are as long as its first one: vectors that double would take up to twice as much.
    fn reserve_slice(&mut self, bytes: usize, body_bytes: usize) {
        let rows = (bytes / (body_bytes + size_of::<Gathered>())).max(1);
        self.gathered.reserve_exact(rows);
        self.bytes.reserve_exact(rows * body_bytes);
    }

    /// Holds one row alone, and makes it the current one.
    pub fn set_row(&mut self, (time, sequence): Key, symbol: u32, type_id: u16, body: &[u8]) {
        self.clear(Bounds::default());
        self.rows_in = RowsIn::Gathered;
        self.bytes.clear();
        self.bytes.extend_from_slice(body);
        let body = (0, body.len() as u32);
        self.gathered.clear();
        self.gathered.push(Gathered { time, sequence, symbol, type_id, body });
        self.row = 0;
    }

    /// Removes all rows; the memory stays.
    pub fn empty(&mut self) {
        self.clear(Bounds::default());
        self.rows_in = RowsIn::Columns;
    }

    fn clear(&mut self, bounds: Bounds) {
        self.bounds = bounds;
        self.batches.clear();
        self.stored.clear();
        (self.batch, self.next, self.stop, self.plain_stop) = (0, 0, 0, 0);
        self.has_decoded = false;
        self.deferred = None;
        self.is_of_arrivals = None;
        self.drop_picks();
    }

    fn drop_picks(&mut self) {
        if let Some(picks) = self.picks.take() {
            self.spare_picks = picks;
        }
    }

    /// Loads the batches of `span`, whose bytes have been read. Damage is added to `errors`, and other batches are loaded.
    /// `in_order`: the rows arrived in the order in which they are wanted.
    pub fn load(
        &mut self,
        span: &Span,
        in_order: bool,
        bounds: Bounds,
        (filter, context): (&mut Filter, ReadContext<'_>),
        errors: &mut VecDeque<Error>,
    ) {
        self.clear(bounds);
        note_bytes(self.bytes.len());
        self.origin = (span.file, span.offset);
        for batch in context.space.log.batches(span, &self.bytes) {
            match batch {
                Ok(batch) => {
                    let start = (batch.offset - span.offset) as u32;
                    let end = start + batch.bytes.len() as u32;
                    self.batches.push(BatchAt { start, end, header: batch.header });
                }
                Err(error) => errors.push_back(error.into()),
            }
        }
        let version = context.stream.definition.schema_version;
        if self.batches.iter().any(|batch| batch.header.schema_version != version) {
            self.translate((filter, context), errors);
        }
        if context.stream.is_untrusted() {
            self.remove_wrong(context, errors);
        }
        if self.batches.iter().any(|batch| batch.header.is_columnar()) {
            std::mem::swap(&mut self.bytes, &mut self.stored);
            self.bytes.clear();
        }
        if !in_order && self.order != Order::Arrival {
            self.gather((filter, context), errors);
        }
    }

    /// Converts batches of other versions of the schema into the stream's version.
    #[cold]
    fn translate(&mut self, (filter, context): (&mut Filter, ReadContext<'_>), errors: &mut VecDeque<Error>) {
        let (bytes, batches) = (std::mem::take(&mut self.bytes), std::mem::take(&mut self.batches));
        let version = context.stream.definition.schema_version;
        for BatchAt { start, end, header } in batches {
            let (batch, mut at) = (&bytes[start as usize..end as usize], self.bytes.len());
            if header.schema_version == version {
                self.bytes.extend_from_slice(batch);
            } else {
                let Self { bounds, bytes, order, .. } = self;
                let mut reports =
                    |key, symbol, target| bounds.report(*order, key, (symbol, target), (filter, context));
                translate((&header, batch), context, bytes, errors, &mut reports);
            }
            while let Some(Ok(header)) = self.bytes.get(at..).map(BatchHeader::parse_stored) {
                let end = at + header.batch_bytes();
                self.batches.push(BatchAt { start: at as u32, end: end as u32, header });
                at = end;
            }
        }
    }

    /// Removes batches with messages that do not match the schema.
    #[cold]
    fn remove_wrong(&mut self, context: ReadContext<'_>, errors: &mut VecDeque<Error>) {
        let Self { bytes, batches, rows, .. } = self;
        batches.retain(|BatchAt { start, end, header }| {
            let batch = &bytes[*start as usize..*end as usize];
            check_batch(header, batch, rows, context).map_err(|error| errors.push_back(error)).is_ok()
        });
    }

    /// Checks the rows of a block of a segment, which have been loaded.
    ///
    /// # Errors
    /// For the first row that does not match the schema.
    #[cold]
    pub fn check_rows(&self, context: ReadContext<'_>) -> Result<(), Error> {
        if self.rows_in == RowsIn::Columns {
            let count = self.columns.len();
            let mut rows = 0..count;
            return rows.try_for_each(|row| {
                check_row(self.columns.header(row), self.columns.body(row), count, context)
            });
        }
        let count = self.gathered.len();
        self.gathered.iter().try_for_each(|row| {
            let Gathered { time, sequence, symbol, type_id, body: (start, end) } = *row;
            let header = segment::RowHeader { time, sequence, symbol, type_id };
            check_row(header, &self.bytes[start as usize..end as usize], count, context)
        })
    }

    /// [`Block::load_columns`] for rows of another version of the schema that were not filtered by type: `evolution` converts
    /// them into the stream's version.
    #[cold]
    pub fn load_converted(
        &mut self,
        evolution: &Evolution,
        bounds: Bounds,
        (filter, context): (&mut Filter, ReadContext<'_>),
        errors: &mut VecDeque<Error>,
    ) {
        self.clear(bounds);
        self.rows_in = RowsIn::Gathered;
        self.gathered.clear();
        self.bytes.clear();
        let order = self.order;
        for row in 0..self.columns.len() {
            let segment::RowHeader { time, sequence, symbol, type_id } = self.columns.header(row);
            let start = self.bytes.len() as u32;
            match evolution.convert(type_id, self.columns.body(row), &mut self.bytes) {
                Ok(type_id) if filter.wants(time, symbol, type_id, context.stream) => {
                    let body = (start, self.bytes.len() as u32);
                    self.gathered.push(Gathered { time, sequence, symbol, type_id, body });
                }
                Ok(_) => self.bytes.truncate(start as usize),
                Err(error) => {
                    let of = (symbol, evolution.target(type_id));
                    if self.bounds.report(order, (time, sequence), of, (&mut *filter, context)) {
                        errors.push_back(not_converted(context, sequence, error));
                    }
                }
            }
        }
        self.begin_run(self.gathered.len(), true);
    }

    /// Loads rows that a server has picked ([`PickedRows`]). What is wrong with them is added to `errors`.
    pub fn load_picked(
        &mut self,
        picked: &[u8],
        bounds: Bounds,
        (filter, context): (&mut Filter, ReadContext<'_>),
        errors: &mut VecDeque<Error>,
    ) {
        self.clear(bounds);
        note_bytes(picked.len());
        self.rows_in = RowsIn::Gathered;
        self.gathered.clear();
        self.bytes.clear();
        for piece in PickedRows::all(picked) {
            let gathered = piece.map_err(|error| Error::from(tapedb_log::LogError::Batch(error)));
            let before = self.gathered.len();
            let gathered =
                gathered.and_then(|piece| self.gather_picked(&piece, (&mut *filter, context), errors));
            if let Err(error) = gathered {
                self.gathered.truncate(before);
                errors.push_back(error);
            }
        }
        self.begin_run(self.gathered.len(), true);
    }

    fn gather_picked(
        &mut self,
        piece: &PickedRows<'_>,
        (filter, context): (&mut Filter, ReadContext<'_>),
        errors: &mut VecDeque<Error>,
    ) -> Result<(), Error> {
        let PickedRows { header, batch, .. } = *piece;
        if filter.wants_none_of(&header, context.stream) {
            return Ok(());
        }
        let is_same = header.schema_version == context.stream.definition.schema_version;
        if is_same && context.stream.is_untrusted() {
            check_batch(&header, batch, &mut self.rows, context)?;
        }
        let evolution = if is_same { None } else { Some(context.stream.evolution(header.schema_version)?) };
        self.rows.load_parsed(&header, batch).map_err(tapedb_log::LogError::Batch)?;
        for row in 0..self.rows.len() {
            let (time, symbol, written) =
                (self.rows.times()[row], self.rows.symbols()[row], self.rows.types()[row]);
            let (sequence, start, body) =
                (piece.sequence(row), self.bytes.len(), &batch[self.rows.body(row)]);
            let type_id = match &evolution {
                None => {
                    self.bytes.extend_from_slice(body);
                    written
                }
                Some(evolution) => match evolution.convert(written, body, &mut self.bytes) {
                    Ok(type_id) => type_id,
                    Err(error) => {
                        let of = (symbol, evolution.target(written));
                        if self.bounds.report(self.order, (time, sequence), of, (&mut *filter, context)) {
                            errors.push_back(not_converted(context, sequence, error));
                        }
                        self.bytes.truncate(start);
                        continue;
                    }
                },
            };
            if filter.wants(time, symbol, type_id, context.stream) {
                let body = (start as u32, self.bytes.len() as u32);
                self.gathered.push(Gathered { time, sequence, symbol, type_id, body });
            } else {
                self.bytes.truncate(start);
            }
        }
        if !is_same && context.stream.is_untrusted() {
            self.check_rows(context)?;
        }
        Ok(())
    }

    /// Loads the rows that [`Block::columns_mut`] has been filled with: they are what the filter wants, in time order, and
    /// no sequence number is above `sequence_max`.
    pub fn load_columns(&mut self, bounds: Bounds, sequence_max: u64) {
        self.clear(bounds);
        self.rows_in = RowsIn::Columns;
        let count = self.columns.len();
        let is_cut = count > 0 && {
            let first = if self.order == Order::TimeReversed { count - 1 } else { 0 };
            let first = (self.columns.times()[first], self.columns.sequence(first));
            // In order of arrival the first row is unknown here.
            let is_after = self.order == Order::Arrival && self.bounds.after.is_some();
            is_after || self.bounds.cut(self.order, first, sequence_max)
        };
        self.begin_run(count, is_cut);
    }

    /// Begins a run, before its first row. `sift`: not all rows are wanted.
    fn begin_run(&mut self, count: usize, sift: bool) {
        (self.next, self.stop) = (0, count);
        self.drop_picks();
        let is_in_stored_order = match (self.order, self.rows_in) {
            (Order::TimeReversed, _) => false,
            (Order::Arrival, RowsIn::Columns) => self.columns.is_in_order_of_arrival(),
            (Order::Arrival, RowsIn::Gathered) => false,
            _ => true,
        };
        if sift || !is_in_stored_order {
            self.pick(count, sift);
        }
        self.find_plain_stop();
    }

    /// Lists the wanted rows of the run in the order in which they are returned.
    fn pick(&mut self, count: usize, sift: bool) {
        let mut picks = std::mem::take(&mut self.spare_picks);
        picks.clear();
        let bounds = std::mem::take(&mut self.bounds);
        picks.extend((0..count as u32).filter(|row| {
            self.row = *row as usize;
            !sift || bounds.admits(self.order, self.key(), self.symbol())
        }));
        if let Some(removed) = &bounds.removed {
            removed.fetch_add((count - picks.len()) as u64, Ordering::Relaxed);
        }
        self.bounds = bounds;
        match self.order {
            Order::TimeReversed => picks.reverse(),
            Order::Arrival => match self.rows_in {
                RowsIn::Columns => picks.sort_unstable_by_key(|row| self.columns.sequence(*row as usize)),
                RowsIn::Gathered => picks.sort_unstable_by_key(|row| self.gathered[*row as usize].sequence),
                RowsIn::Batch => {}
            },
            _ => {}
        }
        self.stop = picks.len();
        self.picks = Some(picks);
    }

    /// The row at an index into the run or its picks.
    #[inline]
    fn row_at(&self, index: usize) -> usize {
        self.picks.as_ref().map_or(index, |picks| picks[index] as usize)
    }

    fn rank_at(&self, index: usize) -> Key {
        self.order.rank(self.key_at(index))
    }

    fn key_at(&self, index: usize) -> Key {
        let row = self.row_at(index);
        match self.rows_in {
            RowsIn::Batch => (self.rows.times()[row], self.base.1 + row as u64),
            RowsIn::Columns => (self.columns.times()[row], self.columns.sequence(row)),
            RowsIn::Gathered => (self.gathered[row].time, self.gathered[row].sequence),
        }
    }

    /// Finds the end of the plain steps: with growing steps, for where streams alternate it is near.
    fn find_plain_stop(&mut self) {
        self.plain_stop = 0;
        if self.next >= self.stop || self.rank_at(self.next) >= self.limit {
            return;
        }
        if self.limit == LAST || self.rank_at(self.stop - 1) < self.limit {
            self.plain_stop = self.stop;
            return;
        }
        let (mut low, mut step) = (self.next, 1);
        while low + step < self.stop && self.rank_at(low + step) < self.limit {
            low += step;
            step *= 2;
        }
        let mut high = self.stop.min(low + step);
        while low + 1 < high {
            let middle = low + (high - low) / 2;
            if self.rank_at(middle) < self.limit { low = middle } else { high = middle }
        }
        self.plain_stop = low + 1;
    }

    /// Moves to the next row if that is a plain step, as most are. `false`: [`Block::advance`] decides.
    #[inline]
    pub fn advance_plainly(&mut self) -> bool {
        if self.next >= self.plain_stop {
            return false;
        }
        self.row = self.row_at(self.next);
        self.next += 1;
        true
    }

    /// Gives the rows from the current one on, at most `rows`, that are plain steps, if they are neighbours in a batch; and how
    /// many they are.
    pub fn run<T>(
        &self,
        rows: usize,
        context: ReadContext<'_>,
        take: impl FnOnce(BatchRun<'_>) -> T,
    ) -> Option<(T, usize)> {
        if self.rows_in != RowsIn::Batch || self.picks.is_some() {
            return None;
        }
        let first = self.row;
        let end = self.plain_stop.max(self.next).min(first.saturating_add(rows));
        let (times, symbols) = (self.rows.times().get(first..end)?, &self.rows.symbols()[first..end]);
        let (base, first_sequence) = (self.base.0 as usize, self.base.1 + first as u64);
        if let Some(at) = &self.deferred {
            // It was found without a fault before.
            let columns = self.columns_of(at, context).ok()?;
            let run = segment::ColumnRun { times, first_sequence, symbols, columns: &columns, first };
            return Some((take(BatchRun::Columns(run)), times.len()));
        }
        let ends = &self.rows.ends()[first..end];
        let (start, last) = (self.rows.body(first).start, *ends.last()?);
        let run = segment::RowRun {
            times,
            first_sequence,
            symbols,
            types: &self.rows.types()[first..end],
            ends,
            start: start as u32,
            bodies: &self.bytes[base + start..base + last as usize],
        };
        Some((take(BatchRun::Rows(run)), times.len()))
    }

    /// The columns of a batch.
    fn columns_of<'a>(
        &'a self,
        at: &BatchAt,
        context: ReadContext<'a>,
    ) -> Result<BatchColumns<'a>, BatchError> {
        let batch = &self.stored[at.start as usize..at.end as usize];
        BatchColumns::parse(&at.header, batch, &context.stream.layouts)
    }

    /// Moves so many rows ahead, which are plain steps in a batch.
    pub fn skip(&mut self, rows: usize) {
        self.row += rows;
        self.next = self.row + 1;
    }

    /// The rows of a block of a segment, if the first of them has just been returned and all others are plain steps.
    pub fn whole_columns(&self) -> Option<&segment::Rows> {
        let is_whole = self.rows_in == RowsIn::Columns
            && self.picks.is_none()
            && self.next == 1
            && self.stop == self.columns.len()
            && self.plain_stop == self.stop;
        is_whole.then_some(&self.columns)
    }

    /// Moves to the last row of the run.
    pub fn advance_to_last(&mut self) {
        self.row = self.row_at(self.stop - 1);
        self.next = self.stop;
    }

    /// Limits plain steps of rows in order of arrival to those before the first one whose key is not below `limit`, and to the
    /// next `rows`. Returns how many plain steps there are. Other rows that are loaded later have no such limit.
    pub fn limit_arrivals(&mut self, limit: Key, rows: usize) -> usize {
        self.find_plain_stop();
        let end = self.plain_stop.min(self.next.saturating_add(rows)).max(self.next);
        self.plain_stop = match limit {
            LAST => end,
            // Times of rows in order of arrival may go back: so each row is compared.
            limit => (self.next..end).find(|index| self.key_at(*index) >= limit).unwrap_or(end),
        };
        self.plain_stop - self.next
    }

    /// No step is plain from now on, until other rows are loaded.
    pub fn stop_plain_steps(&mut self) {
        self.plain_stop = 0;
    }

    /// Moves to the next wanted row. `false`: there is none left.
    pub fn advance(
        &mut self,
        filter: &mut Filter,
        context: ReadContext<'_>,
        errors: &mut VecDeque<Error>,
    ) -> bool {
        loop {
            if self.next < self.stop {
                self.row = self.row_at(self.next);
                self.next += 1;
                return true;
            }
            if !self.next_batch(filter, context, errors) {
                return false;
            }
        }
    }

    /// Begins the next batch that may hold wanted rows. `false`: there is none.
    fn next_batch(
        &mut self,
        filter: &mut Filter,
        context: ReadContext<'_>,
        errors: &mut VecDeque<Error>,
    ) -> bool {
        while self.batch < self.batches.len() {
            let reversed = self.order == Order::TimeReversed;
            let index = if reversed { self.batches.len() - 1 - self.batch } else { self.batch };
            let at = self.batches[index];
            self.batch += 1;
            if filter.wants_none_of(&at.header, context.stream) {
                continue;
            }
            if let Err(error) = self.load_batch(&at, context) {
                errors.push_back(self.damaged(&at, error, context));
                continue;
            }
            self.rows_in = RowsIn::Batch;
            self.begin_batch(&at.header, filter, context);
            if self.picks.is_some()
                && let Err(error) = self.unfold(context)
            {
                errors.push_back(self.damaged(&at, error, context));
                continue;
            }
            return true;
        }
        false
    }

    /// Finds the rows of a batch.
    fn load_batch(&mut self, at: &BatchAt, context: ReadContext<'_>) -> Result<(), BatchError> {
        let stored = at.start as usize..at.end as usize;
        self.base = (at.start, at.header.first_sequence);
        self.deferred = None;
        if self.stored.is_empty() {
            return self.rows.load_parsed(&at.header, &self.bytes[stored]);
        }
        if !self.keeps_rows {
            self.bytes.clear();
        }
        let (start, batch) = (self.bytes.len(), &self.stored[stored]);
        self.base.0 = start as u32;
        if !at.header.is_columnar() {
            self.bytes.extend_from_slice(batch);
            return self.rows.load_parsed(&at.header, batch);
        }
        if self.defers_rows && !self.keeps_rows && self.columns_of(at, context)?.has_one_length() {
            self.deferred = Some(*at);
            return self.rows.load_places(&at.header, batch);
        }
        let header = batch::to_rows(&at.header, batch, &context.stream.layouts, &mut self.bytes)?;
        self.rows.load_parsed(&header, &self.bytes[start..])
    }

    /// Makes rows of the current batch if it is still columns.
    fn unfold(&mut self, context: ReadContext<'_>) -> Result<(), BatchError> {
        let Some(at) = self.deferred.take() else { return Ok(()) };
        self.bytes.clear();
        self.base.0 = 0;
        let batch = &self.stored[at.start as usize..at.end as usize];
        let header = batch::to_rows(&at.header, batch, &context.stream.layouts, &mut self.bytes)?;
        self.rows.load_parsed(&header, &self.bytes)
    }

    fn begin_batch(&mut self, header: &BatchHeader, filter: &mut Filter, context: ReadContext<'_>) {
        let first = match self.order {
            Order::TimeReversed => (header.time_max, header.next_sequence() - 1),
            _ => (header.time_min, header.first_sequence),
        };
        let is_cut = self.bounds.cut(self.order, first, header.next_sequence() - 1);
        self.begin_run(self.rows.len(), is_cut);
        if !filter.wants_all_of(header) {
            self.sift(filter, context);
        }
    }

    /// Reduces the run to the rows that the filter wants.
    fn sift(&mut self, filter: &mut Filter, context: ReadContext<'_>) {
        let rows = &self.rows;
        let mut wants = |row: &u32| {
            let row = *row as usize;
            filter.wants(rows.times()[row], rows.symbols()[row], rows.types()[row], context.stream)
        };
        let picks = match self.picks.take() {
            Some(mut picks) => {
                picks.retain(&mut wants);
                picks
            }
            None => {
                let mut picks = std::mem::take(&mut self.spare_picks);
                picks.clear();
                picks.extend((0..rows.len() as u32).filter(&mut wants));
                picks
            }
        };
        self.stop = picks.len();
        self.picks = Some(picks);
        self.find_plain_stop();
    }

    /// The error for a batch whose checksums are right but whose columns are not.
    #[cold]
    fn damaged(&self, at: &BatchAt, error: BatchError, context: ReadContext<'_>) -> Error {
        let (file, offset) = self.origin;
        let damage = Damage {
            file,
            offset: offset + u64::from(at.start),
            bytes: (at.end - at.start).into(),
            first_sequence: at.header.first_sequence,
            count: Some(at.header.count.into()),
            reason: Reason::Batch(error),
        };
        Error::damaged(&context.space.log, damage)
    }

    /// Makes one run, in order, of all wanted rows of all batches.
    fn gather(&mut self, (filter, context): (&mut Filter, ReadContext<'_>), errors: &mut VecDeque<Error>) {
        let order = std::mem::replace(&mut self.order, Order::Arrival);
        // `after` is a key in time order, not in order of arrival: rows are compared with it when they are gathered.
        let after = self.bounds.after.take();
        let mut gathered = std::mem::take(&mut self.gathered);
        gathered.clear();
        self.keeps_rows = true;
        while self.advance(filter, context, errors) {
            if after.is_none_or(|after| order.rank(self.key()) > order.rank(after)) {
                gathered.push(self.gathered_row());
            }
        }
        (self.order, self.keeps_rows) = (order, false);
        gathered.sort_unstable_by_key(|row| order.rank((row.time, row.sequence)));
        (self.gathered, self.rows_in) = (gathered, RowsIn::Gathered);
        self.drop_picks();
        (self.next, self.stop) = (0, self.gathered.len());
        self.find_plain_stop();
    }

    fn gathered_row(&self) -> Gathered {
        let (body, start) = (self.rows.body(self.row), self.base.0);
        Gathered {
            time: self.time(),
            sequence: self.sequence(),
            symbol: self.symbol(),
            type_id: self.type_id(),
            body: (start + body.start as u32, start + body.end as u32),
        }
    }
}

impl<'a> RunRows<'a> {
    /// The columns, if the rows have no bodies.
    pub fn decoded(&self) -> Option<&'a Decoded> {
        self.block.decoded()
    }

    /// Appends times, sequence numbers where they are wanted, and symbols of rows without bodies; returns the places of their
    /// values.
    pub fn append_headers(
        &self,
        times: &mut Vec<i64>,
        sequences: Option<&mut Vec<u64>>,
        symbols: &mut Vec<u32>,
    ) -> RowPlaces<'a> {
        let Block { columns, picks, row, .. } = self.block;
        let Run { first, count } = self.run;
        let start = first.unwrap_or(*row);
        let range = start..start + count;
        if let (Some(picks), Some(_)) = (picks, first) {
            let rows = picks[range].iter().map(|row| *row as usize);
            times.extend(rows.clone().map(|row| columns.times()[row]));
            symbols.extend(rows.clone().map(|row| columns.lane(row).1));
            if let Some(sequences) = sequences {
                sequences.extend(rows.clone().map(|row| columns.sequence(row)));
            }
            return RowPlaces::Homes(rows.map(|row| columns.place(row)).collect());
        }
        times.extend_from_slice(&columns.times()[range.clone()]);
        columns.append_symbols(range.clone(), symbols);
        if let Some(sequences) = sequences {
            sequences.extend(range.clone().map(|row| columns.sequence(row)));
        }
        if columns.are_of_one_lane() {
            let first = columns.place(start) as usize;
            return RowPlaces::Range(first..first + count);
        }
        RowPlaces::Homes(Cow::Borrowed(columns.homes(range)))
    }

    /// Calls `each` with key, symbol and body of each row.
    pub fn each(&self, mut each: impl FnMut(Key, u32, &'a [u8])) {
        let Block { rows, columns, gathered, bytes, base, .. } = self.block;
        let Run { first, count } = self.run;
        for index in 0..count {
            let row = first.map_or(self.block.row, |first| self.block.row_at(first + index));
            match self.block.rows_in {
                RowsIn::Batch => {
                    let body = rows.body(row);
                    let body = &bytes[base.0 as usize + body.start..base.0 as usize + body.end];
                    each((rows.times()[row], base.1 + row as u64), rows.symbols()[row], body);
                }
                RowsIn::Columns => {
                    each(
                        (columns.times()[row], columns.sequence(row)),
                        columns.lane(row).1,
                        columns.body(row),
                    );
                }
                RowsIn::Gathered => {
                    let Gathered { time, sequence, symbol, body, .. } = gathered[row];
                    each((time, sequence), symbol, &bytes[body.0 as usize..body.1 as usize]);
                }
            }
        }
    }
}
