//! Conversion of requests to events.
//!
//! A conversation with a name (`X-Hermes-Session-Id` or `session_id`) is a chat of that
//! name: the host stores its history, so only the last message counts. A request without a
//! name is a chat of its own, and the whole conversation in the request is sent as text,
//! because the host has no history of it.

use axum::http::HeaderMap;
use hermes_adapter_sdk::prelude::*;
use sha2::{Digest, Sha256};

use crate::api::{Conversation, Role};
use crate::api_error::ApiError;
use crate::files::InFile;
use crate::instructions::InstructionLog;

/// The sender of all events. The key belongs to one person.
const SENDER: &str = "api";

/// The maximum length of a conversation's name, in characters.
const SESSION_CHARS_MAX: usize = 256;

/// The maximum length of an idempotency key, in characters.
const KEY_CHARS_MAX: usize = 255;

/// The header with the name of a conversation.
pub(crate) const SESSION_HEADER: &str = "x-hermes-session-id";

/// A parsed request.
#[derive(Debug)]
pub(crate) struct InboundRequest {
    /// The event id; equal for all requests with the same idempotency key.
    pub(crate) event_id: String,
    /// The chat of the request.
    pub(crate) chat: Chat,
    /// The name of the conversation, if it has one.
    pub(crate) session: Option<String>,
    /// True if the request has an idempotency key.
    pub(crate) has_key: bool,
    messages: Vec<(Role, String)>,
    /// Files of the messages that are read.
    files: Vec<InFile>,
}

impl InboundRequest {
    /// Parses the chat and the identity of a request.
    pub(crate) fn parse(
        headers: &HeaderMap,
        session_id: Option<String>,
        conversation: impl Into<Conversation>,
    ) -> Result<Self, ApiError> {
        let Conversation { messages, files } = conversation.into();
        let session = match header(headers, SESSION_HEADER)? {
            Some(name) => Some(name),
            None => session_id.filter(|name| !name.is_empty()),
        };
        if session.as_deref().is_some_and(|name| !is_name(name, SESSION_CHARS_MAX)) {
            return Err(ApiError::invalid("session_id", "it exceeds 256 characters or contains control characters"));
        }
        let key = header(headers, "idempotency-key")?;
        if key.as_deref().is_some_and(|key| !is_name(key, KEY_CHARS_MAX)) {
            return Err(ApiError::invalid(
                "Idempotency-Key",
                "it exceeds 255 characters or contains control characters",
            ));
        }
        // The host has the earlier messages of a named conversation.
        let is_read = |at: usize| session.is_none() || at + 1 == messages.len();
        let files: Vec<InFile> = files.into_iter().filter(|(at, _)| is_read(*at)).map(|(_, file)| file).collect();
        let event_id = match &key {
            Some(key) => format!("k:{}", fingerprint(key, session.as_deref(), &messages, &files)),
            None => format!("r:{}", random_hex()?),
        };
        let chat = match &session {
            Some(name) => Chat::dm(format!("session:{name}")).named(name.clone()),
            None => Chat::dm(format!("request:{}", &event_id[2..26])),
        };
        Ok(Self { event_id, chat, session, has_key: key.is_some(), messages, files })
    }

    /// Takes the files.
    pub(crate) fn take_files(&mut self) -> Vec<InFile> {
        std::mem::take(&mut self.files)
    }

    /// Returns the event at this time, in milliseconds since the Unix epoch.
    pub(crate) fn event(&self, log: &InstructionLog, now_ms: i64) -> Event {
        let text = match &self.session {
            Some(_) => self.session_text(log),
            None => transcript(&self.messages),
        };
        Event::message(self.event_id.clone(), self.chat.clone(), Sender::new(SENDER), text)
            .at_ms(now_ms)
            .addressed(Addressed::new(true, false, false))
    }

    fn session_text(&self, log: &InstructionLog) -> String {
        let instructions = join(&self.messages, Role::System);
        let text = self.messages.last().map(|(_, text)| text.clone()).unwrap_or_default();
        if instructions.is_empty() || !log.is_new(&self.chat.id, &instructions) {
            return text;
        }
        transcript(&[(Role::System, instructions), (Role::User, text)])
    }
}

/// Returns a single message unchanged; several messages with a heading each.
fn transcript(messages: &[(Role, String)]) -> String {
    let Some(((_, last), before)) = messages.split_last() else { return String::new() };
    let mut sections = Vec::new();
    let instructions = join(messages, Role::System);
    if !instructions.is_empty() {
        sections.push(format!("[instructions of the client]\n{instructions}"));
    }
    let so_far: Vec<String> = before
        .iter()
        .filter(|(role, text)| *role != Role::System && !text.is_empty())
        .map(|(role, text)| format!("{}: {text}", role.as_str()))
        .collect();
    if !so_far.is_empty() {
        sections.push(format!("[conversation so far]\n{}", so_far.join("\n")));
    }
    if sections.is_empty() {
        return last.clone();
    }
    sections.push(format!("[message]\n{last}"));
    sections.join("\n\n")
}

fn join(messages: &[(Role, String)], by: Role) -> String {
    let texts = messages.iter().filter(|(role, text)| *role == by && !text.is_empty());
    texts.map(|(_, text)| text.as_str()).collect::<Vec<_>>().join("\n")
}

fn header(headers: &HeaderMap, name: &'static str) -> Result<Option<String>, ApiError> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    let text =
        std::str::from_utf8(value.as_bytes()).map_err(|_| ApiError::invalid(name, "the header is not UTF-8"))?.trim();
    if text.is_empty() { Err(ApiError::invalid(name, "the header is empty")) } else { Ok(Some(text.to_owned())) }
}

fn is_name(text: &str, chars_max: usize) -> bool {
    text.chars().count() <= chars_max && !text.chars().any(char::is_control)
}

/// Returns the identity of a request; the same key with another request is another request.
fn fingerprint(key: &str, session: Option<&str>, messages: &[(Role, String)], files: &[InFile]) -> String {
    let mut hash = Sha256::new();
    let mut take = |bytes: &[u8]| {
        hash.update(u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_le_bytes());
        hash.update(bytes);
    };
    take(key.as_bytes());
    take(session.unwrap_or_default().as_bytes());
    for (role, text) in messages {
        take(role.as_str().as_bytes());
        take(text.as_bytes());
    }
    for file in files {
        take(file.name.as_bytes());
        take(file.mime.as_bytes());
        take(&file.bytes);
    }
    hex(&hash.finalize()[..20])
}

/// Returns forty random hexadecimal digits.
pub(crate) fn random_hex() -> Result<String, ApiError> {
    let mut bytes = [0; 20];
    getrandom::fill(&mut bytes)
        .map_err(|_| ApiError::new(500, "internal", "the system cannot generate random numbers"))?;
    Ok(hex(&bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(messages: &[(Role, &str)]) -> Vec<(Role, String)> {
        messages.iter().map(|(role, text)| (*role, (*text).to_owned())).collect()
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    fn asked(pairs: &[(&'static str, &str)], session: Option<&str>, messages: &[(Role, &str)]) -> InboundRequest {
        InboundRequest::parse(&headers(pairs), session.map(str::to_owned), said(messages)).unwrap()
    }

    const HELLO: &[(Role, &str)] = &[(Role::User, "hello")];

    #[test]
    fn a_single_message_goes_as_it_is() {
        let event = asked(&[], None, &[(Role::User, "/status")]).event(&InstructionLog::default(), 5);
        assert_eq!((event.text.as_str(), event.at_ms), ("/status", 5));
        assert_eq!(event.sender.id, "api");
    }

    #[test]
    fn a_request_without_a_name_brings_its_conversation_along() {
        let messages =
            [(Role::System, "Be brief."), (Role::User, "one"), (Role::Assistant, "two"), (Role::User, "three")];
        let first = asked(&[], None, &messages);
        let expected = "[instructions of the client]\nBe brief.\n\n[conversation so far]\nuser: one\nassistant: two\n\n[message]\nthree";
        assert_eq!(first.event(&InstructionLog::default(), 0).text, expected);
        assert_ne!(first.chat, asked(&[], None, &messages).chat, "each request is a chat of its own");
    }

    #[test]
    fn a_named_conversation_takes_the_last_message_and_new_instructions_once() {
        let instructions = InstructionLog::default();
        let text = |system: &str, last: &str| {
            let messages = [(Role::System, system), (Role::User, "old"), (Role::Assistant, "old"), (Role::User, last)];
            asked(&[(SESSION_HEADER, "trip")], Some("other"), &messages).event(&instructions, 0).text
        };
        assert_eq!(text("A", "one"), "[instructions of the client]\nA\n\n[message]\none");
        assert_eq!(text("A", "two"), "two");
        assert_eq!(text("B", "three"), "[instructions of the client]\nB\n\n[message]\nthree");
        assert_eq!(text("", "four"), "four");
        let chat = asked(&[(SESSION_HEADER, "trip")], None, HELLO).chat;
        assert_eq!((chat.id.as_str(), chat.kind), ("session:trip", ChatType::Dm));
    }

    #[test]
    fn a_repeated_key_is_the_same_request_and_another_request_is_not() {
        let keyed = |key: &str, session: Option<&str>, messages| asked(&[("idempotency-key", key)], session, messages);
        let first = keyed("k1", None, HELLO);
        assert_eq!((first.event_id.clone(), first.chat.clone()), {
            let again = keyed("k1", None, HELLO);
            (again.event_id, again.chat)
        });
        for other in
            [keyed("k2", None, HELLO), keyed("k1", Some("s"), HELLO), keyed("k1", None, &[(Role::User, "hell")])]
        {
            assert_ne!(first.event_id, other.event_id);
        }
        assert_ne!(asked(&[], None, HELLO).event_id, asked(&[], None, HELLO).event_id);
    }

    #[test]
    fn a_named_conversation_takes_the_files_of_the_last_message_and_a_key_names_them_too() {
        let asked = |session: Option<&str>, bytes: &[u8]| {
            let file =
                |name: &str| InFile { name: name.to_owned(), mime: "text/plain".to_owned(), bytes: bytes.to_vec() };
            let messages = said(&[(Role::User, "one"), (Role::User, "two")]);
            let conversation = Conversation { messages, files: vec![(0, file("old")), (1, file("new"))] };
            InboundRequest::parse(&headers(&[("idempotency-key", "k")]), session.map(str::to_owned), conversation)
                .unwrap()
        };
        let names =
            |mut asked: InboundRequest| asked.take_files().into_iter().map(|file| file.name).collect::<Vec<_>>();
        assert_eq!(names(asked(None, b"a")), ["old", "new"]);
        assert_eq!(names(asked(Some("trip"), b"a")), ["new"]);
        assert_eq!(asked(None, b"a").event_id, asked(None, b"a").event_id);
        assert_ne!(asked(None, b"a").event_id, asked(None, b"b").event_id);
    }

    #[test]
    fn odd_names_are_refused() {
        for pairs in [vec![(SESSION_HEADER, "a\tb")], vec![(SESSION_HEADER, " ")], vec![("idempotency-key", "")]] {
            assert!(InboundRequest::parse(&headers(&pairs), None, said(HELLO)).is_err(), "{pairs:?}");
        }
        let long = "x".repeat(257);
        assert!(InboundRequest::parse(&headers(&[]), Some(long), said(HELLO)).is_err());
        assert!(InboundRequest::parse(&headers(&[]), Some("a\nb".to_owned()), said(HELLO)).is_err());
    }
}
