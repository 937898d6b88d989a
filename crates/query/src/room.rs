//! Room on the stack for long queries: their operators are nested as deeply as there are operators in a row, and planning descends into
//! them.

use std::panic::resume_unwind;
use std::thread;

/// Shorter texts cannot be deep.
const BYTES_SHORT: usize = 256;

/// Bytes of the stack for longer ones. They are used as far as they are needed.
const STACK_BYTES: usize = 512 << 20;

/// Bytes of the stacks of threads that compute, which descend into plans.
pub(crate) const WORKER_STACK_BYTES: usize = 32 << 20;

/// Works on a text in a thread with enough room.
pub(crate) fn with_room<T: Send>(text: &str, work: impl FnOnce() -> T + Send) -> T {
    if text.len() <= BYTES_SHORT {
        return work();
    }
    thread::scope(|scope| {
        let builder = thread::Builder::new().name("tapedb-plan".into()).stack_size(STACK_BYTES);
        match builder.spawn_scoped(scope, work) {
            Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
            Err(error) => panic!("no thread can be started: {error}"),
        }
    })
}
