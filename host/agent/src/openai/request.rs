//! What the endpoint is asked.

use serde_json::{Value, json};

use super::pictures::Pictures;
use crate::tools::ports::UNKNOWN_OUTCOME;
use crate::{Message, Role, TurnRequest};

/// What not every endpoint takes.
#[derive(Clone, Debug)]
pub(super) struct Extras {
    /// The wish to be told what it cost.
    pub usage: bool,
    /// How much the model should think.
    pub effort: bool,
    /// What the model may call.
    pub offer: Option<Offer>,
}

/// Tools that a model may call.
#[derive(Clone, Debug)]
pub(super) struct Offer {
    /// The tools.
    pub tools: Value,
    /// Whether they are only named, because the conversation has used them, and not to be called any more.
    pub closing: bool,
}

/// Builds the body of one chat completion request.
pub(super) fn body(
    request: &TurnRequest,
    model: &str,
    system_prompt: &str,
    history_messages_max: usize,
    with: &Extras,
    pictures: &Pictures,
) -> Value {
    let skipped = request.history.len().saturating_sub(history_messages_max);
    let instructions = instructions(system_prompt, &request.system);
    let mut messages: Vec<Value> = Vec::new();
    if !instructions.is_empty() {
        messages.push(json!({"role": "system", "content": instructions}));
    }
    let history = request.history[skipped..].iter().map(|said| &**said);
    let said: Vec<&Message> = history.chain(&request.input).collect();
    let told = |said: &[&Message]| -> Vec<Value> { said.iter().filter_map(|said| message(said, pictures)).collect() };
    messages.extend(if with.offer.is_some() { with_calls(&said, &told) } else { told(&said) });
    let mut body = json!({"model": model, "messages": messages, "stream": true});
    if with.usage {
        body["stream_options"] = json!({"include_usage": true});
    }
    if let Some(effort) = request.reasoning.filter(|_| with.effort) {
        body["reasoning_effort"] = json!(effort.as_str());
    }
    if let Some(offer) = &with.offer {
        body["tools"] = offer.tools.clone();
        if offer.closing {
            body["tool_choice"] = json!("none");
        }
    }
    body
}

/// The conversation with its calls. Endpoints refuse a call without its result and a result without its call, so
/// where one of the two is missing (what was left out, what was interrupted) the other is completed or goes, too.
fn with_calls(said: &[&Message], told: &dyn Fn(&[&Message]) -> Vec<Value>) -> Vec<Value> {
    let mut messages = Vec::new();
    let mut rest = said;
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        if first.role == Role::Tool {
            continue;
        }
        if first.tool_calls.is_empty() {
            messages.extend(told(&[first]));
            continue;
        }
        let results = rest.iter().take_while(|message| message.role == Role::Tool).count();
        let (results, behind) = rest.split_at(results);
        rest = behind;
        let content = if first.content.is_empty() { Value::Null } else { json!(first.content) };
        messages.push(json!({"role": "assistant", "content": content, "tool_calls": first.tool_calls}));
        for call in &first.tool_calls {
            let id = call["id"].as_str().unwrap_or_default();
            let result = results.iter().find(|result| result.tool_call_id.as_deref() == Some(id));
            let content = result.map_or(UNKNOWN_OUTCOME, |result| result.content.as_str());
            messages.push(json!({"role": "tool", "tool_call_id": id, "content": content}));
        }
    }
    messages
}

/// The configured prompt, then what the host adds; a host that says the prompt itself is not repeated.
fn instructions(system_prompt: &str, of_the_host: &str) -> String {
    let (system_prompt, of_the_host) = (system_prompt.trim(), of_the_host.trim());
    if of_the_host.starts_with(system_prompt) {
        return of_the_host.to_owned();
    }
    [system_prompt, of_the_host].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n\n")
}

/// One entry as the endpoint wants it. Tool results are left out together with
/// their calls, since without the tools they mean nothing to the model;
/// reasoning never goes back. The text names every file already; of those that are not
/// pictures the model is told that it cannot look into them.
fn message(message: &Message, pictures: &Pictures) -> Option<Value> {
    if message.role == Role::Tool {
        return None;
    }
    let hidden = message.attachments.iter().filter(|file| file.note.is_none() && pictures.of(file).is_none());
    let hidden: Vec<&str> = hidden.map(|file| file.name.as_str()).collect();
    let mut content = message.content.clone();
    if !hidden.is_empty() {
        content.push_str(&format!("\n[you cannot open: {}]", hidden.join(", ")));
    }
    let content = content.trim_start_matches('\n').to_owned();
    let shown: Vec<Value> = message
        .attachments
        .iter()
        .filter_map(|file| Some(json!({"type": "image_url", "image_url": {"url": pictures.of(file)?}})))
        .collect();
    let content = match (content.is_empty(), shown.is_empty()) {
        (true, true) => return None,
        (_, true) => Value::String(content),
        (true, false) => Value::Array(shown),
        (false, false) => std::iter::once(json!({"type": "text", "text": content})).chain(shown).collect(),
    };
    Some(json!({"role": message.role.as_str(), "content": content}))
}

#[cfg(test)]
mod tests {
    use hermes_core::context::TurnContext;
    use hermes_core::ids::{SessionId, TurnId};
    use hermes_protocol::{Attachment, AttachmentKind};

    use super::*;

    const ALL: &Extras = &Extras { usage: true, effort: true, offer: None };
    const NONE: &Extras = &Extras { usage: false, effort: false, offer: None };

    fn request(system: &str, history: Vec<Message>, input: Vec<Message>) -> TurnRequest {
        TurnRequest {
            session_id: SessionId("s1".to_owned()),
            turn_id: TurnId(1),
            context: TurnContext::default(),
            system: system.to_owned(),
            history: history.into_iter().map(std::sync::Arc::new).collect(),
            input,
            media: None,
            model: None,
            reasoning: None,
            state: None,
            steps: Vec::new(),
            tools: true,
        }
    }

    fn said(body: &Value) -> Vec<(String, String)> {
        let messages = body["messages"].as_array().unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        messages.iter().map(|message| (text(&message["role"]), text(&message["content"]))).collect()
    }

    #[test]
    fn prompt_history_and_input_stand_in_this_order() {
        let history = vec![Message::user("one"), Message::assistant("two")];
        let request = request("You are in a chat.", history, vec![Message::user("three"), Message::user("four")]);
        let body = body(&request, "m", "Be brief.", 200, ALL, &Pictures::default());
        let expected = [
            ("system", "Be brief.\n\nYou are in a chat."),
            ("user", "one"),
            ("assistant", "two"),
            ("user", "three"),
            ("user", "four"),
        ];
        assert_eq!(said(&body), expected.map(|(role, text)| (role.to_owned(), text.to_owned())));
        assert_eq!((&body["model"], &body["stream"]), (&json!("m"), &json!(true)));
        assert_eq!(body["stream_options"], json!({"include_usage": true}));
        assert_eq!(body.get("tools"), None);
    }

    #[test]
    fn the_chosen_effort_is_asked_for_where_the_endpoint_takes_it() {
        let mut asked = request("", vec![], vec![Message::user("x")]);
        assert_eq!(
            body(&asked, "m", "", 2, ALL, &Pictures::default()).get("reasoning_effort"),
            None,
            "nobody chose any"
        );
        asked.reasoning = Some(hermes_core::settings::Effort::High);
        assert_eq!(body(&asked, "m", "", 2, ALL, &Pictures::default())["reasoning_effort"], "high");
        assert_eq!(body(&asked, "m", "", 2, NONE, &Pictures::default()).get("reasoning_effort"), None);
    }

    #[test]
    fn the_oldest_history_is_left_out_first_and_the_input_never() {
        let history = (0..10).map(|n| Message::user(n.to_string())).collect();
        let body = body(&request("", history, vec![Message::user("now")]), "m", "", 2, NONE, &Pictures::default());
        assert_eq!(said(&body).into_iter().map(|(_, text)| text).collect::<Vec<_>>(), ["8", "9", "now"]);
        assert_eq!(body.get("stream_options"), None);
    }

    #[test]
    fn a_prompt_that_the_host_says_too_is_said_once() {
        let body =
            body(&request("Be brief.\nIn a chat.", vec![], vec![]), "m", "Be brief.", 2, NONE, &Pictures::default());
        assert_eq!(said(&body), [("system".to_owned(), "Be brief.\nIn a chat.".to_owned())]);
    }

    #[test]
    fn reasoning_tools_and_empty_entries_do_not_go_back_but_files_are_named() {
        let mut thought = Message::assistant("answer");
        thought.reasoning = Some("secret thought".to_owned());
        thought.tool_calls = vec![json!({"id": "c1"})];
        let mut file = Message::user("look");
        file.attachments.push(Attachment::new("m1", AttachmentKind::Image, "image/png", "cat.png", 7));
        let history = vec![thought, Message::new(Role::Tool, "result"), Message::assistant("")];
        let body = body(&request("", history, vec![file]), "m", "", 200, NONE, &Pictures::default());
        assert_eq!(
            said(&body),
            [
                ("assistant".to_owned(), "answer".to_owned()),
                ("user".to_owned(), "look\n[you cannot open: cat.png]".to_owned()),
            ]
        );
        assert!(!body.to_string().contains("secret thought"));
    }

    #[test]
    fn a_call_is_never_split_from_its_result() {
        let call = |id: &str| json!({"id": id, "type": "function", "function": {"name": "todo", "arguments": "{}"}});
        let asked = |ids: &[&str]| {
            let mut asked = Message::assistant("");
            asked.tool_calls = ids.iter().map(|id| call(id)).collect();
            asked
        };
        let result = |id: &str| {
            let mut result = Message::new(Role::Tool, format!("result {id}"));
            result.tool_call_id = Some(id.to_owned());
            result
        };
        let history = vec![
            asked(&["a"]),
            result("a"),
            Message::assistant("first"),
            asked(&["b", "c"]),
            result("c"),
            result("stranger"),
            Message::user("next"),
        ];
        let offer = Offer { tools: json!([]), closing: true };
        let with = Extras { usage: false, effort: false, offer: Some(offer) };
        // The first call is left out, its result is not.
        let body = body(&request("", history, vec![]), "m", "", 6, &with, &Pictures::default());
        let messages = body["messages"].as_array().unwrap();
        let shape: Vec<_> =
            messages.iter().map(|m| (m["role"].as_str().unwrap(), m["content"].as_str().unwrap_or("-"))).collect();
        let expected = [
            ("assistant", "first"),
            ("assistant", "-"),
            ("tool", UNKNOWN_OUTCOME),
            ("tool", "result c"),
            ("user", "next"),
        ];
        assert_eq!(shape, expected);
        assert_eq!((&messages[1]["tool_calls"][1]["id"], &messages[3]["tool_call_id"]), (&json!("c"), &json!("c")));
        assert_eq!(body["tool_choice"], "none");
    }

    #[test]
    fn a_picture_that_was_read_is_shown_beside_its_words() {
        let mut look = Message::user("look");
        look.attachments.push(Attachment::new("m1", AttachmentKind::Image, "image/png", "cat.png", 7));
        look.attachments.push(Attachment::new("m2", AttachmentKind::File, "application/pdf", "a.pdf", 7));
        let pictures = Pictures::with("m1", "data:image/png;base64,YWJj");
        let body = body(&request("", vec![], vec![look]), "m", "", 200, NONE, &pictures);
        let expected = json!([
            {"type": "text", "text": "look\n[you cannot open: a.pdf]"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,YWJj"}},
        ]);
        assert_eq!(body["messages"][0]["content"], expected);
    }
}
