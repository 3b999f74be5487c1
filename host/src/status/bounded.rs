//! A listener whose connections are few and short: a flood or a client that
//! reads one byte an hour costs a bounded number of places for a bounded time.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep};

/// How long accepting rests after the system refused (too many open files).
const ACCEPT_REST: Duration = Duration::from_millis(100);

/// A TCP listener with places. Who finds none waits in the kernel's queue.
pub struct Bounded {
    inner: TcpListener,
    places: Arc<Semaphore>,
    head: Duration,
    life: Duration,
}

impl Bounded {
    /// At most `clients_max` connections at once: each for `head` until it is first answered, and for `life` from then on.
    pub fn new(inner: TcpListener, clients_max: usize, head: Duration, life: Duration) -> Self {
        Self { inner, places: Arc::new(Semaphore::new(clients_max)), head, life }
    }
}

impl Listener for Bounded {
    type Io = Mortal;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Mortal, SocketAddr) {
        let place = Arc::clone(&self.places).acquire_owned().await.expect("the semaphore is never closed");
        loop {
            match self.inner.accept().await {
                Ok((stream, peer)) => {
                    let end = Box::pin(tokio::time::sleep(self.head));
                    return (Mortal { stream, end, life: Some(self.life), _place: place }, peer);
                }
                Err(error) => {
                    tracing::warn!(%error, "the status listener cannot accept");
                    tokio::time::sleep(ACCEPT_REST).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }
}

/// A connection that ends by itself.
pub struct Mortal {
    stream: TcpStream,
    end: Pin<Box<Sleep>>,
    /// How long it lives from its first answer on, until there is one.
    life: Option<Duration>,
    _place: OwnedSemaphorePermit,
}

impl Mortal {
    fn alive(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        match self.end.as_mut().poll(cx) {
            Poll::Ready(()) => Err(io::ErrorKind::TimedOut.into()),
            Poll::Pending => Ok(()),
        }
    }
}

impl AsyncRead for Mortal {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.alive(cx)?;
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Mortal {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.alive(cx)?;
        if let Some(life) = self.life.take() {
            self.end.as_mut().reset(Instant::now() + life);
        }
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.alive(cx)?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Who is at the other end.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub SocketAddr);

impl Connected<IncomingStream<'_, Bounded>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Bounded>) -> Self {
        Self(*stream.remote_addr())
    }
}
