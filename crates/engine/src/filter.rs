//! Which messages of a stream a cursor wants.

use crate::stream::StreamInner;
use std::collections::HashSet;
use tapedb_codec::batch::BatchHeader;
use tapedb_log::Granule;

/// Time range, symbols and types.
#[derive(Debug, Clone)]
pub(crate) struct Filter {
    /// First time wanted.
    from: i64,
    /// Last time wanted.
    last: i64,
    /// `from` and `last` as the user asked for them.
    asked: (i64, i64),
    /// Symbols wanted, `None` for all.
    symbols: Option<Symbols>,
    /// By type id, `None` for all.
    types: Option<Vec<bool>>,
}

/// Wanted symbols by name, and by id as far as ids have been met: a live stream gets new ones.
#[derive(Debug, Clone)]
struct Symbols {
    wanted: HashSet<String>,
    by_id: Vec<Option<bool>>,
}

impl Filter {
    pub fn new(
        from: i64,
        last: i64,
        symbols: Option<&HashSet<String>>,
        types: Option<&HashSet<String>>,
        stream: &StreamInner,
    ) -> Self {
        let symbols = symbols.map(|wanted| Symbols { wanted: wanted.clone(), by_id: Vec::new() });
        let records = stream.layouts.records().iter();
        let types = types.map(|wanted| records.map(|record| wanted.contains(&record.name)).collect());
        Self { from, last, asked: (from, last), symbols, types }
    }

    /// Leaves out the times behind which reading goes on; [`Filter::widen`] takes them in again.
    pub fn narrow_to_after(&mut self, time: i64, reversed: bool) {
        if reversed {
            self.last = self.last.min(time);
        } else {
            self.from = self.from.max(time);
        }
    }

    /// All times that were asked for.
    pub fn widen(&mut self) {
        (self.from, self.last) = self.asked;
    }

    /// Whether a granule may hold wanted messages.
    pub fn wants_granule(&self, granule: &Granule) -> bool {
        granule.time_max >= self.from && granule.time_min <= self.last
    }

    /// Whether every row of a batch is wanted, so that none need be looked at.
    pub fn wants_all_of(&self, header: &BatchHeader) -> bool {
        self.symbols.is_none()
            && self.types.is_none()
            && header.time_min >= self.from
            && header.time_max <= self.last
    }

    /// Whether no row of a batch is wanted.
    pub fn wants_none_of(&mut self, header: &BatchHeader, stream: &StreamInner) -> bool {
        header.time_max < self.from
            || header.time_min > self.last
            || (header.symbol_width == 0 && !self.wants_symbol(header.symbol_const, stream))
    }

    /// Whether a row is wanted.
    #[inline]
    pub fn wants(&mut self, time: i64, symbol: u32, type_id: u16, stream: &StreamInner) -> bool {
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

    #[inline]
    fn wants_symbol(&mut self, symbol: u32, stream: &StreamInner) -> bool {
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
    fn learn(&mut self, symbol: u32, stream: &StreamInner) -> bool {
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
