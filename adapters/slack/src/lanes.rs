//! What was delivered: in order for each channel, and side by side for different ones, so that what one of them waits
//! for holds up no other.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;

use futures_util::stream::{FuturesUnordered, StreamExt};
use hermes_adapter_sdk::prelude::*;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use crate::inbound;

/// Deliveries that are handled or wait; then no socket is read.
const WAITING_MAX: usize = 256;

/// What kind of payload was delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The Events API.
    Event,
    /// A slash command.
    Slash,
    /// A button.
    Interactive,
}

/// How a delivery is acknowledged.
#[derive(Debug)]
pub enum Ack {
    /// By its envelope, on the socket that it came from.
    Socket(mpsc::Sender<String>, String),
    /// By the answer to its request.
    Request(oneshot::Sender<()>),
}

impl Ack {
    /// Tells Slack that it is taken.
    pub async fn say(self) {
        match self {
            // A socket that is gone cannot be told; the delivery comes again and is known then.
            Self::Socket(to, envelope) => drop(to.send(envelope).await),
            // Nor can a request that has ended.
            Self::Request(to) => drop(to.send(())),
        }
    }
}

/// One delivery.
#[derive(Debug)]
pub struct Delivery {
    pub kind: Kind,
    pub payload: Value,
    pub ack: Ack,
}

/// The way into the lanes.
#[derive(Clone, Debug)]
pub struct Lanes(mpsc::Sender<Delivery>);

impl Lanes {
    /// Lanes, and what comes into them.
    pub fn new() -> (Self, mpsc::Receiver<Delivery>) {
        let (into, from) = mpsc::channel(1);
        (Self(into), from)
    }

    /// Puts a delivery behind those of its channel; waits while there are too many. `false` when the link is closed.
    pub async fn put(&self, delivery: Delivery) -> bool {
        self.0.send(delivery).await.is_ok()
    }
}

/// What waits in each channel of which something is being handled.
#[derive(Default)]
struct Waiting(BTreeMap<String, VecDeque<Delivery>>);

impl Waiting {
    /// A delivery comes in; `Some`: nothing of its channel is being handled, and it may be.
    fn enter(&mut self, delivery: Delivery) -> Option<(String, Delivery)> {
        let channel = inbound::channel(&delivery.payload);
        match self.0.get_mut(channel) {
            Some(behind) => {
                behind.push_back(delivery);
                None
            }
            None => {
                self.0.insert(channel.to_owned(), VecDeque::new());
                Some((channel.to_owned(), delivery))
            }
        }
    }

    /// What was handled of a channel is done; the next of it, if there is one.
    fn next(&mut self, channel: String) -> Option<(String, Delivery)> {
        match self.0.get_mut(&channel).and_then(VecDeque::pop_front) {
            Some(delivery) => Some((channel, delivery)),
            None => {
                self.0.remove(&channel);
                None
            }
        }
    }
}

/// Hands what comes in to `take`. Ends only with its first error.
pub async fn work<T: Future<Output = Result<(), ConnectError>>>(
    mut from: mpsc::Receiver<Delivery>,
    take: impl Fn(Delivery) -> T,
) -> Result<(), ConnectError> {
    let start = |(channel, delivery): (String, Delivery)| {
        let taken = take(delivery);
        async move { (channel, taken.await) }
    };
    let (mut waiting, mut count) = (Waiting::default(), 0);
    let mut taking = FuturesUnordered::new();
    loop {
        tokio::select! {
            Some((channel, taken)) = taking.next() => {
                taken?;
                count -= 1;
                taking.extend(waiting.next(channel).map(start));
            }
            Some(delivery) = from.recv(), if count < WAITING_MAX => {
                count += 1;
                taking.extend(waiting.enter(delivery).map(start));
            }
            // The ways into it are closed with the link.
            else => return std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use serde_json::json;

    use super::*;

    fn delivery(channel: &str, n: u32) -> Delivery {
        let payload = json!({ "event": { "channel": channel, "n": n } });
        Delivery { kind: Kind::Event, payload, ack: Ack::Request(oneshot::channel().0) }
    }

    #[tokio::test]
    async fn what_one_channel_waits_for_holds_up_no_other_and_each_stays_in_order() {
        let (lanes, from) = Lanes::new();
        let (go, wait) = oneshot::channel::<()>();
        let (wait, taken) = (Arc::new(tokio::sync::Mutex::new(Some(wait))), Mutex::new(Vec::new()));
        let (tell, mut told) = mpsc::unbounded_channel();
        let take = |delivery: Delivery| {
            let event = delivery.payload["event"].clone();
            let (wait, tell, taken) = (Arc::clone(&wait), tell.clone(), &taken);
            async move {
                if event["n"] == 1 {
                    let wait = wait.lock().await.take().expect("there is one first");
                    wait.await.expect("it is told to go on");
                }
                taken.lock().unwrap().push((event["channel"].as_str().unwrap().to_owned(), event["n"].clone()));
                let _ = tell.send(());
                Ok(())
            }
        };
        let play = async {
            for (channel, n) in [("C1", 1), ("C1", 2), ("C9", 3), ("C1", 4), ("D1", 5)] {
                assert!(lanes.put(delivery(channel, n)).await);
            }
            for _ in 0..2 {
                told.recv().await;
            }
            go.send(()).unwrap();
            for _ in 0..3 {
                told.recv().await;
            }
        };
        tokio::select! {
            end = work(from, take) => panic!("it goes on: {end:?}"),
            () = play => {}
        }
        let taken = taken.into_inner().unwrap();
        let of = |channel: &str| -> Vec<u64> {
            taken.iter().filter(|(of, _)| of == channel).filter_map(|(_, n)| n.as_u64()).collect()
        };
        assert_eq!((of("C1"), of("C9"), of("D1")), (vec![1, 2, 4], vec![3], vec![5]));
        assert!(taken[..2].iter().all(|(channel, _)| channel != "C1"), "{taken:?}");
    }

    #[tokio::test]
    async fn the_first_error_ends_the_work() {
        let (lanes, from) = Lanes::new();
        let put = lanes.put(delivery("C1", 1));
        let (put, end) = tokio::join!(put, work(from, |_| async { Err(ConnectError::retry("cut")) }));
        assert!(put && end.is_err());
    }
}
