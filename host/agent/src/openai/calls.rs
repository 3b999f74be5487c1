//! The calls of one answer: put together from the pieces in which they come, then
//! carried out.

use std::time::Duration;

use hermes_core::context::TurnContext;
use hermes_core::ids::TurnId;
use serde_json::Value;

use super::answer::ANSWER_BYTES_MAX;
use crate::Message;
use crate::tools::output::bounded;
use crate::tools::ports::result_of;
use crate::tools::{RESULT_BYTES_MAX, Ready, StartedCall, ToolCall, ToolResult, ToolSide, Toolbox};

/// Calls of one answer; further ones are not taken.
pub(super) const CALLS_MAX: usize = 32;

/// How often the chat hears that tools still work.
const STILL_WORKING: Duration = Duration::from_secs(60);

/// Calls as far as they have come.
#[derive(Debug, Default)]
pub(super) struct Calls {
    slots: Vec<Slot>,
    bytes: usize,
}

#[derive(Debug, Default)]
struct Slot {
    index: Option<u64>,
    call: ToolCall,
}

impl Calls {
    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// How much of them has come.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes the calls of one piece, or of a whole message.
    pub(super) fn take(&mut self, delta: &Value) {
        for piece in delta["tool_calls"].as_array().into_iter().flatten() {
            self.piece(piece["index"].as_u64(), piece["id"].as_str().unwrap_or_default(), &piece["function"]);
        }
        if delta["function_call"].is_object() {
            // What came before tools: one call, without a name of its own.
            self.piece(Some(0), "", &delta["function_call"]);
        }
    }

    fn piece(&mut self, index: Option<u64>, id: &str, function: &Value) {
        let name = function["name"].as_str().unwrap_or_default();
        // Some endpoints number nothing, some give every call the same number.
        let is_other = |slot: &Slot| !id.is_empty() && !slot.call.id.is_empty() && slot.call.id != id;
        let at = match index {
            Some(_) => self.slots.iter().rposition(|slot| slot.index == index && !is_other(slot)),
            None if !id.is_empty() => self.slots.iter().rposition(|slot| slot.call.id == id),
            None if !name.is_empty() => None,
            None => self.slots.len().checked_sub(1),
        };
        let at = match at {
            Some(at) => at,
            None if self.slots.len() >= CALLS_MAX => return,
            None => {
                self.slots.push(Slot { index, call: ToolCall::default() });
                self.slots.len() - 1
            }
        };
        let call = &mut self.slots[at].call;
        if call.id.is_empty() {
            call.id.push_str(id);
        }
        // A name comes whole, at times more than once.
        if call.name.is_empty() {
            call.name.push_str(name);
        }
        let arguments = match &function["arguments"] {
            Value::String(arguments) => arguments.clone(),
            Value::Null => String::new(),
            whole => whole.to_string(),
        };
        if self.bytes + arguments.len() <= ANSWER_BYTES_MAX {
            call.arguments.push_str(&arguments);
        }
        self.bytes += name.len() + arguments.len() + 1;
    }

    /// The calls, each with an id: `step` makes those unique that have none.
    pub(super) fn finished(self, step: u32) -> Vec<ToolCall> {
        let calls = self.slots.into_iter().map(|slot| slot.call).enumerate();
        calls
            .map(|(n, call)| {
                let id = if call.id.is_empty() { format!("call_{step}_{n}") } else { call.id };
                let arguments = if call.arguments.trim().is_empty() { "{}".to_owned() } else { call.arguments };
                ToolCall { id, arguments, ..call }
            })
            .collect()
    }
}

/// The calls of one answer, on their way.
pub(super) struct Round<'a> {
    /// What can be called.
    pub tools: &'a Toolbox,
    /// Where the turn comes from.
    pub context: &'a TurnContext,
    /// What the tools know of it.
    pub side: &'a ToolSide,
    /// Which answer asks, from 0.
    pub step: u32,
    /// What it said.
    pub said: &'a str,
    /// The number of its first call within the turn.
    pub first: u32,
}

impl Round<'_> {
    /// Carries the calls out: side by side where all of them may be, else in order. Returns their results, in order.
    pub(super) async fn carry_out(&self, calls: &[ToolCall]) -> Vec<Message> {
        let ready: Vec<Result<Ready, String>> = calls.iter().map(|call| self.tools.ready(call)).collect();
        let side_by_side =
            calls.len() > 1 && ready.iter().all(|ready| ready.as_ref().is_ok_and(|ready| ready.parallel));
        let numbered: Vec<(u32, &ToolCall)> = (self.first..).zip(calls).collect();
        if side_by_side {
            if let Err(why) = self.write(&numbered).await {
                return calls.iter().map(|call| result_of(call, not_written(&why))).collect();
            }
            let running = numbered.iter().zip(&ready).map(|((n, call), ready)| self.run(*n, call, ready));
            return futures_util::future::join_all(running).await;
        }
        let mut results = Vec::new();
        for (numbered, ready) in numbered.iter().zip(&ready) {
            results.push(match self.write(std::slice::from_ref(numbered)).await {
                Ok(()) => self.run(numbered.0, numbered.1, ready).await,
                Err(why) => result_of(numbered.1, not_written(&why)),
            });
        }
        results
    }

    /// Writes that calls start.
    async fn write(&self, calls: &[(u32, &ToolCall)]) -> Result<(), String> {
        let started = |(n, call): &(u32, &ToolCall)| StartedCall {
            n: *n,
            step: self.step,
            said: self.said.to_owned(),
            call: (*call).clone(),
        };
        self.tools.ports().ledger.started(self.turn(), calls.iter().map(started).collect()).await
    }

    async fn run(&self, n: u32, call: &ToolCall, ready: &Result<Ready, String>) -> Message {
        let result = match ready {
            Err(why) => ToolResult::failed(why),
            Ok(ready) => {
                let mask = &self.tools.ports().mask;
                self.side.events.tool(&*call.name, mask.mask(ready.summary.clone())).await;
                self.called(&call.name, ready).await
            }
        };
        let text = bounded(&self.tools.ports().mask.mask(result.text), RESULT_BYTES_MAX);
        if let Err(why) = self.tools.ports().ledger.ended(self.turn(), n, text.clone()).await {
            tracing::warn!(turn = %self.turn(), tool = %call.name, why, "the result of a tool is not written");
        }
        result_of(call, text)
    }

    async fn called(&self, name: &str, ready: &Ready) -> ToolResult {
        let called = ready.tool.call(self.context, ready.arguments.clone(), self.side);
        tokio::pin!(called);
        loop {
            match tokio::time::timeout(STILL_WORKING, &mut called).await {
                Ok(result) => return result,
                Err(_) => self.side.events.progress("working", format!("{name}: {}", ready.summary)).await,
            }
        }
    }

    fn turn(&self) -> TurnId {
        self.side.turn
    }
}

fn not_written(why: &str) -> String {
    ToolResult::failed(format!("not run: the host could not write it down ({why})")).text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn calls(deltas: &[Value]) -> Vec<(String, String, String)> {
        let mut calls = Calls::default();
        deltas.iter().for_each(|delta| calls.take(delta));
        calls.finished(3).into_iter().map(|call| (call.id, call.name, call.arguments)).collect()
    }

    fn piece(index: Value, id: Value, name: Value, arguments: Value) -> Value {
        json!({"tool_calls": [{"index": index, "id": id, "function": {"name": name, "arguments": arguments}}]})
    }

    fn call(id: &str, name: &str, arguments: &str) -> (String, String, String) {
        (id.to_owned(), name.to_owned(), arguments.to_owned())
    }

    #[test]
    fn calls_are_put_together_from_their_pieces() {
        let pieces = [
            piece(json!(0), json!("a"), json!("todo"), json!("")),
            piece(json!(1), json!("b"), json!("memory"), json!("{\"x\"")),
            piece(json!(0), json!(null), json!(null), json!("{\"y\": ")),
            piece(json!(1), json!(null), json!(null), json!(": 1}")),
            piece(json!(0), json!(""), json!(""), json!("2}")),
        ];
        assert_eq!(calls(&pieces), [call("a", "todo", "{\"y\": 2}"), call("b", "memory", "{\"x\": 1}")]);
    }

    #[test]
    fn endpoints_may_number_nothing_or_all_alike_and_may_send_whole_calls() {
        let alike = [
            piece(json!(0), json!("a"), json!("todo"), json!("{}")),
            piece(json!(0), json!("b"), json!("todo"), json!("{\"n\":1}")),
        ];
        assert_eq!(calls(&alike), [call("a", "todo", "{}"), call("b", "todo", "{\"n\":1}")]);
        let unnumbered = [
            piece(json!(null), json!(null), json!("todo"), json!({"n": 1})),
            piece(json!(null), json!(null), json!("memory"), json!("{\"a\"")),
            piece(json!(null), json!(null), json!(null), json!(":2}")),
        ];
        assert_eq!(
            calls(&unnumbered),
            [call("call_3_0", "todo", "{\"n\":1}"), call("call_3_1", "memory", "{\"a\":2}")]
        );
        let repeated = [
            piece(json!(0), json!("a"), json!("todo"), json!("{")),
            piece(json!(0), json!("a"), json!("todo"), json!("}")),
        ];
        assert_eq!(calls(&repeated), [call("a", "todo", "{}")]);
        assert_eq!(
            calls(&[json!({"function_call": {"name": "todo", "arguments": ""}})]),
            [call("call_3_0", "todo", "{}")]
        );
    }

    #[test]
    fn what_is_endless_or_odd_is_bounded() {
        let many: Vec<Value> =
            (0..1_000).map(|n| piece(json!(n), json!(format!("c{n}")), json!("todo"), json!("{}"))).collect();
        assert_eq!(calls(&many).len(), CALLS_MAX);
        let odd = [json!({"tool_calls": [7, null, {"function": 7}]}), json!({"tool_calls": {}}), json!(null)];
        let _ = calls(&odd);
        let mut endless = Calls::default();
        for _ in 0..20 {
            endless.take(&piece(json!(0), json!("a"), json!("todo"), json!("x".repeat(100_000))));
        }
        assert!(endless.bytes() > ANSWER_BYTES_MAX && endless.slots[0].call.arguments.len() <= ANSWER_BYTES_MAX);
    }
}
