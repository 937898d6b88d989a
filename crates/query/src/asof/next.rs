//! Forwards, and to the nearest: for each row of the left side the next row of the right side, or the nearer one of the last and the
//! next.
//!
//! Both sides are read together in the order of time. Rows of the left side wait for the next row of their key; batches are returned in
//! order, when none of their rows waits. A batch of the right side is held as long as a row refers to it.

use super::input::{Input, Rows};
use super::keys::{Keys, NONE};
use super::node::Direction;
use super::output::joined;
use super::sides::{Begun, Joining};
use datafusion::arrow::array::RecordBatch;
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use std::collections::{BTreeMap, VecDeque};

/// A forward or nearest join.
pub(super) struct NextRows {
    left: Input,
    right: Input,
    joining: Joining,
    keys: Keys,
    nothing: RecordBatch,
    /// Batches of the left side that have not been returned. The last one may have rows that are not joined yet.
    waiting: VecDeque<Waiting>,
    /// Number of the first row in them, counted over all batches.
    first: u64,
    /// Batches of the right side by number.
    held: BTreeMap<u64, Held>,
    /// The batch of the right side that is being read, its number and its next row.
    current: Option<(Rows, u64, usize)>,
    next_number: u64,
    is_left_over: bool,
    is_right_over: bool,
    queues: Vec<Queue>,
    /// The keys that have had a row at the last time of the right side.
    recent: Vec<u32>,
    recent_time: i64,
    /// For batches of both sides, and for keys.
    memory: MemoryReservation,
    of_keys: MemoryReservation,
}

/// A batch of the left side.
struct Waiting {
    rows: Rows,
    /// Rows before this one have been looked at.
    seen: usize,
    places: Vec<Option<Place>>,
    /// Rows that wait.
    open: usize,
}

impl Waiting {
    /// About how many bytes it takes, with the numbers of its rows in queues.
    fn bytes(&self) -> usize {
        self.rows.bytes + self.places.len() * (size_of::<Option<Place>>() + size_of::<u64>())
    }
}

/// A batch of the right side, and how often it is referred to.
struct Held {
    batch: RecordBatch,
    bytes: usize,
    references: usize,
}

/// A row of the right side.
#[derive(Debug, Clone, Copy)]
struct Place {
    time: i64,
    batch: u64,
    row: usize,
}

/// The rows of the left side that have a key, by their numbers.
#[derive(Default)]
struct Queue {
    /// Those that wait for a later row of the right side.
    waiting: Vec<u64>,
    /// Those that have one, until it is known that no other one of the same time follows.
    joined: Vec<u64>,
    /// The last row of the right side, for the nearest.
    last: Option<Place>,
}

impl NextRows {
    /// A join of which nothing has been read.
    pub fn new(begun: Begun) -> Self {
        let Begun { left, right, joining, keys, nothing, memory } = begun;
        Self {
            left,
            right,
            joining,
            keys,
            nothing,
            waiting: VecDeque::new(),
            first: 0,
            held: BTreeMap::new(),
            current: None,
            next_number: 0,
            is_left_over: false,
            is_right_over: false,
            queues: Vec::new(),
            recent: Vec::new(),
            recent_time: i64::MIN,
            of_keys: memory.new_empty(),
            memory,
        }
    }

    /// The next batch; `None`: that was all.
    ///
    /// # Errors
    /// Those of the inputs; when there is no memory for the rows that wait.
    pub async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            let is_done = |waiting: &Waiting| waiting.open == 0 && waiting.seen == waiting.places.len();
            if self.waiting.front().is_some_and(is_done)
                && let Some(waiting) = self.waiting.pop_front()
            {
                self.first += waiting.places.len() as u64;
                let batch = self.join(waiting)?;
                if batch.num_rows() > 0 {
                    return Ok(Some(batch));
                }
                continue;
            }
            self.fill().await?;
            let left = self.waiting.back().filter(|waiting| waiting.seen < waiting.places.len());
            let left_time = left.map(|waiting| {
                if waiting.seen < waiting.rows.timed { waiting.rows.times[waiting.seen] } else { i64::MAX }
            });
            let right_time = self.current.as_ref().map(|(rows, _, at)| rows.times[*at]);
            match (left_time, right_time) {
                (None, None) if self.waiting.is_empty() => return Ok(None),
                (None, None) => self.waiting.iter_mut().for_each(|waiting| waiting.open = 0),
                (Some(_), None) => {
                    // The right side is over: no row waits any more.
                    self.waiting.iter_mut().for_each(|waiting| waiting.open = 0);
                    self.look_at_left();
                }
                (None, Some(_)) if self.waiting.is_empty() => return Ok(None),
                (None, Some(_)) => self.look_at_right(),
                (Some(left), Some(right))
                    if left < right || left == right && !self.joining.matching.strict =>
                {
                    self.look_at_left();
                }
                (Some(_), Some(_)) => self.look_at_right(),
            }
        }
    }

    /// Reads a batch of each side that has none, unless it is over.
    async fn fill(&mut self) -> Result<()> {
        let is_seen = self.waiting.back().is_none_or(|waiting| waiting.seen == waiting.places.len());
        if is_seen && !self.is_left_over {
            match self.left.next(&mut self.keys).await? {
                Some(rows) => {
                    let places = vec![None; rows.batch.num_rows()];
                    let waiting = Waiting { rows, seen: 0, places, open: 0 };
                    self.memory.try_grow(waiting.bytes())?;
                    self.waiting.push_back(waiting);
                }
                None => self.is_left_over = true,
            }
        }
        while self.current.is_none() && !self.is_right_over {
            match self.right.next(&mut self.keys).await? {
                Some(rows) if rows.timed == 0 => {}
                Some(rows) => {
                    self.memory.try_grow(rows.bytes)?;
                    // The batch that is being read counts as referred to.
                    let held = Held { batch: rows.batch.clone(), bytes: rows.bytes, references: 1 };
                    self.held.insert(self.next_number, held);
                    self.current = Some((rows, self.next_number, 0));
                    self.next_number += 1;
                }
                None => self.is_right_over = true,
            }
        }
        self.queues.resize_with(self.keys.len(), Queue::default);
        self.of_keys.try_resize(self.keys.bytes() + self.queues.capacity() * size_of::<Queue>())
    }

    fn look_at_left(&mut self) {
        let before: usize = self.waiting.iter().rev().skip(1).map(|waiting| waiting.places.len()).sum();
        let Some(waiting) = self.waiting.back_mut() else { return };
        let row = waiting.seen;
        waiting.seen += 1;
        let number = waiting.rows.numbers[row];
        if number == NONE || row >= waiting.rows.timed {
            return;
        }
        let time = waiting.rows.times[row];
        let queue = &mut self.queues[number as usize];
        if self.joining.matching.direction == Direction::Nearest
            && let Some(last) = queue.last
            && self.joining.matching.allows(last.time, time)
        {
            waiting.places[row] = Some(last);
            refer(&mut self.held, last.batch);
        }
        if !(self.is_right_over && self.current.is_none()) {
            waiting.open += 1;
            queue.waiting.push(self.first + (before + row) as u64);
        }
    }

    fn look_at_right(&mut self) {
        let Some((rows, batch, at)) = &mut self.current else { return };
        let (batch, row) = (*batch, *at);
        let (time, number) = (rows.times[row], rows.numbers[row]);
        *at += 1;
        let is_read = *at == rows.timed;
        if time != self.recent_time {
            self.settle();
            self.recent_time = time;
        }
        if number != NONE {
            self.join_key(number, Place { time, batch, row });
        }
        if is_read {
            self.current = None;
            release(&mut self.held, &mut self.memory, batch);
        }
    }

    /// Joins the rows that wait for a row of this key.
    fn join_key(&mut self, number: u32, place: Place) {
        let queue = &mut self.queues[number as usize];
        if queue.joined.is_empty() && !queue.waiting.is_empty() {
            self.recent.push(number);
        }
        // Of rows of the same time the last one counts.
        let mut rows = std::mem::take(&mut queue.joined);
        rows.append(&mut queue.waiting);
        for global in &rows {
            self.offer(*global, place);
        }
        let queue = &mut self.queues[number as usize];
        queue.joined = rows;
        if self.joining.matching.direction == Direction::Nearest {
            let before = queue.last.replace(place);
            refer(&mut self.held, place.batch);
            if let Some(before) = before {
                release(&mut self.held, &mut self.memory, before.batch);
            }
        }
    }

    /// Gives a row of the left side a row of the right side, if that is better than what it has.
    fn offer(&mut self, global: u64, place: Place) {
        let Some((waiting, row)) = find(&mut self.waiting, self.first, global) else { return };
        let time = waiting.rows.times[row];
        let distance = place.time.abs_diff(time);
        if !self.joining.matching.allows(time, place.time) {
            return;
        }
        let found = &mut waiting.places[row];
        // What is before is kept if it is as near; what is behind is of the same time.
        if found.is_some_and(|found| {
            found.time <= time && found.time != place.time && time.abs_diff(found.time) <= distance
        }) {
            return;
        }
        let before = found.replace(place);
        refer(&mut self.held, place.batch);
        if let Some(before) = before {
            release(&mut self.held, &mut self.memory, before.batch);
        }
    }

    /// The right side has passed the time of its last rows: what they were joined with is final.
    fn settle(&mut self) {
        for number in std::mem::take(&mut self.recent) {
            for global in std::mem::take(&mut self.queues[number as usize].joined) {
                if let Some((waiting, _)) = find(&mut self.waiting, self.first, global) {
                    waiting.open -= 1;
                }
            }
        }
    }

    /// The rows of a batch, none of which waits.
    fn join(&mut self, waiting: Waiting) -> Result<RecordBatch> {
        let mut held = vec![self.nothing.clone()];
        let mut indices: BTreeMap<u64, usize> = BTreeMap::new();
        let places = waiting.places.iter().map(|place| match place {
            None => (0, 0),
            Some(place) => {
                let index = *indices.entry(place.batch).or_insert_with(|| {
                    let batch = self
                        .held
                        .get(&place.batch)
                        .map_or_else(|| self.nothing.clone(), |held| held.batch.clone());
                    held.push(batch);
                    held.len() - 1
                });
                (index, place.row)
            }
        });
        let places = places.collect();
        let batch = joined(&waiting.rows.batch, &held, places, &self.joining)?;
        for place in waiting.places.iter().flatten() {
            release(&mut self.held, &mut self.memory, place.batch);
        }
        self.memory.shrink(waiting.bytes());
        Ok(batch)
    }
}

/// The batch that has a row of the left side, and the row in it.
fn find(waiting: &mut VecDeque<Waiting>, first: u64, global: u64) -> Option<(&mut Waiting, usize)> {
    let mut row = usize::try_from(global.checked_sub(first)?).ok()?;
    for batch in waiting {
        if row < batch.places.len() {
            return Some((batch, row));
        }
        row -= batch.places.len();
    }
    None
}

fn refer(held: &mut BTreeMap<u64, Held>, batch: u64) {
    if let Some(found) = held.get_mut(&batch) {
        found.references += 1;
    }
}

/// Ends a reference; a batch without one is dropped.
fn release(held: &mut BTreeMap<u64, Held>, memory: &mut MemoryReservation, batch: u64) {
    let Some(found) = held.get_mut(&batch) else { return };
    found.references -= 1;
    if found.references == 0 {
        memory.shrink(found.bytes);
        held.remove(&batch);
    }
}
