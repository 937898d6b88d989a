//! Many sources as one, in time order.
//!
//! Always true: the heap holds every source that has not ended, except the one whose row was returned last; a source
//! is there with the time of its next row or, before it is opened, with a time that no row of it is before.

use super::discover::SourceFile;
use super::error::ImportError;
use super::record::AnyRecord;
use super::source::{Counters, Source};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use tapedb_schema::Timestamp;

/// Header of a merged row; borrowed from the merge until the next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MergedRow<'a> {
    /// The message's time.
    pub time: Timestamp,
    /// The symbol.
    pub symbol: &'a str,
    /// Index of the source in the list that the merge was made from.
    pub source: usize,
}

/// Merges rows by time; rows of the same time are in the order of their sources, then of their files.
///
/// The rows of one source stay in order, even where its times go back. A file is opened when its time is reached (see
/// [`SourceFile::not_before`]) and closed at its end: years of daily files need no more memory and file handles than
/// the files of one day (of captures, of two or three days). Files whose names have no day, such as HistData's, are all
/// opened at the first row: each takes a file handle and about 200 KiB until it ends, and their number is bounded only
/// by what the system allows. A file with rows before its `not_before` is merged from when it is opened.
pub struct Merge {
    files: Vec<SourceFile>,
    sources: Vec<Slot>,
    heap: BinaryHeap<Reverse<(Timestamp, usize)>>,
    /// The source whose row was returned last.
    taken: Option<usize>,
    /// Counters of the sources that have ended, of all sources those of times, and what the files of those that ended hold.
    ended: Counters,
    bytes_ended: u64,
    bytes_total: u64,
}

#[derive(Default)]
struct Slot {
    source: Option<Box<dyn Source>>,
    record: AnyRecord,
    symbol: String,
    /// The time of the row before.
    last: Option<Timestamp>,
}

impl Merge {
    /// A merge before its first row; opens nothing yet.
    pub fn new(files: Vec<SourceFile>) -> Self {
        let heap = files.iter().enumerate().map(|(i, file)| Reverse((file.not_before(), i))).collect();
        let bytes_total = files.iter().map(SourceFile::bytes).sum();
        let sources = files.iter().map(|_| Slot::default()).collect();
        Self { files, sources, heap, taken: None, ended: Counters::default(), bytes_ended: 0, bytes_total }
    }

    /// Replaces `out` by the next row; at the end, and with an error, it is an empty package.
    ///
    /// # Errors
    /// Those of [`SourceFile::open`] and [`Source::next`]. After an error the source that caused it has ended, the
    /// others continue.
    pub fn next(&mut self, out: &mut AnyRecord) -> Result<Option<MergedRow<'_>>, ImportError> {
        if let Some(index) = self.taken.take() {
            self.read(index)?;
        }
        while let Some(Reverse((time, index))) = self.heap.pop() {
            if self.sources[index].source.is_none() {
                self.sources[index].source = Some(self.open(index)?);
                self.read(index)?;
                continue;
            }
            self.taken = Some(index);
            let slot = &mut self.sources[index];
            std::mem::swap(out, &mut slot.record);
            return Ok(Some(MergedRow { time, symbol: &slot.symbol, source: index }));
        }
        out.package();
        Ok(None)
    }

    /// Compressed bytes read so far, and in all.
    pub fn progress(&self) -> (u64, u64) {
        (
            self.bytes_ended + self.open_sources().map(|source| source.progress().0).sum::<u64>(),
            self.bytes_total,
        )
    }

    /// What all sources have counted so far; up to one row of each open source is counted but not yet given out.
    pub fn counters(&self) -> Counters {
        let mut counters = self.ended.clone();
        self.open_sources().for_each(|source| counters.add(source.counters()));
        counters
    }

    /// The files that are merged.
    pub fn files(&self) -> &[SourceFile] {
        &self.files
    }

    fn open_sources(&self) -> impl Iterator<Item = &dyn Source> {
        self.sources.iter().filter_map(|slot| slot.source.as_deref())
    }

    fn open(&mut self, index: usize) -> Result<Box<dyn Source>, ImportError> {
        let opened = self.files[index].open();
        if opened.is_err() {
            self.bytes_ended += self.files[index].bytes();
        }
        opened
    }

    /// Reads the next row of an open source and puts it back into the heap, or closes it.
    fn read(&mut self, index: usize) -> Result<(), ImportError> {
        let slot = &mut self.sources[index];
        let Some(source) = &mut slot.source else { return Ok(()) };
        let error = match source.next(&mut slot.record) {
            Ok(Some(row)) => {
                slot.symbol.clear();
                slot.symbol.push_str(row.symbol);
                let before = slot.last.replace(row.time);
                self.ended.backward += u64::from(before.is_some_and(|before| row.time < before));
                self.heap.push(Reverse((row.time, index)));
                return Ok(());
            }
            Ok(None) => None,
            Err(error) => Some(error),
        };
        self.ended.add(source.counters());
        self.bytes_ended += self.files[index].bytes();
        *slot = Slot::default();
        error.map_or(Ok(()), Err)
    }
}
