//! The rows of one table on one day, in memory as columns: one thread adds rows while any number of threads read.
//!
//! Always true: rows below `rows` are complete and never change, in all columns; readers read no others, so each sees a
//! beginning of the table in order of arrival. Rows are in chunks that are never moved. Each row has the number of the row
//! before it of its symbol, and there is the last row of each symbol: queries by symbol cost as much as they return.
//!
//! Cells are relaxed atomics, which cost what plain loads and stores cost; `rows` is stored last, with release, and loaded
//! first, with acquire. So no reader waits for the writer, nor the other way round, and nothing is copied for either.

use crate::cell::{Cell, Cells, Op};
use crate::column::{Column, Texts};
use crate::gather::Interner;
use crate::query::Query;
use crate::table::{ColumnDef, Table};
use std::ops::Range;
use std::sync::atomic::{
    AtomicBool, AtomicI64, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};
use std::sync::{Arc, PoisonError, RwLock};

/// Rows of a chunk, a power of two.
const CHUNK_ROWS: usize = 1 << 15;
/// Bytes of a cache line.
const LINE_BYTES: usize = 64;
/// Rows for which memory is prepared, at least and at most.
const PREPARED_ROWS: Range<usize> = 64..4096;
/// Symbols of one chunk of last rows.
const HEADS: usize = 1 << 10;
/// The most rows of a table on one day: their numbers fit 32 bits, 0 being none.
pub(crate) const ROWS_MAX: usize = u32::MAX as usize - 1;

/// Rows of one table.
#[derive(Debug)]
pub(crate) struct Memory {
    pub table: Table,
    pub cells: Cells,
    rows: AtomicUsize,
    chunks: RwLock<Vec<Arc<Chunk>>>,
    /// For each symbol its last row's number plus 1.
    heads: RwLock<Vec<Arc<Heads>>>,
    /// For each field the texts that are stored once.
    interned: Vec<RwLock<Vec<Arc<[u8]>>>>,
    /// Whether times have never decreased.
    is_sorted: AtomicBool,
}

type Heads = [AtomicU32; HEADS];

#[derive(Debug)]
struct Chunk {
    times: Box<[AtomicI64]>,
    symbols: Box<[AtomicU32]>,
    /// Number plus 1 of the row before it of the same symbol; 0: none.
    previous: Box<[AtomicU32]>,
    chunk_columns: Box<[ChunkColumn]>,
}

#[derive(Debug)]
enum ChunkColumn {
    W1(Box<[AtomicU8]>),
    W2(Box<[AtomicU16]>),
    W4(Box<[AtomicU32]>),
    W8(Box<[AtomicU64]>),
    Texts(RwLock<Texts>),
}

/// Adds rows to a [`Memory`]; there is one.
#[derive(Debug)]
pub(crate) struct Writer {
    pub memory: Arc<Memory>,
    rows: usize,
    /// The chunk that is being filled.
    chunk: Arc<Chunk>,
    /// The one after it, once it is prepared.
    next_chunk: Option<Arc<Chunk>>,
    /// Rows when it was prepared for more.
    rows_then: usize,
    heads: Vec<Arc<Heads>>,
    interners: Vec<Interner>,
    last_time: i64,
}

/// Rows on their way from a cursor into memory: taken column by column, which is faster than row by row.
#[derive(Debug, Default)]
pub(crate) struct Stage {
    pub times: Vec<i64>,
    symbols: Vec<u32>,
    bodies: Vec<u8>,
    ends: Vec<usize>,
    has_nulls: bool,
}

/// Which rows a query wants.
#[derive(Debug)]
pub(crate) enum Selection {
    Range(Range<usize>),
    List(Vec<u32>),
}

impl Stage {
    /// Adds a row.
    #[inline]
    pub fn push(&mut self, time: i64, symbol: u32, body: &[u8], null_bytes: usize) {
        self.times.push(time);
        self.symbols.push(symbol);
        self.bodies.extend_from_slice(body);
        self.ends.push(self.bodies.len());
        self.has_nulls |= body.iter().take(null_bytes).any(|bits| *bits != 0);
    }

    pub fn len(&self) -> usize {
        self.times.len()
    }

    fn clear(&mut self) {
        self.times.clear();
        self.symbols.clear();
        self.bodies.clear();
        self.ends.clear();
        self.has_nulls = false;
    }

    #[inline]
    fn body(&self, row: usize) -> &[u8] {
        let start = if row == 0 { 0 } else { self.ends[row - 1] };
        &self.bodies[start..self.ends[row]]
    }
}

impl Writer {
    /// For a day without rows yet.
    pub fn new(table: &Table, cells: &Cells) -> Self {
        let chunk = Arc::new(Chunk::new(cells));
        let memory = Memory {
            table: table.clone(),
            cells: cells.clone(),
            rows: AtomicUsize::new(0),
            chunks: RwLock::new(vec![chunk.clone()]),
            heads: RwLock::default(),
            interned: cells.cells.iter().map(|_| RwLock::default()).collect(),
            is_sorted: AtomicBool::new(true),
        };
        let interners = cells.cells.iter().map(|_| Interner::default()).collect();
        Self {
            memory: Arc::new(memory),
            rows: 0,
            chunk,
            next_chunk: None,
            rows_then: 0,
            heads: Vec::new(),
            interners,
            last_time: i64::MIN,
        }
    }

    /// Rows so far.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Adds the rows of a stage, which is empty then, and makes them visible to readers.
    pub fn insert(&mut self, stage: &mut Stage) {
        let mut from = 0;
        while from < stage.len() {
            let at = self.rows % CHUNK_ROWS;
            if at == 0 && self.rows > 0 {
                let next = self.next_chunk.take();
                self.chunk = next.unwrap_or_else(|| Arc::new(Chunk::new(&self.memory.cells)));
                write(&self.memory.chunks).push(self.chunk.clone());
            }
            let to = stage.len().min(from + CHUNK_ROWS - at);
            self.insert_span(stage, from..to, at);
            self.rows += to - from;
            from = to;
        }
        stage.clear();
        // Readers that see this see the rows: pairs with the load in `Memory::rows`.
        self.memory.rows.store(self.rows, Ordering::Release);
    }

    /// Prepares memory for as many rows as were added since the last call: to be called when idle. Otherwise the first write to
    /// new memory would delay rows when they arrive.
    pub fn prepare(&mut self) {
        let rows = self.rows - self.rows_then;
        if rows == 0 {
            return;
        }
        self.rows_then = self.rows;
        let rows = rows.clamp(PREPARED_ROWS.start, PREPARED_ROWS.end);
        // After the last row, which may be the chunk's last.
        let at = (self.rows - 1) % CHUNK_ROWS + 1;
        let end = CHUNK_ROWS.min(at + rows);
        self.chunk.touch(at..end);
        if at + rows > CHUNK_ROWS {
            let memory = &self.memory;
            let next = self.next_chunk.get_or_insert_with(|| Arc::new(Chunk::new(&memory.cells)));
            next.touch(0..at + rows - CHUNK_ROWS);
        }
    }

    /// Adds rows that fit the chunk, from its row `at` on.
    fn insert_span(&mut self, stage: &Stage, span: Range<usize>, at: usize) {
        let Self { memory, chunk, heads, interners, last_time, .. } = self;
        let mut is_sorted = true;
        for (cell, time) in chunk.times[at..].iter().zip(&stage.times[span.clone()]) {
            cell.store(*time, Ordering::Relaxed);
            is_sorted &= *time >= *last_time;
            *last_time = *time;
        }
        if !is_sorted {
            memory.is_sorted.store(false, Ordering::Relaxed);
        }
        link(heads, memory, &stage.symbols[span.clone()], self.rows as u32, at, chunk);
        let fields = memory.cells.cells.iter().zip(&chunk.chunk_columns).zip(&memory.interned);
        for (((cell, chunk_column), interned), interner) in fields.zip(interners) {
            match chunk_column {
                ChunkColumn::W4(to) if cell.op.is_interned() => {
                    let texts = span.clone().map(|row| cell.text(stage.body(row), memory.cells.fixed));
                    fill_interned(&to[at..], texts, interner, interned);
                }
                chunk_column => fill(cell, &memory.cells, chunk_column, stage, span.clone(), at),
            }
        }
    }
}

/// Links rows that go to row `at` of a chunk to the row before of their symbol; there are `rows` before them.
fn link(heads: &mut Vec<Arc<Heads>>, memory: &Memory, symbols: &[u32], rows: u32, at: usize, chunk: &Chunk) {
    let mut number = rows;
    let cells = chunk.symbols[at..].iter().zip(&chunk.previous[at..]);
    for ((cell, previous), symbol) in cells.zip(symbols) {
        number += 1;
        cell.store(*symbol, Ordering::Relaxed);
        let (block, place) = (*symbol as usize / HEADS, *symbol as usize % HEADS);
        while heads.len() <= block {
            let new: Arc<Heads> = Arc::new(std::array::from_fn(|_| AtomicU32::new(0)));
            heads.push(new.clone());
            write(&memory.heads).push(new);
        }
        let head = &heads[block][place];
        previous.store(head.load(Ordering::Relaxed), Ordering::Relaxed);
        // A reader that follows this to a row that is not visible yet must find its predecessor: pairs with `Memory::head`.
        head.store(number, Ordering::Release);
    }
}

fn fill_interned<'s>(
    to: &[AtomicU32],
    texts: impl Iterator<Item = &'s [u8]>,
    interner: &mut Interner,
    interned: &RwLock<Vec<Arc<[u8]>>>,
) {
    for (to, text) in to.iter().zip(texts) {
        let (number, is_new) = interner.number(text);
        if is_new {
            write(interned).push(text.into());
        }
        to.store(number, Ordering::Relaxed);
    }
}

/// Fills a column of a chunk from row `at` on with the rows of a span of the stage.
fn fill(
    cell: &Cell,
    cells: &Cells,
    chunk_column: &ChunkColumn,
    stage: &Stage,
    span: Range<usize>,
    at: usize,
) {
    let is_raw = cells.is_plain && !stage.has_nulls && cells.fixed > 0;
    let bodies = || stage.bodies[span.start * cells.fixed..span.end * cells.fixed].chunks_exact(cells.fixed);
    let offset = cell.offset;
    match chunk_column {
        ChunkColumn::W8(to) if is_raw && cell.op.is_raw(8) => {
            for (to, body) in to[at..].iter().zip(bodies()) {
                to.store(tapedb_codec::bytes::u64_at(body, offset), Ordering::Relaxed);
            }
        }
        ChunkColumn::W4(to) if is_raw && cell.op.is_raw(4) => {
            for (to, body) in to[at..].iter().zip(bodies()) {
                to.store(tapedb_codec::bytes::u32_at(body, offset), Ordering::Relaxed);
            }
        }
        ChunkColumn::W1(to) if is_raw => {
            for (to, body) in to[at..].iter().zip(bodies()) {
                to.store(body.get(offset).copied().unwrap_or_default(), Ordering::Relaxed);
            }
        }
        ChunkColumn::W1(to) => {
            words(cell, stage, span, &to[at..], |to, word| to.store(word as u8, Ordering::Relaxed))
        }
        ChunkColumn::W2(to) => {
            words(cell, stage, span, &to[at..], |to, word| to.store(word as u16, Ordering::Relaxed))
        }
        ChunkColumn::W4(to) => {
            words(cell, stage, span, &to[at..], |to, word| to.store(word as u32, Ordering::Relaxed))
        }
        ChunkColumn::W8(to) => {
            words(cell, stage, span, &to[at..], |to, word| to.store(word, Ordering::Relaxed))
        }
        ChunkColumn::Texts(texts) => {
            let mut texts = write(texts);
            span.for_each(|row| texts.push(cell.text(stage.body(row), cells.fixed)));
        }
    }
}

#[inline]
fn words<T>(cell: &Cell, stage: &Stage, span: Range<usize>, to: &[T], store: impl Fn(&T, u64)) {
    for (to, row) in to.iter().zip(span) {
        store(to, cell.word(stage.body(row)));
    }
}

impl Memory {
    /// The rows visible to readers.
    pub fn rows(&self) -> usize {
        // Pairs with the store in `Writer::insert`.
        self.rows.load(Ordering::Acquire)
    }

    /// Removes the rows of the next day from the end, so that `rows` are left. The writer is at its end then.
    pub fn cut(&self, rows: usize) {
        self.rows.fetch_min(rows, Ordering::AcqRel);
    }

    /// Bytes of its columns.
    pub fn bytes(&self) -> usize {
        let row: usize = self.cells.cells.iter().map(|cell| cell.op.word_bytes()).sum();
        read(&self.chunks).len() * CHUNK_ROWS * (row + 16)
    }

    /// A view of the rows there are now.
    pub fn view(&self) -> View<'_> {
        let rows = self.rows();
        View { memory: self, rows, chunks: read(&self.chunks).clone() }
    }

    /// The last row of a symbol, visible or not.
    fn head(&self, symbol: u32) -> u32 {
        let heads = read(&self.heads);
        let block = heads.get(symbol as usize / HEADS);
        // Pairs with the store in `Writer::link`.
        block.map_or(0, |heads| heads[symbol as usize % HEADS].load(Ordering::Acquire))
    }

    /// How many symbols may have rows.
    fn symbols(&self) -> u32 {
        (read(&self.heads).len() * HEADS) as u32
    }
}

/// The rows that were there at one moment.
#[derive(Debug)]
pub(crate) struct View<'m> {
    memory: &'m Memory,
    rows: usize,
    chunks: Vec<Arc<Chunk>>,
}

impl View<'_> {
    pub fn rows(&self) -> usize {
        self.rows
    }

    #[inline]
    fn chunk(&self, row: usize) -> (&Chunk, usize) {
        (&self.chunks[row / CHUNK_ROWS], row % CHUNK_ROWS)
    }

    #[inline]
    pub fn time(&self, row: usize) -> i64 {
        let (chunk, at) = self.chunk(row);
        chunk.times[at].load(Ordering::Relaxed)
    }

    #[inline]
    pub fn symbol(&self, row: usize) -> u32 {
        let (chunk, at) = self.chunk(row);
        chunk.symbols[at].load(Ordering::Relaxed)
    }

    /// The rows that a query wants; `symbols`: the ids of those it names.
    pub fn select(&self, query: &Query, symbols: Option<&[u32]>) -> Selection {
        let has_times = query.from.is_some() || query.to.is_some();
        let selected = match symbols {
            _ if query.last_by_symbol => self.select_last(query, symbols),
            Some(symbols) => self.select_symbols(query, symbols),
            None if has_times && !self.is_sorted() => self.select_times(query),
            None => Selection::Range(self.range(query)),
        };
        selected.limited(query.limit)
    }

    fn is_sorted(&self) -> bool {
        self.memory.is_sorted.load(Ordering::Relaxed)
    }

    /// The first row in a query's times and the first after them, in rows in time order.
    fn range(&self, query: &Query) -> Range<usize> {
        let start = query.from.map_or(0, |from| self.first_at(from.0));
        let end = query.to.map_or(self.rows, |to| self.first_at(to.0));
        start..end.max(start)
    }

    /// The first row at or after a time, in rows in time order.
    fn first_at(&self, time: i64) -> usize {
        let (mut low, mut high) = (0, self.rows);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.time(middle) < time { low = middle + 1 } else { high = middle }
        }
        low
    }

    fn select_times(&self, query: &Query) -> Selection {
        let rows = (0..self.rows).filter(|row| query.wants_time(self.time(*row)));
        Selection::List(rows.map(|row| row as u32).collect())
    }

    fn select_symbols(&self, query: &Query, symbols: &[u32]) -> Selection {
        let mut rows: Vec<u32> = symbols.iter().flat_map(|symbol| self.rows_of(*symbol, query)).collect();
        rows.sort_unstable();
        Selection::List(rows)
    }

    fn select_last(&self, query: &Query, symbols: Option<&[u32]>) -> Selection {
        let last = |symbol: u32| self.rows_of(symbol, query).next();
        Selection::List(match symbols {
            Some(symbols) => symbols.iter().filter_map(|symbol| last(*symbol)).collect(),
            None => (0..self.memory.symbols()).filter_map(last).collect(),
        })
    }

    /// The rows of a symbol that lie within the query's times, from the last one back.
    fn rows_of(&self, symbol: u32, query: &Query) -> impl Iterator<Item = u32> {
        let mut next = self.memory.head(symbol);
        let ends_at = query.from.filter(|_| self.is_sorted()).map_or(i64::MIN, |from| from.0);
        std::iter::from_fn(move || {
            while next > 0 {
                let row = next as usize - 1;
                next = self.previous(row);
                if row >= self.rows {
                    continue;
                }
                let time = self.time(row);
                if time < ends_at {
                    return None;
                }
                if query.wants_time(time) {
                    return Some(row as u32);
                }
            }
            None
        })
    }

    /// The row before a row of its symbol, by number plus 1; the row may have been added after this view was made.
    #[inline]
    fn previous(&self, row: usize) -> u32 {
        let (at, place) = (row / CHUNK_ROWS, row % CHUNK_ROWS);
        match self.chunks.get(at) {
            Some(chunk) => chunk.previous[place].load(Ordering::Relaxed),
            None => read(&self.memory.chunks)
                .get(at)
                .map_or(0, |chunk| chunk.previous[place].load(Ordering::Relaxed)),
        }
    }

    /// The values of a field in some rows.
    pub fn field(&self, field: usize, rows: &Selection) -> Column {
        let op = &self.memory.cells.cells[field].op;
        if op.is_text() {
            return Column::Text(self.texts(field, rows));
        }
        let words = self.words(field, rows);
        let interned = read(&self.memory.interned[field]);
        op.column(words.into_iter(), &interned)
    }

    fn words(&self, field: usize, rows: &Selection) -> Vec<u64> {
        let word = |row: usize| {
            let (chunk, at) = self.chunk(row);
            chunk.chunk_columns[field].word(at)
        };
        match rows {
            Selection::List(rows) => rows.iter().map(|row| word(*row as usize)).collect(),
            Selection::Range(range) => {
                let mut words = Vec::with_capacity(range.len());
                for (chunk, span) in spans(range.clone()) {
                    self.chunks[chunk].chunk_columns[field].words(span, &mut words);
                }
                words
            }
        }
    }

    fn texts(&self, field: usize, rows: &Selection) -> Texts {
        let mut found = Texts::new();
        rows.each(|row| {
            let (chunk, at) = self.chunk(row);
            if let ChunkColumn::Texts(texts) = &chunk.chunk_columns[field] {
                found.push(read(texts).get(at));
            }
        });
        found
    }

    /// The body of a row, as in the stream except for the representation of null.
    pub fn body(&self, row: usize, body: &mut Vec<u8>) -> Result<(), String> {
        let cells = &self.memory.cells;
        let (chunk, at) = self.chunk(row);
        body.clear();
        body.resize(cells.fixed, 0);
        for (field, (cell, chunk_column)) in cells.cells.iter().zip(&chunk.chunk_columns).enumerate() {
            match chunk_column {
                ChunkColumn::Texts(texts) => cell.put_text(read(texts).get(at), body, 0),
                chunk_column if cell.op.is_interned() => {
                    let interned = read(&self.memory.interned[field]);
                    cell.put_text(
                        interned.get(chunk_column.word(at) as usize).map_or(&[][..], |text| text),
                        body,
                        0,
                    );
                }
                chunk_column => cell.put_word(chunk_column.word(at), body, 0)?,
            }
        }
        Ok(())
    }

    /// Rows in time order, those of equal times in order of arrival.
    pub fn in_time_order(&self) -> Selection {
        if self.is_sorted() {
            return Selection::Range(0..self.rows);
        }
        let mut rows: Vec<u32> = (0..self.rows as u32).collect();
        rows.sort_by_key(|row| self.time(*row as usize));
        Selection::List(rows)
    }

    /// A column of the table: `time` and `sym` too.
    pub fn column(
        &self,
        at: usize,
        rows: &Selection,
        midnight: i64,
        symbol: impl Fn(u32, &mut Texts),
    ) -> (ColumnDef, Column) {
        let values = match at {
            0 => {
                let kind = self.memory.table.time_kind();
                let mut times = Vec::with_capacity(rows.len());
                rows.each(|row| times.push(kind.time_value(self.time(row), midnight)));
                Column::Long(times)
            }
            1 => {
                let mut texts = Texts::new();
                rows.each(|row| symbol(self.symbol(row), &mut texts));
                Column::Text(texts)
            }
            at => self.field(at - 2, rows),
        };
        (self.memory.table.columns()[at].clone(), values)
    }
}

impl Selection {
    pub fn len(&self) -> usize {
        match self {
            Self::Range(range) => range.len(),
            Self::List(rows) => rows.len(),
        }
    }

    pub fn each(&self, mut row: impl FnMut(usize)) {
        match self {
            Self::Range(range) => range.clone().for_each(row),
            Self::List(rows) => rows.iter().for_each(|at| row(*at as usize)),
        }
    }

    /// The row at an index.
    pub fn row(&self, at: usize) -> usize {
        match self {
            Self::Range(range) => range.start + at,
            Self::List(rows) => rows[at] as usize,
        }
    }

    fn limited(self, limit: Option<i64>) -> Self {
        let kept = crate::answer::limited(self.len(), limit);
        match self {
            Self::Range(range) => Self::Range(range.start + kept.start..range.start + kept.end),
            Self::List(rows) => Self::List(rows[kept].to_vec()),
        }
    }
}

/// A range of rows, split by chunk.
fn spans(range: Range<usize>) -> impl Iterator<Item = (usize, Range<usize>)> {
    let mut start = range.start;
    std::iter::from_fn(move || {
        let at = start % CHUNK_ROWS;
        let rows = range.end.saturating_sub(start).min(CHUNK_ROWS - at);
        let span = (rows > 0).then_some((start / CHUNK_ROWS, at..at + rows));
        start += rows;
        span
    })
}

impl Chunk {
    fn new(cells: &Cells) -> Self {
        Self {
            times: zeros(AtomicI64::new),
            symbols: zeros(AtomicU32::new),
            previous: zeros(AtomicU32::new),
            chunk_columns: cells.cells.iter().map(|cell| ChunkColumn::new(&cell.op)).collect(),
        }
    }

    /// Writes to every line of some rows that are not visible yet.
    fn touch(&self, rows: Range<usize>) {
        touch(&self.times[rows.clone()], |cell| cell.store(0, Ordering::Relaxed));
        touch(&self.symbols[rows.clone()], |cell| cell.store(0, Ordering::Relaxed));
        touch(&self.previous[rows.clone()], |cell| cell.store(0, Ordering::Relaxed));
        self.chunk_columns.iter().for_each(|chunk_column| chunk_column.touch(rows.clone()));
    }
}

/// The cells of a chunk. The system gives zeros, and page by page only when they are written to: nothing is done here for each.
fn zeros<T: Clone + Default, A>(cell: impl Fn(T) -> A) -> Box<[A]> {
    vec![T::default(); CHUNK_ROWS].into_iter().map(cell).collect()
}

fn touch<A>(cells: &[A], write: impl Fn(&A)) {
    cells.iter().step_by(LINE_BYTES / size_of::<A>()).for_each(write);
}

impl ChunkColumn {
    fn new(op: &Op) -> Self {
        if op.is_text() {
            return Self::Texts(RwLock::default());
        }
        match op.word_bytes() {
            1 => Self::W1(zeros(AtomicU8::new)),
            2 => Self::W2(zeros(AtomicU16::new)),
            4 => Self::W4(zeros(AtomicU32::new)),
            _ => Self::W8(zeros(AtomicU64::new)),
        }
    }

    fn touch(&self, rows: Range<usize>) {
        match self {
            Self::W1(cells) => touch(&cells[rows], |cell| cell.store(0, Ordering::Relaxed)),
            Self::W2(cells) => touch(&cells[rows], |cell| cell.store(0, Ordering::Relaxed)),
            Self::W4(cells) => touch(&cells[rows], |cell| cell.store(0, Ordering::Relaxed)),
            Self::W8(cells) => touch(&cells[rows], |cell| cell.store(0, Ordering::Relaxed)),
            Self::Texts(_) => {}
        }
    }

    #[inline]
    fn word(&self, at: usize) -> u64 {
        match self {
            Self::W1(cells) => cells[at].load(Ordering::Relaxed).into(),
            Self::W2(cells) => cells[at].load(Ordering::Relaxed).into(),
            Self::W4(cells) => cells[at].load(Ordering::Relaxed).into(),
            Self::W8(cells) => cells[at].load(Ordering::Relaxed),
            Self::Texts(_) => 0,
        }
    }

    fn words(&self, span: Range<usize>, to: &mut Vec<u64>) {
        match self {
            Self::W1(cells) => {
                to.extend(cells[span].iter().map(|cell| u64::from(cell.load(Ordering::Relaxed))))
            }
            Self::W2(cells) => {
                to.extend(cells[span].iter().map(|cell| u64::from(cell.load(Ordering::Relaxed))))
            }
            Self::W4(cells) => {
                to.extend(cells[span].iter().map(|cell| u64::from(cell.load(Ordering::Relaxed))))
            }
            Self::W8(cells) => to.extend(cells[span].iter().map(|cell| cell.load(Ordering::Relaxed))),
            Self::Texts(_) => {}
        }
    }
}

fn read<T>(lock: &RwLock<T>) -> std::sync::RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> std::sync::RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tapedb_codec::dynamic::Layouts;

    /// Stages that end before, at and after the ends of chunks, prepared or not: all rows are there in order.
    #[test]
    fn rows_stay_what_they_are_when_more_are_prepared_for() {
        let table = crate::Feed::table("trade", 0).expect("a table");
        let layouts = Layouts::new(table.schema()).expect("layouts");
        let cells = Cells::of(&table, &layouts);
        let (mut writer, mut stage) = (Writer::new(&table, &cells), Stage::default());
        let spans = [1, 63, CHUNK_ROWS - 64, 5, 4000, CHUNK_ROWS - 5005, 1000, 2 * CHUNK_ROWS + 1, 7];
        let mut next = 0_u64;
        for (at, rows) in spans.into_iter().enumerate() {
            for number in next..next + rows as u64 {
                let mut body = vec![0; cells.fixed];
                for cell in &cells.cells {
                    body[cell.offset..cell.offset + 8].copy_from_slice(&number.to_le_bytes());
                }
                stage.push(number as i64, (number % 5) as u32, &body, cells.null_bytes);
            }
            next += rows as u64;
            writer.insert(&mut stage);
            if at % 3 != 1 {
                writer.prepare();
                writer.prepare();
            }
        }
        let view = writer.memory.view();
        assert_eq!((view.rows() as u64, writer.rows() as u64), (next, next));
        let all = Selection::Range(0..view.rows());
        let Column::Long(sizes) = view.field(1, &all) else { panic!("sizes are longs") };
        assert!(sizes.into_iter().eq(0..next as i64));
        assert!((0..view.rows()).all(|row| view.time(row) == row as i64));
        let of_three = view.select(&Query::table("trade"), Some(&[3]));
        assert_eq!(of_three.len() as u64, (next + 1) / 5);
        of_three.each(|row| assert_eq!(row % 5, 3));
    }
}
