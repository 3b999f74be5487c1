use proptest::prelude::*;

use super::*;

fn lost(next_try_ms: i64) -> AdapterChange {
    AdapterChange::Lost { reason: "connection reset".into(), next_try_ms }
}

fn fatal() -> AdapterChange {
    AdapterChange::Fatal { reason: "401".into(), mend: "set a valid token".into() }
}

fn walk(changes: impl IntoIterator<Item = AdapterChange>) -> AdapterState {
    changes.into_iter().fold(AdapterState::Loaded, |state, change| state.after(change).unwrap())
}

#[test]
fn an_adapter_starts_works_and_ends() {
    use AdapterChange::*;
    let mut life = TimedAdapterState::loaded(0);
    let words: Vec<&str> = [Start, Connected, Proved, Drain, lost(9), Ended]
        .into_iter()
        .enumerate()
        .map(|(at, change)| {
            life.apply(change, i64::try_from(at).unwrap()).unwrap();
            life.state.word()
        })
        .collect();
    assert_eq!(words, ["starting", "online", "online", "draining", "draining", "stopped"]);
    assert_eq!(life.since_ms, 5);
}

#[test]
fn only_data_takes_failures_back() {
    use AdapterChange::*;
    let flapping = walk([Start, lost(1), Connected, lost(2), Connected, lost(3)]);
    assert_eq!((flapping.failures(), flapping.next_try_ms()), (3, Some(3)));
    assert_eq!(flapping.clone().after(Proved).unwrap().failures(), 3, "a round trip inside connect is no link");
    let online = flapping.after(Connected).unwrap();
    assert_eq!(online.failures(), 3);
    assert_eq!(online.after(Proved).unwrap().failures(), 0);
}

#[test]
fn a_further_failed_try_does_not_renew_since() {
    let mut life = TimedAdapterState::loaded(0);
    life.apply(AdapterChange::Start, 1).unwrap();
    assert!(life.apply(lost(5), 2).unwrap());
    assert!(!life.apply(lost(9), 6).unwrap());
    assert_eq!((life.since_ms, life.state.next_try_ms(), life.state.reason()), (2, Some(9), Some("connection reset")));
}

#[test]
fn what_needs_a_person_says_what_to_do_and_waits_for_them() {
    use AdapterChange::*;
    let failed = walk([Start, fatal()]);
    assert_eq!((failed.reason(), failed.mend()), (Some("401"), Some("set a valid token")));
    for ignored in [Connected, Proved, lost(1), Ended] {
        assert_eq!(failed.clone().after(ignored).unwrap(), failed);
    }
    assert_eq!(failed.after(Start).unwrap(), AdapterState::Starting { failures: 0, reason: None });
}

#[test]
fn a_duty_that_fails_stands_beside_online() {
    use AdapterChange::*;
    let degraded = walk([Start, Connected, Degrade { duty: "sending".into() }, Proved]);
    assert!(degraded.is_online());
    assert_eq!((degraded.word(), degraded.reason()), ("degraded", Some("sending")));
    assert_eq!(degraded.after(Recovered).unwrap().word(), "online");
}

#[test]
fn what_does_not_end_is_stuck_until_it_does() {
    use AdapterChange::*;
    let stuck = walk([Start, Connected, Drain, Overdue]);
    assert_eq!(stuck.word(), "stuck");
    assert_eq!(stuck.clone().after(Connected).unwrap().word(), "stuck", "its word counts no more");
    assert_eq!(stuck.after(Ended).unwrap().word(), "stopped");
}

#[test]
fn an_impossible_arrow_leaves_the_state() {
    let mut life = TimedAdapterState::loaded(3);
    let impossible = life.apply(AdapterChange::Connected, 9).unwrap_err();
    assert_eq!(impossible.to_string(), "the adapter state starting does not allow Connected");
    assert_eq!(life, TimedAdapterState::loaded(3));
}

fn any_change() -> impl Strategy<Value = AdapterChange> {
    use AdapterChange::*;
    prop_oneof![
        Just(Start),
        Just(Connected),
        Just(Proved),
        Just(Degrade { duty: "typing".into() }),
        Just(Recovered),
        (0i64..9).prop_map(lost),
        Just(fatal()),
        Just(Drain),
        Just(Ended),
        Just(Overdue),
        Just(Pause),
    ]
}

proptest! {
    #[test]
    fn a_life_obeys_its_rules(changes in proptest::collection::vec(any_change(), 0..40)) {
        let mut state = AdapterState::Loaded;
        for change in changes {
            let Ok(next) = state.clone().after(change.clone()) else { continue };
            if state.word() == "failed" && next.word() != "failed" {
                prop_assert!(matches!(change, AdapterChange::Start | AdapterChange::Pause));
            }
            if next.is_online() && !state.is_online() {
                prop_assert_eq!(change.clone(), AdapterChange::Connected);
            }
            if matches!(change, AdapterChange::Lost { .. }) && next.next_try_ms().is_some() {
                prop_assert_eq!(next.failures(), state.failures() + 1);
            }
            let is_another_try = next.word() == "starting" && next.failures() > 0;
            let has_reason = matches!(next.word(), "degraded" | "reconnecting" | "failed" | "stuck") || is_another_try;
            prop_assert_eq!(next.reason().is_some(), has_reason);
            state = next;
        }
    }
}
