//! Content of streams of a server: bars, all of one size, or a mix as on markets.

use super::fields::Fields;
use super::pool::{Mixed, Pool, Tally, bars_pool, load, mixed_pool, plus};
use serde::{Deserialize, Serialize};
use std::thread;
use tapedb_codec::{SchemaBuilder, view_trusted};
use tapedb_engine::{Cursor, Error, Message, Stream};
use tapedb_market::{Bar, Package};
use tapedb_schema::Schema;
use tapedb_terminal::{Failure, Ui};

/// Content of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
pub enum Content {
    /// Bars of ten symbols: bodies of 40 bytes, one type.
    Bars,
    /// A level-2 feed of 500 contracts with bars among it: two record types, four types of entries, bodies of many lengths.
    Mixed,
}

impl Content {
    /// The case, with a suffix unless the content is bars.
    pub fn case(self, case: &str) -> String {
        match self {
            Self::Bars => case.into(),
            Self::Mixed => format!("{case}.mixed"),
        }
    }

    /// Number of messages in place of `messages` bars: mixed ones are about four times longer.
    pub fn share(self, messages: u64) -> u64 {
        match self {
            Self::Bars => messages,
            Self::Mixed => (messages / 4).max(1),
        }
    }

    /// The schema of such a stream.
    pub fn schema(self) -> Schema {
        match self {
            Self::Bars => SchemaBuilder::new().with::<Bar>().finish(),
            Self::Mixed => SchemaBuilder::new().with::<Package>().with::<Bar>().finish(),
        }
    }

    /// The messages to load, at most `messages` distinct ones.
    pub fn pool(self, messages: u64) -> Result<ContentPool, Failure> {
        Ok(match self {
            Self::Bars => ContentPool::Bars(bars_pool(10)),
            Self::Mixed => ContentPool::Mixed(mixed_pool(messages)?),
        })
    }

    /// Decodes every field of the messages from `next`, until there are no more or `messages` were read.
    pub fn tally<N>(self, cursor: &mut Cursor, messages: u64, next: N) -> Result<Tally, Failure>
    where
        N: for<'c> Fn(&'c mut Cursor) -> Result<Option<Message<'c>>, Error>,
    {
        match self {
            Self::Bars => tally(cursor, messages, next, fields_of::<Bar>),
            Self::Mixed => tally(cursor, messages, next, |message| match message.type_id() {
                PACKAGE => fields_of::<Package>(message),
                _ => fields_of::<Bar>(message),
            }),
        }
    }
}

/// Type id in the schema of mixed messages.
const PACKAGE: u16 = 0;

#[inline]
fn tally<N>(
    cursor: &mut Cursor,
    messages: u64,
    next: N,
    fields: impl Fn(&Message<'_>) -> u64,
) -> Result<Tally, Failure>
where
    N: for<'c> Fn(&'c mut Cursor) -> Result<Option<Message<'c>>, Error>,
{
    let mut tally = Tally::default();
    while tally.messages < messages {
        let Some(message) = next(cursor)? else { break };
        tally.add(message.time(), fields(&message));
    }
    Ok(tally)
}

/// The sum of all fields, without validation: the benchmark wrote the bytes itself.
#[inline]
pub fn fields_of<T: Fields>(message: &Message<'_>) -> u64 {
    T::fold_view(view_trusted::<T>(message.body()), plus)
}

/// Messages to load repeatedly.
pub enum ContentPool {
    Bars(Pool<Bar>),
    Mixed(Pool<Mixed>),
}

impl ContentPool {
    /// Loads messages with several loaders, each in a thread, with the loader's own batch size.
    pub fn load(&self, stream: &Stream, messages: u64, loaders: u32, ui: &Ui) -> Result<Tally, Failure> {
        if loaders <= 1 {
            return self.load_with_one(stream, messages, ui);
        }
        let share = |nth: u64| (messages + nth) / u64::from(loaders);
        thread::scope(|scope| {
            let loading: Vec<_> = (0..u64::from(loaders))
                .map(|nth| scope.spawn(move || self.load_with_one(stream, share(nth), ui)))
                .collect();
            loading.into_iter().try_fold(Tally::default(), |sum, thread| {
                let ended =
                    |_| Err(Failure::new("a thread of the benchmark panicked; see its message above"));
                Ok(sum.and(thread.join().unwrap_or_else(ended)?))
            })
        })
    }

    fn load_with_one(&self, stream: &Stream, messages: u64, ui: &Ui) -> Result<Tally, Failure> {
        match self {
            Self::Bars(pool) => load(stream, pool, messages, u64::MAX, ui),
            Self::Mixed(pool) => load(stream, pool, messages, u64::MAX, ui),
        }
    }
}
