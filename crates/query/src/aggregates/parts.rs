//! Groups whose rows come in parts: what is known of the rows of a part goes to the disk where memory does not suffice, and comes back
//! in any order.

use datafusion::error::{DataFusionError, Result};

/// What is known of the rows of a group between two of them.
pub(super) trait Part: Copy + Default {
    /// Numbers of the first and the last row; `None`: there is none.
    fn rows(&self) -> Option<(u64, u64)>;

    /// Adds the next rows of the group. Both parts have rows.
    ///
    /// # Errors
    /// When they cannot follow these.
    fn append(&mut self, next: Self) -> Result<()>;
}

/// The rows of a group, in parts that are put together when all are there.
#[derive(Debug, Clone, Default)]
pub(super) struct InParts<P> {
    /// The part that rows are added to.
    pub open: P,
    others: Vec<P>,
}

impl<P: Part> InParts<P> {
    pub fn of(open: P) -> Self {
        Self { open, others: Vec::new() }
    }

    /// Adds the parts of the same group from elsewhere.
    pub fn merge(&mut self, other: Self) {
        let parts = [other.open].into_iter().chain(other.others).filter(|part| part.rows().is_some());
        match self.open.rows() {
            None => parts.for_each(|part| {
                if self.open.rows().is_none() { self.open = part } else { self.others.push(part) }
            }),
            Some(_) => self.others.extend(parts),
        }
    }

    /// All of them together, in the order of the rows.
    ///
    /// # Errors
    /// When they overlap, or cannot follow each other.
    pub fn whole(&self) -> Result<P> {
        if self.others.is_empty() {
            return Ok(self.open);
        }
        let mut parts: Vec<(u64, u64, P)> = [&self.open]
            .into_iter()
            .chain(&self.others)
            .filter_map(|part| part.rows().map(|(first, last)| (first, last, *part)))
            .collect();
        parts.sort_by_key(|(first, ..)| *first);
        let mut parts = parts.into_iter();
        let Some((_, mut end, mut whole)) = parts.next() else { return Ok(P::default()) };
        for (first, last, part) in parts {
            if first <= end {
                return Err(DataFusionError::Internal("the parts of a group overlap".into()));
            }
            whole.append(part)?;
            end = last;
        }
        Ok(whole)
    }

    /// Bytes beyond its own size.
    pub fn heap_bytes(&self) -> usize {
        self.others.capacity() * size_of::<P>()
    }
}

/// [`InParts::whole`] of each group.
///
/// # Errors
/// As there.
pub(super) fn whole<P: Part>(states: &[InParts<P>]) -> Result<Vec<P>> {
    states.iter().map(InParts::whole).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows that are in it, one after the other.
    #[derive(Debug, Clone, Copy, Default, PartialEq)]
    struct Rows(Option<(u64, u64)>);

    impl Part for Rows {
        fn rows(&self) -> Option<(u64, u64)> {
            self.0
        }

        fn append(&mut self, next: Self) -> Result<()> {
            self.0 = self.0.zip(next.0).map(|((first, _), (_, last))| (first, last));
            Ok(())
        }
    }

    #[test]
    fn parts_are_put_together_in_any_order() {
        let of = |first, last| InParts::of(Rows(Some((first, last))));
        let mut found = InParts::default();
        for part in [of(20, 29), InParts::of(Rows(None)), of(0, 9), of(31, 31), of(10, 19)] {
            found.merge(part);
        }
        assert_eq!(found.whole().unwrap(), Rows(Some((0, 31))));
        let mut more = InParts::default();
        more.merge(found);
        assert_eq!(more.whole().unwrap(), Rows(Some((0, 31))));
        assert!(more.heap_bytes() > 0);
        more.merge(of(9, 10));
        assert!(more.whole().is_err(), "rows twice");
        assert_eq!(InParts::<Rows>::default().whole().unwrap(), Rows(None));
    }
}
