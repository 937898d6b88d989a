//! What an import or an export reports while it runs.

/// What has been taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Messages that were stored, or sent.
    pub messages: u64,
    /// Bytes of their values.
    pub bytes: u64,
    /// Records that are no messages.
    pub bad: u64,
    /// Offsets that the broker had removed before they were read.
    pub lost: u64,
}

/// Receives what happens while an import or an export runs.
pub trait Observer {
    /// Whether it is to end: it stores what it has and returns [`Error::Interrupted`](crate::Error::Interrupted).
    fn is_interrupted(&self) -> bool {
        false
    }
    /// Something that a person should see: a broker is away, a record was skipped.
    fn warn(&mut self, what: &str) {
        let _ = what;
    }
    /// How far it is; called often. `total`: how many records there are to read, as far as it is known.
    fn progress(&mut self, counts: &Counts, total: u64) {
        let _ = (counts, total);
    }
}

/// Reports nothing, ends by itself.
#[derive(Debug, Default, Clone, Copy)]
pub struct Unwatched;

impl Observer for Unwatched {}

/// Where a partition of a topic, or a JetStream stream, stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneStatus {
    /// Topic and partition, or the JetStream stream.
    pub name: String,
    /// Offset of the first record that is not stored; `None`: none was imported yet.
    pub next: Option<u64>,
    /// Offset of the oldest record that the broker has.
    pub first: u64,
    /// Offset after the newest one.
    pub end: u64,
}

impl LaneStatus {
    /// Offsets that are still to be read. Not each of them need be a record.
    pub fn waiting(&self) -> u64 {
        self.end.saturating_sub(self.next.unwrap_or(0).max(self.first))
    }

    /// Offsets that the broker has removed before they were read.
    pub fn lost(&self) -> u64 {
        self.next.map_or(0, |next| self.first.saturating_sub(next))
    }
}
