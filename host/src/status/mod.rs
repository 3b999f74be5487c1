//! What the host shows of itself.

mod words;

pub use words::*;
