//! Descriptors that a child of the host inherited by accident.

/// The first descriptor after standard input, output and error.
const FIRST: libc::c_uint = 3;

/// Closes every descriptor except standard input, output and error.
///
/// Call this first in a process: a descriptor that is already in use is closed as well.
///
/// # Errors
///
/// The kernel's refusal. Linux has the call since 5.9.
pub fn close_inherited() -> rustix::io::Result<()> {
    // SAFETY: it takes numbers only. The runner calls it before it opens a file, so nothing of this process owns one
    // of these descriptors.
    let failed = unsafe { libc::close_range(FIRST, libc::c_uint::MAX, 0) };
    if failed == 0 {
        return Ok(());
    }
    let code = std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
    Err(rustix::io::Errno::from_raw_os_error(code))
}
