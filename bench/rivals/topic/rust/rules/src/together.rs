//! One publisher and one subscriber, each on a thread and a core of its own.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use crate::medium::{Failure, Medium, Publish};

/// How long a publisher waits for its subscriber.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// For the first poll of a subscriber that is there: iceoryx2 drops what its buffer cannot hold until then.
const SETTLE: Duration = Duration::from_millis(50);

/// Runs `publish` and `subscribe` at the same time, once both ends know each other; returns what `subscribe` found.
///
/// When either fails the program ends, as the other may wait for it for good.
pub fn together<M: Medium, T: Send, const N: usize>(
    medium: &M,
    publish: impl FnOnce(&mut M::Publisher<N>) -> Result<(), Failure> + Send,
    subscribe: impl FnOnce(&mut M::Subscriber<N>) -> Result<T, Failure> + Send,
) -> T {
    let is_subscribed = Barrier::new(2);
    let is_over = Barrier::new(2);
    thread::scope(|scope| {
        scope.spawn(|| {
            or_exit(|| {
                is_subscribed.wait();
                // Before pinning, as threads of the rival's own would be pinned along.
                let mut publisher = medium.publisher()?;
                pin(0)?;
                connect(&publisher)?;
                publish(&mut publisher)?;
                // Closed when the subscriber has all, as closing may take back what it has not read yet.
                is_over.wait();
                Ok(())
            })
        });
        let subscriber = scope.spawn(|| {
            or_exit(|| {
                let mut subscriber = medium.subscriber()?;
                pin(1)?;
                is_subscribed.wait();
                let found = subscribe(&mut subscriber)?;
                is_over.wait();
                Ok(found)
            })
        });
        subscriber.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Publishes, waiting for room.
#[inline]
pub fn publish<const N: usize>(publisher: &mut impl Publish<N>, message: &[u64; N]) -> Result<(), Failure> {
    while !publisher.publish(message)? {
        std::hint::spin_loop();
    }
    Ok(())
}

/// Binds this thread to a core, by its number among those that it may use.
pub fn pin(at: usize) -> Result<(), Failure> {
    let cores = core_affinity::get_core_ids().ok_or("the cores are not known")?;
    let core = cores.get(at).ok_or("two cores are needed")?;
    core_affinity::set_for_current(*core).then_some(()).ok_or_else(|| "pinning to a core failed".into())
}

/// Waits until a subscriber is there.
pub fn connect<const N: usize>(publisher: &impl Publish<N>) -> Result<(), Failure> {
    let started = Instant::now();
    while !publisher.is_connected() {
        if started.elapsed() > CONNECT_MAX {
            return Err(format!("no subscriber within {CONNECT_MAX:?}").into());
        }
        thread::sleep(Duration::from_millis(1));
    }
    thread::sleep(SETTLE);
    Ok(())
}

fn or_exit<T>(work: impl FnOnce() -> Result<T, Failure>) -> T {
    work().unwrap_or_else(|error| {
        eprintln!("{error}");
        std::process::exit(1)
    })
}
