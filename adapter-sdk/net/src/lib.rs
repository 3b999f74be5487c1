//! What every adapter that speaks HTTP needs once: TLS, a client, and manners.
//!
//! * [`tls`]: installs the one crypto provider. Each library has its own copy of
//!   that switch, so each library has to throw it.
//! * [`client`]: builds the HTTP client, with deadlines and extra trust.
//! * [`error`]: whether a request that failed was certainly not sent.
//! * [`body`]: reads an answer up to a limit.
//! * [`lenient`]: JSON with half a character in it.
//! * [`fetch`]: fetches what a stranger named, without being led astray.
//! * [`retry_after`], [`backoff`]: how long to wait.
//! * [`sse`]: reads server-sent events with bounds.
//! * `ws`: websockets over the same client (feature `ws`).
//! * [`address`]: which addresses belong to the public network.
//! * `serve`: HTTP on a port of one's own, with bounds (feature `serve`).
//! * [`proxy`]: proxies for outgoing connections.
//! * [`port`]: a port that cannot be had, and who has it.
//!
//! Without the feature `client` only what needs no TLS is left, for adapters
//! that serve and never call.

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
