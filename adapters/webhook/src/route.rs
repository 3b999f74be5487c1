//! One checked route.

use hermes_adapter_sdk::prelude::*;

use crate::filter::Filter;
use crate::scheme::{Form, Scheme};

/// One checked route.
pub struct Route {
    pub name: String,
    /// The secrets; at least one.
    pub secrets: Vec<String>,
    /// The signature scheme.
    pub scheme: Scheme,
    /// The form of the signatures if the scheme is [`Scheme::Form`].
    pub form: Option<Form>,
    /// The accepted events; empty: all.
    pub events: Vec<String>,
    /// The condition on the payload.
    pub filter: Option<Filter>,
    /// The template of the prompt.
    pub prompt: Option<String>,
    /// The destination of the answers.
    pub deliver: Deliver,
    /// The maximum number of accepted calls per minute.
    pub rate_per_minute: u32,
    /// The maximum size of a body, in bytes.
    pub body_bytes_max: usize,
    /// The maximum difference between a signature's time and the local time, in seconds.
    pub age_s_max: u64,
    /// The time in which the same signed bytes count only once, in seconds.
    pub replay_s: u64,
    /// False if calls are rejected.
    pub enabled: bool,
}
