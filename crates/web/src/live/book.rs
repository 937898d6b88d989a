//! The book of a symbol, as it changes.

use crate::caller::Caller;
use crate::failure::Failure;
use crate::live::channel::{Channel, check_read};
use crate::market::books;
use crate::state::Shared;
use serde_json::to_writer;
use std::time::{Duration, Instant};
use tapedb_access::{May, User};
use tapedb_market_streams::LiveBook;

/// The longest look.
const LOOK_MAX: Duration = Duration::from_millis(100);

pub(crate) struct BookChannel {
    stream: String,
    book: LiveBook,
    depth: usize,
    is_new: bool,
}

impl BookChannel {
    /// The book now.
    ///
    /// # Errors
    /// 404, 403, the engine's.
    pub fn open(
        state: &Shared,
        caller: &Caller,
        stream: &str,
        symbol: &str,
        depth: usize,
    ) -> Result<Self, Failure> {
        let opened = caller.stream(stream, May::Read)?;
        let book = LiveBook::open(state.server.database(), &opened, symbol);
        let book = book.map_err(|error| Failure::of_book(&caller.user, error))?;
        Ok(Self { stream: stream.into(), book, depth, is_new: true })
    }
}

impl Channel for BookChannel {
    fn name(&self) -> &'static str {
        "book"
    }

    fn look(&mut self, user: &User, out: &mut Vec<u8>) -> Result<bool, Failure> {
        check_read(user, &self.stream)?;
        let began = Instant::now();
        while began.elapsed() < LOOK_MAX
            && self.book.advance().map_err(|error| Failure::of_book(user, error))?
        {
            self.is_new = true;
        }
        if !std::mem::take(&mut self.is_new) {
            return Ok(false);
        }
        let found = self.book.book();
        // A vector takes every write.
        let _ = to_writer(out, &books(&found.books, found.time, self.depth));
        Ok(true)
    }
}
