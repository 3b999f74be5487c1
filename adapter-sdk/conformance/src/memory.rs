//! An in-memory host for an adapter under test. The host stores the adapter's data and answers
//! from it; only media use the disk.

use std::collections::BTreeMap;
use std::path::PathBuf;

use hermes_protocol::{CallError, Event, host_method};
use serde_json::{Value, json};

/// The stored data of an adapter under test.
#[derive(Debug, Default)]
pub struct Memory {
    inbox: BTreeMap<String, i64>,
    kv: BTreeMap<String, String>,
    media: BTreeMap<String, PathBuf>,
    media_dir: Option<PathBuf>,
}

impl Memory {
    /// Sets the folder for media files.
    pub fn set_media_dir(&mut self, dir: PathBuf) {
        self.media_dir = Some(dir);
    }

    /// Returns the value of `key`.
    pub fn kv(&self, key: &str) -> Option<&str> {
        self.kv.get(key).map(String::as_str)
    }

    /// Executes a call and answers as a host does.
    ///
    /// # Errors
    ///
    /// `invalid` for a missing field, `not_found` for media without a file, `refused` for media without a folder,
    /// `not_granted` for a method that this host does not support.
    pub fn answer(&mut self, method: &str, payload: &Value) -> Result<Value, CallError> {
        let text = |key: &str| {
            let value = payload.get(key).and_then(Value::as_str).map(str::to_owned);
            value.ok_or_else(|| CallError::new("invalid", format!("`{method}` needs `{key}`")))
        };
        match method {
            host_method::EMIT => {
                let event = serde_json::from_value::<Event>(payload.clone())
                    .map_err(|error| CallError::new("invalid", format!("the event cannot be parsed: {error}")))?;
                event.judge_by_every_rule()?;
                let event_id = event.event_id;
                if let Some(inbox_id) = self.inbox.get(&event_id) {
                    return Ok(json!({ "duplicate_of": inbox_id }));
                }
                let inbox_id = i64::try_from(self.inbox.len()).unwrap_or(i64::MAX).saturating_add(1);
                self.inbox.insert(event_id, inbox_id);
                Ok(json!({ "inbox_id": inbox_id }))
            }
            host_method::KV_GET => Ok(json!({ "value": self.kv.get(&text("key")?) })),
            host_method::KV_SET => {
                self.kv.insert(text("key")?, text("value")?);
                Ok(json!({}))
            }
            host_method::KV_DELETE => {
                self.kv.remove(&text("key")?);
                Ok(json!({}))
            }
            host_method::MEDIA_CREATE => {
                let dir = self.media_dir.as_ref().ok_or_else(|| {
                    CallError::new("refused", "this test has no media folder; set one with `media_dir`")
                })?;
                let id = format!("media-{}", self.media.len() + 1);
                let path = dir.join(&id);
                self.media.insert(id.clone(), path.clone());
                Ok(json!({ "id": id, "path": path.to_string_lossy() }))
            }
            host_method::MEDIA_COMMIT => {
                let id = text("id")?;
                let file = self.media.get(&id).and_then(|path| std::fs::metadata(path).ok());
                // The reply has no hash, because nothing is compared with it.
                file.map(|file| json!({ "size": file.len() }))
                    .ok_or_else(|| CallError::new("not_found", format!("media `{id}` has no file")))
            }
            host_method::LINK
            | host_method::PROVED
            | host_method::ANNOUNCE
            | host_method::METRIC
            | host_method::LOCK_CREDENTIAL => Ok(json!({})),
            other => Err(CallError::new("not_granted", format!("the test host does not support `{other}`"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use hermes_protocol::{Chat, Sender};

    use super::*;

    #[test]
    fn a_change_is_known_again_and_what_was_kept_is_there_until_it_is_deleted() {
        let mut memory = Memory::default();
        let mut ask = |method, payload: Value| memory.answer(method, &payload).map_err(|error| error.code);
        let event = |id: &str| json!(Event::message(id, Chat::dm("1"), Sender::new("1"), "hello"));
        assert_eq!(ask(host_method::EMIT, event("a")), Ok(json!({ "inbox_id": 1 })));
        assert_eq!(ask(host_method::EMIT, event("b")), Ok(json!({ "inbox_id": 2 })));
        assert_eq!(ask(host_method::EMIT, event("a")), Ok(json!({ "duplicate_of": 1 })));
        assert_eq!(ask(host_method::KV_SET, json!({ "key": "k", "value": "v" })), Ok(json!({})));
        assert_eq!(ask(host_method::KV_GET, json!({ "key": "k" })), Ok(json!({ "value": "v" })));
        assert_eq!(ask(host_method::KV_DELETE, json!({ "key": "k" })), Ok(json!({})));
        assert_eq!(ask(host_method::KV_GET, json!({ "key": "k" })), Ok(json!({ "value": null })));
        let refused = [
            (host_method::EMIT, json!({}), "invalid"),
            (host_method::EMIT, event(""), "invalid"),
            (host_method::MEDIA_CREATE, json!({}), "refused"),
            (host_method::MEDIA_COMMIT, json!({ "id": "media-1" }), "not_found"),
            ("sessions.list", json!({}), "not_granted"),
        ];
        for (method, payload, code) in refused {
            assert_eq!(ask(method, payload), Err(code.to_owned()), "{method}");
        }
    }
}
