//! Shared helpers of the test rings.
