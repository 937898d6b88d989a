//! Writes the arrivals of a plant: all its streams are appended to in turns.
//!
//! Always true, under the lock: `ends` has for each stream the number after its last message, synced or not (of the calendar also
//! the message that a cut is going to have); the run of stream `last` is the last one that was begun, and `is_open` says
//! whether it goes on. Nobody waits for a sync under the lock: those who append take it while they have their log to themselves.

use super::{ARRIVALS, Run};
use crate::calendar::{CALENDAR, Day};
use crate::error::{TickError, asked};
use crate::plan::Plan;
use crate::plant::{now, write_day};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tapedb_engine::{Error, Loader, Order, Ordered, Stream, SymbolId};

/// How long the end of a day waits for the disk to sync what came before it.
const SYNC_WAIT_MAX: Duration = Duration::from_secs(30);

/// See the module. In the process that has the plant's database open for writing.
#[derive(Debug)]
pub(crate) struct Sequencer {
    plant: String,
    /// The tables' streams, and last the calendar.
    streams: Vec<(String, Stream)>,
    arrivals: Stream,
    state: Mutex<State>,
    /// A cut between two days that is not in the calendar yet. Held by whoever ends a day, never by those who append.
    cut: Mutex<Option<Cut>>,
}

/// Where a day begins: it is taken under the lock, and written into the calendar when all rows below it are synced.
#[derive(Debug)]
struct Cut {
    /// The numbers after the last rows before it, table by table.
    ends: Vec<u64>,
    /// The first run behind it.
    arrivals: u64,
}

#[derive(Debug)]
struct State {
    loader: Loader,
    symbols: Vec<SymbolId>,
    ends: Vec<u64>,
    last: Option<usize>,
    is_open: bool,
}

/// Keeps a plant's streams in order until it is dropped.
#[derive(Debug)]
pub(crate) struct Sequenced {
    pub sequencer: Arc<Sequencer>,
    _ordered: Vec<Ordered>,
}

/// One stream of the plant.
struct Lane {
    sequencer: Arc<Sequencer>,
    at: usize,
}

impl Order for Lane {
    fn write(&self, _: u64, write: &mut dyn FnMut() -> Result<u64, Error>) -> Result<(), Error> {
        let sequencer = &*self.sequencer;
        let mut state = sequencer.lock();
        if !(state.is_open && state.last == Some(self.at)) {
            state.begin(self.at, sequencer)?;
        }
        state.ends[self.at] = write()?;
        Ok(())
    }
}

impl Sequencer {
    /// Goes on with the arrivals of a plant, or begins them. What was appended while nobody sequenced comes first, table by
    /// table.
    ///
    /// # Errors
    /// What keeps the streams from being read or written; [`TickError::Asked`] for a plant without a stream of arrivals.
    pub fn start(plan: &Plan) -> Result<Sequenced, TickError> {
        let arrivals = plan.arrivals()?.clone();
        let tables = plan.tables().iter().map(|(table, stream)| (table.name().to_string(), stream.clone()));
        let streams: Vec<_> = tables.chain([(CALENDAR.to_string(), plan.calendar().clone())]).collect();
        let mut loader = arrivals.loader()?;
        let names: Vec<&str> = streams.iter().map(|(name, _)| name.as_str()).collect();
        let symbols = loader.symbol_ids(&names)?;
        let days = plan.days()?;
        let found = Found::read(&arrivals, &names, &days)?;
        let state =
            State { loader, symbols, ends: found.ends, last: found.last, is_open: found.last.is_some() };
        let sequencer = Arc::new(Self {
            plant: plan.name().into(),
            streams,
            arrivals,
            state: Mutex::new(state),
            cut: Mutex::default(),
        });
        sequencer.catch_up(days.last())?;
        let lanes = 0..sequencer.streams.len() - 1;
        let order =
            |at: usize| sequencer.streams[at].1.order_by(Arc::new(Lane { sequencer: sequencer.clone(), at }));
        Ok(Sequenced { _ordered: lanes.map(order).collect(), sequencer })
    }

    /// Notes what is in the streams and in no run, and what is in a run and, after a power cut, not in its stream any more.
    fn catch_up(&self, today: Option<&Day>) -> Result<(), TickError> {
        let mut state = self.lock();
        // What the calendar says was noted may have been lost with the power.
        let noted = today.map_or(0, |day| day.first_of(ARRIVALS));
        while self.arrivals.seen_end() < noted {
            let symbol = state.symbols[self.streams.len() - 1];
            (self.arrivals.seen_end()..noted)
                .try_for_each(|_| state.loader.append_by_id(symbol, now(), &Run::default()))?;
            state.loader.flush()?;
        }
        let ends: Vec<u64> = self.streams.iter().map(|(_, stream)| stream.seen_end()).collect();
        let noted = state.ends.clone();
        // Below what is noted: such rows are lost, and no later run may say that they are there.
        (0..ends.len()).for_each(|at| state.ends[at] = noted[at].min(ends[at]));
        if let Some(last) = state.last {
            state.ends[last] = ends[last];
        }
        let lost: Vec<usize> = (0..ends.len()).filter(|at| ends[*at] < noted[*at]).collect();
        for (at, end) in ends.iter().enumerate() {
            if *end > state.ends[at] {
                state.begin(at, self)?;
                state.ends[at] = *end;
            }
        }
        // An empty run of each that lost rows: that it ends before an earlier one did tells subscriptions not to wait for them.
        for at in &lost {
            state.begin(*at, self)?;
        }
        if !lost.is_empty() {
            state.begin(ends.len() - 1, self)?;
        }
        Ok(())
    }

    /// Begins a day between two appends: `make` makes it of where it begins in each stream. It is in the calendar when this
    /// returns, and all rows before it are synced. Readers of tables may see its first rows shortly before it is in the
    /// calendar, if rows before it were being synced when it began; a subscription gives all in order.
    ///
    /// # Errors
    /// What keeps the calendar from being written, or what came before from being synced: if rows had been cut apart by then,
    /// the day begins at that cut when this is called again.
    pub fn begin_day(
        &self,
        ended: crate::Date,
        make: impl FnOnce(Vec<(String, u64)>) -> Day,
    ) -> Result<Day, TickError> {
        let mut pending = self.cut.lock().unwrap_or_else(PoisonError::into_inner);
        let calendar = self.streams.len() - 1;
        let mut state = self.lock();
        if pending.is_none() {
            state.begin(calendar, self)?;
            // Nobody else writes there.
            state.ends[calendar] = self.streams[calendar].1.seen_end() + 1;
            // So that a day's arrivals say by themselves whose run is the first.
            state.is_open = false;
            // What was appended in no order, as by a rewrite, is there too.
            let ends = self.streams[..calendar].iter().zip(&state.ends);
            let ends = ends.map(|((_, stream), end)| stream.seen_end().max(*end)).collect();
            *pending = Some(Cut { ends, arrivals: self.arrivals.seen_end() });
        }
        let Some(cut) = &*pending else { return asked("no day has begun") };
        if self.is_behind(cut) {
            // Not under the lock: whoever waits for it has a log to himself, and others may need that log to sync.
            drop(state);
            self.wait_for_syncs(cut)?;
        }
        let tables = self.streams.iter().zip(&cut.ends).map(|((name, _), end)| (name.clone(), *end));
        let day = make(tables.chain([(ARRIVALS.into(), cut.arrivals)]).collect());
        write_day(&self.streams[calendar].1, &self.plant, &day, Some(ended))?;
        *pending = None;
        Ok(day)
    }

    /// Waits until all rows before a cut can be read.
    fn wait_for_syncs(&self, cut: &Cut) -> Result<(), TickError> {
        let begun = Instant::now();
        while self.is_behind(cut) {
            if begun.elapsed() > SYNC_WAIT_MAX {
                return asked("the disk does not sync what was appended; end the day again when it does");
            }
            std::thread::sleep(Duration::from_micros(100));
        }
        Ok(())
    }

    fn is_behind(&self, cut: &Cut) -> bool {
        self.streams.iter().zip(&cut.ends).any(|((_, stream), end)| stream.seen_end() < *end)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Begins a run.
    fn begin(&mut self, at: usize, of: &Sequencer) -> Result<(), Error> {
        let run = match self.last {
            Some(last) => Run { ended: of.streams[last].0.clone(), end: self.ends[last] },
            None => Run::default(),
        };
        let appended = self.loader.append_by_id(self.symbols[at], now(), &run);
        if let Err(error) = appended.and_then(|()| self.loader.flush()) {
            // It must not be written later, when other rows have come.
            self.loader.discard();
            return Err(error);
        }
        (self.last, self.is_open) = (Some(at), true);
        Ok(())
    }
}

/// What the arrivals of a day say so far.
struct Found {
    ends: Vec<u64>,
    last: Option<usize>,
}

impl Found {
    fn read(arrivals: &Stream, names: &[&str], days: &[Day]) -> Result<Self, TickError> {
        let at = |name: &str| names.iter().position(|known| *known == name);
        let today = days.last().filter(|day| day.first.iter().any(|(name, _)| name == ARRIVALS));
        let of_table = |name: &&str| today.map_or(0, |day| day.first_of(name));
        let mut ends: Vec<u64> = names.iter().map(of_table).collect();
        if let Some(calendar) = ends.last_mut() {
            *calendar = days.len() as u64;
        }
        let mut last = None;
        let from = today.map_or(0, |day| day.first_of(ARRIVALS));
        let mut cursor = arrivals.cursor().from_sequence(from).open()?;
        while let Some(message) = cursor.next()? {
            let run: Run = message.decode()?;
            if let Some(ended) = at(&run.ended) {
                // Not the largest: after a power cut a table goes on at a smaller number.
                ends[ended] = run.end;
            }
            last = at(message.symbol());
        }
        Ok(Self { ends, last })
    }
}
