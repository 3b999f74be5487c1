//! The host's functions for one instance, without pointers.

use hermes_adapter_abi::Status;

/// The callback for the host's answer.
pub(crate) type OnAnswer = Box<dyn FnOnce(Status, Vec<u8>) + Send>;

/// The host's functions for one instance; the handle is released on drop.
pub(crate) trait HostPort: Send + Sync {
    /// Calls `method`; the host runs `on_answer` on one of its threads. Never blocks.
    fn call(&self, method: &str, payload: &[u8], on_answer: OnAnswer);

    /// Writes one log record: level 1 (error) to 5 (trace), fields as a JSON object.
    fn log(&self, level: u8, target: &str, fields: &str);

    /// Returns the most verbose level that the host records, 0 (off) to 5 (trace).
    fn max_level(&self) -> u8;
}
