//! File descriptors that a child process inherited unintentionally.

/// The first descriptor after standard input, output and error.
const FIRST: libc::c_uint = 3;

/// Closes every descriptor except standard input, output and error.
///
/// Must be called before the process opens files: it also closes descriptors in use.
///
/// # Errors
///
/// The error of the kernel. Linux has the call since 5.9.
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
