//! The list of streams, and the status: states, of which only the newest counts.

use crate::api::streams::{Row, rows};
use crate::failure::Failure;
use crate::live::channel::Channel;
use crate::state::Shared;
use serde_json::{json, to_writer};
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};
use tapedb_access::User;

/// Time between two states.
const INTERVAL: Duration = Duration::from_secs(1);
/// A state that takes long is made less often: so many times longer than it takes.
const PAUSE: u32 = 20;

/// The rows of streams that have changed.
pub(crate) struct StreamsChannel {
    state: Shared,
    known: Option<HashMap<String, Row>>,
    due: Instant,
}

impl StreamsChannel {
    pub fn new(state: &Shared) -> Self {
        Self { state: state.clone(), known: None, due: Instant::now() }
    }
}

impl Channel for StreamsChannel {
    fn name(&self) -> &'static str {
        "streams"
    }

    fn is_due(&self) -> bool {
        Instant::now() >= self.due
    }

    fn look(&mut self, user: &User, out: &mut Vec<u8>) -> Result<bool, Failure> {
        let began = Instant::now();
        let rows = rows(&self.state, user).map_err(|error| Failure::of(user, error))?;
        self.due = Instant::now() + INTERVAL.max(began.elapsed() * PAUSE);
        let is_first = self.known.is_none();
        let known = self.known.take().unwrap_or_default();
        let changed: Vec<&Row> = rows.iter().filter(|row| known.get(&row.name) != Some(*row)).collect();
        let there: HashSet<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        let gone: Vec<&String> = known.keys().filter(|name| !there.contains(name.as_str())).collect();
        let is_new = is_first || !changed.is_empty() || !gone.is_empty();
        if is_new {
            // A vector takes every write.
            let _ = to_writer(&mut *out, &json!({ "streams": changed, "gone": gone }));
        }
        self.known = Some(rows.into_iter().map(|row| (row.name.clone(), row)).collect());
        Ok(is_new)
    }
}

/// The status of the server.
pub(crate) struct StatusChannel {
    state: Shared,
    due: Instant,
}

impl StatusChannel {
    pub fn new(state: &Shared) -> Self {
        Self { state: state.clone(), due: Instant::now() }
    }
}

impl Channel for StatusChannel {
    fn name(&self) -> &'static str {
        "status"
    }

    fn is_due(&self) -> bool {
        Instant::now() >= self.due
    }

    fn look(&mut self, user: &User, out: &mut Vec<u8>) -> Result<bool, Failure> {
        let began = Instant::now();
        out.extend_from_slice(self.state.server.status(Some(user)).trim_end().as_bytes());
        self.due = Instant::now() + INTERVAL.max(began.elapsed() * PAUSE);
        Ok(true)
    }
}
