//! The queues of deliveries: sequential within each channel, parallel across channels, so that a slow channel does
//! not delay the others.
//!
//! Slack spreads the deliveries of a channel over the sockets. Deliveries of a channel that wait at the same time are
//! processed in the order of their events.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;

use futures_util::stream::{FuturesUnordered, StreamExt};
use hermes_adapter_sdk::prelude::*;
use tokio::sync::mpsc;

use crate::delivery::Delivery;
use crate::payload;

/// The maximum number of deliveries in progress or waiting. At this limit no socket is read.
const WAITING_MAX: usize = 256;
/// The maximum number of deliveries that are read before one of them is queued.
const TOGETHER_MAX: usize = 64;

/// The input of the queues.
#[derive(Clone, Debug)]
pub(crate) struct ChannelQueues(mpsc::Sender<Delivery>);

impl ChannelQueues {
    /// Creates an input, and the receiver of its deliveries.
    pub(crate) fn new() -> (Self, mpsc::Receiver<Delivery>) {
        let (sender, deliveries) = mpsc::channel(TOGETHER_MAX);
        (Self(sender), deliveries)
    }

    /// Appends a delivery to its channel's queue; waits while the queues are full. Returns
    /// `false` if the link is closed.
    pub(crate) async fn push(&self, delivery: Delivery) -> bool {
        self.0.send(delivery).await.is_ok()
    }
}

/// The queues of the channels that have deliveries.
#[derive(Default)]
struct WaitingDeliveries(BTreeMap<String, ChannelQueue>);

/// The queue of one channel.
#[derive(Default)]
struct ChannelQueue {
    is_busy: bool,
    /// The waiting deliveries, with the times of their events.
    waiting: VecDeque<(Option<i64>, Delivery)>,
}

impl WaitingDeliveries {
    /// Adds a delivery before later events. A delivery without a time, and those before it, stay in order of arrival.
    fn add(&mut self, delivery: Delivery) {
        let ChannelQueue { waiting, .. } = self.0.entry(payload::channel(&delivery.payload).to_owned()).or_default();
        let at_us = payload::event_us(&delivery.payload);
        let is_later = |(other, _): &&(Option<i64>, Delivery)| other.zip(at_us).is_some_and(|(other, own)| other > own);
        let later = waiting.iter().rev().take_while(is_later).count();
        waiting.insert(waiting.len() - later, (at_us, delivery));
    }

    /// Returns the next delivery of each channel without one in progress.
    fn start(&mut self) -> impl Iterator<Item = (String, Delivery)> {
        self.0.iter_mut().filter(|(_, queue)| !queue.is_busy).filter_map(|(channel, queue)| {
            let (_, delivery) = queue.waiting.pop_front()?;
            queue.is_busy = true;
            Some((channel.clone(), delivery))
        })
    }

    /// Ends the delivery of a channel that was in progress.
    fn end(&mut self, channel: &str) {
        let Some(queue) = self.0.get_mut(channel) else { return };
        queue.is_busy = false;
        if queue.waiting.is_empty() {
            self.0.remove(channel);
        }
    }
}

/// Processes all deliveries with `process`. Ends only with the first error.
pub(crate) async fn process_all<T: Future<Output = Result<(), ConnectError>>>(
    mut deliveries: mpsc::Receiver<Delivery>,
    process: impl Fn(Delivery) -> T,
) -> Result<(), ConnectError> {
    let start = |(channel, delivery): (String, Delivery)| {
        let result = process(delivery);
        async move { (channel, result.await) }
    };
    let (mut waiting, mut count) = (WaitingDeliveries::default(), 0);
    let mut running = FuturesUnordered::new();
    loop {
        while count < WAITING_MAX {
            let Ok(delivery) = deliveries.try_recv() else { break };
            count += 1;
            waiting.add(delivery);
        }
        running.extend(waiting.start().map(start));
        tokio::select! {
            Some((channel, result)) = running.next() => {
                result?;
                count -= 1;
                waiting.end(&channel);
            }
            Some(delivery) = deliveries.recv(), if count < WAITING_MAX => {
                count += 1;
                waiting.add(delivery);
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
    use tokio::sync::oneshot;

    use super::*;
    use crate::delivery::{Ack, DeliveryKind};

    fn delivery(channel: &str, n: u32) -> Delivery {
        let payload = json!({ "event": { "channel": channel, "n": n } });
        Delivery { kind: DeliveryKind::Event, payload, ack: Ack::Request(oneshot::channel().0) }
    }

    #[tokio::test]
    async fn what_one_channel_waits_for_holds_up_no_other_and_each_stays_in_order() {
        let (queues, deliveries) = ChannelQueues::new();
        let (go, wait) = oneshot::channel::<()>();
        let (wait, taken) = (Arc::new(tokio::sync::Mutex::new(Some(wait))), Mutex::new(Vec::new()));
        let (tell, mut told) = mpsc::unbounded_channel();
        let take = |delivery: Delivery| {
            let event = delivery.payload["event"].clone();
            let (wait, tell, taken) = (Arc::clone(&wait), tell.clone(), &taken);
            async move {
                if event["n"] == 1 {
                    let wait = wait.lock().await.take().expect("there is one first");
                    wait.await.expect("the test releases it");
                }
                taken.lock().unwrap().push((event["channel"].as_str().unwrap().to_owned(), event["n"].clone()));
                let _ = tell.send(());
                Ok(())
            }
        };
        let play = async {
            for (channel, n) in [("C1", 1), ("C1", 2), ("C9", 3), ("C1", 4), ("D1", 5)] {
                assert!(queues.push(delivery(channel, n)).await);
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
            end = process_all(deliveries, take) => panic!("processing has not ended: {end:?}"),
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
    async fn deliveries_that_wait_together_are_processed_in_the_order_of_their_events() {
        let (queues, deliveries) = ChannelQueues::new();
        let taken = Mutex::new(Vec::new());
        let (tell, mut told) = mpsc::unbounded_channel();
        let ts = |ts: &str| json!({ "event": { "channel": "C1", "ts": ts } });
        let change = json!({ "event": { "channel": "C1", "ts": "9", "event_ts": "1700000000.000005" } });
        let slash = json!({ "channel_id": "C1", "command": "/hermes" });
        let press = json!({ "channel": { "id": "C1" }, "actions": [{ "action_ts": "1700000000.000006" }] });
        let arrived = [
            ts("1700000000.000002"),
            press.clone(),
            change.clone(),
            ts("1700000000.000001"),
            slash.clone(),
            ts("1700000001.5"),
            ts("1700000000.999999"),
        ];
        for payload in &arrived {
            let ack = Ack::Request(oneshot::channel().0);
            assert!(queues.push(Delivery { kind: DeliveryKind::Event, payload: payload.clone(), ack }).await);
        }
        let take = |delivery: Delivery| {
            taken.lock().unwrap().push(delivery.payload);
            let _ = tell.send(());
            async { Ok(()) }
        };
        let all = async {
            for _ in &arrived {
                told.recv().await;
            }
        };
        tokio::select! {
            end = process_all(deliveries, take) => panic!("processing has not ended: {end:?}"),
            () = all => {}
        }
        let expected = [
            ts("1700000000.000001"),
            ts("1700000000.000002"),
            change,
            press,
            slash,
            ts("1700000000.999999"),
            ts("1700000001.5"),
        ];
        assert_eq!(taken.into_inner().unwrap(), expected);
    }

    #[tokio::test]
    async fn the_first_error_ends_the_work() {
        let (queues, deliveries) = ChannelQueues::new();
        let put = queues.push(delivery("C1", 1));
        let (put, end) = tokio::join!(put, process_all(deliveries, |_| async { Err(ConnectError::retry("cut")) }));
        assert!(put && end.is_err());
    }
}
