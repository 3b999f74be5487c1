//! Freed memory that the allocator has not returned to the system yet.

/// Returns free memory of the process to the system. May take some milliseconds.
///
/// The allocator keeps freed pages between used ones. After a load peak that is most of them.
pub fn give_back() {
    // SAFETY: the call takes the allocator's own locks and touches pages that hold no allocation.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}
