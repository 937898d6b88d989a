//! A watch: passes pushed batches to the engine, and returns credit as they are read.

use crate::connection::Connection;
use crate::notifier::{Notifier, locked};
use crate::receiver::Receiver;
use crate::reconnector::{Reconnector, Resumable};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};
use tapedb_codec::batch::BatchHeader;
use tapedb_engine::{Error, Grown, NotFound, Picked, Stale, WINDOW_BYTES, Wanted, Watcher, Watching};
use tapedb_wire::{ToClient, ToServer, WireError};

/// A watch, until it is dropped.
#[derive(Debug)]
pub(crate) struct RemoteWatch {
    watch: Arc<Watch>,
    /// Stays open as long as the watch.
    reconnector: Arc<Reconnector>,
}

/// Always true: the server's credit, the bytes in `unread` and `owed` add up to [`WINDOW_BYTES`], except for a batch
/// that is larger than the remaining credit.
struct Watch {
    stream_id: u64,
    /// The messages that are wanted; `None`: all.
    wanted: Option<Wanted>,
    sink: Weak<dyn Watcher>,
    /// Counts how often it has begun. Held while a push is passed on and while the watch begins again: of a channel before, whose
    /// connection another thread may still read, nothing is passed on.
    attempt: Mutex<u64>,
    state: Mutex<State>,
    begun: Notifier,
    /// Notified of pushes.
    pushed: Notifier,
}

struct State {
    connection: Option<(Weak<Connection>, u32)>,
    /// Sequence number of the next message to be pushed, for each space.
    from: Vec<u64>,
    /// Messages below this sequence number have been read, for each space.
    consumed: Vec<u64>,
    /// Unread pushes, for each space: the sequence number after the last message, and bytes.
    unread: Vec<VecDeque<(u64, u64)>>,
    /// Bytes that were read and not yet returned as credit.
    owed: u64,
    /// The answer to the first request.
    begun: Option<Result<(), Error>>,
    /// The watch has ended.
    is_over: bool,
    /// The server has ended it, but the stream exists: it begins again after the next read.
    has_lapsed: bool,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("stream_id", &self.stream_id).finish_non_exhaustive()
    }
}

impl RemoteWatch {
    /// Begins a watch.
    ///
    /// # Errors
    /// Errors of the server; as [`Reconnector::connection`].
    pub fn begin(
        reconnector: Arc<Reconnector>,
        stream_id: u64,
        from: &[u64],
        wanted: Option<Wanted>,
        sink: Weak<dyn Watcher>,
    ) -> Result<Self, Error> {
        let state = State {
            connection: None,
            from: from.into(),
            consumed: from.into(),
            unread: vec![VecDeque::new(); from.len()],
            owed: 0,
            begun: None,
            is_over: false,
            has_lapsed: false,
        };
        let watch = Arc::new(Watch {
            stream_id,
            wanted,
            sink,
            attempt: Mutex::default(),
            state: Mutex::new(state),
            begun: Notifier::default(),
            pushed: Notifier::default(),
        });
        let weak = Arc::downgrade(&watch);
        reconnector.begin(weak)?;
        reconnector.wait(&watch.begun, &|| locked(&watch.state).begun.is_some())?;
        let begun = locked(&watch.state).begun.replace(Ok(()));
        begun.unwrap_or(Ok(())).map(|()| Self { watch, reconnector })
    }
}

impl Watching for RemoteWatch {
    fn consumed(&self, space: u32, sequence: u64) {
        let mut state = locked(&self.watch.state);
        state.note_consumed(space as usize, sequence);
        if std::mem::take(&mut state.has_lapsed) {
            let connection = state.connection.as_ref().and_then(|(connection, _)| connection.upgrade());
            drop(state);
            return connection.iter().for_each(|connection| self.watch.clone().resume(connection));
        }
        drop(state);
        self.watch.return_credit();
    }

    fn connection(&self) -> u64 {
        self.reconnector.number()
    }

    fn wait(&self, is_there: &dyn Fn() -> bool, timeout: Duration) -> bool {
        let connection =
            locked(&self.watch.state).connection.as_ref().and_then(|(connection, _)| connection.upgrade());
        let Some(connection) = connection.filter(|connection| !connection.is_broken()) else { return false };
        connection.wait(&self.watch.pushed, is_there, Instant::now().checked_add(timeout));
        true
    }
}

impl Drop for RemoteWatch {
    fn drop(&mut self) {
        self.watch.close();
    }
}

impl State {
    /// Messages of a space below `sequence` have been read: their pushes count as read, those that have not arrived too.
    fn note_consumed(&mut self, space: usize, sequence: u64) {
        let Some(consumed) = self.consumed.get_mut(space) else { return };
        *consumed = (*consumed).max(sequence);
        let unread = &mut self.unread[space];
        while unread.front().is_some_and(|(end, _)| *end <= *consumed) {
            self.owed += unread.pop_front().map_or(0, |(_, bytes)| bytes);
        }
    }

    /// A push has arrived that ends before `end`. A reader that is ahead of the pushes has read it already, from files, and
    /// reports nothing below its position again.
    fn note_push(&mut self, space: usize, end: u64, bytes: u64) {
        self.unread[space].push_back((end, bytes));
        self.note_consumed(space, 0);
    }
}

impl Watch {
    /// Returns credit, if there is enough of it.
    fn return_credit(&self) {
        let mut state = locked(&self.state);
        // Less than half: the last read is reported late, and a large batch needs half of the window.
        if state.owed < WINDOW_BYTES as u64 / 4 {
            return;
        }
        // Without a connection it stays owed: pushes may arrive before `resume` has stored the new one.
        let connection = state
            .connection
            .as_ref()
            .and_then(|(connection, channel)| Some((connection.upgrade()?, *channel)));
        let Some((connection, channel)) = connection else { return };
        let bytes = std::mem::take(&mut state.owed);
        drop(state);
        connection.post(channel, &ToServer::Credit { bytes });
    }

    fn close(&self) {
        let mut state = locked(&self.state);
        if std::mem::replace(&mut state.is_over, true) {
            return;
        }
        let connection =
            state.connection.take().and_then(|(connection, channel)| Some((connection.upgrade()?, channel)));
        drop(state);
        if let Some((connection, channel)) = connection.filter(|(connection, _)| !connection.is_broken()) {
            connection.post(channel, &ToServer::Close {});
        }
    }

    /// Stores the answer to the first request, and wakes the thread that waits for it.
    fn begin(&self, begun: Result<(), Error>) {
        let mut state = locked(&self.state);
        state.is_over |= begun.is_err();
        if state.begun.is_none() {
            state.begun = Some(begun);
            drop(state);
            self.begun.notify_all();
        }
    }

    /// Records received batches; returns `false` if they are not valid.
    fn note(&self, space: u32, first_sequence: u64, batches: &[u8]) -> bool {
        let Some(next_sequence) = end_of(batches) else { return false };
        self.note_range(space, first_sequence..next_sequence, batches.len())
    }

    /// Records a push of a range of sequence numbers; returns `false` if it is not valid.
    fn note_range(&self, space: u32, sequences: Range<u64>, bytes: usize) -> bool {
        let state = &mut *locked(&self.state);
        let Some(from) = state.from.get_mut(space as usize) else { return false };
        *from = (*from).max(sequences.end);
        state.note_push(space as usize, sequences.end, bytes as u64);
        sequences.start < sequences.end
    }

    /// The server continues with a later message.
    fn skip_to(&self, space: usize, sequence: u64) -> bool {
        let mut state = locked(&self.state);
        match state.from.get_mut(space) {
            Some(from) if *from < sequence => {
                *from = sequence;
                true
            }
            _ => false,
        }
    }
}

/// A channel of a watch: each connection has another.
struct Channel {
    watch: Arc<Watch>,
    attempt: u64,
}

impl Receiver for Channel {
    fn receive(&self, message: ToClient<'_>) -> Result<(), WireError> {
        let current = locked(&self.watch.attempt);
        let taken = if *current == self.attempt { self.watch.take(message) } else { Ok(()) };
        drop(current);
        // Other cursors may wait while the reading one has its message.
        self.watch.pushed.notify_all();
        taken
    }

    fn lost(&self) {
        self.watch.begun.notify_all();
        self.watch.pushed.notify_all();
    }

    fn is_urgent(&self) -> bool {
        true
    }
}

impl Watch {
    fn take(&self, message: ToClient<'_>) -> Result<(), WireError> {
        let Some(sink) = self.sink.upgrade() else {
            self.close();
            return Ok(());
        };
        match message {
            ToClient::Watching { from } => {
                for (space, from) in from.into_iter().enumerate() {
                    if self.skip_to(space, from) {
                        sink.skipped(space as u32, from);
                    }
                }
                self.begin(Ok(()));
            }
            ToClient::Grown { space, file, offset, first_sequence, batches } => {
                if !self.note(space, first_sequence, batches.0) {
                    let what = "its batches are not valid, or the space is not watched";
                    return Err(WireError::Invalid { kind: 75, offset: 0, what });
                }
                sink.grown(space, Grown { file, offset, first_sequence }, batches.0);
                self.return_credit();
            }
            ToClient::Picked { space, first_sequence, next_sequence, rows } => {
                if self.wanted.is_none()
                    || !self.note_range(space, first_sequence..next_sequence, rows.0.len())
                {
                    let what = "it was not asked for, has no range, or the space is not watched";
                    return Err(WireError::Invalid { kind: 86, offset: 0, what });
                }
                sink.picked(space, Picked { first_sequence, next_sequence }, rows.0);
                self.return_credit();
            }
            ToClient::Symbols { from, names } => sink.symbols(from, &names),
            ToClient::Changed {} => sink.changed(),
            ToClient::Skipped { space, next_sequence } => {
                self.skip_to(space as usize, next_sequence);
                sink.skipped(space, next_sequence);
            }
            ToClient::Gone { renamed } => {
                locked(&self.state).is_over = true;
                sink.gone(renamed);
            }
            ToClient::Failed { failure } => {
                let error = tapedb_codes::error::from_coded(&failure);
                let has_begun = locked(&self.state).begun.is_some();
                match &error {
                    Error::Stale(Stale::Deleted { .. }) | Error::NotFound(NotFound::Stream { .. }) => {
                        sink.gone(None)
                    }
                    Error::Denied { what } if has_begun => sink.denied(what),
                    _ => {
                        locked(&self.state).has_lapsed = has_begun;
                        sink.lapsed();
                    }
                }
                let is_over = matches!(
                    error,
                    Error::Stale(Stale::Deleted { .. })
                        | Error::NotFound(NotFound::Stream { .. })
                        | Error::Denied { .. }
                );
                if !has_begun || is_over {
                    self.begin(Err(error));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

impl Resumable for Watch {
    fn resume(self: Arc<Self>, connection: &Arc<Connection>) {
        let mut current = locked(&self.attempt);
        *current += 1;
        let attempt = *current;
        let restart = self.sink.upgrade().and_then(|sink| sink.restart());
        let (from, is_first) = {
            let mut state = locked(&self.state);
            if state.is_over {
                return;
            }
            // Unread pushes need no credit any more: they stay in the engine's window as long as they fit.
            state.unread.iter_mut().for_each(VecDeque::clear);
            (state.owed, state.connection) = (0, None);
            if let Some(from) = restart {
                state.from = from;
            }
            (state.from.clone(), state.begun.is_none())
        };
        drop(current);
        let (stream_id, credit, lag_max) = (self.stream_id, WINDOW_BYTES as u64, 0);
        let watch = match &self.wanted {
            // A server that does not pick pushes everything.
            Some(Wanted { symbols, schema_version, types }) if connection.watches_some() => {
                ToServer::WatchSome {
                    stream_id,
                    credit,
                    lag_max,
                    from,
                    symbols: symbols.as_ref().map(|names| names.iter().map(String::as_str).collect()),
                    schema_version: *schema_version,
                    types: types.clone(),
                }
            }
            _ => ToServer::Watch { stream_id, credit, lag_max, from },
        };
        let receiver = Arc::new(Channel { watch: self.clone(), attempt });
        if let Ok(channel) = connection.open_channel(&watch, receiver) {
            let current = locked(&self.attempt);
            let mut state = locked(&self.state);
            // It may have begun again, on another connection.
            let is_current = *current == attempt;
            if is_current {
                state.connection = Some((Arc::downgrade(connection), channel));
            }
            let has_ended = state.is_over || !is_current;
            drop((state, current));
            match has_ended {
                // `close` had no channel to close.
                true => connection.post(channel, &ToServer::Close {}),
                false => self.return_credit(),
            }
        }
        if !is_first && let Some(sink) = self.sink.upgrade() {
            sink.resumed();
        }
    }

    fn refused(&self) {
        // The next call of the cursor gets the error.
        if let Some(sink) = self.sink.upgrade() {
            sink.changed();
        }
    }

    fn interrupted(&self) {
        if let Some(sink) = self.sink.upgrade() {
            sink.interrupted();
        }
    }
}

/// Sequence number after the last message of complete batches.
fn end_of(mut batches: &[u8]) -> Option<u64> {
    let mut end = None;
    while !batches.is_empty() {
        let header = BatchHeader::parse_stored(batches).ok()?;
        end = Some(header.next_sequence());
        batches = batches.get(header.batch_bytes()..)?;
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};
    use tapedb_wire::Rest;

    /// Counts what is passed on.
    #[derive(Debug, Default)]
    struct Counting(AtomicU64);

    impl Watcher for Counting {
        fn grown(&self, _: u32, _: Grown, _: &[u8]) {}

        fn picked(&self, _: u32, _: Picked, _: &[u8]) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }

        fn symbols(&self, _: u32, _: &[&str]) {}

        fn changed(&self) {}

        fn gone(&self, _: Option<&str>) {}

        fn denied(&self, _: &str) {}

        fn interrupted(&self) {}

        fn resumed(&self) {}
    }

    #[test]
    fn a_channel_of_a_lost_connection_passes_nothing_on() {
        let sink = Arc::new(Counting::default());
        let weak = Arc::downgrade(&sink);
        let state = State {
            connection: None,
            from: vec![0],
            consumed: vec![0],
            unread: vec![VecDeque::new()],
            owed: 0,
            begun: None,
            is_over: false,
            has_lapsed: false,
        };
        let watch = Arc::new(Watch {
            stream_id: 1,
            wanted: Some(Wanted::default()),
            sink: weak,
            attempt: Mutex::new(2),
            state: Mutex::new(state),
            begun: Notifier::default(),
            pushed: Notifier::default(),
        });
        let push = |attempt| {
            let channel = Channel { watch: watch.clone(), attempt };
            let rows = Rest(&[0; 9]);
            channel
                .receive(ToClient::Picked { space: 0, first_sequence: 0, next_sequence: 5, rows })
                .unwrap();
            (sink.0.load(Ordering::Relaxed), locked(&watch.state).from[0])
        };
        assert_eq!(push(1), (0, 0), "another thread still read the connection before");
        assert_eq!(push(2), (1, 5));
    }
}
