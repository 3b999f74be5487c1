//! The body of a request.

use serde_json::{Value, json};

use super::pictures::Pictures;
use super::wire::fit::tokens_of_json;
use super::wire::history::{Conversation, format_messages};
use super::wire::shape::MessageShape;
use crate::{Message, TurnRequest};

/// Optional parts of a request that some endpoints refuse.
#[derive(Clone, Debug)]
pub(super) struct OptionalFields {
    /// Requests usage statistics.
    pub usage: bool,
    /// Sends the reasoning effort.
    pub effort: bool,
    /// Tools for the model.
    pub offer: Option<ToolOffer>,
}

/// The tools offered to a model.
#[derive(Clone, Debug)]
pub(super) struct ToolOffer {
    /// Tool definitions.
    pub tools: Value,
    /// True if the tools are only listed because the conversation has used them, and must not be called.
    pub closing: bool,
}

/// The form of requests to one model.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RequestForm {
    /// Highest number of history messages.
    pub history_messages_max: usize,
    /// Shape of messages that the model requires.
    pub shape: MessageShape,
    /// Largest request in tokens, if known.
    pub room: Option<usize>,
}

/// A finished request.
#[derive(Debug)]
pub(super) struct RequestBody {
    /// JSON body.
    pub json: Value,
    /// History messages omitted because they do not fit.
    pub left_out: usize,
    /// Estimated size, in tokens.
    pub tokens: usize,
}

/// Builds the body of one chat completion request.
pub(super) fn body(
    request: &TurnRequest,
    model: &str,
    system_prompt: &str,
    form: RequestForm,
    fields: &OptionalFields,
    pictures: &Pictures,
) -> RequestBody {
    let skipped = request.history.len().saturating_sub(form.history_messages_max);
    let history: Vec<&Message> = request.history[skipped..].iter().map(|message| &**message).collect();
    let input: Vec<&Message> = request.input.iter().collect();
    let conversation = Conversation {
        instructions: &instructions(system_prompt, &request.system),
        history: &history,
        input: &input,
        calls: fields.offer.is_some(),
        pictures,
    };
    let tools = fields.offer.as_ref().map_or(0, |offer| tokens_of_json(&offer.tools));
    let fitted = format_messages(&conversation, form.shape, form.room.map(|room| room.saturating_sub(tools)));
    let mut body = json!({"model": model, "messages": fitted.messages, "stream": true});
    if fields.usage {
        body["stream_options"] = json!({"include_usage": true});
    }
    if let Some(effort) = request.reasoning.filter(|_| fields.effort) {
        body["reasoning_effort"] = json!(effort.as_str());
    }
    if let Some(offer) = &fields.offer {
        body["tools"] = offer.tools.clone();
        if offer.closing {
            body["tool_choice"] = json!("none");
        }
    }
    RequestBody { json: body, left_out: fitted.left_out, tokens: fitted.tokens + tools }
}

/// Joins the configured prompt and the instructions of the host, which may already begin with the prompt.
fn instructions(system_prompt: &str, of_the_host: &str) -> String {
    let (system_prompt, of_the_host) = (system_prompt.trim(), of_the_host.trim());
    if of_the_host.starts_with(system_prompt) {
        return of_the_host.to_owned();
    }
    [system_prompt, of_the_host].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n\n")
}

#[cfg(test)]
mod tests {
    use hermes_core::context::TurnContext;
    use hermes_core::ids::{SessionId, TurnId};
    use hermes_protocol::{Attachment, AttachmentKind};

    use super::*;
    use crate::Role;
    use crate::tools::ports::UNKNOWN_OUTCOME;

    fn write(
        request: &TurnRequest,
        prompt: &str,
        history_messages_max: usize,
        fields: &OptionalFields,
        of: &Pictures,
    ) -> Value {
        let form = RequestForm { history_messages_max, ..RequestForm::default() };
        body(request, "m", prompt, form, fields, of).json
    }

    const ALL: &OptionalFields = &OptionalFields { usage: true, effort: true, offer: None };
    const NONE: &OptionalFields = &OptionalFields { usage: false, effort: false, offer: None };

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

    fn lines(body: &Value) -> Vec<(String, String)> {
        let messages = body["messages"].as_array().unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        messages.iter().map(|message| (text(&message["role"]), text(&message["content"]))).collect()
    }

    #[test]
    fn prompt_history_and_input_stand_in_this_order() {
        let history = vec![Message::user("one"), Message::assistant("two")];
        let request = request("You are in a chat.", history, vec![Message::user("three"), Message::user("four")]);
        let body = write(&request, "Be brief.", 200, ALL, &Pictures::default());
        let expected = [
            ("system", "Be brief.\n\nYou are in a chat."),
            ("user", "one"),
            ("assistant", "two"),
            ("user", "three"),
            ("user", "four"),
        ];
        assert_eq!(lines(&body), expected.map(|(role, text)| (role.to_owned(), text.to_owned())));
        assert_eq!((&body["model"], &body["stream"]), (&json!("m"), &json!(true)));
        assert_eq!(body["stream_options"], json!({"include_usage": true}));
        assert_eq!(body.get("tools"), None);
    }

    #[test]
    fn the_chosen_effort_is_asked_for_where_the_endpoint_takes_it() {
        let mut asked = request("", vec![], vec![Message::user("x")]);
        assert_eq!(write(&asked, "", 2, ALL, &Pictures::default()).get("reasoning_effort"), None, "nobody chose any");
        asked.reasoning = Some(hermes_core::settings::Effort::High);
        assert_eq!(write(&asked, "", 2, ALL, &Pictures::default())["reasoning_effort"], "high");
        assert_eq!(write(&asked, "", 2, NONE, &Pictures::default()).get("reasoning_effort"), None);
    }

    #[test]
    fn the_oldest_history_is_left_out_first_and_the_input_never() {
        let history = (0..10).map(|n| Message::user(n.to_string())).collect();
        let body = write(&request("", history, vec![Message::user("now")]), "", 2, NONE, &Pictures::default());
        assert_eq!(lines(&body).into_iter().map(|(_, text)| text).collect::<Vec<_>>(), ["8", "9", "now"]);
        assert_eq!(body.get("stream_options"), None);
    }

    #[test]
    fn a_prompt_that_the_host_says_too_is_said_once() {
        let body = write(
            &request("Be brief.\nIn a chat.", vec![], vec![Message::user("hi")]),
            "Be brief.",
            2,
            NONE,
            &Pictures::default(),
        );
        assert_eq!(lines(&body)[0], ("system".to_owned(), "Be brief.\nIn a chat.".to_owned()));
    }

    #[test]
    fn reasoning_tools_and_empty_entries_do_not_go_back_but_files_are_named() {
        let mut thought = Message::assistant("answer");
        thought.reasoning = Some("secret thought".to_owned());
        thought.tool_calls = vec![json!({"id": "c1"})];
        let mut file = Message::user("look");
        file.attachments.push(Attachment::new("m1", AttachmentKind::Image, "image/png", "cat.png", 7));
        let history = vec![thought, Message::new(Role::Tool, "result"), Message::assistant("")];
        let body = write(&request("", history, vec![file]), "", 200, NONE, &Pictures::default());
        assert_eq!(
            lines(&body),
            [
                ("assistant".to_owned(), "answer".to_owned()),
                ("user".to_owned(), "look\n[1 image of this message is omitted]".to_owned()),
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
        let offer = ToolOffer { tools: json!([]), closing: true };
        let with = OptionalFields { usage: false, effort: false, offer: Some(offer) };
        // The first call is omitted, its result is not.
        let body = write(&request("", history, vec![]), "", 6, &with, &Pictures::default());
        let messages = body["messages"].as_array().unwrap();
        let shape: Vec<_> =
            messages.iter().map(|m| (m["role"].as_str().unwrap(), m["content"].as_str().unwrap_or("-"))).collect();
        let expected = [
            ("assistant", "first"),
            ("assistant", ""),
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
        let body = write(&request("", vec![], vec![look]), "", 200, NONE, &pictures);
        let expected = json!([
            {"type": "text", "text": "look"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,YWJj"}},
        ]);
        assert_eq!(body["messages"][0]["content"], expected);
    }
}
