//! The ABI to adapter libraries, the crash handler and the allocator: the only module of the host with unsafe code.
//!
//! The public types of this module are safe to hold and to call in any order, from any thread:
//!
//! * libraries are never unloaded, so every vtable and function pointer taken
//!   from one is valid for the rest of the process;
//! * the host passes out numbers (its handle, its completions) that are looked up in a table: a plugin that uses one
//!   twice or too late finds no entry, where a pointer would be a use after free;
//! * the objects of a plugin are used at most as often as the contract allows: completions once, an instance never
//!   after its `destroy`;
//! * no panic of the host unwinds out of a callback;
//! * the crash handler ([`last_words`]) only records the origin of a crash.
//!
//! Not in this module: the decision if a file may be loaded (see [`crate`]), and panics of a plugin, which its
//! own copy of the SDK has to catch.

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

/// The longest payload that is accepted from the other side, in bytes.
pub const PAYLOAD_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Runs `work` and catches its panic.
fn guarded<T>(fallback: T, work: impl FnOnce() -> T) -> T {
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)) {
        Ok(value) => value,
        Err(payload) => {
            // Dropping the payload of a panic can panic again.
            if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(payload))).is_err() {
                tracing::error!(target: "ffi", "a panic in a host callback left a payload that panics");
            }
            fallback
        }
    }
}
