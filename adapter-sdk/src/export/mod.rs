//! The adapter's side of the binary interface; the only `unsafe` code of the SDK.
//!
//! Invariants:
//!
//! * `Instance.this` is a `Box<InstanceHandle<A>>` of this library. `create` makes it, and a
//!   `destroy` that returns 0 frees it. Until then it may be used from any thread.
//! * A `HostHandle` is valid until its `release`, which is called exactly once, when the
//!   last owner of its `HostPort` is dropped. `create` takes ownership of it even on failure.
//! * A `Completion` is fired exactly once, by the `Answer` that owns it.
//! * Every `extern "C"` function runs its body inside a panic barrier and has a fixed
//!   answer for a panic.
//!
//! All code behind the pointers is safe and imports nothing from here: `instance`, `dispatch`, `logs`.

#[cfg(feature = "testing")]
mod mock;
mod pointers;
mod vtable;

pub use abi_stable::library::LibHeader;
#[cfg(feature = "testing")]
pub(crate) use mock::{MockInstance, MockPort, check_config, config_schema, create, manifest};
pub use vtable::lib_header;
