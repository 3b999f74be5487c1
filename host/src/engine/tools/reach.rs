//! Chats that a turn may write to, and the name that the text carries there.
//!
//! * An admin's turn in a private chat writes anywhere, in the name of the host.
//! * Every other turn writes to the private chat of its person in the same way.
//! * It writes to home channels, to groups in which its person speaks and to people who use this host. The text arrives
//!   as a quotation below a line that names the person. Each line of the text is quoted and the whole is one message, so
//!   no text can pass for that line.
//! * It writes nowhere else.

use std::collections::BTreeSet;

use hermes_core::access::Tier;
use hermes_core::context::TurnContext;
use hermes_core::ids::SessionId;
use hermes_core::session::is_dm;
use hermes_protocol::{Chat, Sender};
use tokio::sync::oneshot;

use crate::engine::messages::{Control, HostEvent};
use crate::engine::runtime::Host;
use crate::engine::services::OPERATOR;
use crate::engine::targets;
use crate::engine::targets::Address;
use hermes_core::text::one_line;

/// Conversations of one chat whose owners are read.
const SESSIONS_MAX: usize = 64;

/// The longest display name in a signature, in characters.
const NAME_CHARS_MAX: usize = 64;

/// The longest id in a signature, in characters.
const ID_CHARS_MAX: usize = 128;

/// Returns the line that names the person above the text; `None` if the text needs none.
///
/// # Errors
///
/// The refusal, for the model.
pub(super) async fn signature(host: &Host, context: &TurnContext, to: &Address) -> Result<Option<String>, String> {
    let run = host.runs.run_of(context.control.expose()).and_then(|run| run.upgrade());
    let tier = run.as_ref().map_or(Tier::User, |run| run.reach);
    let is_private = !context.owner.is_empty();
    if is_private && tier >= Tier::Admin {
        return Ok(None);
    }
    let person = run.as_ref().map_or(Some(context.person.as_str()), |run| run.person.as_deref());
    let person = person.filter(|person| !person.is_empty());
    let is_own = is_of_this_chat(context, to) || is_of_person(host, person, to).await;
    if is_dm(&to.chat.kind) && (is_own || is_named(context, person, to)) {
        return Ok(None);
    }
    if is_own || is_home(host, to).await || is_of_user(host, to).await {
        return Ok(Some(signed(context, person)));
    }
    Err(refusal(to))
}

/// Quotes a text below its signature.
pub(super) fn below(signature: &str, text: &str) -> String {
    let is_end = |c: char| matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}');
    let quoted: Vec<String> = text.split(is_end).map(|line| format!("> {line}").trim_end().to_owned()).collect();
    format!("{signature}\n\n{}", quoted.join("\n"))
}

fn refusal(to: &Address) -> String {
    format!(
        "{} is not a chat of this user, a home channel or another user of this host, so nothing was sent; ask an \
         admin of this host to send it",
        targets::shown_as(to)
    )
}

/// Returns true if the turn runs in this chat, in another thread or in the channel around it.
fn is_of_this_chat(context: &TurnContext, to: &Address) -> bool {
    let here = context.chat.as_ref();
    let around = |chat: Option<&Chat>, id: &str| {
        chat.and_then(|chat| chat.parent.as_deref()).is_some_and(|parent| !parent.is_empty() && parent == id)
    };
    to.instance == context.source
        && !context.chat_id.is_empty()
        && (to.chat.id == context.chat_id || around(here, &to.chat.id) || around(Some(&to.chat), &context.chat_id))
}

/// Returns true if the id of a private chat is the id of the person.
fn is_named(context: &TurnContext, person: Option<&str>, to: &Address) -> bool {
    person.is_some() && to.instance == context.source && !context.user_id.is_empty() && to.chat.id == context.user_id
}

/// Returns true if a conversation of the person continues in this chat.
async fn is_of_person(host: &Host, person: Option<&str>, to: &Address) -> bool {
    let Some(person) = person else { return false };
    let (reply, led) = oneshot::channel();
    host.tell(HostEvent::control(Control::Led { instance: to.instance.as_str().into(), reply })).await;
    let led = led.await.unwrap_or_default();
    let here: BTreeSet<SessionId> =
        led.into_iter().filter(|(_, chat)| chat.id == to.chat.id).map(|(session, _)| session).collect();
    for session in here.iter().take(SESSIONS_MAX) {
        match host.store.session(session).await {
            Ok(Some(row)) if row.owner.as_deref() == Some(person) => return true,
            Ok(_) => {}
            Err(error) => tracing::warn!(%session, %error, "owner of a conversation could not be read"),
        }
    }
    false
}

async fn is_home(host: &Host, to: &Address) -> bool {
    let Some(adapter) = host.adapter(&to.instance) else { return false };
    let home = targets::home(host, &adapter).await;
    home.is_ok_and(|home| home.id == to.chat.id && (home.thread.is_none() || home.thread == to.chat.thread))
}

/// Returns true if this is the private chat of a person who is listed or paired, or who has written there.
async fn is_of_user(host: &Host, to: &Address) -> bool {
    if !is_dm(&to.chat.kind) {
        return false;
    }
    let live = host.live();
    if live.access.knows(&to.instance, &Sender::new(to.chat.id.as_str()), &host.grants()) {
        return true;
    }
    let known = host.store.known_chats(&to.instance).await;
    let known = known.inspect_err(|error| tracing::warn!(%error, "known chats could not be read")).unwrap_or_default();
    // A chat that an adapter has only listed was never seen.
    known.iter().any(|known| known.seen_ms > 0 && is_dm(&known.chat.kind) && known.chat.id == to.chat.id)
}

fn signed(context: &TurnContext, person: Option<&str>) -> String {
    let name = plain(&context.user_name);
    let who = match person {
        Some(OPERATOR) => "the operator of this host".to_owned(),
        Some(person) if name.is_empty() => id(person),
        Some(person) => format!("\"{name}\" ({})", id(person)),
        None => format!("a conversation in {}", id(&format!("{}:{}", context.source, context.chat_id))),
    };
    format!("Message from {who}, sent by the agent:")
}

/// Returns a display name without anything that a platform could read as markup or that ends the quotation marks.
fn plain(name: &str) -> String {
    let letters = |c: char| if c.is_alphanumeric() || matches!(c, '.' | '-' | '\'') { c } else { ' ' };
    one_line(&name.chars().map(letters).collect::<String>(), NAME_CHARS_MAX)
}

fn id(id: &str) -> String {
    format!("`{}`", one_line(&id.replace('`', "'"), ID_CHARS_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_stands_outside_of_its_quotation() {
        let text = "tea\r\n\u{2028}Message from the operator of this host, sent by the agent:\u{85}\n```\n# rm\n```";
        let sent = below("Message from `fake:7`, sent by the agent:", text);
        let mut lines = sent.lines();
        assert_eq!(lines.next(), Some("Message from `fake:7`, sent by the agent:"));
        assert_eq!(lines.next(), Some(""));
        assert!(lines.clone().count() > 6 && lines.all(|line| line.starts_with('>')), "{sent}");
        assert!(!sent.contains(['\r', '\u{2028}', '\u{85}']));
    }

    #[test]
    fn a_display_name_passes_for_nobody_else() {
        let sign = |name: &str, person: Option<&str>| {
            let context = TurnContext {
                source: "fake".to_owned(),
                chat_id: "g".to_owned(),
                user_name: name.to_owned(),
                ..TurnContext::default()
            };
            signed(&context, person)
        };
        for (name, person, expected) in [
            ("Ada", Some("fake:7"), "Message from \"Ada\" (`fake:7`), sent by the agent:"),
            ("", Some("fake:`7`"), "Message from `fake:'7'`, sent by the agent:"),
            ("Ada", Some(OPERATOR), "Message from the operator of this host, sent by the agent:"),
            ("Ada", None, "Message from a conversation in `fake:g`, sent by the agent:"),
            (
                "\", the **operator**\n\u{202e}[x](http://y)`",
                Some("fake:7"),
                "Message from \"the operator x http y\" (`fake:7`), sent by the agent:",
            ),
        ] {
            assert_eq!(sign(name, person), expected);
        }
    }
}
