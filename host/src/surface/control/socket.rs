//! The location of the socket, and the way to reach it with a long home path.
//!
//! The address of a Unix socket holds 107 bytes. A home path may be longer, so the socket is reached through the opened
//! folder (`/proc/self/fd/N/host.sock`). The socket is always in the home.

use std::fs::{File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixStream};

/// Name of the socket in the home folder.
pub const FILE_NAME: &str = "host.sock";

/// The longest path in an address without its terminating zero, in bytes.
const ADDRESS_BYTES_MAX: usize = 107;

/// Binds the socket of `home`. The caller holds `host.lock`, so an existing socket is stale.
///
/// # Errors
///
/// A file of the same name is not a socket, or the system refuses.
pub fn bind(home: &Path) -> io::Result<UnixListener> {
    let path = home.join(FILE_NAME);
    match std::fs::symlink_metadata(&path) {
        Ok(meta) if meta.file_type().is_socket() => std::fs::remove_file(&path)?,
        Ok(_) => {
            let message = format!("{} is not a socket; move it away", path.display());
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, message));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let listener = reach(home, |path| UnixListener::bind(path))?;
    std::fs::set_permissions(&path, Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Connects to the socket of `home`.
///
/// # Errors
///
/// The error of the system; `NotFound` and `ConnectionRefused` mean that no host runs there.
pub fn connect(home: &Path) -> io::Result<UnixStream> {
    // A connect to a local socket does not wait.
    let stream = reach(home, std::os::unix::net::UnixStream::connect)?;
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}

/// Removes the socket, as part of a planned stop.
pub fn remove(home: &Path) {
    // A socket that stays is removed by the next start.
    let _ = std::fs::remove_file(home.join(FILE_NAME));
}

fn reach<T>(home: &Path, open: impl FnOnce(PathBuf) -> io::Result<T>) -> io::Result<T> {
    let path = home.join(FILE_NAME);
    if path.as_os_str().len() <= ADDRESS_BYTES_MAX {
        return open(path);
    }
    let folder = File::open(home)?;
    open(PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(FILE_NAME))
}
