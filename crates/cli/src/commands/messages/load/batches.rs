//! Loads record batches: Arrow's IPC format, as it arrives.

use super::{Args, Loaded, report};
use crate::input::{Arrived, Source, flush_deadline};
use std::io;
use std::time::{Duration, Instant};
use tapedb_arrow::{AppendOptions, BatchAppender};
use tapedb_arrow_ipc::Decoder;
use tapedb_engine::Stream;
use tapedb_terminal::ui::{Progress, thousands};
use tapedb_terminal::{Failure, Ui};

/// Bytes read at once.
const CHUNK_BYTES: usize = 256 << 10;

/// Loads messages from record batches.
pub fn load(args: &Args, stream: &Stream, ui: &Ui) -> Result<(), Failure> {
    let options = AppendOptions { record: args.record.clone(), naive_is_utc: args.naive_utc };
    let appender = BatchAppender::new(stream, stream.loader_in(args.space)?, options);
    let appender = appender.map_err(|error| Failure::new(error.to_string()))?;
    let flush_interval = args.flush_interval;
    let mut loading =
        Loading { appender, flush_interval, ui, unflushed: None, messages: 0, batches: 0, cut_bytes: 0 };
    let read = loading.read(&args.input.files);
    loading.finish(read)?;
    if loading.cut_bytes > 0 {
        let cut = loading.cut_bytes;
        ui.warn(&format!("the input ended inside a batch: its first {cut} bytes are not stored"));
    }
    let Loading { messages, batches, .. } = loading;
    let more = format!(" in {} batches", thousands(batches));
    report(&Loaded { stream: &args.stream, messages, bad_lines: None, batches: Some(batches) }, &more, ui)
}

/// State while batches are read.
struct Loading<'a> {
    appender: BatchAppender,
    flush_interval: Duration,
    ui: &'a Ui,
    /// When the oldest message that is not flushed was taken.
    unflushed: Option<Instant>,
    messages: u64,
    batches: u64,
    /// Bytes of the last batch, if it was incomplete when a signal arrived.
    cut_bytes: usize,
}

/// An input and what has been read of it.
struct Reading {
    source: Source,
    decoder: Decoder,
    bytes: u64,
    /// Of files, whose size is known.
    progress: Option<Progress>,
}

impl Loading<'_> {
    fn read(&mut self, files: &[std::path::PathBuf]) -> Result<(), Failure> {
        if files.is_empty() {
            self.source(Source::stdin()?)?;
        }
        for path in files {
            if !self.ui.is_interrupted() {
                self.source(Source::open(path)?)?;
            }
        }
        Ok(())
    }

    /// Reads to the end, or to a signal.
    fn source(&mut self, source: Source) -> Result<(), Failure> {
        let name = source.name.clone();
        let cannot = |error: io::Error| Failure::new(format!("cannot read {name}: {error}"));
        let progress = (!source.is_live).then(|| self.ui.progress(&format!("loading {name}"), source.bytes));
        let mut reading = Reading { source, decoder: Decoder::default(), bytes: 0, progress };
        let mut buffer = vec![0; CHUNK_BYTES];
        loop {
            let deadline = self.unflushed.map(|since| flush_deadline(since, self.flush_interval));
            match reading.source.read(&mut buffer, deadline, self.ui.signals()).map_err(cannot)? {
                Arrived::Bytes(count) => {
                    self.take(&mut reading, &buffer[..count])?;
                    self.flush_when_due()?;
                }
                Arrived::Nothing => self.flush()?,
                Arrived::Signal => {
                    let mut rest = reading.source.waiting();
                    while let Arrived::Bytes(count) =
                        reading.source.read_rest(&mut buffer, &mut rest).map_err(cannot)?
                    {
                        self.take(&mut reading, &buffer[..count])?;
                    }
                    // A file can be read again.
                    self.cut_bytes = if reading.source.is_live { reading.decoder.pending() } else { 0 };
                    return self.flush();
                }
                Arrived::End => {
                    reading.decoder.finish().map_err(|error| Failure::new(format!("{name}: {error}")))?;
                    return self.flush();
                }
            }
        }
    }

    /// Takes bytes, and all batches that they complete.
    fn take(&mut self, reading: &mut Reading, mut bytes: &[u8]) -> Result<(), Failure> {
        reading.bytes += bytes.len() as u64;
        let name = &reading.source.name;
        loop {
            let decoded = reading.decoder.decode(&mut bytes);
            let Some(batch) = decoded.map_err(|error| Failure::new(format!("{name}: {error}")))? else {
                break;
            };
            let taken = self.appender.append(&batch).map_err(|error| {
                Failure::new(format!("batch {} of {name}: {error}", reading.decoder.batches()))
            })?;
            self.messages += taken as u64;
            self.batches += 1;
            if taken > 0 && self.unflushed.is_none() {
                self.unflushed = Some(Instant::now());
            }
        }
        if let Some(progress) = &mut reading.progress {
            progress.update(reading.bytes, self.messages);
        }
        Ok(())
    }

    fn flush_when_due(&mut self) -> Result<(), Failure> {
        match self.unflushed {
            Some(since) if since.elapsed() >= self.flush_interval => self.flush(),
            _ => Ok(()),
        }
    }

    fn flush(&mut self) -> Result<(), Failure> {
        if self.unflushed.take().is_some() {
            self.appender.flush().map_err(|error| Failure::new(error.to_string()))?;
        }
        Ok(())
    }

    /// Stores the batches taken, also after an error.
    fn finish(&mut self, read: Result<(), Failure>) -> Result<(), Failure> {
        let flushed = self.flush();
        match read.and(flushed) {
            Err(Failure::Failed(what)) => {
                let waiting = match self.appender.loader().pending() {
                    0 => String::new(),
                    waiting => format!(", and {} are not", thousands(waiting as u64)),
                };
                let stored = thousands(self.messages - self.appender.loader().pending() as u64);
                Err(Failure::new(format!(
                    "{what}; the {stored} messages before it are in the stream{waiting}"
                )))
            }
            other => other,
        }
    }
}
