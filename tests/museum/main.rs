//! The museum: what was built against one SDK runs with another, or is refused by name.
//!
//! Which test covers which cell of the compatibility matrix stands in `README.md`.

#![forbid(unsafe_code)]

mod bounds;
mod golden;
mod library;
mod lives;
mod refusals;
mod sources;
mod strangers;
mod tomorrow;
