//! Runs: stretches of values that belong to one symbol.

/// The values of a column, by where their runs end. Runs without values are none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Runs {
    pub ends: Vec<u32>,
}

impl Runs {
    /// Runs of these lengths.
    pub fn of(lengths: impl IntoIterator<Item = usize>) -> Self {
        let (mut ends, mut end) = (Vec::new(), 0);
        for length in lengths.into_iter().filter(|length| *length > 0) {
            end += length as u32;
            ends.push(end);
        }
        Self { ends }
    }

    /// How many values there are.
    pub fn count(&self) -> usize {
        self.ends.last().map_or(0, |end| *end as usize)
    }

    /// The places of the values of each run.
    pub fn each(&self) -> impl Iterator<Item = std::ops::Range<usize>> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| start as usize..*end as usize)
    }

    /// Those of the values that are members.
    pub fn filter(&self, is_member: &[bool]) -> Self {
        Self::of(self.each().map(|run| is_member[run].iter().filter(|is_member| **is_member).count()))
    }

    /// Those of the items of arrays that have so many each.
    pub fn expand(&self, counts: &[usize]) -> Self {
        Self::of(self.each().map(|run| counts[run].iter().sum()))
    }
}
