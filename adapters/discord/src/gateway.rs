//! The gateway: one connection of one shard, from its start to its end.
//!
//! The connection receives hello, resumes or identifies (`handshake`), sends the heartbeat and returns the received
//! events in order (`payload`). This module has no knowledge of messages. The meaning of close codes is decided in
//! `disconnect` only. <https://docs.discord.com/developers/events/gateway>

mod disconnect;
mod handshake;
mod payload;

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use hermes_adapter_net::ws::Socket;
use hermes_adapter_sdk::tokio::time::Instant;
use serde_json::json;

pub(crate) use disconnect::Disconnect;
use handshake::Established;
pub(crate) use handshake::{Session, ShardOptions};
pub(crate) use payload::Dispatch;
use payload::{op, read_payload};

/// A close code other than 1000 and 1001, which would end the session.
/// <https://docs.discord.com/developers/events/gateway#initiating-a-disconnect>
const CLOSE_TO_RESUME: u16 = 4900;

/// An open connection.
pub(crate) struct Shard {
    socket: Socket,
    /// The session, once it is established; the caller moves its `seq` after emitting events.
    pub session: Session,
    /// The sequence number of the last received event.
    received: u64,
    /// The interval of the heartbeat.
    interval: Duration,
    next_heartbeat: Instant,
    /// True if the gateway has answered the last heartbeat.
    acknowledged: bool,
    /// The event that established the session, until it is returned.
    first_event: Option<Dispatch>,
}

/// The next message of a shard.
pub(crate) enum ShardEvent {
    /// An event.
    Dispatch(Dispatch),
    /// The other side is alive.
    Alive,
}

impl Shard {
    /// Connects and resumes `session`, or starts a new one.
    pub(crate) async fn open(options: &ShardOptions<'_>, session: Option<Session>) -> Result<Self, Disconnect> {
        let Established { socket, session, interval, first_event } = handshake::establish(options, session).await?;
        Ok(Self {
            socket,
            received: first_event.seq,
            session,
            interval,
            // <https://docs.discord.com/developers/events/gateway#heartbeat-interval>
            next_heartbeat: Instant::now() + interval.mul_f64(random_fraction()),
            acknowledged: true,
            first_event: Some(first_event),
        })
    }

    /// Waits for the next message and sends the heartbeat; if `reads` is false only the latter. Cancel safe.
    pub(crate) async fn next(&mut self, reads: bool) -> Result<ShardEvent, Disconnect> {
        if !reads {
            return self.heartbeat_only().await;
        }
        if let Some(dispatch) = self.first_event.take() {
            return Ok(ShardEvent::Dispatch(dispatch));
        }
        loop {
            let payload = tokio::select! {
                payload = read_payload(&mut self.socket) => payload?,
                () = tokio::time::sleep_until(self.next_heartbeat) => {
                    self.heartbeat().await?;
                    continue;
                }
            };
            match payload.op {
                op::DISPATCH => {
                    let Some(dispatch) = payload.into_dispatch() else { continue };
                    self.received = dispatch.seq;
                    return Ok(ShardEvent::Dispatch(dispatch));
                }
                op::HEARTBEAT => self.send_heartbeat().await?,
                op::HEARTBEAT_ACK => {
                    self.acknowledged = true;
                    return Ok(ShardEvent::Alive);
                }
                op::RECONNECT => {
                    return self.close_to_resume("the gateway requested a reconnect").await;
                }
                op::INVALID_SESSION if payload.d.as_bool() == Some(true) => {
                    return self.close_to_resume("the gateway requested a resume").await;
                }
                op::INVALID_SESSION => {
                    return Err(Disconnect::SessionEnded("the gateway ended the session".to_owned()));
                }
                _ => {}
            }
        }
    }

    /// Sends the heartbeat without reading: the acknowledgements are behind unread messages.
    async fn heartbeat_only<T>(&mut self) -> Result<T, Disconnect> {
        loop {
            tokio::time::sleep_until(self.next_heartbeat).await;
            self.acknowledged = true;
            self.heartbeat().await?;
        }
    }

    async fn heartbeat(&mut self) -> Result<(), Disconnect> {
        if !std::mem::replace(&mut self.acknowledged, false) {
            // <https://docs.discord.com/developers/events/gateway#heartbeat-interval-example-heartbeat-ack>
            return self.close_to_resume("the gateway did not answer the heartbeat").await;
        }
        self.next_heartbeat = Instant::now() + self.interval;
        self.send_heartbeat().await
    }

    async fn send_heartbeat(&mut self) -> Result<(), Disconnect> {
        let heartbeat = json!({ "op": op::HEARTBEAT, "d": self.received }).to_string();
        self.socket.send(heartbeat).await.map_err(|error| Disconnect::interrupted(&error))
    }

    /// Closes the connection so that the session can be resumed.
    async fn close_to_resume<T>(&mut self, why: &'static str) -> Result<T, Disconnect> {
        // The connection is abandoned in any case.
        let _ = self.socket.close(CLOSE_TO_RESUME, "resuming").await;
        Err(Disconnect::Resumable(why.to_owned()))
    }
}

/// Returns a random number from 0 to 1, to spread the waits of many clients.
fn random_fraction() -> f64 {
    f64::from(u32::try_from(RandomState::new().hash_one(0_u8) >> 32).unwrap_or_default()) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fraction_lies_between_nothing_and_one() {
        assert!((0..1000).map(|_| random_fraction()).all(|share| (0.0..=1.0).contains(&share)));
    }
}
