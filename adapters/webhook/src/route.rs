//! One checked route.

use hermes_adapter_sdk::prelude::*;

use crate::filter::Filter;
use crate::scheme::{Form, Scheme};

/// One checked route.
pub(crate) struct Route {
    pub(crate) name: String,
    /// The secrets; at least one.
    pub(crate) secrets: Vec<String>,
    /// The signature scheme.
    pub(crate) scheme: Scheme,
    /// The form of the signatures if the scheme is [`Scheme::Form`].
    pub(crate) form: Option<Form>,
    /// The accepted events; empty: all.
    pub(crate) events: Vec<String>,
    /// The condition on the payload.
    pub(crate) filter: Option<Filter>,
    /// The template of the prompt.
    pub(crate) prompt: Option<String>,
    /// The destination of the answers.
    pub(crate) deliver: Deliver,
    /// The maximum number of accepted calls per minute.
    pub(crate) rate_per_minute: u32,
    /// The maximum size of a body, in bytes.
    pub(crate) body_bytes_max: usize,
    /// The maximum difference between a signature's time and the local time, in seconds.
    pub(crate) age_s_max: u64,
    /// The time in which the same signed bytes count only once, in seconds.
    pub(crate) replay_s: u64,
    /// False if calls are rejected.
    pub(crate) enabled: bool,
}
