//! The Bot API: typed payloads, one call function, no policy.
//!
//! Only fields that are read are named; whatever else the server sends is
//! ignored. <https://core.telegram.org/bots/api>

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

/// The longest answer of the server that is read, in bytes.
const ANSWER_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// How long any call but a long poll may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// How fast files have to move at least, besides ten times that.
const BYTES_PER_S_MIN: u64 = 1 << 20;
/// How much longer than asked a long poll may take.
pub const POLL_SLACK: Duration = Duration::from_secs(10);

/// The server, as one bot sees it; cheap to clone. The token stands in every address, so no
/// address is ever shown.
#[derive(Clone)]
pub struct Api {
    client: Client,
    methods: String,
    files: String,
    /// The servers as errors name them: the key and the host, never the token behind it.
    server: String,
    file_server: String,
}

/// Why a call gave no result.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The server said no.
    #[error("{0}")]
    Refused(Refused),
    /// Nothing reached the server.
    #[error("{0}")]
    NotSent(String),
    /// What is to be sent cannot be; nothing reached the server.
    #[error("{0}")]
    Unusable(String),
    /// The answer was longer than this many bytes; what was asked for may have been done.
    #[error("the answer is longer than {0} bytes")]
    TooLarge(u64),
    /// It may have been done.
    #[error("{0}")]
    Doubtful(String),
}

/// The server's no.
#[derive(Debug, thiserror::Error)]
#[error("{description}")]
pub struct Refused {
    /// `error_code`, which is the HTTP status.
    pub code: u16,
    /// The server's words.
    pub description: String,
    /// How long to wait, in milliseconds.
    pub retry_after_ms: Option<u64>,
    /// The chat's new id.
    pub migrate_to_chat_id: Option<i64>,
}

impl Api {
    /// A server at `base` (what stands before `/bot<token>`), files at `files`.
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
                // Only where nothing is encrypted no certificate is needed.
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

    /// Calls a method with JSON parameters.
    pub async fn call<T: DeserializeOwned>(&self, method: &str, parameters: &impl Serialize) -> Result<T, ApiError> {
        self.call_within(method, parameters, CALL_TIMEOUT).await
    }

    /// Calls a method that may take as long as `deadline`.
    pub async fn call_within<T: DeserializeOwned>(
        &self,
        method: &str,
        parameters: &impl Serialize,
        deadline: Duration,
    ) -> Result<T, ApiError> {
        let request = self.client.post(format!("{}/{method}", self.methods)).timeout(deadline).json(parameters);
        answer(request.send().await, &self.server).await
    }

    /// Calls a method with files, which may take as long as `deadline`.
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

    /// Fetches a file that `getFile` named, at most `bytes_max` bytes, to a place of the disk; returns its size.
    pub async fn download(&self, file_path: &str, to: &Path, bytes_max: u64) -> Result<u64, ApiError> {
        let address = format!("{}/{}", self.files, file_path.trim_start_matches('/'));
        let response = self.client.get(address).timeout(transfer(bytes_max)).send().await;
        let mut response = response.map_err(|error| net(&self.file_server, error))?;
        if !response.status().is_success() {
            return Err(ApiError::Doubtful(format!("the file server answered {}", response.status())));
        }
        let kept = |error: std::io::Error| ApiError::Unusable(format!("the file could not be kept: {error}"));
        let mut file = tokio::fs::File::create(to).await.map_err(kept)?;
        let mut size = 0;
        while let Some(piece) = response.chunk().await.map_err(|error| net(&self.file_server, error))? {
            size += piece.len() as u64;
            if size > bytes_max {
                return Err(ApiError::Unusable(format!(
                    "the file has more than the {bytes_max} bytes that are fetched"
                )));
            }
            file.write_all(&piece).await.map_err(kept)?;
        }
        file.flush().await.map_err(kept)?;
        Ok(size)
    }
}

/// How long a message may take whose host does not say.
pub fn send_time(bytes: u64) -> Duration {
    if bytes == 0 { CALL_TIMEOUT } else { transfer(bytes) }
}

/// How long files of so many bytes may take.
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
        // A proxy in front of the server speaks HTML; its status is what is known.
        Err(BodyError::Json(_)) if status == 429 => Envelope::status(status),
        Err(BodyError::TooLarge { bytes_max }) => return Err(ApiError::TooLarge(bytes_max)),
        // Nobody took it on: <https://www.rfc-editor.org/rfc/rfc9110#section-15.6.4>
        Err(_) if status == 503 => return Err(ApiError::NotSent(format!("the server answered {status}"))),
        Err(error) if status >= 500 => {
            return Err(ApiError::Doubtful(format!("the server answered {status} ({error})")));
        }
        // Whoever stands before the server did not let it through, so nothing was done.
        Err(BodyError::Json(_)) if (400..500).contains(&status) => {
            return Err(ApiError::NotSent(format!("what stands before the server answered {status}")));
        }
        Err(error) => return Err(ApiError::Doubtful(error.to_string())),
    };
    if envelope.ok {
        return serde_json::from_value(envelope.result)
            .map_err(|error| ApiError::Doubtful(format!("the result is not what the Bot API promises ({error})")));
    }
    let code = envelope.error_code.unwrap_or(status);
    if code == 503 {
        return Err(ApiError::NotSent(format!("the server answered {code}: {}", envelope.description)));
    }
    if code >= 500 {
        return Err(ApiError::Doubtful(format!("the server answered {code}: {}", envelope.description)));
    }
    if envelope.description.is_empty() && code != 429 {
        // The server always says why; without that nobody knows whose no it is.
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

/// The key of an address, and the host that it names.
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
    /// First and last name.
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
    /// What a group becomes.
    pub fn supergroup(id: i64) -> Self {
        Self { id, kind: "supergroup".to_owned(), title: None, first_name: None, is_forum: false }
    }
}

/// <https://core.telegram.org/bots/api#messageentity>
#[derive(Clone, Debug, Deserialize)]
pub struct Entity {
    #[serde(rename = "type")]
    pub kind: String,
    /// In UTF-16 units.
    pub offset: usize,
    /// In UTF-16 units.
    pub length: usize,
    #[serde(default)]
    pub user: Option<User>,
    /// The address behind the words, for `text_link`.
    #[serde(default)]
    pub url: Option<String>,
}

/// Any kind of file.
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
    /// Of a sticker: whether it is one of Telegram's own animations.
    #[serde(default)]
    pub is_animated: bool,
    /// Of a sticker: whether it is a film.
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

/// An object of which only the text is read: an option of a poll, a task of a checklist.
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

/// The origin of a forwarded message; its kinds share one shape here. <https://core.telegram.org/bots/api#messageorigin>
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
    /// A post of a channel, as it shows in the group that discusses it.
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

/// A message that the server just made; only its id and its time are of use.
#[derive(Debug, Deserialize)]
pub struct Sent {
    pub message_id: i64,
    /// In seconds since the Unix epoch, by the clock that events have their times from; 0 where it is not told.
    #[serde(default)]
    pub date: i64,
}

/// <https://core.telegram.org/bots/api#forumtopic>
#[derive(Debug, Deserialize)]
pub struct Topic {
    pub message_thread_id: i64,
}
