//! Readable descriptions of observed results.

use hermes_protocol::{CallError, Capabilities, ConnectError, SendOutcome, StreamKind};

use crate::Answer;

/// The names of the statuses, by their value.
const STATUSES: [&str; 7] = ["OK", "ERR", "UNSUPPORTED", "BUSY", "PANIC", "DROPPED", "POISONED"];

/// The status of a call in which the instance panicked.
const PANIC: i32 = 4;

/// The status of a call after the instance panicked.
const POISONED: i32 = 6;

/// Describes an answer, with the error's message if it contains one.
pub(crate) fn answer(answer: &Answer) -> String {
    let Some(status) = answer.status else { return "no answer".to_owned() };
    let payload = String::from_utf8_lossy(&answer.payload);
    let word = usize::try_from(status).ok().and_then(|at| STATUSES.get(at));
    let named = word.map_or_else(|| format!("status {status}"), |word| format!("status {status} ({word})"));
    match serde_json::from_slice::<CallError>(&answer.payload) {
        Ok(error) => format!("{named}: {} ({})", error.message, error.code),
        Err(_) if payload.is_empty() => named,
        Err(_) => format!("{named} with {payload}"),
    }
}

/// Returns the adapter's panic message if the answer reports a panic.
pub(crate) fn panic(answered: &Answer) -> Option<String> {
    matches!(answered.status, Some(PANIC | POISONED)).then(|| message(&answered.payload))
}

/// Returns the message of an error, or the payload itself.
pub(crate) fn message(payload: &[u8]) -> String {
    let error = serde_json::from_slice::<CallError>(payload).map(|error| error.message);
    error.unwrap_or_else(|_| String::from_utf8_lossy(payload).into_owned())
}

pub(crate) fn outcome(outcome: &SendOutcome) -> String {
    let (word, detail) = match outcome {
        SendOutcome::Delivered { .. } => ("`delivered`".to_owned(), ""),
        SendOutcome::Refused { kind, detail, .. } => (format!("`refused` as `{}`", kind.as_str()), detail.as_str()),
        SendOutcome::NotSent { retry_after_ms: Some(ms), detail, .. } => {
            (format!("`not_sent` with a retry after {ms} ms"), detail.as_str())
        }
        SendOutcome::NotSent { detail, .. } => ("`not_sent` without a time to retry".to_owned(), detail.as_str()),
        SendOutcome::Unknown { detail, .. } => ("`unknown`".to_owned(), detail.as_str()),
        _ => ("an unknown outcome".to_owned(), ""),
    };
    if detail.is_empty() { word } else { format!("{word}: {detail}") }
}

pub(crate) fn link(error: &ConnectError) -> String {
    match error {
        ConnectError::Fatal { reason, mend } => format!("`fatal` with the reason {reason:?} and the fix {mend:?}"),
        ConnectError::Retry { reason, .. } => format!("`retry`: {reason}"),
        _ => "an unknown error".to_owned(),
    }
}

/// Returns the declared features for which no case exists.
pub fn not_asked(capabilities: &Capabilities) -> Vec<&'static str> {
    let media = &capabilities.media;
    let all = [
        ("edit", capabilities.edit),
        ("delete", capabilities.delete),
        ("typing", capabilities.typing),
        ("reactions", capabilities.reactions),
        ("buttons", capabilities.buttons),
        ("rename_thread", capabilities.rename_thread),
        ("media in", media.inbound && !capabilities.fetch),
        ("media out", media.outbound),
        ("voice", capabilities.voice),
        ("drafts", capabilities.drafts),
        ("commands_menu", capabilities.commands_menu),
        ("render", capabilities.render),
        ("chat_info", capabilities.chat_info),
        ("lookup", capabilities.lookup),
        ("stream: native", capabilities.stream == StreamKind::Native),
    ];
    all.into_iter().filter_map(|(name, declared)| declared.then_some(name)).collect()
}

#[cfg(test)]
mod tests {
    use hermes_protocol::RefusalKind;

    use super::*;

    #[test]
    fn what_was_seen_is_said_in_words() {
        let panicked = Answer::new(4, br#"{"code":"panic","message":"panic in `send`: boom"}"#.to_vec());
        assert_eq!(answer(&panicked), "status 4 (PANIC): panic in `send`: boom (panic)");
        assert_eq!(panic(&panicked).as_deref(), Some("panic in `send`: boom"));
        assert_eq!(answer(&Answer::new(0, b"[]".to_vec())), "status 0 (OK) with []");
        assert_eq!(answer(&Answer::never()), "no answer");
        assert_eq!(outcome(&SendOutcome::refused(RefusalKind::Invalid, "no")), "`refused` as `invalid`: no");
        assert_eq!(link(&ConnectError::retry("down")), "`retry`: down");
    }

    #[test]
    fn what_is_declared_and_not_asked_is_named() {
        let mut capabilities = Capabilities::default();
        assert_eq!(not_asked(&capabilities), [""; 0]);
        (capabilities.edit, capabilities.stream, capabilities.create_handoff_thread) = (true, StreamKind::Native, true);
        assert_eq!(not_asked(&capabilities), ["edit", "stream: native"]);
    }
}
