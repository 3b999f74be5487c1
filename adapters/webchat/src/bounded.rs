//! A listener that keeps so many connections and no silent ones.
//!
//! Any site in the operator's browser can open connections to loopback, even if it
//! gets nothing through them. What is over the bound waits, and a connection on which
//! nothing is read or written for a while ends; a page that listens is spoken to more
//! often than that.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep};

/// A bounded listener.
pub(crate) struct Bounded {
    listener: TcpListener,
    seats: Arc<Semaphore>,
    idle_max: Duration,
}

impl Bounded {
    pub(crate) fn new(listener: TcpListener, connections_max: usize, idle_max: Duration) -> Self {
        Self { listener, seats: Arc::new(Semaphore::new(connections_max)), idle_max }
    }
}

impl Listener for Bounded {
    type Io = Seated;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        let seat = Arc::clone(&self.seats).acquire_owned().await.expect("the seats are never closed");
        let (stream, address) = Listener::accept(&mut self.listener).await;
        let idle = Box::pin(sleep(self.idle_max));
        (Seated { stream, idle, idle_max: self.idle_max, _seat: seat }, address)
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

/// A connection that has a seat.
pub(crate) struct Seated {
    stream: TcpStream,
    idle: Pin<Box<Sleep>>,
    idle_max: Duration,
    _seat: OwnedSemaphorePermit,
}

impl Seated {
    /// Passes on what happened; nothing for too long is an error.
    fn watch<T>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            let deadline = Instant::now() + self.idle_max;
            self.idle.as_mut().reset(deadline);
            return polled;
        }
        match self.idle.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Seated {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.watch(cx, polled)
    }
}

impl AsyncWrite for Seated {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.watch(cx, polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async { tokio::time::timeout(Duration::from_secs(10), test).await.expect("in time") });
    }

    async fn bounded(connections_max: usize, idle_ms: u64) -> (Bounded, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        (Bounded::new(listener, connections_max, Duration::from_millis(idle_ms)), address)
    }

    #[test]
    fn a_silent_connection_ends() {
        run(async {
            let (mut listener, address) = bounded(1, 20).await;
            let _silent = TcpStream::connect(address).await.expect("it connects");
            let (mut seated, _) = listener.accept().await;
            let error = seated.read(&mut [0; 8]).await.expect_err("nothing comes");
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        });
    }

    #[test]
    fn a_connection_too_many_waits_for_a_seat() {
        run(async {
            let (mut listener, address) = bounded(1, 60_000).await;
            let (_one, _two) = (TcpStream::connect(address).await, TcpStream::connect(address).await);
            let (first, _) = listener.accept().await;
            assert_eq!(listener.seats.available_permits(), 0);
            let waiting = tokio::spawn(async move { listener.accept().await });
            tokio::task::yield_now().await;
            assert!(!waiting.is_finished());
            drop(first);
            assert!(waiting.await.is_ok());
        });
    }
}
