//! Who hands a day over: one at a time, over processes and servers, though it may be killed at any moment.
//!
//! A claim is a message of the stream `PLANT/handovers`. Messages of a stream have one order for everybody, so everybody comes to
//! the same holder: whoever claims a day that has none holds it; the holder says again and again that it is there; it lets go, or
//! says nothing for [`SILENCE_MAX`] by the clock of another, who then takes over. That other names the last message of the
//! holder: if the holder has said something meanwhile, nothing is taken over.
//!
//! It keeps two from writing the same rows. That a day is right does not hang on it: a day is compared before `PLANT/days` has it.

use super::HANDOVERS;
use crate::date::Date;
use crate::error::TickError;
use crate::plan::stream_name;
use crate::plant::now;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use tapedb_codec::{Record, SchemaBuilder};
use tapedb_engine::{Database, Error, Stream, StreamOptions};

/// A holder that says nothing for so long is gone.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(10);
/// How often a holder says that it is there.
pub(super) const BEAT: Duration = Duration::from_secs(2);

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

/// Who claims days, for as long as it runs.
#[derive(Debug)]
pub(crate) struct Claimant {
    owner: u64,
    /// What was seen of another holder last, and since when it is so.
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
    /// What keeps the stream from being written or read.
    pub fn claim(&mut self, stream: &Stream, date: Date) -> Result<bool, TickError> {
        let after = match holder(stream, date)? {
            Some(holder) if holder.owner != self.owner => match self.silent_since(date, holder) {
                Some(silence) if silence >= SILENCE_MAX => Some(holder.last),
                _ => return Ok(false),
            },
            _ => None,
        };
        self.say(stream, date, after, false)?;
        self.holds(stream, date)
    }

    /// Whether it still holds a day.
    ///
    /// # Errors
    /// What keeps the stream from being read.
    pub fn holds(&self, stream: &Stream, date: Date) -> Result<bool, TickError> {
        Ok(holder(stream, date)?.is_some_and(|holder| holder.owner == self.owner))
    }

    /// Says that it still holds a day.
    ///
    /// # Errors
    /// What keeps the stream from being written.
    pub fn beat(&self, stream: &Stream, date: Date) -> Result<(), TickError> {
        self.say(stream, date, None, false)
    }

    /// Lets go of a day.
    ///
    /// # Errors
    /// What keeps the stream from being written.
    pub fn let_go(&self, stream: &Stream, date: Date) -> Result<(), TickError> {
        self.say(stream, date, None, true)
    }

    fn say(&self, stream: &Stream, date: Date, after: Option<u64>, ends: bool) -> Result<(), TickError> {
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

/// The stream of claims of a plant, which is made if need be.
///
/// # Errors
/// What keeps it from being opened.
pub(super) fn open(db: &Database, plant: &str, options: StreamOptions) -> Result<Stream, TickError> {
    let schema = SchemaBuilder::new().with::<Claim>().finish();
    Ok(db.open_or_create_stream(&stream_name(plant, HANDOVERS), schema, options)?)
}

/// The dates that have ever been claimed.
///
/// # Errors
/// What keeps the stream from being read.
pub(super) fn dates(db: &Database, plant: &str) -> Result<BTreeSet<Date>, TickError> {
    let stream = match db.stream(&stream_name(plant, HANDOVERS)) {
        Err(Error::NoStream { .. }) => return Ok(BTreeSet::new()),
        found => found?,
    };
    let mut dates = BTreeSet::new();
    let mut cursor = stream.cursor().from_sequence(0).open()?;
    while let Some(message) = cursor.next()? {
        dates.insert(Date(message.decode::<Claim>()?.date));
    }
    Ok(dates)
}

/// Who holds a day, as all who read the claims in their order see it.
fn holder(stream: &Stream, date: Date) -> Result<Option<Holder>, TickError> {
    // Of a stream elsewhere, what has been said by now.
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
    fn one_holds_a_day_until_it_lets_go_or_is_silent() {
        let folder = tempfile::tempdir().expect("a folder");
        let db = Database::open(folder.path().join("db")).expect("a database");
        let stream = open(&db, "tp", StreamOptions::default()).expect("a stream");
        let (mut one, mut two) = (Claimant::new(), Claimant::new());
        assert!(one.claim(&stream, DATE).expect("claimed") && one.claim(&stream, DATE).expect("claimed"));
        assert!(!two.claim(&stream, DATE).expect("looked"));
        assert!(two.claim(&stream, DATE.next()).expect("claimed"), "another day");
        one.let_go(&stream, DATE).expect("let go");
        assert!(two.claim(&stream, DATE).expect("claimed") && !one.claim(&stream, DATE).expect("looked"));
        // Silence is over when something is said, and is what the other sees of it.
        let long_ago = Instant::now().checked_sub(SILENCE_MAX).expect("a clock that runs for long");
        let is_silent = |one: &mut Claimant| {
            let seen = one.other.as_mut().expect("it has looked");
            seen.2 = long_ago;
        };
        is_silent(&mut one);
        two.beat(&stream, DATE).expect("said");
        assert!(!one.claim(&stream, DATE).expect("looked"));
        is_silent(&mut one);
        assert!(one.claim(&stream, DATE).expect("taken over") && !two.holds(&stream, DATE).expect("looked"));
        // Whoever wakes up holds nothing, and cannot take over from what it saw before.
        two.beat(&stream, DATE).expect("said");
        two.say(&stream, DATE, Some(0), false).expect("said");
        assert!(one.holds(&stream, DATE).expect("looked") && !two.holds(&stream, DATE).expect("looked"));
        assert_eq!(dates(&db, "tp").expect("read"), BTreeSet::from([DATE, DATE.next()]));
    }
}
