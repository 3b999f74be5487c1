//! The display settings of a conversation: tool progress during a turn, and the footer of an answer.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hermes_core::ids::{DeliveryId, SessionId, TurnId};
use hermes_core::progress::Progress;
use hermes_core::settings::{ProgressMode, SessionSettings};
use hermes_protocol::{Purpose, StreamKind, Usage};

use crate::engine::config_snapshot::Live;
use crate::engine::context::Heard;
use crate::engine::messages::{DeliveryNews, HostEvent};
use crate::engine::outbox::{Growing, Target, growing, owed};
use crate::engine::runtime::Host;
use crate::engine::tools::log;

/// The display settings of one conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Manner {
    /// The mode of tool progress.
    pub progress: ProgressMode,
    /// True if an answer ends with a footer.
    pub footer: bool,
}

impl Manner {
    /// Returns the chosen settings, with the configuration as the default.
    pub fn of(live: &Live, instance: &str, chosen: &SessionSettings) -> Self {
        let usual = live.session_of(instance);
        Self { progress: chosen.progress.unwrap_or(usual.progress), footer: chosen.footer.unwrap_or(usual.footer) }
    }
}

/// The footer of an answer. The transcript never contains it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dress {
    behind: String,
}

impl Dress {
    /// Creates the footer of a model's answer.
    pub fn of(manner: Manner, model: &str, usage: Usage, took: Duration) -> Self {
        Self { behind: if manner.footer { footer(model, usage, took) } else { String::new() } }
    }

    /// Appends the footer to the answer; `None`: both are empty.
    pub fn put_on(&self, answer: Option<String>) -> Option<String> {
        let texts = [answer, Some(self.behind.clone())];
        let texts: Vec<String> = texts.into_iter().flatten().filter(|text| !text.trim().is_empty()).collect();
        (!texts.is_empty()).then(|| texts.join("\n\n"))
    }
}

/// Formats the model, its tokens and its time.
fn footer(model: &str, usage: Usage, took: Duration) -> String {
    let tokens = usage.input_tokens.saturating_add(usage.output_tokens);
    let model = Some(format!("`{model}`")).filter(|_| !model.is_empty());
    let tokens = (tokens > 0).then(|| format!("{tokens} tokens"));
    let facts = [model, tokens, Some(format!("{:.1} s", took.as_secs_f64()))];
    facts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

/// The message that shows the tools of a turn in its chat. It is never owed, and a lost update does no harm.
pub struct Tools {
    progress: Progress,
    /// The session name for the log of tool calls; `None`: they are not logged.
    log: Option<SessionId>,
    shows: bool,
    is_new: bool,
    message: Option<Arc<Growing>>,
}

impl Tools {
    /// Creates the display for the turn that answers `heard`. Tools are shown only if a message can be edited.
    pub fn new(heard: &Heard, mode: ProgressMode) -> Self {
        let can = heard.place.adapter.as_ref().map(|adapter| adapter.capabilities());
        let shows = can.is_some_and(|can| can.edit && can.stream != StreamKind::Native && can.supports_async_delivery);
        let log = (mode == ProgressMode::Log).then(|| heard.place.session.clone());
        Self { progress: Progress::new(mode), log, shows, is_new: false, message: None }
    }

    /// Notes a tool call.
    pub fn used(&mut self, home: &Path, now_ms: i64, tool: &str, with: &str) {
        if let Some(session) = &self.log {
            log::write(home, session, now_ms, tool, with);
        }
        self.is_new |= self.progress.used(tool, with);
    }

    /// Shows new tool calls.
    pub async fn show(&mut self, host: &Host, heard: &Heard, turn: TurnId) {
        if !std::mem::take(&mut self.is_new) || !self.shows {
            return;
        }
        let text = self.progress.markdown();
        let news = match &self.message {
            Some(message) if message.replace(&text) => {
                DeliveryNews::Grows(Target::of(&heard.place.instance, &heard.place.chat), Arc::clone(message))
            }
            Some(_) => return,
            None => match self.begin(host, heard, turn, text).await {
                Some(news) => news,
                None => return,
            },
        };
        host.tell(HostEvent::Delivery(news)).await;
    }

    async fn begin(&mut self, host: &Host, heard: &Heard, turn: TurnId, text: String) -> Option<DeliveryNews> {
        let piece = growing::piece(heard.place.adapter.as_ref()?, &text).await?;
        let mut new = heard.place.first_piece(host, Purpose::Notice, text.clone(), piece);
        (new.turn, new.reply_to) = (Some(turn), None);
        let id = host.until_written("the progress of a turn", || host.store.draft(new.clone())).await?;
        let message = Growing::new(id, new.chat.clone(), Purpose::Notice, &text);
        self.message = Some(Arc::clone(&message));
        Some(DeliveryNews::Draft(Box::new(owed(id, new, |n| host.store.part_key(id, n))), message))
    }

    /// Returns the message after the turn. The store has ended it with the turn.
    pub fn ended(&mut self) -> Option<DeliveryId> {
        self.message.take().map(|message| message.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_footer_says_who_answered_with_how_much_and_in_which_time() {
        let took = Duration::from_millis(1_340);
        assert_eq!(footer("m-1", Usage::tokens(1_200, 34), took), "`m-1` · 1234 tokens · 1.3 s");
        assert_eq!(footer("", Usage::default(), took), "1.3 s", "what nobody told is not made up");
    }

    #[test]
    fn an_answer_that_was_said_before_leaves_its_footer() {
        let dress = Dress { behind: "m".to_owned() };
        assert_eq!(dress.put_on(Some("hello".to_owned())).as_deref(), Some("hello\n\nm"));
        assert_eq!(dress.put_on(None).as_deref(), Some("m"));
        assert_eq!(Dress::default().put_on(None), None);
    }
}
