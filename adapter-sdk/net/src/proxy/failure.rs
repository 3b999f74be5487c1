//! The name of the proxy in the errors of connections through it.
//!
//! reqwest asks for the proxy of an address while it starts to connect, on the
//! same thread. [`note`] keeps the answer there, and [`NameProxy`], a layer around
//! the connector, puts it into the error.

use std::cell::RefCell;
use std::error::Error;
use std::io::ErrorKind;
use std::pin::Pin;
use std::task::{Context, Poll};

use reqwest::Url;
use tower_layer::Layer;
use tower_service::Service;

thread_local! {
    /// The proxy of the connection that this thread is about to start.
    static ASKED: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Stores the proxy of the connection that is about to start on this thread.
pub(crate) fn note(proxy: &Url) {
    ASKED.set(Some(super::authority(proxy)));
}

type BoxError = Box<dyn Error + Send + Sync>;

/// The failure of a connection through a proxy.
#[derive(Debug, thiserror::Error)]
#[error("{sentence}")]
pub(crate) struct ProxyFailed {
    sentence: String,
    #[source]
    source: BoxError,
}

impl ProxyFailed {
    fn new(proxy: &str, source: BoxError) -> Self {
        let sentence = match why(&*source) {
            Some(why) => format!("proxy {proxy} {why}"),
            None => format!("proxy {proxy}: {}", crate::error::sentence(&*source)),
        };
        Self { sentence, source }
    }
}

/// Returns the reason why the connection to the proxy failed, if it is a known one.
fn why(error: &(dyn Error + 'static)) -> Option<&'static str> {
    let mut next = Some(error);
    while let Some(cause) = next {
        if let Some(io) = cause.downcast_ref::<std::io::Error>() {
            match io.kind() {
                ErrorKind::ConnectionRefused => return Some("refused the connection"),
                ErrorKind::TimedOut => return Some("did not answer in time"),
                ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof => return Some("closed the connection"),
                _ => {}
            }
        }
        next = cause.source();
    }
    // These errors are private to the client library and do not pass on their cause.
    let text = crate::error::sentence(error);
    if text.contains("error resolving for socks proxy") {
        return Some(
            "was not used: the name of the server has no address here; use socks5h:// to resolve names at the proxy",
        );
    }
    if text.contains("dns error") {
        return Some("cannot be found: its name has no address");
    }
    if text.contains("authorization required") || text.contains("auth failed") || text.contains("No acceptable") {
        return Some("rejected the credentials; set them as scheme://user:password@host:port");
    }
    if text.contains("tunnel error: unsuccessful") {
        return Some("refused to connect to the server");
    }
    if text.contains("SOCKS error: failed to create underlying connection") {
        let refused = format!("{error:?}").contains("ConnectionRefused");
        return Some(if refused { "refused the connection" } else { "cannot be reached" });
    }
    None
}

/// The layer that adds the name of the proxy to errors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NameProxy;

impl<S> Layer<S> for NameProxy {
    type Service = Named<S>;

    fn layer(&self, inner: S) -> Named<S> {
        Named { inner }
    }
}

/// A connector whose errors name the proxy.
#[derive(Clone, Debug)]
pub(crate) struct Named<S> {
    inner: S,
}

impl<S, R> Service<R> for Named<S>
where
    S: Service<R, Error = BoxError>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: R) -> Self::Future {
        ASKED.take();
        let connecting = self.inner.call(request);
        let proxy = ASKED.take();
        Box::pin(async move {
            connecting.await.map_err(|error| match proxy {
                Some(proxy) => ProxyFailed::new(&proxy, error).into(),
                None => error,
            })
        })
    }
}
