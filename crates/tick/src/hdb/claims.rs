//! Claims on days: one process at a time hands a day over, among all processes and servers, though it may be killed at any moment.
//!
//! A claim is a message of the stream `PLANT/handovers`. Messages of a stream have one order for all readers, so all of them
//! determine the same holder. A claimant that claims a day without a holder holds it, and writes heartbeats while it works. It
//! releases the day, or writes nothing for [`SILENCE_MAX`] by the clock of another claimant, which then takes over. That one
//! names the last message of the holder: if the holder has written since, nothing is taken over.
//!
//! This prevents two processes from writing the same rows. Correctness does not depend on it: a day is compared before
//! `PLANT/days` has it.

use crate::clock::now;
use crate::date::Date;
use crate::error::TickError;
use crate::names::{HANDOVERS, stream_name};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use tapedb_codec::{Record, SchemaBuilder};
use tapedb_engine::{Database, Error, NotFound, Stream, StreamOptions};

/// A holder that writes nothing for so long is taken for dead.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(10);
/// How often a holder writes a heartbeat.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(2);

// The doc comments are part of the schema on the disk, so they do not change.
/// A day is claimed, still held, or let go.
#[derive(Record, Debug, Clone, Default, PartialEq)]
#[record(message)]
struct Claim {
    /// The day's date, in days since 1970.
    date: i32,
    /// Who: a number made up when it was started.
    owner: u64,
    /// It takes over from the holder whose last message has this sequence number.
    after: Option<u64>,
    /// It lets go.
    ends: bool,
}

/// A process that claims days, while it runs.
#[derive(Debug)]
pub(crate) struct Claimant {
    owner: u64,
    /// The last state of another holder, and since when it is unchanged.
    other: Option<(Date, Holder, Instant)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Holder {
    owner: u64,
    /// Sequence number of its last message.
    last: u64,
}

impl Claimant {
    pub fn new() -> Self {
        use std::hash::{BuildHasher, RandomState};
        Self { owner: RandomState::new().hash_one(std::process::id()), other: None }
    }

    /// Claims a day; `false`: another holds it.
    ///
    /// # Errors
    /// When the stream cannot be written or read.
    pub fn claim(&mut self, stream: &Stream, date: Date) -> Result<bool, TickError> {
        let after = match holder(stream, date)? {
            Some(holder) if holder.owner != self.owner => match self.silent_since(date, holder) {
                Some(silence) if silence >= SILENCE_MAX => Some(holder.last),
                _ => return Ok(false),
            },
            _ => None,
        };
        self.write(stream, date, after, false)?;
        self.holds(stream, date)
    }

    /// Whether it still holds a day.
    ///
    /// # Errors
    /// When the stream cannot be read.
    pub fn holds(&self, stream: &Stream, date: Date) -> Result<bool, TickError> {
        Ok(holder(stream, date)?.is_some_and(|holder| holder.owner == self.owner))
    }

    /// Writes that it still holds a day.
    ///
    /// # Errors
    /// When the stream cannot be written.
    pub fn write_heartbeat(&self, stream: &Stream, date: Date) -> Result<(), TickError> {
        self.write(stream, date, None, false)
    }

    /// Releases a day.
    ///
    /// # Errors
    /// When the stream cannot be written.
    pub fn release(&self, stream: &Stream, date: Date) -> Result<(), TickError> {
        self.write(stream, date, None, true)
    }

    fn write(&self, stream: &Stream, date: Date, after: Option<u64>, ends: bool) -> Result<(), TickError> {
        let mut loader = stream.loader()?;
        let claim = Claim { date: date.0, owner: self.owner, after, ends };
        loader.append(&date.to_string(), now(), &claim)?;
        loader.close()?;
        Ok(())
    }

    fn silent_since(&mut self, date: Date, holder: Holder) -> Option<Duration> {
        match self.other {
            Some((of, seen, since)) if (of, seen) == (date, holder) => Some(since.elapsed()),
            _ => {
                self.other = Some((date, holder, Instant::now()));
                None
            }
        }
    }
}

/// The stream of claims of a plant, which is created if necessary.
///
/// # Errors
/// When it cannot be opened.
pub(super) fn open(db: &Database, plant: &str, options: StreamOptions) -> Result<Stream, TickError> {
    let schema = SchemaBuilder::new().with::<Claim>().finish();
    Ok(db.open_or_create_stream(&stream_name(plant, HANDOVERS), schema, options)?)
}

/// The dates that have ever been claimed.
///
/// # Errors
/// When the stream cannot be read.
pub(super) fn dates(db: &Database, plant: &str) -> Result<BTreeSet<Date>, TickError> {
    let stream = match db.stream(&stream_name(plant, HANDOVERS)) {
        Err(Error::NotFound(NotFound::Stream { .. })) => return Ok(BTreeSet::new()),
        found => found?,
    };
    let mut dates = BTreeSet::new();
    let mut cursor = stream.cursor().from_sequence(0).open()?;
    while let Some(message) = cursor.next()? {
        dates.insert(Date(message.decode::<Claim>()?.date));
    }
    Ok(dates)
}

/// The holder of a day, the same for all readers of the claims.
fn holder(stream: &Stream, date: Date) -> Result<Option<Holder>, TickError> {
    // Of a remote stream, all messages so far.
    stream.stats()?;
    let mut cursor = stream.cursor().from_sequence(0).symbols([date.to_string()]).open()?;
    let mut holder: Option<Holder> = None;
    while let Some(message) = cursor.next()? {
        let claim: Claim = message.decode()?;
        let next = Holder { owner: claim.owner, last: message.sequence() };
        holder = match holder {
            Some(held) if held.owner == claim.owner => (!claim.ends).then_some(next),
            Some(held) if claim.after == Some(held.last) => Some(next),
            Some(held) => Some(held),
            None => (!claim.ends).then_some(next),
        };
    }
    Ok(holder)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATE: Date = Date(20_778);

    #[test]
    fn one_holds_a_day_until_it_releases_it_or_is_silent() {
        let folder = tempfile::tempdir().expect("a folder");
        let db = Database::open(folder.path().join("db")).expect("a database");
        let stream = open(&db, "tp", StreamOptions::default()).expect("a stream");
        let (mut one, mut two) = (Claimant::new(), Claimant::new());
        assert!(one.claim(&stream, DATE).expect("claimed") && one.claim(&stream, DATE).expect("claimed"));
        assert!(!two.claim(&stream, DATE).expect("read"));
        assert!(two.claim(&stream, DATE.next()).expect("claimed"), "another day");
        one.release(&stream, DATE).expect("released");
        assert!(two.claim(&stream, DATE).expect("claimed") && !one.claim(&stream, DATE).expect("read"));
        // A message ends the silence, which the other claimant measures.
        let long_ago = Instant::now().checked_sub(SILENCE_MAX).expect("a clock that runs for long");
        let is_silent = |one: &mut Claimant| {
            let seen = one.other.as_mut().expect("it has read the claims");
            seen.2 = long_ago;
        };
        is_silent(&mut one);
        two.write_heartbeat(&stream, DATE).expect("written");
        assert!(!one.claim(&stream, DATE).expect("read"));
        is_silent(&mut one);
        assert!(one.claim(&stream, DATE).expect("taken over") && !two.holds(&stream, DATE).expect("read"));
        // A holder that continues late holds nothing, and cannot take over from an older state.
        two.write_heartbeat(&stream, DATE).expect("written");
        two.write(&stream, DATE, Some(0), false).expect("written");
        assert!(one.holds(&stream, DATE).expect("read") && !two.holds(&stream, DATE).expect("read"));
        assert_eq!(dates(&db, "tp").expect("read"), BTreeSet::from([DATE, DATE.next()]));
    }
}
