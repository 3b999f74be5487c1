//! From the `log` crate to the host's log.
//!
//! That crate has one logger in a library. This one looks whose thread it is called
//! on, so two instances of one library keep their logs apart, as with `tracing`.
//! What is said on a thread of nobody's goes nowhere, and so does every trace: client
//! crates write there what goes over the wire, and tokens with it.

use std::sync::Once;

use log::{LevelFilter, Log, Metadata, Record};
use serde_json::json;

use crate::logs;

static BY_THREAD: ByThread = ByThread;

/// Becomes the library's logger. One that the author installed before stays.
pub(crate) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if log::set_logger(&BY_THREAD).is_ok() {
            // Up to here each instance's host says what it wants to see, record by record.
            log::set_max_level(LevelFilter::Debug);
        }
    });
}

struct ByThread;

impl Log for ByThread {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        logs::current().is_some_and(|core| metadata.level() as u8 <= core.side().max_level())
    }

    fn log(&self, record: &Record<'_>) {
        let Some(core) = logs::current() else { return };
        // Both count from 1 for an error to 5 for a trace.
        let level = record.level() as u8;
        if level <= (LevelFilter::Debug as u8).min(core.side().max_level()) {
            let fields = json!({ "message": logs::cut(record.args().to_string()) });
            core.side().log(level, record.target(), &fields.to_string());
        }
    }

    fn flush(&self) {}
}
