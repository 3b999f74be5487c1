//! The cached state of a session, so that a turn need not read it again.

use std::collections::VecDeque;
use std::sync::Arc;

use hermes_agent::Message;
use hermes_core::ids::SessionId;
use hermes_core::settings::SessionSettings;
use serde_json::Value;

use crate::engine::context::{Remembered, Spoken};
use crate::engine::runtime::Host;
use crate::engine::session::reset;
use hermes_store::{Lineage, NewMessage, SessionRow};

/// Turns between two attempts to compress a session that does not fit.
const TURNS_BETWEEN_ATTEMPTS: u32 = 5;

/// The transcript and the runtime state of one session, read once and then updated.
#[derive(Debug, Default)]
pub struct Memory {
    known: bool,
    /// Shared with the turns that read them, so a turn copies no text.
    messages: VecDeque<Arc<Message>>,
    settings: SessionSettings,
    state: Option<Value>,
    summary: Option<String>,
    /// The rule that ended the previous conversation.
    anew: Option<&'static str>,
    /// True if the session is known to have a title.
    named: bool,
    /// Turns until the next attempt to compress a session that does not fit.
    patience: u32,
}

impl Memory {
    /// Creates an empty memory; `known`: the session is new, so there is nothing to read.
    pub fn new(known: bool) -> Self {
        Self { known, ..Self::default() }
    }

    /// Returns the state, read from the store the first time.
    pub async fn read(&mut self, host: &Arc<Host>, session: &SessionId) -> Remembered {
        if !self.known {
            self.known = self.load(host, session).await;
        }
        Remembered {
            history: self.messages.iter().cloned().collect(),
            settings: self.settings.clone(),
            state: self.state.clone(),
            summary: self.summary.clone(),
            anew: self.anew.filter(|_| self.messages.is_empty()),
        }
    }

    /// Remembers the rule that ended the previous conversation.
    pub fn begins_anew(&mut self, reason: &'static str) {
        self.anew = Some(reason);
    }

    /// Reads the store. A failure is only logged, because a turn without its history is better than none.
    async fn load(&mut self, host: &Arc<Host>, session: &SessionId) -> bool {
        let limit = u32::try_from(history_max(host)).unwrap_or(u32::MAX);
        let history = host.store.history(session, limit).await;
        let state = host.store.agent_state(session, host.runtime.name()).await;
        let row = host.store.session(session).await;
        match (history, state, row) {
            (Ok(history), Ok(state), Ok(row)) => {
                self.messages = history.into_iter().map(|row| Arc::new(row.message)).collect();
                self.state = state;
                if let Some(row) = row {
                    self.anew = if self.messages.is_empty() { ended_by_a_rule(host, &row).await } else { None };
                    self.named = row.title.is_some();
                    self.settings = row.settings;
                    self.summary = row.summary;
                }
                true
            }
            (Err(error), _, _) | (_, Err(error), _) | (_, _, Err(error)) => {
                tracing::error!(%session, %error, "session history could not be read");
                false
            }
        }
    }

    /// Returns the settings of the session; `None`: they cannot be read.
    pub async fn settings(&mut self, host: &Arc<Host>, session: &SessionId) -> Option<SessionSettings> {
        if !self.known {
            self.known = self.load(host, session).await;
        }
        self.known.then(|| self.settings.clone())
    }

    /// Remembers new settings.
    pub fn choose(&mut self, settings: SessionSettings) {
        self.settings = settings;
    }

    /// Adds the messages of a turn.
    pub fn add(&mut self, host: &Arc<Host>, transcript: Vec<(i64, Message)>, state: Option<Value>) {
        if !self.known {
            return;
        }
        self.messages.extend(transcript.into_iter().map(|(_, message)| Arc::new(message)));
        let excess = self.messages.len().saturating_sub(history_max(host));
        self.messages.drain(..excess);
        if state.is_some() {
            self.state = state;
        }
    }

    /// Returns whether a session that does not fit should be compressed now; the next attempt waits for some turns.
    pub fn is_outgrown(&mut self, messages_min: usize) -> bool {
        if !self.known || self.messages.len() < messages_min {
            return false;
        }
        let now = self.patience == 0;
        self.patience = if now { TURNS_BETWEEN_ATTEMPTS } else { self.patience - 1 };
        now
    }

    /// Returns whether the session is known to have a title.
    pub fn is_named(&self) -> bool {
        self.named
    }

    /// Remembers that the session has a title.
    pub fn name(&mut self) {
        self.named = true;
    }

    /// Forgets the state; the next turn reads the store again.
    pub fn forget(&mut self) {
        *self = Self::default();
    }
}

/// Returns the rule that ended the session which this one replaced.
async fn ended_by_a_rule(host: &Arc<Host>, row: &SessionRow) -> Option<&'static str> {
    let former = row.parent.as_ref().filter(|_| row.lineage == Some(Lineage::Reset))?;
    match host.store.session(former).await {
        Ok(former) => reset::rule_of(former?.end_reason.as_deref()?),
        Err(error) => {
            tracing::warn!(session = %former, %error, "end reason of a session could not be read");
            None
        }
    }
}

fn history_max(host: &Arc<Host>) -> usize {
    host.live().config.agent.history_messages_max
}

/// Builds the rows of a transcript; its first entries are the messages of the events.
pub fn rows(transcript: &[(i64, Message)], said: &[Spoken]) -> Vec<NewMessage> {
    let mut rows: Vec<NewMessage> =
        transcript.iter().map(|(at_ms, message)| NewMessage::new(message.clone(), *at_ms)).collect();
    for (row, spoken) in rows.iter_mut().zip(said) {
        row.platform_ids.clone_from(&spoken.platform_ids);
    }
    rows
}
