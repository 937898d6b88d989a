//! The names of streams by their ids, as in their definitions. Without this cache each request for an id that no stream has
//! would read all definitions.

use crate::error::Error;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Always true: the cache agrees with the definitions. Only the process that alone changes them uses it, and it calls
/// [`NamesById::forget`] after each change.
#[derive(Default)]
pub(crate) struct NamesById(Mutex<Option<HashMap<u64, String>>>);

/// A stream's name, and its id if its definition can be read.
pub(crate) type Named = (Result<Option<u64>, Error>, String);

impl NamesById {
    /// The name of the stream of an id. `read` lists all; the result is cached if `is_kept` and all could be read.
    pub fn find(
        &self,
        id: u64,
        is_kept: bool,
        read: impl FnOnce() -> Result<Vec<Named>, Error>,
    ) -> Result<Option<String>, Error> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(names) = &*known {
            return Ok(names.get(&id).cloned());
        }
        let found = read()?;
        let is_whole = found.iter().all(|(id, _)| matches!(id, Ok(Some(_))));
        let with_ids = found.into_iter().filter_map(|(id, name)| Some((id.ok()??, name)));
        let names: HashMap<_, _> = with_ids.collect();
        let name = names.get(&id).cloned();
        *known = (is_kept && is_whole).then_some(names);
        Ok(name)
    }

    /// A stream has been created, deleted or renamed.
    pub fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn definitions_are_read_once_until_a_stream_changes() {
        let (names, reads) = (NamesById::default(), Cell::new(0));
        let find = |id, is_kept| {
            let read = || {
                reads.set(reads.get() + 1);
                Ok(vec![(Ok(Some(7)), "a".into()), (Ok(Some(8)), "b".into())])
            };
            names.find(id, is_kept, read).unwrap()
        };
        assert_eq!(
            (find(7, false).as_deref(), find(8, true).as_deref(), reads.get()),
            (Some("a"), Some("b"), 2)
        );
        (0..1000).for_each(|id| drop(find(id, true)));
        assert_eq!(reads.get(), 2);
        names.forget();
        assert_eq!((find(9, true), reads.get()), (None, 3));
    }

    #[test]
    fn what_could_not_be_read_is_read_again() {
        let names = NamesById::default();
        let bad = || Ok(vec![(Err(Error::ReadOnly), "a".into())]);
        assert_eq!(names.find(7, true, bad).unwrap(), None);
        assert_eq!(
            names.find(7, true, || Ok(vec![(Ok(Some(7)), "a".into())])).unwrap().as_deref(),
            Some("a")
        );
    }
}
