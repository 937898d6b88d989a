//! Lets tests of what is built on this crate play an encoder that is wrong. Nothing else uses it.

use std::cell::RefCell;

/// Changes the bytes of a block after encoding; receives whether it is the plain encoding.
type Fault = Box<dyn FnMut(bool, &mut Vec<u8>)>;

thread_local! {
    static FAULT: RefCell<Option<Fault>> = const { RefCell::new(None) };
}

/// Runs `work`. During it, `fault` receives each block that a [`SegmentWriter`](crate::SegmentWriter) encodes on this thread,
/// before it is proved, and may change it; the flag is whether it is the plain encoding.
pub fn with_fault<T>(fault: impl FnMut(bool, &mut Vec<u8>) + 'static, work: impl FnOnce() -> T) -> T {
    FAULT.set(Some(Box::new(fault)));
    let done = work();
    FAULT.set(None);
    done
}

/// Once for each block: next to nothing where no test is at work.
pub(crate) fn strike(is_plain: bool, block: &mut Vec<u8>) {
    FAULT.with_borrow_mut(|fault| {
        if let Some(fault) = fault {
            fault(is_plain, block);
        }
    });
}
