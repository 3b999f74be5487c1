//! Deliveries of Slack, and their acknowledgement.

use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

/// The kind of a delivery's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeliveryKind {
    /// An event of the Events API.
    Event,
    /// A slash command.
    SlashCommand,
    /// A press of a button.
    Button,
}

/// The means to acknowledge a delivery.
#[derive(Debug)]
pub(crate) enum Ack {
    /// By its envelope id, on the socket of the delivery.
    Socket(mpsc::Sender<String>, String),
    /// By the response to its request.
    Request(oneshot::Sender<()>),
}

impl Ack {
    /// Acknowledges the delivery.
    pub(crate) async fn send(self) {
        match self {
            // A closed socket cannot be used; Slack repeats the delivery, which is then known.
            Self::Socket(socket, envelope) => drop(socket.send(envelope).await),
            // The same applies to a request that has ended.
            Self::Request(response) => drop(response.send(())),
        }
    }
}

/// One delivery.
#[derive(Debug)]
pub(crate) struct Delivery {
    pub kind: DeliveryKind,
    pub payload: Value,
    pub ack: Ack,
}
