//! The seam to adapter libraries, and the allocator: the only unsafe room of the host.
//!
//! Everything that leaves this module is safe to hold and to call in any order,
//! from any thread:
//!
//! * libraries are never unloaded, so every vtable and function pointer taken
//!   from one is valid for the rest of the process;
//! * what the host hands out (its handle, its completions) are numbers, looked up
//!   in a table: a plugin that uses one twice or too late finds nothing, where a
//!   pointer would be a use after free;
//! * what a plugin hands out is used at most as often as the contract allows:
//!   completions once, an instance never after its `destroy`;
//! * no panic of the host leaves a callback;
//! * the handler of crashes ([`last_words`]) only writes down where one came from.
//!
//! Not here: whether a file may be loaded (see [`crate::plugins`]), and panics of
//! a plugin, which its own copy of the SDK has to catch.

mod callbacks;
mod completion;
mod descriptors;
mod instance;
mod last_words;
mod library;
mod memory;

pub use callbacks::HostPort;
pub use completion::Reply;
pub use descriptors::close_inherited;
pub use instance::ForeignInstance;
pub use last_words::{EXIT as LAST_WORDS_EXIT, keep_last_words};
pub use library::{Library, OpenError};
pub use memory::give_back;

/// The longest payload that is taken from the other side, in bytes.
pub const PAYLOAD_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Runs `work`; a panic in it ends here.
fn guarded<T>(fallback: T, work: impl FnOnce() -> T) -> T {
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)) {
        Ok(value) => value,
        Err(payload) => {
            // Dropping a panic's payload can itself panic.
            if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(payload))).is_err() {
                tracing::error!(target: "ffi", "a panic in a host callback left a payload that panics");
            }
            fallback
        }
    }
}
