//! The thread that looks after files while a database is open for writing: it purges what is old, seals log files that are
//! complete or old enough, merges segments, and compresses old ones once more.

use crate::error::Error;
use crate::maintenance::context::MaintenanceContext;
use crate::maintenance::pace::Pace;
use crate::maintenance::retention::{retire, roll_if_due};
use crate::maintenance::seal::{chill_next, merge_next, seal_next};
use crate::stream::reader::StreamReader;
use crate::stream::writer::StreamWriter;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Without being woken it looks around this often.
const INTERVAL: Duration = Duration::from_millis(200);
/// After a failure it waits, so that a full disk is not tried all the time.
const AFTER_FAILURE: Duration = Duration::from_secs(5);

/// Upkeep of a database. Everybody who uses the database holds it; with the last of them the thread ends, in the middle of
/// its work if need be.
#[derive(Debug, Default)]
pub(crate) struct Maintenance {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Shared {
    streams: Mutex<Vec<(Weak<StreamReader>, Weak<StreamWriter>)>>,
    woken: Condvar,
    stop: AtomicBool,
}

impl Maintenance {
    /// Looks after a stream from now on.
    pub fn take(&self, stream: &Arc<StreamReader>, writer: &Arc<StreamWriter>) {
        let mut streams = self.shared.streams.lock().unwrap_or_else(PoisonError::into_inner);
        // Not after one of an older schema any more: it would give what it merges that schema.
        streams.retain(|(other, _)| other.upgrade().is_some_and(|other| !other.is_outdated()));
        streams.push((Arc::downgrade(stream), Arc::downgrade(writer)));
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            let shared = self.shared.clone();
            let spawned = thread::Builder::new().name("tapedb-maintain".into()).spawn(move || shared.run());
            // Without a thread nothing is sealed; everything can still be written and read.
            *thread = spawned.ok();
        }
    }
}

impl Drop for Maintenance {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.shared.woken.notify_all();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn run(&self) {
        while !self.stop.load(Ordering::SeqCst) {
            let wait = if self.look_after_all() { INTERVAL } else { AFTER_FAILURE };
            let streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
            if !self.stop.load(Ordering::SeqCst) {
                let _ = self.woken.wait_timeout(streams, wait).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// Does what there is to do; whether all went well.
    fn look_after_all(&self) -> bool {
        let streams = {
            let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
            streams.retain(|(stream, _)| stream.strong_count() > 0);
            streams.clone()
        };
        let mut is_well = true;
        for (stream, writer) in &streams {
            // Held one at a time, so that a stream that nobody uses any more is let go of soon.
            let (Some(stream), Some(writer)) = (stream.upgrade(), writer.upgrade()) else { continue };
            for space in &writer.spaces {
                is_well &= self.look_after(MaintenanceContext { stream: &stream, writer: &writer, space });
            }
        }
        is_well
    }

    /// Does what there is to do in one space; whether it went well.
    fn look_after(&self, context: MaintenanceContext<'_>) -> bool {
        let mut pace = Pace::in_background(&self.stop);
        loop {
            if self.stop.load(Ordering::SeqCst) || context.stream.is_deleted() {
                return true;
            }
            let worked = work(context, &mut pace);
            context.space.note_maintenance(worked.as_ref().err());
            match worked {
                Ok(true) => {}
                worked => return worked.is_ok(),
            }
        }
    }
}

/// One piece of work in a space; `false`: there is none.
fn work(context: MaintenanceContext<'_>, pace: &mut Pace<'_>) -> Result<bool, Error> {
    context.writer.check_lock()?;
    if context.space.number == 0 {
        retire(context.stream, context.writer)?;
    }
    let _maintenance = context.space.hold_maintenance();
    // Looked at while upkeep is held, which whoever changes the schema, deletes the stream or renames it stops first.
    if context.stream.is_outdated() || context.stream.is_deleted() {
        return Ok(false);
    }
    roll_if_due(context)?;
    Ok(seal_next(context, pace)?.is_some() || merge_next(context, pace)? || chill_next(context, pace)?)
}
