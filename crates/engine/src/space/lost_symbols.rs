//! Symbol ids whose names are lost.
//!
//! Stored messages refer to their symbols by id. If the symbol file has lost its last entries (damaged, or older than the log
//! after a power cut), the next new symbol would get an id that stored messages use, and they would silently become messages
//! of that symbol. So a writer, before it appends, gives such ids substitute names.
//!
//! After a power cut only the last log file can use them, for the symbol file is synced before a log file is rolled. The symbol
//! file may then end between two entries and look whole, so the last log file is always examined. All log files are examined
//! when the symbol file has a bad end, which may be damage to old entries, or is empty.

use crate::error::Error;
use tapedb_codec::batch::{BatchError, BatchHeader, Rows};
use tapedb_log::{
    BatchSlice, Damage, Dictionary, Granule, Log, LogError, MAX_SYMBOLS, Reason, Recovery, SymbolFile,
};

/// Ids this far past the dictionary, plus one for every examined message, are damage and not lost names: that many cannot
/// have been lost.
const LOST_MAX: u64 = 65_536;

/// Offset in a batch's header of the symbol of all its messages.
const SYMBOL_CONST_AT: usize = 52;

/// Gives every id that messages use a name; returns how many had none. Examines the last log file, or all files if `whole`.
/// Ids too large to be of lost names are added to the damage in `recovery` and get no name.
pub(crate) fn name_used_ids(
    symbols: &mut SymbolFile,
    log: &Log,
    whole: bool,
    recovery: &mut Recovery,
) -> Result<u32, Error> {
    let named = symbols.dictionary().len();
    let used = ids_used(log, named, whole, &mut recovery.damaged)?;
    if used <= named {
        return Ok(0);
    }
    let names: Vec<String> = (named..used).map(|id| substitute_name(id, symbols.dictionary())).collect();
    symbols.append(&names.iter().map(String::as_str).collect::<Vec<_>>())?;
    Ok(used - named)
}

/// An unused name for an id.
fn substitute_name(id: u32, dictionary: &Dictionary) -> String {
    let mut name = format!("?{id}");
    while dictionary.id(&name).is_some() {
        name.insert(0, '?');
    }
    name
}

/// One more than the largest id in use, if that is above the `named` ids in the dictionary.
fn ids_used(log: &Log, named: u32, whole: bool, damaged: &mut Vec<Damage>) -> Result<u32, LogError> {
    let snapshot = log.snapshot();
    let last_file = snapshot.iter().next_back().map(|granule| granule.file);
    let examined = || snapshot.iter().filter(|granule| whole || Some(granule.file) == last_file);
    let messages: u64 = examined().map(|granule| granule.count).sum();
    let end = (u64::from(named) + LOST_MAX + messages).min(MAX_SYMBOLS as u64) as u32;
    let mut ids = Ids { named, end, used: 0, rows: Rows::default() };
    let mut bytes = Vec::new();
    for granule in examined() {
        log.read(granule, &mut bytes)?;
        // The log has reported damaged batches.
        for batch in log.batches(&granule.span(), &bytes).flatten() {
            damaged.extend(ids.add_batch(granule, &batch));
        }
    }
    Ok(ids.used)
}

/// The ids that batches use.
struct Ids {
    named: u32,
    /// No lost name has this id, or a larger one.
    end: u32,
    /// One more than the largest id below `end` so far.
    used: u32,
    rows: Rows,
}

impl Ids {
    /// Adds the batch's ids; returns the damage if one of them is too large.
    fn add_batch(&mut self, granule: &Granule, batch: &BatchSlice<'_>) -> Option<Damage> {
        let too_large = if batch.header.symbol_width == 0 {
            self.add(&[batch.header.symbol_const])
        } else if ids_bound(&batch.header) > self.named {
            let mut rows = std::mem::take(&mut self.rows);
            let loaded = rows.load_places(&batch.header, batch.bytes).is_ok();
            let too_large = if loaded { self.add(rows.symbols()) } else { None };
            self.rows = rows;
            too_large
        } else {
            None
        };
        too_large.map(|id| damage(granule, batch, id))
    }

    /// Returns an id that is too large, if there is one.
    fn add(&mut self, ids: &[u32]) -> Option<u32> {
        let largest = ids.iter().filter(|&&id| id < self.end).max();
        self.used = self.used.max(largest.map_or(0, |id| id + 1));
        ids.iter().find(|&&id| id >= self.end).copied()
    }
}

fn damage(granule: &Granule, batch: &BatchSlice<'_>, id: u32) -> Damage {
    let need = "an id of the symbol file, or one that it can have lost";
    let error = BatchError::Field { offset: SYMBOL_CONST_AT, field: "symbol", need, have: id.into() };
    Damage {
        file: granule.file,
        offset: batch.offset,
        bytes: batch.bytes.len() as u64,
        first_sequence: batch.header.first_sequence,
        // The messages can be read, with `?` for their symbol.
        count: Some(0),
        reason: Reason::Batch(error),
    }
}

/// Every id in the batch's symbol column is below this.
fn ids_bound(header: &BatchHeader) -> u32 {
    match header.symbol_width {
        1 => 1 << 8,
        2 => 1 << 16,
        _ => u32::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::sync::Arc;
    use tapedb_codec::batch::BatchBuilder;
    use tapedb_log::sim::SimStorage;
    use tapedb_log::{Durability, LogOptions, LogWriter};

    /// Two names, and a log of one batch whose messages have these symbols.
    fn stream(ids: &[u32]) -> (SymbolFile, LogWriter) {
        let disk = SimStorage::new(1);
        let opened = SymbolFile::open_rw(&disk, Path::new("/symbols"), 7, Durability::Async);
        let (mut symbols, _) = opened.unwrap();
        symbols.append(&["AAPL", "MSFT"]).unwrap();
        let options = LogOptions::new(7, 0);
        let (mut writer, _) = LogWriter::open(Arc::new(disk), Path::new("/log"), options).unwrap();
        let (mut builder, mut batch) = (BatchBuilder::new(), Vec::new());
        for &id in ids {
            builder.push_bytes(0, id, 0, &[0; 8]).unwrap();
        }
        builder.finish(1, &mut batch);
        writer.append(&mut batch).unwrap();
        (symbols, writer)
    }

    #[test]
    fn ids_without_a_name_get_one_though_the_symbol_file_looks_whole() {
        let (mut symbols, writer) = stream(&[0, 4, 1]);
        let mut recovery = Recovery::default();
        assert_eq!(name_used_ids(&mut symbols, writer.log(), false, &mut recovery).unwrap(), 3);
        assert!(symbols.dictionary().names_from(2).eq(["?2", "?3", "?4"]) && recovery.is_clean());
        assert_eq!(name_used_ids(&mut symbols, writer.log(), false, &mut recovery).unwrap(), 0);
    }

    #[test]
    fn an_id_too_large_to_be_lost_is_damage_and_makes_no_names() {
        for ids in [vec![u32::MAX], vec![(16 << 20) + 1; 4], vec![1, 3, 1_000_000]] {
            let (mut symbols, writer) = stream(&ids);
            let mut recovery = Recovery::default();
            let lost = name_used_ids(&mut symbols, writer.log(), true, &mut recovery).unwrap();
            assert_eq!(lost, if ids.len() == 3 { 2 } else { 0 }, "{ids:?}");
            let [damage] = recovery.damaged[..] else { panic!("{recovery}") };
            assert_eq!((damage.offset, damage.count), (64, Some(0)));
        }
    }
}
