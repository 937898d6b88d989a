//! A piece of a stream in memory: some batches of the log, and the row among their rows that comes next.

use crate::error::Error;
use crate::filter::Filter;
use crate::stream::StreamInner;
use std::collections::VecDeque;
use std::ops::Range;
use tapedb_codec::batch::{BatchError, BatchHeader, Rows};
use tapedb_log::{Damage, Log, Reason, Span};

/// In which order a block gives its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// As they arrived.
    Arrival,
    /// By time, equal times as they arrived.
    Time,
    /// By time backwards, equal times in reverse of arrival.
    TimeReversed,
}

/// The row a block stands on.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Current {
    pub time: i64,
    pub sequence: u64,
    pub symbol: u32,
    pub type_id: u16,
    /// Where the body is in the block's bytes.
    pub body: (u32, u32),
}

impl Current {
    /// Place in time order.
    #[inline]
    pub fn key(&self) -> (i64, u64) {
        (self.time, self.sequence)
    }
}

/// Batches in memory. Reused: loading the next ones keeps the memory.
///
/// Always true: `batches` are whole and checked; `rows` are those of the batch at `batch`, or empty; rows before `row`
/// (in the block's direction) have been given. A block of unsorted rows has them all in `sorted` instead.
#[derive(Debug)]
pub(crate) struct Block {
    bytes: Vec<u8>,
    batches: Vec<BatchAt>,
    order: Order,
    rows: Rows,
    /// Batches of `batches` that have been begun, in the block's direction.
    batch: usize,
    /// First byte and first sequence number of the batch in `rows`.
    base: (u32, u64),
    /// Rows of `rows` still to give.
    left: Range<usize>,
    /// Whether the rows of this batch must be looked at one by one.
    sift: bool,
    /// Whether the next row of `left`, if there is one, is the next wanted row.
    is_plain: bool,
    sorted: Option<Sorted>,
    /// Log file and offset the bytes come from, for errors.
    place: (u64, u64),
    pub current: Current,
}

#[derive(Debug, Clone, Copy)]
struct BatchAt {
    start: u32,
    end: u32,
    header: BatchHeader,
}

/// All wanted rows of a block in time order.
#[derive(Debug)]
struct Sorted {
    rows: Vec<Current>,
    next: usize,
}

impl Block {
    pub fn new(order: Order) -> Self {
        Self {
            bytes: Vec::new(),
            batches: Vec::new(),
            order,
            rows: Rows::default(),
            batch: 0,
            base: (0, 0),
            left: 0..0,
            sift: false,
            is_plain: false,
            sorted: None,
            place: (0, 0),
            current: Current::default(),
        }
    }

    /// The buffer to read the log into, before [`Block::load`].
    pub fn bytes_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// The body of the current row.
    #[inline]
    pub fn body(&self) -> &[u8] {
        &self.bytes[self.current.body.0 as usize..self.current.body.1 as usize]
    }

    /// Takes the batches of `span` whose bytes have been read. What is damaged goes to `errors`, the rest stays.
    /// `in_order`: the rows arrived in the order in which they are wanted, or the order of arrival is wanted.
    pub fn load(
        &mut self,
        log: &Log,
        span: &Span,
        in_order: bool,
        filter: &mut Filter,
        stream: &StreamInner,
        errors: &mut VecDeque<Error>,
    ) {
        self.batches.clear();
        (self.batch, self.left, self.sorted) = (0, 0..0, None);
        (self.place, self.is_plain) = ((span.file, span.offset), false);
        for batch in log.batches(span, &self.bytes) {
            match batch {
                Ok(batch) => {
                    let start = (batch.offset - span.offset) as u32;
                    let end = start + batch.bytes.len() as u32;
                    self.batches.push(BatchAt { start, end, header: batch.header });
                }
                Err(error) => errors.push_back(error.into()),
            }
        }
        if !in_order && self.order != Order::Arrival {
            self.sort(filter, stream, errors);
        }
    }

    /// Moves to the next row if it is in the same batch, surely wanted and before `limit`: what most calls come to.
    /// `false`: it takes [`Block::advance`] to say.
    #[inline]
    pub fn advance_plainly(&mut self, limit: (i64, u64)) -> bool {
        let row = self.left.start;
        if !self.is_plain || row >= self.left.end {
            return false;
        }
        let (start, first_sequence) = self.base;
        let (time, sequence) = (self.rows.times()[row], first_sequence + row as u64);
        if (time, sequence) >= limit {
            return false;
        }
        self.left.start = row + 1;
        let (symbol, type_id) = (self.rows.symbols()[row], self.rows.types()[row]);
        let body = self.rows.body(row);
        let body = (start + body.start as u32, start + body.end as u32);
        self.current = Current { time, sequence, symbol, type_id, body };
        true
    }

    /// Moves to the next wanted row. `false`: there is none left.
    pub fn advance(
        &mut self,
        filter: &mut Filter,
        stream: &StreamInner,
        errors: &mut VecDeque<Error>,
    ) -> bool {
        if self.sorted.is_some() {
            return self.advance_sorted();
        }
        loop {
            let next =
                if self.order == Order::TimeReversed { self.left.next_back() } else { self.left.next() };
            let Some(row) = next else {
                if self.next_batch(filter, stream, errors) {
                    continue;
                }
                return false;
            };
            let (time, symbol, type_id) =
                (self.rows.times()[row], self.rows.symbols()[row], self.rows.types()[row]);
            if self.sift && !filter.wants(time, symbol, type_id, stream) {
                continue;
            }
            let body = self.rows.body(row);
            let (start, sequence) = self.base;
            self.current = Current {
                time,
                sequence: sequence + row as u64,
                symbol,
                type_id,
                body: (start + body.start as u32, start + body.end as u32),
            };
            return true;
        }
    }

    fn advance_sorted(&mut self) -> bool {
        let Some(sorted) = &mut self.sorted else { return false };
        match sorted.rows.get(sorted.next) {
            Some(row) => {
                self.current = *row;
                sorted.next += 1;
                true
            }
            None => false,
        }
    }

    /// Begins the next batch that may hold wanted rows. `false`: there is none.
    fn next_batch(
        &mut self,
        filter: &mut Filter,
        stream: &StreamInner,
        errors: &mut VecDeque<Error>,
    ) -> bool {
        while self.batch < self.batches.len() {
            let reversed = self.order == Order::TimeReversed;
            let index = if reversed { self.batches.len() - 1 - self.batch } else { self.batch };
            let at = self.batches[index];
            self.batch += 1;
            if filter.wants_none_of(&at.header, stream) {
                continue;
            }
            if let Err(error) =
                self.rows.load_parsed(&at.header, &self.bytes[at.start as usize..at.end as usize])
            {
                errors.push_back(self.damaged(&at, error, &stream.log));
                continue;
            }
            self.base = (at.start, at.header.first_sequence);
            self.left = 0..self.rows.len();
            self.sift = !filter.wants_all_of(&at.header);
            self.is_plain = !self.sift && self.order != Order::TimeReversed;
            return true;
        }
        false
    }

    /// The error for a batch whose checksums are right but whose columns are not.
    #[cold]
    fn damaged(&self, at: &BatchAt, error: BatchError, log: &Log) -> Error {
        let (file, offset) = self.place;
        let damage = Damage {
            file,
            offset: offset + u64::from(at.start),
            bytes: (at.end - at.start).into(),
            first_sequence: at.header.first_sequence,
            count: Some(at.header.count.into()),
            reason: Reason::Batch(error),
        };
        Error::damaged(log, damage)
    }

    /// Collects all wanted rows in time order.
    fn sort(&mut self, filter: &mut Filter, stream: &StreamInner, errors: &mut VecDeque<Error>) {
        let wanted = std::mem::replace(&mut self.order, Order::Arrival);
        let mut rows = Vec::new();
        while self.advance(filter, stream, errors) {
            rows.push(self.current);
        }
        self.order = wanted;
        rows.sort_unstable_by_key(|row| (row.time, row.sequence));
        if wanted == Order::TimeReversed {
            rows.reverse();
        }
        self.sorted = Some(Sorted { rows, next: 0 });
    }
}
