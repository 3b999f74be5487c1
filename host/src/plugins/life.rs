//! One life of an instance: a link, and whether it still counts.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use hermes_adapter_abi::status;
use hermes_protocol::CallError;
use tokio::sync::watch;

use super::{AdapterLink, Answer, logs::Mask};

/// The longest words of a panic that are repeated, in characters.
const SAID_CHARS_MAX: usize = 400;

/// One created instance and the first reason it is known to be broken for.
pub(super) struct Life {
    pub(super) link: Arc<dyn AdapterLink>,
    /// Cleared when the host has given this life up; its host calls are refused from then on.
    pub(super) counts: Arc<AtomicBool>,
    /// Set when the host ends this life politely: what is cut off then did not kill it.
    leaving: AtomicBool,
    broken: watch::Sender<Option<String>>,
    sending: Arc<watch::Sender<Flight>>,
    /// What no word of this life may hold.
    mask: Mask,
}

/// The deliveries of one life.
#[derive(Debug, Default)]
struct Flight {
    /// Those under way.
    now: usize,
    /// All that ever began.
    begun: u64,
}

/// A delivery under way; over when dropped.
pub(super) struct Sending {
    flight: Arc<watch::Sender<Flight>>,
    /// Its number among all that began, where nothing was under way when it did.
    first: Option<u64>,
}

impl Sending {
    /// Whether no other delivery was under way at any time since it began.
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

    /// Calls a method and notices a panic. The answer has no secret of its instance: it goes into `status` and into
    /// the store.
    pub(super) async fn call(&self, method: &str, payload: Vec<u8>) -> Answer {
        let Answer { status, payload } = self.link.call(method, payload).await;
        let answer = Answer { status, payload: self.mask.apply_json(payload) };
        if matches!(answer.status, status::PANIC | status::POISONED) {
            self.break_with(panicked(method, &answer));
        }
        answer
    }

    /// Counts a delivery as under way.
    pub(super) fn sending(&self) -> Sending {
        let mut first = None;
        self.sending.send_modify(|flight| {
            flight.begun += 1;
            first = Some(flight.begun).filter(|_| flight.now == 0);
            flight.now += 1;
        });
        Sending { flight: Arc::clone(&self.sending), first }
    }

    /// Returns once no delivery is under way.
    pub(super) async fn idle(&self) {
        // The sender lives in `self`, so waiting cannot fail.
        let _ = self.sending.subscribe().wait_for(|flight| flight.now == 0).await;
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

/// Where an adapter panicked, and what the panic said.
pub(super) fn panicked(method: &str, answer: &Answer) -> String {
    let said = serde_json::from_slice::<CallError>(&answer.payload).map(|error| error.message).unwrap_or_default();
    // The SDK says in which instance, which is named where this is told, and in which method, which every call
    // that was open then repeats.
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
