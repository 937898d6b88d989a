//! Reads a plant in order of arrival.

use super::{ARRIVALS, Run};
use crate::calendar::{CALENDAR, Day, day_of};
use crate::error::TickError;
use crate::plan::Plan;
use std::time::{Duration, Instant};
use tapedb_engine::{Cursor, Message, Stream};

/// Rows that a run has and that do not come for so long may have been lost with the power.
const LOST_AFTER: Duration = Duration::from_millis(100);

/// What comes next.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// A row of the table that has this place in [`Plan::tables`]: [`Subscription::message`] has it.
    Row(usize),
    /// A day begins: all rows before it were of the day before.
    Day(Day),
    /// Nothing has come by now.
    Nothing,
}

/// All rows of a plant's tables, and the beginnings of its days, in the order in which they arrived there: history, then what
/// comes. The plant may be anywhere. (A cursor over the tables' streams gives each stream in its order, and knows of no order
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
/// Always true: all rows before the run of lane `open` have been given, and no row behind it.
#[derive(Debug)]
pub struct Subscription {
    arrivals: Stream,
    runs: Cursor,
    next_run: u64,
    /// The tables, and last the calendar.
    lanes: Vec<Lane>,
    /// Whose run it is; `None`: that of a table that is not read, or of none yet.
    open: Option<usize>,
    /// Rows of that lane below this number are of the run.
    known: u64,
    /// Where the run ends, and whose is the next, if that has been read.
    closing: Option<(u64, Option<usize>)>,
    /// Since when rows of a run that ended do not come, and what looks for a later run that knows why.
    missing: Option<(Instant, Option<Cursor>)>,
    /// Whether it is known without asking what has arrived.
    is_here: bool,
}

/// A place in the order of arrival, beside the numbers of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Place {
    next_run: u64,
    open: Option<usize>,
}

#[derive(Debug)]
struct Lane {
    name: String,
    stream: Stream,
    cursor: Cursor,
    /// Number after the last row that was given.
    next: u64,
    /// Rows from this number on are not given for now.
    cap: u64,
    /// Whether the cursor stands on a row that has not been given.
    is_ahead: bool,
}

impl Subscription {
    /// From where today began.
    ///
    /// # Errors
    /// [`TickError::Asked`] for a plant that does not note arrivals; what keeps its streams from being read.
    pub fn today(plan: &Plan) -> Result<Self, TickError> {
        let days = plan.days()?;
        Self::from_day(plan, &days[days.len() - 1], days.len() as u64)
    }

    /// From where a day began; of the calendar, messages from `next_day` on are given.
    pub(crate) fn from_day(plan: &Plan, day: &Day, next_day: u64) -> Result<Self, TickError> {
        let nexts: Vec<u64> = plan.tables().iter().map(|(table, _)| day.first_of(table.name())).collect();
        Self::open(plan, &nexts, next_day, Place::of_day(day))
    }

    /// From what comes from now on.
    ///
    /// # Errors
    /// As [`Subscription::today`].
    pub fn now(plan: &Plan) -> Result<Self, TickError> {
        let (place, next_day) = (Place::now(plan)?, plan.days()?.len() as u64);
        let end = |(_, stream): &(_, Stream)| Ok(stream.stats()?.next_sequence);
        let nexts = plan.tables().iter().map(end).collect::<Result<Vec<_>, TickError>>()?;
        Self::open(plan, &nexts, next_day, place)
    }

    /// From these rows of each table on, whose runs are not before a place.
    pub(crate) fn open(plan: &Plan, nexts: &[u64], next_day: u64, place: Place) -> Result<Self, TickError> {
        let arrivals = plan.arrivals()?.clone();
        let tables = plan.tables().iter().map(|(table, stream)| (table.name(), stream));
        let streams = tables.chain([(CALENDAR, plan.calendar())]);
        let nexts = nexts.iter().copied().chain([next_day]);
        let lanes = streams.zip(nexts).map(|((name, stream), next)| Lane::open(name, stream, next));
        Ok(Self {
            runs: arrivals.cursor().from_sequence(place.next_run).live().open()?,
            next_run: place.next_run,
            lanes: lanes.collect::<Result<_, _>>()?,
            open: place.open,
            known: 0,
            closing: None,
            missing: None,
            is_here: arrivals.is_writable(),
            arrivals,
        })
    }

    /// Goes on by one step.
    ///
    /// # Errors
    /// What keeps the streams from being read; the next call goes on.
    pub fn advance(&mut self) -> Result<Step, TickError> {
        loop {
            if let Some(at) = self.open
                && self.step_in_run(at)?
            {
                self.missing = None;
                return self.stepped(at);
            }
            match self.closing {
                Some((end, next)) if self.open.is_none_or(|at| self.lanes[at].next >= end) => {
                    (self.open, self.closing, self.known) = (next, None, 0);
                    self.missing = None;
                }
                Some((end, next)) => match self.lost_from(end)? {
                    Some(end) => self.closing = Some((end, next)),
                    None => return Ok(Step::Nothing),
                },
                None => {
                    if !self.look()? {
                        return Ok(Step::Nothing);
                    }
                }
            }
        }
    }

    /// The row of the last step.
    pub fn message(&self, table: usize) -> Option<Message<'_>> {
        self.lanes.get(table)?.cursor.current()
    }

    /// Waits until something may have come; at most so long.
    ///
    /// # Errors
    /// As [`Cursor::wait`].
    pub fn wait(&mut self, timeout: Duration) -> Result<(), TickError> {
        // A row of another lane comes behind the message that begins its run.
        let open = self.open.and_then(|at| self.lanes.get_mut(at));
        let mut cursors: Vec<&mut Cursor> = vec![&mut self.runs];
        cursors.extend(open.filter(|lane| !lane.is_ahead).map(|lane| &mut lane.cursor));
        Ok(Cursor::wait_for_any(&mut cursors, timeout)?)
    }

    /// Where it is.
    pub(crate) fn place(&self) -> Place {
        // A run that has been read and not begun is read again.
        let next_run = self.next_run - u64::from(self.closing.is_some());
        Place { next_run, open: self.open }
    }

    /// Gives no rows from these numbers on, nor days from `next_day` on, until other numbers are set.
    pub(crate) fn set_caps(&mut self, nexts: &[u64], next_day: u64) {
        let caps = nexts.iter().copied().chain([next_day]);
        self.lanes.iter_mut().zip(caps).for_each(|(lane, cap)| lane.cap = cap);
    }

    /// Moves to the next row of the run; `false`: there is none now, or no further one.
    fn step_in_run(&mut self, at: usize) -> Result<bool, TickError> {
        let lane = &mut self.lanes[at];
        let end = self.closing.map_or(self.known, |(end, _)| end);
        let limit = end.min(lane.cap);
        if lane.next >= limit {
            return Ok(false);
        }
        if lane.advance_below(limit)? {
            return Ok(true);
        }
        // Seen before the last look: what is not there now is not there at all.
        let seen = lane.stream.seen_end();
        if lane.advance_below(limit)? {
            return Ok(true);
        }
        if lane.is_ahead || seen >= limit {
            lane.next = limit;
        }
        Ok(false)
    }

    /// Where the run really ended, if rows of it were lost in a power cut: a plant that opens after one writes a later run of
    /// the same table that ends at a smaller number, and otherwise these numbers only grow.
    fn lost_from(&mut self, end: u64) -> Result<Option<u64>, TickError> {
        let Some(lane) = self.open.map(|at| &self.lanes[at]) else { return Ok(None) };
        let (since, later) = self.missing.get_or_insert_with(|| (Instant::now(), None));
        if lane.cap <= lane.next || since.elapsed() < LOST_AFTER {
            return Ok(None);
        }
        if later.is_none() {
            *later = Some(self.arrivals.cursor().from_sequence(self.next_run).live().open()?);
        }
        let Some(later) = later else { return Ok(None) };
        while let Some(message) = later.next()? {
            let run: Run = message.decode()?;
            if run.ended == lane.name && run.end < end {
                return Ok(Some(run.end));
            }
        }
        Ok(None)
    }

    fn stepped(&mut self, at: usize) -> Result<Step, TickError> {
        if at + 1 < self.lanes.len() {
            return Ok(Step::Row(at));
        }
        match self.lanes[at].cursor.current() {
            Some(message) => Ok(Step::Day(day_of(&message)?)),
            None => Ok(Step::Nothing),
        }
    }

    /// Looks what has arrived: further rows of the run, or where it ended; `false`: nothing.
    fn look(&mut self) -> Result<bool, TickError> {
        // In this order: a row that was seen before no further run could be read is of this one.
        let seen = self.open.map_or(0, |at| self.lanes[at].stream.seen_end());
        let runs = match self.is_here {
            true => 0,
            // What is known here of one stream may be older than what is known of another.
            false if seen > self.known => self.arrivals.stats()?.next_sequence,
            false => 0,
        };
        if let Some(message) = self.runs.next()? {
            let run: Run = message.decode()?;
            let next = self.lanes.iter().position(|lane| lane.name == message.symbol());
            self.next_run = message.sequence() + 1;
            let end = match self.open.map(|at| &self.lanes[at]) {
                Some(lane) if lane.name == run.ended => run.end,
                Some(lane) => lane.next,
                None => 0,
            };
            self.closing = Some((end, next));
            return Ok(true);
        }
        if self.next_run < runs || seen <= self.known {
            return Ok(false);
        }
        self.known = seen;
        Ok(true)
    }
}

impl Lane {
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

impl Place {
    /// Where a day began.
    pub fn of_day(day: &Day) -> Self {
        Self { next_run: day.first_of(ARRIVALS), open: None }
    }

    /// Where the plant is now; what has been appended by then, or is appended later, is not before it.
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
