//! One JSON object per line, limited in length and time.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::engine::operator::LINE_BYTES_MAX;

/// The reason why no line was read or written.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// The other side ended the connection between two lines.
    #[error("the connection ended")]
    Ended,
    /// The other side ended the connection within a line.
    #[error("the connection ended in the middle of a line")]
    CutOff,
    /// The other side did not answer in time.
    #[error("timed out after {} s", .0.as_secs_f64())]
    Late(Duration),
    /// The line is longer than allowed.
    #[error("a line is longer than {LINE_BYTES_MAX} bytes")]
    TooLong,
    /// The line has other content than expected.
    #[error("a line cannot be read: {0}")]
    Unreadable(String),
    /// The system refused.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// Reads one line within `deadline`.
pub async fn read<T: DeserializeOwned>(
    reader: &mut (impl AsyncBufRead + Unpin),
    deadline: Duration,
) -> Result<T, LineError> {
    let mut line = Vec::new();
    let mut bounded = reader.take(LINE_BYTES_MAX as u64);
    let read = tokio::time::timeout(deadline, bounded.read_until(b'\n', &mut line));
    read.await.map_err(|_| LineError::Late(deadline))??;
    match line.last() {
        None => Err(LineError::Ended),
        Some(b'\n') => serde_json::from_slice(&line).map_err(|error| LineError::Unreadable(error.to_string())),
        Some(_) if line.len() >= LINE_BYTES_MAX => Err(LineError::TooLong),
        Some(_) => Err(LineError::CutOff),
    }
}

/// Writes one line within `deadline`.
pub async fn write<T: Serialize>(
    writer: &mut (impl AsyncWrite + Unpin),
    value: &T,
    deadline: Duration,
) -> Result<(), LineError> {
    let mut line = serde_json::to_vec(value).map_err(|error| LineError::Unreadable(error.to_string()))?;
    line.push(b'\n');
    if line.len() > LINE_BYTES_MAX {
        return Err(LineError::TooLong);
    }
    let written = tokio::time::timeout(deadline, async {
        writer.write_all(&line).await?;
        writer.flush().await
    });
    Ok(written.await.map_err(|_| LineError::Late(deadline))??)
}
