//! Facts in the payload of a delivery.

use serde_json::Value;

use crate::objects::BotIdentity;
use crate::timestamp::is_ts;

/// Returns the workspaces to which a delivery may belong, the likeliest first. In a channel shared with
/// another company, a message of that company carries its id at the top level, and ours in `authorizations`.
/// <https://docs.slack.dev/apis/events-api/#callback-field>
pub(crate) fn teams(payload: &Value) -> Vec<&str> {
    let authorized = payload["authorizations"].as_array().into_iter().flatten().map(|one| &one["team_id"]);
    let named = [&payload["context_team_id"]].into_iter().chain(authorized);
    named
        .chain([&payload["team_id"], &payload["team"]["id"], &payload["user"]["team_id"]])
        .filter_map(Value::as_str)
        .collect()
}

/// Returns the texts of an event.
pub(crate) fn texts(payload: &Value) -> Vec<&str> {
    let event = &payload["event"];
    [&event["text"], &event["message"]["text"]].into_iter().filter_map(Value::as_str).collect()
}

/// Returns whether an event's text mentions a user.
pub(crate) fn mentions(payload: &Value, user: &str) -> bool {
    let marks = [format!("<@{user}>"), format!("<@{user}|")];
    texts(payload).into_iter().any(|text| marks.iter().any(|mark| text.contains(mark)))
}

/// Returns the thread of an event, or the thread that its message would start.
pub(crate) fn thread_root(payload: &Value) -> &str {
    let (event, inner) = (&payload["event"], &payload["event"]["message"]);
    [&inner["thread_ts"], &event["thread_ts"], &inner["ts"], &event["ts"]]
        .into_iter()
        .find_map(Value::as_str)
        .unwrap_or_default()
}

/// Returns whether this user or bot wrote the message of an event.
pub(crate) fn is_from(payload: &Value, me: &BotIdentity) -> bool {
    let event = &payload["event"];
    let is_from = |message: &Value| {
        message["user"] == me.user_id.as_str() || (!me.bot_id.is_empty() && message["bot_id"] == me.bot_id.as_str())
    };
    [event, &event["message"], &event["previous_message"]].into_iter().any(is_from)
}

/// Returns the channel of a payload. Deliveries of one channel are processed in order.
pub(crate) fn channel(payload: &Value) -> &str {
    let event = &payload["event"];
    [&event["channel"], &payload["channel_id"], &payload["channel"]["id"], &payload["container"]["channel_id"]]
        .into_iter()
        .find_map(Value::as_str)
        .unwrap_or_default()
}

/// Returns the time of a payload's event, in microseconds since the Unix epoch; a slash command has none.
pub(crate) fn event_us(payload: &Value) -> Option<i64> {
    let event = &payload["event"];
    let ts =
        [&event["event_ts"], &event["ts"], &payload["actions"][0]["action_ts"]].into_iter().find_map(Value::as_str)?;
    let (seconds, fraction) = ts.split_once('.').filter(|_| is_ts(ts))?;
    let micros: i64 = format!("{fraction:0<6}").get(..6)?.parse().ok()?;
    seconds.parse::<i64>().ok()?.checked_mul(1_000_000)?.checked_add(micros)
}
