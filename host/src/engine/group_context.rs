//! Group messages that are kept as context, on their way to the store.
//!
//! The dispatcher records them and the clerk writes them. A turn that reads them waits until all earlier ones are
//! written, because a sender may address the agent right after a message to others.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hermes_protocol::Event;
use tokio::sync::watch;

use hermes_store::Observed;

/// The longest wait for the clerk. A turn without its context is better than none.
const WAIT_MAX: Duration = Duration::from_secs(2);
/// The longest text of one message, in characters.
const TEXT_CHARS_MAX: usize = 2_000;
/// The longest name of a sender, in characters.
const NAME_CHARS_MAX: usize = 64;

/// The numbers of recorded and of written messages.
pub struct Observing {
    noted: AtomicU64,
    written: watch::Sender<u64>,
}

impl Default for Observing {
    fn default() -> Self {
        Self { noted: AtomicU64::new(0), written: watch::Sender::new(0) }
    }
}

impl Observing {
    /// Counts a message that the clerk receives.
    pub fn noted(&self) {
        self.noted.fetch_add(1, Ordering::SeqCst);
    }

    /// Counts messages that the clerk has handled.
    pub fn written(&self, messages: u64) {
        self.written.send_if_modified(|written| {
            *written += messages;
            messages > 0
        });
    }

    /// Waits until the clerk has handled every message that was recorded by now.
    pub async fn caught_up(&self) {
        let noted = self.noted.load(Ordering::SeqCst);
        let mut written = self.written.subscribe();
        // A clerk that has ended writes nothing more, and the host ends.
        let _ = tokio::time::timeout(WAIT_MAX, written.wait_for(|written| *written >= noted)).await;
    }
}

/// Returns the kept form of a message; `None`: it has neither text nor files.
pub fn line(inbox: i64, event: &Event) -> Option<Observed> {
    let mut text: String = event.text.trim().chars().take(TEXT_CHARS_MAX).collect();
    for file in &event.attachments {
        if text.chars().count() < TEXT_CHARS_MAX {
            let name: String = file.name.chars().take(NAME_CHARS_MAX).collect();
            text.push_str(&format!("{}[file {name:?}]", if text.is_empty() { "" } else { " " }));
        }
    }
    let name = event.sender.name.as_deref().filter(|name| !name.trim().is_empty()).unwrap_or(&event.sender.id);
    let name = name.chars().take(NAME_CHARS_MAX).collect();
    (!text.is_empty()).then_some(Observed { inbox, at_ms: event.at_ms, name, text })
}
