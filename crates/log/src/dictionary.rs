//! The symbols of a stream in memory: id to name without a lock, name to id with one.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

/// Longest symbol, in bytes.
pub const MAX_SYMBOL_BYTES: usize = 255;
/// Most symbols in one stream: 16 Mi.
pub const MAX_SYMBOLS: usize = 16 << 20;

/// Names in the first chunk; every further chunk has twice as many.
const FIRST_CHUNK: usize = 64;
/// Chunks needed for [`MAX_SYMBOLS`] names.
const CHUNKS: usize = 19;

const _: () = assert!(FIRST_CHUNK * ((1 << CHUNKS) - 1) >= MAX_SYMBOLS);

type Chunk = Box<[Slot]>;

/// Symbols by id and by name. One writer adds and renames, any number of readers look up. A name never moves in memory,
/// and stays valid for its holders after the symbol is renamed.
#[derive(Debug, Default)]
pub struct Dictionary {
    chunks: [OnceLock<Chunk>; CHUNKS],
    len: AtomicU32,
    ids: RwLock<HashMap<Arc<str>, u32>>,
    renames: AtomicU64,
}

/// A symbol's name, and the name that replaced it.
#[derive(Debug, Default)]
struct Slot {
    name: OnceLock<Arc<str>>,
    next: OnceLock<Box<Slot>>,
}

impl Slot {
    /// The slot of the current name.
    fn current(&self) -> &Self {
        let mut slot = self;
        while let Some(next) = slot.next.get() {
            slot = next;
        }
        slot
    }
}

impl Dictionary {
    /// Symbols.
    pub fn len(&self) -> u32 {
        self.len.load(Ordering::Acquire)
    }

    /// True when there are no symbols.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The name of a symbol id. Takes no lock, so it is fast enough for every message.
    pub fn name(&self, id: u32) -> Option<&str> {
        self.slot(id)?.current().name.get().map(|name| &**name)
    }

    /// The name of a symbol id, shared.
    pub fn shared_name(&self, id: u32) -> Option<Arc<str>> {
        self.slot(id)?.current().name.get().cloned()
    }

    /// The id of a symbol. Takes a lock shared with other readers: a loader caches the ids it uses.
    pub fn id(&self, name: &str) -> Option<u32> {
        self.ids.read().unwrap_or_else(PoisonError::into_inner).get(name).copied()
    }

    /// The names from id `from` on, in order of id.
    pub fn names_from(&self, from: u32) -> impl Iterator<Item = &str> {
        (from..self.len()).filter_map(|id| self.name(id))
    }

    /// Applies the names of a remote dictionary from id `from` on; one thread at a time. A symbol with another name there
    /// has been renamed. `false`: names before them are missing or they exceed [`MAX_SYMBOLS`]; nothing is applied then.
    pub fn follow<'a>(&self, from: u32, names: impl IntoIterator<Item = &'a str>) -> bool {
        let len = self.len();
        let (mut new, mut renamed) = (Vec::new(), Vec::new());
        for (id, name) in (u64::from(from)..).zip(names) {
            match u32::try_from(id) {
                Ok(id) if id < len && self.name(id) == Some(name) => {}
                Ok(id) if id < len => renamed.push((id, name)),
                Ok(id) if id == len + new.len() as u32 && (id as usize) < MAX_SYMBOLS => new.push(name),
                _ => return false,
            }
        }
        self.rename_all(&renamed);
        self.extend(new);
        true
    }

    /// Adds names in order. Only the symbol file calls this, one thread at a time, within [`MAX_SYMBOLS`].
    pub(crate) fn extend<'a>(&self, names: impl IntoIterator<Item = &'a str>) {
        let mut ids = self.ids.write().unwrap_or_else(PoisonError::into_inner);
        for name in names {
            let id = self.len.load(Ordering::Relaxed);
            let name: Arc<str> = name.into();
            let (chunk, at) = locate(id);
            let slots = self.chunks[chunk].get_or_init(|| empty_chunk(FIRST_CHUNK << chunk));
            let _ = slots[at].name.set(Arc::clone(&name));
            ids.entry(name).or_insert(id);
            self.len.store(id + 1, Ordering::Release);
        }
    }

    /// How often symbols have been renamed: a cache of ids or names must be cleared when this changes.
    #[inline]
    pub fn renames(&self) -> u64 {
        // Pairs with the Release in `rename_all`: a thread that reads the number finds the name.
        self.renames.load(Ordering::Acquire)
    }

    /// Renames an existing symbol. Only the symbol file calls this, one thread at a time.
    pub(crate) fn rename(&self, id: u32, name: &str) {
        self.rename_all(&[(id, name)]);
    }

    /// Renames existing symbols at once: one may get the name that another had before.
    fn rename_all(&self, renamed: &[(u32, &str)]) {
        let mut ids = self.ids.write().unwrap_or_else(PoisonError::into_inner);
        for (id, _) in renamed {
            if let Some(old) = self.slot(*id).and_then(|slot| slot.current().name.get())
                && ids.get(old) == Some(id)
            {
                ids.remove(old);
            }
        }
        for (id, name) in renamed {
            let Some(slot) = self.slot(*id).map(Slot::current) else { continue };
            let name: Arc<str> = (*name).into();
            let next = Slot { name: OnceLock::from(Arc::clone(&name)), next: OnceLock::new() };
            let _ = slot.next.set(Box::new(next));
            ids.entry(name).or_insert(*id);
            self.renames.fetch_add(1, Ordering::Release);
        }
    }

    fn slot(&self, id: u32) -> Option<&Slot> {
        let (chunk, at) = locate(id);
        self.chunks.get(chunk)?.get()?.get(at)
    }
}

fn empty_chunk(len: usize) -> Chunk {
    (0..len).map(|_| Slot::default()).collect()
}

/// Chunk of an id, and its index there.
fn locate(id: u32) -> (usize, usize) {
    let shifted = id as usize + FIRST_CHUNK;
    let chunk = (shifted.ilog2() - FIRST_CHUNK.ilog2()) as usize;
    (chunk, shifted - (FIRST_CHUNK << chunk))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_ordinals_across_chunks() {
        let dictionary = Dictionary::default();
        let names: Vec<_> = (0..1000).map(|i| format!("S{i}")).collect();
        dictionary.extend(names.iter().map(String::as_str));
        for (id, name) in (0..).zip(&names) {
            assert_eq!((dictionary.id(name), dictionary.name(id)), (Some(id), Some(name.as_str())));
        }
        assert_eq!((dictionary.len(), dictionary.name(1000), dictionary.id("S1000")), (1000, None, None));
        assert_eq!(dictionary.name(u32::MAX), None);
        assert!(dictionary.names_from(998).eq(["S998", "S999"]));
    }

    #[test]
    fn a_remote_dictionary_is_followed() {
        let dictionary = Dictionary::default();
        assert!(dictionary.follow(0, ["A", "B"]) && dictionary.follow(1, ["B", "C"]));
        assert!(!dictionary.follow(4, ["E"]));
        assert!(dictionary.names_from(0).eq(["A", "B", "C"]));
        assert_eq!(dictionary.renames(), 0);
    }

    #[test]
    fn symbols_renamed_remotely_are_renamed_here_whatever_their_names_were() {
        let dictionary = Dictionary::default();
        assert!(dictionary.follow(0, ["A", "B", "C"]));
        assert!(dictionary.follow(0, ["B", "A", "D", "C"]));
        assert!(dictionary.names_from(0).eq(["B", "A", "D", "C"]));
        assert_eq!(
            ["A", "B", "C", "D"].map(|name| dictionary.id(name)),
            [Some(1), Some(0), Some(3), Some(2)]
        );
        assert_eq!(dictionary.renames(), 3);
    }

    #[test]
    fn a_renamed_symbol_has_only_its_new_name() {
        let dictionary = Dictionary::default();
        dictionary.extend(["A", "B"]);
        let held = dictionary.name(0);
        dictionary.rename(0, "C");
        dictionary.rename(0, "D");
        assert_eq!(
            (held, dictionary.name(0), dictionary.shared_name(0).as_deref()),
            (Some("A"), Some("D"), Some("D"))
        );
        assert_eq!(["A", "B", "C", "D"].map(|name| dictionary.id(name)), [None, Some(1), None, Some(0)]);
        dictionary.extend(["A"]);
        dictionary.rename(1, "C");
        assert_eq!(["A", "B", "C", "D"].map(|name| dictionary.id(name)), [Some(2), None, Some(1), Some(0)]);
        assert_eq!((dictionary.len(), dictionary.renames()), (3, 3));
    }

    #[test]
    fn the_last_id_has_a_slot() {
        let (chunk, at) = locate(MAX_SYMBOLS as u32 - 1);
        assert!(chunk < CHUNKS && at < FIRST_CHUNK << chunk);
    }
}
