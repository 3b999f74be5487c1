//! The channel of hints to one instance: typing signs, reactions and drafts.
//!
//! Hints share the waits of the outbox: none is sent while its chat or its instance has to wait, and a rate limit on a
//! hint holds its chat like that on a message. Each kind has one budget per chat, its threads included.

use std::sync::Arc;
use std::time::Duration;

use hermes_protocol::CallError;
use tokio::time::Instant;

use crate::engine::outbox::{HintKind, Holds};
use crate::engine::runtime::Host;
use crate::engine::timer::Timer;
use hermes_loader::AdapterHandle;

/// The channel of hints to one instance. Cheap to clone.
#[derive(Clone)]
pub struct HintLine {
    adapter: AdapterHandle,
    holds: Arc<Holds>,
    clock: Arc<dyn Timer>,
}

impl HintLine {
    /// Opens the channel to the instance of `adapter`.
    pub fn to(host: &Host, adapter: AdapterHandle) -> Self {
        let holds = host.holds.of(adapter.instance());
        Self { adapter, holds, clock: Arc::clone(&host.clock) }
    }

    /// Returns the handle of the instance.
    pub fn adapter(&self) -> &AdapterHandle {
        &self.adapter
    }

    /// Waits for the slot of a hint in its chat; `false`: the chat has to wait, or too many hints wait already.
    /// Cancel-safe: an unused slot is given back.
    pub async fn ready(&self, kind: HintKind, chat: &str) -> bool {
        if self.is_held(chat) {
            return false;
        }
        let now = Instant::now();
        let Some(slot) = self.holds.hint_slot(kind, chat, now) else { return false };
        let mut reserved = Reserved { holds: &self.holds, kind, chat, used: false };
        if slot > now {
            tokio::time::sleep_until(slot).await;
        }
        reserved.used = !self.is_held(chat);
        reserved.used
    }

    /// Returns whether the chat, or its whole instance, has to wait.
    pub fn is_held(&self, chat: &str) -> bool {
        self.holds.until_ms(self.adapter.instance(), chat, self.clock.now_ms()).is_some()
    }

    /// Sends a hint. A rate limit of the platform holds the chat.
    ///
    /// # Errors
    ///
    /// As [`AdapterHandle::hint`].
    pub async fn call(&self, chat: &str, method: &'static str, payload: Vec<u8>) -> Result<Vec<u8>, CallError> {
        let answer = self.adapter.hint(method, payload).await;
        if let Err(CallError { retry_after_ms: Some(wait_ms), .. }) = &answer {
            let now_ms = self.clock.now_ms();
            let until_ms = now_ms.saturating_add(i64::try_from(*wait_ms).unwrap_or(i64::MAX));
            self.holds.hold_chat(self.adapter.instance(), chat, until_ms, now_ms);
            let wait = Duration::from_millis(*wait_ms);
            tracing::debug!(instance = %self.adapter.instance(), chat, method, ?wait, "hint rate limited");
        }
        answer
    }
}

/// A slot of the budget, given back unless it is used.
struct Reserved<'a> {
    holds: &'a Holds,
    kind: HintKind,
    chat: &'a str,
    used: bool,
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        if !self.used {
            self.holds.give_back_hint_slot(self.kind, self.chat);
        }
    }
}
