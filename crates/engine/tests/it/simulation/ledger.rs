//! What must be in a stream, according to what was acknowledged, compared with what is found.

use crate::support::number_of;
use std::collections::BTreeMap;
use tapedb_engine::{Durability, Error, LogError, Retention, Stream, StreamOptions, Unreadable};
use tapedb_log::sim::Stop;

/// Whether something exists that was created, and perhaps removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    There,
    Gone,
    /// The call that should create or remove it failed: opening the database shows the result.
    Doubtful,
}

/// A message.
#[derive(Clone, Debug)]
pub struct Row {
    pub number: u64,
    pub time: i64,
    pub symbol: String,
    pub fate: Fate,
}

/// A space.
#[derive(Clone, Debug, Default)]
pub struct Lane {
    /// By sequence number.
    pub rows: Vec<Row>,
    /// Number of acknowledged messages; the others are one batch whose flush failed.
    pub acknowledged: usize,
    /// Number of sealed messages, which are on the disk.
    pub sealed: usize,
}

/// A stream.
#[derive(Clone, Debug)]
pub struct Ledger {
    pub name: &'static str,
    /// The name it has if a call to rename it that failed did so.
    pub renamed: Option<&'static str>,
    /// A symbol and the name it has if a call to rename it that failed did so.
    pub respelled: Option<(String, String)>,
    /// Which of these, it depends on calls that failed.
    pub options: Vec<StreamOptions>,
    pub exists: Fate,
    /// A power cut has left holes, which are reported as long as their files are there.
    has_holes: bool,
    pub lanes: Vec<Lane>,
}

/// What a cursor returned.
#[derive(Debug, Default)]
pub struct Found {
    /// By space and sequence number: number, time, symbol.
    rows: BTreeMap<(u32, u64), (u64, i64, String)>,
    /// Sequence number after the last one, by space.
    next: Vec<usize>,
    damage: Vec<String>,
    /// Errors after which it was tried again.
    pub refused: Vec<Error>,
}

impl Ledger {
    pub fn new(name: &'static str, options: StreamOptions) -> Self {
        let lanes = vec![Lane::default(); options.spaces as usize];
        let options = vec![options];
        Self { name, renamed: None, respelled: None, options, exists: Fate::Gone, has_holes: false, lanes }
    }

    /// Clears everything except the name and the options.
    pub fn renew(&mut self) {
        *self = Self::new(self.name, self.options[0]);
    }

    /// Whether messages are only in memory.
    pub fn is_transient(&self) -> bool {
        self.options[0].durability == Durability::Transient
    }

    /// The process has ended, in whatever way.
    pub fn end_process(&mut self) {
        if self.is_transient() {
            self.lanes.fill(Lane::default());
        }
    }

    /// Notes that retention may have purged sealed messages: whole segments, so it is unknown which. Young messages stay, and
    /// with a limit of size the latest one.
    pub fn expire(&mut self) {
        let Some(latest) = self.lanes.iter().flat_map(|lane| &lane.rows).map(|row| row.time).max() else {
            return;
        };
        let kept_from = self.options.iter().map(|options| match options.retention {
            Retention { bytes: Some(_), .. } => latest,
            Retention { age: Some(age), .. } => latest - age.as_nanos() as i64,
            _ => i64::MIN,
        });
        let kept_from = kept_from.max().unwrap_or(i64::MIN);
        for lane in &mut self.lanes {
            for row in lane.rows.iter_mut().filter(|row| row.time < kept_from && row.fate == Fate::There) {
                row.fate = Fate::Doubtful;
            }
        }
    }

    /// Notes that messages were deleted, or perhaps were.
    pub fn delete(&mut self, times: (i64, i64), symbols: Option<&[String]>, fate: Fate) {
        for lane in &mut self.lanes {
            let acknowledged = lane.acknowledged;
            for row in &mut lane.rows[..acknowledged] {
                let is_meant = (times.0..=times.1).contains(&row.time)
                    && symbols.is_none_or(|symbols| symbols.contains(&row.symbol));
                if is_meant && row.fate != Fate::Gone {
                    row.fate = fate;
                }
            }
        }
    }

    /// Notes that a symbol has another name.
    pub fn rename_symbol(&mut self, old: &str, new: &str) {
        let rows = self.lanes.iter_mut().flat_map(|lane| &mut lane.rows).filter(|row| row.symbol == old);
        rows.for_each(|row| row.symbol = new.into());
    }

    /// Whether a symbol may be found under another name than it was given.
    fn is_respelled(&self, symbol: &str, found: &str) -> bool {
        self.respelled.as_ref().is_some_and(|(old, new)| symbol == old && found == new)
    }

    /// Notes that messages of a space were replaced by others, or perhaps were.
    pub fn rewrite(
        &mut self,
        space: usize,
        times: (i64, i64),
        symbols: Option<&[String]>,
        new: Vec<Row>,
        done: bool,
    ) {
        let lane = &mut self.lanes[space];
        let acknowledged = lane.acknowledged;
        for row in &mut lane.rows[..acknowledged] {
            let is_meant = (times.0..=times.1).contains(&row.time)
                && symbols.is_none_or(|symbols| symbols.contains(&row.symbol));
            if is_meant && row.fate != Fate::Gone {
                row.fate = if done { Fate::Gone } else { Fate::Doubtful };
            }
        }
        lane.rows.extend(new);
        if done {
            (lane.acknowledged, lane.sealed) = (lane.rows.len(), lane.rows.len());
        }
    }

    /// Compares the ledger with what was found, which is all there is, after a stop or without one.
    pub fn check(&self, found: &Found, stop: Option<Stop>) {
        assert!(
            found.damage.is_empty() || self.has_holes || self.may_lose(stop),
            "{}: nothing may be damaged: {:?}",
            self.name,
            found.damage
        );
        for ((space, sequence), (number, time, symbol)) in &found.rows {
            let row = self.lanes[*space as usize].rows.get(*sequence as usize);
            let place = format!("{}, space {space}, message {sequence}", self.name);
            let row = row.unwrap_or_else(|| panic!("{place} was never written"));
            assert_eq!((row.number, row.time), (*number, *time), "{place}");
            // A power cut may take names that only the last log file uses.
            let is_lost = symbol.starts_with('?') && self.may_lose(stop);
            let is_it = row.symbol == *symbol || self.is_respelled(&row.symbol, symbol);
            assert!(is_it || is_lost, "{place}: {symbol:?} instead of {:?}", row.symbol);
            assert!(row.fate != Fate::Gone, "{place} was deleted and is there");
        }
        for (space, lane) in self.lanes.iter().enumerate() {
            self.check_lane(space as u32, lane, found, stop);
        }
    }

    fn check_lane(&self, space: u32, lane: &Lane, found: &Found, stop: Option<Stop>) {
        let place = format!("{}, space {space}", self.name);
        let is_there = |sequence: usize| found.rows.contains_key(&(space, sequence as u64));
        let next = found.next[space as usize];
        let safe = if self.may_lose(stop) { lane.sealed } else { lane.acknowledged };
        assert!(
            (safe..=lane.rows.len()).contains(&next),
            "{place}: {next} messages, {safe} acknowledged, after {stop:?}"
        );
        for (sequence, row) in lane.rows.iter().enumerate().take(safe) {
            assert!(
                row.fate != Fate::There || is_there(sequence),
                "{place}: message {sequence} of {next} is missing, {} acknowledged, {} sealed",
                lane.acknowledged,
                lane.sealed
            );
        }
        let open = lane.acknowledged.min(next)..next;
        let count = open.clone().filter(|sequence| is_there(*sequence)).count();
        assert!(count == 0 || self.may_lose(stop) || next == lane.rows.len(), "{place}: a part of a batch");
        let has_holes = (safe..next).any(|at| lane.rows[at].fate == Fate::There && !is_there(at));
        assert!(!has_holes || !found.damage.is_empty(), "{place}: messages are missing without an error");
    }

    /// From now on what was found is what must exist. Returns how many of the uncertain messages do not exist.
    pub fn settle(&mut self, found: &Found) -> usize {
        let mut gone = 0;
        self.has_holes = !found.damage.is_empty();
        self.respelled = None;
        for (space, lane) in self.lanes.iter_mut().enumerate() {
            lane.rows.truncate(found.next[space]);
            for (sequence, row) in lane.rows.iter_mut().enumerate() {
                let there = found.rows.get(&(space as u32, sequence as u64));
                gone += usize::from(row.fate == Fate::Doubtful && there.is_none());
                row.fate = if there.is_some() { Fate::There } else { Fate::Gone };
                there.inspect(|(_, _, symbol)| row.symbol.clone_from(symbol));
            }
            lane.acknowledged = lane.rows.len();
            lane.sealed = lane.sealed.min(lane.acknowledged);
        }
        gone
    }

    /// Whether a power cut has left holes.
    pub fn has_holes(&self) -> bool {
        self.has_holes
    }

    fn may_lose(&self, stop: Option<Stop>) -> bool {
        stop == Some(Stop::Power) && self.options[0].durability == Durability::Async
    }
}

impl Found {
    /// All messages of a stream, read forwards and backwards. After this many errors that are not damage it is tried again.
    ///
    /// # Errors
    /// The next one.
    pub fn read(stream: &Stream, retries: u32) -> Result<Self, Error> {
        let mut found = Self { next: next_sequences(stream)?, ..Self::default() };
        let mut cursor = stream.cursor().open()?;
        let (mut last, mut order) = (i64::MIN, Vec::new());
        loop {
            match cursor.next() {
                Ok(Some(message)) => {
                    let (place, time) = ((message.space(), message.sequence()), message.time().0);
                    assert!(time >= last, "history is in order of time");
                    last = time;
                    let row = (number_of(&message), time, message.symbol().to_string());
                    assert!(found.rows.insert(place, row).is_none(), "{place:?} is there twice");
                    order.push(place);
                }
                Ok(None) => break,
                Err(error) if is_damage(&error) => found.damage.push(error.to_string()),
                Err(error) if found.refused.len() < retries as usize => found.refused.push(error),
                Err(error) => return Err(error),
            }
        }
        let mut backwards = Vec::new();
        let mut cursor = stream.cursor().reverse().open()?;
        loop {
            match cursor.next() {
                Ok(Some(message)) => backwards.push((message.space(), message.sequence())),
                Ok(None) => break,
                Err(error) if is_damage(&error) => {}
                Err(error) if found.refused.len() < retries as usize => found.refused.push(error),
                Err(error) => return Err(error),
            }
        }
        // Equal times of several spaces come in the order of the spaces, both ways.
        order.sort_unstable();
        backwards.sort_unstable();
        assert_eq!(order, backwards, "forwards and backwards");
        Ok(found)
    }
}

/// Whether an error is about messages that cannot be read.
pub fn is_damage(error: &Error) -> bool {
    match error {
        Error::Log(error) => matches!(**error, LogError::Damaged { .. }),
        Error::Unreadable(Unreadable::Lost(_)) => true,
        _ => false,
    }
}

/// Sequence numbers of the next messages, by space.
pub fn next_sequences(stream: &Stream) -> Result<Vec<usize>, Error> {
    let position = stream.cursor().skip_history().open()?.position().to_string();
    let next = |line: &str| line.split(' ').nth(1).and_then(|next| next.parse().ok());
    Ok(position.lines().map(|line| next(line).unwrap_or_else(|| panic!("{line}"))).collect())
}
