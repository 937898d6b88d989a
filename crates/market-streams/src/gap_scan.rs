//! Gaps of a stream: those that were recorded as messages, and those that its messages show: holes in the venue's sequence numbers, and
//! silence beyond a limit.
//!
//! A symbol is complete only if each of its messages is a snapshot, or an update whose sequence numbers follow those of the update before.
//! Everything else cannot be verified, and is never counted as complete.

use crate::gap_chain::{Chains, Proof};
use crate::gap_list::has_messages;
use crate::gap_summary::{FoundGap, GapSummary};
use crate::writer::Pass;
use std::collections::HashSet;
use std::time::Duration;
use tapedb_codec::Record;
use tapedb_engine::{Cursor, CursorBuilder, Error, Message, Stream};
use tapedb_market::{Gap, GapCause, Package};
use tapedb_schema::Timestamp;

/// A scan of the messages of one stream, in time order.
#[derive(Debug)]
pub struct GapScan {
    stream: Stream,
    cursor: Cursor,
    /// Empty: all.
    selected: HashSet<String>,
    silence: Option<Duration>,
    package_type: Option<u16>,
    gap_type: Option<u16>,
    package: Package,
    symbols: Vec<Option<Seen>>,
    last: Option<Timestamp>,
    summary: GapSummary,
}

/// What is known of a symbol so far.
#[derive(Debug, Clone, Default)]
struct Seen {
    name: String,
    is_selected: bool,
    last: Option<Timestamp>,
    chains: Chains,
    /// Updates whose sequence numbers are known.
    numbered: u64,
    /// Messages that nothing proves to be all.
    unnumbered: u64,
    gaps: u64,
    /// Whether its gaps concern all symbols; known after its first gap.
    is_channel: Option<bool>,
}

impl GapScan {
    /// A scan of what a cursor over `stream` reads, such as a range of time. `symbols` selects some; without any, all are scanned. Gaps of
    /// channels and files concern all symbols, and are always found. `silence` is how long a symbol may be without messages; without it,
    /// silence is not a gap.
    ///
    /// # Errors
    /// The engine's.
    pub fn open(
        stream: &Stream,
        cursor: CursorBuilder,
        symbols: &[String],
        silence: Option<Duration>,
    ) -> Result<Self, Error> {
        let id = |name| stream.schema().record(name).map(|(id, _)| id);
        Ok(Self {
            stream: stream.clone(),
            cursor: cursor.open()?,
            selected: symbols.iter().cloned().collect(),
            silence,
            package_type: id(Package::NAME),
            gap_type: id(Gap::NAME),
            package: Package::default(),
            symbols: Vec::new(),
            last: None,
            summary: GapSummary::default(),
        })
    }

    /// Scans at most `messages` messages, and adds the gaps to `found`, in the order in which they were noticed. The last step adds those
    /// that have not ended.
    ///
    /// # Errors
    /// The engine's.
    pub fn step(&mut self, messages: u64, found: &mut Vec<FoundGap>) -> Result<Pass, Error> {
        for _ in 0..messages {
            let Some(message) = self.cursor.next()? else {
                self.finish(found);
                return Ok(Pass::UpToDate);
            };
            let (at, time) = (message.symbol_id() as usize, message.time());
            if at >= self.symbols.len() {
                self.symbols.resize_with(at + 1, || None);
            }
            let seen = self.symbols[at].get_or_insert_with(|| Seen::new(message.symbol(), &self.selected));
            self.last = Some(time);
            if Some(message.type_id()) == self.gap_type {
                let is_channel = match seen.is_channel {
                    Some(known) => known,
                    None => !has_messages(&self.stream, &other_types(&self.stream), &seen.name, time)?,
                };
                seen.is_channel = Some(is_channel);
                if seen.is_selected || is_channel {
                    let gap = message.decode()?;
                    seen.gaps += 1;
                    seen.chains.end(&gap);
                    self.summary.add(seen.found(time, gap, true), found);
                }
            } else if seen.is_selected {
                self.summary.messages += 1;
                if let Some(gap) = self.silence.and_then(|limit| seen.silence(limit, time)) {
                    self.summary.add(seen.found(time, gap, false), found);
                }
                if let Some(gap) = seen.message(&message, self.package_type, &mut self.package)? {
                    self.summary.add(seen.found(time, gap, false), found);
                }
                seen.last = Some(time);
            }
        }
        Ok(Pass::More)
    }

    /// What was found so far.
    pub fn summary(&self) -> &GapSummary {
        &self.summary
    }

    /// Silence that has not ended, and the verdict of each symbol.
    fn finish(&mut self, found: &mut Vec<FoundGap>) {
        let Some(end) = self.last.take() else { return };
        if let Some(limit) = self.silence {
            for seen in self.symbols.iter_mut().flatten() {
                if let Some(gap) = seen.silence(limit, end) {
                    self.summary.add(seen.found(end, Gap { to: None, ..gap }, false), found);
                }
            }
        }
        let symbols = || self.symbols.iter().flatten();
        let of_all = symbols().any(|seen| seen.is_channel == Some(true));
        for seen in symbols().filter(|seen| seen.last.is_some()) {
            self.summary.numbered += seen.numbered;
            self.summary.unnumbered += seen.unnumbered;
            match (seen.gaps, seen.numbered, seen.unnumbered) {
                (0, 1.., 0) if !of_all => self.summary.complete += 1,
                (0, ..) if !of_all => self.summary.unverifiable += 1,
                _ => self.summary.with_gaps += 1,
            }
        }
    }
}

/// Names of all record types of messages but gaps.
fn other_types(stream: &Stream) -> Vec<String> {
    let schema = stream.schema();
    let others = schema.records.iter().filter(|record| record.message && record.name != Gap::NAME);
    others.map(|record| record.name.clone()).collect()
}

impl Seen {
    fn new(name: &str, selected: &HashSet<String>) -> Self {
        let is_selected = selected.is_empty() || selected.contains(name);
        Self { name: name.into(), is_selected, ..Self::default() }
    }

    fn found(&self, time: Timestamp, gap: Gap, is_recorded: bool) -> FoundGap {
        FoundGap { time, symbol: self.name.clone(), gap, is_recorded }
    }

    fn silence(&mut self, limit: Duration, now: Timestamp) -> Option<Gap> {
        let last = self.last?;
        if u128::from(now.nanos().abs_diff(last.nanos())) <= limit.as_nanos() {
            return None;
        }
        self.gaps += 1;
        Some(Gap { cause: GapCause::Silence, from: Some(last), to: Some(now), ..Gap::default() })
    }

    /// A hole in the sequence numbers before a message, if it has such numbers.
    fn message(
        &mut self,
        message: &Message<'_>,
        package_type: Option<u16>,
        package: &mut Package,
    ) -> Result<Option<Gap>, Error> {
        if Some(message.type_id()) != package_type {
            self.unnumbered += 1;
            return Ok(None);
        }
        message.decode_into(package)?;
        match self.chains.follow(message.time(), package) {
            Proof::Snapshot => {}
            Proof::Numbered => self.numbered += 1,
            Proof::None { numbered } => {
                self.numbered += u64::from(numbered);
                self.unnumbered += 1;
            }
            Proof::Gap(gap) => {
                self.numbered += 1;
                self.gaps += 1;
                return Ok(Some(*gap));
            }
        }
        Ok(None)
    }
}
