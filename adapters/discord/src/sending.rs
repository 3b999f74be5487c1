//! The destination of a part: a channel, a thread that is opened for it, or the user of a command.

use std::time::Duration;

use hermes_adapter_net::reqwest::Method;
use hermes_adapter_sdk::prelude::*;
use hermes_adapter_sdk::tokio::time::timeout;
use hermes_adapter_sdk::{not_attached, with_line};
use serde_json::{Value, json};

use crate::api::{ApiError, Channel, Reacted, Sent};
use crate::channels::{self, Place};
use crate::connection::Connection;
use crate::interactions::Open;
use crate::outbound::{self, FILES_MAX, outcome};
use crate::threads::{self, Threads};

/// The time for which a thread is shown after its last message, in minutes.
pub const ARCHIVE_MINUTES: u32 = 1440;
/// The maximum size of files per request, in bytes; slightly less than the limit of the
/// whole request.
/// <https://docs.discord.com/developers/resources/message#create-message-limitations>
const REQUEST_BYTES_MAX: u64 = 24 * 1024 * 1024;
/// The maximum length of a nonce. <https://docs.discord.com/developers/resources/message#create-message>
const NONCE_CHARS_MAX: usize = 25;
/// The maximum number of removed reactions per message.
const REACTIONS_MAX: usize = 20;
/// The wait in milliseconds if it is unknown whether a thread was opened.
const THREAD_WAIT_MS: u64 = 1000;
/// The time for a message if the host gives none.
const SEND_TIMEOUT: Duration = Duration::from_secs(300);

impl Connection {
    /// Sends one part within the time of the host.
    pub async fn send(&self, outgoing: &Outgoing) -> SendOutcome {
        let sent = timeout(outgoing.time(SEND_TIMEOUT), self.send_now(outgoing)).await;
        sent.unwrap_or_else(|_| SendOutcome::unknown("Discord did not answer in time"))
    }

    async fn send_now(&self, outgoing: &Outgoing) -> SendOutcome {
        let channel = match self.place(&outgoing.chat) {
            Ok(channel) => channel,
            Err(outcome) => return outcome,
        };
        if outgoing.text.trim().is_empty() && outgoing.media.is_empty() {
            return SendOutcome::refused(
                RefusalKind::Invalid,
                "the text is empty; Discord does not accept empty messages",
            );
        }
        let open = match self.interaction_of(outgoing).await {
            Ok(open) => open,
            Err(outcome) => return outcome,
        };
        if let Some(open) = open {
            match self.answer(&open, outgoing).await {
                Err(ApiError::Refused(refused)) if is_over(refused.status) => {
                    tracing::debug!(%refused, "interaction has expired");
                    self.forget_interaction(open.inbox).await;
                }
                Ok(sent) => return self.delivered(sent),
                Err(error) => return outcome(&error, &outgoing.chat),
            }
        }
        if let Some(who) = self.only_for(outgoing).await {
            return self.send_apart(&who, outgoing).await;
        }
        if let Err(outcome) = self.open_promised(&outgoing.chat).await {
            return outcome;
        }
        self.send_to(&channel, outgoing).await
    }

    /// Returns the only user who may see an answer that cannot be shown privately in the channel any more.
    async fn only_for(&self, outgoing: &Outgoing) -> Option<String> {
        if self.choice.public_answers && outgoing.ephemeral_to.is_none() {
            return None;
        }
        self.interactions.lock().await.asker(outgoing.in_reply_to?).map(str::to_owned)
    }

    /// Sends a private answer as a direct message. If the user accepts none, that is independent of the chat.
    async fn send_apart(&self, who: &str, outgoing: &Outgoing) -> SendOutcome {
        let mut apart = outgoing.clone();
        apart.reply_to = None;
        let sent = match self.direct(who).await {
            Ok((channel, _)) => self.send_to(&channel, &apart).await,
            Err(error) => outcome(&error, &outgoing.chat),
        };
        match sent {
            SendOutcome::Refused { kind, detail, .. } if kind != RefusalKind::TooLong => SendOutcome::refused(
                RefusalKind::Invalid,
                format!(
                    "only the user of the command may see the answer, but does not accept direct messages: {detail}"
                ),
            ),
            // The error occurred while opening the direct messages, or the limit is theirs.
            sent => sent,
        }
    }

    async fn send_to(&self, channel: &str, outgoing: &Outgoing) -> SendOutcome {
        let path = format!("channels/{channel}/messages");
        let mut body = outbound::message(outgoing, self.manner, channel);
        let mut sent = Vec::new();
        for (n, files) in chunks(&outgoing.media).into_iter().enumerate() {
            let mut one = if n == 0 { body.clone() } else { another(&body, &outgoing.key, n) };
            if let Some(message) = one["nonce"].as_str().and_then(|key| self.echoes.of(key)) {
                sent.push(message);
                continue;
            }
            let mut posted = self.post(Method::POST, &path, one.clone(), files).await;
            if posted.as_ref().is_err_and(takes_no_reply) {
                for body in [&mut body, &mut one] {
                    body.as_object_mut().and_then(|fields| fields.remove("message_reference"));
                }
                posted = self.post(Method::POST, &path, one, files).await;
            }
            match posted {
                Ok(message) => sent.push(message.id),
                // Earlier messages have keys of their own and are not duplicated by a retry of the whole part.
                Err(error @ ApiError::Limited { .. }) => return outcome(&error, &outgoing.chat),
                Err(error) if !sent.is_empty() => return SendOutcome::unknown(error.to_string()),
                Err(error) => return outcome(&error, &outgoing.chat),
            }
        }
        self.delivered(sent)
    }

    /// Edits a message.
    pub async fn edit(&self, message: &SentMessage, outgoing: &Outgoing) -> SendOutcome {
        let channel = match self.place(&message.chat) {
            Ok(channel) => channel,
            Err(outcome) => return outcome,
        };
        if channels::number(&message.id).is_none() {
            return not_ours("message", &message.id);
        }
        let open = self.interactions.lock().await.of_message(&message.id, self.host.now_ms());
        let path = match (&open, self.me.get()) {
            (Some(open), Some(me)) => {
                format!("webhooks/{}/{}/messages/{}", me.application, open.token, message.id)
            }
            _ => format!("channels/{channel}/messages/{}", message.id),
        };
        match self.api.send::<Sent>(Method::PATCH, &path, &outbound::changed(outgoing)).await {
            Ok(_) => {
                self.host.proved();
                SendOutcome::delivered(message.id.clone(), self.host.now_ms())
            }
            Err(error) => outcome(&error, &message.chat),
        }
    }

    /// Shows typing for ten seconds, or until the next message.
    pub async fn show_typing(&self, chat: &Chat) -> Result<(), CallError> {
        let wrong = |_| CallError::new("invalid", "the chat is not a Discord chat");
        let channel = self.place(chat).map_err(wrong)?;
        self.open_promised(chat).await.map_err(|outcome| CallError::new("refused", format!("{outcome:?}")))?;
        self.api.ask::<Value>(Method::POST, &format!("channels/{channel}/typing")).await.map(drop).map_err(call_error)
    }

    /// Removes all reactions of this bot from the message at `path`.
    /// <https://docs.discord.com/developers/resources/message#delete-own-reaction>
    pub async fn take_reactions_back(&self, path: &str) -> Result<(), ApiError> {
        let message: Reacted = self.api.ask(Method::GET, path).await?;
        for reaction in message.reactions.iter().filter(|reaction| reaction.me).take(REACTIONS_MAX) {
            let emoji = &reaction.emoji;
            let name = emoji.name.as_deref().unwrap_or("_");
            let named = emoji.id.as_ref().map_or_else(|| name.to_owned(), |id| format!("{name}:{id}"));
            let path = format!("{path}/reactions/{}/@me", crate::encoded(&named));
            self.api.ask::<Value>(Method::DELETE, &path).await?;
        }
        Ok(())
    }

    /// Removes one reaction of this bot from the message at `path`; a missing one is no error.
    pub async fn take_reaction_back(&self, path: &str, emoji: &str) -> Result<(), ApiError> {
        let path = format!("{path}/reactions/{}/@me", crate::encoded(emoji));
        match self.api.ask::<Value>(Method::DELETE, &path).await {
            Err(ApiError::Refused(refused)) if refused.status == 404 => Ok(()),
            answer => answer.map(drop),
        }
    }

    /// Returns the channel to send to.
    pub fn place(&self, chat: &Chat) -> Result<String, SendOutcome> {
        channels::target(chat).map(str::to_owned).ok_or_else(|| not_ours("channel", &chat.id))
    }

    /// Opens the promised thread of a message before the first message in it is sent.
    async fn open_promised(&self, chat: &Chat) -> Result<(), SendOutcome> {
        let (Some(thread), Some(channel)) = (&chat.thread, &chat.parent) else { return Ok(()) };
        if !self.threads.lock().await.is_promised(thread) {
            return Ok(());
        }
        let turn = self.opening.of(thread);
        let _one_at_a_time = turn.lock().await;
        if !self.threads.lock().await.is_promised(thread) {
            return Ok(());
        }
        let name = chat.thread_name.as_deref().filter(|name| !name.is_empty()).unwrap_or("Conversation");
        let opened = self.thread_from(channel, thread, name).await;
        match &opened {
            Ok(found) => self.places.put(thread, Place::of(found, None)),
            // The thread exists already.
            Err(error) if error.code() == Some(160_004) => {}
            Err(ApiError::Refused(refused)) => {
                tracing::warn!(%refused, channel, "thread cannot be opened; answering in the channel");
                if refused.status == 403 {
                    self.threadless.lock().await.insert(channel.clone());
                }
            }
            Err(error @ ApiError::Limited { .. }) => return Err(outcome(error, chat)),
            // The message itself was certainly not sent, and a repeated request for the thread creates no second one.
            Err(error) => {
                return Err(SendOutcome::not_sent(Some(THREAD_WAIT_MS), WaitScope::Chat, error.to_string()));
            }
        }
        if let Err(error) = self.change_threads(|threads| threads.settle(thread)).await {
            // At worst the thread is requested again, and exists already.
            tracing::warn!(%error, "opened thread cannot be saved");
        }
        match opened {
            Err(ApiError::Refused(refused)) if refused.code != 160_004 => {
                Err(SendOutcome::refused(RefusalKind::ThreadGone, refused.to_string()))
            }
            _ => Ok(()),
        }
    }

    /// Changes the stored threads. The lock is never held during a call to the platform.
    pub async fn change_threads(&self, change: impl FnOnce(&mut Threads)) -> Result<(), CallError> {
        let mut threads = self.threads.lock().await;
        change(&mut threads);
        self.host.kv().set(threads::KEPT_AS, &threads.written()).await
    }

    /// Opens the thread of a message.
    /// <https://docs.discord.com/developers/resources/channel#start-thread-from-message>
    pub async fn thread_from(&self, channel: &str, message: &str, name: &str) -> Result<Channel, ApiError> {
        let name: String = name.chars().take(crate::inbound::THREAD_NAME_CHARS_MAX).collect();
        let body = json!({ "name": name, "auto_archive_duration": ARCHIVE_MINUTES });
        self.api.send(Method::POST, &format!("channels/{channel}/messages/{message}/threads"), &body).await
    }

    /// Answers a command: the first answer replaces the "thinking" indicator.
    /// <https://docs.discord.com/developers/interactions/receiving-and-responding#followup-messages> Answers have no
    /// idempotency keys. The sent messages are remembered, so that a repeated part continues after them, and a part
    /// with an unknown result is reported as such.
    async fn answer(&self, open: &Open, outgoing: &Outgoing) -> Result<Vec<String>, ApiError> {
        let me = self.me.get().ok_or_else(|| ApiError::NotSent("the instance is not connected".to_owned()))?;
        let hook = format!("webhooks/{}/{}", me.application, open.token);
        let private = !self.choice.public_answers || outgoing.ephemeral_to.is_some();
        let body = outbound::answer(outgoing, self.manner, private);
        let (inbox, key) = (open.inbox, outgoing.key.as_str());
        if !key.is_empty() && open.saying == key {
            // Reported once: the host decides about a retry.
            self.note_interaction(|interactions| interactions.says(inbox, "")).await;
            return Err(ApiError::Keyless("the connection was lost while the answer to a command was sent".to_owned()));
        }
        let mut sent = open.sent_of(key);
        for (n, files) in chunks(&outgoing.media).into_iter().enumerate().skip(sent.len()) {
            let body = if n == 0 { body.clone() } else { another(&body, "", n) };
            let one: Sent = match open.answered || n > 0 {
                false => self.post(Method::PATCH, &format!("{hook}/messages/@original"), body, files).await?,
                true => {
                    self.note_interaction(|interactions| interactions.says(inbox, key)).await;
                    let posted = self.post(Method::POST, &format!("{hook}?wait=true"), body, files).await;
                    if posted.is_err() {
                        self.note_interaction(|interactions| interactions.says(inbox, "")).await;
                    }
                    posted.map_err(|error| match error {
                        ApiError::Doubtful(why) => ApiError::Keyless(why),
                        error => error,
                    })?
                }
            };
            sent.push(one.id);
            self.note_interaction(|interactions| interactions.answered(inbox, key, &sent)).await;
        }
        Ok(sent)
    }

    async fn post(&self, method: Method, path: &str, body: Value, files: &[OutMedia]) -> Result<Sent, ApiError> {
        if files.is_empty() {
            return self.api.send(method, path, &body).await;
        }
        let posted = match outbound::with_files(body.clone(), files).await {
            Ok(form) => self.api.upload(method.clone(), path, form).await,
            Err(error) => Err(error),
        };
        let why = match &posted {
            Err(error) if takes_no_reply(error) => return posted,
            Err(ApiError::Refused(refused)) if !is_over(refused.status) => refused.to_string(),
            Err(ApiError::Unusable(why)) => why.clone(),
            _ => return posted,
        };
        // The text is sent even if its files are rejected. A rejection of the chat or the text occurs again.
        tracing::warn!(why, files = files.len(), "Discord rejected the files; sending the text without them");
        let mut without = body;
        let line = not_attached(files, &Format::Markdown, &why);
        without["content"] = json!(with_line(without["content"].as_str().unwrap_or_default(), &line));
        self.api.send(method, path, &without).await
    }

    fn delivered(&self, message_ids: Vec<String>) -> SendOutcome {
        self.host.proved();
        let at_ms = message_ids.last().map_or_else(|| self.host.now_ms(), |id| channels::at_ms(id));
        SendOutcome::Delivered { receipt: Receipt::new(message_ids, at_ms) }
    }
}

/// Splits files into messages within the limits of count and size; returns at least one message.
fn chunks(files: &[OutMedia]) -> Vec<&[OutMedia]> {
    let (mut found, mut rest): (Vec<&[OutMedia]>, _) = (Vec::new(), files);
    while !rest.is_empty() || found.is_empty() {
        let mut bytes = 0_u64;
        let fits = |file: &&OutMedia| {
            bytes = bytes.saturating_add(file.size);
            bytes <= REQUEST_BYTES_MAX
        };
        let count = rest.iter().take(FILES_MAX).take_while(fits).count().max(1).min(rest.len());
        let (chunk, left) = rest.split_at(count);
        found.push(chunk);
        rest = left;
    }
    found
}

/// Returns the body of a further message with files, without the text.
fn another(body: &Value, key: &str, n: usize) -> Value {
    let mut body = body.clone();
    body["content"] = json!("");
    body["components"] = json!([]);
    let nonce = format!("{key}.{n}");
    let fits = !key.is_empty() && nonce.len() <= NONCE_CHARS_MAX;
    if let Some(fields) = body.as_object_mut().filter(|_| !fits) {
        fields.remove("nonce");
        fields.remove("enforce_nonce");
    } else {
        body["nonce"] = json!(nonce);
    }
    body
}

/// Returns whether a message was rejected because this bot may not read the answered message.
/// <https://docs.discord.com/developers/topics/opcodes-and-status-codes#json>
fn takes_no_reply(error: &ApiError) -> bool {
    matches!(error.code(), Some(160_002 | 160_009))
}

/// Returns whether an interaction accepts no answers any more.
fn is_over(status: u16) -> bool {
    matches!(status, 401 | 404)
}

fn not_ours(what: &str, id: &str) -> SendOutcome {
    SendOutcome::refused(RefusalKind::Invalid, format!("{id:?} is not a Discord {what} id (a number)"))
}

/// Returns the error of a call that is not a delivery.
pub fn call_error(error: ApiError) -> CallError {
    let code = match &error {
        ApiError::Refused(_) | ApiError::Unusable(_) => "refused",
        ApiError::Limited { .. } | ApiError::NotSent(_) | ApiError::Doubtful(_) | ApiError::Keyless(_) => "unavailable",
    };
    let wait_ms = match &error {
        ApiError::Limited { retry_after, .. } => u64::try_from(retry_after.as_millis()).ok(),
        _ => None,
    };
    CallError::new(code, error.to_string()).retry_after_ms(wait_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_files_than_fit_go_as_more_messages_with_keys_of_their_own() {
        let files: Vec<OutMedia> = (0..23).map(|n| OutMedia::new(n.to_string(), "/x", "a/b", "x", 1)).collect();
        assert_eq!(chunks(&files).iter().map(|chunk| chunk.len()).collect::<Vec<_>>(), [10, 10, 3]);
        assert_eq!(chunks(&[]).len(), 1, "a text without files is a message too");
        let large: Vec<OutMedia> = (0..4).map(|n| OutMedia::new(n.to_string(), "/x", "a/b", "x", 9 << 20)).collect();
        assert_eq!(chunks(&large).iter().map(|chunk| chunk.len()).collect::<Vec<_>>(), [2, 2], "by their size");
        assert_eq!(chunks(&[OutMedia::new("1", "/x", "a/b", "x", 30 << 20)])[0].len(), 1);
        let body = json!({ "content": "x", "nonce": "k1", "enforce_nonce": true, "components": [1] });
        let next = another(&body, "k1", 2);
        assert_eq!((next["nonce"].as_str(), next["content"].as_str()), (Some("k1.2"), Some("")));
        let long = another(&body, &"k".repeat(24), 1);
        assert!(long["nonce"].is_null() && long["enforce_nonce"].is_null());
    }
}
