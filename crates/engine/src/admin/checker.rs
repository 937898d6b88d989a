//! The state of a check in progress, and what its parts share: reporting, and verifying one message.

use crate::admin::finding::{CheckDepth, CheckEvent, CheckReport, Finding, Severity};
use crate::admin::stored::StoredStream;
use crate::error::Error;
use crate::space::quarantine::log_name;
use crate::stream::versions;
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::path::PathBuf;
use tapedb_codec::batch::Rows;
use tapedb_codec::dynamic::Layouts;
use tapedb_log::SymbolFile;
use tapedb_segment as segment;

/// A check in progress.
pub(crate) struct Checker<'a, T> {
    pub stream: &'a StoredStream,
    pub depth: CheckDepth,
    /// Layouts of the schema versions that batches were written with.
    versions: HashMap<u16, Layouts>,
    pub rows: Rows,
    /// `None` when the symbol file cannot be read, which has been reported.
    pub symbols: Option<SymbolFile>,
    pub report: CheckReport,
    /// The space that is being checked.
    pub space: u32,
    /// What has been reported: files that a writer replaces are checked again.
    reported: HashSet<(PathBuf, u64, String)>,
    pub scratch: BlockScratch,
    on_event: &'a mut T,
}

/// Memory for decoding blocks.
#[derive(Default)]
pub(crate) struct BlockScratch {
    pub decoder: segment::Decoder,
    pub block: segment::Block,
    pub rows: segment::Rows,
    pub lanes: Vec<(u16, u32, u32)>,
}

impl<'a, T: FnMut(CheckEvent) -> ControlFlow<()>> Checker<'a, T> {
    pub fn new(stream: &'a StoredStream, depth: CheckDepth, on_event: &'a mut T) -> Self {
        Self {
            stream,
            depth,
            versions: HashMap::new(),
            rows: Rows::default(),
            symbols: None,
            report: CheckReport::default(),
            space: 0,
            reported: HashSet::new(),
            scratch: BlockScratch::default(),
            on_event,
        }
    }

    /// Reports that more has been verified.
    pub fn progress(&mut self, bytes: u64, messages: u64) -> ControlFlow<()> {
        (self.on_event)(CheckEvent::Progress { bytes, messages })
    }

    /// Reports a finding, once.
    pub fn find(&mut self, finding: Finding) -> ControlFlow<()> {
        if !self.reported.insert((finding.path.clone(), finding.offset, finding.what.clone())) {
            return ControlFlow::Continue(());
        }
        match finding.severity {
            Severity::Damage => {
                self.report.damaged += 1;
                self.report.messages_damaged += finding.messages.unwrap_or(0);
            }
            Severity::Unfinished => self.report.unfinished += 1,
            Severity::Note => self.report.notes += 1,
        }
        (self.on_event)(CheckEvent::Found(finding))
    }

    /// What is wrong with a message of a batch or a block.
    pub fn wrong_message(
        &mut self,
        (symbol, type_id): (u32, u16),
        body: &[u8],
        layouts: &Layouts,
    ) -> Option<String> {
        if !self.has_symbol(symbol) {
            return Some(format!("symbol {symbol} is not in the symbol file"));
        }
        if !layouts.records().get(usize::from(type_id)).is_some_and(|record| record.message) {
            return Some(format!("type {type_id} is no message type of the schema"));
        }
        if self.depth == CheckDepth::Quick {
            return None;
        }
        let checked = layouts.check(type_id, body);
        checked.err().map(|error| error.to_string())
    }

    /// The layouts of a version of the schema.
    pub fn layouts_of(&mut self, version: u16) -> Result<Layouts, Error> {
        if version == self.stream.schema_version() {
            return Ok(self.stream.layouts().clone());
        }
        if let Some(cached) = self.versions.get(&version) {
            return Ok(cached.clone());
        }
        let schema = versions::read(&*self.stream.storage, self.stream.path(), version)?;
        let layouts = Layouts::new(schema)?;
        self.versions.insert(version, layouts.clone());
        Ok(layouts)
    }

    /// Whether a symbol has a name; the file is read again for a symbol that a writer has just added.
    #[inline]
    fn has_symbol(&mut self, symbol: u32) -> bool {
        let Some(symbols) = &mut self.symbols else { return true };
        symbol < symbols.dictionary().len()
            || (symbols.refresh().is_ok() && symbol < symbols.dictionary().len())
    }

    /// Path of a log file of the space.
    pub fn log_file(&self, file: u64) -> PathBuf {
        self.stream.space_path(self.space).join(log_name(file))
    }
}
