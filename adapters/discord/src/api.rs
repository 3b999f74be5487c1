//! The HTTP API: one function for calls, with typed responses, and the server's rate limits as the only
//! policy.
//!
//! The types contain only the fields that the adapter reads; all other fields are ignored. This module never
//! repeats a request, because the host decides about retries. <https://docs.discord.com/developers/reference>

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hermes_adapter_net::{
    ClientError, ClientOptions, NetError,
    body::{self, BodyError},
    client::base_url,
    http_client,
    proxy::ProxySettings,
    reqwest::{
        self, Client, Method, Url,
        header::{AUTHORIZATION, HeaderMap, HeaderValue},
        multipart::Form,
    },
};
use hermes_adapter_sdk::prelude::*;
use hermes_adapter_sdk::tokio::time::{Instant, sleep};
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::Value;

use crate::rate_limits::{Limits, Told, WAIT_MAX, route, seconds};

/// The maximum size of a response, in bytes.
const ANSWER_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// The timeout of a call.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest wait for an empty bucket inside this module; a longer wait is reported to the host.
const SHORT_WAIT: Duration = Duration::from_secs(2);
/// The maximum number of waits for a bucket per call.
const WAITS_MAX: usize = 3;
/// The wait after a 429 without a wait.
const UNTOLD_WAIT: Duration = Duration::from_secs(5);
/// The same for a 429 from a proxy before the server, which blocks a whole IP address.
const BARRED_WAIT: Duration = Duration::from_secs(60);
/// The maximum number of invalid fields named in an error.
const FAULTS_MAX: usize = 4;

/// The client of one bot.
pub struct Api {
    client: Client,
    base: String,
    /// The server in error messages.
    server: String,
    token: HeaderValue,
    limits: Mutex<Limits>,
}

/// The reason why a call has no result.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ApiError {
    /// The server rejected the call.
    #[error("{0}")]
    Refused(Refused),
    /// The rate limit forbids the call; it had no effect.
    #[error("rate limited by Discord; retry after {} ms", .retry_after.as_millis())]
    Limited {
        /// The wait.
        retry_after: Duration,
        /// True if the limit applies to all calls.
        all: bool,
    },
    /// The request did not reach the server.
    #[error("{0}")]
    NotSent(String),
    /// The content can never be sent; the request did not reach the server.
    #[error("{0}")]
    Unusable(String),
    /// The call may have taken effect.
    #[error("{0}")]
    Doubtful(String),
    /// The same, without a key that protects a retry from creating a duplicate.
    #[error("{0}")]
    Keyless(String),
}

/// A rejection by the server.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message} ({code})")]
pub struct Refused {
    /// The HTTP status.
    pub status: u16,
    /// The server's error code; 0 if there is none.
    /// <https://docs.discord.com/developers/topics/opcodes-and-status-codes#json>
    pub code: u64,
    /// The server's explanation, and the invalid fields.
    pub message: String,
    /// True if the rejection comes from the server itself instead of a proxy before it.
    pub is_its_own: bool,
}

impl ApiError {
    /// Returns the server's error code of a rejection.
    pub fn code(&self) -> Option<u64> {
        match self {
            Self::Refused(refused) => Some(refused.code),
            _ => None,
        }
    }
}

impl Api {
    /// Creates a client for the API at `base`, which includes its version, with the bot's token.
    pub fn new(token: &str, base: &str, ca_file: Option<&Path>, proxy: &ProxySettings) -> Result<Self, ClientError> {
        let base: Url = base_url(base)?;
        let mut options = ClientOptions::for_base_url(&base);
        options.proxy = proxy.clone();
        options.ca_file = ca_file.map(Path::to_owned);
        options.total_timeout = None;
        // <https://docs.discord.com/developers/reference#user-agent>
        options.user_agent = concat!("DiscordBot (hermes-host, ", env!("CARGO_PKG_VERSION"), ")").to_owned();
        let mut token = HeaderValue::from_str(&format!("Bot {token}"))
            .map_err(|_| ClientError::Build("the token contains invalid characters".to_owned()))?;
        token.set_sensitive(true);
        let port = base.port().map(|port| format!(":{port}")).unwrap_or_default();
        Ok(Self {
            client: http_client(&options)?,
            server: format!("{}{port} (`base_url`)", base.host_str().unwrap_or_default()),
            base: base.as_str().trim_end_matches('/').to_owned(),
            token,
            limits: Mutex::new(Limits::default()),
        })
    }

    /// Sends a request without a body.
    pub async fn ask<T: DeserializeOwned>(&self, method: Method, path: &str) -> Result<T, ApiError> {
        self.call(method, path, None).await
    }

    /// Sends a request with a JSON body.
    pub async fn send<T: DeserializeOwned>(&self, method: Method, path: &str, body: &Value) -> Result<T, ApiError> {
        self.call(method, path, Some(Body::Json(body))).await
    }

    /// Sends a request with files. The caller limits the time.
    pub async fn upload<T: DeserializeOwned>(&self, method: Method, path: &str, form: Form) -> Result<T, ApiError> {
        self.call(method, path, Some(Body::Form(form))).await
    }

    async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<Body<'_>>,
    ) -> Result<T, ApiError> {
        let route = route(method.as_str(), path);
        self.take(&route).await?;
        let request = self.client.request(method, format!("{}/{path}", self.base)).header(AUTHORIZATION, &self.token);
        let request = match body {
            None => request.timeout(CALL_TIMEOUT),
            Some(Body::Json(body)) => request.timeout(CALL_TIMEOUT).json(body),
            Some(Body::Form(form)) => request.multipart(form),
        };
        let response = request.send().await.map_err(|error| self.net(error))?;
        let told = Told::read(response.headers());
        self.limits().note(&route, &told, Instant::now());
        let answered = answer(response).await;
        if let Err(ApiError::Limited { retry_after, all }) = &answered {
            let mut limits = self.limits();
            match all {
                true => limits.all_emptied(*retry_after, Instant::now()),
                false => limits.emptied(&route, *retry_after, Instant::now()),
            }
        }
        answered
    }

    /// Takes one request from the route's bucket; waits for it if the wait is short.
    async fn take(&self, route: &str) -> Result<(), ApiError> {
        // The endpoints of an interaction have separate limits for each short-lived token.
        if route.contains(" webhooks/") || route.contains(" interactions/") {
            return Ok(());
        }
        for _ in 0..WAITS_MAX {
            let taken = self.limits().take(route, Instant::now());
            match taken {
                Ok(()) => return Ok(()),
                Err(wait) if wait <= SHORT_WAIT => sleep(wait).await,
                Err(retry_after) => return Err(ApiError::Limited { retry_after, all: false }),
            }
        }
        Err(ApiError::Limited { retry_after: SHORT_WAIT, all: false })
    }

    fn limits(&self) -> MutexGuard<'_, Limits> {
        self.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn net(&self, error: reqwest::Error) -> ApiError {
        match NetError::from(error) {
            NetError::NotSent { detail, .. } => {
                ApiError::NotSent(format!("{} cannot be reached: {detail}", self.server))
            }
            error => ApiError::Doubtful(format!("{}: {error}", self.server)),
        }
    }
}

enum Body<'b> {
    Json(&'b Value),
    Form(Form),
}

async fn answer<T: DeserializeOwned>(response: reqwest::Response) -> Result<T, ApiError> {
    let status = response.status().as_u16();
    let headers = response.headers().clone();
    if status == 204 {
        return serde_json::from_value(Value::Null)
            .map_err(|_| ApiError::Doubtful("the server sent an empty response".into()));
    }
    let body: Result<Value, BodyError> = body::read_json(response, ANSWER_BYTES_MAX).await;
    let body = match (status, body) {
        (200..=299, Ok(body)) => {
            return serde_json::from_value(body)
                .map_err(|error| ApiError::Doubtful(format!("the response has an unexpected format ({error})")));
        }
        (200..=299, Err(error)) => return Err(ApiError::Doubtful(error.to_string())),
        // A proxy before the server answers with HTML; only its status is usable.
        (_, body) => body.unwrap_or(Value::Null),
    };
    match status {
        429 => Err(limited(&body, &headers)),
        // 501: the server does not support the request, so it had no effect.
        400..=499 | 501 => Err(ApiError::Refused(refused(status, &body))),
        _ => Err(ApiError::Doubtful(format!("the server responded with status {status}"))),
    }
}

/// <https://docs.discord.com/developers/topics/rate-limits#exceeding-a-rate-limit>
fn limited(body: &Value, headers: &HeaderMap) -> ApiError {
    let said = body["retry_after"].as_f64().and_then(seconds);
    let header = hermes_adapter_net::retry_after::from_headers(headers);
    let scope = headers.get("x-ratelimit-scope").and_then(|scope| scope.to_str().ok());
    let is_global = body["global"].as_bool();
    // The server itself always answers with an object.
    let is_barred = !body.is_object() && scope.is_none() && !headers.contains_key("x-ratelimit-bucket");
    let wait = said.or(header).unwrap_or(if is_barred { BARRED_WAIT } else { UNTOLD_WAIT });
    ApiError::Limited {
        retry_after: wait.min(WAIT_MAX),
        all: is_global == Some(true) || scope == Some("global") || is_barred,
    }
}

fn refused(status: u16, body: &Value) -> Refused {
    let mut message = body["message"].as_str().unwrap_or("the server rejected the request").to_owned();
    let mut faults = Vec::new();
    name_faults(&body["errors"], String::new(), &mut faults);
    if !faults.is_empty() {
        message = format!("{message}: {}", faults.join(", "));
    }
    let code = body["code"].as_u64();
    let is_its_own = code.is_some() || body["message"].is_string();
    Refused { status, code: code.unwrap_or_default(), message, is_its_own }
}

/// Collects the invalid fields with their error codes, such as `content: BASE_TYPE_MAX_LENGTH`, without their values.
/// <https://docs.discord.com/developers/reference#error-messages>
fn name_faults(errors: &Value, place: String, faults: &mut Vec<String>) {
    let Some(fields) = errors.as_object() else { return };
    // The nesting of the error is limited by that of the request, which is our own.
    for (key, value) in fields {
        if faults.len() >= FAULTS_MAX || place.len() > 100 {
            return;
        }
        match value.as_array().filter(|_| key == "_errors") {
            Some(list) => {
                let codes: Vec<&str> = list.iter().filter_map(|fault| fault["code"].as_str()).take(2).collect();
                faults.push(format!("{}: {}", place.trim_start_matches('.'), codes.join(" ")));
            }
            None => name_faults(value, format!("{place}.{key}"), faults),
        }
    }
}

/// <https://docs.discord.com/developers/resources/user#user-object>
#[derive(Clone, Debug, Deserialize)]
pub struct User {
    pub id: String,
    #[serde(default)]
    pub username: String,
    #[serde(default)]
    pub global_name: Option<String>,
    #[serde(default)]
    pub bot: bool,
}

impl User {
    /// Returns the name for display.
    pub fn shown(&self) -> &str {
        self.global_name.as_deref().filter(|name| !name.is_empty()).unwrap_or(&self.username)
    }
}

/// <https://docs.discord.com/developers/resources/guild#guild-member-object>
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Member {
    #[serde(default)]
    pub user: Option<User>,
    #[serde(default)]
    pub nick: Option<String>,
    #[serde(default)]
    pub roles: Vec<String>,
}

/// <https://docs.discord.com/developers/resources/channel#channel-object>
#[derive(Clone, Debug, Deserialize)]
pub struct Channel {
    pub id: String,
    #[serde(rename = "type", default)]
    pub kind: u8,
    #[serde(default)]
    pub guild_id: Option<String>,
    #[serde(default)]
    pub name: Option<String>,
    #[serde(default)]
    pub parent_id: Option<String>,
    /// The user who opened the thread.
    #[serde(default)]
    pub owner_id: Option<String>,
    #[serde(default)]
    pub flags: u64,
    #[serde(default)]
    pub available_tags: Vec<Id>,
    #[serde(default)]
    pub recipients: Vec<User>,
}

/// An object of which only the id is read.
#[derive(Clone, Debug, Deserialize)]
pub struct Id {
    pub id: String,
}

/// <https://docs.discord.com/developers/resources/message#attachment-object>
#[derive(Clone, Debug, Deserialize)]
pub struct File {
    #[serde(default)]
    pub id: String,
    #[serde(default)]
    pub filename: String,
    #[serde(default)]
    pub content_type: Option<String>,
    #[serde(default)]
    pub size: u64,
    pub url: String,
}

/// Parses a list and drops invalid entries, so that they do not affect the others or the message.
fn readable<'d, T: DeserializeOwned, D: Deserializer<'d>>(list: D) -> Result<Vec<T>, D::Error> {
    let list = Option::<Vec<Value>>::deserialize(list)?.unwrap_or_default();
    Ok(list.into_iter().filter_map(|one| serde_json::from_value(one).ok()).collect())
}

/// Parses an optional field; an invalid value counts as missing.
fn if_readable<'d, T: DeserializeOwned, D: Deserializer<'d>>(field: D) -> Result<Option<T>, D::Error> {
    Ok(serde_json::from_value(Value::deserialize(field)?).ok())
}

/// <https://docs.discord.com/developers/resources/message#message-object>
#[derive(Clone, Debug, Deserialize)]
pub struct Message {
    pub id: String,
    pub channel_id: String,
    #[serde(default)]
    pub guild_id: Option<String>,
    #[serde(default)]
    pub author: Option<User>,
    #[serde(default, deserialize_with = "if_readable")]
    pub member: Option<Member>,
    #[serde(default)]
    pub content: String,
    #[serde(default)]
    pub edited_timestamp: Option<String>,
    #[serde(default, deserialize_with = "readable")]
    pub mentions: Vec<User>,
    #[serde(default, deserialize_with = "readable")]
    pub mention_roles: Vec<String>,
    #[serde(default, deserialize_with = "readable")]
    pub attachments: Vec<File>,
    #[serde(rename = "type", default)]
    pub kind: u8,
    #[serde(default)]
    pub flags: u64,
    #[serde(default)]
    pub webhook_id: Option<String>,
    #[serde(default, deserialize_with = "if_readable")]
    pub referenced_message: Option<Box<Message>>,
    #[serde(default, deserialize_with = "readable")]
    pub message_snapshots: Vec<Snapshot>,
    #[serde(default, deserialize_with = "readable")]
    pub embeds: Vec<Embed>,
    #[serde(default, deserialize_with = "if_readable")]
    pub poll: Option<Poll>,
    #[serde(default, deserialize_with = "readable")]
    pub sticker_items: Vec<Sticker>,
}

/// <https://docs.discord.com/developers/resources/message#message-snapshot-object>
#[derive(Clone, Debug, Deserialize)]
pub struct Snapshot {
    pub message: Forwarded,
}

/// The content of a forwarded message.
#[derive(Clone, Debug, Deserialize)]
pub struct Forwarded {
    #[serde(default)]
    pub content: String,
    #[serde(default, deserialize_with = "readable")]
    pub attachments: Vec<File>,
    #[serde(default, deserialize_with = "readable")]
    pub embeds: Vec<Embed>,
    #[serde(default, deserialize_with = "if_readable")]
    pub poll: Option<Poll>,
    #[serde(default, deserialize_with = "readable")]
    pub sticker_items: Vec<Sticker>,
}

/// <https://docs.discord.com/developers/resources/message#embed-object>
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Embed {
    #[serde(rename = "type", default)]
    pub kind: Option<String>,
    #[serde(default)]
    pub title: Option<String>,
    #[serde(default)]
    pub url: Option<String>,
    #[serde(default)]
    pub description: Option<String>,
    #[serde(default, deserialize_with = "readable")]
    pub fields: Vec<EmbedField>,
    #[serde(default, deserialize_with = "if_readable")]
    pub author: Option<EmbedAuthor>,
    #[serde(default, deserialize_with = "if_readable")]
    pub footer: Option<EmbedText>,
}

/// A field of an embed.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct EmbedField {
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub value: String,
}

/// The author of an embed.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct EmbedAuthor {
    #[serde(default)]
    pub name: Option<String>,
}

/// An object of which only the text is read.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct EmbedText {
    #[serde(default)]
    pub text: Option<String>,
}

/// <https://docs.discord.com/developers/resources/poll#poll-object>
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Poll {
    #[serde(default)]
    pub question: EmbedText,
    #[serde(default, deserialize_with = "readable")]
    pub answers: Vec<PollAnswer>,
}

/// An answer of a poll.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct PollAnswer {
    #[serde(default)]
    pub poll_media: EmbedText,
}

/// <https://docs.discord.com/developers/resources/sticker#sticker-item-object>
#[derive(Clone, Debug, Deserialize)]
pub struct Sticker {
    #[serde(default)]
    pub name: String,
}

/// <https://docs.discord.com/developers/resources/message#reaction-object>
#[derive(Debug, Deserialize)]
pub struct Reacted {
    #[serde(default)]
    pub reactions: Vec<Reaction>,
}

/// One kind of reaction to a message.
#[derive(Debug, Deserialize)]
pub struct Reaction {
    /// True if this bot is among the users who reacted.
    #[serde(default)]
    pub me: bool,
    pub emoji: Emoji,
}

/// <https://docs.discord.com/developers/resources/emoji#emoji-object>
#[derive(Debug, Deserialize)]
pub struct Emoji {
    #[serde(default)]
    pub id: Option<String>,
    #[serde(default)]
    pub name: Option<String>,
}

/// A new or edited message, of which only the id is read.
pub type Sent = Id;

/// <https://docs.discord.com/developers/interactions/receiving-and-responding#interaction-object>
#[derive(Clone, Debug, Deserialize)]
pub struct Interaction {
    pub id: String,
    #[serde(rename = "type")]
    pub kind: u8,
    pub token: String,
    #[serde(default)]
    pub data: InteractionData,
    #[serde(default)]
    pub guild_id: Option<String>,
    #[serde(default)]
    pub channel: Option<Channel>,
    #[serde(default)]
    pub channel_id: Option<String>,
    #[serde(default)]
    pub member: Option<Member>,
    #[serde(default)]
    pub user: Option<User>,
    #[serde(default)]
    pub message: Option<Id>,
}

impl Interaction {
    /// Returns the channel of the interaction.
    pub fn channel(&self) -> Option<&str> {
        self.channel.as_ref().map(|channel| channel.id.as_str()).or(self.channel_id.as_deref())
    }
}

/// <https://docs.discord.com/developers/interactions/receiving-and-responding#interaction-object-interaction-data>
#[derive(Clone, Debug, Default, Deserialize)]
pub struct InteractionData {
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub options: Vec<CommandOption>,
    #[serde(default)]
    pub custom_id: String,
}

/// An argument of a command.
#[derive(Clone, Debug, Deserialize)]
pub struct CommandOption {
    #[serde(default)]
    pub value: Value,
}

/// <https://docs.discord.com/developers/events/gateway#get-gateway-bot>
#[derive(Clone, Debug, Deserialize)]
pub struct GatewayBot {
    pub url: String,
    #[serde(default = "one")]
    pub shards: u32,
    #[serde(default)]
    pub session_start_limit: Option<StartLimit>,
}

/// <https://docs.discord.com/developers/events/gateway#session-start-limit-object>
#[derive(Clone, Debug, Deserialize)]
pub struct StartLimit {
    #[serde(default)]
    pub remaining: u32,
    /// The time in milliseconds.
    #[serde(default)]
    pub reset_after: u64,
    #[serde(default = "one")]
    pub max_concurrency: u32,
}

fn one() -> u32 {
    1
}

/// <https://docs.discord.com/developers/resources/application#application-object>
#[derive(Clone, Debug, Deserialize)]
pub struct Application {
    pub id: String,
    #[serde(default)]
    pub flags: u64,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_refusal_names_the_fields_that_are_wrong_and_none_of_their_values() {
        let body = json!({ "code": 50035, "message": "Invalid Form Body", "errors": {
            "content": { "_errors": [{ "code": "BASE_TYPE_MAX_LENGTH", "message": "Must be 2000 or fewer in length." }] },
            "components": { "0": { "label": { "_errors": [{ "code": "BASE_TYPE_REQUIRED", "message": "x" }] } } },
        } });
        let refused = refused(400, &body);
        assert_eq!(refused.code, 50035);
        assert!(refused.message.contains("content: BASE_TYPE_MAX_LENGTH"), "{refused}");
        assert!(refused.message.contains("components.0.label: BASE_TYPE_REQUIRED"), "{refused}");
    }

    #[test]
    fn a_limit_tells_its_wait_and_whether_it_is_everybodys() {
        let mut headers = HeaderMap::new();
        headers.insert("retry-after", HeaderValue::from_static("65"));
        let read = |body: Value, headers: &HeaderMap| match limited(&body, headers) {
            ApiError::Limited { retry_after, all } => (retry_after.as_millis(), all),
            other => panic!("{other}"),
        };
        assert_eq!(read(json!({ "retry_after": 64.57, "global": false }), &headers), (64_570, false));
        assert_eq!(read(json!({ "retry_after": 1.0, "global": true }), &headers), (1000, true));
        assert_eq!(read(json!({ "retry_after": 1e9, "global": true }), &headers), (900_000, true), "it is asked again");
        headers.insert("x-ratelimit-bucket", HeaderValue::from_static("b"));
        assert_eq!(read(Value::Null, &headers), (65_000, false));
        headers.insert("x-ratelimit-scope", HeaderValue::from_static("global"));
        assert_eq!(read(Value::Null, &headers), (65_000, true));
        headers.clear();
        for odd in [json!({}), json!({ "retry_after": "abc" }), json!({ "retry_after": -1, "global": "x" })] {
            assert_eq!(read(odd.clone(), &headers), (5000, false), "it is the chat's own: {odd}");
        }
        assert_eq!(read(Value::Null, &headers), (60_000, true), "what stands before the server bars the address");
    }
}
