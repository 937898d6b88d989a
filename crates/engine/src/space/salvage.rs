//! Opens segments, also damaged ones: the stream supplies what a damaged header held.

use crate::error::Error;
use crate::stream::versions;
use std::path::Path;
use tapedb_codec::dynamic::Layouts;
use tapedb_log::Storage;
use tapedb_segment::{Damage, Plan, ReadAt, Segment, SegmentError, SegmentHeader};

/// The versions of a stream's schema, as its files have them.
#[derive(Clone, Copy)]
pub(crate) struct SchemaFiles<'a> {
    pub storage: &'a dyn Storage,
    /// The stream's directory.
    pub directory: &'a Path,
    /// The newest version.
    pub version: u16,
}

impl SchemaFiles<'_> {
    /// Opens a segment, and returns the damage to its header and index. `expected`: what the header should hold, except that
    /// the version of the schema may be any of the stream's.
    ///
    /// # Errors
    /// As [`Segment::salvage`].
    pub fn open_segment<R: ReadAt + Clone>(
        &self,
        file: R,
        expected: &SegmentHeader,
    ) -> Result<(Segment<R>, Vec<Damage>), SegmentError> {
        let mut failed = match Segment::open(file.clone()) {
            Ok(segment) => return Ok((segment, Vec::new())),
            Err(error @ SegmentError::Damaged(_)) => error,
            Err(error) => return Err(error),
        };
        for version in (1..=self.version).rev() {
            let Ok(plan) = self.plan(version) else { continue };
            let expected = SegmentHeader { schema_version: version, ..expected.clone() };
            match Segment::salvage(file.clone(), &expected, &plan) {
                Err(error @ SegmentError::Damaged(_)) => failed = error,
                opened => return opened,
            }
        }
        Err(failed)
    }

    fn plan(&self, version: u16) -> Result<Plan, Error> {
        let schema = versions::read(self.storage, self.directory, version)?;
        Ok(Plan::new(Layouts::new(schema)?))
    }
}
