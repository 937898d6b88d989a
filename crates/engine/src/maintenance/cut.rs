//! Cuts what is to be sealed where the newest version of the schema has no values for some messages: these stay in the version
//! that they were written with.
//!
//! Such messages are rare: a number of seventeen digits where the new version has a `decimal64`, a symbol of an enum that it
//! lacks. They remain in history, readers get the same error for each as from the log, and none of the others waits for them.

use crate::error::Error;
use crate::maintenance::context::MaintenanceContext;
use crate::maintenance::pace::Pace;
use crate::read::translate::translate;
use std::collections::VecDeque;
use std::ops::Range;
use tapedb_codec::batch::BatchHeader;
use tapedb_log::Granule;

/// Messages that become one segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cut {
    /// The version of the schema that the segment has.
    pub version: u16,
    pub sequences: Range<u64>,
    /// Where its messages are in the log, in order of arrival.
    pub granules: Vec<Granule>,
}

/// Cuts messages in as few pieces as follow each other: what the newest version has values for is converted to it, and a batch of
/// which it lacks some begins a piece in its own version, with the batches of this version that follow. `None`: the work was
/// stopped.
///
/// # Errors
/// When the log cannot be read. Damage is no error here: what is damaged is in no granule.
pub(crate) fn cut(
    context: MaintenanceContext<'_>,
    sequences: Range<u64>,
    granules: &[Granule],
    pace: &mut Pace<'_>,
) -> Result<Option<Vec<Cut>>, Error> {
    let newest = context.stream.definition.schema_version;
    let mut cuts = Vec::new();
    let mut last = Cut { version: newest, sequences: sequences.clone(), granules: Vec::new() };
    let mut bytes = Vec::new();
    for granule in granules {
        if !pace.proceed(context) {
            return Ok(None);
        }
        context.space.log.read(granule, &mut bytes)?;
        for batch in context.space.log.batches(&granule.span(), &bytes).flatten() {
            let (header, start) = (&batch.header, batch.header.first_sequence);
            let version = match header.schema_version {
                version if version == last.version || version == newest => version,
                _ if has_counterparts(context, header, batch.bytes)? => newest,
                version => version,
            };
            if version != last.version {
                let next = Cut { version, sequences: start..sequences.end, granules: Vec::new() };
                if last.granules.is_empty() {
                    last = Cut { sequences: last.sequences, ..next };
                } else {
                    last.sequences.end = start;
                    cuts.push(std::mem::replace(&mut last, next));
                }
            }
            let of_batch = Granule::of(granule.file, batch.offset, header);
            if !last.granules.last_mut().is_some_and(|before| before.absorb(&of_batch)) {
                last.granules.push(of_batch);
            }
        }
    }
    cuts.push(last);
    Ok(Some(cuts))
}

/// Whether the newest version has values for all messages of a batch that are not deleted.
fn has_counterparts(
    context: MaintenanceContext<'_>,
    header: &BatchHeader,
    batch: &[u8],
) -> Result<bool, Error> {
    let sequences = header.first_sequence..header.next_sequence();
    let deletions = context.space.deletions_in_log(&sequences, (header.time_min, header.time_max))?;
    let mut is_left = |(time, sequence): (i64, u64), symbol, _| {
        !deletions.iter().any(|deletion| deletion.covers(time, sequence, symbol))
    };
    let (mut converted, mut errors) = (Vec::new(), VecDeque::new());
    translate((header, batch), context.reading(), &mut converted, &mut errors, &mut is_left);
    Ok(!errors.iter().any(Error::is_conversion))
}
