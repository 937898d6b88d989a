//! The answers of a local database to an [`Upstream`](crate::Upstream) elsewhere: descriptions of its streams, and the
//! bytes of their files.

use crate::database::Database;
use crate::error::{Error, Invalid, NotFound, Stale};
use crate::files::space_directory;
use crate::options::{Offload, StreamOptions};
use crate::space::catalog::SEGMENT_EXTENSION;
use crate::space::manifest;
use crate::space::reader::SpaceReader;
use crate::stream::Stream;
use crate::stream::definition::FILES;
use crate::upstream::{
    CachedSpace, CachedStream, Command, Description, LogDescription, Outcome, SpaceDescription, Target,
};
use std::borrow::Cow;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tapedb_log::{Span, StorageFile, TailPosition, log_of_name};
use tapedb_schema::{Schema, Timestamp};

impl Database {
    /// The stream's present state, beyond what is `known` of it: the answer to
    /// [`Upstream::describe`](crate::Upstream::describe).
    ///
    /// # Errors
    /// [`NotFound::Stream`]; with `known`, [`Stale::Deleted`] or [`Stale::Renamed`] for that stream; when its files cannot
    /// be opened.
    pub fn describe(&self, name: &str, known: Option<&CachedStream>) -> Result<Description, Error> {
        let stream = match known {
            None => self.stream(name)?,
            Some(known) => self.stream_of(&Target { stream_id: known.stream_id, name: name.into() })?,
        };
        stream.description(known)
    }

    /// The stream with the target's id and name.
    ///
    /// # Errors
    /// [`Stale::Renamed`] when it has another name, [`Stale::Deleted`] when it does not exist; when its files cannot be
    /// opened.
    pub fn stream_of(&self, target: &Target) -> Result<Stream, Error> {
        match self.stream(&target.name) {
            Ok(stream) if stream.id() == target.stream_id => Ok(stream),
            Ok(_)
            | Err(Error::NotFound(NotFound::Stream { .. }) | Error::Invalid(Invalid::StreamName { .. })) => {
                let name = target.name.clone();
                Err(match self.name_of_id(target.stream_id)? {
                    Some(new) => Error::Stale(Stale::Renamed { name, new }),
                    None => Error::Stale(Stale::Deleted { name }),
                })
            }
            Err(error) => Err(error),
        }
    }

    /// Executes a command: the answer to [`Upstream::command`](crate::Upstream::command).
    ///
    /// # Errors
    /// Those of the command's method; [`Stale::Deleted`] and [`Stale::Renamed`] when its target does not exist; for texts
    /// that are not a schema or options.
    pub fn execute(&self, command: &Command) -> Result<Outcome, Error> {
        match command {
            Command::CreateStream { name, schema, options } => {
                let options = options.parse()?;
                self.check_tier(&options, None)?;
                self.create_stream(name, schema.parse::<Schema>()?, options)?;
            }
            Command::DeleteStream { name } => self.delete_stream(name)?,
            Command::RenameStream { name, new } => drop(self.rename_stream(name, new)?),
            Command::ChangeSchema { name, schema } => {
                drop(self.change_schema(name, schema.parse::<Schema>()?)?)
            }
            Command::Alter { stream, options } => {
                let (stream, options) = (self.stream_of(stream)?, options.parse::<StreamOptions>()?);
                self.check_tier(&options, stream.options().offload)?;
                stream.alter(options)?;
            }
            Command::Delete { stream, from, last, symbols } => {
                let times = Timestamp(*from)..=Timestamp(*last);
                self.stream_of(stream)?.delete(times, symbols.as_ref())?;
            }
            Command::Seal { stream } => return Ok(Outcome::Messages(self.stream_of(stream)?.seal()?)),
            Command::Stats { stream } => return Ok(Outcome::Stats(self.stream_of(stream)?.stats()?)),
            Command::MaintenanceFailure { stream } => {
                return Ok(Outcome::Text(self.stream_of(stream)?.maintenance_failure()));
            }
            Command::RenameSymbol { stream, id, old, new } => {
                self.stream_of(stream)?.state.rename_symbol_of(*id, old, new)?;
            }
            Command::BeginRewrite(replacement) => {
                let stream = self.stream_of(&replacement.stream)?;
                return Ok(Outcome::Messages(self.rewrites().begin(&stream, replacement)?));
            }
            Command::CommitRewrite { stream, rewrite, last_number } => {
                let replaced = self.rewrites().commit(&stream.name, *rewrite, *last_number)?;
                return Ok(Outcome::Sequences(replaced));
            }
            Command::DropRewrite { rewrite, .. } => self.rewrites().forget(*rewrite),
            // The server itself answers it.
            Command::ServerStatus | Command::QueryLanguage => return Ok(Outcome::Text(None)),
        }
        Ok(Outcome::Done)
    }

    /// Checks that the object tier that a client chooses is one that the database has: a new one could be any folder of this machine, and
    /// any bucket that its credentials reach.
    fn check_tier(&self, options: &StreamOptions, now: Option<Offload>) -> Result<(), Error> {
        let Some(new) = options.offload else { return Ok(()) };
        let is_known = |offload: Option<Offload>| offload.is_some_and(|offload| offload.url == new.url);
        if is_known(now) {
            return Ok(());
        }
        for name in self.streams()? {
            if self.stored(&name).is_ok_and(|stored| is_known(stored.options().offload)) {
                return Ok(());
            }
        }
        let what = format!(
            "object tier {}, which no stream of the database has yet; it is set where the files are, with `tapedb alter --tier`",
            new.url
        );
        Err(Error::Denied { what })
    }

    /// Accepts a batch of a rewrite that [`Command::BeginRewrite`] has begun; batches count from 1, and a repeated one is
    /// not stored again. Returns the number of the last stored one.
    ///
    /// # Errors
    /// [`NotFound::Rewrite`]; [`ConnectionError::Protocol`](crate::ConnectionError::Protocol) when the batch before it is
    /// missing; when its messages are invalid: the rewrite has then failed, and the stream stays unchanged.
    pub fn stage(&self, rewrite: u64, number: u64, batch: &[u8]) -> Result<u64, Error> {
        self.rewrites().stage(rewrite, number, batch)
    }

    /// Drops rewrites that clients elsewhere have begun and that got no request for this long.
    pub fn forget_idle_rewrites(&self, idle: Duration) {
        self.rewrites().forget_idle(idle);
    }
}

impl Stream {
    /// The stream's id: it stays the same after a rename, and no other stream has it.
    pub fn id(&self) -> u64 {
        self.state.definition.id
    }

    /// Whether this process has a record that the stream was deleted or renamed: `None`: it exists; else its new name, if
    /// it was renamed.
    pub fn gone(&self) -> Option<Option<String>> {
        self.state.is_deleted().then(|| self.state.presence.renamed())
    }

    /// The stream's present state, beyond what is `known` of it.
    ///
    /// # Errors
    /// When the stream has been deleted or renamed; in a database that is open for reading, when its files cannot be
    /// polled.
    pub fn description(&self, known: Option<&CachedStream>) -> Result<Description, Error> {
        let state = &self.state;
        state.check_is_here()?;
        state.refresh()?;
        // After a rename of a symbol, the names that a client has are invalid: it gets a full description.
        let run = state.run.wrapping_add(state.dictionary.renames());
        let known = known.filter(|known| known.stream_id == state.definition.id && known.run == run);
        let definition = state.current();
        let same = known.is_some_and(|known| known.revision == definition.revision);
        let takes_changes = known.is_some_and(|known| known.takes_changes);
        let of_space = |(number, space): (usize, &Arc<SpaceReader>)| {
            describe_space(space, known.and_then(|known| known.spaces.get(number)), takes_changes)
        };
        let spaces = state.spaces.iter().enumerate().map(of_space).collect();
        // After the spaces, so that it has all symbols of their messages.
        let symbols_from = known.map_or(0, |known| known.symbols.min(state.dictionary.len()));
        Ok(Description {
            name: state.name.clone(),
            stream_id: definition.id,
            run,
            revision: definition.revision,
            definition: (!same).then(|| definition.to_text().into_bytes()),
            position_id: state.position_id,
            symbols_from,
            symbols: self.symbols_from(symbols_from),
            spaces,
        })
    }

    /// Opens one of the stream's files for reading: see [`Upstream::open_file`](crate::Upstream::open_file). It stays
    /// readable when the stream replaces it or is deleted. Log files may continue after the committed end.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] for names of files that readers do not need, and for missing files; errors of the
    /// system.
    pub fn open_file(&self, name: &str) -> io::Result<Arc<dyn StorageFile>> {
        let missing = || io::Error::from(io::ErrorKind::NotFound);
        let state = &self.state;
        if state.is_gone() {
            return Err(missing());
        }
        if let Some((space, file)) = name.split_once('/') {
            let number: u32 = space.parse().map_err(|_| missing())?;
            let space = state.spaces.get(number as usize).filter(|_| space_directory(number) == space);
            let space = space.filter(|_| is_data_file(file)).ok_or_else(missing)?;
            return space.open_file(file);
        }
        let is_definition = FILES.contains(&name) || is_schema_file(name);
        if is_definition { state.storage.open_read(&state.directory.join(name)) } else { Err(missing()) }
    }

    /// Reads whole batches of a space from the log, unchanged, from the one with the position's sequence number: as many as
    /// fit `bytes_max`, at least one. Moves the position after them. The span states where they are; it is empty when there
    /// is no new batch. The first batch may begin before the position.
    ///
    /// # Errors
    /// [`NotFound::Space`]; [`Error::Log`] with [`LogError::Trimmed`](crate::LogError::Trimmed) when the messages are no
    /// longer in the log but in segments, or have been dropped: [`Stream::log_begins`] returns where to continue; with
    /// [`LogError::Damaged`](crate::LogError::Damaged) for unreadable messages, after which the position then is; when the
    /// stream is gone.
    pub fn read_tail(
        &self,
        space: u32,
        position: &mut TailPosition,
        bytes_max: usize,
        bytes: &mut Vec<u8>,
    ) -> Result<Span, Error> {
        let space = self.state.space(space)?;
        space.refresh()?;
        let read = space.log.read_from(position, bytes_max, bytes);
        self.state.unless_gone(read)
    }

    /// First sequence number of a space's log, and the number after its last message.
    ///
    /// # Errors
    /// [`NotFound::Space`].
    pub fn log_begins(&self, space: u32) -> Result<(u64, u64), Error> {
        let snapshot = self.state.space(space)?.log.snapshot();
        Ok((snapshot.first_sequence(), snapshot.next_sequence()))
    }

    /// Ids of symbols, in their order; new symbols get one.
    ///
    /// # Errors
    /// [`Error::ReadOnly`]; when a name is empty or too long, there are too many, or they cannot be written.
    pub fn symbol_ids(&self, names: &[&str]) -> Result<Vec<u32>, Error> {
        let writer = self.state.writer()?;
        writer.check_not_deleted()?;
        writer.symbol_ids(names)
    }

    /// Symbols from an id on, in the order of their ids.
    pub fn symbols_from(&self, id: u32) -> Vec<String> {
        self.state.dictionary.names_from(id).map(str::to_string).collect()
    }

    /// How many symbols the stream has: ids are below it.
    pub fn symbol_count(&self) -> u32 {
        self.state.dictionary.len()
    }
}

fn describe_space(space: &SpaceReader, known: Option<&CachedSpace>, takes_changes: bool) -> SpaceDescription {
    let (catalog, snapshot) = space.view();
    let from = known.map_or(0, |known| known.next_sequence);
    // A section may have been sealed since: what is in the catalog is not read from the log.
    let is_new = |granule: &&tapedb_log::Granule| {
        granule.next_sequence() > from.min(snapshot.next_sequence()).max(catalog.sealed)
    };
    let same = known.is_some_and(|known| known.generation == catalog.generation);
    // A reader elsewhere gets all files here, wherever they are: changes would state where.
    let files_alone = catalog.as_files();
    let is_plain = matches!(files_alone, Cow::Borrowed(_));
    let changes = known.filter(|_| takes_changes && !same && is_plain).and_then(|known| {
        let changes = space.recent.between(known.generation, catalog.generation)?;
        Some(manifest::changes_to_text(&changes, space.owner))
    });
    let whole = || manifest::to_text(&files_alone, space.owner);
    // `snapshot` may name files that were sealed and trimmed since; a reader that misses one requests a new description.
    let mut files = space.log.files();
    files.extend(snapshot.iter().filter(is_new).map(|granule| granule.file));
    files.sort_unstable();
    files.dedup();
    SpaceDescription {
        generation: catalog.generation,
        manifest: (!same).then(|| changes.unwrap_or_else(whole).into_bytes()),
        log: LogDescription {
            first_sequence: snapshot.first_sequence(),
            next_sequence: snapshot.next_sequence(),
            granules: snapshot.iter().filter(is_new).copied().collect(),
            files,
        },
    }
}

/// Whether it is the name of a log file or a segment.
fn is_data_file(name: &str) -> bool {
    log_of_name(name).is_some() || is_segment_file(name)
}

/// Digits, and a number behind them: see [`crate::space::catalog::segment_name`].
fn is_segment_file(name: &str) -> bool {
    let stem = Path::new(name).extension().filter(|extension| *extension == SEGMENT_EXTENSION);
    let numbers = stem.and_then(|_| name.split_once('.')?.0.split_once('-'));
    numbers.is_some_and(|(first, number)| first.len() == 20 && is_number(first) && is_number(number))
}

fn is_schema_file(name: &str) -> bool {
    let version = name.strip_prefix("schema-").map(|rest| rest.strip_suffix(".copy").unwrap_or(rest));
    version.is_some_and(is_number)
}

fn is_number(text: &str) -> bool {
    (1..=20).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_that_readers_need_have_names() {
        for name in ["00000000000000000012.log", "00000000000000000000-3.seg"] {
            assert!(is_data_file(name), "{name}");
        }
        for name in [
            "manifest",
            "../0/00000000000000000012.log",
            "1-3.seg",
            "00000000000000000000-3.seg.tmp",
            "a.seg",
            "",
        ] {
            assert!(!is_data_file(name), "{name}");
        }
        assert!(is_schema_file("schema-2") && is_schema_file("schema-2.copy"));
        assert!(
            !is_schema_file("schema-") && !is_schema_file("schema-2/x") && !is_schema_file("schema-2.tmp")
        );
    }

    /// A client that has a manifest gets what has changed since, if it takes that.
    #[test]
    fn changes_are_described_to_clients_that_take_them() {
        let folder = tempfile::tempdir().unwrap();
        let db = Database::open_without_maintenance(folder.path().join("db")).unwrap();
        let schema = "message Tick { price: i64 }".parse().unwrap();
        let stream = db.create_stream("ticks", schema, StreamOptions::default()).unwrap();
        let seal = |count: i64| {
            let mut loader = stream.loader().unwrap();
            for time in 0..count {
                loader.append_body("A", Timestamp(time), 0, &time.to_le_bytes()).unwrap();
                loader.flush().unwrap();
            }
            loader.close().unwrap();
            stream.seal().unwrap();
        };
        let known = |takes_changes| {
            let description = stream.description(None).unwrap();
            let Description { stream_id, run, revision, .. } = description;
            let spaces = description.spaces.iter().map(|space| CachedSpace {
                generation: space.generation,
                next_sequence: space.log.next_sequence,
            });
            CachedStream { stream_id, run, revision, symbols: 0, spaces: spaces.collect(), takes_changes }
        };
        seal(3);
        let (old, new) = (known(false), known(true));
        let before = stream.state.spaces[0].catalog();
        let manifest = |known: &CachedStream| {
            let described = stream.description(Some(known)).unwrap().spaces.remove(0);
            described.manifest.map(|text| String::from_utf8(text).unwrap())
        };
        assert_eq!(manifest(&new), None);
        (0..3).for_each(|_| seal(2));
        assert!(manifest(&old).unwrap().starts_with("tapedb-space 1\n"));
        let changes = manifest(&new).unwrap();
        assert!(changes.starts_with("tapedb-space-changes 1\n"), "{changes}");
        let owner = stream.state.spaces[0].owner;
        let applied = manifest::received(&changes, owner, &before).unwrap();
        assert_eq!(applied, *stream.state.spaces[0].catalog());
    }
}
