use hermes_protocol::Receipt;
use proptest::prelude::*;

use super::*;
use crate::delivery::PartChange;
use crate::ids::Epoch;

const DEADLINE: i64 = 86_400_000;

fn after_facts(outcome: &SendOutcome, facts: &PartFacts, class: &Class, now_ms: i64) -> Step {
    next_step(outcome, facts, class, &RetryPolicy::default(), now_ms, DEADLINE, 0)
}

fn first(outcome: &SendOutcome, class: &Class) -> Step {
    after_facts(outcome, &tried(1), class, 0)
}

fn tried(attempts: u32) -> PartFacts {
    PartFacts { attempts, ..PartFacts::default() }
}

fn doubt() -> SendOutcome {
    SendOutcome::unknown("timeout")
}

fn refused(kind: RefusalKind) -> SendOutcome {
    SendOutcome::refused(kind, "no")
}

fn not_sent(retry_after_ms: Option<u64>, scope: WaitScope) -> SendOutcome {
    SendOutcome::not_sent(retry_after_ms, scope, "503")
}

#[test]
fn a_receipt_ends_it() {
    let receipt = Receipt::new(vec!["9".into()], 4);
    let outcome = SendOutcome::Delivered { receipt: receipt.clone() };
    assert_eq!(first(&outcome, &Class::AtLeastOnce), Step::Settle(PartState::Delivered { receipt }));
}

#[test]
fn each_refusal_has_its_answer_and_then_is_final() {
    let everything_tried = PartFacts { plain: true, resplit: true, thread_dropped: true, rewritten: true, ..tried(2) };
    for (outcome, step) in [
        (refused(RefusalKind::TooLong), Step::Resplit),
        (refused(RefusalKind::BadFormat), Step::ResendPlain),
        (refused(RefusalKind::ThreadGone), Step::DropThread),
        (SendOutcome::migrated("-100"), Step::Rewrite { to: "-100".into() }),
    ] {
        assert_eq!(first(&outcome, &Class::AtLeastOnce), step);
        assert!(matches!(
            after_facts(&outcome, &everything_tried, &Class::AtLeastOnce, 0),
            Step::Settle(PartState::Refused { .. })
        ));
        assert_ne!(step.note(&tried(1), 0), tried(1), "the row remembers that it was tried");
    }
    for kind in [RefusalKind::Forbidden, RefusalKind::ChatGone, RefusalKind::Invalid, RefusalKind::from("later")] {
        let settled = Step::Settle(PartState::Refused { kind: kind.clone(), detail: "no".into() });
        assert_eq!(first(&refused(kind), &Class::AtLeastOnce), settled);
    }
}

#[test]
fn a_move_to_nowhere_is_final() {
    assert!(matches!(first(&refused(RefusalKind::Migrated), &Class::AtLeastOnce), Step::Settle(_)));
    assert!(matches!(first(&SendOutcome::migrated(""), &Class::AtLeastOnce), Step::Settle(_)));
}

#[test]
fn only_what_concerns_the_chat_makes_it_a_dead_target() {
    assert!(kills_target(&RefusalKind::Forbidden) && kills_target(&RefusalKind::ChatGone));
    assert!(!kills_target(&RefusalKind::ThreadGone) && !kills_target(&RefusalKind::Unauthorized));
}

#[test]
fn a_credential_that_is_not_accepted_degrades_the_adapter_until_the_deadline() {
    let outcome = refused(RefusalKind::Unauthorized);
    assert_eq!(first(&outcome, &Class::AtLeastOnce), Step::Degrade { not_before_ms: 500 });
    let later = after_facts(&outcome, &tried(20), &Class::AtLeastOnce, 0);
    assert_eq!(later, Step::Degrade { not_before_ms: 150_000 }, "a credential that stays bad is tried rarely");
    let last = after_facts(&outcome, &tried(9), &Class::AtLeastOnce, DEADLINE);
    assert!(matches!(last, Step::Settle(PartState::Refused { kind: RefusalKind::Unauthorized, .. })));
}

#[test]
fn a_doubt_of_an_at_least_once_adapter_is_repeated_once_marked_and_then_given_up() {
    let step = first(&doubt(), &Class::AtLeastOnce);
    assert!(matches!(step, Step::RepeatMarked { not_before_ms: 4_000 }));
    let facts = step.note(&tried(1), 0);
    assert_eq!(facts.marks(), ["(possibly repeated)"]);
    assert_eq!(after_facts(&doubt(), &facts, &Class::AtLeastOnce, 1), Step::Abandon("doubtful twice"));
    assert_eq!(first(&doubt(), &Class::from("later")), step, "an unknown class promises the least");
    assert_eq!(first(&SendOutcome::Unrecognised, &Class::AtLeastOnce), step);
}

/// Returns the waits of the repeats after attempts that the host or the adapter process interrupted, and the
/// reason of the abandonment.
fn interrupted(class: &Class, mut facts: PartFacts) -> (Vec<i64>, &'static str) {
    let mut waits = Vec::new();
    loop {
        facts.attempts += 1;
        facts.cut_off(false);
        match after_facts(&doubt(), &facts, class, 0) {
            Step::Abandon(why) => return (waits, why),
            step @ Step::RepeatMarked { not_before_ms } => {
                waits.push(not_before_ms);
                facts = step.note(&facts, 0);
                assert_eq!(
                    (facts.marks().as_slice(), facts.alone, facts.ours),
                    (&["(possibly repeated)"][..], true, false)
                );
            }
            step => panic!("{step:?}"),
        }
    }
}

#[test]
fn a_doubt_of_our_own_side_is_repeated_five_times_with_growing_waits() {
    let (waits, why) = interrupted(&Class::AtLeastOnce, tried(0));
    assert_eq!((waits.as_slice(), why), (&[500, 1_000, 2_000, 4_000, 8_000][..], "interrupted too often"));
}

#[test]
fn a_doubt_of_our_own_side_does_not_use_up_the_one_repeat_of_the_platform() {
    let mut facts = tried(0);
    for _ in 0..3 {
        facts.attempts += 1;
        facts.cut_off(false);
        facts = after_facts(&doubt(), &facts, &Class::AtLeastOnce, 0).note(&facts, 0);
    }
    let step = after_facts(&doubt(), &facts, &Class::AtLeastOnce, 0);
    assert!(matches!(step, Step::RepeatMarked { .. }), "{step:?}");
    let facts = step.note(&facts, 0);
    assert_eq!((facts.doubts, facts.interrupted), (4, 3));
    assert_eq!(after_facts(&doubt(), &facts, &Class::AtLeastOnce, 0), Step::Abandon("doubtful twice"));
    let (waits, _) = interrupted(&Class::AtLeastOnce, facts);
    assert_eq!(waits.len(), 1, "five repeats in all");
}

#[test]
fn a_question_about_a_doubt_of_our_own_side_keeps_in_mind_whose_it_is() {
    let mut facts = tried(1);
    for repeats in 1..=5 {
        facts.cut_off(false);
        let ask = after_facts(&doubt(), &facts, &Class::Reconcilable, 0);
        facts = ask.note(&facts, 0);
        let step = after_lookup(Some(&LookupReply::Unclear), &facts, &RetryPolicy::default(), 0, DEADLINE, 0);
        facts = step.note(&facts, 0);
        assert_eq!((facts.doubts, facts.interrupted), (repeats, repeats));
    }
}

#[test]
fn nothing_that_was_not_sent_waits_longer_than_fifteen_seconds_for_a_link() {
    for attempts in [1, 5, 9, 50] {
        let outcome = not_sent(None, WaitScope::Instance);
        let policy = RetryPolicy::default();
        let step = next_step(&outcome, &tried(attempts), &Class::AtLeastOnce, &policy, 0, DEADLINE, u64::MAX);
        let Step::RetryAt { not_before_ms, scope: RetryScope::Instance } = step else { panic!("{step:?}") };
        assert!(not_before_ms <= 15_000, "{not_before_ms} after {attempts}");
    }
}

#[test]
fn a_wait_is_kept_for_a_quarter_of_an_hour_and_then_the_platform_is_asked_again() {
    for wait_ms in [900_000, 900_001, 10_u64.pow(12), u64::MAX] {
        let step = first(&not_sent(Some(wait_ms), WaitScope::Instance), &Class::AtLeastOnce);
        assert_eq!(step, Step::RetryAt { not_before_ms: 900_000, scope: RetryScope::Instance });
    }
}

#[test]
fn a_part_that_is_told_to_wait_again_and_again_holds_nothing_else() {
    let outcome = not_sent(Some(1_000), WaitScope::Instance);
    let facts = PartFacts { told: 8, ..tried(8) };
    let step = after_facts(&outcome, &facts, &Class::AtLeastOnce, 0);
    assert!(matches!(step, Step::RetryAt { scope: RetryScope::Instance, .. }), "{step:?}");
    let step = after_facts(&outcome, &PartFacts { told: 9, ..facts }, &Class::AtLeastOnce, 0);
    assert_eq!(step, Step::RetryAt { not_before_ms: 1_000, scope: RetryScope::Part });
}

#[test]
fn a_repeat_holds_its_lane_no_longer_than_any_part_that_fails() {
    let Step::RepeatMarked { not_before_ms } = after_facts(&doubt(), &tried(40), &Class::AtLeastOnce, 0) else {
        panic!("it is repeated once")
    };
    assert_eq!(not_before_ms, RetryPolicy::default().lane_hold_ms);
}

#[test]
fn a_doubt_is_never_repeated_at_once() {
    for attempts in [1, 2, 9] {
        let facts = tried(attempts);
        let Step::RepeatMarked { not_before_ms } = after_facts(&doubt(), &facts, &Class::AtLeastOnce, 0) else {
            panic!("it is repeated once")
        };
        assert!(not_before_ms >= 4_000, "{not_before_ms} after {attempts}");
    }
    let late = after_facts(&doubt(), &tried(1), &Class::AtLeastOnce, DEADLINE - 1);
    assert_eq!(late, Step::RepeatMarked { not_before_ms: DEADLINE }, "and never after its deadline");
}

#[test]
fn an_instance_that_carries_other_things_is_not_held_for_one_part() {
    let blamed = not_sent(None, WaitScope::Instance);
    assert_eq!(contradicted(blamed.clone(), false), blamed);
    let own = contradicted(blamed, true);
    let (mut now, mut facts) = (0, PartFacts::default());
    while !facts.deferred {
        facts.attempts += 1;
        let step = after_facts(&own, &facts, &Class::AtLeastOnce, now);
        let Step::RetryAt { not_before_ms, scope } = step else { panic!("{step:?}") };
        assert!(matches!(scope, RetryScope::Lane | RetryScope::Part), "{scope:?}");
        facts = step.note(&facts, now);
        now = not_before_ms;
    }
    assert!(now <= 180_000, "it steps aside in time: {now}");
    let told = not_sent(Some(7), WaitScope::Instance);
    assert_eq!(contradicted(told.clone(), true), told, "what the platform says itself is not contradicted");
}

#[test]
fn a_marked_repeat_that_was_not_sent_is_still_the_marked_repeat() {
    let facts = PartFacts { doubts: 1, ..tried(2) };
    let step = after_facts(&not_sent(Some(5), WaitScope::Chat), &facts, &Class::AtLeastOnce, 0);
    assert_eq!(step, Step::RetryAt { not_before_ms: 5, scope: RetryScope::Chat });
    assert_eq!(step.note(&facts, 0).doubts, 1);
}

#[test]
fn an_idempotent_adapter_gets_the_same_key_again() {
    let step = first(&doubt(), &Class::Idempotent);
    assert_eq!(step, Step::RetryAt { not_before_ms: 500, scope: RetryScope::Lane });
    assert!(step.note(&tried(1), 0).marks().is_empty());
}

#[test]
fn what_no_key_protects_is_repeated_once_and_marked_whatever_the_adapter_promises_otherwise() {
    let outcome = SendOutcome::unknown_keyless("cut");
    for class in [Class::Idempotent, Class::Reconcilable, Class::AtLeastOnce] {
        let step = first(&outcome, &class);
        assert!(matches!(step, Step::RepeatMarked { .. }), "{class}: {step:?}");
        let facts = step.note(&tried(1), 0);
        assert_eq!(facts.marks(), ["(possibly repeated)"]);
        assert_eq!(after_facts(&outcome, &facts, &class, 1), Step::Abandon("doubtful twice"));
    }
}

#[test]
fn a_reconcilable_adapter_is_asked_and_never_sends_blindly() {
    let policy = RetryPolicy::default();
    let ask = first(&doubt(), &Class::Reconcilable);
    assert_eq!(ask, Step::Lookup { not_before_ms: 0, scope: RetryScope::Lane });
    assert_eq!(ask.state().word(), "unknown");
    let facts = ask.note(&tried(1), 0);
    let look =
        |reply: Option<&LookupReply>, facts: &PartFacts, now| after_lookup(reply, facts, &policy, now, DEADLINE, 0);

    let receipt = Receipt::new(vec!["9".into()], 4);
    let found = LookupReply::Found { receipt: receipt.clone() };
    assert_eq!(look(Some(&found), &facts, 1), Step::Settle(PartState::Delivered { receipt }));
    assert!(matches!(look(Some(&LookupReply::Absent), &facts, 1), Step::RetryAt { .. }));
    assert!(matches!(look(Some(&LookupReply::Unclear), &facts, 1), Step::RepeatMarked { .. }));
    let marked = PartFacts { doubts: 1, ..facts.clone() };
    assert_eq!(look(Some(&LookupReply::Unclear), &marked, 1), Step::Abandon("doubtful twice"));

    let again = look(None, &facts, 1);
    assert!(matches!(again, Step::Lookup { not_before_ms, .. } if not_before_ms > 1));
    assert_eq!(look(None, &facts, DEADLINE), Step::Abandon("deadline passed"));
}

#[test]
fn questions_that_fail_come_at_growing_intervals_and_let_the_lane_go_on() {
    let policy = RetryPolicy::default();
    let (mut now, mut facts, mut asked) = (0, tried(1), 0);
    let end = loop {
        match after_lookup(None, &facts, &policy, now, DEADLINE, 0) {
            step @ Step::Lookup { not_before_ms, .. } => {
                facts = step.note(&facts, now);
                now = not_before_ms;
                asked += 1;
            }
            other => break other,
        }
    };
    assert_eq!(end, Step::Abandon("deadline passed"));
    assert!(facts.deferred && (100..1000).contains(&asked), "{asked}");
}

#[test]
fn a_wait_that_the_platform_names_is_obeyed_for_its_scope() {
    let step = first(&not_sent(Some(30_000), WaitScope::Instance), &Class::AtLeastOnce);
    assert_eq!(step, Step::RetryAt { not_before_ms: 30_000, scope: RetryScope::Instance });
    let step = first(&not_sent(Some(30_000), WaitScope::from("later")), &Class::AtLeastOnce);
    assert_eq!(step, Step::RetryAt { not_before_ms: 30_000, scope: RetryScope::Chat });
}

#[test]
fn a_wait_past_the_deadline_leaves_one_try_shortly_before_it() {
    for beyond in [u64::MAX, u64::try_from(DEADLINE).unwrap() + 1] {
        let outcome = not_sent(Some(beyond), WaitScope::Chat);
        let last = Step::RetryAt { not_before_ms: DEADLINE - LAST_TRY_MS, scope: RetryScope::Chat };
        assert_eq!(after_facts(&outcome, &tried(1), &Class::AtLeastOnce, DEADLINE - 600_000), last);
        for now in [DEADLINE - LAST_TRY_MS, DEADLINE - 1, DEADLINE] {
            let step = after_facts(&outcome, &tried(2), &Class::AtLeastOnce, now);
            assert_eq!(step, Step::Abandon("deadline passed"));
        }
    }
    let in_time = not_sent(Some(29_000), WaitScope::Chat);
    let step = after_facts(&in_time, &tried(2), &Class::AtLeastOnce, DEADLINE - LAST_TRY_MS);
    assert_eq!(step, Step::RetryAt { not_before_ms: DEADLINE - 1_000, scope: RetryScope::Chat });
}

#[test]
fn waiting_for_the_platform_does_not_count_against_the_part() {
    let failing = PartFacts { failing_since_ms: Some(0), ..tried(3) };
    let step = after_facts(&not_sent(Some(1), WaitScope::Chat), &failing, &Class::AtLeastOnce, 50_000);
    assert_eq!(step.note(&failing, 50_000).failing_since_ms, None);
}

#[test]
fn a_part_that_fails_for_its_own_sake_steps_aside_after_a_minute_and_is_marked_delayed() {
    let outcome = not_sent(None, WaitScope::Chat);
    let (mut now, mut facts) = (0, PartFacts::default());
    let mut held_until = 0;
    loop {
        facts.attempts += 1;
        let step = after_facts(&outcome, &facts, &Class::AtLeastOnce, now);
        let Step::RetryAt { not_before_ms, scope } = step else { panic!("{step:?}") };
        facts = step.note(&facts, now);
        if scope == RetryScope::Part {
            assert_eq!(step.state(), PartState::Deferred);
            break;
        }
        assert_eq!((scope, step.state()), (RetryScope::Lane, PartState::Owed));
        now = not_before_ms;
        held_until = now;
    }
    assert!((20_000..=60_000).contains(&held_until), "{held_until}");
    assert_eq!(facts.marks(), ["(delayed)"]);
    let later = after_facts(&outcome, &facts, &Class::AtLeastOnce, now + 1);
    assert!(matches!(later, Step::RetryAt { scope: RetryScope::Part, .. }), "it does not come back into its lane");
    let waited = PartFacts { failing_since_ms: None, ..facts };
    let later = after_facts(&outcome, &waited, &Class::AtLeastOnce, now + 1);
    assert!(matches!(later, Step::RetryAt { scope: RetryScope::Part, .. }), "nor after a wait of its whole chat");
}

#[test]
fn a_part_that_kills_its_adapter_twice_is_given_up() {
    for class in [Class::AtLeastOnce, Class::Idempotent, Class::Reconcilable] {
        let once = PartFacts { deaths: 1, ..tried(1) };
        assert!(!matches!(after_facts(&doubt(), &once, &class, 0), Step::Abandon(_)));
        let twice = PartFacts { deaths: 2, ..tried(2) };
        assert_eq!(after_facts(&doubt(), &twice, &class, 0), Step::Abandon("breaks the adapter"));
        assert!(matches!(after_facts(&SendOutcome::delivered("1", 0), &twice, &class, 0), Step::Settle(_)));
    }
}

#[test]
fn notices_and_questions_expire_early_and_replies_last_a_day() {
    let policy = RetryPolicy::default();
    assert_eq!(policy.deadline_ms(&Purpose::Notice, 5), 600_005);
    assert_eq!(policy.deadline_ms(&Purpose::Ask, 5), 600_005);
    assert_eq!(policy.deadline_ms(&Purpose::Reply, 5), 86_400_005);
    assert_eq!(policy.deadline_ms(&Purpose::Cron, i64::MAX), i64::MAX);
    assert!(!policy.is_expired(9, 9) && policy.is_expired(10, 9));
}

#[test]
fn an_answer_whose_deadline_passed_while_the_host_was_away_is_tried_and_a_notice_is_not() {
    let day = 86_400_000;
    let deadline =
        |purpose, created, awake_since, now| deadline_in_this_run(&purpose, (created, created + day), awake_since, now);
    assert_eq!(deadline(Purpose::Reply, 0, 5, 5), day, "a restart changes nothing before the deadline");
    for away in [1, 30, 4_000] {
        let boot = day * away + 7;
        assert_eq!(deadline(Purpose::Reply, 0, boot, boot), boot + 600_000);
        assert_eq!(deadline(Purpose::Cron, 0, boot, boot + 5), boot + 600_000);
        assert_eq!(deadline(Purpose::Notice, 0, boot, boot), day);
    }
    let short = deadline_in_this_run(&Purpose::Reply, (0, 5_000), day, day);
    assert_eq!(short, day + 5_000, "no longer than it is tried at all");
    let behind = deadline(Purpose::Reply, 50 * day, 3, 4);
    assert_eq!(behind, day + 3, "a row of a clock that was ahead lasts as long as any");
}

fn any_outcome() -> impl Strategy<Value = SendOutcome> {
    let scope = || prop_oneof![Just(WaitScope::Chat), Just(WaitScope::Instance), Just(WaitScope::from("later"))];
    let kind = prop_oneof![
        Just(RefusalKind::TooLong),
        Just(RefusalKind::BadFormat),
        Just(RefusalKind::Forbidden),
        Just(RefusalKind::ChatGone),
        Just(RefusalKind::ThreadGone),
        Just(RefusalKind::Migrated),
        Just(RefusalKind::Unauthorized),
        Just(RefusalKind::Invalid),
        Just(RefusalKind::from("later")),
    ];
    prop_oneof![
        1 => Just(SendOutcome::delivered("1", 0)),
        2 => kind.prop_map(refused),
        1 => Just(SendOutcome::migrated("2")),
        6 => (proptest::option::of(0u64..200_000), scope()).prop_map(|(wait, scope)| not_sent(wait, scope)),
        4 => Just(doubt()),
        1 => Just(SendOutcome::Unrecognised),
    ]
}

fn any_class() -> impl Strategy<Value = Class> {
    prop_oneof![Just(Class::Idempotent), Just(Class::Reconcilable), Just(Class::AtLeastOnce)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Even if the platform always demands a wait beyond the deadline, one attempt is left before it.
    #[test]
    fn a_pessimistic_platform_gets_exactly_one_last_try(
        first_ms in DEADLINE - 899_000..DEADLINE - LAST_TRY_MS, beyond in any::<u32>(), jitter in any::<[u64; 2]>(),
    ) {
        let policy = RetryPolicy::default();
        let asked = |now: i64, jitter| {
            let wait = u64::try_from(DEADLINE - now).unwrap() + 1 + u64::from(beyond);
            let outcome = not_sent(Some(wait), WaitScope::Chat);
            next_step(&outcome, &tried(1), &Class::AtLeastOnce, &policy, now, DEADLINE, jitter)
        };
        let Step::RetryAt { not_before_ms, .. } = asked(first_ms, jitter[0]) else {
            return Err(TestCaseError::fail("one try is left"));
        };
        prop_assert!(not_before_ms > first_ms && !policy.is_expired(not_before_ms, DEADLINE));
        prop_assert_eq!(asked(not_before_ms, jitter[1]), Step::Abandon("deadline passed"));
    }

    /// Drives one part through arbitrary outcomes until it ends.
    #[test]
    fn whatever_happens_a_part_ends_and_keeps_its_promises(
        class in any_class(),
        script in proptest::collection::vec((any_outcome(), any::<u64>(), 0u8..4, 0u8..10), 1..60),
    ) {
        let policy = RetryPolicy::default();
        let deadline = 600_000;
        let (mut now, mut facts, mut state) = (0i64, PartFacts::default(), PartState::Owed);
        let mut doubtful_sends = 0;
        let mut in_doubt = false;
        let mut ended = false;
        for (outcome, jitter, reply, death) in script.iter().cycle().take(2_000) {
            prop_assert!(!policy.is_expired(now, deadline), "nothing is sent after its deadline");
            facts.attempts += 1;
            state = state.after(PartChange::Claim { epoch: Epoch(1), attempt: facts.attempts }).unwrap();
            if in_doubt {
                prop_assert!(class == Class::Idempotent || !facts.marks().is_empty(), "a repeat is marked");
            }
            let doubtful = matches!(outcome, SendOutcome::Unknown { .. } | SendOutcome::Unrecognised);
            facts.ours = false;
            match death {
                0 | 1 if doubtful => facts.cut_off(*death == 0),
                _ => doubtful_sends += u32::from(doubtful),
            }
            in_doubt |= doubtful;

            let mut step = next_step(outcome, &facts, &class, &policy, now, deadline, *jitter);
            while let Step::Lookup { not_before_ms, .. } = step {
                prop_assert_eq!(&class, &Class::Reconcilable);
                facts = step.note(&facts, now);
                state = state.after(PartChange::Settle(step.state())).unwrap();
                now = now.max(not_before_ms);
                let answer = match reply {
                    0 => Some(LookupReply::Absent),
                    1 => Some(LookupReply::Unclear),
                    2 => Some(LookupReply::Found { receipt: Receipt::default() }),
                    _ => None,
                };
                in_doubt &= answer != Some(LookupReply::Absent);
                step = after_lookup(answer.as_ref(), &facts, &policy, now, deadline, *jitter);
            }
            let before = now;
            match &step {
                Step::RetryAt { not_before_ms, .. } | Step::RepeatMarked { not_before_ms } | Step::Degrade { not_before_ms } => {
                    prop_assert!(*not_before_ms <= deadline);
                    if let SendOutcome::NotSent { retry_after_ms: Some(wait), .. } = outcome {
                        let told = now + i64::try_from(*wait).unwrap().min(limits::WAIT_TOLD_MS_MAX);
                        let window = deadline - LAST_TRY_MS..deadline;
                        prop_assert!(*not_before_ms >= told || window.contains(not_before_ms) && told > deadline);
                    }
                    now = now.max(*not_before_ms);
                }
                _ => {}
            }
            facts = step.note(&facts, before);
            state = state.after(PartChange::Settle(step.state())).unwrap();
            if state.is_settled() {
                ended = true;
                break;
            }
        }
        prop_assert!(ended, "{:?} {:?}", state, facts);
        if class != Class::Idempotent {
            prop_assert!(facts.doubts <= 5, "at most five marked repeats");
            prop_assert!(facts.doubts - facts.interrupted <= 1, "and one of them after a doubt of the platform");
        }
        if class == Class::AtLeastOnce {
            prop_assert!(doubtful_sends <= 2);
            // After the first uncertain outcome, the repeat may be postponed or changed by outcomes that are
            // certain.
            prop_assert!(doubtful_sends < 2 || state.word() == "abandoned");
        }
    }
}
