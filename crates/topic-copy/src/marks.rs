//! Which message of a topic is which of its copy.
//!
//! From a mark up to the next one, both numbers go up together: the message `first` of the topic is the message `sequence` of
//! the stream. A mark is written before its first message, so if two marks have the same `sequence` the later one is valid, and
//! one without messages has no effect.

use crate::error::CopyError;
use tapedb_codec::{Record, SchemaBuilder};
use tapedb_engine::{Database, Loader, Stream, StreamOptions};
use tapedb_schema::Timestamp;

/// The stream with the marks of a copy.
pub fn marks_of(stream: &str) -> String {
    format!("{stream}.carbon")
}

// The doc comments are part of the schema on the disk, so they do not change.
/// From here on a stream is a copy of a topic.
#[derive(Record, Default, Debug, Clone, Copy, PartialEq, Eq)]
#[record(message, name = "CarbonMark")]
pub(crate) struct Mark {
    /// Which topic: its id, for a topic that is made anew begins at 0 again.
    pub topic: u64,
    /// Sequence number in the topic.
    pub first: u64,
    /// Sequence number in the stream.
    pub sequence: u64,
    /// Messages of the topic before it that were overwritten before they could be copied.
    pub missed: u64,
}

/// All marks of a copy.
///
/// Always true: sorted by `sequence`, each `sequence` once.
#[derive(Debug, Default, Clone)]
pub(crate) struct Marks(Vec<Mark>);

impl Marks {
    /// Reads them.
    ///
    /// # Errors
    /// When there are none, or the stream cannot be read.
    pub fn read(db: &Database, stream: &str) -> Result<Self, CopyError> {
        let mut marks = Self::default();
        let mut cursor = db.stream(&marks_of(stream))?.cursor().from_sequence(0).open()?;
        while let Some(message) = cursor.next()? {
            marks.add(message.decode()?);
        }
        Ok(marks)
    }

    pub fn add(&mut self, mark: Mark) {
        // The later one is valid: no message was copied under the earlier ones from there on.
        self.0.retain(|old| old.sequence < mark.sequence);
        self.0.push(mark);
    }

    /// The mark that is valid for a message of the stream.
    pub fn at(&self, sequence: u64) -> Option<&Mark> {
        self.0.iter().rev().find(|mark| mark.sequence <= sequence)
    }

    /// The sequence number in the stream that a message of a topic has or will have; for a missed message, that of the next one.
    pub fn sequence_of(&self, topic: u64, first: u64) -> Option<u64> {
        let at = self.0.iter().rposition(|mark| mark.topic == topic && mark.first <= first)?;
        let sequence = self.0[at].sequence + (first - self.0[at].first);
        Some(self.0.get(at + 1).map_or(sequence, |next| sequence.min(next.sequence)))
    }
}

/// Writes marks.
#[derive(Debug)]
pub(crate) struct MarksLoader {
    loader: Loader,
    topic: String,
}

impl MarksLoader {
    /// Opens the stream of marks, or creates it.
    ///
    /// # Errors
    /// The engine's.
    pub fn open(db: &Database, stream: &str, topic: &str, options: StreamOptions) -> Result<Self, CopyError> {
        let schema = SchemaBuilder::new().with::<Mark>().finish();
        let options = StreamOptions { durability: options.durability, ..StreamOptions::default() };
        let marks: Stream = db.open_or_create_stream(&marks_of(stream), schema, options)?;
        Ok(Self { loader: marks.loader()?, topic: topic.into() })
    }

    /// Writes a mark, before its first message.
    ///
    /// # Errors
    /// The engine's.
    pub fn write(&mut self, time: Timestamp, mark: &Mark) -> Result<(), CopyError> {
        self.loader.append(&self.topic, time, mark)?;
        self.loader.flush()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_on_the_disk_does_not_change() {
        let text = SchemaBuilder::new().with::<Mark>().finish().to_string();
        let docs = [
            "From here on a stream is a copy of a topic.",
            "Which topic: its id, for a topic that is made ",
            "Sequence number in the topic.",
            "Sequence number in the stream.",
            "Messages of the topic before it that were overwritten before they could be copied.",
        ];
        for doc in docs {
            assert!(text.contains(doc), "{doc}: {text}");
        }
        assert!(text.contains("message CarbonMark {"), "{text}");
    }

    #[test]
    fn numbers_follow_from_the_valid_mark() {
        let mut marks = Marks::default();
        let mark = |topic, first, sequence, missed| Mark { topic, first, sequence, missed };
        for mark in [mark(1, 5, 0, 0), mark(1, 20, 10, 5), mark(1, 30, 10, 15), mark(2, 0, 50, 0)] {
            marks.add(mark);
        }
        assert_eq!((marks.sequence_of(1, 5), marks.sequence_of(1, 14)), (Some(0), Some(9)));
        // Missed: the next one that was copied.
        assert_eq!(
            (marks.sequence_of(1, 15), marks.sequence_of(1, 20), marks.sequence_of(1, 30)),
            (Some(10), Some(10), Some(10))
        );
        assert_eq!(
            (marks.sequence_of(1, 31), marks.sequence_of(2, 7), marks.sequence_of(1, 4)),
            (Some(11), Some(57), None)
        );
        assert_eq!((marks.at(9).unwrap().first, marks.at(10).unwrap().first), (5, 30));
    }
}
