//! Verifies the sealed history of a space: its manifest, its segments, and the other files in their directory.

use crate::admin::check_blocks::{Proof, SymbolBlocks};
use crate::admin::checker::Checker;
use crate::admin::finding::{CheckEvent, CheckReport, Finding, REPORT, Severity};
use crate::admin::stored::{StoredPart, StoredSegment};
use crate::error::{Error, Unreadable};
use crate::maintenance::verify::DUMP_EXTENSION;
use crate::objects::foot::{self, Foot};
use crate::objects::keys::FOOT_EXTENSION;
use crate::space::catalog::{Catalog, Content, DRAFT_EXTENSION, Part, SEGMENT_EXTENSION};
use crate::space::manifest;
use crate::space::quarantine::DAMAGED_EXTENSION;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::Path;
use tapedb_log::{END_FILE, PRODUCERS_FILE};
use tapedb_segment::{Damage, Tier};

/// A space is checked again when a writer has moved messages during the check, at most this often.
const ATTEMPTS_MAX: u32 = 100;

const REPAIR: &str = "`tapedb repair` rebuilds it from the rest of the file; nothing is lost";
const REPAIR_MANIFEST: &str = "`tapedb repair` rebuilds it from the segments and the log";
const REWRITTEN: &str = "nothing: the next change rewrites it, or `tapedb repair` now";
const FOOT: &str = "nothing: readers get it from the store";
const REMOVED: &str = "nothing: the next writer removes it, unless a writer is creating it now";
const DUMP: &str = "a dump of a block that was decoded to other rows than were encoded; it was written in a plain encoding or not at all, and nothing is lost";
const REPORT_DUMP: &str =
    "report it with this file, which holds messages of the stream, then remove the file";
const VERSION_1: &str = "see the changelog of 0.2.0 for which streams are affected; if it matters, compare with the source or load those messages again";
const LOAD_AGAIN: &str =
    "load those messages again from their source; what is left of the log files is in *.log.damaged";

impl<T: FnMut(CheckEvent) -> ControlFlow<()>> Checker<'_, T> {
    /// Verifies a space: manifest, segments, log.
    pub fn check_space(&mut self) -> ControlFlow<()> {
        let before = self.report;
        // The counts of verified segments, by number: a segment never changes.
        let mut verified: HashMap<u64, CheckReport> = HashMap::new();
        for attempt in 1.. {
            let (damaged, messages_damaged) = (self.report.damaged, self.report.messages_damaged);
            let (unfinished, notes) = (self.report.unfinished, self.report.notes);
            self.report = CheckReport { damaged, messages_damaged, unfinished, notes, ..before };
            let Some(catalog) = self.check_manifest()? else {
                return self.check_log(0, || true).map_continue(|_| ());
            };
            let is_last = attempt == ATTEMPTS_MAX;
            if self.check_parts(&catalog, &mut verified, is_last)? {
                let (stream, space) = (self.stream, self.space);
                let is_current = || is_last || stream.catalog(space).is_ok_and(|now| now == catalog);
                if self.check_log(catalog.sealed, is_current)? {
                    self.report_version_1(&catalog, &before)?;
                    return self.check_leftovers(&catalog);
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn check_manifest(&mut self) -> ControlFlow<(), Option<Catalog>> {
        let (directory, owner) = (self.stream.space_path(self.space), self.stream.owner(self.space));
        let catalog = match self.stream.catalog(self.space) {
            Ok(catalog) => catalog,
            Err(error) => {
                let finding = Finding::failed(directory.join(manifest::FILES[0]), &error);
                self.find(Finding { now: REPAIR_MANIFEST, ..finding })?;
                return ControlFlow::Continue(None);
            }
        };
        for name in manifest::FILES {
            let path = directory.join(name);
            let what = match manifest::read_copy(&*self.stream.storage, &path, owner) {
                Ok(Some(copy)) if copy.generation < catalog.generation => {
                    "this copy is older than the other".into()
                }
                Ok(Some(_)) => continue,
                Ok(None) => "this copy is missing; the other is good".into(),
                Err(Error::Unreadable(Unreadable::Definition { what, .. })) => {
                    format!("this copy {what}; the other is good")
                }
                Err(error) => error.to_string(),
            };
            let finding = Finding { severity: Severity::Note, now: REWRITTEN, ..Finding::damage(path, what) };
            self.find(finding)?;
        }
        ControlFlow::Continue(Some(catalog))
    }

    /// Verifies all parts; `false`: a writer has replaced files during the check.
    fn check_parts(
        &mut self,
        catalog: &Catalog,
        verified: &mut HashMap<u64, CheckReport>,
        is_last: bool,
    ) -> ControlFlow<(), bool> {
        let directory = self.stream.space_path(self.space);
        for part in &catalog.parts {
            self.check_lost(part, &directory)?;
            let Some(content) = &part.content else { continue };
            if let Some(done) = verified.get(&content.number) {
                self.count(done);
                continue;
            }
            let part = StoredPart::of(part, self.stream.owner(self.space), &directory);
            if part.object.is_some() && !self.check_foot(&part)? {
                continue;
            }
            let opened = match self.stream.segment(&part) {
                Err(error) if error.is_missing_file() && !is_last => {
                    let now = self.stream.catalog(self.space);
                    if now.is_ok_and(|now| now.generation != catalog.generation) {
                        return ControlFlow::Continue(false);
                    }
                    Err(error)
                }
                opened => opened,
            };
            let done = match opened {
                Ok(Some((segment, damaged))) => self.check_segment(&part, &segment, &damaged)?,
                Ok(None) => CheckReport::default(),
                Err(error) => {
                    self.find(unreadable(&part, &error))?;
                    CheckReport::default()
                }
            };
            self.count(&done);
            verified.insert(content.number, done);
        }
        ControlFlow::Continue(true)
    }

    fn count(&mut self, done: &CheckReport) {
        self.report.segments += 1;
        self.report.blocks += done.blocks;
        self.report.blocks_by_content += done.blocks_by_content;
        self.report.blocks_by_reference += done.blocks_by_reference;
        self.report.blocks_unproved += done.blocks_unproved;
        self.report.messages += done.messages;
        self.report.messages_of_version_1 += done.messages_of_version_1;
        self.report.messages_misread_by_0_1 += done.messages_misread_by_0_1;
        self.report.bytes += done.bytes;
    }

    fn check_lost(&mut self, part: &Part, directory: &Path) -> ControlFlow<()> {
        if part.lost == 0 {
            return ControlFlow::Continue(());
        }
        let what = format!(
            "{} of the messages {} to {} were damaged in the log when it was sealed",
            part.lost,
            part.sequences.start,
            part.sequences.end - 1
        );
        let (first_sequence, messages) = (Some(part.sequences.start), Some(part.lost));
        let finding = Finding::damage(directory.into(), what);
        self.find(Finding { first_sequence, messages, now: LOAD_AGAIN, ..finding })
    }

    /// Verifies what is here of a segment in an object store; whether the segment is to be opened.
    fn check_foot(&mut self, part: &StoredPart) -> ControlFlow<(), bool> {
        let Some(path) = &part.local_path else { return ControlFlow::Continue(false) };
        let what = match self.stream.storage.read(path, foot::BYTES_MAX) {
            Ok(bytes) => match (Foot::parse(&bytes), &part.object) {
                (Some(foot), Some(object))
                    if (foot.bytes, foot.checksum) == (part.bytes, object.checksum) =>
                {
                    return ControlFlow::Continue(true);
                }
                _ => "is damaged".to_string(),
            },
            Err(error) => format!("cannot be read: {error}"),
        };
        let finding =
            Finding::damage(path.clone(), format!("the foot of a segment in the object store {what}"));
        self.find(Finding { severity: Severity::Note, now: FOOT, ..finding })?;
        ControlFlow::Continue(self.stream.checks_objects)
    }

    /// Verifies a segment; the counts of its whole blocks.
    fn check_segment(
        &mut self,
        part: &StoredPart,
        segment: &StoredSegment,
        damaged: &[Damage],
    ) -> ControlFlow<(), CheckReport> {
        let Some(path) = &part.path else { return ControlFlow::Continue(CheckReport::default()) };
        let missing = part.messages.saturating_sub(segment.messages());
        for (i, damage) in damaged.iter().enumerate() {
            let (offset, messages) = (damage.offset, if i == 0 { missing } else { 0 });
            let first_sequence = (messages > 0).then_some(part.first_sequence);
            let finding = Finding::damage(path.clone(), damage.to_string());
            let now = if missing == 0 { REPAIR } else { finding.now };
            self.find(Finding { offset, first_sequence, messages: Some(messages), now, ..finding })?;
        }
        if damaged.is_empty() {
            self.check_counts(part, segment, path)?;
        }
        if part.object.is_some() && !self.stream.checks_objects {
            return ControlFlow::Continue(CheckReport {
                messages: segment.messages(),
                ..CheckReport::default()
            });
        }
        let mut done = CheckReport { bytes: segment.bytes(), ..CheckReport::default() };
        // The message before each block in its strand.
        let mut lasts = vec![None; segment.strand_count()];
        let mut symbols = SymbolBlocks::default();
        for (index, entry) in segment.blocks().iter().enumerate() {
            let last = &mut lasts[segment.strand_of(index)];
            if let Some(Proof { by_content, by_reference, was_misread }) =
                self.check_block(part, segment, index, last, &mut symbols)?
            {
                done.blocks += 1;
                done.blocks_by_content += u64::from(by_content);
                done.blocks_by_reference += u64::from(by_reference);
                done.blocks_unproved += u64::from(!by_content && !by_reference);
                done.messages += u64::from(entry.count);
                done.messages_of_version_1 += if by_content { 0 } else { u64::from(entry.count) };
                done.messages_misread_by_0_1 += if was_misread { u64::from(entry.count) } else { 0 };
            }
            self.progress(entry.len.into(), entry.count.into())?;
        }
        if damaged.is_empty() && done.blocks == segment.blocks().len() as u64 {
            self.check_symbols_of(segment, &symbols, part)?;
        }
        ControlFlow::Continue(done)
    }

    /// Whether the segment holds what the manifest states.
    fn check_counts(&mut self, part: &StoredPart, segment: &StoredSegment, path: &Path) -> ControlFlow<()> {
        let times = segment.time_range();
        let stated = part.times.map(|(from, to)| (from.0, to.0));
        let what = if segment.messages() != part.messages {
            format!("holds {} messages, the manifest states {}", segment.messages(), part.messages)
        } else if times != stated {
            format!("holds times {times:?}, the manifest states {stated:?}")
        } else if segment.bytes() != part.bytes {
            format!("has {} bytes, the manifest states {}", segment.bytes(), part.bytes)
        } else {
            return ControlFlow::Continue(());
        };
        self.find(Finding { now: REPORT, ..Finding::damage(path.into(), what) })
    }

    /// Reports how many messages are in format version 1: only their present form can be verified, for version 0.1 may have
    /// decoded them wrongly before it merged or compressed them.
    fn report_version_1(&mut self, catalog: &Catalog, before: &CheckReport) -> ControlFlow<()> {
        let messages = self.report.messages_of_version_1 - before.messages_of_version_1;
        let misread = self.report.messages_misread_by_0_1 - before.messages_misread_by_0_1;
        if messages == 0 {
            return ControlFlow::Continue(());
        }
        let is_cold = |content: &&Content| content.tier == Tier::Cold;
        let cold = catalog.contents().filter(is_cold).count();
        let what = format!(
            "{messages} sealed messages were written by TapeDB 0.1, without a checksum of their content. Those that it sealed \
             from the log are right. Those that it merged, compressed ({cold} segments are of the cold tier) or rewrote it may \
             have decoded wrongly before, which cannot be detected now. {misread} of them are in blocks that it decoded to wrong \
             times or numbers for its readers"
        );
        let path = self.stream.space_path(self.space);
        self.find(Finding { severity: Severity::Note, now: VERSION_1, ..Finding::damage(path, what) })
    }

    /// Reports the files that the manifest does not need.
    fn check_leftovers(&mut self, catalog: &Catalog) -> ControlFlow<()> {
        let directory = self.stream.space_path(self.space);
        let Ok(names) = self.stream.storage.list(&directory) else { return ControlFlow::Continue(()) };
        let known: Vec<_> = catalog.parts.iter().filter_map(|part| part.local_path(&directory)).collect();
        let draft = format!(".{DRAFT_EXTENSION}");
        let mut found = Vec::new();
        for name in names {
            let path = directory.join(&name);
            let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
            let is_known = manifest::FILES.contains(&&*name)
                || [END_FILE, PRODUCERS_FILE].contains(&&*name)
                || known.contains(&path);
            let (what, now) = match extension {
                _ if is_known => continue,
                "log" | "idx" | DAMAGED_EXTENSION => continue,
                DUMP_EXTENSION => (DUMP, REPORT_DUMP),
                SEGMENT_EXTENSION => ("a segment that the manifest does not name", REMOVED),
                FOOT_EXTENSION => {
                    ("the foot of a segment that the manifest does not name as an object", REMOVED)
                }
                _ if name.ends_with(&draft) => ("a file that was never completed", REMOVED),
                _ => ("not a file of the database", "nothing: it is left as it is"),
            };
            found.push(Finding { severity: Severity::Note, now, ..Finding::damage(path, what.into()) });
        }
        // A writer may be creating them now.
        if self.stream.catalog(self.space).is_ok_and(|now| now == *catalog) {
            found.retain(|finding| self.stream.storage.size(&finding.path).is_ok());
            found.sort_by(|a, b| a.path.cmp(&b.path));
            found.into_iter().try_for_each(|finding| self.find(finding))?;
        }
        ControlFlow::Continue(())
    }
}

/// A segment of which nothing can be read.
fn unreadable(part: &StoredPart, error: &Error) -> Finding {
    let path = part.path.clone().unwrap_or_default();
    let (first_sequence, messages) = (Some(part.first_sequence), Some(part.messages));
    let what = match error.is_missing_file() {
        true => format!(
            "is missing, with the messages of sequence numbers {} to {}",
            part.first_sequence,
            part.next_sequence - 1
        ),
        false => error.to_string(),
    };
    Finding { first_sequence, messages, ..Finding::damage(path, what) }
}
