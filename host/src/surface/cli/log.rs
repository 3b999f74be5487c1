//! Log lines on standard error or in a file, by `[host] log` and `log_format`. Every known secret is masked.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;

use tracing_subscriber::fmt::MakeWriter;

use super::Failure;
use hermes_config::mask::{LogMask, Masker};
use hermes_config::{Config, LogFormat, log_filter};

/// Starts logging for the rest of the process. The returned mask can learn more secrets.
pub fn start(config: &Config) -> Result<LogMask, Failure> {
    let ansi = io::stderr().is_terminal();
    begin(config, ansi, Out::Stderr)
}

/// Does the same as [`start`], but writes into a file.
pub fn start_into(config: &Config, file: File) -> Result<LogMask, Failure> {
    begin(config, false, Out::File(Arc::new(file)))
}

fn begin(config: &Config, ansi: bool, out: Out) -> Result<LogMask, Failure> {
    let filter = log_filter(&config.host.log).map_err(|error| Failure::config(format!("host.log: {error}")))?;
    let mask = LogMask::default();
    mask.learn(&config.secrets());
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(Masked(mask.clone(), out));
    let started = match config.host.log_format {
        LogFormat::Json => builder.json().try_init(),
        LogFormat::Text => builder.with_ansi(ansi).with_target(false).try_init(),
    };
    started.map_err(|error| Failure::failed(format!("logging cannot start ({error})")))?;
    Ok(mask)
}

/// The destination of log lines.
#[derive(Clone)]
enum Out {
    Stderr,
    File(Arc<File>),
}

/// Creates writers that mask each line.
struct Masked(LogMask, Out);

impl<'a> MakeWriter<'a> for Masked {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line { masker: self.0.now(), out: self.1.clone(), text: Vec::new() }
    }
}

/// One log line, written when it is dropped, so that a secret in two pieces is masked as a whole.
struct Line {
    masker: Arc<Masker>,
    out: Out,
    text: Vec<u8>,
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let text = String::from_utf8_lossy(&self.text);
        let line = self.masker.mask(text);
        // If the log cannot be written, the error has no other place.
        let _ = match &self.out {
            Out::Stderr => io::stderr().lock().write_all(line.as_bytes()),
            Out::File(file) => (&**file).write_all(line.as_bytes()),
        };
    }
}
