//! What the endpoint is asked.

use serde_json::{Value, json};

use super::pictures::Pictures;
use crate::{Message, Role, TurnRequest};

/// What not every endpoint takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extras {
    /// The wish to be told what it cost.
    pub usage: bool,
    /// How much the model should think.
    pub effort: bool,
}

/// Builds the body of one chat completion request. No tools are offered.
pub(super) fn body(
    request: &TurnRequest,
    model: &str,
    system_prompt: &str,
    history_messages_max: usize,
    with: Extras,
    pictures: &Pictures,
) -> Value {
    let skipped = request.history.len().saturating_sub(history_messages_max);
    let instructions = instructions(system_prompt, &request.system);
    let mut messages: Vec<Value> = Vec::new();
    if !instructions.is_empty() {
        messages.push(json!({"role": "system", "content": instructions}));
    }
    let history = request.history[skipped..].iter().map(|said| &**said);
    messages.extend(history.chain(&request.input).filter_map(|said| message(said, pictures)));
    let mut body = json!({"model": model, "messages": messages, "stream": true});
    if with.usage {
        body["stream_options"] = json!({"include_usage": true});
    }
    if let Some(effort) = request.reasoning.filter(|_| with.effort) {
        body["reasoning_effort"] = json!(effort.as_str());
    }
    body
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

    const ALL: Extras = Extras { usage: true, effort: true };
    const NONE: Extras = Extras { usage: false, effort: false };

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
