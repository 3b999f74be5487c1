//! The length limits of adapter text that the host keeps.
//!
//! Reasons, announcements and receipts are kept in `status`, the log and the store. The limits keep all three usable if
//! an adapter sends too much.

use hermes_core::adapter::AdapterChange;
use hermes_core::limits::WAIT_TOLD_MS_MAX;
use hermes_protocol::SendOutcome;

use hermes_core::text::one_line;

/// The longest reason or detail, in characters.
const WORDS_CHARS_MAX: usize = 2_000;
/// The longest label, address or counter name, in bytes. A longer one is dropped, because a shortened address is
/// useless.
const NAME_BYTES_MAX: usize = 1_024;
/// The longest id of a chat or a message, in bytes.
const ID_BYTES_MAX: usize = 512;
/// Messages that one part may become.
const RECEIPT_IDS_MAX: usize = 64;

/// Shortens a reason or detail to one line.
pub(super) fn words(text: &str) -> String {
    one_line(text, WORDS_CHARS_MAX)
}

/// Joins a reason and its fix into one line.
pub(super) fn with_mend(reason: &str, mend: &str) -> String {
    match mend {
        "" => reason.to_owned(),
        mend => format!("{reason}; {mend}"),
    }
}

/// Returns `true` if a text that may not be shortened is short enough to be kept.
pub(super) fn is_name(text: &str) -> bool {
    text.len() <= NAME_BYTES_MAX
}

/// Shortens the reasons of a state change.
pub(super) fn change(change: AdapterChange) -> AdapterChange {
    match change {
        AdapterChange::Degrade { duty } => AdapterChange::Degrade { duty: words(&duty) },
        AdapterChange::Lost { reason, next_try_ms } => AdapterChange::Lost { reason: words(&reason), next_try_ms },
        AdapterChange::Fatal { reason, mend } => AdapterChange::Fatal { reason: words(&reason), mend: words(&mend) },
        other => other,
    }
}

/// Shortens the details of an outcome, drops ids that are too long, and limits the requested wait.
pub(super) fn outcome(outcome: SendOutcome) -> SendOutcome {
    let is_id = |id: &String| id.len() <= ID_BYTES_MAX;
    match outcome {
        SendOutcome::Delivered { mut receipt } => {
            receipt.message_ids.retain(is_id);
            receipt.message_ids.truncate(RECEIPT_IDS_MAX);
            SendOutcome::Delivered { receipt }
        }
        SendOutcome::Refused { kind, detail, migrated_to } => {
            SendOutcome::Refused { kind, detail: words(&detail), migrated_to: migrated_to.filter(is_id) }
        }
        SendOutcome::NotSent { retry_after_ms, scope, detail } => {
            let retry_after_ms = retry_after_ms.map(|wait| wait.min(WAIT_TOLD_MS_MAX.unsigned_abs()));
            SendOutcome::NotSent { retry_after_ms, scope, detail: words(&detail) }
        }
        SendOutcome::Unknown { detail, keyless } => SendOutcome::Unknown { detail: words(&detail), keyless },
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use hermes_protocol::{Receipt, RefusalKind};

    use super::*;

    #[test]
    fn what_is_kept_of_an_outcome_is_short_and_on_one_line() {
        let long = "\u{1b}[31mno\n".repeat(100_000);
        let kept = outcome(SendOutcome::Refused {
            kind: RefusalKind::Migrated,
            detail: long.clone(),
            migrated_to: Some(long.clone()),
        });
        let SendOutcome::Refused { detail, migrated_to, .. } = kept else { panic!("{kept:?}") };
        assert!(detail.chars().count() <= WORDS_CHARS_MAX && !detail.contains(['\n', '\u{1b}']), "{detail}");
        assert_eq!(migrated_to, None);
        let ids = [vec![long], (0..1_000).map(|n| n.to_string()).collect()].concat();
        let SendOutcome::Delivered { receipt } = outcome(SendOutcome::Delivered { receipt: Receipt::new(ids, 5) })
        else {
            panic!("what was delivered stays delivered");
        };
        assert_eq!(
            (receipt.message_ids.len(), receipt.message_ids[0].as_str(), receipt.at_ms),
            (RECEIPT_IDS_MAX, "0", 5)
        );
    }

    #[test]
    fn what_is_short_is_kept_as_it_is() {
        let delivered = SendOutcome::delivered("m:1", 7);
        assert_eq!(outcome(delivered.clone()), delivered);
        let fatal = AdapterChange::Fatal { reason: "no token".to_owned(), mend: "write one".to_owned() };
        assert_eq!(change(fatal.clone()), fatal);
    }

    #[test]
    fn a_reason_without_end_leaves_room_in_status() {
        let long = "R".repeat(3_000_000);
        let AdapterChange::Lost { reason, .. } = change(AdapterChange::Lost { reason: long, next_try_ms: 1 }) else {
            panic!("a change stays what it is");
        };
        assert_eq!(reason.chars().count(), WORDS_CHARS_MAX);
    }
}
