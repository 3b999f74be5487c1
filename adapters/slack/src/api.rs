//! The Web API: one function for calls, with typed responses (`objects`) and without policy.
//! <https://docs.slack.dev/apis/web-api/>

use std::path::Path;
use std::time::Duration;

use hermes_adapter_net::{
    ClientError, ClientOptions, NetError,
    body::{self, BodyError},
    client::base_url,
    http_client,
    proxy::ProxySettings,
    reqwest::{
        Body, Client, Error, Response, Url,
        header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap},
    },
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

/// The maximum size of a response, in bytes.
const RESPONSE_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// The timeout of every call.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// The client of the server. The token is an argument of each call, because an app has one
/// for each workspace and one for its sockets.
pub(crate) struct Api {
    client: Client,
    base: String,
    /// The origins that the operator configured. Uploads to other origins require encryption.
    origins: Vec<String>,
    server: String,
}

/// The reason why a call has no result.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum ApiError {
    /// The server rejected the call.
    #[error("{0}")]
    Refused(Rejection),
    /// The request did not reach the server.
    #[error("{0}")]
    NotSent(String),
    /// The call had no effect, for a reason that concerns this message only.
    #[error("{0}")]
    NoEffect(String),
    /// The call may have taken effect.
    #[error("{0}")]
    Unknown(String),
}

/// A rejection by the server.
#[derive(Clone, Debug, Default, thiserror::Error)]
#[error("{code}{}{}", if detail.is_empty() { "" } else { ": " }, detail)]
pub(crate) struct Rejection {
    /// The code in `error`, such as `channel_not_found`.
    pub code: String,
    /// Further details from the server.
    pub detail: String,
    /// The requested wait, in milliseconds.
    pub retry_after_ms: Option<u64>,
}

impl Api {
    /// Creates a client for the server at `base`, the address before the name of a method.
    pub(crate) fn new(
        base: &str,
        files: Option<&str>,
        ca_file: Option<&Path>,
        proxy: &ProxySettings,
    ) -> Result<Self, ClientError> {
        let url = base_url(base)?;
        let mut options = ClientOptions::for_base_url(&url);
        options.proxy = proxy.clone();
        options.ca_file = ca_file.map(Path::to_owned);
        options.total_timeout = None;
        let mut origins = vec![url.origin().ascii_serialization()];
        if let Some(files) = files {
            let files = base_url(files)?;
            options.plain_http &= files.scheme() == "http";
            origins.push(files.origin().ascii_serialization());
        }
        let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
        Ok(Self {
            client: http_client(&options)?,
            base: url.as_str().trim_end_matches('/').to_owned(),
            origins,
            server: format!("{}{port} (`base_url`)", url.host_str().unwrap_or_default()),
        })
    }

    /// Calls a method with form parameters, because some methods do not accept JSON:
    /// <https://docs.slack.dev/apis/web-api/#post-bodies>. A value that is not a string is encoded as
    /// JSON.
    pub(crate) async fn call<T: DeserializeOwned>(
        &self,
        token: &str,
        method: &str,
        parameters: &[(&str, Value)],
    ) -> Result<T, ApiError> {
        let request = self
            .client
            .post(format!("{}/{method}", self.base))
            .timeout(CALL_TIMEOUT)
            .bearer_auth(token)
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded; charset=utf-8")
            .body(form(parameters));
        let response = request.send().await.map_err(|error| self.transport_error(error))?;
        read_response(response).await
    }

    /// Uploads a file of `length` bytes to an address from `files.getUploadURLExternal`. The caller limits the time.
    /// The file is invisible until it is completed.
    pub(crate) async fn upload(&self, address: &str, file: tokio::fs::File, length: u64) -> Result<(), ApiError> {
        let request = self.client.post(self.trusted_url(address)?);
        let request = request.header(CONTENT_LENGTH, length).body(Body::from(file));
        let sent = request.send().await;
        // The upload server is separate, so a failure says nothing about the API server.
        let response = sent.map_err(|error| ApiError::NoEffect(format!("the file: {}", NetError::from(error))))?;
        upload_result(response.status().as_u16())
    }

    /// Answers a slash command at its response address.
    /// <https://docs.slack.dev/interactivity/handling-user-interaction#message_responses>
    pub(crate) async fn respond(&self, address: &str, message: &Value) -> Result<(), ApiError> {
        let request = self.client.post(self.trusted_url(address)?).timeout(CALL_TIMEOUT).json(message);
        let response = request.send().await.map_err(|error| self.transport_error(error))?;
        respond_result(response.status().as_u16(), retry_after_ms(response.headers()))
    }

    /// Returns an address from Slack if it is encrypted, or belongs to a configured origin.
    fn trusted_url(&self, address: &str) -> Result<Url, ApiError> {
        let url = Url::parse(address).map_err(|_| ApiError::NoEffect("Slack sent an invalid address".to_owned()))?;
        if url.scheme() != "https" && !self.origins.contains(&url.origin().ascii_serialization()) {
            return Err(ApiError::NoEffect("Slack sent an unencrypted address".to_owned()));
        }
        Ok(url)
    }

    fn transport_error(&self, error: Error) -> ApiError {
        match NetError::from(error) {
            NetError::NotSent { detail, .. } => {
                ApiError::NotSent(format!("{} cannot be reached: {detail}", self.server))
            }
            error => ApiError::Unknown(format!("{}: {error}", self.server)),
        }
    }
}

/// Runs a call until `until`; a call without a response may have taken effect.
pub(crate) async fn call_by<T>(until: Instant, call: impl Future<Output = Result<T, ApiError>>) -> Result<T, ApiError> {
    let result = timeout_at(until, call).await;
    result.unwrap_or_else(|_| Err(ApiError::Unknown("Slack did not answer in time".to_owned())))
}

/// Returns the result of an upload with this HTTP status.
fn upload_result(status: u16) -> Result<(), ApiError> {
    let detail = format!("the file server responded with status {status}");
    match status {
        200..=299 => Ok(()),
        // Too slow or too many at once: a later attempt may succeed.
        408 | 429 => Err(ApiError::NoEffect(detail)),
        400..=499 => Err(ApiError::Refused(Rejection { code: "file".to_owned(), detail, retry_after_ms: None })),
        _ => Err(ApiError::NoEffect(detail)),
    }
}

/// Returns the result of a slash command's response with this HTTP status.
fn respond_result(status: u16, retry_after_ms: Option<u64>) -> Result<(), ApiError> {
    let detail = format!("the response URL of the command returned status {status}");
    let code = match status {
        200..=299 => return Ok(()),
        429 => "ratelimited",
        400..=499 => "response_url",
        _ => return Err(ApiError::Unknown(detail)),
    };
    Err(ApiError::Refused(Rejection { code: code.to_owned(), detail, retry_after_ms }))
}

fn retry_after_ms(headers: &HeaderMap) -> Option<u64> {
    let wait = hermes_adapter_net::retry_after::from_headers(headers);
    wait.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX))
}

fn form(parameters: &[(&str, Value)]) -> String {
    let mut url = Url::parse("form:").expect("this is an address");
    for (name, value) in parameters {
        let text = match value {
            Value::Null => continue,
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        url.query_pairs_mut().append_pair(name, &text);
    }
    url.query().unwrap_or_default().to_owned()
}

async fn read_response<T: DeserializeOwned>(response: Response) -> Result<T, ApiError> {
    let status = response.status().as_u16();
    let retry_after_ms = retry_after_ms(response.headers());
    let rate_limited =
        || ApiError::Refused(Rejection { code: "ratelimited".to_owned(), detail: String::new(), retry_after_ms });
    let body: Value = match body::read_json(response, RESPONSE_BYTES_MAX).await {
        _ if status == 429 => return Err(rate_limited()),
        // No server processed the request: <https://www.rfc-editor.org/rfc/rfc9110#section-15.6.4>
        Err(_) if status == 503 => {
            let detail = format!("the server responded with status {status}");
            return Err(ApiError::Refused(Rejection {
                code: "service_unavailable".to_owned(),
                detail,
                retry_after_ms,
            }));
        }
        Ok(body) => body,
        Err(error @ BodyError::Json(_)) => {
            return Err(ApiError::Unknown(format!("the server responded with status {status} ({error})")));
        }
        Err(error) => return Err(ApiError::Unknown(error.to_string())),
    };
    if body["ok"] == true {
        return serde_json::from_value(body)
            .map_err(|error| ApiError::Unknown(format!("the response of Slack has an unexpected format ({error})")));
    }
    let Some(code) = body["error"].as_str() else {
        return Err(ApiError::Unknown(format!("the server responded with status {status} without a reason")));
    };
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let messages = body["response_metadata"]["messages"].as_array().into_iter().flatten().filter_map(text);
    let scope = text(&body["needed"]).map(|scope| format!("the scope {scope} is required"));
    let detail = scope.into_iter().chain(messages).take(3).collect::<Vec<_>>().join("; ");
    Err(ApiError::Refused(Rejection { code: code.to_owned(), detail, retry_after_ms }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_form_holds_texts_as_they_are_and_the_rest_as_json() {
        let written =
            form(&[("text", json!("a&b=c d\n<ä>")), ("n", json!(3)), ("none", Value::Null), ("l", json!([1]))]);
        assert_eq!(written, "text=a%26b%3Dc+d%0A%3C%C3%A4%3E&n=3&l=%5B1%5D");
    }

    #[test]
    fn an_upload_that_is_refused_is_final_and_one_that_failed_waits_alone() {
        assert!(upload_result(200).is_ok());
        for status in [400, 403, 413] {
            assert!(matches!(upload_result(status), Err(ApiError::Refused(_))), "{status}");
        }
        for status in [302, 408, 429, 500, 503] {
            assert!(matches!(upload_result(status), Err(ApiError::NoEffect(_))), "{status}");
        }
    }

    #[test]
    fn an_answer_to_a_command_that_comes_too_fast_is_a_wait() {
        assert!(respond_result(200, None).is_ok());
        let Err(ApiError::Refused(refused)) = respond_result(429, Some(3000)) else { panic!("it is a wait") };
        assert_eq!((refused.code.as_str(), refused.retry_after_ms), ("ratelimited", Some(3000)));
        assert!(matches!(respond_result(404, None), Err(ApiError::Refused(refused)) if refused.code == "response_url"));
        assert!(matches!(respond_result(500, None), Err(ApiError::Unknown(_))));
    }
}
