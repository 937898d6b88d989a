//! Loading bars until all are sealed: with maintenance beside the loader, on two threads; and the same on one core.

use super::scratch::{Scratch, ScratchDir};
use super::steps::{BATCH, check, rate, read_all, seal};
use crate::pool::{Pool, Tally, load};
use crate::report::Report;
use std::path::Path;
use std::thread;
use std::time::Instant;
use tapedb_engine::{Stream, StreamOptions};
use tapedb_market::Bar;
use tapedb_terminal::{Failure, Ui};

/// The stream's name.
pub const STREAM: &str = "bars";

/// Loads bars into a new stream and seals them: `load.async` and `load.sealed`, with a suffix. The caller reads and compares
/// the segments.
pub fn bars(
    scratch: &Scratch,
    pool: &Pool<Bar>,
    messages: u64,
    suffix: &str,
    report: &mut Report,
    ui: &Ui,
) -> Result<(Stream, Tally), Failure> {
    let stream = scratch.stream::<Bar>(STREAM, StreamOptions::default())?;
    let started = Instant::now();
    let expected = load(&stream, pool, messages, BATCH, ui)?;
    rate(report, &format!("load.async{suffix}"), messages, started);
    seal(&stream, &format!("load.sealed{suffix}"), started, report)?;
    match stream.seal()? {
        0 => Ok((stream, expected)),
        left => Err(Failure::new(format!("{left} messages were left to seal; please report this"))),
    }
}

/// Only the load: `load.async`, `load.sealed`.
pub fn measure(
    scratch: &Scratch,
    pool: &Pool<Bar>,
    messages: u64,
    report: &mut Report,
    ui: &Ui,
) -> Result<(), Failure> {
    checked(scratch, pool, messages, "", report, ui)
}

/// The same on one core, in a database of its own: `load.async.1`, `load.sealed.1`. Threads inherit the core of the one that
/// starts them, so maintenance shares the loader's.
pub fn on_one_core(
    db: &Path,
    pool: &Pool<Bar>,
    messages: u64,
    report: &mut Report,
    ui: &Ui,
) -> Result<(), Failure> {
    let dir = ScratchDir::beside(db, "one-core");
    let work = || {
        if !is_pinned_to_one_core() {
            ui.note("the system does not pin threads to a core: load.sealed.1 is skipped");
            return Ok(());
        }
        checked(&Scratch::new(&dir.0)?, pool, messages, ".1", report, ui)
    };
    thread::scope(|scope| {
        let ended = |_| Err(Failure::new("a thread of the benchmark panicked; see its message above"));
        scope.spawn(work).join().unwrap_or_else(ended)
    })
}

/// Pins the calling thread to the first core that it may use.
fn is_pinned_to_one_core() -> bool {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    (0..cores).any(|core| tapedb_shm::pin_to_core(core).is_ok())
}

fn checked(
    scratch: &Scratch,
    pool: &Pool<Bar>,
    messages: u64,
    suffix: &str,
    report: &mut Report,
    ui: &Ui,
) -> Result<(), Failure> {
    let (stream, expected) = bars(scratch, pool, messages, suffix, report, ui)?;
    check(&stream, expected, read_all::<Bar>(&stream)?)?;
    scratch.db.delete_stream(STREAM)?;
    Ok(())
}
