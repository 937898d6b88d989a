//! Removes objects that nothing names: of purged segments, and of copies that were interrupted.
//!
//! Always true: what is removed is in no manifest, in no record of the store, open in no cursor of this process, and was found so an hour
//! before. A reader in another process that still wants it reads the manifest or the record again, as where a file was replaced, and
//! goes on with what has not been deleted.

use crate::error::Error;
use crate::objects::keys;
use crate::objects::record::Offloading;
use crate::objects::tier::ObjectTier;
use crate::stream::reader::StreamReader;
use crate::stream::writer::StreamWriter;
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// How often it is looked for such objects, and how long they stay.
const EVERY: Duration = Duration::from_secs(3600);

/// Sweeps if it is time, or a caller asks for it with its own grace. The stream's record is up to date.
pub(crate) fn sweep_if_due(
    stream: &StreamReader,
    writer: &StreamWriter,
    tier: &ObjectTier,
    state: &mut Offloading,
    grace: Option<Duration>,
) -> Result<(), Error> {
    let now = Instant::now();
    if grace.is_none() && state.swept.is_some_and(|swept| now.duration_since(swept) < EVERY) {
        return Ok(());
    }
    let stream_id = stream.definition.id;
    let mut found = HashSet::new();
    for space in &writer.spaces {
        let keys = tier.list(&keys::segments(stream_id, space.number))?;
        // After the list: what is named now was named then, or is newer.
        let catalog = space.catalog();
        let named: HashSet<String> =
            catalog.parts.iter().filter_map(|part| part.object_key(stream_id, space.number)).collect();
        let open = space.open_numbers();
        for key in keys {
            let Some((segment, _)) = key.rsplit_once('.') else { continue };
            let is_open = number_of(segment).is_none_or(|number| open.contains(&number));
            if !named.contains(segment) && !is_open {
                found.insert(key);
            }
        }
    }
    state.suspects.retain(|key, _| found.contains(key));
    for key in found {
        let since = *state.suspects.entry(key.clone()).or_insert(now);
        if now.duration_since(since) >= grace.unwrap_or(EVERY) {
            tier.delete(&key)?;
            state.suspects.remove(&key);
        }
    }
    state.swept = Some(now);
    Ok(())
}

/// The number of a segment: digits between the hyphens of its name. `None`: it is none of ours.
fn number_of(segment: &str) -> Option<u64> {
    let (_, name) = segment.rsplit_once('/')?;
    name.strip_suffix(".seg")?.split('-').nth(1)?.parse().ok()
}
