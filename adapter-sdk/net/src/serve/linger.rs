//! The ends of a connection: an unread request body, and a caller that does not read.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Bytes, HttpBody};
use hyper::body::{Frame, Incoming, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::time::{Instant, Sleep, sleep, timeout};

/// The maximum size of an unread body that is drained, so that its sender reads the response, in bytes.
const DRAIN_BYTES_MAX: usize = 32 * 1024 * 1024;
/// The time limit for draining.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest pause while draining: a body that never arrives holds its connection no longer.
const DRAIN_PAUSE: Duration = Duration::from_millis(500);
/// The longest time in which a caller may read nothing of a response.
const STALL_MAX: Duration = Duration::from_secs(60);

/// A request body. On drop the rest is drained, within limits: a connection closed with unread data is
/// reset, and its caller never sees the response.
pub(super) struct DrainingBody {
    body: Option<Incoming>,
    /// True if the caller waits for `100 Continue` and has sent nothing yet.
    waits: bool,
}

impl DrainingBody {
    pub(super) fn new(body: Incoming, waits: bool) -> Self {
        Self { body: Some(body), waits }
    }
}

impl HttpBody for DrainingBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        self.waits = false;
        match &mut self.body {
            Some(body) => Pin::new(body).poll_frame(cx),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map(HttpBody::size_hint).unwrap_or_default()
    }
}

impl Drop for DrainingBody {
    fn drop(&mut self) {
        let Some(body) = self.body.take().filter(|body| !self.waits && !body.is_end_stream()) else { return };
        if let Ok(runtime) = Handle::try_current() {
            // The task ends with its connection: the body of a closed connection has an error.
            runtime.spawn(timeout(DRAIN_TIMEOUT, drain(body)));
        }
    }
}

async fn drain(mut body: Incoming) {
    let mut left = DRAIN_BYTES_MAX;
    loop {
        let next = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx));
        let Ok(Some(Ok(frame))) = timeout(DRAIN_PAUSE, next).await else { return };
        let read = frame.data_ref().map_or(0, Bytes::len);
        match left.checked_sub(read) {
            Some(rest) => left = rest,
            None => return,
        }
    }
}

/// A stream on which a caller that reads nothing for too long is an error.
pub(super) struct StallGuard {
    stream: TcpStream,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl StallGuard {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self { stream, stalled: None }
    }

    fn watch<T>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.stalled = None;
            return polled;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(STALL_MAX)));
        ready!(stalled.as_mut().poll(cx));
        stalled.as_mut().reset(Instant::now() + STALL_MAX);
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for StallGuard {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for StallGuard {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.watch(cx, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, pieces);
        self.watch(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
