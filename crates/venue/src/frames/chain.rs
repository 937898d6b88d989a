//! Sequences of numbers in which a hole shows that something is missing.

use super::messages::Messages;
use crate::fields::BadLine;
use tapedb_market::{Gap, GapCause};
use tapedb_schema::Timestamp;

/// The last number of a sequence and when it came.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Chain {
    last: Option<(u64, Timestamp)>,
}

impl Chain {
    /// Begins at a number, as a snapshot does: what is before does not matter.
    pub(crate) fn begin(&mut self, number: u64, out: &Messages) {
        self.last = Some((number, out.received()));
    }

    /// A message with the numbers from `first` to `last`, or one that is after `previous`. If it does not follow on the number before, a gap is
    /// added; the chain goes on from it.
    pub(crate) fn follow(
        &mut self,
        symbol: &str,
        (first, last): (u64, u64),
        previous: Option<u64>,
        out: &mut Messages,
    ) -> Result<(), BadLine> {
        let before = self.last.replace((last, out.received()));
        let Some((known, time)) = before else {
            out.unverifiable();
            return Ok(());
        };
        let expected = known.checked_add(1);
        let good = previous.map_or(Some(first) == expected, |previous| previous == known);
        out.checked(good);
        if good {
            return Ok(());
        }
        let missing = expected.filter(|expected| first > *expected && previous.is_none());
        let detail = match previous {
            Some(previous) => format!("{last} follows on {previous}, not on {known}"),
            None => format!("{first} does not follow on {known}"),
        };
        let gap = Gap {
            cause: GapCause::SequenceBreak,
            from: Some(time),
            to: Some(out.received()),
            first_missing: missing,
            last_missing: missing.map(|_| first - 1),
            verifiable: true,
            detail: Some(detail),
            ..Gap::default()
        };
        out.gap(symbol, gap)
    }
}
