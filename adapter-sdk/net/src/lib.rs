//! HTTP for adapters: TLS, clients with deadlines, downloads, and a listener with limits.
//!
//! * [`tls`]: installs the crypto provider. Each library has its own copy of rustls, so
//!   each library installs it.
//! * [`client`]: builds the HTTP client, with deadlines and additional trusted
//!   certificates.
//! * [`error`]: network errors, with the distinction whether a failed request was sent.
//! * [`body`]: reads a response body with a limit.
//! * [`lenient`]: parses JSON with half a surrogate pair in it.
//! * [`fetch`]: downloads from untrusted addresses.
//! * [`retry_after`], [`backoff`]: delays before a retry.
//! * [`sse`]: parses server-sent events with limits.
//! * `ws`: websockets over the same client (feature `ws`).
//! * [`address`]: classifies addresses as public or internal.
//! * `serve`: an HTTP listener with limits (feature `serve`).
//! * [`proxy`]: proxies for outgoing connections.
//! * [`port`]: the error for a port that cannot be bound, with the process that holds it.
//!
//! Without the feature `client` only the parts without TLS remain, for adapters that serve
//! and never send requests.

#![forbid(unsafe_code)]

pub mod address;
pub mod backoff;
pub mod lenient;
pub mod port;
pub mod retry_after;
pub mod sse;

#[cfg(feature = "client")]
pub mod body;
#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "client")]
pub mod error;
#[cfg(feature = "client")]
pub mod fetch;
#[cfg(feature = "client")]
pub mod proxy;
#[cfg(feature = "serve")]
pub mod serve;
#[cfg(feature = "client")]
pub mod tls;
#[cfg(feature = "ws")]
pub mod ws;

#[cfg(feature = "client")]
pub use client::{ClientError, ClientOptions, http_client};
#[cfg(feature = "client")]
pub use error::NetError;
#[cfg(feature = "client")]
pub use proxy::ProxySettings;
#[cfg(feature = "client")]
pub use reqwest;
