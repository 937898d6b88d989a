//! A query that runs on the server: its rows come as fast as they are taken.
//!
//! Always true: the server's credit, the bytes in `received` and `owed` add up to [`WINDOW_BYTES`], except for a frame that is larger
//! than the remaining credit. A query is not resumed after a lost connection: its rows would be those of another moment.

use crate::answer::Answer;
use crate::connection::{Connection, Lost};
use crate::notifier::{Notifier, locked};
use crate::receiver::Receiver;
use crate::reconnector::Reconnector;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tapedb_codes::{command, error, outcome};
use tapedb_engine::interrupt::is_interrupted;
use tapedb_engine::{Command, ConnectionError, Error, Outcome, Query, QueryRows, QueryStep};
use tapedb_wire::{Rest, ToClient, ToServer, WireError};

/// Bytes of rows that the server may send before they are taken.
const WINDOW_BYTES: u64 = 4 << 20;

/// A running query, until it is dropped.
#[derive(Debug)]
pub(crate) struct RemoteQuery {
    rows: Arc<ReceivedRows>,
    connection: Arc<Connection>,
    channel: u32,
    place: String,
    /// Stays open as long as the query.
    _reconnector: Arc<Reconnector>,
}

/// What has arrived of a query.
#[derive(Debug, Default)]
struct ReceivedRows {
    state: Mutex<State>,
    arrived: Notifier,
}

#[derive(Debug, Default)]
struct State {
    received: VecDeque<Vec<u8>>,
    /// Bytes that were taken and not yet returned as credit.
    owed: u64,
    end: Option<End>,
}

/// How a query has ended.
#[derive(Debug)]
enum End {
    Whole,
    Failed(Error),
    Lost,
}

impl RemoteQuery {
    /// Begins a query; `None`: the server runs no queries.
    ///
    /// # Errors
    /// As [`Reconnector::connection`]; [`ConnectionError::Disconnected`].
    pub fn begin(reconnector: Arc<Reconnector>, query: &Query) -> Result<Option<Self>, Error> {
        let place = reconnector.address().to_string();
        let connection = reconnector.connection()?;
        let disconnected = |Lost(why)| disconnected(&place, why);
        if !has_queries(&connection).map_err(|error| error.unwrap_or_else(disconnected))? {
            return Ok(None);
        }
        let rows = Arc::new(ReceivedRows::default());
        let message = ToServer::Query {
            credit: WINDOW_BYTES,
            ms_max: query.time_limit.map_or(0, |limit| (limit.as_millis() as u64).max(1)),
            rows_max: query.rows_max.map_or(0, |most| most.max(1)),
            decimals: &query.decimals,
            text: &query.text,
            parameters: Rest(&query.parameters),
        };
        let channel = connection.open_channel(&message, rows.clone()).map_err(disconnected)?;
        Ok(Some(Self { rows, connection, channel, place, _reconnector: reconnector }))
    }
}

/// Whether the server of a connection runs queries. It is asked once: a server that is too old for them must not get one.
fn has_queries(connection: &Connection) -> Result<bool, AskError> {
    if let Some(known) = connection.has_queries() {
        return Ok(known);
    }
    let asked = ToServer::Command { command: command::to_coded(&Command::QueryLanguage) };
    let pending = connection.ask(&asked, Vec::new()).map_err(AskError::Lost)?;
    let has_queries = match connection.answer(&pending).map_err(AskError::Lost)? {
        Answer::Done(coded) => {
            matches!(outcome::from_coded(&coded), Ok(Outcome::Text(Some(language))) if language == "sql")
        }
        // A server that does not know the command.
        Answer::Failed(Error::Connection(ConnectionError::Protocol { .. })) => false,
        Answer::Failed(error) => return Err(AskError::Failed(error)),
        _ => false,
    };
    connection.note_queries(has_queries);
    Ok(has_queries)
}

/// Why a server could not be asked.
enum AskError {
    Lost(Lost),
    Failed(Error),
}

impl AskError {
    fn unwrap_or_else(self, of_lost: impl FnOnce(Lost) -> Error) -> Error {
        match self {
            Self::Lost(lost) => of_lost(lost),
            Self::Failed(error) => error,
        }
    }
}

fn disconnected(place: &str, why: String) -> Error {
    Error::Connection(ConnectionError::Disconnected { place: place.into(), why })
}

impl QueryRows for RemoteQuery {
    fn next(&mut self, timeout: Duration, out: &mut Vec<u8>) -> Result<QueryStep, Error> {
        out.clear();
        let is_there = || {
            let state = locked(&self.rows.state);
            !state.received.is_empty() || state.end.is_some()
        };
        self.connection.wait(&self.rows.arrived, &is_there, Instant::now().checked_add(timeout));
        let mut state = locked(&self.rows.state);
        if let Some(bytes) = state.received.pop_front() {
            state.owed += bytes.len() as u64;
            *out = bytes;
            let is_much = state.owed >= WINDOW_BYTES / 4 && state.end.is_none();
            let owed = if is_much { std::mem::take(&mut state.owed) } else { 0 };
            drop(state);
            if owed > 0 {
                self.connection.post(self.channel, &ToServer::Credit { bytes: owed });
            }
            return Ok(QueryStep::Bytes);
        }
        match state.end.take() {
            Some(End::Whole) => {
                state.end = Some(End::Whole);
                Ok(QueryStep::End)
            }
            Some(End::Failed(error)) => {
                state.end = Some(End::Whole);
                Err(error)
            }
            Some(End::Lost) => {
                state.end = Some(End::Whole);
                let Lost(why) = self.connection.lost();
                Err(disconnected(&self.place, why))
            }
            None if is_interrupted() => Err(Error::Interrupted),
            None => Ok(QueryStep::Waiting),
        }
    }
}

impl Drop for RemoteQuery {
    fn drop(&mut self) {
        let is_running = locked(&self.rows.state).end.is_none();
        if is_running && !self.connection.is_broken() {
            self.connection.post(self.channel, &ToServer::Close {});
        }
    }
}

impl Receiver for ReceivedRows {
    fn receive(&self, message: ToClient<'_>) -> Result<(), WireError> {
        let mut state = locked(&self.state);
        match message {
            ToClient::Rows { bytes } => state.received.push_back(bytes.0.into()),
            ToClient::Failed { failure } => state.end = Some(End::Failed(error::from_coded(&failure))),
            _ => state.end = Some(End::Whole),
        }
        drop(state);
        self.arrived.notify_all();
        Ok(())
    }

    fn lost(&self) {
        locked(&self.state).end.get_or_insert(End::Lost);
        self.arrived.notify_all();
    }

    fn is_urgent(&self) -> bool {
        true
    }
}
