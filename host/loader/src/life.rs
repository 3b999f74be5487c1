//! One incarnation of an instance: its link and its validity.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use hermes_adapter_abi::status;
use hermes_protocol::CallError;
use tokio::sync::watch;

use super::{AdapterLink, Answer, logs::Mask};

/// The longest panic message that is repeated, in characters.
const SAID_CHARS_MAX: usize = 400;

/// One created instance and the first reason why it is broken.
pub(super) struct Life {
    pub(super) link: Arc<dyn AdapterLink>,
    /// Cleared when the host gives this incarnation up. Its host calls are refused from then on.
    pub(super) counts: Arc<AtomicBool>,
    /// Set when the host ends this incarnation in order: deliveries that this interrupts do not count as its failure.
    leaving: AtomicBool,
    broken: watch::Sender<Option<String>>,
    sending: Arc<watch::Sender<Flight>>,
    /// The secrets that none of its answers may contain.
    mask: Mask,
}

/// The deliveries of one incarnation.
#[derive(Debug, Default)]
struct Flight {
    /// Count of deliveries in flight.
    now: usize,
    /// Count of all deliveries since its start.
    begun: u64,
}

/// A delivery in flight. Dropping it ends the delivery.
pub(super) struct Sending {
    flight: Arc<watch::Sender<Flight>>,
    /// Its number among all deliveries, or `None` if another one was in flight when it began.
    first: Option<u64>,
}

impl Sending {
    /// Returns `true` if no other delivery was in flight at any time since it began.
    pub(super) fn is_alone(&self) -> bool {
        self.first == Some(self.flight.borrow().begun)
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.flight.send_modify(|flight| flight.now -= 1);
    }
}

impl Life {
    pub(super) fn new(link: Arc<dyn AdapterLink>, counts: Arc<AtomicBool>, mask: Mask) -> Self {
        Self {
            mask,
            link,
            counts,
            leaving: AtomicBool::new(false),
            broken: watch::Sender::new(None),
            sending: Arc::new(watch::Sender::new(Flight::default())),
        }
    }

    /// Calls a method and detects a panic. The secrets of the instance are masked in the answer, because it is shown in
    /// `status` and stored.
    pub(super) async fn call(&self, method: &str, payload: Vec<u8>) -> Answer {
        let Answer { status, payload } = self.link.call(method, payload).await;
        let answer = Answer { status, payload: self.mask.apply_json(payload) };
        if matches!(answer.status, status::PANIC | status::POISONED) {
            self.break_with(panicked(method, &answer));
        }
        answer
    }

    /// Counts a new delivery as in flight.
    pub(super) fn sending(&self) -> Sending {
        let mut first = None;
        self.sending.send_modify(|flight| {
            flight.begun += 1;
            first = Some(flight.begun).filter(|_| flight.now == 0);
            flight.now += 1;
        });
        Sending { flight: Arc::clone(&self.sending), first }
    }

    /// Waits until no delivery is in flight.
    pub(super) async fn idle(&self) {
        // `self` owns the sender, so waiting cannot fail.
        let _ = self.sending.subscribe().wait_for(|flight| flight.now == 0).await;
    }

    /// Marks this incarnation as broken. The first reason is kept.
    pub(super) fn break_with(&self, reason: String) {
        self.broken.send_if_modified(|broken| {
            let first = broken.is_none();
            if first {
                *broken = Some(reason);
            }
            first
        });
    }

    /// Waits until this incarnation is broken, and returns the reason.
    pub(super) async fn broken(&self) -> String {
        let mut broken = self.broken.subscribe();
        match broken.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone().unwrap_or_default(),
            Err(_) => String::new(),
        }
    }

    /// Records that the host is ending this incarnation.
    pub(super) fn leave(&self) {
        self.leaving.store(true, Ordering::Release);
    }

    /// Returns `true` if the host is ending this incarnation.
    pub(super) fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Acquire)
    }

    /// Invalidates this incarnation: its host calls are refused from now on.
    pub(super) fn give_up(&self) {
        self.counts.store(false, Ordering::Release);
    }
}

/// Returns the method in which an adapter panicked, and the panic message.
pub(super) fn panicked(method: &str, answer: &Answer) -> String {
    let said = serde_json::from_slice::<CallError>(&answer.payload).map(|error| error.message).unwrap_or_default();
    // The SDK prefixes the message with the instance, which the log line names already, and with the method, which the
    // answers of all other open calls repeat.
    let quoted = |said: &str, before: &str| {
        let (name, said) = said.strip_prefix(before)?.split_once("`: ")?;
        Some((name.to_owned(), said.to_owned()))
    };
    let said = quoted(&said, "instance `").map_or(said, |(_, said)| said);
    let (place, said) = quoted(&said, "panic in `").unwrap_or((method.to_owned(), said));
    let said: String = said.chars().take(SAID_CHARS_MAX).collect();
    if said.is_empty() { format!("panicked in {place}") } else { format!("panicked in {place}: {said}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_of_a_panic_has_its_words() {
        let said =
            |payload: &str| panicked("send", &Answer { status: status::PANIC, payload: payload.as_bytes().to_vec() });
        assert_eq!(said(""), "panicked in send");
        assert_eq!(said(r#"{"code":"panic","message":"KeyError: 'x'"}"#), "panicked in send: KeyError: 'x'");
        let ours = r#"{"code":"panic","message":"instance `one`: panic in `run`: out of bounds"}"#;
        assert_eq!(said(ours), "panicked in run: out of bounds");
    }
}
