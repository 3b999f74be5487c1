//! The effect of an error on an instance.

use hermes_protocol::{CallError, ConnectError};

#[test]
fn a_host_that_cannot_lock_a_credential_for_the_moment_is_asked_again() {
    for code in ["unavailable", "busy", "failed"] {
        let error = ConnectError::not_locked(&CallError::new(code, "the disk is full"), "never said");
        assert_eq!(error, ConnectError::retry("the disk is full"), "{code}");
    }
}

#[test]
fn a_credential_that_somebody_else_holds_needs_a_person() {
    for code in ["credential_in_use", "refused", "invalid", "a_word_of_later"] {
        let error = ConnectError::not_locked(&CallError::new(code, "in use by one"), "stop one");
        assert_eq!(error, ConnectError::fatal("in use by one", "stop one"), "{code}");
    }
}
