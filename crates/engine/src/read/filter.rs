//! Which messages of a stream a cursor wants, and as rows or as columns.

use crate::read::fields::Fields;
use crate::read::strand_runs::{StrandRuns, by_strand};
use crate::stream::reader::{ReadContext, StreamReader};
use std::collections::{HashSet, VecDeque};
use std::ops::Range;
use tapedb_codec::batch::BatchHeader;
use tapedb_segment::{ReadAt, Segment, Selection};

/// Time range, symbols and types; and the fields, where columns are wanted.
#[derive(Debug, Clone)]
pub(crate) struct Filter {
    /// First time wanted.
    from: i64,
    /// Last time wanted.
    last: i64,
    /// `from` and `last` as the user requested them.
    asked: (i64, i64),
    /// Symbols wanted, `None` for all.
    symbols: Option<Symbols>,
    /// By type id, `None` for all.
    types: Option<Vec<bool>>,
    /// The same for segments.
    selected: Option<Selected>,
    /// Number of renames of symbols when ids were looked up.
    renames: u64,
    /// The fields that are wanted as columns; `None`: rows are wanted.
    fields: Option<Box<Fields>>,
}

/// Wanted ids, ascending; `None`: all.
#[derive(Debug, Clone, Default)]
struct Selected {
    /// Number of symbols of the stream when they were looked up.
    symbol_count: u32,
    symbols: Option<Vec<u32>>,
    types: Option<Vec<u16>>,
}

/// Wanted symbols by name, and by id as far as ids have occurred: a live stream gets new ones.
#[derive(Debug, Clone)]
struct Symbols {
    wanted: HashSet<String>,
    by_id: Vec<Option<bool>>,
}

impl Filter {
    /// Everything.
    pub fn all() -> Self {
        let (from, last) = (i64::MIN, i64::MAX);
        Self {
            from,
            last,
            asked: (from, last),
            symbols: None,
            types: None,
            selected: None,
            renames: 0,
            fields: None,
        }
    }

    pub fn new(
        from: i64,
        last: i64,
        symbols: Option<&HashSet<String>>,
        types: Option<&HashSet<String>>,
        stream: &StreamReader,
    ) -> Self {
        let symbols = symbols.map(|wanted| Symbols { wanted: wanted.clone(), by_id: Vec::new() });
        let records = stream.layouts.records().iter();
        let types = types.map(|wanted| records.map(|record| wanted.contains(&record.name)).collect());
        Self {
            from,
            last,
            asked: (from, last),
            symbols,
            types,
            selected: None,
            renames: stream.dictionary.renames(),
            fields: None,
        }
    }

    /// Wants the rows' fields as columns where a block has them: such rows have no bodies.
    pub fn want_columns(&mut self, fields: Fields) {
        self.fields = Some(Box::new(fields));
    }

    /// Takes the wanted fields out, to be put back with [`Filter::put_fields`].
    pub fn take_fields(&mut self) -> Option<Box<Fields>> {
        self.fields.take()
    }

    /// Ends [`Filter::take_fields`].
    pub fn put_fields(&mut self, fields: Option<Box<Fields>>) {
        self.fields = fields;
    }

    /// Looks ids up again after renames of symbols. Called for each batch and block: rows already in memory may still be
    /// filtered by the old names.
    #[inline]
    fn update_renames(&mut self, stream: &StreamReader) {
        if self.symbols.is_some() && self.renames != stream.dictionary.renames() {
            self.look_up_again(stream);
        }
    }

    #[cold]
    fn look_up_again(&mut self, stream: &StreamReader) {
        self.renames = stream.dictionary.renames();
        self.selected = None;
        if let Some(symbols) = &mut self.symbols {
            symbols.by_id.clear();
        }
    }

    /// Excludes times that have been read; [`Filter::widen`] includes them again.
    pub fn narrow_to_after(&mut self, time: i64, reversed: bool) {
        if reversed {
            self.last = self.last.min(time);
        } else {
            self.from = self.from.max(time);
        }
    }

    /// Includes all requested times.
    pub fn widen(&mut self) {
        (self.from, self.last) = self.asked;
    }

    /// Restricts reads of segments to these symbols and record types, ids ascending. Rows of the log, which are filtered one by
    /// one, are filtered as before.
    pub fn select(&mut self, symbols: Vec<u32>, types: Vec<u16>) {
        self.selected = Some(Selected { symbol_count: u32::MAX, symbols: Some(symbols), types: Some(types) });
    }

    /// Whether messages of a symbol are wanted.
    pub fn wants_name(&self, symbol: &str) -> bool {
        self.symbols.as_ref().is_none_or(|symbols| symbols.wanted.contains(symbol))
    }

    /// Whether messages of a record type are wanted.
    pub fn wants_type(&self, type_id: u16) -> bool {
        let wants = |types: &Vec<bool>| types.get(usize::from(type_id)).copied().unwrap_or(false);
        self.types.as_ref().is_none_or(wants)
    }

    /// Whether messages from one time to another may be wanted.
    pub fn wants_times(&self, time_min: i64, time_max: i64) -> bool {
        time_max >= self.from && time_min <= self.last
    }

    /// Whether all messages from one time to another are wanted, as far as times go.
    pub fn wants_all_times(&self, time_min: i64, time_max: i64) -> bool {
        time_min >= self.from && time_max <= self.last
    }

    /// The first and the last time wanted.
    pub fn times(&self) -> (i64, i64) {
        (self.from, self.last)
    }

    /// Runs of blocks of a segment that may hold wanted messages, ascending.
    pub fn wanted_blocks<R: ReadAt>(
        &mut self,
        segment: &Segment<R>,
        context: ReadContext<'_>,
    ) -> VecDeque<Range<usize>> {
        let between = segment.blocks_between(self.from, self.last);
        let Some(ids) = &self.selected(context.stream).symbols else {
            return if between.is_empty() { VecDeque::new() } else { VecDeque::from([between]) };
        };
        let mut runs: Vec<Range<usize>> = ids.iter().flat_map(|id| segment.blocks_of(*id)).collect();
        runs.sort_unstable_by_key(|run| run.start);
        let mut wanted: VecDeque<Range<usize>> = VecDeque::new();
        for run in runs {
            let run = run.start.max(between.start)..run.end.min(between.end);
            match wanted.back_mut() {
                _ if run.is_empty() => {}
                Some(last) if last.end >= run.start => last.end = last.end.max(run.end),
                _ => wanted.push_back(run),
            }
        }
        wanted
    }

    /// Blocks of a segment that may hold wanted messages, by strand.
    pub fn wanted_strands<R: ReadAt>(
        &mut self,
        segment: &Segment<R>,
        context: ReadContext<'_>,
    ) -> Vec<StrandRuns> {
        let wanted = self.wanted_blocks(segment, context);
        if !segment.has_strands() {
            return by_strand(segment, wanted);
        }
        // Blocks of strands are not in order of time.
        let blocks = segment.blocks();
        let is_wanted = |index: &usize| self.wants_times(blocks[*index].time_min, blocks[*index].time_max);
        by_strand(segment, wanted.into_iter().flatten().filter(is_wanted).map(|index| index..index + 1))
    }

    /// What is wanted of a block of a segment.
    pub fn selection(&mut self, context: ReadContext<'_>) -> Selection<'_> {
        let (from, last) = (self.from, self.last);
        let selected = self.selected(context.stream);
        Selection { from, last, symbols: selected.symbols.as_deref(), types: selected.types.as_deref() }
    }

    /// Wanted ids, looked up again when the stream has new symbols.
    fn selected(&mut self, stream: &StreamReader) -> &Selected {
        self.update_renames(stream);
        let symbol_count = stream.dictionary.len();
        let Self { symbols, types, selected, .. } = self;
        if selected
            .as_ref()
            .is_none_or(|selected| selected.symbol_count < symbol_count && selected.symbols.is_some())
        {
            let ids = symbols.as_ref().map(|symbols| {
                let mut ids: Vec<u32> =
                    symbols.wanted.iter().filter_map(|name| stream.dictionary.id(name)).collect();
                ids.sort_unstable();
                ids
            });
            let types = types
                .as_ref()
                .map(|types| (0u16..).zip(types).filter(|(_, wanted)| **wanted).map(|(id, _)| id).collect());
            *selected = Some(Selected { symbol_count, symbols: ids, types });
        }
        selected.get_or_insert_default()
    }

    /// Whether every row of a batch is wanted, so that no row has to be checked.
    pub fn wants_all_of(&self, header: &BatchHeader) -> bool {
        self.symbols.is_none()
            && self.types.is_none()
            && header.time_min >= self.from
            && header.time_max <= self.last
    }

    /// Whether no row of a batch is wanted.
    pub fn wants_none_of(&mut self, header: &BatchHeader, stream: &StreamReader) -> bool {
        self.update_renames(stream);
        header.time_max < self.from
            || header.time_min > self.last
            || (header.symbol_width == 0 && !self.wants_symbol(header.symbol_const, stream))
    }

    /// Whether a row is wanted.
    #[inline]
    pub fn wants(&mut self, time: i64, symbol: u32, type_id: u16, stream: &StreamReader) -> bool {
        if time < self.from || time > self.last {
            return false;
        }
        if let Some(types) = &self.types
            && !types.get(usize::from(type_id)).copied().unwrap_or(false)
        {
            return false;
        }
        self.wants_symbol(symbol, stream)
    }

    /// Whether a row would be wanted that has no counterpart in the stream's version of the schema; `target`: its type in that
    /// version.
    pub fn wants_unconverted(
        &mut self,
        time: i64,
        (symbol, target): (u32, Option<u16>),
        stream: &StreamReader,
    ) -> bool {
        match target {
            Some(type_id) => self.wants(time, symbol, type_id, stream),
            None => self.types.is_none() && self.wants_times(time, time) && self.wants_symbol(symbol, stream),
        }
    }

    #[inline]
    fn wants_symbol(&mut self, symbol: u32, stream: &StreamReader) -> bool {
        match &mut self.symbols {
            None => true,
            Some(symbols) => match symbols.by_id.get(symbol as usize) {
                Some(Some(wanted)) => *wanted,
                _ => symbols.learn(symbol, stream),
            },
        }
    }
}

impl Symbols {
    #[cold]
    fn learn(&mut self, symbol: u32, stream: &StreamReader) -> bool {
        let wanted = self.wanted.contains(stream.symbol(symbol));
        // Ids that no dictionary has are not remembered: hostile ones would cost memory.
        if symbol < stream.dictionary.len() {
            let needed = symbol as usize + 1;
            if self.by_id.len() < needed {
                self.by_id.resize(needed, None);
            }
            self.by_id[symbol as usize] = Some(wanted);
        }
        wanted
    }
}
