//! Contents of a stream, as its catalogs and indexes state them: cheap enough to be called often.

use crate::error::Error;
use crate::stream::Stream;

/// Contents of a stream, and how much of them waits for maintenance, at one moment. It reads nothing from the disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Census {
    /// Messages in segments, including deleted ones that are still in files.
    pub sealed_messages: u64,
    /// Segments.
    pub segments: u64,
    /// Bytes of segments.
    pub segment_bytes: u64,
    /// Messages in log files (or, of a transient stream, in memory).
    pub log_messages: u64,
    /// Bytes of their batches.
    pub log_bytes: u64,
    /// Log files that are complete and wait to be sealed.
    pub files_waiting: u64,
    /// Deletions that wait to be applied to files.
    pub deletions_waiting: u64,
    /// Messages ever appended, over all spaces.
    pub next_sequence: u64,
    /// Symbols.
    pub symbols: u32,
}

impl Stream {
    /// The contents of the stream; behind a server, as far as they are described here.
    ///
    /// # Errors
    /// When the stream has been deleted or renamed.
    pub fn census(&self) -> Result<Census, Error> {
        self.state.check_not_deleted()?;
        let mut census = Census { symbols: self.state.dictionary.len(), ..Census::default() };
        let is_transient = self.state.definition.options.is_transient();
        for space in &self.state.spaces {
            let (catalog, snapshot) = space.view();
            let logged = || snapshot.iter().filter(|granule| granule.next_sequence() > catalog.sealed);
            let waiting = |file: &tapedb_log::CompleteFile| file.next_sequence > catalog.sealed;
            let totals = catalog.parts.totals();
            census.sealed_messages += totals.messages;
            census.segments += totals.segments;
            census.segment_bytes += totals.bytes;
            census.log_messages += logged().map(|granule| granule.count).sum::<u64>();
            census.log_bytes += logged().map(|granule| u64::from(granule.len)).sum::<u64>();
            if !is_transient {
                census.files_waiting += space.log.complete_files().into_iter().filter(waiting).count() as u64;
            }
            census.deletions_waiting += catalog.deletions.len() as u64;
            census.next_sequence += snapshot.next_sequence().max(catalog.sealed);
        }
        Ok(census)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::Database;
    use crate::options::StreamOptions;
    use tapedb_schema::Timestamp;

    #[test]
    fn it_says_what_is_where() {
        let directory = tempfile::tempdir().unwrap();
        let db = Database::open_without_maintenance(directory.path().join("db")).unwrap();
        let options = StreamOptions { file_bytes_max: 1, spaces: 2, ..StreamOptions::default() };
        let stream = db.create_stream("s", "message M { x: i64 }".parse().unwrap(), options).unwrap();
        assert_eq!(stream.census().unwrap(), Census::default());
        for space in 0..2 {
            let mut loader = stream.loader_in(space).unwrap();
            for time in 0..6 {
                loader.append_body("A", Timestamp(time), 0, &[0; 8]).unwrap();
                if time % 2 == 1 {
                    // A file for each two.
                    loader.flush().unwrap();
                }
            }
        }
        let census = stream.census().unwrap();
        assert!(census.log_bytes > 0);
        let expected =
            Census { log_messages: 12, files_waiting: 4, next_sequence: 12, symbols: 1, ..Census::default() };
        assert_eq!(Census { log_bytes: 0, ..census }, expected);
        stream.seal().unwrap();
        stream.delete(Timestamp(1)..Timestamp(2), None::<[&str; 0]>).unwrap();
        let census = stream.census().unwrap();
        assert!(
            census.segments >= 2 && census.segment_bytes > 0 && census.deletions_waiting == 2,
            "{census:?}"
        );
        assert_eq!(
            (census.sealed_messages, census.log_messages, census.log_bytes, census.files_waiting),
            (12, 0, 0, 0)
        );
        db.delete_stream("s").unwrap();
        assert!(stream.census().is_err());
    }
}
