//! The Bot API: one function for calls, with typed results (`objects`) and without policy.
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
const RESPONSE_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// The timeout of every call except a long poll.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// The minimum transfer rate of files, in bytes per second. A fixed time of ten call timeouts is added.
const BYTES_PER_S_MIN: u64 = 1 << 20;
/// The time by which a long poll may exceed its requested duration.
pub(crate) const POLL_EXTRA_TIME: Duration = Duration::from_secs(10);

/// The client of one bot, cheap to clone. Every address contains the token, so no address is ever shown.
#[derive(Clone)]
pub(crate) struct Api {
    client: Client,
    methods: String,
    files: String,
    /// The servers in error messages: the config key and the host name, never the token.
    server: String,
    file_server: String,
}

/// The reason why a call has no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApiError {
    /// The server rejected the call.
    #[error("{0}")]
    Refused(Rejection),
    /// The request did not reach the server.
    #[error("{0}")]
    NotSent(String),
    /// The content cannot be sent; the request did not reach the server.
    #[error("{0}")]
    Invalid(String),
    /// The response exceeds this number of bytes; the call may have taken effect.
    #[error("the response exceeds {0} bytes")]
    TooLarge(u64),
    /// The call may have taken effect.
    #[error("{0}")]
    Unknown(String),
}

/// A rejection by the server.
#[derive(Debug, thiserror::Error)]
#[error("{description}")]
pub(crate) struct Rejection {
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
    pub(crate) fn new(
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
        let server = server_name("base_url", &base);
        let base = base.as_str().trim_end_matches('/').to_owned();
        let (files, file_server) = match files {
            Some(files) => {
                let files = base_url(files)?;
                // Without any encrypted connection no certificate is needed.
                options.plain_http &= files.scheme() == "http";
                (files.as_str().trim_end_matches('/').to_owned(), server_name("file_url", &files))
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
    pub(crate) async fn call<T: DeserializeOwned>(
        &self,
        method: &str,
        parameters: &impl Serialize,
    ) -> Result<T, ApiError> {
        self.call_within(method, parameters, CALL_TIMEOUT).await
    }

    /// Calls a method with the timeout `deadline`.
    pub(crate) async fn call_within<T: DeserializeOwned>(
        &self,
        method: &str,
        parameters: &impl Serialize,
        deadline: Duration,
    ) -> Result<T, ApiError> {
        let request = self.client.post(format!("{}/{method}", self.methods)).timeout(deadline).json(parameters);
        read_response(request.send().await, &self.server).await
    }

    /// Calls a method with files, with the timeout `deadline`.
    pub(crate) async fn upload<T: DeserializeOwned>(
        &self,
        method: &str,
        form: Form,
        deadline: Duration,
    ) -> Result<T, ApiError> {
        let address = format!("{}/{method}", self.methods);
        let request = self.client.post(address).timeout(deadline).multipart(form);
        read_response(request.send().await, &self.server).await
    }

    /// Downloads a file named by `getFile`, of at most `bytes_max` bytes, to the path `to`. Returns its size in bytes.
    pub(crate) async fn download(&self, file_path: &str, to: &Path, bytes_max: u64) -> Result<u64, ApiError> {
        let address = format!("{}/{}", self.files, file_path.trim_start_matches('/'));
        let response = self.client.get(address).timeout(transfer_time(bytes_max)).send().await;
        let mut response = response.map_err(|error| transport_error(&self.file_server, error))?;
        if !response.status().is_success() {
            return Err(ApiError::Unknown(format!("the file server responded with status {}", response.status())));
        }
        let write_error = |error: std::io::Error| ApiError::Invalid(format!("the file cannot be saved: {error}"));
        let mut file = tokio::fs::File::create(to).await.map_err(write_error)?;
        let mut size = 0;
        while let Some(chunk) = response.chunk().await.map_err(|error| transport_error(&self.file_server, error))? {
            size += chunk.len() as u64;
            if size > bytes_max {
                return Err(ApiError::Invalid(format!("the file exceeds the limit of {bytes_max} bytes")));
            }
            file.write_all(&chunk).await.map_err(write_error)?;
        }
        file.flush().await.map_err(write_error)?;
        Ok(size)
    }
}

/// Returns the time for sending a message if the host gives none.
pub(crate) fn send_time(bytes: u64) -> Duration {
    if bytes == 0 { CALL_TIMEOUT } else { transfer_time(bytes) }
}

/// Returns the time for a transfer of `bytes` bytes.
fn transfer_time(bytes: u64) -> Duration {
    CALL_TIMEOUT * 10 + Duration::from_secs(bytes / BYTES_PER_S_MIN)
}

async fn read_response<T: DeserializeOwned>(
    response: Result<hermes_adapter_net::reqwest::Response, hermes_adapter_net::reqwest::Error>,
    server: &str,
) -> Result<T, ApiError> {
    let response = response.map_err(|error| transport_error(server, error))?;
    let status = response.status().as_u16();
    let header_wait = hermes_adapter_net::retry_after::from_headers(response.headers());
    let envelope: Envelope = match body::read_json(response, RESPONSE_BYTES_MAX).await {
        Ok(envelope) => envelope,
        // A proxy before the server answers with HTML; only its status is usable.
        Err(BodyError::Json(_)) if status == 429 => Envelope::from_status(status),
        Err(BodyError::TooLarge { bytes_max }) => return Err(ApiError::TooLarge(bytes_max)),
        // No server processed the request: <https://www.rfc-editor.org/rfc/rfc9110#section-15.6.4>
        Err(_) if status == 503 => return Err(ApiError::NotSent(format!("the server answered {status}"))),
        Err(error) if status >= 500 => {
            return Err(ApiError::Unknown(format!("the server answered {status} ({error})")));
        }
        // A proxy before the server rejected the request, so the call had no effect.
        Err(BodyError::Json(_)) if (400..500).contains(&status) => {
            return Err(ApiError::NotSent(format!(
                "the server answered {status}, which is not a Bot API response; check `base_url` and any proxy in front of the server"
            )));
        }
        Err(error) => return Err(ApiError::Unknown(error.to_string())),
    };
    if envelope.ok {
        return serde_json::from_value(envelope.result)
            .map_err(|error| ApiError::Unknown(format!("the result has an unexpected format ({error})")));
    }
    let code = envelope.error_code.unwrap_or(status);
    if code == 503 {
        return Err(ApiError::NotSent(format!("the server answered {code}: {}", envelope.description)));
    }
    if code >= 500 {
        return Err(ApiError::Unknown(format!("the server answered {code}: {}", envelope.description)));
    }
    if envelope.description.is_empty() && code != 429 {
        // The server always gives a reason. Without one the rejection may come from a proxy.
        return Err(ApiError::Unknown(format!("the server answered {code} without a reason")));
    }
    let wait_ms = envelope.parameters.retry_after.map(|seconds| seconds.saturating_mul(1000));
    Err(ApiError::Refused(Rejection {
        code,
        description: envelope.description,
        retry_after_ms: wait_ms.or(header_wait.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX))),
        migrate_to_chat_id: envelope.parameters.migrate_to_chat_id,
    }))
}

/// Returns the host name of an address and its config key, for error messages.
fn server_name(key: &str, url: &Url) -> String {
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{} (`{key}`)", url.host_str().unwrap_or_default().to_owned() + &port)
}

fn transport_error(server: &str, error: hermes_adapter_net::reqwest::Error) -> ApiError {
    match NetError::from(error) {
        NetError::NotSent { detail, .. } => ApiError::NotSent(format!("{server} cannot be reached: {detail}")),
        error => ApiError::Unknown(format!("{server}: {error}")),
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
    fn from_status(code: u16) -> Self {
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
