//! New messages of a stream: the newest ones, and how many were left out because there are more than a page can show.

use crate::caller::Caller;
use crate::failure::Failure;
use crate::live::channel::{Channel, check_read};
use crate::value::Head;
use serde::Deserialize;
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use tapedb_access::{May, User};
use tapedb_engine::{Cursor, CursorBuilder, Error, Message, Stream};
use tapedb_schema::Timestamp;

/// Messages in a frame.
const KEPT: usize = 200;
/// Messages in a frame that leaves others out: more of them cannot be read, and a browser has to show each.
const KEPT_FAST: usize = 40;
/// The longest look: a tail that is further behind continues with the newest messages.
const LOOK_MAX: Duration = Duration::from_millis(100);
/// Messages between two looks at the clock.
const STEP: u64 = 1000;

#[derive(Deserialize)]
pub(crate) struct Tail {
    stream: String,
    #[serde(default)]
    symbols: Option<Vec<String>>,
    #[serde(default)]
    types: Option<Vec<String>>,
    #[serde(default)]
    last: u64,
}

pub(crate) struct TailChannel {
    stream: Stream,
    wanted: CursorBuilder,
    cursor: Cursor,
    kept: VecDeque<Kept>,
    /// Messages of the stream before the cursor, of all symbols and types.
    reached: u64,
}

/// A message in the frame.
#[derive(Default)]
struct Kept {
    time: i64,
    symbol: String,
    type_id: u16,
    type_name: String,
    sequence: u64,
    space: u32,
    body: Vec<u8>,
}

impl Kept {
    /// Becomes another message, in the memory of this one.
    fn take(&mut self, message: &Message<'_>) {
        (self.time, self.type_id) = (message.time().nanos(), message.type_id());
        (self.sequence, self.space) = (message.sequence(), message.space());
        self.symbol.clear();
        self.symbol.push_str(message.symbol());
        self.type_name.clear();
        self.type_name.push_str(message.type_name());
        self.body.clear();
        self.body.extend_from_slice(message.body());
    }
}

impl TailChannel {
    /// Begins with the last messages.
    ///
    /// # Errors
    /// 404, 403, the engine's.
    pub fn open(caller: &Caller, tail: Tail) -> Result<Self, Failure> {
        let stream = caller.stream(&tail.stream, May::Read)?;
        let failure = |error| caller.failure(error);
        let mut wanted = stream.cursor();
        if let Some(symbols) = tail.symbols.filter(|symbols| !symbols.is_empty()) {
            wanted = wanted.symbols(symbols);
        }
        if let Some(types) = tail.types.filter(|types| !types.is_empty()) {
            wanted = wanted.types(types);
        }
        let cursor = wanted.clone().last(tail.last.min(KEPT as u64)).live().open().map_err(failure)?;
        let reached = appended(&stream).map_err(failure)?;
        Ok(Self { stream, wanted, cursor, kept: VecDeque::new(), reached })
    }

    /// Reads what is new, and returns how many messages were left out.
    fn read(&mut self) -> Result<u64, Error> {
        let (began, mut count, mut skipped) = (Instant::now(), 0u64, 0u64);
        loop {
            let message = match self.cursor.next() {
                Ok(Some(message)) => message,
                Ok(None) => return Ok(skipped),
                // Damage, or messages of a transient stream that are gone: the cursor continues after them.
                Err(Error::Unreadable(_)) => continue,
                Err(error) => return Err(error),
            };
            let mut kept = match self.kept.len() {
                KEPT => self.kept.pop_front().inspect(|_| skipped += 1).unwrap_or_default(),
                _ => Kept::default(),
            };
            kept.take(&message);
            self.kept.push_back(kept);
            count += 1;
            if count.is_multiple_of(STEP) && began.elapsed() > LOOK_MAX {
                return Ok(skipped + self.jump(count)?);
            }
        }
    }

    /// Continues with the newest messages; returns how many of the stream's were passed over, at least.
    fn jump(&mut self, read: u64) -> Result<u64, Error> {
        let end = appended(&self.stream)?;
        let passed = end.saturating_sub(self.reached).saturating_sub(read);
        self.cursor = self.wanted.clone().skip_history().open()?;
        self.reached = end;
        Ok(passed)
    }
}

/// Messages that were ever appended to a stream.
fn appended(stream: &Stream) -> Result<u64, Error> {
    Ok(stream.next_sequences()?.iter().sum())
}

impl Channel for TailChannel {
    fn name(&self) -> &'static str {
        "tail"
    }

    fn look(&mut self, user: &User, out: &mut Vec<u8>) -> Result<bool, Failure> {
        check_read(user, self.stream.name())?;
        let failure = |error| Failure::of(user, error);
        let mut skipped = self.read().map_err(failure)?;
        if skipped > 0 && self.kept.len() > KEPT_FAST {
            let more = self.kept.len() - KEPT_FAST;
            self.kept.drain(..more);
            skipped += more as u64;
        }
        if self.kept.is_empty() && skipped == 0 {
            return Ok(false);
        }
        self.reached = appended(&self.stream).map_err(failure)?;
        out.extend_from_slice(b"{\"messages\":[");
        let mut is_first = true;
        for kept in self.kept.drain(..) {
            // A damaged message is left out, as a reader would.
            let Ok(record) = self.stream.layouts().view(kept.type_id, &kept.body) else { continue };
            if !std::mem::take(&mut is_first) {
                out.push(b',');
            }
            let head = Head {
                time: Timestamp(kept.time),
                symbol: &kept.symbol,
                type_name: &kept.type_name,
                sequence: kept.sequence,
                space: kept.space,
            };
            head.write(record, out);
        }
        out.extend_from_slice(format!("],\"skipped\":{skipped}}}").as_bytes());
        Ok(true)
    }
}
