//! Joins by slices of time, several at once: each slice reads and joins both sides by itself, and the joined rows come out slice by slice.
//!
//! A row of the left side may belong to a row of the right side that is in a slice before its own. Such rows stay open where they are
//! joined, and are closed when they come out, when the last row of each symbol is known of all slices before theirs. So nothing passes
//! between slices but a row for each symbol.
//!
//! Always true: `running` are slices that follow each other, of which the first one comes out; `carry` has the last rows of all slices
//! before it.

use super::output::{bytes_of, columns_of, without_others};
use super::sides::{Joining, Origin};
use crate::batches::Batches;
use datafusion::arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use datafusion::arrow::compute::{interleave, take, take_record_batch};
use datafusion::common::internal_err;
use datafusion::common::runtime::SpawnedTask;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryReservation;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes of the joined rows of a slice that wait for those of the slices before it.
const WAITING_BYTES: usize = 32 << 20;

/// Batches of last rows that are held before the rows are copied into one.
const BATCHES: usize = 32;

/// A slice of a join.
pub(super) trait Slice: Send + 'static {
    /// The next rows; `None`: that was all.
    ///
    /// # Errors
    /// Those of the inputs; when there is no memory.
    fn next(&mut self) -> impl Future<Output = Result<Option<Joined>>> + Send;

    /// The last rows of the right side, after all rows; `None`: no slice behind this one needs them.
    ///
    /// # Errors
    /// As [`Slice::next`].
    fn last_rows(&mut self) -> impl Future<Output = Result<Option<LastRows>>> + Send;
}

/// Rows of a slice.
pub(super) enum Joined {
    Rows(RecordBatch),
    Open(OpenRows),
}

/// A row that may belong to one before the slice: place, time and key.
pub(super) type OpenRow = (u32, i64, Box<str>);

/// Rows of which some may belong to a row before the slice.
pub(super) struct OpenRows {
    /// The columns of the result; where a row is open, those of the right side have nulls.
    columns: Vec<ArrayRef>,
    rows: usize,
    open: Vec<OpenRow>,
}

/// The last row of each key in a slice, in some batches.
pub(super) struct LastRows {
    pub batches: Vec<RecordBatch>,
    pub places: Vec<(Box<str>, Place)>,
}

/// Where a row is, and its time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub time: i64,
    pub batch: usize,
    pub row: usize,
}

impl Joined {
    pub fn rows(&self) -> usize {
        match self {
            Self::Rows(batch) => batch.num_rows(),
            Self::Open(open) => open.rows,
        }
    }

    fn bytes(&self) -> Result<usize> {
        match self {
            Self::Rows(batch) => bytes_of(batch),
            Self::Open(open) => {
                let size = |column: &ArrayRef| column.to_data().get_slice_memory_size();
                let columns: usize = open.columns.iter().map(size).sum::<Result<_, _>>()?;
                Ok(columns + open.open.len() * size_of::<OpenRow>())
            }
        }
    }
}

impl OpenRows {
    /// Rows of the left side, with the places of what belongs to them in the held batches, of which the first one is a row of nulls, and
    /// those that are open.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn new(
        left: &RecordBatch,
        held: &[RecordBatch],
        (mut places, mut open): (Vec<(usize, usize)>, Vec<OpenRow>),
        joining: &Joining,
    ) -> Result<Self> {
        let mut left = left.clone();
        if joining.is_inner {
            let mut stays: Vec<bool> = places.iter().map(|place| place.0 > 0).collect();
            open.iter().for_each(|(row, ..)| stays[*row as usize] = true);
            let rows: Vec<u32> = (0..).zip(&stays).filter(|(_, stays)| **stays).map(|(row, _)| row).collect();
            for (row, ..) in &mut open {
                let before = *row;
                *row = rows.partition_point(|other| *other < before) as u32;
            }
            places = rows.iter().map(|row| places[*row as usize]).collect();
            left = take_record_batch(&left, &UInt32Array::from(rows))?;
        }
        let columns = columns_of(&left, held, &mut places, &joining.output)?;
        Ok(Self { columns, rows: left.num_rows(), open })
    }

    /// The rows, with what belongs to open ones.
    fn close(self, carry: &Carry, joining: &Joining) -> Result<RecordBatch> {
        let Self { columns, rows, open } = self;
        let mut places: Vec<Option<(usize, usize)>> = (0..rows).map(|row| Some((0, row))).collect();
        for (row, time, key) in &open {
            let found = carry.places.get(key).filter(|found| joining.matching.allows(found.time, *time));
            match found {
                Some(found) => places[*row as usize] = Some((found.batch + 1, found.row)),
                None if joining.is_inner => places[*row as usize] = None,
                None => {}
            }
        }
        let kept = (0..).zip(&places).filter(|(_, place)| place.is_some()).map(|(row, _)| row);
        let kept = UInt32Array::from_iter_values(kept);
        let places: Vec<(usize, usize)> = places.into_iter().flatten().collect();
        let column = |(origin, column): (&Origin, &ArrayRef)| match origin {
            Origin::Left(_) if kept.len() == rows => Ok(column.clone()),
            Origin::Left(_) => take(column, &kept, None),
            Origin::Right(of) => {
                let carried = carry.batches.iter().map(|batch| &**batch.column(*of));
                let arrays: Vec<&dyn Array> = std::iter::once(&**column).chain(carried).collect();
                interleave(&arrays, &places)
            }
        };
        let columns = joining.output.iter().zip(&columns).map(column).collect::<Result<_, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(kept.len()));
        Ok(RecordBatch::try_new_with_options(joining.schema.clone(), columns, &options)?)
    }
}

/// The last row of each key so far.
#[derive(Default)]
struct Carry {
    batches: Vec<RecordBatch>,
    places: HashMap<Box<str>, Place>,
}

impl Carry {
    /// Adds the last rows of the next slice, which are behind those of the ones before it.
    fn add(&mut self, last: LastRows) -> Result<()> {
        let before = self.batches.len();
        self.batches.extend(last.batches);
        for (key, place) in last.places {
            self.places.insert(key, Place { batch: before + place.batch, ..place });
        }
        if self.batches.len() > BATCHES { self.copy() } else { Ok(()) }
    }

    /// Copies the rows into one batch.
    fn copy(&mut self) -> Result<()> {
        let indices: Vec<(usize, usize)> =
            self.places.values().map(|place| (place.batch, place.row)).collect();
        for (row, place) in self.places.values_mut().enumerate() {
            (place.batch, place.row) = (0, row);
        }
        let Some(schema) = self.batches.first().map(RecordBatch::schema) else { return Ok(()) };
        let copy = |column: usize| {
            let arrays: Vec<&dyn Array> = self.batches.iter().map(|batch| &**batch.column(column)).collect();
            interleave(&arrays, &indices).map(without_others)
        };
        let columns = (0..schema.fields().len()).map(copy).collect::<Result<_, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(indices.len()));
        self.batches = vec![RecordBatch::try_new_with_options(schema, columns, &options)?];
        Ok(())
    }

    fn bytes(&self) -> Result<usize> {
        let batches: usize = self.batches.iter().map(bytes_of).sum::<Result<_>>()?;
        Ok(batches + self.places.len() * (size_of::<(Box<str>, Place)>() + 16))
    }
}

/// A slice that is being joined, in a task of its own.
pub(super) struct Running {
    rows: UnboundedReceiver<Waiting>,
    task: SpawnedTask<Result<Option<LastRows>>>,
}

/// Rows that wait, and the memory that they take.
struct Waiting {
    joined: Joined,
    _space: OwnedSemaphorePermit,
    _memory: MemoryReservation,
}

impl Running {
    /// Begins to join a slice; with `is_last` none is behind it.
    pub fn start(mut slice: impl Slice, memory: MemoryReservation, is_last: bool) -> Self {
        let (sender, rows) = unbounded_channel();
        let space = Arc::new(Semaphore::new(WAITING_BYTES));
        let task = SpawnedTask::spawn(async move {
            while let Some(joined) = slice.next().await? {
                let bytes = joined.bytes()?;
                let space = space.clone().acquire_many_owned(bytes.min(WAITING_BYTES) as u32).await;
                let _space = space.map_err(|error| DataFusionError::External(Box::new(error)))?;
                let _memory = memory.new_empty();
                _memory.try_grow(bytes)?;
                if sender.send(Waiting { joined, _space, _memory }).is_err() {
                    return Ok(None);
                }
            }
            if is_last { Ok(None) } else { slice.last_rows().await }
        });
        Self { rows, task }
    }
}

/// A join by slices.
pub(super) struct Slices {
    /// Begins to join the slice of a number.
    start: Box<dyn Fn(usize) -> Result<Running> + Send>,
    begun: usize,
    count: usize,
    at_once: usize,
    running: VecDeque<Running>,
    carry: Carry,
    /// How open rows are closed; `None`: there are none.
    joining: Option<Joining>,
    memory: MemoryReservation,
}

impl Slices {
    /// A join of so many slices, some of which are joined at once.
    pub fn new(
        (count, at_once): (usize, usize),
        joining: Option<Joining>,
        memory: MemoryReservation,
        start: impl Fn(usize) -> Result<Running> + Send + 'static,
    ) -> Self {
        let (start, running, carry) = (Box::new(start), VecDeque::new(), Carry::default());
        Self { start, begun: 0, count, at_once, running, carry, joining, memory }
    }
}

impl Batches for Slices {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            while self.begun < self.count && self.running.len() < self.at_once {
                self.running.push_back((self.start)(self.begun)?);
                self.begun += 1;
            }
            let Some(first) = self.running.front_mut() else { return Ok(None) };
            if let Some(Waiting { joined, .. }) = first.rows.recv().await {
                let batch = match (joined, &self.joining) {
                    (Joined::Rows(batch), _) => batch,
                    (Joined::Open(open), Some(joining)) => open.close(&self.carry, joining)?,
                    (Joined::Open(_), None) => {
                        return internal_err!("rows are open, and nothing closes them");
                    }
                };
                if batch.num_rows() > 0 {
                    return Ok(Some(batch));
                }
                continue;
            }
            let Some(ended) = self.running.pop_front() else { return Ok(None) };
            let joined = ended.task.join_unwind().await;
            if let Some(last) = joined.map_err(|error| DataFusionError::External(Box::new(error)))?? {
                self.carry.add(last)?;
                self.memory.try_resize(self.carry.bytes()?)?;
            }
        }
    }
}
