//! How far views are: a message for each step of a view, with the name of the view as its symbol.
//!
//! Always true: one process writes the stream, the one that writes the database, and in it one [`Steps`]. So what [`Steps`] has in
//! memory is what is in the stream, and no step is noted while it replaces all messages by the last ones of the views, in one
//! change. Definitions are in a stream of their own, which clients write too.

use super::registry::Entry;
use crate::error::Error;
use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};
use tapedb_codec::{Record, SchemaBuilder};
use tapedb_engine::{Database, Durability, Stream, StreamOptions};
use tapedb_schema::Timestamp;

/// Name of the stream.
const STREAM: &str = "tapedb.views.progress";

/// Messages beside the last ones of the views, before they are deleted. To replace them takes some syncs, and to note a step takes one.
pub(super) const OLD_MAX: u64 = 4096;

/// How far a view is.
#[derive(Record, Debug, Clone, Default, PartialEq)]
#[record(message)]
pub(super) struct Progress {
    /// When the view was defined: another view of the name has another time.
    pub defined: Timestamp,
    /// When the stream of its query was created.
    pub created: Timestamp,
    /// Sequence numbers of the first messages that it does not have yet, one for each space.
    pub ends: Vec<u64>,
    /// It has the rows of the buckets before this time; one of last values has the messages until this time.
    pub passed: Timestamp,
}

/// How far each view is, with the time when it was noted.
type Noted = BTreeMap<String, (Timestamp, Progress)>;

/// How far the views of a database are, by name. Those of views that were dropped may be among them.
///
/// # Errors
/// When messages cannot be read.
pub(super) fn all(db: &Database) -> Result<BTreeMap<String, Progress>, Error> {
    if !db.streams()?.iter().any(|name| name == STREAM) {
        return Ok(BTreeMap::new());
    }
    let noted = last_of(&db.stream(STREAM)?)?;
    Ok(noted.into_iter().map(|(name, (_, progress))| (name, progress)).collect())
}

fn last_of(stream: &Stream) -> Result<Noted, Error> {
    let mut noted = BTreeMap::new();
    let mut cursor = stream.cursor().last_values().open()?;
    while let Some(message) = cursor.next()? {
        noted.insert(message.symbol().to_string(), (message.time(), message.decode()?));
    }
    Ok(noted)
}

/// Notes how far views are.
#[derive(Debug)]
pub(super) struct Steps {
    stream: Stream,
    noted: Noted,
    /// Messages in the stream.
    messages: u64,
    /// Time of the last message.
    last: i64,
    old_max: u64,
}

impl Steps {
    /// What is noted in a database that this process writes. Before more than `old_max` messages are superseded, they are deleted.
    ///
    /// # Errors
    /// When the stream cannot be created or read.
    pub fn open(db: &Database, old_max: u64) -> Result<Self, Error> {
        let schema = SchemaBuilder::new().with::<Progress>().finish();
        let options = StreamOptions { durability: Durability::Sync, ..StreamOptions::default() };
        let stream = db.open_or_create_stream(STREAM, schema, options)?;
        let noted = last_of(&stream)?;
        let messages = stream.cursor().count()?;
        let last = stream.stats()?.times.map_or(i64::MIN, |(_, last)| last.0);
        let mut steps = Self { stream, noted, messages, last, old_max };
        // Where the process ends each time before it deletes them, there would be more and more.
        steps.delete_old_if_many()?;
        Ok(steps)
    }

    /// How far a view is; `None`: it has nothing yet.
    pub fn of(&self, name: &str, entry: &Entry) -> Option<Progress> {
        let (_, progress) = self.noted.get(name)?;
        (progress.defined == entry.defined).then(|| progress.clone())
    }

    /// Forgets views that are no more. Their messages are deleted with the superseded ones.
    pub fn retain(&mut self, views: &BTreeMap<String, Entry>) {
        self.noted.retain(|name, _| views.contains_key(name));
    }

    /// Notes how far a view is: it is on the disk when this returns.
    ///
    /// # Errors
    /// When it cannot be written. What is noted is then read again by another [`Steps`].
    pub fn note(&mut self, name: &str, progress: &Progress) -> Result<(), Error> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        // The last values are those of the greatest time, also where the clock was put back.
        let time = i64::try_from(now).unwrap_or(i64::MAX).max(self.last.saturating_add(1));
        let mut loader = self.stream.loader()?;
        loader.append(name, Timestamp(time), progress)?;
        loader.close()?;
        self.noted.insert(name.into(), (Timestamp(time), progress.clone()));
        (self.last, self.messages) = (time, self.messages + 1);
        self.delete_old_if_many()
    }

    /// Replaces all messages by the last ones, all at once, where there are too many others.
    fn delete_old_if_many(&mut self) -> Result<(), Error> {
        if self.messages <= self.noted.len() as u64 + self.old_max {
            return Ok(());
        }
        let mut rewriter = self.stream.rewrite(.., None::<[&str; 0]>)?;
        for (name, (time, progress)) in &self.noted {
            rewriter.append(name, *time, progress)?;
        }
        rewriter.commit()?;
        self.messages = self.noted.len() as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(end: u64) -> Progress {
        Progress {
            defined: Timestamp(7),
            created: Timestamp(1),
            ends: vec![end, 2 * end],
            passed: Timestamp(3),
        }
    }

    fn entry(defined: i64) -> Entry {
        Entry { query: String::new(), defined: Timestamp(defined) }
    }

    #[test]
    fn the_stream_is_bounded_however_many_steps_are_noted() {
        let directory = tempfile::tempdir().unwrap();
        let db = Database::open_without_maintenance(directory.path().join("db")).unwrap();
        let (old_max, names) = (16, ["a", "b", "c"]);
        let (mut messages_max, mut bytes_max) = (0, 0);
        for round in 0..4_u64 {
            // It goes on where it was left.
            let mut steps = Steps::open(&db, old_max).unwrap();
            for step in 1..=50 {
                for (nth, name) in names.iter().enumerate() {
                    let end = round * 1_000 + step * 10 + nth as u64;
                    steps.note(name, &progress(end)).unwrap();
                    assert_eq!(all(&db).unwrap()[*name], progress(end));
                }
                let stats = steps.stream.stats().unwrap();
                messages_max = messages_max.max(steps.stream.cursor().count().unwrap());
                bytes_max = bytes_max.max(stats.bytes);
            }
        }
        assert!(messages_max <= old_max + names.len() as u64, "{messages_max} messages");
        // 600 steps were noted: without an end each of them would take more than 50 bytes.
        assert!(bytes_max < 20_000, "{bytes_max} bytes");
        let stream = db.stream(STREAM).unwrap();
        assert!(stream.next_sequences().unwrap()[0] >= 600, "each step was noted");
    }

    #[test]
    fn another_view_of_a_name_begins_anew_and_a_dropped_one_is_deleted() {
        let directory = tempfile::tempdir().unwrap();
        let db = Database::open_without_maintenance(directory.path().join("db")).unwrap();
        let mut steps = Steps::open(&db, 4).unwrap();
        steps.note("a", &progress(1)).unwrap();
        steps.note("b", &progress(2)).unwrap();
        let steps_again = Steps::open(&db, 4).unwrap();
        assert_eq!(steps_again.of("a", &entry(7)), Some(progress(1)));
        assert_eq!(steps_again.of("a", &entry(8)), None);
        assert_eq!(steps_again.of("c", &entry(7)), None);
        steps.retain(&BTreeMap::from([("b".to_string(), entry(7))]));
        (3..10).for_each(|end| steps.note("b", &progress(end)).unwrap());
        assert_eq!(all(&db).unwrap().into_keys().collect::<Vec<_>>(), ["b"]);
    }
}
