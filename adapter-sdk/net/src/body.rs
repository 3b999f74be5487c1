//! Reading of response bodies with a limit.

use reqwest::Response;
use serde::de::DeserializeOwned;

use crate::{NetError, lenient};

/// The reason why a body is unusable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BodyError {
    /// The body is longer than allowed.
    #[error("the response exceeds {bytes_max} bytes")]
    TooLarge {
        /// The limit, in bytes.
        bytes_max: u64,
    },
    /// The body is not the expected JSON. The error does not quote it.
    #[error("the response has an unexpected format ({0})")]
    Json(String),
    /// The body is incomplete.
    #[error(transparent)]
    Net(#[from] NetError),
}

/// Reads the whole body, at most `bytes_max` bytes.
///
/// # Errors
///
/// If the body is longer, as soon as that is known, or incomplete.
pub async fn read_bytes(mut response: Response, bytes_max: u64) -> Result<Vec<u8>, BodyError> {
    let too_large = BodyError::TooLarge { bytes_max };
    if response.content_length().is_some_and(|length| length > bytes_max) {
        return Err(too_large);
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(NetError::from)? {
        if (body.len() + chunk.len()) as u64 > bytes_max {
            return Err(too_large);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// Reads the first `bytes_max` bytes of a body as text and drops the rest; for error texts,
/// which are useful even if incomplete.
pub async fn read_start(mut response: Response, bytes_max: usize) -> String {
    let mut body = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        let left = bytes_max - body.len();
        body.extend_from_slice(&chunk[..chunk.len().min(left)]);
        if body.len() == bytes_max {
            break;
        }
    }
    String::from_utf8_lossy(&body).into_owned()
}

/// Reads a JSON body of at most `bytes_max` bytes.
///
/// # Errors
///
/// As [`read_bytes`]; also if the body is not the JSON of a `T`. The error does not quote
/// it.
pub async fn read_json<T: DeserializeOwned>(response: Response, bytes_max: u64) -> Result<T, BodyError> {
    let body = read_bytes(response, bytes_max).await?;
    lenient::from_slice(&body).map_err(|error| BodyError::Json(shape(&error)))
}

/// Describes an error in JSON without the values.
fn shape(error: &serde_json::Error) -> String {
    let kind = match error.classify() {
        serde_json::error::Category::Data => "unexpected fields",
        serde_json::error::Category::Eof => "unexpected end",
        _ => "no JSON",
    };
    format!("{kind} at line {} column {}", error.line(), error.column())
}
