//! The facts about a stream that its records in an object store state.

use crate::error::Error;
use crate::objects::record::{Facts, escaped, facts_of};
use crate::objects::store::{ObjectError, ObjectFault};
use crate::objects::tier::ObjectTier;
use crate::space::Space;
use crate::space::catalog::{Catalog, Part};
use crate::space::manifest;
use crate::stream::reader::StreamReader;
use crate::stream::versions;
use crate::stream::writer::StreamWriter;
use std::sync::Arc;

/// What [`facts`] are made from, besides symbols: the catalogs, the definition, renamed symbols.
pub(crate) fn seen(stream: &StreamReader, writer: &StreamWriter) -> (Vec<u64>, u64, u64) {
    let generations = writer.spaces.iter().map(|space| space.catalog().generation).collect();
    (generations, stream.current().revision, stream.dictionary.renames())
}

/// All facts, now: with a part as if the manifest named its object.
///
/// # Errors
/// When an older version of the schema cannot be read.
pub(crate) fn facts(
    stream: &StreamReader,
    writer: &StreamWriter,
    moved: Option<(&Space, &Arc<Part>, u64)>,
) -> Result<Facts, Error> {
    let definition = stream.current();
    let writer_number = format!("{:016x}", writer.objects.writer()?);
    let mut facts = Facts::from([("name".into(), escaped(&stream.name)), ("writer".into(), writer_number)]);
    for (i, line) in definition.to_text().split('\n').enumerate() {
        facts.insert(format!("definition {i:06}"), escaped(line));
    }
    for version in 1..definition.schema_version {
        let schema = versions::read(&*stream.storage, &stream.directory, version)?.to_string();
        for (i, line) in schema.split('\n').enumerate() {
            facts.insert(format!("schema {version:05} {i:06}"), escaped(line));
        }
    }
    for space in &writer.spaces {
        let mut catalog = space.catalog();
        if let Some((of, part, checksum)) = moved
            && of.number == space.number
            && let Some(new) = catalog.with_place(part, Some(checksum))
        {
            // A record is never newer than the manifest.
            catalog = Arc::new(Catalog { generation: catalog.generation, ..new });
        }
        for line in manifest::body(&catalog.in_store(), space.owner).lines() {
            let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
            let number = match name {
                "part" | "delete" => {
                    format!(" {:0>20}", rest.split_once(' ').map_or(rest, |(number, _)| number))
                }
                _ => String::new(),
            };
            facts.insert(format!("space {:03} {name}{number}", space.number), rest.into());
        }
    }
    // After the catalogs: it has all symbols of their messages.
    for (id, name) in stream.dictionary.names_from(0).enumerate() {
        facts.insert(format!("symbol {id:010}"), escaped(name));
    }
    Ok(facts)
}

/// Checks that records in the store may be gone on with: they are this directory's, and not newer than the manifests here. Else another
/// copy of the database writes there.
///
/// # Errors
/// When they may not. `takes_over`: they may be another copy's.
pub(crate) fn check_ours(
    writer: &StreamWriter,
    tier: &ObjectTier,
    facts: &Facts,
    takes_over: bool,
) -> Result<(), Error> {
    let refused = |what: String| {
        let source = ObjectError::new(ObjectFault::Wrong, what).into_io();
        Err(Error::Io { operation: "use", path: tier.url().into(), source })
    };
    for space in &writer.spaces {
        let prefix = format!("space {:03} generation", space.number);
        let stated =
            facts_of(facts, &prefix).next().and_then(|(_, generation)| generation.parse::<u64>().ok());
        let here = space.catalog().generation;
        if let Some(stated) = stated.filter(|stated| *stated > here) {
            return refused(format!(
                "its record of stream {:?} is of generation {stated}, and the manifest here of {here}: a newer copy of this database \
                 writes there; choose another prefix for this one, or restore the newer state with `tapedb restore`",
                writer.name
            ));
        }
    }
    let ours = format!("{:016x}", writer.objects.writer()?);
    match facts.get("writer") {
        Some(stated) if *stated != ours && !takes_over => refused(format!(
            "another copy of this database has written its record of stream {:?}; choose another prefix for this one, or, if the other \
             copy is gone for good, go on in its place with `tapedb tier --take-over`",
            writer.name
        )),
        _ => Ok(()),
    }
}
