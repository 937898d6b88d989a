//! What a command prints and how far it is, for a command that runs without a terminal: a part of a server runs it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Characters that are kept of what is printed: the last ones.
const TEXT_MAX: usize = 64 << 10;

/// The output of a command, and its interruption.
#[derive(Debug, Default)]
pub struct Apart {
    pub(crate) interrupted: Arc<AtomicBool>,
    done: AtomicU64,
    total: AtomicU64,
    messages: AtomicU64,
    text: Mutex<String>,
}

/// How far a command is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Done {
    /// What is done of [`total`](Self::total).
    pub done: u64,
    /// The final value; 0: not known yet.
    pub total: u64,
    /// Messages so far.
    pub messages: u64,
}

impl Apart {
    /// Asks the command to stop, as Ctrl-C does.
    pub fn interrupt(&self) {
        self.interrupted.store(true, Ordering::Relaxed);
    }

    /// Whether it was asked to stop.
    pub fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// How far it is.
    pub fn done(&self) -> Done {
        let of = |number: &AtomicU64| number.load(Ordering::Relaxed);
        Done { done: of(&self.done), total: of(&self.total), messages: of(&self.messages) }
    }

    /// What it has printed: lines for people.
    pub fn text(&self) -> String {
        self.text.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn print(&self, text: &str) {
        let mut kept = self.text.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_str(text);
        if kept.len() > TEXT_MAX {
            let least = kept.len() - TEXT_MAX;
            let from = (least..kept.len()).find(|at| kept.is_char_boundary(*at)).unwrap_or(kept.len());
            kept.drain(..from);
        }
    }

    pub(crate) fn begin(&self, total: u64) {
        self.done.store(0, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
    }

    pub(crate) fn update(&self, done: u64, messages: u64) {
        self.done.store(done, Ordering::Relaxed);
        self.messages.store(messages, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_characters_are_kept() {
        let apart = Apart::default();
        apart.print("first\n");
        apart.print(&"é".repeat(TEXT_MAX));
        let text = apart.text();
        assert!(text.len() <= TEXT_MAX && text.chars().all(|letter| letter == 'é'));
        apart.begin(10);
        apart.update(3, 2);
        assert_eq!(apart.done(), Done { done: 3, total: 10, messages: 2 });
    }
}
