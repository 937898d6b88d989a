//! A piece of a stream in memory: batches of the log or a block of a segment, and the row among its rows that comes next.

use crate::error::Error;
use crate::read::filter::Filter;
use crate::read::translate::{not_converted, translate};
use crate::read::untrusted::{check_batch, check_row};
use crate::space::deletion::Deletion;
use crate::stream::reader::ReadContext;
use std::collections::VecDeque;
use std::sync::Arc;
use tapedb_codec::batch::{BatchError, BatchHeader, Rows};
use tapedb_codec::evolve::Evolution;
use tapedb_log::{Damage, Reason, Span};
use tapedb_segment as segment;

/// Place of a message in a stream's history: its time, then its sequence number.
pub(crate) type Key = (i64, u64);

/// In which order rows are given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// As they arrived.
    Arrival,
    /// By time, equal times as they arrived.
    Time,
    /// By time backwards, equal times in reverse of arrival.
    TimeReversed,
}

impl Order {
    /// Keys in this order: what comes first has the smallest rank. Backwards, the complement turns the order of each part
    /// around.
    #[inline]
    pub fn rank(self, key: Key) -> Key {
        match self {
            Self::Arrival => (0, key.1),
            Self::Time => key,
            Self::TimeReversed => (!key.0, !key.1),
        }
    }
}

/// No row comes behind this rank.
pub(crate) const LAST: Key = (i64::MAX, u64::MAX);

/// Which rows of what is loaded are wanted at all, whatever the filter says.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bounds {
    /// Only rows after this place, in the order of reading.
    pub after: Option<Key>,
    /// Only rows with sequence numbers below this.
    pub end: u64,
    /// Deletions that reach into the piece.
    pub deletions: Vec<Arc<Deletion>>,
}

impl Bounds {
    fn admits(&self, order: Order, (time, sequence): Key, symbol: u32) -> bool {
        sequence < self.end
            && self.after.is_none_or(|after| order.rank((time, sequence)) > order.rank(after))
            && !self.deletions.iter().any(|deletion| deletion.covers(time, sequence, symbol))
    }

    /// Whether rows of such keys may be refused.
    pub fn cut(&self, order: Order, first: Key, sequence_max: u64) -> bool {
        sequence_max >= self.end
            || self.after.is_some_and(|after| order.rank(first) <= order.rank(after))
            || !self.deletions.is_empty()
    }
}

/// What the rows of the current run are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held {
    /// `rows`, of one batch.
    Batch,
    /// `columns`, of a block of a segment.
    Columns,
    /// `gathered`.
    Gathered,
}

/// Batches or a block of a segment in memory. Reused: loading the next ones keeps the memory.
///
/// Rows come in runs: those of a batch, or of a block of a segment, or all rows of batches that had to be sorted. Always
/// true: `batches` are whole and checked; those before `batch` have been begun; of the current run, `row` was given last,
/// and what is at `next` and behind it has not been given.
#[derive(Debug)]
pub(crate) struct Block {
    order: Order,
    bounds: Bounds,
    /// Bytes of the log, and the batches in them.
    bytes: Vec<u8>,
    batches: Vec<BatchAt>,
    batch: usize,
    /// Log file and offset the bytes come from, for errors.
    place: (u64, u64),
    held: Held,
    rows: Rows,
    /// First byte and first sequence number of the batch in `rows`.
    base: (u32, u64),
    columns: segment::Rows,
    gathered: Vec<Gathered>,
    row: usize,
    /// Rows of the run in the order in which they are given, if that is not simply from the first to the last.
    picks: Option<Vec<u32>>,
    spare_picks: Vec<u32>,
    /// Index into the run, or into its picks.
    next: usize,
    stop: usize,
    /// What is before this index follows plainly: each row is before `limit`.
    plain_stop: usize,
    limit: Key,
}

#[derive(Debug, Clone, Copy)]
struct BatchAt {
    start: u32,
    end: u32,
    header: BatchHeader,
}

/// A row taken out of its batch, to be sorted.
#[derive(Debug, Clone, Copy)]
struct Gathered {
    time: i64,
    sequence: u64,
    symbol: u32,
    type_id: u16,
    /// Where the body is in the block's bytes.
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
            place: (0, 0),
            held: Held::Batch,
            rows: Rows::default(),
            base: (0, 0),
            columns: segment::Rows::new(),
            gathered: Vec::new(),
            row: 0,
            picks: None,
            spare_picks: Vec::new(),
            next: 0,
            stop: 0,
            plain_stop: 0,
            limit: LAST,
        }
    }

    /// Time of the current row.
    #[inline]
    pub fn time(&self) -> i64 {
        match self.held {
            Held::Batch => self.rows.times()[self.row],
            Held::Columns => self.columns.times()[self.row],
            Held::Gathered => self.gathered[self.row].time,
        }
    }

    /// Sequence number of the current row.
    #[inline]
    pub fn sequence(&self) -> u64 {
        match self.held {
            Held::Batch => self.base.1 + self.row as u64,
            Held::Columns => self.columns.sequence(self.row),
            Held::Gathered => self.gathered[self.row].sequence,
        }
    }

    /// Symbol of the current row.
    #[inline]
    pub fn symbol(&self) -> u32 {
        match self.held {
            Held::Batch => self.rows.symbols()[self.row],
            Held::Columns => self.columns.lane(self.row).1,
            Held::Gathered => self.gathered[self.row].symbol,
        }
    }

    /// Type of the current row.
    #[inline]
    pub fn type_id(&self) -> u16 {
        match self.held {
            Held::Batch => self.rows.types()[self.row],
            Held::Columns => self.columns.lane(self.row).0,
            Held::Gathered => self.gathered[self.row].type_id,
        }
    }

    /// Body of the current row.
    #[inline]
    pub fn body(&self) -> &[u8] {
        match self.held {
            Held::Columns => self.columns.body(self.row),
            _ => self.body_in_bytes(),
        }
    }

    fn body_in_bytes(&self) -> &[u8] {
        match self.held {
            Held::Columns => &[],
            Held::Batch => {
                let body = self.rows.body(self.row);
                let start = self.base.0 as usize;
                &self.bytes[start + body.start..start + body.end]
            }
            Held::Gathered => {
                let (start, end) = self.gathered[self.row].body;
                &self.bytes[start as usize..end as usize]
            }
        }
    }

    /// Place of the current row.
    #[inline]
    pub fn key(&self) -> Key {
        (self.time(), self.sequence())
    }

    /// Place of the current row among those of other blocks.
    #[inline]
    pub fn rank(&self) -> Key {
        self.order.rank(self.key())
    }

    /// From now on rows at this rank or behind it are no plain steps, nor is any behind the next `rows`. How many are.
    pub fn set_limit(&mut self, limit: Key, rows: usize) -> usize {
        self.limit = limit;
        self.find_plain_stop();
        self.plain_stop = self.plain_stop.min(self.next.saturating_add(rows));
        self.plain_stop.saturating_sub(self.next)
    }

    /// The buffer to read the log into, before [`Block::load`].
    pub fn bytes_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// The rows to decode a block of a segment into, before [`Block::load_columns`].
    pub fn columns_mut(&mut self) -> &mut segment::Rows {
        &mut self.columns
    }

    /// Bytes of memory, about.
    pub fn memory(&self) -> usize {
        let batch_row = 24;
        self.bytes.capacity()
            + self.batches.capacity() * size_of::<BatchAt>()
            + self.rows.len() * batch_row
            + self.columns.memory()
            + self.gathered.capacity() * size_of::<Gathered>()
            + (self.spare_picks.capacity() + self.picks.as_ref().map_or(0, Vec::capacity)) * size_of::<u32>()
    }

    pub fn order(&self) -> Order {
        self.order
    }

    /// Lets go of all rows and of the memory.
    pub fn forget(&mut self) {
        *self = Self { limit: self.limit, ..Self::new(self.order) };
    }

    /// Takes the next rows of another block of the same order, about `bytes` of them. Returns the place of the last one if
    /// there are more.
    pub fn take_slice(
        &mut self,
        from: &mut Self,
        bytes: usize,
        (filter, context): (&mut Filter, ReadContext<'_>),
        errors: &mut VecDeque<Error>,
    ) -> Option<Key> {
        self.clear(Bounds::default());
        self.held = Held::Gathered;
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

    /// Room for a slice whose rows are as long as its first one: vectors that double would hold up to twice as much.
    fn reserve_slice(&mut self, bytes: usize, body_bytes: usize) {
        let rows = (bytes / (body_bytes + size_of::<Gathered>())).max(1);
        self.gathered.reserve_exact(rows);
        self.bytes.reserve_exact(rows * body_bytes);
    }

    /// Stands on one row, which is not part of anything.
    pub fn stand_on(&mut self, (time, sequence): Key, symbol: u32, type_id: u16, body: &[u8]) {
        self.clear(Bounds::default());
        self.held = Held::Gathered;
        self.bytes.clear();
        self.bytes.extend_from_slice(body);
        let body = (0, body.len() as u32);
        self.gathered.clear();
        self.gathered.push(Gathered { time, sequence, symbol, type_id, body });
        self.row = 0;
    }

    /// Lets go of all rows; the memory stays.
    pub fn empty(&mut self) {
        self.clear(Bounds::default());
        self.held = Held::Columns;
    }

    fn clear(&mut self, bounds: Bounds) {
        self.bounds = bounds;
        self.batches.clear();
        (self.batch, self.next, self.stop, self.plain_stop) = (0, 0, 0, 0);
        self.drop_picks();
    }

    fn drop_picks(&mut self) {
        if let Some(picks) = self.picks.take() {
            self.spare_picks = picks;
        }
    }

    /// Takes the batches of `span` whose bytes have been read. What is damaged goes to `errors`, the rest stays.
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
        self.place = (span.file, span.offset);
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
            self.translate(context, errors);
        }
        if context.stream.is_untrusted() {
            self.leave_out_wrong(context, errors);
        }
        if !in_order && self.order != Order::Arrival {
            self.gather((filter, context), errors);
        }
    }

    /// Makes batches of the stream's version of its schema out of those of others.
    #[cold]
    fn translate(&mut self, context: ReadContext<'_>, errors: &mut VecDeque<Error>) {
        let (bytes, batches) = (std::mem::take(&mut self.bytes), std::mem::take(&mut self.batches));
        let version = context.stream.definition.schema_version;
        for BatchAt { start, end, header } in batches {
            let (batch, mut at) = (&bytes[start as usize..end as usize], self.bytes.len());
            if header.schema_version == version {
                self.bytes.extend_from_slice(batch);
            } else {
                translate((&header, batch), context, &mut self.bytes, errors);
            }
            while let Some(Ok(header)) = self.bytes.get(at..).map(BatchHeader::parse_stored) {
                let end = at + header.batch_bytes();
                self.batches.push(BatchAt { start: at as u32, end: end as u32, header });
                at = end;
            }
        }
    }

    /// Lets go of batches with messages that are not of the schema.
    #[cold]
    fn leave_out_wrong(&mut self, context: ReadContext<'_>, errors: &mut VecDeque<Error>) {
        let Self { bytes, batches, rows, .. } = self;
        batches.retain(|BatchAt { start, end, header }| {
            let batch = &bytes[*start as usize..*end as usize];
            check_batch(header, batch, rows, context).map_err(|error| errors.push_back(error)).is_ok()
        });
    }

    /// Checks the rows of a block of a segment, which have been loaded.
    ///
    /// # Errors
    /// The first that is not of the schema.
    #[cold]
    pub fn check_rows(&self, context: ReadContext<'_>) -> Result<(), Error> {
        if self.held == Held::Columns {
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

    /// [`Block::load_columns`], where the rows are of another version of the schema, and their types have not been
    /// looked at: `evolution` makes them rows of the stream's.
    #[cold]
    pub fn load_converted(
        &mut self,
        evolution: &Evolution,
        bounds: Bounds,
        (filter, context): (&mut Filter, ReadContext<'_>),
        errors: &mut VecDeque<Error>,
    ) {
        self.clear(bounds);
        self.held = Held::Gathered;
        self.gathered.clear();
        self.bytes.clear();
        for row in 0..self.columns.len() {
            let segment::RowHeader { time, sequence, symbol, type_id } = self.columns.header(row);
            let start = self.bytes.len() as u32;
            match evolution.convert(type_id, self.columns.body(row), &mut self.bytes) {
                Ok(type_id) if filter.wants(time, symbol, type_id, context.stream) => {
                    let body = (start, self.bytes.len() as u32);
                    self.gathered.push(Gathered { time, sequence, symbol, type_id, body });
                }
                Ok(_) => self.bytes.truncate(start as usize),
                Err(error) => errors.push_back(not_converted(context, sequence, error)),
            }
        }
        self.begin_run(self.gathered.len(), true);
    }

    /// Takes the rows that [`Block::columns_mut`] has been filled with: they are what the filter wants, in time order, and
    /// none has a larger sequence number.
    pub fn load_columns(&mut self, bounds: Bounds, sequence_max: u64) {
        self.clear(bounds);
        self.held = Held::Columns;
        let count = self.columns.len();
        let is_cut = count > 0 && {
            let first = if self.order == Order::TimeReversed { count - 1 } else { 0 };
            let first = (self.columns.times()[first], self.columns.sequence(first));
            // In order of arrival nobody knows which row comes first.
            let is_after = self.order == Order::Arrival && self.bounds.after.is_some();
            is_after || self.bounds.cut(self.order, first, sequence_max)
        };
        self.begin_run(count, is_cut);
    }

    /// Stands before the first of the run's rows. `sift`: not all are wanted.
    fn begin_run(&mut self, count: usize, sift: bool) {
        (self.next, self.stop) = (0, count);
        self.drop_picks();
        let is_given_as_it_lies = match (self.order, self.held) {
            (Order::TimeReversed, _) => false,
            (Order::Arrival, Held::Columns) => self.columns.is_in_order_of_arrival(),
            (Order::Arrival, Held::Gathered) => false,
            _ => true,
        };
        if sift || !is_given_as_it_lies {
            self.pick(count, sift);
        }
        self.find_plain_stop();
    }

    /// Notes the wanted rows of the run in the order in which they are given.
    fn pick(&mut self, count: usize, sift: bool) {
        let mut picks = std::mem::take(&mut self.spare_picks);
        picks.clear();
        let bounds = std::mem::take(&mut self.bounds);
        picks.extend((0..count as u32).filter(|row| {
            self.row = *row as usize;
            !sift || bounds.admits(self.order, self.key(), self.symbol())
        }));
        self.bounds = bounds;
        match self.order {
            Order::TimeReversed => picks.reverse(),
            Order::Arrival => match self.held {
                Held::Columns => picks.sort_unstable_by_key(|row| self.columns.sequence(*row as usize)),
                Held::Gathered => picks.sort_unstable_by_key(|row| self.gathered[*row as usize].sequence),
                Held::Batch => {}
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
        let row = self.row_at(index);
        self.order.rank(match self.held {
            Held::Batch => (self.rows.times()[row], self.base.1 + row as u64),
            Held::Columns => (self.columns.times()[row], self.columns.sequence(row)),
            Held::Gathered => (self.gathered[row].time, self.gathered[row].sequence),
        })
    }

    /// Finds how far rows follow plainly: by galloping, for where streams alternate it is not far.
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

    /// Moves to the next row if that is a plain step: what most calls come to. `false`: it takes [`Block::advance`] to say.
    #[inline]
    pub fn advance_plainly(&mut self) -> bool {
        if self.next >= self.plain_stop {
            return false;
        }
        self.row = self.row_at(self.next);
        self.next += 1;
        true
    }

    /// The rows of a block of a segment, if the first of them has just been given and all others follow it plainly.
    pub fn whole_columns(&self) -> Option<&segment::Rows> {
        let is_whole = self.held == Held::Columns
            && self.picks.is_none()
            && self.next == 1
            && self.stop == self.columns.len()
            && self.plain_stop == self.stop;
        is_whole.then_some(&self.columns)
    }

    /// Stands on the last row of the run.
    pub fn advance_to_last(&mut self) {
        self.row = self.row_at(self.stop - 1);
        self.next = self.stop;
    }

    /// From now on no step is plain, until other rows are loaded.
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
            if let Err(error) =
                self.rows.load_parsed(&at.header, &self.bytes[at.start as usize..at.end as usize])
            {
                errors.push_back(self.damaged(&at, error, context));
                continue;
            }
            self.held = Held::Batch;
            self.base = (at.start, at.header.first_sequence);
            self.begin_batch(&at.header, filter, context);
            return true;
        }
        false
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

    /// Keeps of the run's rows those that the filter wants.
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
        let (file, offset) = self.place;
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
        // A place is told by time, not by arrival: rows are compared with it when they are gathered.
        let after = self.bounds.after.take();
        let mut gathered = std::mem::take(&mut self.gathered);
        gathered.clear();
        while self.advance(filter, context, errors) {
            if after.is_none_or(|after| order.rank(self.key()) > order.rank(after)) {
                gathered.push(self.gathered_row());
            }
        }
        self.order = order;
        gathered.sort_unstable_by_key(|row| order.rank((row.time, row.sequence)));
        (self.gathered, self.held) = (gathered, Held::Gathered);
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
