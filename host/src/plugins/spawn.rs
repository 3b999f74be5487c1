//! Children, started from one thread that lives as long as the host.
//!
//! The kernel sends the parent-death signal when the *thread* that started a
//! child ends, so no worker thread of a runtime may start one.

use std::{
    process::{Child, Command},
    sync::{OnceLock, mpsc},
};

use hermes_agent::tools::children;
use tokio::sync::oneshot;

/// Children that wait to be started.
const QUEUE_MAX: usize = 256;

struct Order {
    command: Command,
    done: oneshot::Sender<std::io::Result<Child>>,
}

/// Starts a child.
pub(super) async fn spawn(command: Command) -> std::io::Result<Child> {
    static THREAD: OnceLock<Option<mpsc::SyncSender<Order>>> = OnceLock::new();
    let orders = THREAD.get_or_init(|| {
        let (orders, taken) = mpsc::sync_channel::<Order>(QUEUE_MAX);
        let thread = std::thread::Builder::new().name("children".to_owned()).spawn(move || {
            for Order { mut command, done } in taken {
                if let Err(Ok(mut unwanted)) = done.send(children::spawn(|| command.spawn(), |child| Some(child.id())))
                {
                    // Whoever ordered it has given up. A child that is already gone cannot be killed.
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
