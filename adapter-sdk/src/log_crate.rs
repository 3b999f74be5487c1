//! A bridge from the `log` crate to the host's log.
//!
//! The `log` crate has one logger per library. This logger finds the instance by the
//! current thread, so two instances of one library keep their logs separate, as with
//! `tracing`. Records from threads without an instance are dropped, and so are all traces:
//! client crates write the transferred data there, including tokens.

use std::sync::Once;

use log::{LevelFilter, Log, Metadata, Record};
use serde_json::json;

use crate::logs;

static BY_THREAD: ByThread = ByThread;

/// Installs the library's logger. A logger that the author installed earlier stays.
pub(crate) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if log::set_logger(&BY_THREAD).is_ok() {
            // Below this level each instance's host filters record by record.
            log::set_max_level(LevelFilter::Debug);
        }
    });
}

struct ByThread;

impl Log for ByThread {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        logs::current().is_some_and(|host| metadata.level() as u8 <= host.max_level())
    }

    fn log(&self, record: &Record<'_>) {
        let Some(host) = logs::current() else { return };
        // Both count from 1 for an error to 5 for a trace.
        let level = record.level() as u8;
        if level <= (LevelFilter::Debug as u8).min(host.max_level()) {
            let fields = json!({ "message": logs::cut(record.args().to_string()) });
            host.log(level, record.target(), &fields.to_string());
        }
    }

    fn flush(&self) {}
}
