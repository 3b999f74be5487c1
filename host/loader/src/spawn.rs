//! Child processes, started from one thread that exists as long as the host.
//!
//! The kernel sends the parent-death signal when the *thread* that started a child ends, so a worker thread of the
//! runtime must not start one.

use std::{
    process::{Child, Command},
    sync::{OnceLock, mpsc},
};

use hermes_system::children;
use tokio::sync::oneshot;

/// Children that may wait to be started.
const QUEUE_MAX: usize = 256;

struct Order {
    command: Command,
    done: oneshot::Sender<std::io::Result<Child>>,
}

/// Starts a child process.
pub(super) async fn spawn(command: Command) -> std::io::Result<Child> {
    static THREAD: OnceLock<Option<mpsc::SyncSender<Order>>> = OnceLock::new();
    let orders = THREAD.get_or_init(|| {
        let (orders, taken) = mpsc::sync_channel::<Order>(QUEUE_MAX);
        let thread = std::thread::Builder::new().name("children".to_owned()).spawn(move || {
            for Order { mut command, done } in taken {
                if let Err(Ok(mut unwanted)) = done.send(children::spawn(|| command.spawn(), |child| Some(child.id())))
                {
                    // The caller has given up. The error for a child that is already gone is expected.
                    let _ = unwanted.kill();
                    let _ = unwanted.wait();
                }
            }
        });
        thread.is_ok().then_some(orders)
    });
    let unavailable = || std::io::Error::other("the thread that starts children cannot be reached");
    let orders = orders.as_ref().ok_or_else(unavailable)?;
    let (done, started) = oneshot::channel();
    orders.try_send(Order { command, done }).map_err(|_| unavailable())?;
    started.await.map_err(|_| unavailable())?
}
