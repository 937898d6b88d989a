//! Writes the arrivals of a plant: all its streams are appended to in turns.
//!
//! Always true, under the lock: `ends` has for each stream the number after its last message, synced or not; the run of
//! stream `last` is the last one that was begun, and `is_open` says whether it goes on.

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
        let sequencer =
            Arc::new(Self { plant: plan.name().into(), streams, arrivals, state: Mutex::new(state) });
        sequencer.catch_up(days.last())?;
        let lanes = 0..sequencer.streams.len() - 1;
        let order =
            |at: usize| sequencer.streams[at].1.order_by(Arc::new(Lane { sequencer: sequencer.clone(), at }));
        Ok(Sequenced { _ordered: lanes.map(order).collect(), sequencer })
    }

    /// Notes what is in the streams and in no run.
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
        if let Some(last) = state.last {
            state.ends[last] = self.streams[last].1.seen_end();
        }
        for (at, (_, stream)) in self.streams.iter().enumerate() {
            let end = stream.seen_end();
            if end > state.ends[at] {
                state.begin(at, self)?;
                state.ends[at] = end;
            }
        }
        Ok(())
    }

    /// Begins a day between two appends: `make` makes it of where it begins in each stream. It is in the calendar when this
    /// returns, and whoever reads one of its rows can read that.
    ///
    /// # Errors
    /// What keeps the calendar from being written, or what came before from being synced: the day has not begun then.
    pub fn begin_day(
        &self,
        ended: crate::Date,
        make: impl FnOnce(Vec<(String, u64)>) -> Day,
    ) -> Result<Day, TickError> {
        let mut state = self.lock();
        let calendar = self.streams.len() - 1;
        self.wait_for_syncs(&state)?;
        state.begin(calendar, self)?;
        let tables = self.streams[..calendar].iter().map(|(name, stream)| (name.clone(), stream.seen_end()));
        let day = make(tables.chain([(ARRIVALS.into(), self.arrivals.seen_end())]).collect());
        let written = write_day(&self.streams[calendar].1, &self.plant, &day, Some(ended));
        state.ends[calendar] = self.streams[calendar].1.seen_end();
        // So that a day's arrivals say by themselves whose run is the first.
        state.is_open = false;
        written.map(|()| day)
    }

    /// Waits until all rows can be read: no further one is written meanwhile.
    fn wait_for_syncs(&self, state: &State) -> Result<(), TickError> {
        let begun = Instant::now();
        let is_behind = |(at, (_, stream)): (usize, &(String, Stream))| stream.seen_end() < state.ends[at];
        while self.streams.iter().enumerate().any(is_behind) {
            if begun.elapsed() > SYNC_WAIT_MAX {
                return asked("the disk does not sync what was appended; the day goes on until it does");
            }
            std::thread::sleep(Duration::from_micros(100));
        }
        Ok(())
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
                ends[ended] = ends[ended].max(run.end);
            }
            last = at(message.symbol());
        }
        Ok(Self { ends, last })
    }
}
