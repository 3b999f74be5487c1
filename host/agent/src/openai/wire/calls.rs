//! The tool calls of one answer, assembled from streamed pieces.

use serde_json::Value;

use super::answer::ANSWER_BYTES_MAX;
use super::json::{self, SurrogateJoiner};
use crate::tools::ToolCall;

/// Calls of one answer; further ones are ignored.
const CALLS_MAX: usize = 32;

/// Longest tool name that endpoints accept, in bytes.
const NAME_BYTES_MAX: usize = 64;

/// The calls received so far.
#[derive(Debug, Default)]
pub(in crate::openai) struct Calls {
    slots: Vec<Slot>,
    bytes: usize,
}

#[derive(Debug, Default)]
struct Slot {
    index: Option<u64>,
    id: String,
    /// Pieces of the name; some endpoints repeat the name, some split it.
    names: Vec<String>,
    arguments: String,
    join: SurrogateJoiner,
}

impl Calls {
    /// Returns true if there are no calls.
    pub(in crate::openai) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Returns the number of received bytes.
    pub(in crate::openai) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns true if the arguments of every call are a complete JSON object.
    pub(in crate::openai) fn are_whole(&self) -> bool {
        self.slots.iter().all(|slot| !slot.arguments.trim().is_empty() && json::object(&slot.arguments).is_ok())
    }

    /// Processes the calls of one piece, or of a complete message.
    pub(in crate::openai) fn take(&mut self, delta: &Value) {
        let calls = &delta["tool_calls"];
        let pieces = calls.as_array().map_or(std::slice::from_ref(calls), Vec::as_slice);
        for piece in pieces.iter().filter(|piece| piece.is_object()) {
            let index = piece["index"].as_u64().or_else(|| piece["index"].as_str()?.parse().ok());
            // Some gateways omit the wrapper `function`.
            let function = if piece["function"].is_object() { &piece["function"] } else { piece };
            self.piece(index, &id(&piece["id"]), function);
        }
        if delta["function_call"].is_object() {
            // The older format without `tool_calls`: one call without an id.
            self.piece(Some(0), "", &delta["function_call"]);
        }
    }

    fn piece(&mut self, index: Option<u64>, id: &str, function: &Value) {
        let name = function["name"].as_str().unwrap_or_default();
        let arguments = match &function["arguments"] {
            Value::String(arguments) => arguments.clone(),
            Value::Null => String::new(),
            whole => whole.to_string(),
        };
        let at = match self.slot_of(index, id, name, &arguments) {
            Some(at) => at,
            None if self.slots.len() >= CALLS_MAX => return,
            None if id.is_empty() && name.is_empty() && arguments.trim().is_empty() => return,
            None => {
                self.slots.push(Slot { index, ..Slot::default() });
                self.slots.len() - 1
            }
        };
        let slot = &mut self.slots[at];
        if slot.id.is_empty() {
            slot.id.push_str(id);
        }
        if !name.is_empty() && name.len() <= NAME_BYTES_MAX * 4 && slot.names.len() < NAME_BYTES_MAX {
            slot.names.push(name.to_owned());
        }
        self.bytes += name.len() + arguments.len() + 1;
        if self.bytes <= ANSWER_BYTES_MAX {
            let joined = slot.join.take(&arguments);
            slot.arguments.push_str(&joined);
        }
    }

    /// Returns the index of the call that a piece continues, or `None` if a new call begins.
    fn slot_of(&self, index: Option<u64>, id: &str, name: &str, arguments: &str) -> Option<usize> {
        // A piece with a name may begin a new call: some endpoints give all calls the same index.
        let begins = |slot: &Slot| {
            let other_id = !id.is_empty() && !slot.id.is_empty() && slot.id != id;
            let is_whole = !slot.arguments.trim().is_empty() && json::object(&slot.arguments).is_ok();
            !name.is_empty() && (other_id || id.is_empty() && !arguments.is_empty() && is_whole)
        };
        match index {
            Some(_) => self.slots.iter().rposition(|slot| slot.index == index).filter(|&at| !begins(&self.slots[at])),
            None => {
                let same = self.slots.iter().rposition(|slot| !id.is_empty() && slot.id == id);
                same.or_else(|| if name.is_empty() { self.slots.len().checked_sub(1) } else { None })
            }
        }
    }

    /// Returns the calls with unique ids. `step` makes generated ids unique.
    pub(in crate::openai) fn finished(self, step: u32) -> Vec<ToolCall> {
        let mut calls: Vec<ToolCall> = Vec::new();
        for (n, mut slot) in self.slots.into_iter().enumerate() {
            let taken = |id: &str| id.is_empty() || calls.iter().any(|call| call.id == id);
            let id = if taken(&slot.id) { format!("call_{step}_{n}") } else { slot.id };
            let end = slot.join.end();
            slot.arguments.push_str(&end);
            let arguments = if slot.arguments.trim().is_empty() { "{}".to_owned() } else { slot.arguments };
            calls.push(ToolCall { id, name: name_of(&slot.names), arguments });
        }
        calls
    }
}

/// Returns an id as text. Some servers send numbers.
fn id(id: &Value) -> String {
    match id {
        Value::String(id) => id.clone(),
        Value::Number(id) => id.to_string(),
        _ => String::new(),
    }
}

/// Joins the pieces of a name, which may be repeated, growing or split.
fn name_of(pieces: &[String]) -> String {
    let Some((first, more)) = pieces.split_first() else { return String::new() };
    let repeats = more.iter().all(|piece| piece == first);
    let grows = pieces.windows(2).all(|pair| pair[1].starts_with(pair[0].as_str()));
    match (repeats, grows) {
        (true, _) => first.clone(),
        (_, true) => pieces.last().cloned().unwrap_or_default(),
        _ => pieces.concat(),
    }
}

/// Returns the name in a form that every endpoint accepts.
pub(in crate::openai) fn plain_name(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
    let name: String = name.trim().chars().map(plain).take(NAME_BYTES_MAX).collect();
    if name.is_empty() { "unknown".to_owned() } else { name }
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
    fn calls_with_the_same_number_or_none_are_told_apart() {
        let same = [
            piece(json!(0), json!("a"), json!("todo"), json!("{}")),
            piece(json!(0), json!("b"), json!("todo"), json!("{\"n\":1}")),
        ];
        assert_eq!(calls(&same), [call("a", "todo", "{}"), call("b", "todo", "{\"n\":1}")]);
        let without_ids = [
            piece(json!(0), json!(null), json!("todo"), json!("{}")),
            piece(json!(0), json!(null), json!("memory"), json!("{\"n\":1}")),
        ];
        assert_eq!(calls(&without_ids), [call("call_3_0", "todo", "{}"), call("call_3_1", "memory", "{\"n\":1}")]);
        let unnumbered = [
            piece(json!(null), json!(null), json!("todo"), json!({"n": 1})),
            piece(json!(null), json!(null), json!("memory"), json!("{\"a\"")),
            piece(json!(null), json!(null), json!(null), json!(":2}")),
        ];
        assert_eq!(
            calls(&unnumbered),
            [call("call_3_0", "todo", "{\"n\":1}"), call("call_3_1", "memory", "{\"a\":2}")]
        );
        let same_id = [
            piece(json!(0), json!("x"), json!("todo"), json!("{}")),
            piece(json!(1), json!("x"), json!("memory"), json!("{}")),
        ];
        assert_eq!(calls(&same_id), [call("x", "todo", "{}"), call("call_3_1", "memory", "{}")]);
    }

    #[test]
    fn an_id_that_changes_with_every_piece_begins_no_call() {
        let pieces = [
            piece(json!(0), json!("a"), json!("todo"), json!("{\"n\"")),
            piece(json!(0), json!("b"), json!(null), json!(": 1")),
            piece(json!(0), json!("c"), json!(null), json!("}")),
        ];
        assert_eq!(calls(&pieces), [call("a", "todo", "{\"n\": 1}")]);
    }

    #[test]
    fn a_name_may_be_repeated_split_or_grow() {
        let named = |names: [&str; 3]| {
            let pieces = names.map(|name| piece(json!(0), json!("a"), json!(name), json!("")));
            calls(&pieces).remove(0).1
        };
        assert_eq!(named(["todo", "todo", "todo"]), "todo");
        assert_eq!(named(["send", "_mess", "age"]), "send_message");
        assert_eq!(named(["send", "send_mess", "send_message"]), "send_message");
    }

    #[test]
    fn other_forms_of_a_call_are_read() {
        let legacy = json!({"function_call": {"name": "todo", "arguments": "{}"}});
        assert_eq!(calls(&[legacy]), [call("call_3_0", "todo", "{}")]);
        let flat = json!({"tool_calls": {"index": "0", "id": 7, "name": "todo", "arguments": {"n": 1}}});
        assert_eq!(calls(&[flat]), [call("7", "todo", "{\"n\":1}")]);
        let halves = [
            piece(json!(0), json!("a"), json!("todo"), json!("{\"a\": \"\u{10d83e}")),
            piece(json!(0), json!(null), json!(null), json!("\u{10dd80}\"}")),
        ];
        assert_eq!(calls(&halves), [call("a", "todo", "{\"a\": \"🦀\"}")]);
    }

    #[test]
    fn calls_are_bounded() {
        let many: Vec<Value> =
            (0..CALLS_MAX + 9).map(|n| piece(json!(n), json!(null), json!("todo"), json!("{}"))).collect();
        assert_eq!(calls(&many).len(), CALLS_MAX);
        let mut long = Calls::default();
        for _ in 0..4 {
            long.take(&piece(json!(0), json!("a"), json!("todo"), json!("x".repeat(ANSWER_BYTES_MAX / 2))));
        }
        assert!(long.bytes() > ANSWER_BYTES_MAX);
        assert!(long.finished(0)[0].arguments.len() <= ANSWER_BYTES_MAX);
    }

    #[test]
    fn a_name_that_goes_back_is_one_that_endpoints_take() {
        assert_eq!(plain_name("functions.todo"), "functions_todo");
        assert_eq!(plain_name(" "), "unknown");
        assert_eq!(plain_name(&"ü".repeat(200)).len(), NAME_BYTES_MAX);
    }
}
