//! The name of the proxy in the errors of connections through it.
//!
//! reqwest asks for the proxy of an address while it starts to connect, on the
//! same thread. [`note`] keeps the answer there, and [`ProxyNameLayer`], a layer around
//! the connector, puts it into the error.

use std::cell::RefCell;
use std::pin::Pin;
use std::task::{Context, Poll};

use reqwest::Url;
use tower_layer::Layer;
use tower_service::Service;

use crate::error::{BoxError, ProxyError};

thread_local! {
    /// The proxy of the connection that this thread is about to start.
    static NEXT_PROXY: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Stores the proxy of the connection that is about to start on this thread.
pub(crate) fn note(proxy: &Url) {
    NEXT_PROXY.set(Some(super::authority(proxy)));
}

/// The layer that adds the name of the proxy to errors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProxyNameLayer;

impl<S> Layer<S> for ProxyNameLayer {
    type Service = NamingConnector<S>;

    fn layer(&self, inner: S) -> NamingConnector<S> {
        NamingConnector { inner }
    }
}

/// A connector whose errors name the proxy.
#[derive(Clone, Debug)]
pub(crate) struct NamingConnector<S> {
    inner: S,
}

impl<S, R> Service<R> for NamingConnector<S>
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
        NEXT_PROXY.take();
        let connecting = self.inner.call(request);
        let proxy = NEXT_PROXY.take();
        Box::pin(async move {
            connecting.await.map_err(|error| match proxy {
                Some(proxy) => ProxyError::new(&proxy, error).into(),
                None => error,
            })
        })
    }
}
