//! What the agent is told of a call: a template of the operator, with values of the payload in it.
//!
//! The template is walked once and values are copied into what has been written, so nothing in a value is ever
//! read as a template.

use std::borrow::Cow;

use serde_json::Value;

use crate::payload::{Call, at};

/// The longest text of an event, in characters, but for the words by which what is missing is told.
const TEXT_CHARS_MAX: usize = 32_000;

/// How much of a table or a list stands in a text.
const VALUE_CHARS_MAX: usize = 2_000;

/// How much of a whole payload stands in a text.
const RAW_CHARS_MAX: usize = 4_000;

/// The longest name between braces.
const NAME_BYTES_MAX: usize = 200;

/// What a call says, by its route's template or, without one, by the payload itself.
pub fn text(template: Option<&str>, call: &Call<'_>) -> String {
    match template.filter(|template| !template.trim().is_empty()) {
        Some(template) => fill(template, call),
        None => format!(
            "Webhook `{}` received the event `{}`:\n\n{}",
            call.route,
            one_line(&cut(&call.event, VALUE_CHARS_MAX)),
            fenced(&whole(call.payload))
        ),
    }
}

fn fill(template: &str, call: &Call<'_>) -> String {
    let mut filled = String::with_capacity(template.len());
    // All that the operator wrote stands there, however long the values are.
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
            // What names nothing stays as it is written.
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

/// A text in a fence that nothing in it can close.
fn fenced(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}json\n{text}\n{fence}")
}

fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || c == '`' { ' ' } else { c }).collect()
}

/// A text of at most so many characters, with a mark where something is missing.
pub fn cut(text: &str, chars_max: usize) -> Cow<'_, str> {
    match text.char_indices().nth(chars_max) {
        None => text.into(),
        Some((end, _)) => format!("{}… ({} characters more)", &text[..end], text[end..].chars().count()).into(),
    }
}

#[cfg(test)]
mod tests;
