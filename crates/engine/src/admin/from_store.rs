//! A database from its object store alone: opened for reading, or made again in a directory.
//!
//! It has what the records of its streams name: the segments that were moved there. Messages that were younger are where the database
//! was, and in its backups.

use crate::admin::identity::DatabaseIdentity;
use crate::backend::directory;
use crate::backend::local::LocalBackend;
use crate::database::Database;
use crate::error::{Error, NotFound, Unreadable};
use crate::files::{SYMBOLS_FILE, space_directory, sync_dir};
use crate::maintenance::offload::Offloaded;
use crate::names;
use crate::objects::keys;
use crate::objects::record::{self, Facts, facts_of, unescaped};
use crate::objects::tier::{ObjectTier, Objects};
use crate::objects::url::StoreUrl;
use crate::options::{Offload, StreamOptions};
use crate::space::catalog::{Catalog, DRAFT_EXTENSION};
use crate::space::manifest::{self, Owner};
use crate::stream::definition::{self, Definition};
use crate::stream::versions;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tapedb_log::{DiskStorage, MemoryStorage, Storage, SymbolFile};
use tapedb_schema::Schema;

/// A stream as its records state it.
struct Recorded {
    name: String,
    definition: Definition,
    /// Of the older versions, in order.
    schemas: Vec<(u16, Schema)>,
    symbols: Vec<String>,
    catalogs: Vec<Catalog>,
}

impl Database {
    /// Opens a database from its object store alone, for reading: `s3://bucket/prefix`, `file:///folder`. It has all messages that were
    /// moved there ([`Offload`]), as they were when it is opened; names, schemas and symbols are in memory, messages are read as they
    /// are wanted.
    ///
    /// # Errors
    /// [`NotFound::Database`] when the place is of no database; when the store refuses; when a record is missing or damaged.
    pub fn open_object_store(url: &str) -> Result<Self, Error> {
        let url: StoreUrl = url.parse()?;
        let (storage, path): (Arc<dyn Storage>, _) =
            (Arc::new(MemoryStorage::new()), Path::new(url.as_str()));
        let tier = Objects::new(storage.clone(), path, false).tier(url.as_str())?;
        let id = begin(&tier)?;
        make_directory(&*storage, path, id)?;
        for (stream_id, recorded) in streams(&tier)? {
            let mut recorded = recorded?;
            let offload = Some(Offload { url, after: None });
            recorded.definition.options = StreamOptions { offload, ..recorded.definition.options };
            let directory = path.join("streams").join(names::directory_of(&recorded.name));
            write_stream(&*storage, &directory, stream_id, &recorded)?;
        }
        Ok(Self::on(LocalBackend::new(storage, path, None, false, false)))
    }

    /// Makes a database in a directory, which must not exist or be empty, of what is in an object store: a new database, with all
    /// segments as files and without an object tier. `on_copied` gets the bytes as they are copied, and ends the work with a break;
    /// what is complete stays, and another call goes on.
    ///
    /// # Errors
    /// As [`Database::open_object_store`]; when an object is missing or does not have the checksum in its name; when a file cannot be
    /// written.
    pub fn restore_object_store(
        url: &str,
        to: impl AsRef<Path>,
        mut on_copied: impl FnMut(u64) -> ControlFlow<()>,
    ) -> Result<Offloaded, Error> {
        let url: StoreUrl = url.parse()?;
        let (storage, path): (Arc<dyn Storage>, _) = (Arc::new(DiskStorage), to.as_ref());
        let tier = Objects::new(storage.clone(), path, false).tier(url.as_str())?;
        begin(&tier)?;
        let mut done = Offloaded::default();
        let target = Self::open_on(storage.clone(), path, crate::Access::WriteWithoutMaintenance)?;
        for (stream_id, recorded) in streams(&tier)? {
            let mut recorded = recorded?;
            recorded.definition.options.offload = None;
            let draft = target.streams_directory().join(format!(".new-{stream_id:016x}"));
            let to = target.directory_of(&recorded.name);
            if storage.kind(&to).map_err(Error::io("look for", &to))?.is_some() {
                continue;
            }
            let objects = std::mem::take(&mut recorded.catalogs);
            recorded.catalogs = objects.iter().map(|catalog| catalog.as_files().into_owned()).collect();
            write_stream(&*storage, &draft, stream_id, &recorded)?;
            for (space, catalog) in objects.iter().enumerate() {
                let directory = draft.join(space_directory(space as u32));
                for part in &catalog.parts {
                    let (Some(content), Some(to)) = (&part.content, part.path(&directory)) else { continue };
                    let (Some(key), Some(checksum)) =
                        (part.object_key(stream_id, space as u32), content.object)
                    else {
                        continue;
                    };
                    fetch(&*storage, &tier, (&key, content.bytes, checksum), &to, &mut on_copied)?;
                    done = Offloaded { segments: done.segments + 1, bytes: done.bytes + content.bytes };
                }
                sync_dir(&*storage, &directory)?;
            }
            storage.rename(&draft, &to).map_err(Error::io("rename", &draft))?;
            sync_dir(&*storage, &target.streams_directory())?;
        }
        Ok(done)
    }
}

/// The database that has the place.
fn begin(tier: &ObjectTier) -> Result<u64, Error> {
    let no_database = || {
        let why = "there is no `tapedb-owner` object; check the bucket and the prefix";
        Error::NotFound(NotFound::Database { path: tier.url().into(), why })
    };
    tier.owner()?.ok_or_else(no_database)
}

/// A stream by its id, and its record.
type Found = (u64, Result<Recorded, Error>);

/// The streams that have records, by their ids. One that is being deleted has none.
fn streams(tier: &ObjectTier) -> Result<Vec<Found>, Error> {
    let mut found = Vec::new();
    for key in tier.list(keys::INDEX)? {
        let Some(id) = key.strip_prefix(keys::INDEX).and_then(|id| u64::from_str_radix(id, 16).ok()) else {
            continue;
        };
        if let Some(published) = record::read(tier, id)? {
            let bad = |what: String| {
                let path = format!("{}/{}", tier.url(), keys::record(id, published.number)).into();
                Error::Unreadable(Unreadable::Definition { path, what })
            };
            found.push((id, recorded(id, &published.facts).map_err(bad)));
        }
    }
    Ok(found)
}

/// The stream of some facts; else what is wrong with them.
fn recorded(stream_id: u64, facts: &Facts) -> Result<Recorded, String> {
    let joined = |prefix: &str| {
        let lines: Vec<String> = facts_of(facts, prefix).map(|(_, line)| unescaped(line)).collect();
        lines.join("\n")
    };
    let name = unescaped(facts.get("name").ok_or("has no name of the stream")?);
    names::check(&name).map_err(|error| error.to_string())?;
    let definition = Definition::parse(&joined("definition "), Path::new("definition"))
        .map_err(|error| error.to_string())?;
    if definition.id != stream_id || definition.options.is_transient() {
        return Err("has the definition of another stream".into());
    }
    let mut schemas = Vec::new();
    for version in 1..definition.schema_version {
        let schema = joined(&format!("schema {version:05} ")).parse::<Schema>();
        schemas.push((version, schema.map_err(|error| format!("has a bad schema {version}: {error}"))?));
    }
    let mut symbols = Vec::new();
    for (id, name) in facts_of(facts, "symbol ") {
        if id.parse() != Ok(symbols.len()) {
            return Err(format!("has symbol {id} where {} is the next", symbols.len()));
        }
        symbols.push(unescaped(name));
    }
    let catalogs = (0..definition.options.spaces).map(|space| catalog(facts, Owner { stream_id, space }));
    let catalogs = catalogs.collect::<Result<Vec<Catalog>, String>>()?;
    Ok(Recorded { name, definition, schemas, symbols, catalogs })
}

/// The manifest of a space that some facts state; else what is wrong with it.
fn catalog(facts: &Facts, owner: Owner) -> Result<Catalog, String> {
    let mut body = String::new();
    for (name, value) in facts_of(facts, &format!("space {:03} ", owner.space)) {
        // Parts and deletions have a number in their names, which orders them.
        let key = name.split(' ').next().unwrap_or(name);
        body.push_str(&format!("{key} {value}\n"));
    }
    let catalog = manifest::parse_body(&body, owner)?;
    match catalog.parts.iter().all(|part| part.content.is_none() || part.is_object()) {
        true => Ok(catalog),
        false => Err("names a segment that is not in the store".into()),
    }
}

fn make_directory(storage: &dyn Storage, path: &Path, id: u64) -> Result<(), Error> {
    let streams = path.join("streams");
    storage.create_dir_all(&streams).map_err(Error::io("create", &streams))?;
    directory::make_marker(storage, path)?;
    DatabaseIdentity { id, backup_of: None }.write(storage, path)
}

/// Writes the files of a stream, but segments.
fn write_stream(
    storage: &dyn Storage,
    directory: &Path,
    stream_id: u64,
    recorded: &Recorded,
) -> Result<(), Error> {
    storage.create_dir_all(directory).map_err(Error::io("create", directory))?;
    for (space, catalog) in recorded.catalogs.iter().enumerate() {
        let (space, owner) = (space_directory(space as u32), Owner { stream_id, space: space as u32 });
        let of_space = directory.join(space);
        storage.create_dir_all(&of_space).map_err(Error::io("create", &of_space))?;
        manifest::write(storage, &of_space, owner, catalog)?;
    }
    let (path, durability) = (directory.join(SYMBOLS_FILE), recorded.definition.options.durability);
    let (mut symbols, _) = SymbolFile::open_rw(storage, &path, stream_id, durability)?;
    let known = symbols.dictionary().len() as usize;
    let names: Vec<&str> = recorded.symbols.iter().skip(known).map(String::as_str).collect();
    names.chunks(4096).try_for_each(|names| symbols.append(names).map(|_| ()))?;
    symbols.sync()?;
    for (version, schema) in &recorded.schemas {
        versions::keep(storage, directory, *version, schema)?;
    }
    definition::write(storage, directory, &recorded.definition)?;
    sync_dir(storage, directory)
}

/// Copies a segment from the store, unless it is there; it gets its name when it is whole.
fn fetch(
    storage: &dyn Storage,
    tier: &ObjectTier,
    (key, bytes, checksum): (&str, u64, u64),
    to: &Path,
    on_copied: &mut impl FnMut(u64) -> ControlFlow<()>,
) -> Result<(), Error> {
    if storage.size(to).is_ok_and(|size| size == bytes) {
        return Ok(());
    }
    let mut draft = to.as_os_str().to_os_string();
    draft.push(format!(".{DRAFT_EXTENSION}"));
    let draft = PathBuf::from(draft);
    storage.write(&draft, &[]).map_err(Error::io("write", &draft))?;
    let file = storage.open_write(&draft).map_err(Error::io("open", &draft))?;
    tier.fetch_segment((key, bytes, checksum), |content, offset| {
        file.write_at(content, offset).map_err(Error::io("write", &draft))?;
        match on_copied(content.len() as u64) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Error::Interrupted),
        }
    })?;
    file.sync_data().map_err(Error::io("sync", &draft))?;
    storage.rename(&draft, to).map_err(Error::io("rename", &draft))
}

/// Reads bytes as a record of a stream that follows others, then as a foot: for the fuzzer.
#[doc(hidden)]
pub fn read_hostile_object(bytes: &[u8]) {
    let mut facts = Facts::new();
    if let Ok(text) = str::from_utf8(bytes) {
        // Also where the checksum is wrong, which the fuzzer cannot get right.
        for body in [text.to_string(), record::sealed_for_tests(1, 0, text)] {
            let _ = record::apply(&body, (1, 0), &mut facts);
        }
        if let Ok(recorded) = recorded(1, &facts) {
            let storage = MemoryStorage::new();
            let directory = Path::new("s");
            let _ = write_stream(&storage, directory, 1, &recorded);
        }
    }
    let _ = crate::objects::foot::Foot::parse(bytes);
    let _ = crate::objects::foot::Foot::parse_unchecked(bytes);
}
