//! What a call brings: its payload, its event, and the values in both.

use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use hermes_adapter_net::lenient;
use serde_json::{Map, Value};

use crate::routes::Scheme;
use crate::signature::forms;

/// A call whose signature is good.
pub struct Call<'c> {
    /// The route it came by.
    pub route: &'c str,
    /// What it is about.
    pub event: String,
    /// Its id.
    pub id: String,
    /// What it says.
    pub payload: &'c Value,
    /// Its headers.
    pub headers: &'c HeaderMap,
}

impl Call<'_> {
    /// The value of a field as filters name it: `payload.…`, `event`, `headers.…`; anything else is the payload's.
    pub fn field(&self, field: &str) -> Option<Value> {
        let (first, rest) = field.split_once('.').unwrap_or((field, ""));
        match (first, rest) {
            ("event" | "event_type", "") => Some(Value::String(self.event.clone())),
            ("headers", name) if !name.is_empty() => {
                let value = self.headers.get(name)?.to_str().ok()?;
                Some(Value::String(value.to_owned()))
            }
            // Nobody who adds a key of this name to a payload changes what another key is.
            ("payload", path) => at(self.payload, path).or_else(|| at(self.payload, field)).cloned(),
            _ => at(self.payload, field).cloned(),
        }
    }
}

/// The value at a dotted path; places of lists are numbers.
pub fn at<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.').filter(|part| !part.is_empty()).try_fold(value, |value, part| match value {
        Value::Object(table) => table.get(part),
        Value::Array(items) => items.get(part.parse::<usize>().ok()?),
        _ => None,
    })
}

/// Reads a body: JSON, or a form, in which `payload` may be JSON.
pub fn read(headers: &HeaderMap, body: &[u8]) -> Option<Value> {
    // A payload without a part of it could mean something else.
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
    // So GitHub and Slack send what is JSON in a form.
    if let Some(Value::String(text)) = form.get("payload") {
        match lenient::from_slice::<Value>(text.as_bytes()) {
            Ok(value @ Value::Object(_)) if form.len() == 1 => return Some(value),
            Ok(value @ Value::Object(_)) => drop(form.insert("payload".to_owned(), value)),
            // Of a payload that is broken no value can be read.
            Err(_) if form.len() == 1 || text.trim_start().starts_with(['{', '[']) => return None,
            _ => {}
        }
    }
    (!form.is_empty()).then_some(Value::Object(form))
}

/// What a call is about, by its headers or by its payload. What is signed comes first, where senders say it there.
pub fn event(scheme: Scheme, headers: &HeaderMap, payload: &Value) -> String {
    let header = |name: &str| headers.get(name)?.to_str().ok().map(str::to_owned);
    let field = |name: &str| payload.get(name)?.as_str().map(str::to_owned);
    let in_header =
        || header("x-github-event").or_else(|| header("x-gitlab-event")).or_else(|| forms::event_of(headers));
    let in_payload = || field("event_type").or_else(|| field("type")).or_else(|| field("webhookEvent"));
    let found = match scheme {
        Scheme::Standard | Scheme::V2 => in_payload().or_else(in_header),
        _ => in_header().or_else(in_payload),
    };
    found.unwrap_or_else(|| "unknown".to_owned())
}

#[cfg(test)]
mod tests;
