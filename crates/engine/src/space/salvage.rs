//! Opens segments, also damaged ones: what a damaged header said is known from the stream.

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
    /// Opens a segment, and says what is damaged of header and index. `known`: what the header should say but for the version
    /// of the schema, which may be any of the stream's.
    ///
    /// # Errors
    /// As [`Segment::salvage`].
    pub fn open_segment<R: ReadAt + Clone>(
        &self,
        file: R,
        known: &SegmentHeader,
    ) -> Result<(Segment<R>, Vec<Damage>), SegmentError> {
        let mut failed = match Segment::open(file.clone()) {
            Ok(segment) => return Ok((segment, Vec::new())),
            Err(error @ SegmentError::Damaged(_)) => error,
            Err(error) => return Err(error),
        };
        for version in (1..=self.version).rev() {
            let Ok(plan) = self.plan(version) else { continue };
            let known = SegmentHeader { schema_version: version, ..known.clone() };
            match Segment::salvage(file.clone(), &known, &plan) {
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
