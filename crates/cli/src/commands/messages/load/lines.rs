//! Loads lines of JSON.

use super::{Args, Loaded, report};
use crate::input::{Refusal, Sink, Taken};
use tapedb_codec::dynamic::RecordValue;
use tapedb_engine::{Error, Invalid, Loader, LogError, Rejected, Stream};
use tapedb_schema::Timestamp;
use tapedb_terminal::{Failure, Ui, ui::thousands};

/// Loads messages from lines.
pub fn load(args: &Args, stream: &Stream, ui: &Ui) -> Result<(), Failure> {
    let mut sink = Loading { loader: stream.loader_in(args.space)?, taken: 0, given_up: 0 };
    let mut bad = args.bad.open()?;
    let read = args.input.read(stream.layouts(), &mut sink, &mut bad, args.flush_interval, ui);
    let Taken { cut_bytes, .. } = sink.finish(read)?;
    if sink.given_up > 0 {
        let given_up = thousands(sink.given_up);
        ui.warn(&format!("{given_up} messages were refused: the stream already had later messages"));
    }
    if cut_bytes > 0 {
        ui.warn(&format!("the input ended inside a line: its first {cut_bytes} bytes are not stored"));
    }
    let (messages, bad_lines) = (sink.taken - sink.given_up, bad.count + sink.given_up);
    let loaded = Loaded { stream: &args.stream, messages, bad_lines: Some(bad_lines), batches: None };
    report(&loaded, &bad.summary(), ui)?;
    bad.finish()
}

/// The stream that takes the messages.
struct Loading {
    loader: Loader,
    /// Messages that the loader took.
    taken: u64,
    /// Messages that it dropped later: see [`Rejected::Late`].
    given_up: u64,
}

impl Sink for Loading {
    #[inline]
    fn take(&mut self, symbol: &str, time: Timestamp, record: &RecordValue) -> Result<(), Refusal> {
        if let Err(error) = self.loader.append_value(symbol, time, record) {
            self.refused(error)?;
            // The error concerned earlier messages.
            self.loader.append_value(symbol, time, record).map_err(refusal)?;
        }
        self.taken += 1;
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Failure> {
        match self.loader.flush() {
            Ok(_) => Ok(()),
            Err(error) => self.refused(error).map_err(|refusal| match refusal {
                Refusal::Line(what) => Failure::new(what),
                Refusal::Sink(failure) => failure,
            }),
        }
    }
}

impl Loading {
    /// Fails, unless waiting messages were dropped because another loader had appended later ones.
    #[cold]
    fn refused(&mut self, error: Error) -> Result<(), Refusal> {
        let given_up = self.loader.given_up();
        if matches!(error, Error::Rejected(Rejected::Late { .. })) && given_up > self.given_up {
            self.given_up = given_up;
            return Ok(());
        }
        Err(refusal(error))
    }

    /// Stores the messages taken, also after an error: those before a bad line count.
    fn finish(&mut self, read: Result<Taken, Failure>) -> Result<Taken, Failure> {
        let flushed = Sink::flush(self);
        let stored = || self.taken - self.given_up - self.loader.pending() as u64;
        let failure = match (read, flushed) {
            (Ok(taken), Ok(())) => return Ok(taken),
            (Err(failure), _) | (_, Err(failure)) => failure,
        };
        match failure {
            Failure::Failed(what) => {
                let waiting = match self.loader.pending() {
                    0 => String::new(),
                    waiting => format!(", and {} are not", thousands(waiting as u64)),
                };
                let stored = thousands(stored());
                Err(Failure::new(format!(
                    "{what}; the {stored} messages before it are in the stream{waiting}"
                )))
            }
            other => Err(other),
        }
    }
}

/// Whether an error concerns the message or the stream.
#[cold]
fn refusal(error: Error) -> Refusal {
    let is_about_line = match &error {
        Error::Rejected(Rejected::Encode(_))
        | Error::Rejected(Rejected::Size(_))
        | Error::Rejected(Rejected::Late { .. })
        | Error::Invalid(Invalid::Type { .. }) => true,
        Error::Log(error) => matches!(**error, LogError::SymbolLength { .. } | LogError::TooManySymbols),
        _ => false,
    };
    if is_about_line { Refusal::Line(error.to_string()) } else { Refusal::Sink(error.into()) }
}
