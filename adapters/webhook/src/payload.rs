//! The content of a call: its payload, its event, and their values.

use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use hermes_adapter_net::lenient;
use serde_json::{Map, Value};

use crate::scheme::{self, Scheme};

/// A call with a valid signature.
pub(crate) struct Call<'c> {
    /// The name of the route.
    pub(crate) route: &'c str,
    /// The event, such as `pull_request`.
    pub(crate) event: String,
    /// The id of the call.
    pub(crate) id: String,
    /// The parsed body.
    pub(crate) payload: &'c Value,
    /// The headers.
    pub(crate) headers: &'c HeaderMap,
}

impl Call<'_> {
    /// Returns the value of a field in a filter: `payload.…`, `event`, `headers.…`; any
    /// other name is a field of the payload.
    pub(crate) fn field(&self, field: &str) -> Option<Value> {
        let (first, rest) = field.split_once('.').unwrap_or((field, ""));
        match (first, rest) {
            ("event" | "event_type", "") => Some(Value::String(self.event.clone())),
            ("headers", name) if !name.is_empty() => {
                let value = self.headers.get(name)?.to_str().ok()?;
                Some(Value::String(value.to_owned()))
            }
            // The path inside the payload wins, so a payload key named `payload` does not change the other fields.
            ("payload", path) => at(self.payload, path).or_else(|| at(self.payload, field)).cloned(),
            _ => at(self.payload, field).cloned(),
        }
    }
}

/// Returns the value at a dotted path; list indexes are numbers.
pub(crate) fn at<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.').filter(|part| !part.is_empty()).try_fold(value, |value, part| match value {
        Value::Object(table) => table.get(part),
        Value::Array(items) => items.get(part.parse::<usize>().ok()?),
        _ => None,
    })
}

/// Parses a body: JSON, or a form in which `payload` may be JSON.
pub(crate) fn read(headers: &HeaderMap, body: &[u8]) -> Option<Value> {
    // A payload that is cut off at some depth could have another meaning.
    if lenient::is_too_deep(body) {
        return None;
    }
    if let Ok(value) = lenient::from_slice(body) {
        return Some(value);
    }
    let kind = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    if !kind.trim_start().to_ascii_lowercase().starts_with("application/x-www-form-urlencoded") {
        return None;
    }
    let mut form: Map<String, Value> =
        form_urlencoded::parse(body).map(|(key, value)| (key.into_owned(), value.into_owned().into())).collect();
    // GitHub and Slack can send JSON in a form field.
    if let Some(Value::String(text)) = form.get("payload") {
        match lenient::from_slice::<Value>(text.as_bytes()) {
            Ok(value @ Value::Object(_)) if form.len() == 1 => return Some(value),
            Ok(value @ Value::Object(_)) => drop(form.insert("payload".to_owned(), value)),
            // A broken JSON payload has no values.
            Err(_) if form.len() == 1 || text.trim_start().starts_with(['{', '[']) => return None,
            _ => {}
        }
    }
    (!form.is_empty()).then_some(Value::Object(form))
}

/// Returns the event of a call, from its headers or its payload. Signed data comes first, for senders that include it.
pub(crate) fn event(scheme: Scheme, headers: &HeaderMap, payload: &Value) -> String {
    let header = |name: &str| headers.get(name)?.to_str().ok().map(str::to_owned);
    let field = |name: &str| payload.get(name)?.as_str().map(str::to_owned);
    let in_header =
        || header("x-github-event").or_else(|| header("x-gitlab-event")).or_else(|| scheme::event_of_headers(headers));
    let in_payload = || field("event_type").or_else(|| field("type")).or_else(|| field("webhookEvent"));
    let found = match scheme {
        Scheme::Standard | Scheme::V2 => in_payload().or_else(in_header),
        _ => in_header().or_else(in_payload),
    };
    found.unwrap_or_else(|| "unknown".to_owned())
}

#[cfg(test)]
mod tests;
