//! The destination of a part: a channel, a thread that is opened for it, or the user of a command.

use std::time::Duration;

use hermes_adapter_net::reqwest::Method;
use hermes_adapter_sdk::prelude::*;
use hermes_adapter_sdk::tokio::time::timeout;
use hermes_adapter_sdk::{not_attached, with_line};
use serde_json::{Value, json};

use crate::api::ApiError;
use crate::connection::Connection;
use crate::errors::{call_error, invalid_id, outcome};
use crate::interactions::OpenInteraction;
use crate::objects::SentMessageId;
use crate::outbound::{self, FILES_MAX};
use crate::snowflake;

/// The maximum size of files per request, in bytes; slightly less than the limit of the
/// whole request.
/// <https://docs.discord.com/developers/resources/message#create-message-limitations>
const REQUEST_BYTES_MAX: u64 = 24 * 1024 * 1024;
/// The maximum length of a nonce. <https://docs.discord.com/developers/resources/message#create-message>
const NONCE_CHARS_MAX: usize = 25;
/// The time for a message if the host gives none.
const SEND_TIMEOUT: Duration = Duration::from_secs(300);

impl Connection {
    /// Sends one part within the time of the host.
    pub(crate) async fn send(&self, outgoing: &Outgoing) -> SendOutcome {
        let sent = timeout(outgoing.time(SEND_TIMEOUT), self.send_now(outgoing)).await;
        sent.unwrap_or_else(|_| SendOutcome::unknown("Discord did not answer in time"))
    }

    async fn send_now(&self, outgoing: &Outgoing) -> SendOutcome {
        let channel = match self.channel_id(&outgoing.chat) {
            Ok(channel) => channel,
            Err(outcome) => return outcome,
        };
        if outgoing.text.trim().is_empty() && outgoing.media.is_empty() {
            return SendOutcome::refused(
                RefusalKind::Invalid,
                "the text is empty; Discord does not accept empty messages",
            );
        }
        let open = match self.interaction_for(outgoing).await {
            Ok(open) => open,
            Err(outcome) => return outcome,
        };
        if let Some(open) = open {
            match self.answer(&open, outgoing).await {
                Err(ApiError::Refused(refused)) if is_expired(refused.status) => {
                    tracing::debug!(%refused, "interaction has expired");
                    self.remove_interaction(open.inbox).await;
                }
                Ok(sent) => return self.delivered(sent),
                Err(error) => return outcome(&error, &outgoing.chat),
            }
        }
        if let Some(user) = self.private_recipient(outgoing).await {
            return self.send_private(&user, outgoing).await;
        }
        if let Err(outcome) = self.open_reserved_thread(&outgoing.chat).await {
            return outcome;
        }
        self.send_to(&channel, outgoing).await
    }

    /// Returns the only user user may see an answer that cannot be shown privately in the channel any more.
    async fn private_recipient(&self, outgoing: &Outgoing) -> Option<String> {
        if self.settings.public_answers && outgoing.ephemeral_to.is_none() {
            return None;
        }
        self.interactions.lock().await.requester(outgoing.in_reply_to?).map(str::to_owned)
    }

    /// Sends a private answer as a direct message. If the user accepts none, that is independent of the chat.
    async fn send_private(&self, user: &str, outgoing: &Outgoing) -> SendOutcome {
        let mut private = outgoing.clone();
        private.reply_to = None;
        let sent = match self.open_dm(user).await {
            Ok((channel, _)) => self.send_to(&channel, &private).await,
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
        let mut body = outbound::message_body(outgoing, self.settings.send_options, channel);
        let mut sent = Vec::new();
        for (n, files) in chunks(&outgoing.media).into_iter().enumerate() {
            let mut request = if n == 0 { body.clone() } else { follow_up_body(&body, &outgoing.key, n) };
            if let Some(message) = request["nonce"].as_str().and_then(|key| self.echoes.message_id(key)) {
                sent.push(message);
                continue;
            }
            let mut posted = self.post(Method::POST, &path, request.clone(), files).await;
            if posted.as_ref().is_err_and(rejects_reply) {
                for body in [&mut body, &mut request] {
                    body.as_object_mut().and_then(|fields| fields.remove("message_reference"));
                }
                posted = self.post(Method::POST, &path, request, files).await;
            }
            match posted {
                Ok(message) => sent.push(message.id),
                // Earlier messages have keys of their own and are not duplicated by a retry of the whole part.
                Err(error @ ApiError::RateLimited { .. }) => return outcome(&error, &outgoing.chat),
                Err(error) if !sent.is_empty() => return SendOutcome::unknown(error.to_string()),
                Err(error) => return outcome(&error, &outgoing.chat),
            }
        }
        self.delivered(sent)
    }

    /// Edits a message.
    pub(crate) async fn edit(&self, message: &SentMessage, outgoing: &Outgoing) -> SendOutcome {
        let channel = match self.channel_id(&message.chat) {
            Ok(channel) => channel,
            Err(outcome) => return outcome,
        };
        if snowflake::parse(&message.id).is_none() {
            return invalid_id("message", &message.id);
        }
        let open = self.interactions.lock().await.by_message(&message.id, self.host.now_ms());
        let path = match (&open, self.identity.get()) {
            (Some(open), Some(identity)) => {
                format!("webhooks/{}/{}/messages/{}", identity.application, open.token, message.id)
            }
            _ => format!("channels/{channel}/messages/{}", message.id),
        };
        match self.api.send_json::<SentMessageId>(Method::PATCH, &path, &outbound::edit_body(outgoing)).await {
            Ok(_) => {
                self.host.proved();
                SendOutcome::delivered(message.id.clone(), self.host.now_ms())
            }
            Err(error) => outcome(&error, &message.chat),
        }
    }

    /// Shows typing for ten seconds, or until the next message.
    pub(crate) async fn show_typing(&self, chat: &Chat) -> Result<(), CallError> {
        let wrong = |_| CallError::new("invalid", "the chat is not a Discord chat");
        let channel = self.channel_id(chat).map_err(wrong)?;
        self.open_reserved_thread(chat).await.map_err(|outcome| CallError::new("refused", format!("{outcome:?}")))?;
        self.api
            .request::<Value>(Method::POST, &format!("channels/{channel}/typing"))
            .await
            .map(drop)
            .map_err(call_error)
    }

    /// Answers a command: the first answer replaces the "thinking" indicator.
    /// <https://docs.discord.com/developers/interactions/receiving-and-responding#followup-messages> Answers have no
    /// idempotency keys. The sent messages are remembered, so that a repeated part continues after them, and a part
    /// with an unknown result is reported as such.
    async fn answer(&self, open: &OpenInteraction, outgoing: &Outgoing) -> Result<Vec<String>, ApiError> {
        let identity =
            self.identity.get().ok_or_else(|| ApiError::NotSent("the instance is not connected".to_owned()))?;
        let hook = format!("webhooks/{}/{}", identity.application, open.token);
        let private = !self.settings.public_answers || outgoing.ephemeral_to.is_some();
        let body = outbound::interaction_body(outgoing, self.settings.send_options, private);
        let (inbox, key) = (open.inbox, outgoing.key.as_str());
        if !key.is_empty() && open.sending_key == key {
            // Reported once: the host decides about a retry.
            self.update_interactions_or_log(|interactions| interactions.set_sending(inbox, "")).await;
            return Err(ApiError::UnknownKeyless(
                "the connection was lost while the answer to a command was sent".to_owned(),
            ));
        }
        let mut sent = open.sent_of(key);
        for (n, files) in chunks(&outgoing.media).into_iter().enumerate().skip(sent.len()) {
            let body = if n == 0 { body.clone() } else { follow_up_body(&body, "", n) };
            let message: SentMessageId = match open.answered || n > 0 {
                false => self.post(Method::PATCH, &format!("{hook}/messages/@original"), body, files).await?,
                true => {
                    self.update_interactions_or_log(|interactions| interactions.set_sending(inbox, key)).await;
                    let posted = self.post(Method::POST, &format!("{hook}?wait=true"), body, files).await;
                    if posted.is_err() {
                        self.update_interactions_or_log(|interactions| interactions.set_sending(inbox, "")).await;
                    }
                    posted.map_err(|error| match error {
                        ApiError::Unknown(why) => ApiError::UnknownKeyless(why),
                        error => error,
                    })?
                }
            };
            sent.push(message.id);
            self.update_interactions_or_log(|interactions| interactions.record_answer(inbox, key, &sent)).await;
        }
        Ok(sent)
    }

    async fn post(
        &self,
        method: Method,
        path: &str,
        body: Value,
        files: &[OutMedia],
    ) -> Result<SentMessageId, ApiError> {
        if files.is_empty() {
            return self.api.send_json(method, path, &body).await;
        }
        let posted = match outbound::multipart(body.clone(), files).await {
            Ok(form) => self.api.upload(method.clone(), path, form).await,
            Err(error) => Err(error),
        };
        let why = match &posted {
            Err(error) if rejects_reply(error) => return posted,
            Err(ApiError::Refused(refused)) if !is_expired(refused.status) => refused.to_string(),
            Err(ApiError::Invalid(why)) => why.clone(),
            _ => return posted,
        };
        // The text is sent even if its files are rejected. A rejection of the chat or the text occurs again.
        tracing::warn!(why, files = files.len(), "Discord rejected the files; sending the text without them");
        let mut without = body;
        let line = not_attached(files, &Format::Markdown, &why);
        without["content"] = json!(with_line(without["content"].as_str().unwrap_or_default(), &line));
        self.api.send_json(method, path, &without).await
    }

    fn delivered(&self, message_ids: Vec<String>) -> SendOutcome {
        self.host.proved();
        let at_ms = message_ids.last().map_or_else(|| self.host.now_ms(), |id| snowflake::time_ms(id));
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
fn follow_up_body(body: &Value, key: &str, n: usize) -> Value {
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
fn rejects_reply(error: &ApiError) -> bool {
    matches!(error.code(), Some(160_002 | 160_009))
}

/// Returns whether an interaction accepts no answers any more.
fn is_expired(status: u16) -> bool {
    matches!(status, 401 | 404)
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
        let next = follow_up_body(&body, "k1", 2);
        assert_eq!((next["nonce"].as_str(), next["content"].as_str()), (Some("k1.2"), Some("")));
        let long = follow_up_body(&body, &"k".repeat(24), 1);
        assert!(long["nonce"].is_null() && long["enforce_nonce"].is_null());
    }
}
