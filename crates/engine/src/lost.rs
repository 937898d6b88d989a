//! Symbol ids whose names are lost.
//!
//! Stored messages name their symbols by id. If the symbol file has lost its last entries (damaged, or younger than
//! the log after a power cut), the next new symbol would get an id that stored messages use, and they would silently
//! become messages of that symbol. So a writer, before it appends, gives such ids names of their own.

use crate::error::Error;
use tapedb_codec::batch::{BatchHeader, Rows};
use tapedb_log::{Dictionary, Granule, Log, LogError, MAX_SYMBOLS, SymbolFile};

/// Gives every id that messages use a name; returns how many had none. Looks at the last log file, where ids that are
/// missing at the end of the symbol file are, or at all files if `whole`.
pub(crate) fn keep_used_ids(symbols: &mut SymbolFile, log: &Log, whole: bool) -> Result<u32, Error> {
    let used = ids_used(log, symbols.dictionary(), whole)?.min(MAX_SYMBOLS as u32);
    let known = symbols.dictionary().len();
    if used <= known {
        return Ok(0);
    }
    let names: Vec<String> = (known..used).map(|id| stand_in(id, symbols.dictionary())).collect();
    symbols.append(&names.iter().map(String::as_str).collect::<Vec<_>>())?;
    Ok(used - known)
}

/// A name that no symbol has.
fn stand_in(id: u32, dictionary: &Dictionary) -> String {
    let mut name = format!("?{id}");
    while dictionary.id(&name).is_some() {
        name.insert(0, '?');
    }
    name
}

/// One more than the largest id in use, at least as far as it is above the ids in the dictionary.
fn ids_used(log: &Log, dictionary: &Dictionary, whole: bool) -> Result<u32, LogError> {
    let snapshot = log.snapshot();
    let last_file = snapshot.iter().next_back().map(|granule| granule.file);
    let (mut used, mut bytes, mut rows) = (0, Vec::new(), Rows::default());
    for granule in snapshot.iter().filter(|granule| whole || Some(granule.file) == last_file) {
        log.read(granule, &mut bytes)?;
        used = used.max(ids_used_in(log, granule, &bytes, &mut rows, dictionary.len()));
    }
    Ok(used)
}

fn ids_used_in(log: &Log, granule: &Granule, bytes: &[u8], rows: &mut Rows, known: u32) -> u32 {
    let mut used = 0;
    // What is damaged has been reported by the log.
    for batch in log.batches(&granule.span(), bytes).flatten() {
        if batch.header.symbol_width == 0 {
            used = used.max(batch.header.symbol_const.saturating_add(1));
        } else if ids_bound(&batch.header) > known && rows.load_parsed(&batch.header, batch.bytes).is_ok() {
            let largest = rows.symbols().iter().max().copied().unwrap_or(0);
            used = used.max(largest.saturating_add(1));
        }
    }
    used
}

/// No id in the batch's symbol column is this large.
fn ids_bound(header: &BatchHeader) -> u32 {
    match header.symbol_width {
        1 => 1 << 8,
        2 => 1 << 16,
        _ => u32::MAX,
    }
}
