//! Sequence numbers of the updates of one venue, of one symbol: whether each follows on the one before.

use tapedb_market::{Entry, Gap, GapCause, MAX_VENUES, Package, PackageKind, SequenceRange};
use tapedb_schema::{Ascii, Timestamp};

/// Updates in a row that may have been there already; with more of them, the numbers have begun again.
const BEHIND_MAX: u32 = 1_000;

/// What a message says of a chain.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Proof {
    /// A snapshot states everything there is; it needs no proof.
    Snapshot,
    /// An update with sequence numbers, which nothing contradicts.
    Numbered,
    /// Nothing proves that there was nothing before it; `numbered` if it has numbers.
    None { numbered: bool },
    /// The numbers before an update are missing.
    Gap(Box<Gap>),
}

/// The chains of a symbol: each venue has its own numbers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Chains(Vec<Chain>);

#[derive(Debug, Clone, Default)]
struct Chain {
    /// The venue; updates without levels do not name it.
    exchange: Option<Option<Ascii<8>>>,
    /// When the last message came.
    last: Option<Timestamp>,
    sequence: Option<u64>,
    /// Sequence number of a snapshot that is below it: the numbers may have begun again.
    below: Option<u64>,
    /// Updates in a row whose numbers are not above it.
    behind: u32,
}

impl Chains {
    /// A recorded gap: numbers begin again behind it, of its venue, or of all if it names none.
    pub(crate) fn end(&mut self, gap: &Gap) {
        let is_of = |chain: &&mut Chain| gap.exchange.is_none() || chain.exchange == Some(gap.exchange);
        self.0.iter_mut().filter(is_of).for_each(|chain| chain.sequence = None);
    }

    /// The next package.
    pub(crate) fn follow(&mut self, time: Timestamp, package: &Package) -> Proof {
        let range = package.entries.iter().find_map(|entry| match entry {
            Entry::SequenceRange(range) => Some(*range),
            _ => None,
        });
        // Numbers of trades are others than those of the book, and some venues leave trades out of their feeds.
        let range = range.filter(|_| !package.entries.iter().any(|entry| matches!(entry, Entry::Trade(_))));
        let numbers = range.zip(package.sequence).filter(|_| package.kind == PackageKind::Update);
        let Some(at) = self.place(package.entries.iter().find_map(exchange), numbers) else {
            return Proof::None { numbered: false };
        };
        let chain = &mut self.0[at];
        let before = chain.last.replace(time);
        match numbers {
            Some((range, last)) => chain.update((before, time), range, last),
            // A snapshot states everything there is; it needs no proof.
            None if package.kind == PackageKind::Update => Proof::None { numbered: false },
            None => {
                if package.sequence < chain.sequence {
                    chain.below = package.sequence;
                }
                Proof::Snapshot
            }
        }
    }

    /// The chain of a venue. An update without levels is of the only venue, or of the one whose numbers it continues.
    fn place(
        &mut self,
        exchange: Option<Option<Ascii<8>>>,
        numbers: Option<(SequenceRange, u64)>,
    ) -> Option<usize> {
        if let (None, false) = (exchange, self.0.is_empty()) {
            let (range, _) = numbers.filter(|_| self.0.len() > 1).unwrap_or_default();
            let mut found = (0..self.0.len()).filter(|at| self.0.len() == 1 || self.0[*at].is_next(range));
            return found.next().filter(|_| found.next().is_none());
        }
        let is_it = |chain: &Chain| chain.exchange == exchange || chain.exchange.is_none();
        let found = self.0.iter().position(is_it).or_else(|| {
            let has_room = self.0.len() < MAX_VENUES;
            has_room.then(|| self.0.push(Chain::default())).map(|()| self.0.len() - 1)
        })?;
        self.0[found].exchange = self.0[found].exchange.or(exchange);
        Some(found)
    }
}

/// The venue that an entry is of.
fn exchange(entry: &Entry) -> Option<Option<Ascii<8>>> {
    match entry {
        Entry::Level2Update(entry) => Some(entry.exchange),
        Entry::Level2Snapshot(entry) => Some(entry.exchange),
        Entry::Level1(entry) => Some(entry.exchange),
        Entry::Trade(entry) => Some(entry.exchange),
        Entry::SequenceRange(_) => None,
    }
}

impl Chain {
    /// Whether an update is the very next one.
    fn is_next(&self, range: SequenceRange) -> bool {
        self.sequence.is_some_and(|number| match range.previous {
            Some(previous) => previous == number,
            None => Some(range.first) == number.checked_add(1),
        })
    }

    fn update(
        &mut self,
        (from, to): (Option<Timestamp>, Timestamp),
        range: SequenceRange,
        last: u64,
    ) -> Proof {
        let continues = |number: u64| {
            range.previous.map_or(range.first <= number.saturating_add(1), |previous| previous <= number)
        };
        let Some(before) = self.sequence else {
            self.sequence = Some(last);
            return Proof::Numbered;
        };
        if last <= before {
            // One that was there already, unless the numbers have begun again: then nothing proves what came between.
            self.behind += 1;
            let is_next = |below: u64| last < before && last > below && continues(below);
            if self.below.is_some_and(is_next) || self.behind > BEHIND_MAX {
                (self.sequence, self.below, self.behind) = (Some(last), None, 0);
                return Proof::None { numbered: true };
            }
            return Proof::Numbered;
        }
        (self.sequence, self.below, self.behind) = (Some(last), None, 0);
        if continues(before) {
            return Proof::Numbered;
        }
        // How many messages are missing is not known: venues number their changes over several symbols.
        Proof::Gap(Box::new(Gap {
            cause: GapCause::SequenceBreak,
            from,
            to: Some(to),
            first_missing: before.checked_add(1),
            last_missing: range.previous.or(range.first.checked_sub(1)),
            verifiable: true,
            exchange: self.exchange.flatten(),
            ..Gap::default()
        }))
    }
}
