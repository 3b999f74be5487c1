//! The control socket: how the command line talks to the running host.

mod words;

pub use words::*;

/// Where the answer to one request goes. Dropping it tells the client that the host failed.
pub type ReplyTo = tokio::sync::oneshot::Sender<ControlReply>;

/// One request and where its answer goes; the pipeline receives these.
pub type Asked = (ControlRequest, ReplyTo);
