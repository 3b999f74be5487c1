use proptest::prelude::*;

use super::*;

const EPOCHS: [Epoch; 2] = [Epoch(1), Epoch(2)];

fn states() -> Vec<TaskState> {
    let why = || "somehow".to_owned();
    let mut all = vec![
        TaskState::Completed { result: why() },
        TaskState::GaveUp { why: why() },
        TaskState::GaveUp { why: TRIED_TOO_OFTEN.to_owned() },
        TaskState::Archived,
    ];
    for attempts in 0..=TRIES_MAX {
        all.push(TaskState::Ready { attempts });
        all.push(TaskState::Blocked { attempts, why: why() });
    }
    for attempt in 1..=TRIES_MAX {
        all.extend(EPOCHS.map(|epoch| TaskState::Running { epoch, attempt }));
        all.push(TaskState::Crashed { attempts: attempt });
        all.push(TaskState::TimedOut { attempts: attempt });
    }
    all
}

fn changes() -> Vec<TaskChange> {
    let mut all = vec![
        TaskChange::Noted,
        TaskChange::Blocked { why: "rain".to_owned() },
        TaskChange::Unblocked,
        TaskChange::Completed { result: "done".to_owned() },
        TaskChange::GaveUp { why: "no".to_owned() },
        TaskChange::ClaimerDied,
        TaskChange::TimedOut,
        TaskChange::Archived,
    ];
    all.extend(EPOCHS.map(|epoch| TaskChange::Claimed { epoch }));
    all.extend(EPOCHS.map(|epoch| TaskChange::Resumed { epoch }));
    all
}

/// Compares all transitions with the diagram in the module documentation.
#[test]
fn there_are_these_arrows_and_no_others() {
    let mut arrows = Vec::new();
    for state in states() {
        for change in changes() {
            let name = change.word();
            if let Ok(next) = state.clone().after(change) {
                arrows.push(format!("{} {name} {}", state.word(), next.word()));
            }
        }
    }
    arrows.sort();
    arrows.dedup();
    let expected = [
        "blocked archived archived",
        "blocked completed completed",
        "blocked given up gave_up",
        "blocked unblocked ready",
        "blocked updated blocked",
        "completed archived archived",
        "crashed archived archived",
        "crashed claimed running",
        "crashed completed completed",
        "crashed given up gave_up",
        "gave_up archived archived",
        "ready archived archived",
        "ready blocked blocked",
        "ready claimed running",
        "ready completed completed",
        "ready given up gave_up",
        "ready updated ready",
        "running abandoned by its host crashed",
        "running abandoned by its host gave_up",
        "running blocked blocked",
        "running completed completed",
        "running given up gave_up",
        "running resumed running",
        "running timed out gave_up",
        "running timed out timed_out",
        "running updated running",
        "timed_out archived archived",
        "timed_out claimed running",
        "timed_out completed completed",
        "timed_out given up gave_up",
    ];
    assert_eq!(arrows, expected);
}

#[test]
fn the_last_try_that_comes_to_no_end_gives_a_task_up() {
    let mut state = TaskState::NEW;
    for n in 1..=TRIES_MAX {
        state = state.after(TaskChange::Claimed { epoch: Epoch(i64::from(n)) }).unwrap();
        let end = if n % 2 == 0 { TaskChange::TimedOut } else { TaskChange::ClaimerDied };
        state = state.after(end).unwrap();
        assert_eq!(state.word() == "gave_up", n == TRIES_MAX, "{n}: {state:?}");
    }
    assert_eq!(state.said(), Some(TRIED_TOO_OFTEN));
}

#[test]
fn what_is_put_off_is_no_try_that_failed() {
    let mut state = TaskState::NEW;
    for _ in 0..2 * TRIES_MAX {
        for change in [
            TaskChange::Claimed { epoch: Epoch(1) },
            TaskChange::Blocked { why: "rain".to_owned() },
            TaskChange::Unblocked,
        ] {
            state = state.after(change).unwrap();
        }
    }
    assert_eq!(state, TaskState::NEW);
}

#[test]
fn an_event_has_one_word_and_is_found_by_it() {
    for event in TaskEvent::ALL {
        assert_eq!(TaskEvent::from_word(event.word()), Some(event));
        assert!(event.is_told() || !event.wakes(), "{event:?} wakes and tells nobody");
    }
    assert_eq!(TaskEvent::from_word("done"), None);
}

proptest! {
    #[test]
    fn whatever_happens_nothing_leads_out_of_an_end_and_two_never_hold_one_claim(
        path in prop::collection::vec(0..changes().len(), 0..40)
    ) {
        let mut state = TaskState::NEW;
        for at in path {
            let change = changes()[at].clone();
            let before = state.clone();
            let Ok(next) = state.clone().after(change.clone()) else { continue };
            prop_assert!(before != TaskState::Archived, "{change:?} led out of the archive");
            if !before.is_open() {
                prop_assert_eq!(&next, &TaskState::Archived);
            }
            if matches!(change, TaskChange::Claimed { .. }) {
                prop_assert!(before.epoch().is_none(), "claimed twice");
                prop_assert_eq!(next.attempts(), before.attempts() + 1);
            }
            prop_assert!(next.attempts() <= TRIES_MAX);
            prop_assert_eq!(next.epoch().is_some(), next.word() == "running");
            prop_assert!(next.said().is_none_or(|said| !said.is_empty()));
            state = next;
        }
    }
}

#[test]
fn an_arrow_that_does_not_exist_is_told_in_words_of_people() {
    let given_up = TaskState::GaveUp { why: String::new() };
    let impossible = given_up.after(TaskChange::GaveUp { why: String::new() }).unwrap_err();
    assert_eq!(impossible.to_string(), "a task that is given up cannot be given up");
}
