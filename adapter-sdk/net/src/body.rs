//! Reads an answer up to a limit.

use reqwest::Response;
use serde::de::DeserializeOwned;

use crate::{NetError, lenient};

/// Why a body is of no use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BodyError {
    /// It is longer than allowed.
    #[error("the answer is longer than {bytes_max} bytes")]
    TooLarge {
        /// The bound.
        bytes_max: u64,
    },
    /// It is not the JSON that was expected. The body is not quoted.
    #[error("the answer is not what the interface promises ({0})")]
    Json(String),
    /// It was cut off.
    #[error(transparent)]
    Net(#[from] NetError),
}

/// Reads the whole body, at most `bytes_max` bytes of it.
///
/// # Errors
///
/// Refuses a longer body as soon as that is known, and says when it was cut off.
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

/// Reads the first `bytes_max` bytes of a body as text and drops the rest; for
/// the words of an error, where half is better than nothing.
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
/// As [`read_bytes`]; also when it is other JSON than `T`, without quoting it.
pub async fn read_json<T: DeserializeOwned>(response: Response, bytes_max: u64) -> Result<T, BodyError> {
    let body = read_bytes(response, bytes_max).await?;
    lenient::from_slice(&body).map_err(|error| BodyError::Json(shape(&error)))
}

/// What is wrong with JSON, without the values it holds.
fn shape(error: &serde_json::Error) -> String {
    let kind = match error.classify() {
        serde_json::error::Category::Data => "other fields than expected",
        serde_json::error::Category::Eof => "it ends too early",
        _ => "no JSON",
    };
    format!("{kind} at line {} column {}", error.line(), error.column())
}
