//! Fields that Slack may send in an unexpected form, without losing the message that contains them.

use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::Value;

/// Parses a list and drops invalid entries, so that they do not affect the others or the message.
pub(crate) fn valid_items<'d, T: DeserializeOwned, D: Deserializer<'d>>(list: D) -> Result<Vec<T>, D::Error> {
    let list = Option::<Vec<Value>>::deserialize(list)?.unwrap_or_default();
    let read = list.into_iter().map(serde_json::from_value);
    Ok(read
        .filter_map(|one| one.map_err(|error| tracing::warn!(%error, "attachments of a message skipped")).ok())
        .collect())
}

/// Parses an optional field; an invalid value becomes the default.
pub(crate) fn or_default<'d, T: DeserializeOwned + Default, D: Deserializer<'d>>(field: D) -> Result<T, D::Error> {
    Ok(serde_json::from_value(Value::deserialize(field)?).unwrap_or_default())
}
