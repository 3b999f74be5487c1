//! The changes of a request after the endpoint refused it.
//!
//! Endpoints refuse requests because of a single property: a field, the tools, the pictures, the length, or the
//! shape of the messages. The refusal names the property in free text.

use std::sync::atomic::Ordering;

use super::Model;
use super::error::EndpointError;
use super::pictures::Pictures;
use super::request::{OptionalFields, RequestBody};
use super::wire::shape::MessageShape;

/// Changed requests after refusals.
const CHANGES_MAX: u32 = 12;

/// The variant of the next request, as changed by refusals.
pub(super) struct RequestVariant {
    /// True if the reasoning effort is sent.
    pub effort: bool,
    /// Pictures to send.
    pub pictures: Pictures,
    /// Shape of the messages.
    pub shape: MessageShape,
    changes: u32,
    /// True once the alternative address of the endpoint was tried.
    other_address: bool,
}

impl RequestVariant {
    /// Creates the first variant.
    pub(super) fn new(effort: bool, pictures: Pictures, shape: MessageShape) -> Self {
        Self { effort, pictures, shape, changes: 0, other_address: false }
    }

    /// Changes the shape after a refusal that another change did not prevent. Returns false if no shape is left.
    pub(super) fn change_shape(&mut self, refusal: &EndpointError) -> bool {
        match may_reject_messages(refusal).and_then(|message| self.shape.after(message)) {
            Some(shape) => {
                self.shape = shape;
                true
            }
            None => false,
        }
    }
}

impl Model {
    /// Changes the property of the next request to which the refusal refers. Returns false if no other request
    /// may succeed.
    pub(super) fn adapt(
        &self,
        model: &str,
        error: &EndpointError,
        fields: &OptionalFields,
        body: &RequestBody,
        variant: &mut RequestVariant,
    ) -> bool {
        if variant.changes == CHANGES_MAX {
            return false;
        }
        let changed = self.changes_address(error, variant) || self.changes_body(model, error, fields, body, variant);
        variant.changes += u32::from(changed);
        changed
    }

    fn changes_body(
        &self,
        model: &str,
        error: &EndpointError,
        fields: &OptionalFields,
        body: &RequestBody,
        variant: &mut RequestVariant,
    ) -> bool {
        if fields.usage && rejects_stream_options(error) {
            self.accepts_stream_options.store(false, Ordering::Relaxed);
        } else if fields.offer.is_some() && rejects_tools(error) {
            tracing::warn!(model, "model does not support tools; sending requests without tools for a while");
            self.traits.record_tools_refused(model);
        } else if let EndpointError::ContextTooLong { message, .. } = error {
            let room = self.traits.record_too_long(model, body.tokens, message);
            if body.tokens <= room && !variant.pictures.is_empty() {
                variant.pictures = Pictures::default();
            }
            tracing::info!(model, tokens = body.tokens, room, "conversation exceeds the context window of the model");
        } else if fields.effort && rejects_effort(error) {
            // Applies to this model only; another one may accept it.
            tracing::warn!(model, "model does not support reasoning effort; sending requests without it");
            variant.effort = false;
        } else if !variant.pictures.is_empty() && may_reject_pictures(error) {
            // Retry without pictures. Only a refusal that mentions pictures disables them permanently.
            if mentions_pictures(error) {
                tracing::warn!(model, "endpoint does not support images; sending only file names from now on");
                self.sends_pictures.store(false, Ordering::Relaxed);
            }
            variant.pictures = Pictures::default();
        } else if let Some(shape) = may_reject_messages(error).and_then(|message| variant.shape.after(message)) {
            tracing::info!(model, ?shape, "endpoint rejected the message format; retrying with another format");
            variant.shape = shape;
        } else {
            return false;
        }
        true
    }

    /// Switches to the alternative address if the first one does not answer like a chat completion endpoint.
    fn changes_address(&self, error: &EndpointError, variant: &mut RequestVariant) -> bool {
        if !error.suggests_wrong_address() || self.addresses.len() < 2 {
            return false;
        }
        let at = self.address.load(Ordering::Relaxed);
        if variant.other_address {
            // Neither address is correct; the error names the first one.
            self.address.store(0, Ordering::Relaxed);
            return false;
        }
        variant.other_address = true;
        self.address.store(1 - at.min(1), Ordering::Relaxed);
        true
    }
}

/// Returns true if the endpoint refused the request because of `stream_options`.
fn rejects_stream_options(error: &EndpointError) -> bool {
    matches!(error, EndpointError::Refused { status: 400 | 422, message }
        if message.contains("stream_options") || message.contains("include_usage"))
}

/// Returns true if the model refused the request because of the reasoning effort.
fn rejects_effort(error: &EndpointError) -> bool {
    matches!(error, EndpointError::Refused { status: 400 | 422, message }
        if message.contains("reasoning") && !message.contains("reasoning_content"))
}

/// Returns true if a refusal may concern the pictures of the request.
fn may_reject_pictures(error: &EndpointError) -> bool {
    matches!(
        error,
        EndpointError::Refused { status: 400 | 404 | 413 | 415 | 422, .. } | EndpointError::NoSuchAddress { .. }
    )
}

/// Returns the message of a refusal that may concern the messages of the request.
fn may_reject_messages(error: &EndpointError) -> Option<&str> {
    let about_something_else =
        ["api key", "temperature", "max_tokens", "unsupported parameter", "unrecognized", "billing"];
    let template = ["role", "template", "jinja", "alternat", "system"];
    let says = |message: &str, needles: &[&str]| {
        let message = message.to_ascii_lowercase();
        needles.iter().any(|needle| message.contains(needle))
    };
    match error {
        EndpointError::Refused { status: 400 | 422, message } if !says(message, &about_something_else) => Some(message),
        // Local servers fail when the chat template of their model rejects the messages.
        EndpointError::ServerFailed { status: 500, message, .. } if says(message, &template) => Some(message),
        _ => None,
    }
}

/// Returns true if a refusal mentions pictures.
fn mentions_pictures(error: &EndpointError) -> bool {
    let (EndpointError::Refused { message, .. } | EndpointError::NoSuchAddress { message, .. }) = error else {
        return false;
    };
    let message = message.to_ascii_lowercase();
    ["image", "vision", "multimodal"].iter().any(|word| message.contains(word))
}

/// Returns true if the endpoint reports that it or the model does not support tools.
fn rejects_tools(error: &EndpointError) -> bool {
    let message = match error {
        EndpointError::Refused { status: 400 | 422, message }
        | EndpointError::NotFound { message }
        | EndpointError::NoSuchAddress { message, .. }
        | EndpointError::ServerFailed { status: 501, message, .. } => message.to_ascii_lowercase(),
        _ => return false,
    };
    // An error about a single tool or call does not count.
    let message: String = message.chars().filter(|c| !matches!(c, '`' | '"' | '\'')).collect();
    let what = ["tools", "tool use", "tool calls", "tool calling", "tool-calling", "functions", "function calling"];
    let before =
        ["not support ", "n't support ", "that support ", "unsupported parameter: ", "not allow ", "no support for "];
    let behind = [" not supported", " is not supported", " are not supported", " is unsupported", " is not enabled"];
    what.iter().any(|what| {
        before.iter().any(|before| message.contains(&format!("{before}{what}")))
            || behind.iter().any(|behind| message.contains(&format!("{what}{behind}")))
    }) || message.contains("requires --enable-auto-tool-choice")
}
