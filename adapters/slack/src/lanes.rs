//! The queues of deliveries: sequential within each channel, parallel across channels, so that a slow channel does
//! not delay the others.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;

use futures_util::stream::{FuturesUnordered, StreamExt};
use hermes_adapter_sdk::prelude::*;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use crate::inbound;

/// The maximum number of deliveries in progress or waiting. At this limit no socket is read.
const WAITING_MAX: usize = 256;

/// The kind of a delivery's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An event of the Events API.
    Event,
    /// A slash command.
    Slash,
    /// A press of a button.
    Interactive,
}

/// The means to acknowledge a delivery.
#[derive(Debug)]
pub enum Ack {
    /// By its envelope id, on the socket of the delivery.
    Socket(mpsc::Sender<String>, String),
    /// By the response to its request.
    Request(oneshot::Sender<()>),
}

impl Ack {
    /// Acknowledges the delivery.
    pub async fn say(self) {
        match self {
            // A closed socket cannot be used; Slack repeats the delivery, which is then known.
            Self::Socket(to, envelope) => drop(to.send(envelope).await),
            // The same applies to a request that has ended.
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

/// The input of the queues.
#[derive(Clone, Debug)]
pub struct Lanes(mpsc::Sender<Delivery>);

impl Lanes {
    /// Creates an input, and the receiver of its deliveries.
    pub fn new() -> (Self, mpsc::Receiver<Delivery>) {
        let (into, from) = mpsc::channel(1);
        (Self(into), from)
    }

    /// Appends a delivery to its channel's queue; waits while the queues are full. Returns
    /// `false` if the link is closed.
    pub async fn put(&self, delivery: Delivery) -> bool {
        self.0.send(delivery).await.is_ok()
    }
}

/// The waiting deliveries of each channel with a delivery in progress.
#[derive(Default)]
struct Waiting(BTreeMap<String, VecDeque<Delivery>>);

impl Waiting {
    /// Adds a delivery. Returns it if no other delivery of its channel is in progress, so that it may start.
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

    /// Ends a delivery of a channel; returns the next one of this channel, if there is one.
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

/// Processes all deliveries with `take`. Ends only with the first error.
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
            // The inputs are closed together with the link.
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
