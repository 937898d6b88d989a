//! Reads a plant in order of arrival.

use super::{ARRIVALS, Run};
use crate::calendar::{CALENDAR, Day, day_of};
use crate::error::TickError;
use crate::plan::Plan;
use std::time::{Duration, Instant};
use tapedb_engine::{Cursor, Message, Stream};

/// Rows of a run that do not arrive for so long may have been lost in a power cut.
const LOST_AFTER: Duration = Duration::from_millis(100);

/// The next step of a subscription.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// A row of the table with this index in [`Plan::tables`]: [`Subscription::message`] returns it.
    Row(usize),
    /// A day begins: all rows before it were of the day before.
    Day(Day),
    /// Nothing more has arrived yet.
    Nothing,
}

/// All rows of a plant's tables, and the beginnings of its days, in the order in which they arrived there: history, then new
/// ones. The plant may be local or remote. (A cursor over the tables' streams gives each stream in its order, but no order
/// between them.)
///
/// ```no_run
/// # use tapedb_tick::{Plan, Step, Subscription};
/// # fn run(db: &tapedb_engine::Database) -> Result<(), tapedb_tick::TickError> {
/// let mut subscription = Subscription::today(&Plan::open(db, "tp")?)?;
/// loop {
///     match subscription.advance()? {
///         Step::Row(table) => println!("{table}: {}", subscription.message(table).unwrap().symbol()),
///         Step::Day(day) => println!("it is {}", day.date),
///         Step::Nothing => subscription.wait(std::time::Duration::from_secs(1))?,
///     }
/// }
/// # }
/// ```
///
/// Always true: all rows before the run of reader `open` have been returned, and no row behind it.
#[derive(Debug)]
pub struct Subscription {
    arrivals: Stream,
    runs: Cursor,
    next_run: u64,
    /// The tables, and last the calendar.
    readers: Vec<TableReader>,
    /// The reader of the current run; `None`: a run of a table that is not read, or no run yet.
    open: Option<usize>,
    /// Rows of that reader below this number are of the run.
    available: u64,
    /// The end of the run, and the reader of the next one, if that message has been read.
    closing: Option<(u64, Option<usize>)>,
    /// Since when rows of a run that ended are missing, and the search for a later run that shows their loss.
    missing: Option<(Instant, Option<Cursor>)>,
    /// Whether the database is local, so that the ends of streams are always current.
    is_local: bool,
}

/// A position in the order of arrival, beside the sequence numbers of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ArrivalPosition {
    next_run: u64,
    open: Option<usize>,
}

#[derive(Debug)]
struct TableReader {
    name: String,
    stream: Stream,
    cursor: Cursor,
    /// Number after the last row that was returned.
    next: u64,
    /// Rows from this number on are not returned for now.
    cap: u64,
    /// Whether the cursor is at a row that has not been returned.
    is_ahead: bool,
}

impl Subscription {
    /// From the beginning of today.
    ///
    /// # Errors
    /// [`TickError::Asked`] for a plant without arrivals; when its streams cannot be read.
    pub fn today(plan: &Plan) -> Result<Self, TickError> {
        let days = plan.days()?;
        Self::from_day(plan, &days[days.len() - 1], days.len() as u64)
    }

    /// From the beginning of a day; of the calendar, messages from `next_day` on are returned.
    pub(crate) fn from_day(plan: &Plan, day: &Day, next_day: u64) -> Result<Self, TickError> {
        let nexts: Vec<u64> = plan.tables().iter().map(|(table, _)| day.first_of(table.name())).collect();
        Self::open(plan, &nexts, next_day, ArrivalPosition::of_day(day))
    }

    /// From the next row on.
    ///
    /// # Errors
    /// As [`Subscription::today`].
    pub fn now(plan: &Plan) -> Result<Self, TickError> {
        let (position, next_day) = (ArrivalPosition::now(plan)?, plan.days()?.len() as u64);
        let end = |(_, stream): &(_, Stream)| Ok(stream.stats()?.next_sequence);
        let nexts = plan.tables().iter().map(end).collect::<Result<Vec<_>, TickError>>()?;
        Self::open(plan, &nexts, next_day, position)
    }

    /// From these rows of each table on, whose runs are not before a position.
    pub(crate) fn open(
        plan: &Plan,
        nexts: &[u64],
        next_day: u64,
        position: ArrivalPosition,
    ) -> Result<Self, TickError> {
        let arrivals = plan.arrivals()?.clone();
        let tables = plan.tables().iter().map(|(table, stream)| (table.name(), stream));
        let streams = tables.chain([(CALENDAR, plan.calendar())]);
        let nexts = nexts.iter().copied().chain([next_day]);
        let readers = streams.zip(nexts).map(|((name, stream), next)| TableReader::open(name, stream, next));
        Ok(Self {
            runs: arrivals.cursor().from_sequence(position.next_run).live().open()?,
            next_run: position.next_run,
            readers: readers.collect::<Result<_, _>>()?,
            open: position.open,
            available: 0,
            closing: None,
            missing: None,
            is_local: arrivals.is_writable(),
            arrivals,
        })
    }

    /// Goes on by one step.
    ///
    /// # Errors
    /// When the streams cannot be read; the next call continues.
    pub fn advance(&mut self) -> Result<Step, TickError> {
        loop {
            if let Some(at) = self.open
                && self.step_in_run(at)?
            {
                self.missing = None;
                return self.stepped(at);
            }
            match self.closing {
                Some((end, next)) if self.open.is_none_or(|at| self.readers[at].next >= end) => {
                    (self.open, self.closing, self.available) = (next, None, 0);
                    self.missing = None;
                }
                Some((end, next)) => match self.lost_from(end)? {
                    Some(end) => self.closing = Some((end, next)),
                    None => return Ok(Step::Nothing),
                },
                None => {
                    if !self.check_arrivals()? {
                        return Ok(Step::Nothing);
                    }
                }
            }
        }
    }

    /// The row of the last step.
    pub fn message(&self, table: usize) -> Option<Message<'_>> {
        self.readers.get(table)?.cursor.current()
    }

    /// Waits until something may have arrived, at most `timeout`.
    ///
    /// # Errors
    /// As [`Cursor::wait`].
    pub fn wait(&mut self, timeout: Duration) -> Result<(), TickError> {
        // A row of another reader follows the message that begins its run.
        let open = self.open.and_then(|at| self.readers.get_mut(at));
        let mut cursors: Vec<&mut Cursor> = vec![&mut self.runs];
        cursors.extend(open.filter(|reader| !reader.is_ahead).map(|reader| &mut reader.cursor));
        Ok(Cursor::wait_for_any(&mut cursors, timeout)?)
    }

    /// Its position.
    pub(crate) fn position(&self) -> ArrivalPosition {
        // A run that has been read and has not begun is read again.
        let next_run = self.next_run - u64::from(self.closing.is_some());
        ArrivalPosition { next_run, open: self.open }
    }

    /// Returns no rows from these numbers on, nor days from `next_day` on, until other numbers are set.
    pub(crate) fn set_caps(&mut self, nexts: &[u64], next_day: u64) {
        let caps = nexts.iter().copied().chain([next_day]);
        self.readers.iter_mut().zip(caps).for_each(|(reader, cap)| reader.cap = cap);
    }

    /// Moves to the next row of the run; `false`: there is none now, or no further one.
    fn step_in_run(&mut self, at: usize) -> Result<bool, TickError> {
        let reader = &mut self.readers[at];
        let end = self.closing.map_or(self.available, |(end, _)| end);
        let limit = end.min(reader.cap);
        if reader.next >= limit {
            return Ok(false);
        }
        if reader.advance_below(limit)? {
            return Ok(true);
        }
        // Read before the last attempt: rows that are missing now do not exist.
        let seen = reader.stream.seen_end();
        if reader.advance_below(limit)? {
            return Ok(true);
        }
        if reader.is_ahead || seen >= limit {
            reader.next = limit;
        }
        Ok(false)
    }

    /// The actual end of the run, if rows of it were lost in a power cut: a plant that opens after one writes a later run of
    /// the same table that ends at a smaller number; otherwise these numbers only grow.
    fn lost_from(&mut self, end: u64) -> Result<Option<u64>, TickError> {
        let Some(reader) = self.open.map(|at| &self.readers[at]) else { return Ok(None) };
        let (since, later) = self.missing.get_or_insert_with(|| (Instant::now(), None));
        if reader.cap <= reader.next || since.elapsed() < LOST_AFTER {
            return Ok(None);
        }
        if later.is_none() {
            *later = Some(self.arrivals.cursor().from_sequence(self.next_run).live().open()?);
        }
        let Some(later) = later else { return Ok(None) };
        while let Some(message) = later.next()? {
            let run: Run = message.decode()?;
            if run.ended == reader.name && run.end < end {
                return Ok(Some(run.end));
            }
        }
        Ok(None)
    }

    fn stepped(&mut self, at: usize) -> Result<Step, TickError> {
        if at + 1 < self.readers.len() {
            return Ok(Step::Row(at));
        }
        match self.readers[at].cursor.current() {
            Some(message) => Ok(Step::Day(day_of(&message)?)),
            None => Ok(Step::Nothing),
        }
    }

    /// Checks what has arrived: further rows of the run, or its end; `false`: nothing.
    fn check_arrivals(&mut self) -> Result<bool, TickError> {
        // In this order: a row that was visible before the search for a further run failed is of this run.
        let seen = self.open.map_or(0, |at| self.readers[at].stream.seen_end());
        let runs = match self.is_local {
            true => 0,
            // The cached end of one stream may be older than that of another.
            false if seen > self.available => self.arrivals.stats()?.next_sequence,
            false => 0,
        };
        if let Some(message) = self.runs.next()? {
            let run: Run = message.decode()?;
            let next = self.readers.iter().position(|reader| reader.name == message.symbol());
            self.next_run = message.sequence() + 1;
            let end = match self.open.map(|at| &self.readers[at]) {
                Some(reader) if reader.name == run.ended => run.end,
                Some(reader) => reader.next,
                None => 0,
            };
            self.closing = Some((end, next));
            return Ok(true);
        }
        if self.next_run < runs || seen <= self.available {
            return Ok(false);
        }
        self.available = seen;
        Ok(true)
    }
}

impl TableReader {
    fn open(name: &str, stream: &Stream, next: u64) -> Result<Self, TickError> {
        let cursor = stream.cursor().from_sequence(next).live().open()?;
        let (name, stream) = (name.to_string(), stream.clone());
        Ok(Self { name, stream, cursor, next, cap: u64::MAX, is_ahead: false })
    }

    /// Moves to the next row if it is below a number.
    fn advance_below(&mut self, limit: u64) -> Result<bool, TickError> {
        loop {
            let ahead = if self.is_ahead { self.cursor.current() } else { self.cursor.next()? };
            let Some(sequence) = ahead.map(|message| message.sequence()) else {
                self.is_ahead = false;
                return Ok(false);
            };
            self.is_ahead = sequence >= limit;
            if self.is_ahead {
                return Ok(false);
            }
            if sequence >= self.next {
                self.next = sequence + 1;
                return Ok(true);
            }
        }
    }
}

impl ArrivalPosition {
    /// The beginning of a day.
    pub fn of_day(day: &Day) -> Self {
        Self { next_run: day.first_of(ARRIVALS), open: None }
    }

    /// The plant's position now: rows appended after this call are not before it.
    pub fn now(plan: &Plan) -> Result<Self, TickError> {
        let arrivals = plan.arrivals()?;
        let next_run = arrivals.stats()?.next_sequence;
        let Some(last) = next_run.checked_sub(1) else { return Ok(Self::default()) };
        let mut cursor = arrivals.cursor().from_sequence(last).open()?;
        let names = plan.tables().iter().map(|(table, _)| table.name()).chain([CALENDAR]);
        let open = match cursor.next()? {
            Some(message) => names.into_iter().position(|name| name == message.symbol()),
            None => None,
        };
        Ok(Self { next_run, open })
    }
}
