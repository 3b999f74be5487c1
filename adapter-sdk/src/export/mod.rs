//! The adapter's side of the binary contract; the only `unsafe` of the SDK.
//!
//! Invariants:
//!
//! * `Instance.this` is a `Box<Seat<A>>` of this library, made by `create` and given
//!   back by a `destroy` that returned 0. Until then it may be used from any thread;
//! * a `HostHandle` is valid until its `release`, which is called exactly once, when
//!   the last [`HostSide`] is dropped; `create` takes it over even when it fails;
//! * a `Completion` is fired exactly once, by [`Answer`];
//! * every `extern "C"` function runs its body inside a panic barrier and has a fixed
//!   answer for a panic.
//!
//! Everything behind the pointers is safe code: `instance`, `dispatch`, `logs`.

mod answer;
mod host_side;
#[cfg(feature = "testing")]
mod mock;
mod vtable;

pub use abi_stable::library::LibHeader;
pub(crate) use answer::Answer;
pub(crate) use host_side::HostSide;
#[cfg(feature = "testing")]
pub(crate) use mock::{Loaded, MockPort, check_config, config_schema, create, manifest};
pub use vtable::lib_header;
