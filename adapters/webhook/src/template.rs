//! The text of an event: the operator's template with values of the payload.
//!
//! The template is parsed once and values are copied into the output, so a value is never interpreted as a
//! template.

use std::borrow::Cow;

use hermes_adapter_sdk::protocol::text::one_line;
use serde_json::Value;

use crate::payload::{Call, at};

/// The maximum length of an event's text, in characters, without the notes about omitted text.
const TEXT_CHARS_MAX: usize = 32_000;

/// The maximum length of an object or a list in a text, in characters.
const VALUE_CHARS_MAX: usize = 2_000;

/// The maximum length of a whole payload in a text, in characters.
const RAW_CHARS_MAX: usize = 4_000;

/// The maximum length of a name between braces, in bytes.
const NAME_BYTES_MAX: usize = 200;

/// Returns the text of a call, from the route's template or, without one, from the payload itself.
pub(crate) fn text(template: Option<&str>, call: &Call<'_>) -> String {
    match template.filter(|template| !template.trim().is_empty()) {
        Some(template) => fill(template, call),
        None => format!(
            "Webhook `{}` received the event `{}`:\n\n{}",
            call.route,
            one_line(&cut(&call.event, VALUE_CHARS_MAX)).replace('`', " "),
            fenced(&whole(call.payload))
        ),
    }
}

fn fill(template: &str, call: &Call<'_>) -> String {
    let mut filled = String::with_capacity(template.len());
    // The operator's own text is never shortened, whatever the length of the values.
    let mut room = TEXT_CHARS_MAX.saturating_sub(template.chars().count());
    let mut rest = template;
    while let Some(begin) = rest.find('{') {
        let (before, from) = rest.split_at(begin);
        filled.push_str(before);
        let name = from[1..].find('}').filter(|end| *end <= NAME_BYTES_MAX).map(|end| &from[1..=end]);
        match name.filter(|name| is_name(name)).and_then(|name| Some((name, value(name, call)?))) {
            Some((name, value)) => {
                let value = cut(&value, room);
                room = room.saturating_sub(value.chars().count());
                filled.push_str(&value);
                rest = &from[name.len() + 2..];
            }
            // A name without a value stays as written.
            None => {
                filled.push('{');
                rest = &from[1..];
            }
        }
    }
    filled.push_str(rest);
    filled
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '@' | '/' | '$'))
}

fn value(name: &str, call: &Call<'_>) -> Option<String> {
    match name {
        "__raw__" => return Some(whole(call.payload)),
        "event_type" => return Some(call.event.clone()),
        "__route__" => return Some(call.route.to_owned()),
        "__id__" => return Some(call.id.clone()),
        _ => {}
    }
    let found = at(call.payload, name).or_else(|| at(call.payload, name.strip_prefix("payload.")?))?;
    Some(match found {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        Value::Bool(_) | Value::Number(_) => found.to_string(),
        Value::Array(_) | Value::Object(_) => cut(&pretty(found), VALUE_CHARS_MAX).into_owned(),
    })
}

fn whole(payload: &Value) -> String {
    cut(&pretty(payload), RAW_CHARS_MAX).into_owned()
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// Returns a text in a code fence longer than any run of backticks in it.
fn fenced(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}json\n{text}\n{fence}")
}

/// Returns at most `chars_max` characters of a text, with a note about omitted characters.
pub(crate) fn cut(text: &str, chars_max: usize) -> Cow<'_, str> {
    match text.char_indices().nth(chars_max) {
        None => text.into(),
        Some((end, _)) => format!("{}… ({} more characters)", &text[..end], text[end..].chars().count()).into(),
    }
}

#[cfg(test)]
mod tests;
