//! The messages of a request: a transcript in the form that the strictest endpoints accept.
//!
//! Rules for all endpoints: every call has one result and every result has its call, arguments are JSON
//! objects, names and ids are plain and unique, no message is empty, and the total fits the known room. A
//! [`MessageShape`] holds the additional demands of some endpoints, learned from their refusals.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::calls::plain_name;
use super::fit::{MessageGroup, fit, tokens_of, tokens_of_text};
use super::json;
use super::shape::{MessageShape, shaped};
use crate::openai::pictures::Pictures;
use crate::tools::ports::UNKNOWN_OUTCOME;
use crate::{Message, Role};

/// Content of a tool result without text.
const NO_OUTPUT: &str = "(no output)";

/// Content of a user message without text.
const NO_TEXT: &str = "(no text)";

/// Content of a message with calls, for endpoints that refuse empty content.
const CALLING: &str = "(calls tools)";

/// A conversation before it is formatted.
#[derive(Clone, Copy)]
pub(in crate::openai) struct Conversation<'a> {
    /// Instructions; may be empty.
    pub instructions: &'a str,
    /// Messages before the turn.
    pub history: &'a [&'a Message],
    /// Messages of the turn.
    pub input: &'a [&'a Message],
    /// True if calls and results are sent.
    pub calls: bool,
    /// Pictures to show.
    pub pictures: &'a Pictures,
}

/// Formatted messages.
#[derive(Debug, Default)]
pub(in crate::openai) struct FittedMessages {
    /// The messages.
    pub messages: Vec<Value>,
    /// Omitted history messages.
    pub left_out: usize,
    /// Estimated size, in tokens.
    pub tokens: usize,
}

/// Formats a conversation in a shape and omits its oldest messages until it fits into `room` tokens.
pub(in crate::openai) fn format_messages(
    conversation: &Conversation<'_>,
    shape: MessageShape,
    room: Option<usize>,
) -> FittedMessages {
    let mut ids = BTreeSet::new();
    let mut history = if shape.bare { Vec::new() } else { groups(conversation.history, conversation, shape, &mut ids) };
    let mut input = groups(conversation.input, conversation, shape, &mut ids);
    if !input.iter().flat_map(|group| &group.messages).any(|message| message["role"] == "user") && history.is_empty() {
        input.insert(0, MessageGroup::new(vec![json!({"role": "user", "content": NO_TEXT})], 0));
    }
    let mut left_out = if shape.bare { conversation.history.len() } else { 0 };
    if let Some(room) = room {
        left_out += fit(&mut history, &mut input, tokens_of_text(conversation.instructions), room);
    }
    let mut instructions = conversation.instructions.to_owned();
    if left_out > 0 {
        let note = format!(
            "[The {left_out} oldest messages of this conversation are omitted because they do not fit into the context window.]"
        );
        instructions = format!("{instructions}\n\n{note}").trim_start().to_owned();
    }
    let mut messages: Vec<Value> = Vec::new();
    if !instructions.is_empty() {
        messages.push(json!({"role": "system", "content": instructions}));
    }
    messages.extend(history.into_iter().chain(input).flat_map(|group| group.messages));
    let messages = shaped(messages, shape);
    let tokens = messages.iter().map(tokens_of).sum();
    FittedMessages { messages, left_out, tokens }
}

/// Groups messages. Endpoints refuse a call without its result and a result without its call, so a
/// missing result is replaced and a result without its call is omitted.
fn groups(
    messages: &[&Message],
    conversation: &Conversation<'_>,
    shape: MessageShape,
    ids: &mut BTreeSet<String>,
) -> Vec<MessageGroup> {
    let mut groups = Vec::new();
    let mut rest = messages;
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        if first.role == Role::Tool {
            continue;
        }
        if first.tool_calls.is_empty() || !conversation.calls {
            groups.extend(message(first, conversation.pictures).map(|message| MessageGroup::new(vec![message], 1)));
            continue;
        }
        let count = rest.iter().take_while(|message| message.role == Role::Tool).count();
        let (results, behind) = rest.split_at(count);
        rest = behind;
        groups.push(MessageGroup::new(with_results(first, results, shape, ids), 1 + count));
    }
    groups
}

/// Formats an answer with calls, and one result for each of them.
fn with_results(asked: &Message, results: &[&Message], shape: MessageShape, ids: &mut BTreeSet<String>) -> Vec<Value> {
    let mut unused: Vec<&Message> = results.to_vec();
    let mut calls = Vec::new();
    let mut answers = Vec::new();
    for (n, call) in asked.tool_calls.iter().enumerate() {
        let id = call["id"].as_str().unwrap_or_default();
        let found = unused.iter().position(|result| result.tool_call_id.as_deref() == Some(id));
        let result = found.map(|at| unused.remove(at));
        let content = result.map_or(UNKNOWN_OUTCOME, |result| result.content.as_str());
        let content = if content.trim().is_empty() { NO_OUTPUT } else { content };
        let function = if call["function"].is_object() { &call["function"] } else { call };
        let name = plain_name(function["name"].as_str().unwrap_or_default());
        let arguments = arguments_of(&function["arguments"]);
        let id = unique(id, n, ids);
        calls.push(json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}));
        answers.push(json!({"role": "tool", "tool_call_id": id, "content": content}));
    }
    if shape.flat {
        return flat(&asked.content, &calls, &answers);
    }
    let content = match asked.content.trim().is_empty() {
        true if shape.filled => CALLING,
        true => "",
        false => asked.content.as_str(),
    };
    let mut message = json!({"role": "assistant", "content": content, "tool_calls": calls});
    if shape.reasoning {
        message["reasoning_content"] = json!(asked.reasoning.as_deref().unwrap_or_default());
    }
    std::iter::once(message).chain(answers).collect()
}

/// Formats calls and results as ordinary text of both sides.
fn flat(text_before: &str, calls: &[Value], answers: &[Value]) -> Vec<Value> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let called = calls.iter().map(|call| {
        format!("[called the tool {} with {}]", text(&call["function"]["name"]), text(&call["function"]["arguments"]))
    });
    let before = Some(text_before.to_owned()).filter(|text| !text.trim().is_empty());
    let asked = before.into_iter().chain(called).collect::<Vec<_>>().join("\n");
    let results = calls.iter().zip(answers);
    let results = results.map(|(call, answer)| {
        format!("[result of the tool {}]\n{}", text(&call["function"]["name"]), text(&answer["content"]))
    });
    let results = results.collect::<Vec<_>>().join("\n\n");
    vec![json!({"role": "assistant", "content": asked}), json!({"role": "user", "content": results})]
}

/// Returns arguments as a JSON object. Invalid arguments become the empty object, because the result already
/// explains the error.
fn arguments_of(arguments: &Value) -> String {
    match arguments {
        Value::String(text) => match json::object(text) {
            Ok(_) if serde_json::from_str::<serde_json::Map<String, Value>>(text).is_ok() => text.clone(),
            Ok(object) => object.to_string(),
            Err(_) => "{}".to_owned(),
        },
        Value::Object(_) => arguments.to_string(),
        _ => "{}".to_owned(),
    }
}

/// Returns an id that no earlier call has.
fn unique(id: &str, n: usize, ids: &mut BTreeSet<String>) -> String {
    let id = if id.trim().is_empty() { format!("call_{n}") } else { id.to_owned() };
    let numbered = (2..).map(|n: usize| format!("{id}_{n}"));
    let free = std::iter::once(id.clone()).chain(numbered).find(|id| !ids.contains(id)).unwrap_or_default();
    ids.insert(free.clone());
    free
}

/// Formats one user or assistant message, or returns `None` if it has no content. Reasoning is never included.
/// The text already names every file and the way to read it; pictures that are not shown are counted.
fn message(message: &Message, pictures: &Pictures) -> Option<Value> {
    let hidden = message.attachments.iter().filter(|file| {
        let is_picture = file.kind == hermes_protocol::AttachmentKind::Image || file.mime.starts_with("image/");
        is_picture && file.note.is_none() && pictures.of(file).is_none()
    });
    let mut content = message.content.clone();
    match hidden.count() {
        0 => {}
        1 => content.push_str("\n[1 image of this message is omitted]"),
        n => content.push_str(&format!("\n[{n} images of this message are omitted]")),
    }
    let content = content.trim_start_matches('\n').to_owned();
    let shown: Vec<Value> = message
        .attachments
        .iter()
        .filter_map(|file| Some(json!({"type": "image_url", "image_url": {"url": pictures.of(file)?}})))
        .collect();
    let content = match (content.trim().is_empty(), shown.is_empty()) {
        (true, true) => return None,
        (_, true) => Value::String(content),
        (true, false) => Value::Array(shown),
        (false, false) => std::iter::once(json!({"type": "text", "text": content})).chain(shown).collect(),
    };
    Some(json!({"role": message.role.as_str(), "content": content}))
}

#[cfg(test)]
mod tests {
    use super::super::shape::CONTINUES;
    use super::*;

    fn asked(ids: &[&str], arguments: &str) -> Message {
        let call =
            |id: &&str| json!({"id": id, "type": "function", "function": {"name": "todo", "arguments": arguments}});
        let mut asked = Message::assistant("");
        asked.tool_calls = ids.iter().map(call).collect();
        asked
    }

    fn result(id: &str, text: &str) -> Message {
        let mut result = Message::new(Role::Tool, text);
        result.tool_call_id = Some(id.to_owned());
        result
    }

    fn write(history: &[Message], input: &[Message], shape: MessageShape, room: Option<usize>) -> FittedMessages {
        let history: Vec<&Message> = history.iter().collect();
        let input: Vec<&Message> = input.iter().collect();
        let pictures = Pictures::default();
        let conversation = Conversation {
            instructions: "Be brief.",
            history: &history,
            input: &input,
            calls: true,
            pictures: &pictures,
        };
        let fitted = format_messages(&conversation, shape, room);
        assert_valid(&fitted.messages);
        fitted
    }

    /// Asserts the rules for all endpoints.
    fn assert_valid(messages: &[Value]) {
        let mut open: Vec<&str> = Vec::new();
        let mut ids = BTreeSet::new();
        for message in messages {
            let text = |value: &Value| value.as_str().is_some_and(|text| !text.trim().is_empty());
            if message["role"] == "tool" {
                let id = message["tool_call_id"].as_str().unwrap();
                assert!(open.contains(&id) && text(&message["content"]), "{message}");
                open.retain(|other| *other != id);
                continue;
            }
            assert!(open.is_empty(), "every call has its result: {messages:?}");
            let calls = message["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default();
            assert!(text(&message["content"]) || !calls.is_empty() || message["content"].is_array(), "{message}");
            assert!(!message["content"].is_null(), "{message}");
            for call in calls {
                let arguments = call["function"]["arguments"].as_str().unwrap();
                assert!(serde_json::from_str::<Value>(arguments).unwrap().is_object(), "{call}");
                assert!(text(&call["function"]["name"]));
                let id = call["id"].as_str().unwrap();
                assert!(ids.insert(id.to_owned()), "an id of its own: {id}");
                open.push(id);
            }
        }
        assert!(open.is_empty());
    }

    fn lines(fitted: &FittedMessages) -> Vec<(String, String)> {
        let line = |message: &Value| {
            let role = message["role"].as_str().unwrap().to_owned();
            (role, message["content"].as_str().unwrap_or("(parts)").to_owned())
        };
        fitted.messages.iter().map(line).collect()
    }

    fn roles(fitted: &FittedMessages) -> Vec<String> {
        lines(fitted).into_iter().map(|(role, _)| role).collect()
    }

    #[test]
    fn arguments_that_cannot_be_read_go_back_as_the_empty_object() {
        for arguments in ["{\"todos\": [", "buy milk", "[1, 2]", "{\"a\":1}{\"b\":2}", "", "7", "{\"a\": NaN, \"b\":"] {
            let history = [Message::user("hi"), asked(&["a"], arguments), result("a", "wrong")];
            let fitted = write(&history, &[Message::user("now")], MessageShape::default(), None);
            assert_eq!(fitted.messages[2]["tool_calls"][0]["function"]["arguments"], "{}", "{arguments}");
        }
        let history = [asked(&["a"], "{\"a\": 1}"), result("a", "fine")];
        let fitted = write(&history, &[Message::user("now")], MessageShape::default(), None);
        assert_eq!(fitted.messages[1]["tool_calls"][0]["function"]["arguments"], "{\"a\": 1}");
    }

    #[test]
    fn calls_and_results_are_completed_numbered_and_never_alone() {
        let history = [
            result("stranger", "x"),
            asked(&["a", "a", ""], "{}"),
            result("a", " "),
            Message::assistant("  "),
            asked(&["a"], "{}"),
            Message::user("next"),
        ];
        let fitted = write(&history, &[Message::user("now")], MessageShape::default(), None);
        assert_eq!(
            roles(&fitted),
            ["system", "assistant", "tool", "tool", "tool", "assistant", "tool", "user", "user"]
        );
        let contents = lines(&fitted);
        assert_eq!((contents[2].1.as_str(), contents[3].1.as_str()), (NO_OUTPUT, UNKNOWN_OUTCOME));
    }

    #[test]
    fn every_shape_is_valid() {
        let history = [
            Message::assistant("hello"),
            Message::user("one"),
            Message::user("two"),
            asked(&["a"], "{}"),
            result("a", "done"),
            Message::assistant("three"),
            Message::system("a note"),
        ];
        let all = MessageShape { alternate: true, filled: true, ..MessageShape::default() };
        let input = [Message::user("now")];
        let fitted = write(&history, &input, all, None);
        assert_eq!(roles(&fitted), ["system", "user", "assistant", "user", "assistant", "tool", "assistant", "user"]);
        assert_eq!(lines(&fitted)[3].1, "one\n\ntwo");
        let fitted = write(&history, &input, MessageShape { without_system: true, ..all }, None);
        assert_eq!(lines(&fitted)[0], ("user".to_owned(), format!("Be brief.\n\n{CONTINUES}")));
        let fitted = write(&history, &input, MessageShape { flat: true, ..all }, None);
        assert_eq!(roles(&fitted), ["system", "user", "assistant", "user", "assistant", "user", "assistant", "user"]);
        assert!(fitted.messages[5]["content"].as_str().unwrap().contains("done"));
        let fitted = write(&history, &input, MessageShape { bare: true, ..all }, None);
        assert_eq!((roles(&fitted), fitted.left_out), (vec!["system".to_owned(), "user".to_owned()], 7));
        let fitted = write(&[], &[Message::user(" ")], MessageShape::default(), None);
        assert_eq!(lines(&fitted)[1], ("user".to_owned(), NO_TEXT.to_owned()));
    }

    #[test]
    fn the_oldest_messages_are_left_out_until_the_rest_fits() {
        let history: Vec<Message> = (0..10)
            .flat_map(|n| [Message::user(format!("{n} ").repeat(200)), Message::assistant(format!("{n}").repeat(40))])
            .collect();
        let all = write(&history, &[Message::user("now")], MessageShape::default(), Some(100_000));
        assert_eq!((all.left_out, all.messages.len()), (0, 22));
        let fitted = write(&history, &[Message::user("now")], MessageShape::default(), Some(500));
        assert!(fitted.left_out >= 12 && fitted.tokens <= 540, "{fitted:?}");
        assert_eq!(fitted.messages[1]["role"], "user", "no answer without its question comes first");
        let note = fitted.messages[0]["content"].as_str().unwrap();
        assert!(note.contains(&format!("The {} oldest messages", fitted.left_out)), "{note}");
    }

    #[test]
    fn one_long_message_costs_only_itself() {
        let history = [
            Message::user("x".repeat(27_000)),
            Message::assistant("(no answer)"),
            Message::user("b"),
            Message::assistant("c"),
        ];
        let fitted = write(&history, &[Message::user("hello")], MessageShape::default(), Some(5_000));
        assert_eq!(fitted.left_out, 0);
        assert!(fitted.messages[1]["content"].as_str().unwrap().contains("characters omitted"));
        let wide = write(
            &[Message::user("漢".repeat(9_000))],
            &[Message::user("hello")],
            MessageShape::default(),
            Some(5_000),
        );
        assert!(wide.tokens < 1_000, "{}", wide.tokens);
    }

    #[test]
    fn older_results_of_the_turn_are_cut_where_the_turn_itself_is_too_long() {
        let mut input = vec![Message::user("go")];
        for n in 0..6 {
            let id = format!("c{n}");
            input.push(asked(&[&id], "{}"));
            input.push(result(&id, &"y".repeat(8_000)));
        }
        let fitted = write(&[], &input, MessageShape::default(), Some(6_000));
        assert!(fitted.tokens <= 6_100, "{}", fitted.tokens);
        let last = fitted.messages.last().unwrap();
        assert_eq!(last["content"].as_str().unwrap().len(), 8_000, "the newest results are whole");
    }
}
