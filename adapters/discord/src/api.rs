//! The HTTP API: one call function, typed answers, no policy but the limits that the server tells.
//!
//! Only fields that are read are named; whatever else the server sends is ignored. A request is never repeated
//! here: the host decides that, and it has to know. <https://docs.discord.com/developers/reference>

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

use crate::limits::{Limits, Told, WAIT_MAX, route, seconds};

/// The longest answer of the server that is read, in bytes.
const ANSWER_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// How long a call may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// An empty bucket that is full again so soon is waited for; a longer wait is the host's.
const SHORT_WAIT: Duration = Duration::from_secs(2);
/// How often one call waits for its bucket.
const WAITS_MAX: usize = 3;
/// How long to wait after a 429 that does not say.
const UNTOLD_WAIT: Duration = Duration::from_secs(5);
/// The same where it is not from the server's own limits but from what stands before it, which bars a whole address.
const BARRED_WAIT: Duration = Duration::from_secs(60);
/// The names of wrong fields that are told.
const FAULTS_MAX: usize = 4;

/// The server, as one bot sees it.
pub struct Api {
    client: Client,
    base: String,
    /// The server as errors name it.
    server: String,
    token: HeaderValue,
    limits: Mutex<Limits>,
}

/// Why a call gave no result.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ApiError {
    /// The server said no.
    #[error("{0}")]
    Refused(Refused),
    /// The limits forbid it for a while; nothing was done.
    #[error("Discord's rate limit: wait {} ms", .retry_after.as_millis())]
    Limited {
        /// How long.
        retry_after: Duration,
        /// Whether nothing else may be asked either.
        all: bool,
    },
    /// Nothing reached the server.
    #[error("{0}")]
    NotSent(String),
    /// What is to be sent can never be; nothing reached the server.
    #[error("{0}")]
    Unusable(String),
    /// It may have been done.
    #[error("{0}")]
    Doubtful(String),
    /// The same, and no key keeps it from being done twice.
    #[error("{0}")]
    Keyless(String),
}

/// The server's no.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message} ({code})")]
pub struct Refused {
    /// The HTTP status.
    pub status: u16,
    /// The server's own code; 0 where it names none.
    /// <https://docs.discord.com/developers/topics/opcodes-and-status-codes#json>
    pub code: u64,
    /// The server's words, and the fields that are wrong.
    pub message: String,
    /// Whether the server itself said it, and nothing that stands before it.
    pub is_its_own: bool,
}

impl ApiError {
    /// The server's own code, if it said no.
    pub fn code(&self) -> Option<u64> {
        match self {
            Self::Refused(refused) => Some(refused.code),
            _ => None,
        }
    }
}

impl Api {
    /// The API at `base`, its version included, for the bot of this token.
    pub fn new(token: &str, base: &str, ca_file: Option<&Path>, proxy: &ProxySettings) -> Result<Self, ClientError> {
        let base: Url = base_url(base)?;
        let mut options = ClientOptions::for_base_url(&base);
        options.proxy = proxy.clone();
        options.ca_file = ca_file.map(Path::to_owned);
        options.total_timeout = None;
        // <https://docs.discord.com/developers/reference#user-agent>
        options.user_agent = concat!("DiscordBot (hermes-host, ", env!("CARGO_PKG_VERSION"), ")").to_owned();
        let mut token = HeaderValue::from_str(&format!("Bot {token}"))
            .map_err(|_| ClientError::Build("the token holds characters that no token has".to_owned()))?;
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

    /// Asks without a body.
    pub async fn ask<T: DeserializeOwned>(&self, method: Method, path: &str) -> Result<T, ApiError> {
        self.call(method, path, None).await
    }

    /// Sends JSON.
    pub async fn send<T: DeserializeOwned>(&self, method: Method, path: &str, body: &Value) -> Result<T, ApiError> {
        self.call(method, path, Some(Body::Json(body))).await
    }

    /// Sends JSON with files, for as long as whoever asks waits.
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

    /// Takes one request out of the route's bucket; waits for it where that is short.
    async fn take(&self, route: &str) -> Result<(), ApiError> {
        // The endpoints of an interaction have limits for each token, which nothing here outlives.
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
            .map_err(|_| ApiError::Doubtful("the server answered nothing".into()));
    }
    let body: Result<Value, BodyError> = body::read_json(response, ANSWER_BYTES_MAX).await;
    let body = match (status, body) {
        (200..=299, Ok(body)) => {
            return serde_json::from_value(body).map_err(|error| {
                ApiError::Doubtful(format!("the answer is not what the interface promises ({error})"))
            });
        }
        (200..=299, Err(error)) => return Err(ApiError::Doubtful(error.to_string())),
        // What stands before the server speaks HTML; its status is what is known.
        (_, body) => body.unwrap_or(Value::Null),
    };
    match status {
        429 => Err(limited(&body, &headers)),
        // 501: the server knows no such request, so nothing was done.
        400..=499 | 501 => Err(ApiError::Refused(refused(status, &body))),
        _ => Err(ApiError::Doubtful(format!("the server answered {status}"))),
    }
}

/// <https://docs.discord.com/developers/topics/rate-limits#exceeding-a-rate-limit>
fn limited(body: &Value, headers: &HeaderMap) -> ApiError {
    let said = body["retry_after"].as_f64().and_then(seconds);
    let header = hermes_adapter_net::retry_after::from_headers(headers);
    let scope = headers.get("x-ratelimit-scope").and_then(|scope| scope.to_str().ok());
    let is_global = body["global"].as_bool();
    // The server itself answers with an object, whatever stands in it.
    let is_barred = !body.is_object() && scope.is_none() && !headers.contains_key("x-ratelimit-bucket");
    let wait = said.or(header).unwrap_or(if is_barred { BARRED_WAIT } else { UNTOLD_WAIT });
    ApiError::Limited {
        retry_after: wait.min(WAIT_MAX),
        all: is_global == Some(true) || scope == Some("global") || is_barred,
    }
}

fn refused(status: u16, body: &Value) -> Refused {
    let mut message = body["message"].as_str().unwrap_or("the server refused it").to_owned();
    let mut faults = Vec::new();
    name_faults(&body["errors"], String::new(), &mut faults);
    if !faults.is_empty() {
        message = format!("{message}: {}", faults.join(", "));
    }
    let code = body["code"].as_u64();
    let is_its_own = code.is_some() || body["message"].is_string();
    Refused { status, code: code.unwrap_or_default(), message, is_its_own }
}

/// Names what is wrong: `content: BASE_TYPE_MAX_LENGTH`. The values themselves are not repeated.
/// <https://docs.discord.com/developers/reference#error-messages>
fn name_faults(errors: &Value, place: String, faults: &mut Vec<String>) {
    let Some(fields) = errors.as_object() else { return };
    // A nested error is at most as deep as the request, which is ours.
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
    /// The name for people.
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
    /// Who opened it, of a thread.
    #[serde(default)]
    pub owner_id: Option<String>,
    #[serde(default)]
    pub flags: u64,
    #[serde(default)]
    pub available_tags: Vec<Id>,
    #[serde(default)]
    pub recipients: Vec<User>,
}

/// Anything of which only the id matters.
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

/// Those of a list that can be read: one that cannot leaves the others and what they hang on as they are.
fn readable<'d, T: DeserializeOwned, D: Deserializer<'d>>(list: D) -> Result<Vec<T>, D::Error> {
    let list = Option::<Vec<Value>>::deserialize(list)?.unwrap_or_default();
    Ok(list.into_iter().filter_map(|one| serde_json::from_value(one).ok()).collect())
}

/// What is not understood here is not there; the message is.
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

/// What is left of a message that was forwarded.
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

/// One field of a card.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct EmbedField {
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub value: String,
}

/// The author that a card names.
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

/// One answer of a poll.
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
    /// Whether this bot is one of those who reacted.
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

/// A message that was just made or changed; only its id is of use.
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
    /// Where it happened.
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

/// What somebody filled in behind a command.
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
    /// In milliseconds.
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
