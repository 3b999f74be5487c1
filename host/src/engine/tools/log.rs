//! `logs/tool_calls.log` of the home folder: the tool calls of conversations that log them instead of showing them. Two
//! files at most, the older one `.1`.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use hermes_core::ids::SessionId;

/// Size at which the file is rotated, in bytes.
const FILE_BYTES_MAX: u64 = 8 << 20;

/// The longest line, in characters.
const LINE_CHARS_MAX: usize = 2_000;

/// Logs a tool call without waiting. A failure is reported in the log of the host.
pub fn write(home: &Path, session: &SessionId, now_ms: i64, tool: &str, with: &str) {
    let path = home.join("logs").join("tool_calls.log");
    let at = jiff::Timestamp::from_millisecond(now_ms).unwrap_or_default();
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let line: String = format!("{at} {session} {tool} {with}").chars().map(plain).take(LINE_CHARS_MAX).collect();
    tokio::task::spawn_blocking(move || {
        if let Err(error) = append(&path, &line) {
            tracing::warn!(path = %path.display(), %error, "tool call could not be logged");
        }
    });
}

fn append(path: &PathBuf, line: &str) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    if std::fs::metadata(path).is_ok_and(|file| file.len() >= FILE_BYTES_MAX) {
        std::fs::rename(path, path.with_extension("log.1"))?;
    }
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path)?;
    // One write, so that lines of several turns do not mix.
    file.write_all(format!("{line}\n").as_bytes())
}
