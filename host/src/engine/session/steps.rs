//! The tool calls of a turn that its runtime cannot report itself: after a restart of the host, or if the turn has no
//! answer.

use hermes_agent::Message;
use hermes_agent::tools::ports::{CUT_OUTCOME, STOPPED_OUTCOME, UNKNOWN_OUTCOME};
use hermes_agent::tools::{CallRow, replayed};
use hermes_core::ids::TurnId;

use super::Lane;
use crate::engine::session::outcome::{Cause, Conclusion};
use hermes_store::TurnEnd;

impl Lane {
    /// Returns the tool calls of a turn in an earlier run of the host. A call without a result gets an unknown outcome,
    /// whatever ends the turn later.
    pub(super) async fn done_before(&self, turn: TurnId) -> Vec<Message> {
        let calls = self.calls_of(turn).await;
        for call in calls.iter().filter(|call| call.result.is_none()) {
            let ended = self.host.store.end_call(turn, call.started.n, UNKNOWN_OUTCOME.to_owned()).await;
            if let Err(error) = ended {
                tracing::warn!(%turn, %error, "unknown outcome of a tool call could not be saved");
            }
        }
        replayed(&calls, UNKNOWN_OUTCOME)
    }

    /// Adds the tool calls of a turn to its transcript if the turn ends without an answer that contains them.
    pub(super) async fn keep_steps(&self, turn: TurnId, cause: Cause, conclusion: &mut Conclusion) {
        if conclusion.end == TurnEnd::Finished {
            return;
        }
        let open = if cause == Cause::Stopped { STOPPED_OUTCOME } else { CUT_OUTCOME };
        let mut steps = replayed(&self.calls_of(turn).await, open);
        if let Some(last) = conclusion.messages.last_mut() {
            last.content = without_steps(&last.content, &steps);
        }
        conclusion.messages.retain(|message| !message.content.trim().is_empty());
        steps.append(&mut conclusion.messages);
        conclusion.messages = steps;
    }

    async fn calls_of(&self, turn: TurnId) -> Vec<CallRow> {
        self.host.store.calls_of(turn).await.unwrap_or_else(|error| {
            tracing::error!(%turn, %error, "tool calls of a turn could not be read");
            Vec::new()
        })
    }
}

/// Returns the text after the last tool call.
fn without_steps(said: &str, steps: &[Message]) -> String {
    let mut rest = said;
    for step in steps {
        rest =
            rest.trim_start().strip_prefix(step.content.trim()).filter(|_| !step.tool_calls.is_empty()).unwrap_or(rest);
    }
    if rest.len() < said.len() { rest.trim_start().to_owned() } else { said.to_owned() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_said_before_tools_stands_in_the_transcript_once() {
        let step = |said: &str| {
            let mut step = Message::assistant(said);
            step.tool_calls = vec![json!({"id": "a"})];
            step
        };
        let steps = [step("Let me see."), Message::new(hermes_agent::Role::Tool, "x"), step(""), step("And here.")];
        assert_eq!(without_steps("Let me see.\n\nAnd here.\n\nHalf\n\n(interrupted)", &steps), "Half\n\n(interrupted)");
        assert_eq!(without_steps("(no answer: it failed)", &steps), "(no answer: it failed)");
        assert_eq!(without_steps("Half", &[]), "Half");
    }
}
