//! The stream and space that maintenance works on.

use crate::space::Space;
use crate::stream::reader::{ReadContext, StreamReader};
use crate::stream::writer::StreamWriter;

/// A stream and one of its spaces, in the process that writes them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MaintenanceContext<'a> {
    pub stream: &'a StreamReader,
    pub writer: &'a StreamWriter,
    pub space: &'a Space,
}

impl<'a> MaintenanceContext<'a> {
    /// The reading side, for decoders.
    pub fn reading(self) -> ReadContext<'a> {
        ReadContext { stream: self.stream, space: self.space }
    }
}
