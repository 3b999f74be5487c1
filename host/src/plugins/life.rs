//! One life of an instance: a link, and whether it still counts.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use hermes_adapter_abi::status;
use tokio::sync::watch;

use super::{AdapterLink, Answer};

/// One created instance and the first reason it is known to be broken for.
pub(super) struct Life {
    pub(super) link: Arc<dyn AdapterLink>,
    /// Cleared when the host has given this life up; its host calls are refused from then on.
    pub(super) counts: Arc<AtomicBool>,
    /// Set when the host ends this life politely: what is cut off then did not kill it.
    leaving: AtomicBool,
    broken: watch::Sender<Option<String>>,
    sending: Arc<watch::Sender<usize>>,
}

/// A delivery under way; over when dropped.
pub(super) struct Sending(Arc<watch::Sender<usize>>);

impl Drop for Sending {
    fn drop(&mut self) {
        self.0.send_modify(|sending| *sending -= 1);
    }
}

impl Life {
    pub(super) fn new(link: Arc<dyn AdapterLink>, counts: Arc<AtomicBool>) -> Self {
        Self {
            link,
            counts,
            leaving: AtomicBool::new(false),
            broken: watch::Sender::new(None),
            sending: Arc::new(watch::Sender::new(0)),
        }
    }

    /// Calls a method and notices a panic.
    pub(super) async fn call(&self, method: &str, payload: Vec<u8>) -> Answer {
        let answer = self.link.call(method, payload).await;
        if matches!(answer.status, status::PANIC | status::POISONED) {
            self.break_with(format!("panicked in {method}"));
        }
        answer
    }

    /// Counts a delivery as under way.
    pub(super) fn sending(&self) -> Sending {
        self.sending.send_modify(|sending| *sending += 1);
        Sending(Arc::clone(&self.sending))
    }

    /// Returns once no delivery is under way.
    pub(super) async fn idle(&self) {
        // The sender lives in `self`, so waiting cannot fail.
        let _ = self.sending.subscribe().wait_for(|sending| *sending == 0).await;
    }

    /// Says that this life is over; the first reason stays.
    pub(super) fn break_with(&self, reason: String) {
        self.broken.send_if_modified(|broken| {
            let first = broken.is_none();
            if first {
                *broken = Some(reason);
            }
            first
        });
    }

    /// Returns why this life is over, once it is.
    pub(super) async fn broken(&self) -> String {
        let mut broken = self.broken.subscribe();
        match broken.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone().unwrap_or_default(),
            Err(_) => String::new(),
        }
    }

    /// Notes that the host ends this life.
    pub(super) fn leave(&self) {
        self.leaving.store(true, Ordering::Release);
    }

    /// Whether the host ends this life.
    pub(super) fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Acquire)
    }

    /// Stops counting: what the instance still says is refused.
    pub(super) fn give_up(&self) {
        self.counts.store(false, Ordering::Release);
    }
}
