//! A stream behind a server: what is described of it here, and how it is updated.
//!
//! There are two ways. Every cursor requests a description when it is opened, when files are missing, and when a push
//! reports a change. Batches and symbols are pushed while a live cursor holds the watch. Both add to the same index and
//! dictionary, at the same time. One description at a time is applied, under `describing`; pushes do not wait for it: a log
//! compares a push with its index and adds it in one step, and names are added under `naming`.

use crate::error::{ConnectionError, Error, Stale, Unreadable};
use crate::notifier::Notifiers;
use crate::options::Settings;
use crate::space::manifest::{self, Owner};
use crate::space::reader::{Describe, SpaceReader};
use crate::stream::definition::Definition;
use crate::stream::picked::{PickedWatch, Queues};
use crate::stream::presence::Presence;
use crate::upstream::{
    CachedSpace, CachedStream, Description, Grown, SpaceDescription, Upstream, Watcher, Watching,
};
use crate::wanted::Wanted;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tapedb_log::{Dictionary, LogIndex, Pushed};

/// After this many pushed granules the index is described again: it then drops those of removed files.
const GRANULES_PUSHED_MAX: usize = 4096;

/// A stream behind a server. State that it shares with the readers that were opened on it is in an [`Arc`].
#[derive(Debug)]
pub(crate) struct Remote {
    pub upstream: Arc<dyn Upstream>,
    pub stream_id: u64,
    name: String,
    position_id: u64,
    spaces: Vec<Arc<SpaceReader>>,
    dictionary: Arc<Dictionary>,
    settings: Arc<Settings>,
    current: Arc<Mutex<Definition>>,
    presence: Arc<Presence>,
    notifiers: Notifiers,
    /// Held while a description is requested and applied.
    describing: Mutex<State>,
    /// Held while names are added to the dictionary.
    naming: Mutex<()>,
    /// Something has changed or is missing, and has not been described yet.
    stale: AtomicBool,
    watch: Mutex<Weak<Watch>>,
    /// Watches of some messages, one for each cursor.
    some: Mutex<Vec<Weak<Watch>>>,
    /// Why the watch has ended although the stream exists.
    denied: Mutex<Option<String>>,
}

/// The last description.
#[derive(Debug)]
struct State {
    run: u64,
    revision: u64,
}

/// State that a stream behind a server shares with its readers: descriptions and pushes are applied to it.
pub(super) struct Described {
    pub spaces: Vec<Arc<SpaceReader>>,
    pub dictionary: Arc<Dictionary>,
    pub settings: Arc<Settings>,
    pub current: Arc<Mutex<Definition>>,
    pub presence: Arc<Presence>,
    pub notifiers: Notifiers,
}

/// Pushes continue while a cursor holds it.
#[derive(Debug)]
pub(crate) struct Watch {
    watching: Box<dyn Watching>,
    /// What has been reported as consumed, by space.
    consumed: Vec<AtomicU64>,
}

impl Watch {
    /// Waits at the connection, if it can: see [`Watching::wait`].
    pub fn wait(&self, is_there: &dyn Fn() -> bool, timeout: Duration) -> bool {
        self.watching.wait(is_there, timeout)
    }

    /// Identifies the connection: see [`Watching::connection`].
    pub fn connection(&self) -> u64 {
        self.watching.connection()
    }

    /// Messages of a space below a sequence number have been read.
    pub fn consumed(&self, space: u32, sequence: u64) {
        if let Some(consumed) = self.consumed.get(space as usize)
            && consumed.fetch_max(sequence, Ordering::Relaxed) < sequence
        {
            self.watching.consumed(space, sequence);
        }
    }

    /// [`Watch::consumed`], also where that was reported before: a watch that has lapsed begins again.
    pub fn watching_consumed(&self, space: u32, sequence: u64) {
        self.watching.consumed(space, sequence);
    }
}

impl Remote {
    /// A stream that has just been described for the first time.
    ///
    /// # Errors
    /// When the description contradicts itself.
    pub(super) fn new(
        upstream: Arc<dyn Upstream>,
        description: &Description,
        described: Described,
    ) -> Result<Arc<Self>, Error> {
        let Described { spaces, dictionary, settings, current, presence, notifiers } = described;
        let remote = Arc::new(Self {
            upstream,
            stream_id: description.stream_id,
            name: description.name.clone(),
            position_id: description.position_id,
            spaces,
            dictionary,
            settings,
            current,
            presence,
            notifiers,
            describing: Mutex::new(State { run: description.run, revision: description.revision }),
            naming: Mutex::new(()),
            stale: AtomicBool::new(false),
            watch: Mutex::default(),
            some: Mutex::default(),
            denied: Mutex::default(),
        });
        for space in &remote.spaces {
            let remote: Weak<Self> = Arc::downgrade(&remote);
            space.follow(remote);
        }
        remote.apply(description, &mut remote.describing())?;
        Ok(remote)
    }

    /// Whether messages from the server need no checks.
    #[inline]
    pub fn is_trusted(&self) -> bool {
        self.upstream.is_trusted()
    }

    /// Requests a description of the stream.
    ///
    /// # Errors
    /// [`Stale::Deleted`], [`Stale::Renamed`], [`Error::Denied`]; when no answer arrives, or it is not valid.
    pub fn refresh(&self) -> Result<(), Error> {
        self.check_allowed()?;
        let mut state = self.describing();
        // Before the request: a change that is pushed while the answer is on its way is requested again.
        self.stale.store(false, Ordering::SeqCst);
        let known = self.known(&state);
        let described = self.upstream.describe(&self.name, Some(&known));
        let applied = described.and_then(|description| self.apply(&description, &mut state));
        match &applied {
            Err(Error::Stale(Stale::Deleted { .. })) => self.note_gone(None),
            Err(Error::Stale(Stale::Renamed { new, .. })) => self.note_gone(Some(new)),
            Err(_) => self.stale.store(true, Ordering::SeqCst),
            Ok(()) => {}
        }
        applied
    }

    /// [`Remote::refresh`], if something has changed.
    ///
    /// # Errors
    /// As [`Remote::refresh`].
    pub fn refresh_stale(&self) -> Result<(), Error> {
        if self.is_stale() { self.refresh() } else { Ok(()) }
    }

    /// Whether something has changed that has not been described.
    #[inline]
    pub fn is_stale(&self) -> bool {
        self.stale.load(Ordering::Relaxed)
    }

    /// Starts pushes of all messages after those that are described now.
    ///
    /// # Errors
    /// As [`Upstream::watch`].
    pub fn watch(self: &Arc<Self>) -> Result<Arc<Watch>, Error> {
        let mut watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = watch.upgrade() {
            return Ok(found);
        }
        let from: Vec<u64> = self.spaces.iter().map(|space| space.log.next_sequence()).collect();
        let weak = Arc::downgrade(self);
        let sink: Weak<dyn Watcher> = weak;
        let watching = self.upstream.watch(self.stream_id, &from, sink)?;
        let made = Arc::new(Watch { watching, consumed: from.into_iter().map(AtomicU64::new).collect() });
        *watch = Arc::downgrade(&made);
        Ok(made)
    }

    /// Starts pushes of those messages after the described ones that are wanted, for one cursor. `None`: the server pushes all or
    /// nothing.
    ///
    /// # Errors
    /// As [`Upstream::watch_some`].
    pub fn watch_some(self: &Arc<Self>, wanted: &Wanted) -> Result<Option<PickedWatch>, Error> {
        let from: Vec<u64> = self.spaces.iter().map(|space| space.log.next_sequence()).collect();
        let queues = Queues::new(self.clone(), &from);
        let weak = Arc::downgrade(&queues);
        let sink: Weak<dyn Watcher> = weak;
        let Some(watching) = self.upstream.watch_some(self.stream_id, &from, wanted, sink)? else {
            return Ok(None);
        };
        let watch = Watch { watching, consumed: from.into_iter().map(AtomicU64::new).collect() };
        let watch = Arc::new(watch);
        let mut some = self.some.lock().unwrap_or_else(PoisonError::into_inner);
        some.retain(|watch| watch.strong_count() > 0);
        some.push(Arc::downgrade(&watch));
        Ok(Some(PickedWatch::new(queues, watch)))
    }

    /// Wakes cursors that wait.
    pub fn notify(&self) {
        self.notifiers.notify();
    }

    /// Ids of symbols; new symbols get one.
    ///
    /// # Errors
    /// As [`Upstream::add_symbols`].
    pub fn symbol_ids(&self, names: &[&str]) -> Result<Vec<u32>, Error> {
        if let Some(ids) = names.iter().map(|name| self.dictionary.id(name)).collect() {
            return Ok(ids);
        }
        let ids = self.named(self.upstream.add_symbols(self.stream_id, names))?;
        if ids.len() != names.len() {
            let what = format!("{} symbols were sent, and {} ids arrived", names.len(), ids.len());
            return Err(Error::Connection(ConnectionError::Protocol { what }));
        }
        // Ids that follow those in the dictionary are added now; other clients may have added some in between.
        let _naming = self.naming.lock().unwrap_or_else(PoisonError::into_inner);
        for (id, name) in ids.iter().zip(names) {
            self.dictionary.follow(*id, [*name]);
        }
        Ok(ids)
    }

    /// Id of a symbol; a new symbol gets one.
    ///
    /// # Errors
    /// As [`Upstream::add_symbols`].
    pub fn symbol_id(&self, symbol: &str) -> Result<u32, Error> {
        match self.dictionary.id(symbol) {
            Some(id) => Ok(id),
            None => Ok(self.symbol_ids(&[symbol])?[0]),
        }
    }

    /// Records that the stream has been deleted or renamed.
    pub fn note_gone(&self, renamed: Option<&str>) {
        self.presence.note_gone(renamed.map(str::to_string));
        self.notifiers.notify();
    }

    /// The result of a request that names the stream by its id alone, with the stream's name in the errors.
    ///
    /// # Errors
    /// The same.
    pub fn named<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        result.map_err(|error| match error {
            Error::Stale(Stale::Deleted { .. }) => Error::Stale(Stale::Deleted { name: self.name.clone() }),
            Error::Stale(Stale::Renamed { new, .. }) => {
                Error::Stale(Stale::Renamed { name: self.name.clone(), new })
            }
            other => other,
        })
    }

    /// A client without the right to read gets no pushes: the stream stays stale while it is watched.
    fn check_allowed(&self) -> Result<(), Error> {
        let is_watched = |watch: &Weak<Watch>| watch.strong_count() > 0;
        let is_followed = is_watched(&self.watch.lock().unwrap_or_else(PoisonError::into_inner))
            || self.some.lock().unwrap_or_else(PoisonError::into_inner).iter().any(is_watched);
        let mut denied = self.denied.lock().unwrap_or_else(PoisonError::into_inner);
        match &*denied {
            Some(what) if is_followed => Err(Error::Denied { what: what.clone() }),
            // The next reader tries again.
            _ => {
                *denied = None;
                Ok(())
            }
        }
    }

    fn describing(&self) -> MutexGuard<'_, State> {
        self.describing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self, state: &State) -> CachedStream {
        let of_space = |space: &Arc<SpaceReader>| CachedSpace {
            generation: space.catalog().generation,
            next_sequence: space.log.agreed(),
        };
        CachedStream {
            stream_id: self.stream_id,
            run: state.run,
            revision: state.revision,
            symbols: self.dictionary.len(),
            spaces: self.spaces.iter().map(of_space).collect(),
            takes_changes: true,
        }
    }

    /// Applies a description.
    fn apply(&self, description: &Description, state: &mut State) -> Result<(), Error> {
        let Description { stream_id, run, revision, position_id, symbols_from, symbols, spaces, .. } =
            description;
        if (*stream_id, *position_id) != (self.stream_id, self.position_id) {
            // Another stream has the name; or a transient stream lost its messages when its process ended.
            return Err(Error::Stale(Stale::Deleted { name: self.name.clone() }));
        }
        if spaces.len() != self.spaces.len() {
            return Err(Error::Connection(ConnectionError::Protocol {
                what: "the number of spaces in the description has changed".into(),
            }));
        }
        self.name_symbols(*symbols_from, symbols)?;
        if let Some(text) = &description.definition {
            let definition = self.definition(text)?;
            self.settings.set(definition.options);
            *self.current.lock().unwrap_or_else(PoisonError::into_inner) = definition;
        }
        let is_reopened = *run != state.run;
        for (space, described) in self.spaces.iter().zip(spaces) {
            apply_space(space, described, is_reopened)?;
        }
        *state = State { run: *run, revision: *revision };
        Ok(())
    }

    fn name_symbols(&self, from: u32, names: &[impl AsRef<str>]) -> Result<(), Error> {
        let _naming = self.naming.lock().unwrap_or_else(PoisonError::into_inner);
        if self.dictionary.follow(from, names.iter().map(AsRef::as_ref)) {
            return Ok(());
        }
        let what = "symbols of a remote stream have changed; open the stream again".into();
        Err(Error::Connection(ConnectionError::Protocol { what }))
    }

    fn definition(&self, text: &[u8]) -> Result<Definition, Error> {
        let path = self.spaces.first().map(|space| space.directory.clone()).unwrap_or_default();
        let definition = definition_of(text, path)?;
        let same = definition.id == self.stream_id && definition.options.spaces as usize == self.spaces.len();
        if same {
            Ok(definition)
        } else {
            Err(Error::Connection(ConnectionError::Protocol {
                what: "the definition belongs to another stream".into(),
            }))
        }
    }

    fn note_stale(&self) {
        self.stale.store(true, Ordering::SeqCst);
        self.notifiers.notify();
    }
}

/// Reads the definition in a description.
///
/// # Errors
/// [`Unreadable::Definition`] when it is not valid.
pub(crate) fn definition_of(text: &[u8], path: PathBuf) -> Result<Definition, Error> {
    let text = str::from_utf8(text);
    let text = text.map_err(|_| {
        Error::Unreadable(Unreadable::Definition { path: path.clone(), what: "is not UTF-8".into() })
    })?;
    Definition::parse(text, &path)
}

/// Applies the contents of a space: its catalog first, so that a reader that takes both finds every message in one of them.
fn apply_space(space: &SpaceReader, described: &SpaceDescription, is_reopened: bool) -> Result<(), Error> {
    let Owner { stream_id, .. } = space.owner;
    if let Some(text) = &described.manifest {
        let bad = |what: String| {
            Error::Connection(ConnectionError::Protocol {
                what: format!("the manifest of stream {stream_id:016x} {what}"),
            })
        };
        let text = str::from_utf8(text).map_err(|_| bad("is not UTF-8".into()))?;
        let catalog = manifest::received(text, space.owner, &space.catalog()).map_err(bad)?;
        space.set_catalog(catalog);
    }
    let log = &described.log;
    let (first_sequence, next_sequence) = (log.first_sequence, log.next_sequence);
    let index = LogIndex { first_sequence, next_sequence, granules: &log.granules, files: &log.files };
    Ok(space.log.apply_index(&index, is_reopened)?)
}

impl Describe for Remote {
    fn refresh(&self) -> Result<(), Error> {
        Self::refresh(self)
    }

    fn consumed(&self, space: u32, sequence: u64) {
        let watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
        if let Some(watch) = watch {
            watch.consumed(space, sequence);
        }
    }
}

impl Watcher for Remote {
    fn grown(&self, space: u32, at: Grown, bytes: &[u8]) {
        let Some(space) = self.spaces.get(space as usize) else { return };
        let Grown { file, offset, first_sequence } = at;
        match space.log.push((file, offset), first_sequence, bytes) {
            Ok(Pushed::Added) if space.log.granules_pushed() < GRANULES_PUSHED_MAX => self.notifiers.notify(),
            // Missing or inconsistent data needs a description.
            _ => self.note_stale(),
        }
    }

    fn symbols(&self, from: u32, names: &[&str]) {
        if self.name_symbols(from, names).is_err() {
            self.note_stale();
        }
    }

    fn changed(&self) {
        self.note_stale();
    }

    fn gone(&self, renamed: Option<&str>) {
        self.note_gone(renamed);
    }

    fn denied(&self, what: &str) {
        *self.denied.lock().unwrap_or_else(PoisonError::into_inner) = Some(what.into());
        self.note_stale();
    }

    fn interrupted(&self) {}

    fn resumed(&self) {
        self.note_stale();
    }
}
