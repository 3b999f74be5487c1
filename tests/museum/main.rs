//! The museum: libraries built against one SDK run with another one, or are refused with a precise error.
//!
//! `README.md` lists the test for each cell of the compatibility matrix.

#![forbid(unsafe_code)]

mod bounds;
mod golden;
mod library;
mod lives;
mod refusals;
mod sources;
mod strangers;
mod tomorrow;
