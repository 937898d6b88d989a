//! Writes bars into a stream of their own, each once: what is there already stays, what has changed is replaced.
//!
//! Always true: before the first [`BarWriter::flush`] at the end of history, bars come in the order of their times, and those of the stream
//! up to the time of the last are the bars that came. After it, a bar is new or a correction.

use crate::bars::SymbolBar;
use std::collections::BTreeMap;
use tapedb_codec::SchemaBuilder;
use tapedb_engine::{Cursor, Database, Error, Loader, Stream, StreamOptions};
use tapedb_market::IntervalBar;
use tapedb_schema::Timestamp;

/// Corrections that are held back at most: each replacement of messages seals the log.
const CORRECTIONS_MAX: usize = 10_000;

/// Bars of one time, in their order.
type Group = (Timestamp, Vec<(String, IntervalBar)>);

/// The writer.
#[derive(Debug)]
pub struct BarWriter {
    stream: Stream,
    loader: Loader,
    /// The bars that were there.
    old: Option<Old>,
    group: Option<Group>,
    corrections: BTreeMap<(Timestamp, String), IntervalBar>,
    written: u64,
    replaced: u64,
}

impl BarWriter {
    /// A writer into the stream `name`, which is created if it does not exist.
    ///
    /// # Errors
    /// The engine's, such as for a stream of another schema.
    pub fn open(db: &Database, name: &str) -> Result<Self, Error> {
        let schema = SchemaBuilder::new().with::<IntervalBar>().finish();
        let stream = db.open_or_create_stream(name, schema, StreamOptions::default())?;
        let now = stream.next_sequences()?;
        let cursor = stream.cursor().to_sequences(now).open()?;
        Ok(Self {
            loader: stream.loader()?,
            old: Some(Old { cursor, next: None, ahead: None }),
            stream,
            group: None,
            corrections: BTreeMap::new(),
            written: 0,
            replaced: 0,
        })
    }

    /// Takes a bar.
    ///
    /// # Errors
    /// The engine's.
    pub fn take(&mut self, bar: SymbolBar) -> Result<(), Error> {
        let SymbolBar { symbol, built } = bar;
        if built.is_correction {
            self.corrections.insert((built.time, symbol), built.bar);
            return if self.corrections.len() >= CORRECTIONS_MAX { self.flush_all() } else { Ok(()) };
        }
        if self.group.as_ref().is_some_and(|(time, _)| *time != built.time) {
            self.close_group()?;
        }
        self.group.get_or_insert_with(|| (built.time, Vec::new())).1.push((symbol, built.bar));
        Ok(())
    }

    /// Writes everything that was taken. The first call removes bars that were there and did not come: call it at the end of history.
    ///
    /// # Errors
    /// The engine's.
    pub fn flush(&mut self) -> Result<(), Error> {
        self.flush_all()?;
        let Some(mut old) = self.old.take() else { return Ok(()) };
        if let Some((from, _)) = old.group()? {
            let first = *from;
            let mut last = first;
            while let Some((time, _)) = old.group()? {
                last = *time;
                self.replaced += 1;
                old.next = None;
            }
            self.stream.delete(first..=last, None::<[&str; 0]>)?;
        }
        Ok(())
    }

    /// Bars written.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Times whose bars were replaced, and late trades' corrections.
    pub fn replaced(&self) -> u64 {
        self.replaced
    }

    /// The stream of the bars.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    fn flush_all(&mut self) -> Result<(), Error> {
        self.close_group()?;
        self.loader.flush()?;
        for ((time, symbol), bar) in std::mem::take(&mut self.corrections) {
            let mut rewriter = self.stream.rewrite(time..=time, Some([symbol.as_str()]))?;
            rewriter.append(&symbol, time, &bar)?;
            rewriter.commit()?;
            self.replaced += 1;
        }
        Ok(())
    }

    /// Compares the bars of a time with those that were there.
    fn close_group(&mut self) -> Result<(), Error> {
        let Some((time, bars)) = self.group.take() else { return Ok(()) };
        if let Some(old) = &mut self.old {
            while let Some((of, there)) = old.group()? {
                if *of > time {
                    break;
                }
                let (of, is_same) = (*of, *of == time && is_same(there, &bars));
                old.next = None;
                if is_same {
                    return Ok(());
                }
                self.replaced += 1;
                self.stream.delete(of..=of, None::<[&str; 0]>)?;
            }
        }
        for (symbol, bar) in &bars {
            self.loader.append(symbol, time, bar)?;
            self.written += 1;
        }
        Ok(())
    }
}

/// Whether both have the same bars, each symbol's in the same order.
fn is_same(there: &[(String, IntervalBar)], bars: &[(String, IntervalBar)]) -> bool {
    let sorted = |bars: &[(String, IntervalBar)]| {
        let mut sorted = bars.to_vec();
        sorted.sort_by(|(a, _), (b, _)| a.cmp(b));
        sorted
    };
    there.len() == bars.len() && sorted(there) == sorted(bars)
}

/// The bars that were there, by time.
#[derive(Debug)]
struct Old {
    cursor: Cursor,
    /// The first group that was not compared yet.
    next: Option<Group>,
    /// What the cursor returned behind it.
    ahead: Option<(Timestamp, String, IntervalBar)>,
}

impl Old {
    /// The first group that was not compared yet; `None`: there is none.
    fn group(&mut self) -> Result<Option<&Group>, Error> {
        if self.next.is_none() {
            let mut group = self.ahead.take().map(|(time, symbol, bar)| (time, vec![(symbol, bar)]));
            while let Some(message) = self.cursor.next()? {
                let (time, symbol, bar) = (message.time(), message.symbol().to_string(), message.decode()?);
                match &mut group {
                    None => group = Some((time, vec![(symbol, bar)])),
                    Some((of, bars)) if *of == time => bars.push((symbol, bar)),
                    Some(_) => {
                        self.ahead = Some((time, symbol, bar));
                        break;
                    }
                }
            }
            self.next = group;
        }
        Ok(self.next.as_ref())
    }
}
