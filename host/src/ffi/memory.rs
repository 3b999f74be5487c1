//! Memory that is free in the process and not yet to the machine.

/// Gives the free memory of the process back to the machine. May take some milliseconds.
///
/// The C library keeps what was freed between what is still held, which after a crowd is nearly all of it.
pub fn give_back() {
    // SAFETY: the call takes the allocator's own locks and touches pages that hold no allocation.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}
