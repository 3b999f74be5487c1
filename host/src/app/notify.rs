//! State reports to the service manager by the `sd_notify` protocol.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::App;

/// The socket of the service manager. Without one, reports are dropped.
#[derive(Debug, Default)]
pub struct Notify {
    socket: Option<(UnixDatagram, SocketAddr)>,
}

impl Notify {
    /// Connects to the socket that `NOTIFY_SOCKET` named when the configuration was read.
    pub fn new(address: Option<PathBuf>) -> Self {
        Self { socket: address.and_then(connect) }
    }

    /// Reports that the host accepts events.
    pub fn ready(&self) {
        self.say("READY=1\nSTATUS=online");
    }

    /// Reports that the host is ending.
    pub fn stopping(&self) {
        self.say("STOPPING=1\nSTATUS=draining");
    }

    /// Reports that the dispatcher makes progress.
    pub fn alive(&self) {
        self.say("WATCHDOG=1");
    }

    fn say(&self, words: &str) {
        if let Some((socket, address)) = &self.socket
            && let Err(error) = socket.send_to_addr(words.as_bytes(), address)
        {
            tracing::debug!(%error, "the service manager cannot be notified");
        }
    }
}

/// Returns the interval of watchdog reports: half of the requested one.
pub fn watchdog_every(asked_us: Option<&String>) -> Option<Duration> {
    let asked = asked_us?.parse().ok().filter(|asked| *asked > 0)?;
    Some(Duration::from_micros(asked) / 2)
}

/// Sends watchdog reports while the dispatcher makes progress.
pub async fn feed_watchdog(app: Arc<App>, notify: Arc<Notify>, every: Duration) {
    let mut tick = tokio::time::interval(every);
    loop {
        tick.tick().await;
        // The dispatcher has to answer. If it hangs, the service manager restarts the host.
        app.census().await;
        notify.alive();
    }
}

fn connect(address: PathBuf) -> Option<(UnixDatagram, SocketAddr)> {
    let bytes = address.as_os_str().as_bytes();
    let address = match bytes.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&address),
    };
    let socket = UnixDatagram::unbound().and_then(|socket| Ok((socket, address?)));
    socket.inspect_err(|error| tracing::warn!(%error, "NOTIFY_SOCKET cannot be used")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_manager_hears_every_word() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        let notify = Notify::new(Some(path));
        notify.ready();
        notify.stopping();
        let mut heard = [0; 64];
        let n = manager.recv(&mut heard).unwrap();
        assert!(heard[..n].starts_with(b"READY=1"));
        let n = manager.recv(&mut heard).unwrap();
        assert!(heard[..n].starts_with(b"STOPPING=1"));
    }

    #[test]
    fn a_sign_of_life_comes_twice_as_often_as_asked() {
        assert_eq!(watchdog_every(Some(&"30000000".to_owned())), Some(Duration::from_secs(15)));
        assert_eq!(watchdog_every(Some(&"0".to_owned())), None);
        assert_eq!(watchdog_every(None), None);
    }

    #[test]
    fn nobody_listening_is_no_failure() {
        Notify::new(None).ready();
        Notify::new(Some("/nowhere/notify".into())).ready();
    }
}
