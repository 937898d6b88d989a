//! Writes the arrivals of a plant: its streams are appended to one at a time.
//!
//! Always true, under the lock: `ends` has for each stream the number after its last message, synced or not (of the calendar also
//! the message of a pending cut); the run of stream `last` is the last one that was begun, and `is_open` states whether it
//! continues. No thread waits for a sync under the lock: an appending thread takes it while it holds its log.

use super::{ARRIVALS, Run};
use crate::calendar::{CALENDAR, Day, write_day};
use crate::clock::now;
use crate::error::{TickError, asked};
use crate::plan::Plan;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tapedb_engine::{Error, Loader, Ordered, Stream, SymbolId, WriteOrder};

/// How long the end of a day waits for the disk to sync the rows before it.
const SYNC_WAIT_MAX: Duration = Duration::from_secs(30);

/// See the module. In the process that has the plant's database open for writing.
#[derive(Debug)]
pub(crate) struct Sequencer {
    plant: String,
    /// The tables' streams, and last the calendar.
    streams: Vec<(String, Stream)>,
    arrivals: Stream,
    state: Mutex<State>,
    /// A cut between two days that is not in the calendar yet. Held by the thread that ends a day, never by appending threads.
    cut: Mutex<Option<Cut>>,
}

/// The beginning of a day: determined under the lock, and written into the calendar when all rows below it are synced.
#[derive(Debug)]
struct Cut {
    /// The numbers after the last rows before it, table by table.
    ends: Vec<u64>,
    /// The first run after it.
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

/// Sequences a plant's streams until it is dropped.
#[derive(Debug)]
pub(crate) struct Sequenced {
    pub sequencer: Arc<Sequencer>,
    _ordered: Vec<Ordered>,
}

/// One stream of the plant.
struct SequencedStream {
    sequencer: Arc<Sequencer>,
    at: usize,
}

impl WriteOrder for SequencedStream {
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
    /// Continues the arrivals of a plant, or begins them. Rows that were appended without a sequencer come first, table by
    /// table.
    ///
    /// # Errors
    /// When the streams cannot be read or written; [`TickError::Asked`] for a plant without a stream of arrivals.
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
        let tables = 0..sequencer.streams.len() - 1;
        let order = |at: usize| {
            sequencer.streams[at].1.order_by(Arc::new(SequencedStream { sequencer: sequencer.clone(), at }))
        };
        Ok(Sequenced { _ordered: tables.map(order).collect(), sequencer })
    }

    /// Adds runs for rows that are in no run, and for rows that are in a run but were lost from its stream in a power cut.
    fn catch_up(&self, today: Option<&Day>) -> Result<(), TickError> {
        let mut state = self.lock();
        // Messages that the calendar refers to may have been lost in a power cut.
        let recorded = today.map_or(0, |day| day.first_of(ARRIVALS));
        while self.arrivals.seen_end() < recorded {
            let symbol = state.symbols[self.streams.len() - 1];
            (self.arrivals.seen_end()..recorded)
                .try_for_each(|_| state.loader.append_by_id(symbol, now(), &Run::default()))?;
            state.loader.flush()?;
        }
        let ends: Vec<u64> = self.streams.iter().map(|(_, stream)| stream.seen_end()).collect();
        let recorded = state.ends.clone();
        // Below the recorded end: such rows are lost, and no later run may contain them.
        (0..ends.len()).for_each(|at| state.ends[at] = recorded[at].min(ends[at]));
        if let Some(last) = state.last {
            state.ends[last] = ends[last];
        }
        let lost: Vec<usize> = (0..ends.len()).filter(|at| ends[*at] < recorded[*at]).collect();
        for (at, end) in ends.iter().enumerate() {
            if *end > state.ends[at] {
                state.begin(at, self)?;
                state.ends[at] = *end;
            }
        }
        // An empty run of each stream that lost rows: it ends before an earlier one did, so subscriptions stop waiting for them.
        for at in &lost {
            state.begin(*at, self)?;
        }
        if !lost.is_empty() {
            state.begin(ends.len() - 1, self)?;
        }
        Ok(())
    }

    /// Begins a day between two appends: `make` creates it from its beginning in each stream. When this returns it is in the
    /// calendar, and all rows before it are synced. Readers of tables may see its first rows shortly before it is in the
    /// calendar, if rows before it were being synced when it began; a subscription returns all in order.
    ///
    /// # Errors
    /// When the calendar cannot be written, or earlier rows cannot be synced: if the cut had been made, the day begins at that
    /// cut when this is called again.
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
            // There is no other writer of it.
            state.ends[calendar] = self.streams[calendar].1.seen_end() + 1;
            // So that a day's arrivals begin with a run of their own.
            state.is_open = false;
            // Rows that were appended without the sequencer, as by a rewrite, are included.
            let ends = self.streams[..calendar].iter().zip(&state.ends);
            let ends = ends.map(|((_, stream), end)| stream.seen_end().max(*end)).collect();
            *pending = Some(Cut { ends, arrivals: self.arrivals.seen_end() });
        }
        let Some(cut) = &*pending else { return asked("no day has begun") };
        if self.is_behind(cut) {
            // Not under the lock: a thread that waits for it holds its log, and others may need that log to sync.
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
        let began = Instant::now();
        while self.is_behind(cut) {
            if began.elapsed() > SYNC_WAIT_MAX {
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
            // It must not be written later, after other rows.
            self.loader.discard();
            return Err(error);
        }
        (self.last, self.is_open) = (Some(at), true);
        Ok(())
    }
}

/// The state that the arrivals of a day show.
struct Found {
    ends: Vec<u64>,
    last: Option<usize>,
}

impl Found {
    fn read(arrivals: &Stream, names: &[&str], days: &[Day]) -> Result<Self, TickError> {
        let at = |name: &str| names.iter().position(|other| *other == name);
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
                // Not the largest: after a power cut a table continues at a smaller number.
                ends[ended] = run.end;
            }
            last = at(message.symbol());
        }
        Ok(Self { ends, last })
    }
}
