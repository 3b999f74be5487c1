//! The number of pages that listen to the stream, and its limit.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The maximum number of pages that listen at the same time.
const STREAMS_MAX: usize = 32;

/// The number of listening pages.
static STREAMS: AtomicUsize = AtomicUsize::new(0);

/// Returns whether any page is open.
pub(crate) fn has_listeners() -> bool {
    STREAMS.load(Ordering::SeqCst) > 0
}

pub(crate) struct StreamSlot;

impl StreamSlot {
    pub(crate) fn take() -> Option<Self> {
        let taken = STREAMS.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| (n < STREAMS_MAX).then_some(n + 1));
        taken.ok().map(|_| Self)
    }
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        STREAMS.fetch_sub(1, Ordering::SeqCst);
    }
}
