//! The Bot API: typed payloads and one function for calls, without policy.
//!
//! The types contain only the fields that the adapter reads; all other fields are ignored.
//! <https://core.telegram.org/bots/api>

use std::path::Path;
use std::time::Duration;

use hermes_adapter_net::{
    ClientError, ClientOptions, NetError,
    body::{self, BodyError},
    client::base_url,
    http_client,
    proxy::ProxySettings,
    reqwest::{Client, Url, multipart::Form},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;

/// The maximum size of a response, in bytes.
const ANSWER_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// The timeout of every call except a long poll.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// The minimum transfer rate of files, in bytes per second. A fixed time of ten call timeouts is added.
const BYTES_PER_S_MIN: u64 = 1 << 20;
/// The time by which a long poll may exceed its requested duration.
pub const POLL_SLACK: Duration = Duration::from_secs(10);

/// The client of one bot, cheap to clone. Every address contains the token, so no address is ever shown.
#[derive(Clone)]
pub struct Api {
    client: Client,
    methods: String,
    files: String,
    /// The servers in error messages: the config key and the host name, never the token.
    server: String,
    file_server: String,
}

/// The reason why a call has no result.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The server rejected the call.
    #[error("{0}")]
    Refused(Refused),
    /// The request did not reach the server.
    #[error("{0}")]
    NotSent(String),
    /// The content cannot be sent; the request did not reach the server.
    #[error("{0}")]
    Unusable(String),
    /// The response exceeds this number of bytes; the call may have taken effect.
    #[error("the response exceeds {0} bytes")]
    TooLarge(u64),
    /// The call may have taken effect.
    #[error("{0}")]
    Doubtful(String),
}

/// A rejection by the server.
#[derive(Debug, thiserror::Error)]
#[error("{description}")]
pub struct Refused {
    /// The `error_code`, which equals the HTTP status.
    pub code: u16,
    /// The server's explanation.
    pub description: String,
    /// The requested wait, in milliseconds.
    pub retry_after_ms: Option<u64>,
    /// The new id of the chat.
    pub migrate_to_chat_id: Option<i64>,
}

impl Api {
    /// Creates a client for the server at `base` (the address before `/bot<token>`), with files at `files`.
    pub fn new(
        token: &str,
        base: &str,
        files: Option<&str>,
        ca_file: Option<&Path>,
        proxy: &ProxySettings,
    ) -> Result<Self, ClientError> {
        let base: Url = base_url(base)?;
        let mut options = ClientOptions::for_base_url(&base);
        options.ca_file = ca_file.map(Path::to_owned);
        options.proxy = proxy.clone();
        options.total_timeout = None;
        let server = named("base_url", &base);
        let base = base.as_str().trim_end_matches('/').to_owned();
        let (files, file_server) = match files {
            Some(files) => {
                let files = base_url(files)?;
                // Without any encrypted connection no certificate is needed.
                options.plain_http &= files.scheme() == "http";
                (files.as_str().trim_end_matches('/').to_owned(), named("file_url", &files))
            }
            None => (format!("{base}/file"), server.clone()),
        };
        Ok(Self {
            server,
            file_server,
            client: http_client(&options)?,
            methods: format!("{base}/bot{token}"),
            files: format!("{files}/bot{token}"),
        })
    }

    /// Calls a method with JSON parameters, with the default timeout.
    pub async fn call<T: DeserializeOwned>(&self, method: &str, parameters: &impl Serialize) -> Result<T, ApiError> {
        self.call_within(method, parameters, CALL_TIMEOUT).await
    }

    /// Calls a method with the timeout `deadline`.
    pub async fn call_within<T: DeserializeOwned>(
        &self,
        method: &str,
        parameters: &impl Serialize,
        deadline: Duration,
    ) -> Result<T, ApiError> {
        let request = self.client.post(format!("{}/{method}", self.methods)).timeout(deadline).json(parameters);
        answer(request.send().await, &self.server).await
    }

    /// Calls a method with files, with the timeout `deadline`.
    pub async fn upload<T: DeserializeOwned>(
        &self,
        method: &str,
        form: Form,
        deadline: Duration,
    ) -> Result<T, ApiError> {
        let address = format!("{}/{method}", self.methods);
        let request = self.client.post(address).timeout(deadline).multipart(form);
        answer(request.send().await, &self.server).await
    }

    /// Downloads a file named by `getFile`, of at most `bytes_max` bytes, to the path `to`. Returns its size in bytes.
    pub async fn download(&self, file_path: &str, to: &Path, bytes_max: u64) -> Result<u64, ApiError> {
        let address = format!("{}/{}", self.files, file_path.trim_start_matches('/'));
        let response = self.client.get(address).timeout(transfer(bytes_max)).send().await;
        let mut response = response.map_err(|error| net(&self.file_server, error))?;
        if !response.status().is_success() {
            return Err(ApiError::Doubtful(format!("the file server responded with status {}", response.status())));
        }
        let kept = |error: std::io::Error| ApiError::Unusable(format!("the file cannot be saved: {error}"));
        let mut file = tokio::fs::File::create(to).await.map_err(kept)?;
        let mut size = 0;
        while let Some(piece) = response.chunk().await.map_err(|error| net(&self.file_server, error))? {
            size += piece.len() as u64;
            if size > bytes_max {
                return Err(ApiError::Unusable(format!("the file exceeds the limit of {bytes_max} bytes")));
            }
            file.write_all(&piece).await.map_err(kept)?;
        }
        file.flush().await.map_err(kept)?;
        Ok(size)
    }
}

/// Returns the time for sending a message if the host gives none.
pub fn send_time(bytes: u64) -> Duration {
    if bytes == 0 { CALL_TIMEOUT } else { transfer(bytes) }
}

/// Returns the time for a transfer of `bytes` bytes.
fn transfer(bytes: u64) -> Duration {
    CALL_TIMEOUT * 10 + Duration::from_secs(bytes / BYTES_PER_S_MIN)
}

async fn answer<T: DeserializeOwned>(
    response: Result<hermes_adapter_net::reqwest::Response, hermes_adapter_net::reqwest::Error>,
    server: &str,
) -> Result<T, ApiError> {
    let response = response.map_err(|error| net(server, error))?;
    let status = response.status().as_u16();
    let header_wait = hermes_adapter_net::retry_after::from_headers(response.headers());
    let envelope: Envelope = match body::read_json(response, ANSWER_BYTES_MAX).await {
        Ok(envelope) => envelope,
        // A proxy before the server answers with HTML; only its status is usable.
        Err(BodyError::Json(_)) if status == 429 => Envelope::status(status),
        Err(BodyError::TooLarge { bytes_max }) => return Err(ApiError::TooLarge(bytes_max)),
        // No server processed the request: <https://www.rfc-editor.org/rfc/rfc9110#section-15.6.4>
        Err(_) if status == 503 => return Err(ApiError::NotSent(format!("the server answered {status}"))),
        Err(error) if status >= 500 => {
            return Err(ApiError::Doubtful(format!("the server answered {status} ({error})")));
        }
        // A proxy before the server rejected the request, so the call had no effect.
        Err(BodyError::Json(_)) if (400..500).contains(&status) => {
            return Err(ApiError::NotSent(format!(
                "the server answered {status}, which is not a Bot API response; check `base_url` and any proxy in front of the server"
            )));
        }
        Err(error) => return Err(ApiError::Doubtful(error.to_string())),
    };
    if envelope.ok {
        return serde_json::from_value(envelope.result)
            .map_err(|error| ApiError::Doubtful(format!("the result has an unexpected format ({error})")));
    }
    let code = envelope.error_code.unwrap_or(status);
    if code == 503 {
        return Err(ApiError::NotSent(format!("the server answered {code}: {}", envelope.description)));
    }
    if code >= 500 {
        return Err(ApiError::Doubtful(format!("the server answered {code}: {}", envelope.description)));
    }
    if envelope.description.is_empty() && code != 429 {
        // The server always gives a reason. Without one the rejection may come from a proxy.
        return Err(ApiError::Doubtful(format!("the server answered {code} without a reason")));
    }
    let wait_ms = envelope.parameters.retry_after.map(|seconds| seconds.saturating_mul(1000));
    Err(ApiError::Refused(Refused {
        code,
        description: envelope.description,
        retry_after_ms: wait_ms.or(header_wait.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX))),
        migrate_to_chat_id: envelope.parameters.migrate_to_chat_id,
    }))
}

/// Returns the host name of an address and its config key, for error messages.
fn named(key: &str, url: &Url) -> String {
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{} (`{key}`)", url.host_str().unwrap_or_default().to_owned() + &port)
}

fn net(server: &str, error: hermes_adapter_net::reqwest::Error) -> ApiError {
    match NetError::from(error) {
        NetError::NotSent { detail, .. } => ApiError::NotSent(format!("{server} cannot be reached: {detail}")),
        error => ApiError::Doubtful(format!("{server}: {error}")),
    }
}

#[derive(Default, Deserialize)]
struct Envelope {
    #[serde(default)]
    ok: bool,
    #[serde(default)]
    result: Value,
    #[serde(default)]
    error_code: Option<u16>,
    #[serde(default)]
    description: String,
    #[serde(default)]
    parameters: Parameters,
}

impl Envelope {
    fn status(code: u16) -> Self {
        Self { error_code: Some(code), description: format!("the server answered {code}"), ..Self::default() }
    }
}

#[derive(Default, Deserialize)]
struct Parameters {
    #[serde(default)]
    retry_after: Option<u64>,
    #[serde(default)]
    migrate_to_chat_id: Option<i64>,
}

/// <https://core.telegram.org/bots/api#user>
#[derive(Clone, Debug, Deserialize)]
pub struct User {
    pub id: i64,
    #[serde(default)]
    pub is_bot: bool,
    #[serde(default)]
    pub first_name: String,
    #[serde(default)]
    pub last_name: Option<String>,
    #[serde(default)]
    pub username: Option<String>,
}

impl User {
    /// Returns the first and last name.
    pub fn full_name(&self) -> String {
        match &self.last_name {
            Some(last) => format!("{} {last}", self.first_name),
            None => self.first_name.clone(),
        }
    }
}

/// <https://core.telegram.org/bots/api#chat>
#[derive(Clone, Debug, Deserialize)]
pub struct Chat {
    pub id: i64,
    #[serde(rename = "type", default)]
    pub kind: String,
    #[serde(default)]
    pub title: Option<String>,
    #[serde(default)]
    pub first_name: Option<String>,
    #[serde(default)]
    pub is_forum: bool,
}

impl Chat {
    /// Creates the supergroup that a group becomes.
    pub fn supergroup(id: i64) -> Self {
        Self { id, kind: "supergroup".to_owned(), title: None, first_name: None, is_forum: false }
    }
}

/// <https://core.telegram.org/bots/api#messageentity>
#[derive(Clone, Debug, Deserialize)]
pub struct Entity {
    #[serde(rename = "type")]
    pub kind: String,
    /// The offset in UTF-16 units.
    pub offset: usize,
    /// The length in UTF-16 units.
    pub length: usize,
    #[serde(default)]
    pub user: Option<User>,
    /// The address of the link, for `text_link`.
    #[serde(default)]
    pub url: Option<String>,
}

/// A file of any kind.
#[derive(Clone, Debug, Deserialize)]
pub struct File {
    pub file_id: String,
    #[serde(default)]
    pub file_size: Option<u64>,
    #[serde(default)]
    pub file_name: Option<String>,
    #[serde(default)]
    pub mime_type: Option<String>,
    #[serde(default)]
    pub emoji: Option<String>,
    /// For a sticker: true if it is one of Telegram's own animations.
    #[serde(default)]
    pub is_animated: bool,
    /// For a sticker: true if it is a video.
    #[serde(default)]
    pub is_video: bool,
}

/// <https://core.telegram.org/bots/api#location>
#[derive(Clone, Debug, Deserialize)]
pub struct Location {
    pub latitude: f64,
    pub longitude: f64,
}

/// <https://core.telegram.org/bots/api#contact>
#[derive(Clone, Debug, Deserialize)]
pub struct Contact {
    #[serde(default)]
    pub phone_number: String,
    #[serde(default)]
    pub first_name: String,
}

/// <https://core.telegram.org/bots/api#poll>
#[derive(Clone, Debug, Deserialize)]
pub struct Poll {
    #[serde(default)]
    pub question: String,
    #[serde(default)]
    pub options: Vec<Text>,
}

/// An object with a text: an option of a poll, a task of a checklist. Its other fields are not read.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Text {
    #[serde(default)]
    pub text: String,
}

/// <https://core.telegram.org/bots/api#venue>
#[derive(Clone, Debug, Deserialize)]
pub struct Venue {
    pub location: Location,
    #[serde(default)]
    pub title: String,
    #[serde(default)]
    pub address: String,
}

/// <https://core.telegram.org/bots/api#dice>
#[derive(Clone, Debug, Deserialize)]
pub struct Dice {
    #[serde(default)]
    pub emoji: String,
    #[serde(default)]
    pub value: i64,
}

/// <https://core.telegram.org/bots/api#checklist>
#[derive(Clone, Debug, Deserialize)]
pub struct Checklist {
    #[serde(default)]
    pub title: String,
    #[serde(default)]
    pub tasks: Vec<Text>,
}

/// A game or an invoice. <https://core.telegram.org/bots/api#game>
#[derive(Clone, Debug, Deserialize)]
pub struct Titled {
    #[serde(default)]
    pub title: String,
    #[serde(default)]
    pub description: String,
}

/// The origin of a forwarded message; one structure for all kinds. <https://core.telegram.org/bots/api#messageorigin>
#[derive(Clone, Debug, Deserialize)]
pub struct Origin {
    #[serde(default)]
    pub date: i64,
    #[serde(default)]
    pub sender_user: Option<User>,
    #[serde(default)]
    pub sender_user_name: Option<String>,
    #[serde(default)]
    pub sender_chat: Option<Chat>,
    #[serde(default)]
    pub chat: Option<Chat>,
    #[serde(default)]
    pub author_signature: Option<String>,
}

/// A quoted message of another chat. <https://core.telegram.org/bots/api#externalreplyinfo>
#[derive(Clone, Debug, Deserialize)]
pub struct ExternalReply {
    pub origin: Origin,
    #[serde(default)]
    pub message_id: Option<i64>,
}

/// <https://core.telegram.org/bots/api#textquote>
#[derive(Clone, Debug, Deserialize)]
pub struct Quote {
    #[serde(default)]
    pub text: String,
    #[serde(default)]
    pub entities: Vec<Entity>,
}

/// <https://core.telegram.org/bots/api#message>
#[derive(Clone, Debug, Deserialize)]
pub struct Message {
    pub message_id: i64,
    #[serde(default)]
    pub date: i64,
    pub chat: Chat,
    #[serde(default)]
    pub from: Option<User>,
    #[serde(default)]
    pub sender_chat: Option<Chat>,
    #[serde(default)]
    pub message_thread_id: Option<i64>,
    #[serde(default)]
    pub is_topic_message: bool,
    #[serde(default)]
    pub direct_messages_topic: Option<DirectMessagesTopic>,
    #[serde(default)]
    pub edit_date: Option<i64>,
    #[serde(default)]
    pub media_group_id: Option<String>,
    #[serde(default)]
    pub text: Option<String>,
    #[serde(default)]
    pub entities: Vec<Entity>,
    #[serde(default)]
    pub caption: Option<String>,
    #[serde(default)]
    pub caption_entities: Vec<Entity>,
    #[serde(default)]
    pub reply_to_message: Option<Box<Message>>,
    #[serde(default)]
    pub external_reply: Option<ExternalReply>,
    #[serde(default)]
    pub quote: Option<Quote>,
    #[serde(default)]
    pub forward_origin: Option<Origin>,
    #[serde(default)]
    pub photo: Vec<File>,
    #[serde(default)]
    pub document: Option<File>,
    #[serde(default)]
    pub voice: Option<File>,
    #[serde(default)]
    pub audio: Option<File>,
    #[serde(default)]
    pub video: Option<File>,
    #[serde(default)]
    pub video_note: Option<File>,
    #[serde(default)]
    pub animation: Option<File>,
    #[serde(default)]
    pub sticker: Option<File>,
    #[serde(default)]
    pub location: Option<Location>,
    /// True for a channel's post in the channel's discussion group.
    #[serde(default)]
    pub is_automatic_forward: bool,
    #[serde(default)]
    pub contact: Option<Contact>,
    #[serde(default)]
    pub poll: Option<Poll>,
    #[serde(default)]
    pub venue: Option<Venue>,
    #[serde(default)]
    pub dice: Option<Dice>,
    #[serde(default)]
    pub checklist: Option<Checklist>,
    #[serde(default)]
    pub game: Option<Titled>,
    #[serde(default)]
    pub invoice: Option<Titled>,
    #[serde(default)]
    pub story: Option<Value>,
    #[serde(default)]
    pub paid_media: Option<Value>,
    #[serde(default)]
    pub migrate_to_chat_id: Option<i64>,
    /// Present on the service message that opened a topic.
    #[serde(default)]
    pub forum_topic_created: Option<Value>,
}

/// <https://core.telegram.org/bots/api#directmessagestopic>
#[derive(Clone, Debug, Deserialize)]
pub struct DirectMessagesTopic {
    pub topic_id: i64,
}

/// <https://core.telegram.org/bots/api#callbackquery>
#[derive(Clone, Debug, Deserialize)]
pub struct CallbackQuery {
    pub id: String,
    pub from: User,
    #[serde(default)]
    pub message: Option<Message>,
    #[serde(default)]
    pub data: Option<String>,
}

/// <https://core.telegram.org/bots/api#update>
#[derive(Clone, Debug, Deserialize)]
pub struct Update {
    #[serde(default)]
    pub message: Option<Message>,
    #[serde(default)]
    pub edited_message: Option<Message>,
    #[serde(default)]
    pub channel_post: Option<Message>,
    #[serde(default)]
    pub edited_channel_post: Option<Message>,
    #[serde(default)]
    pub callback_query: Option<CallbackQuery>,
}

/// <https://core.telegram.org/bots/api#webhookinfo>
#[derive(Debug, Deserialize)]
pub struct WebhookInfo {
    #[serde(default)]
    pub url: String,
    #[serde(default)]
    pub pending_update_count: u64,
    #[serde(default)]
    pub last_error_message: Option<String>,
}

/// <https://core.telegram.org/bots/api#file>
#[derive(Debug, Deserialize)]
pub struct FilePath {
    #[serde(default)]
    pub file_path: Option<String>,
    #[serde(default)]
    pub file_size: Option<u64>,
}

/// A message that the server has just created, with only its id and time.
#[derive(Debug, Deserialize)]
pub struct Sent {
    pub message_id: i64,
    /// The time in seconds since the Unix epoch, by the clock that also dates the events; 0 if it is missing.
    #[serde(default)]
    pub date: i64,
}

/// <https://core.telegram.org/bots/api#forumtopic>
#[derive(Debug, Deserialize)]
pub struct Topic {
    pub message_thread_id: i64,
}
