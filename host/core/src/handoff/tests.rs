use proptest::prelude::*;

use super::*;

const EPOCHS: [Epoch; 2] = [Epoch(1), Epoch(2)];

fn states() -> Vec<HandoffState> {
    let mut all = vec![HandoffState::None, HandoffState::Completed, HandoffState::failed("somehow")];
    all.extend((0..=CLAIMS_MAX).map(|attempts| HandoffState::Pending { attempts }));
    for epoch in EPOCHS {
        all.extend((1..=CLAIMS_MAX).map(|attempt| HandoffState::Running { epoch, attempt }));
    }
    all
}

fn changes() -> Vec<HandoffChange> {
    let mut all = vec![
        HandoffChange::Requested,
        HandoffChange::ClaimerDied,
        HandoffChange::Withdrawn,
        HandoffChange::Delivered,
        HandoffChange::Unconfirmed,
        HandoffChange::TimedOut,
        HandoffChange::Refused { why: "no".to_owned() },
    ];
    all.extend(EPOCHS.map(|epoch| HandoffChange::Claimed { epoch }));
    all.extend(EPOCHS.map(|epoch| HandoffChange::ThreadMade { epoch }));
    all
}

/// Compares all transitions with the diagram in the module documentation.
#[test]
fn there_are_these_arrows_and_no_others() {
    let mut arrows: Vec<(&str, String, &str)> = Vec::new();
    for state in states() {
        for change in changes() {
            let name = format!("{change:?}");
            let name = name.split([' ', '{']).next().unwrap().to_owned();
            if let Ok(next) = state.clone().after(change) {
                arrows.push((state.word(), name, next.word()));
            }
        }
    }
    arrows.sort();
    arrows.dedup();
    let arrows: Vec<String> = arrows.iter().map(|(from, by, to)| format!("{from} {by} {to}")).collect();
    assert_eq!(
        arrows,
        [
            "completed Requested pending",
            "failed Requested pending",
            "none Requested pending",
            "pending Claimed running",
            "pending ClaimerDied pending",
            "pending Refused failed",
            "pending Withdrawn failed",
            "running ClaimerDied failed",
            "running ClaimerDied pending",
            "running Delivered completed",
            "running Refused failed",
            "running ThreadMade running",
            "running TimedOut failed",
            "running Unconfirmed failed",
        ]
    );
}

#[test]
fn a_claim_of_a_life_that_is_over_is_taken_up_once_more_and_then_fails() {
    let mut state = HandoffState::None.after(HandoffChange::Requested).unwrap();
    for epoch in 1.. {
        let Ok(running) = state.clone().after(HandoffChange::Claimed { epoch: Epoch(epoch) }) else { break };
        assert_eq!(running, HandoffState::Running { epoch: Epoch(epoch), attempt: u32::try_from(epoch).unwrap() });
        state = running.after(HandoffChange::ClaimerDied).unwrap();
    }
    assert_eq!(state, HandoffState::failed(INTERRUPTED_TWICE));
}

#[test]
fn whoever_waits_withdraws_what_nobody_took_up_and_never_what_runs() {
    let pending = HandoffState::Pending { attempts: 0 };
    assert_eq!(pending.after(HandoffChange::Withdrawn), Ok(HandoffState::failed(NOT_TAKEN_UP)));
    let running = HandoffState::Running { epoch: Epoch(1), attempt: 1 };
    assert!(running.after(HandoffChange::Withdrawn).is_err());
}

#[test]
fn only_the_life_that_claimed_it_says_where_it_goes() {
    let running = HandoffState::Running { epoch: Epoch(2), attempt: 1 };
    assert!(running.clone().after(HandoffChange::ThreadMade { epoch: Epoch(1) }).is_err());
    assert_eq!(running.clone().after(HandoffChange::ThreadMade { epoch: Epoch(2) }), Ok(running));
}

proptest! {
    #[test]
    fn whatever_happens_it_never_ends_twice_and_is_never_claimed_more_often_than_it_may(
        picks in proptest::collection::vec(0usize..11, 0..40),
    ) {
        let all = changes();
        let mut state = HandoffState::None;
        for pick in picks {
            let change = all[pick].clone();
            let before = state.clone();
            match state.clone().after(change.clone()) {
                Ok(next) => {
                    let ended = !before.is_live() && before != HandoffState::None;
                    prop_assert!(!ended || change == HandoffChange::Requested, "{before:?} took {change:?}");
                    if let HandoffState::Running { attempt, .. } = next {
                        prop_assert!((1..=CLAIMS_MAX).contains(&attempt));
                    }
                    state = next;
                }
                Err(impossible) => {
                    prop_assert_eq!(*impossible, InvalidHandoffChange { state: before, change });
                }
            }
        }
    }
}
