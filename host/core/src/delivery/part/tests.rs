use proptest::prelude::*;

use super::*;

fn claim(epoch: i64, attempt: u32) -> PartChange {
    PartChange::Claim { epoch: Epoch(epoch), attempt }
}

fn delivered() -> PartState {
    PartState::Delivered { receipt: Receipt::new(vec!["1".into()], 5) }
}

#[test]
fn a_part_is_claimed_before_it_ends() {
    let state = PartState::Owed.after(claim(1, 1)).unwrap();
    assert_eq!(state.after(PartChange::Settle(delivered())).unwrap(), delivered());
    assert!(PartState::Owed.after(PartChange::Settle(delivered())).is_err(), "nothing arrives that was not sent");
}

#[test]
fn what_a_dead_host_had_claimed_is_doubtful() {
    let state = PartState::Owed.after(claim(1, 1)).unwrap().after(PartChange::ClaimerDied).unwrap();
    assert_eq!(state.word(), "unknown");
    assert_eq!(PartState::Deferred.after(PartChange::ClaimerDied).unwrap(), PartState::Deferred);
}

#[test]
fn what_was_not_sent_may_expire() {
    let gone = PartState::Abandoned { why: "deadline passed".into() };
    assert_eq!(PartState::Deferred.after(PartChange::Settle(gone.clone())).unwrap(), gone);
}

#[test]
fn what_may_be_there_twice_or_comes_late_is_marked() {
    let facts = PartFacts { doubts: 1, deferred: true, ..PartFacts::default() };
    assert_eq!(facts.marks(), ["(possibly repeated)", "(delayed)"]);
    assert!(PartFacts::default().marks().is_empty());
}

#[test]
fn facts_of_an_older_version_are_read() {
    let facts: PartFacts = serde_json::from_str(r#"{"attempts": 3}"#).unwrap();
    assert_eq!(facts, PartFacts { attempts: 3, ..PartFacts::default() });
}

fn any_state() -> impl Strategy<Value = PartState> {
    prop_oneof![
        Just(PartState::Owed),
        (0i64..3, 1u32..4).prop_map(|(epoch, attempt)| PartState::InFlight { epoch: Epoch(epoch), attempt }),
        Just(delivered()),
        Just(PartState::Refused { kind: RefusalKind::Invalid, detail: String::new() }),
        Just(PartState::Unknown { detail: String::new() }),
        Just(PartState::Deferred),
        Just(PartState::Abandoned { why: String::new() }),
    ]
}

proptest! {
    #[test]
    fn nothing_follows_an_end_and_only_a_claim_leads_into_flight(from in any_state(), to in any_state(), by in 0u8..3) {
        let change = match by {
            0 => claim(1, 1),
            1 => PartChange::ClaimerDied,
            _ => PartChange::Settle(to),
        };
        let next = from.clone().after(change.clone());
        prop_assert!(!from.is_settled() || next.is_err());
        if let Ok(next) = next {
            prop_assert_eq!(next.word() == "in_flight", matches!(change, PartChange::Claim { .. }));
        }
    }
}
