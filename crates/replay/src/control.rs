//! Commands to a replay while it runs.

use crate::speed::Speed;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tapedb_schema::Timestamp;

/// Commands that may wait.
const COMMANDS_MAX: usize = 1024;

/// A command to a replay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Command {
    /// Stop the clock.
    Pause,
    /// Let it go on.
    Resume,
    /// Go at another speed; a replay that is paused stays so.
    Speed(Speed),
    /// Pause, and deliver so many messages at once, or those that are left. Later commands wait until this is done.
    Step(u64),
    /// Go on with the first message at or after this time.
    Seek(Timestamp),
    /// End: what is delivered stays so.
    Stop,
}

/// Sends commands to a replay, from any thread. Clones control the same replay.
#[derive(Debug, Clone, Default)]
pub struct Control(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// Whether the queue has anything for the player; read for each message.
    is_asked: AtomicBool,
    asked: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    commands: VecDeque<Command>,
    is_stopped: bool,
    is_closed: bool,
}

impl Control {
    /// Sends a command. The replay obeys before it delivers its next message, one command after another, in the order in which they
    /// were sent. `false`: 1,024 commands wait already, and this one is not among them.
    pub fn ask(&self, command: Command) -> bool {
        self.change(|queue| {
            let has_space = queue.commands.len() < COMMANDS_MAX;
            if has_space {
                queue.commands.push_back(command);
            }
            has_space
        })
    }

    /// Ends the replay before its next message, whatever commands wait.
    pub fn stop_now(&self) {
        self.change(|queue| queue.is_stopped = true);
    }

    /// No more commands will be sent: a replay that pauses then ends, since nothing would let it go on.
    pub fn close(&self) {
        self.change(|queue| queue.is_closed = true);
    }

    /// The next command; while `has_steps`, only that to stop now.
    pub(crate) fn next(&self, has_steps: bool) -> Option<Command> {
        if !self.is_asked() {
            return None;
        }
        let mut queue = self.queue();
        if queue.is_stopped {
            return Some(Command::Stop);
        }
        let command = if has_steps { None } else { queue.commands.pop_front() };
        self.0.is_asked.store(!queue.commands.is_empty(), Ordering::Release);
        command
    }

    /// Whether a command waits.
    #[inline]
    pub(crate) fn is_asked(&self) -> bool {
        self.0.is_asked.load(Ordering::Acquire)
    }

    /// Sleeps until the instant, or until a command waits.
    pub(crate) fn sleep_until(&self, until: Instant) {
        let mut queue = self.queue();
        while !queue.has_any() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            queue = self.0.asked.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Sleeps until a command waits; `false`: none will come.
    pub(crate) fn sleep(&self) -> bool {
        let mut queue = self.queue();
        while !queue.has_any() && !queue.is_closed {
            queue = self.0.asked.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        queue.has_any()
    }

    fn change<T>(&self, change: impl FnOnce(&mut Queue) -> T) -> T {
        let mut queue = self.queue();
        let result = change(&mut queue);
        self.0.is_asked.store(queue.has_any(), Ordering::Release);
        self.0.asked.notify_all();
        result
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    fn has_any(&self) -> bool {
        self.is_stopped || !self.commands.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_obeyed_in_their_order_and_a_stop_at_once() {
        let control = Control::default();
        assert!(control.ask(Command::Step(2)) && control.ask(Command::Resume));
        assert!(control.sleep());
        assert_eq!(control.next(false), Some(Command::Step(2)));
        assert_eq!((control.next(true), control.is_asked()), (None, true));
        control.stop_now();
        assert_eq!([control.next(true), control.next(false)], [Some(Command::Stop); 2]);
    }

    #[test]
    fn a_full_queue_takes_no_more_and_a_closed_one_has_no_sleepers() {
        let control = Control::default();
        (0..COMMANDS_MAX).for_each(|_| assert!(control.ask(Command::Pause)));
        assert!(!control.ask(Command::Pause));
        control.close();
        (0..COMMANDS_MAX).for_each(|_| assert_eq!(control.next(false), Some(Command::Pause)));
        assert!(!control.is_asked() && !control.sleep());
        assert!(control.ask(Command::Resume) && control.sleep());
    }
}
