//! Turns panics of decoders that others wrote into errors.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    /// Whether this thread is inside [`guarded`].
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Runs a decoder over bytes that may be damaged. Decoders of the `arrow` crates assert what they expect of their input; here such
/// a panic is an error with its message, and nothing is printed. The decoder must be dropped after that.
///
/// # Errors
/// The message of a panic.
pub fn guarded<T>(decode: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |info| {
            if !GUARDED.get() {
                before(info);
            }
        }));
    });
    let outer = GUARDED.replace(true);
    let result = catch_unwind(AssertUnwindSafe(decode));
    GUARDED.set(outer);
    result.map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a decoder panicked").to_string()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panics_are_errors_with_their_message() {
        assert_eq!(guarded(|| 7), Ok(7));
        let number = std::hint::black_box(5);
        assert_eq!(guarded(|| assert!(number < 5, "{number} is too large")), Err("5 is too large".into()));
        assert!(!GUARDED.get());
    }
}
