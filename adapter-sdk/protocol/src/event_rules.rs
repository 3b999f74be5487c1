//! The rules that every host applies to an event.

use std::io::{self, Write};

use serde_json::Value;

use crate::{CallError, Event, EventKind};

/// The maximum length of an event id, in bytes.
pub const EVENT_ID_BYTES_MAX: usize = 512;

/// The maximum size of an event's `raw` as JSON, in bytes.
pub const EVENT_RAW_BYTES_MAX: usize = 64 << 10;

impl Event {
    /// Checks the rules that every host applies before it authorizes the sender. The host and the test host reply
    /// to `emit` with the returned error.
    ///
    /// # Errors
    ///
    /// `invalid`, with a message for the adapter's author.
    pub fn judge(&self) -> Result<(), CallError> {
        if self.event_id.is_empty() || self.event_id.len() > EVENT_ID_BYTES_MAX {
            return invalid(format!(
                "event_id must have 1 to {EVENT_ID_BYTES_MAX} bytes, but has {}",
                self.event_id.len()
            ));
        }
        if self.chat.id.is_empty() {
            return invalid("chat.id is empty; set it to the stable id of the chat on the platform".to_owned());
        }
        if self.kind == EventKind::Choice && self.choice.as_ref().is_none_or(|made| made.ask.is_empty()) {
            return invalid(
                "an event of kind `choice` requires `choice`, which names the answered question".to_owned(),
            );
        }
        Ok(())
    }

    /// Checks every rule, as the test host does. The real host does not apply the additional rules, because a
    /// message must not be lost for a field that the host can do without: it treats a negative `at_ms` as unknown
    /// and accepts a longer `raw`.
    ///
    /// # Errors
    ///
    /// As [`Event::judge`], and `too_large`.
    pub fn judge_by_every_rule(&self) -> Result<(), CallError> {
        self.judge()?;
        if self.at_ms < 0 {
            return invalid(format!(
                "at_ms is {}; use milliseconds since 1970, or 0 if the time is unknown",
                self.at_ms
            ));
        }
        if !fits(&self.raw) {
            let why = format!("raw exceeds {EVENT_RAW_BYTES_MAX} bytes of JSON; omit it");
            return Err(CallError::new("too_large", why));
        }
        Ok(())
    }
}

fn invalid(why: String) -> Result<(), CallError> {
    Err(CallError::new("invalid", why))
}

/// Returns whether the value is within the size limit of `raw`.
fn fits(raw: &Value) -> bool {
    serde_json::to_writer(Room(EVENT_RAW_BYTES_MAX), raw).is_ok()
}

/// A writer that counts bytes and fails at the limit.
struct Room(usize);

impl Write for Room {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::WriteZero)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Chat, ChoiceMade, Sender};

    fn code(change: impl FnOnce(&mut Event)) -> Result<(), String> {
        let mut event = Event::message("m:1", Chat::dm("1"), Sender::new("1"), "hello").at_ms(1);
        change(&mut event);
        event.judge_by_every_rule().map_err(|error| error.code)
    }

    #[test]
    fn what_no_host_takes_is_told_apart_from_what_every_host_takes() {
        assert_eq!(code(|_| {}), Ok(()));
        assert_eq!(code(|event| event.at_ms = 0), Ok(()), "nobody knows when");
        assert_eq!(code(|event| event.event_id = "x".repeat(EVENT_ID_BYTES_MAX)), Ok(()));
        let invalid = Err("invalid".to_owned());
        assert_eq!(code(|event| event.event_id.clear()), invalid);
        assert_eq!(code(|event| event.event_id = "x".repeat(EVENT_ID_BYTES_MAX + 1)), invalid);
        assert_eq!(code(|event| event.chat.id.clear()), invalid);
        assert_eq!(code(|event| event.at_ms = -5), invalid);
        assert_eq!(code(|event| event.kind = EventKind::Choice), invalid);
        let pressed = |event: &mut Event| {
            event.kind = EventKind::Choice;
            event.choice = Some(ChoiceMade::new("ask", "yes"));
        };
        assert_eq!(code(pressed), Ok(()));
    }

    #[test]
    fn raw_fits_to_the_byte() {
        let of = |bytes: usize| Value::String("x".repeat(bytes - 2));
        assert_eq!(code(|event| event.raw = of(EVENT_RAW_BYTES_MAX)), Ok(()));
        assert_eq!(code(|event| event.raw = of(EVENT_RAW_BYTES_MAX + 1)), Err("too_large".to_owned()));
    }

    #[test]
    fn what_a_host_can_do_without_costs_nobody_a_message() {
        let mut event = Event::message("m:1", Chat::dm("1"), Sender::new("1"), "hello").at_ms(-5);
        event.raw = Value::String("x".repeat(EVENT_RAW_BYTES_MAX));
        assert_eq!(event.judge(), Ok(()));
    }
}
