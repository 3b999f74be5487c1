//! Complete runs of an instance: the reaction of the supervisor to adapters that misbehave.

use std::{collections::BTreeSet, sync::atomic::Ordering, time::Duration};

use hermes_protocol::{SendOutcome, method};
use serde_json::json;

use super::support::*;
use crate::credential::Owner;
use crate::handle::{CUT_OFF, SENDS_MAX};
use crate::{AdapterEvent, AdapterState, INSTANCE_DIED, Isolation, IsolationChoice, Outcome, accept, credential};

const BOTH: [IsolationChoice; 2] = [IsolationChoice::InProcess, IsolationChoice::Process];

/// The platform's number of the delivered message: a new instance counts from 0.
fn number(outcome: &SendOutcome) -> u64 {
    match outcome {
        SendOutcome::Delivered { receipt } => receipt.message_ids[0].parse().unwrap(),
        other => panic!("{other:?} is not delivered"),
    }
}

fn died(outcome: &SendOutcome) -> bool {
    matches!(outcome, SendOutcome::Unknown { detail, .. } if detail == INSTANCE_DIED)
}

fn refused_with(outcome: &SendOutcome, word: &str) -> bool {
    matches!(outcome, SendOutcome::Refused { detail, .. } if detail.starts_with(word))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_comes_online_and_delivers() {
    for isolation in BOTH {
        let home = Home::hostile();
        let mut host = Host::start(home.settings(), vec![plan(isolation, "ok")]);
        host.event(|event| matches!(event, AdapterEvent::Ready { .. }).then_some(())).await;
        let one = host.one();
        assert!(one.is_online());
        assert_eq!(number(&one.send(&message("hello")).await), 0);
        assert_eq!(one.capabilities().text.limit, 4096);
        let status = host.adapters.statuses().remove(0);
        assert_eq!((status.state.as_str(), status.plugin.as_str()), ("online", "hostile"));
        let expected = if isolation == IsolationChoice::Process { "process" } else { "in-process" };
        assert_eq!(status.isolation, expected);
        assert!(status.last_proven.is_some(), "a receipt is a proof");
        host.adapters.shutdown(PATIENCE).await;
        assert!(matches!(one.send(&message("late")).await, SendOutcome::NotSent { .. }));
        assert_eq!(one.state(), AdapterState::Stopped);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn deliveries_wait_in_line_and_leave_room_for_other_calls() {
    for isolation in BOTH {
        let home = Home::hostile();
        let host = Host::start(home.settings(), vec![plan(isolation, "hang_in_send")]);
        let one = host.one();
        online(&one).await;
        let mut rooms = Vec::new();
        for _ in 0..SENDS_MAX {
            rooms.push(one.room_to_deliver().await);
        }
        let message = message("hangs");
        let sends = futures_util::future::join_all(rooms.iter().map(|_| one.send(&message)));
        let in_line = one.room_to_deliver();
        tokio::pin!(sends, in_line);
        tokio::select! {
            biased;
            _ = &mut sends => panic!("they hang"),
            _ = &mut in_line => panic!("there is no room"),
            answer = one.hint(method::HEALTH, b"{}".to_vec()) => assert!(answer.is_ok(), "{answer:?}"),
        }
        rooms.pop();
        drop(in_line.await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_dropped_in_while_the_host_runs_is_seen_by_who_asks_next() {
    let home = Home::hostile();
    let aside = home.path().join("aside");
    std::fs::rename(home.library(), &aside).unwrap();
    let host = Host::start(home.settings(), Vec::new());
    let states = async || -> Vec<(String, String)> {
        host.adapters.look_again().await;
        host.adapters.statuses().into_iter().map(|status| (status.plugin, status.state)).collect()
    };
    assert_eq!(states().await, []);
    std::fs::rename(&aside, home.library()).unwrap();
    assert_eq!(states().await, [("hostile".to_owned(), "available".to_owned())]);
    std::fs::remove_file(home.library()).unwrap();
    assert_eq!(states().await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_library_of_the_folder_runs_in_a_process_of_its_own_by_default() {
    let home = Home::hostile();
    let host = Host::start(home.settings(), vec![plan(IsolationChoice::Auto, "ok")]);
    online(&host.one()).await;
    assert_eq!(host.one().isolation(), Some(Isolation::Process));
    assert!(!host.one().trusted());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_library_beside_the_binary_runs_inside_and_is_not_pinned() {
    let home = Home::hostile();
    std::fs::rename(home.library(), home.path().join("libhermes_adapter_hostile.so")).unwrap();
    let mut settings = home.settings();
    settings.search.beside = Some(home.path().to_owned());
    let host = Host::start(settings, vec![plan(IsolationChoice::Auto, "ok")]);
    online(&host.one()).await;
    assert_eq!(host.one().isolation(), Some(Isolation::InProcess));
    assert!(host.one().trusted());
    assert!(!home.path().join("plugins.lock").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fatal_error_fails_with_its_mend_until_it_is_enabled() {
    let home = Home::hostile();
    let mut host = Host::start(home.settings(), vec![plan(IsolationChoice::InProcess, "connect_fatal")]);
    let failed = |event| match event {
        AdapterEvent::State { state: AdapterState::Failed { reason, mend }, .. } => Some((reason, mend)),
        _ => None,
    };
    let (reason, mend) = host.event(failed).await;
    assert_eq!((reason.as_str(), mend.as_str()), ("the token is revoked", "set a new token"));
    assert!(host.adapters.enable("one"));
    host.event(|event| matches!(event, AdapterEvent::State { state: AdapterState::Starting { .. }, .. }).then_some(()))
        .await;
    host.event(failed).await;
    assert!(!host.adapters.enable("nobody"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_platform_that_is_down_is_tried_again_and_again() {
    let home = Home::hostile();
    let host = Host::start(home.settings(), vec![plan(IsolationChoice::InProcess, "connect_retry")]);
    let third = |state: &AdapterState| matches!(state, AdapterState::Reconnecting { attempt, .. } if *attempt >= 3);
    until(&host.one(), "a third attempt", third).await;
    let status = host.adapters.statuses().remove(0);
    assert_eq!(status.reason.as_deref(), Some("the platform is down"));
    assert!(status.next_try.is_some());
    assert!(matches!(host.one().send(&message("x")).await, SendOutcome::NotSent { .. }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_in_the_words_of_an_adapter_is_not_shown() {
    for isolation in [IsolationChoice::InProcess, IsolationChoice::Process] {
        let home = Home::hostile();
        let mut plan = plan(isolation, "connect_retry");
        plan.secrets.push("platform is".to_owned());
        let host = Host::start(home.settings(), vec![plan]);
        until(&host.one(), "reconnecting", |state| state.word() == "reconnecting").await;
        assert_eq!(host.adapters.statuses()[0].reason.as_deref(), Some("the *** down"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_waits_for_the_slowest() {
    let home = Home::hostile();
    let mut slow = plan(IsolationChoice::InProcess, "hang_in_connect");
    slow.instance = "slow".to_owned();
    let host = Host::start(home.settings(), vec![slow, plan(IsolationChoice::InProcess, "ok")]);
    online(&host.one()).await;
    assert_eq!(host.adapters.get("slow").unwrap().state().word(), "starting");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connect_that_does_not_answer_is_given_up() {
    let home = Home::hostile();
    let mut settings = home.settings();
    settings.connect = Duration::from_millis(50);
    let host = Host::start(settings, vec![plan(IsolationChoice::InProcess, "hang_in_connect")]);
    until(&host.one(), "reconnecting", |state| state.word() == "reconnecting").await;
    assert!(host.adapters.statuses()[0].reason.as_ref().unwrap().contains("not connected within"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_link_is_opened_again_on_the_same_instance() {
    for isolation in BOTH {
        let home = Home::hostile();
        let mut host = Host::start(home.settings(), vec![plan(isolation, "drop_link")]);
        let one = host.one();
        online(&one).await;
        assert_eq!(number(&one.send(&message("x")).await), 0);
        host.event(|event| match event {
            AdapterEvent::State { state: AdapterState::Reconnecting { reason, .. }, .. } => Some(reason),
            _ => None,
        })
        .await;
        online(&one).await;
        assert_eq!(number(&one.send(&message("x")).await), 1, "it is the same instance");
        assert_eq!(host.adapters.statuses()[0].restarts, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_gives_an_unknown_outcome_and_a_new_instance() {
    for isolation in BOTH {
        let home = Home::hostile();
        let mut host = Host::start(home.settings(), vec![plan(isolation, "panic_in_send")]);
        let one = host.one();
        let ready = |event| matches!(event, AdapterEvent::Ready { .. }).then_some(());
        host.event(ready).await;
        assert!(died(&one.send(&message("x")).await));
        let why = host.event(|event| match event {
            AdapterEvent::State { state: AdapterState::Reconnecting { reason, .. }, .. } => Some(reason),
            _ => None,
        });
        let why = why.await;
        assert!(why.starts_with("panicked in send: "), "{why}");
        host.event(ready).await;
        assert!(died(&one.send(&message("x")).await), "a second death of one part looks the same");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_in_a_task_is_noticed_without_a_call() {
    let home = Home::hostile();
    let mut host = Host::start(home.settings(), vec![plan(IsolationChoice::InProcess, "panic_in_task")]);
    online(&host.one()).await;
    let _ = host.one().send(&message("x")).await;
    host.event(|event| match event {
        AdapterEvent::State { state: AdapterState::Reconnecting { reason, .. }, .. } => Some(reason),
        _ => None,
    })
    .await;
    online(&host.one()).await;
    assert_eq!(number(&host.one().send(&message("x")).await), 0, "it is a new instance");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_dies_is_replaced_and_the_host_lives() {
    for mode in ["abort_in_send", "exit_in_send"] {
        let home = Home::hostile();
        let mut host = Host::start(home.settings(), vec![plan(IsolationChoice::Process, mode)]);
        let ready = |event| matches!(event, AdapterEvent::Ready { .. }).then_some(());
        host.event(ready).await;
        assert!(died(&host.one().send(&message("x")).await));
        host.event(ready).await;
        assert_eq!(host.adapters.statuses()[0].restarts, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_send_that_does_not_answer_is_unknown_and_the_instance_lives_on() {
    for isolation in BOTH {
        let home = Home::hostile();
        let mut settings = home.settings();
        settings.send = Duration::from_millis(100);
        let host = Host::start(settings, vec![plan(isolation, "hang_in_send")]);
        online(&host.one()).await;
        let outcome = host.one().send(&message("x")).await;
        assert!(matches!(&outcome, SendOutcome::Unknown { detail, .. } if detail != INSTANCE_DIED), "{outcome:?}");
        assert!(host.one().is_online());
        assert_eq!(host.one().hint(method::HEALTH, b"{}".to_vec()).await.unwrap(), b"{}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thread_that_cannot_be_ended_is_stuck_and_its_next_start_is_in_a_process() {
    let home = Home::hostile();
    let mut settings = home.settings();
    settings.send = Duration::from_millis(100);
    settings.health = Duration::from_millis(200);
    settings.ask_after = Duration::from_millis(100);
    settings.end = Duration::from_millis(200);
    settings.backoff_first = Duration::from_millis(200);
    let host = Host::start(settings, vec![plan(IsolationChoice::InProcess, "busy_loop")]);
    let one = host.one();
    online(&one).await;
    assert_eq!(one.isolation(), Some(Isolation::InProcess));
    assert!(matches!(one.send(&message("x")).await, SendOutcome::Unknown { .. }));
    until(&one, "stuck", |state| *state == AdapterState::Stuck).await;
    online(&one).await;
    assert_eq!(one.isolation(), Some(Isolation::Process));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_whose_thread_hangs_is_replaced() {
    let home = Home::hostile();
    let mut settings = home.settings();
    settings.send = Duration::from_millis(100);
    settings.health = Duration::from_millis(500);
    settings.ask_after = Duration::from_millis(100);
    settings.end = Duration::from_millis(200);
    let mut host = Host::start(settings, vec![plan(IsolationChoice::Process, "busy_loop")]);
    let ready = |event| matches!(event, AdapterEvent::Ready { .. }).then_some(());
    host.event(ready).await;
    assert!(matches!(host.one().send(&message("x")).await, SendOutcome::Unknown { .. }));
    host.event(ready).await;
    assert!(host.adapters.statuses()[0].restarts >= 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_frozen_is_not_shown_online() {
    let home = Home::hostile();
    let mut settings = home.settings();
    settings.heartbeat = Duration::from_millis(50);
    settings.late = Duration::from_millis(50);
    settings.send = Duration::from_millis(100);
    let host = Host::start(settings, vec![plan(IsolationChoice::Process, "ok")]);
    online(&host.one()).await;
    assert!(matches!(host.one().send(&message("break freeze")).await, SendOutcome::Unknown { .. }));
    let late =
        |state: &AdapterState| matches!(state, AdapterState::Degraded { duty, .. } if duty.contains("does not answer"));
    until(&host.one(), "degraded", late).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_on_its_way_through_an_instance_that_falls_silent_has_not_killed_it() {
    for isolation in BOTH {
        let home = Home::hostile();
        let mut settings = home.settings();
        settings.health = Duration::from_millis(500);
        settings.ask_after = Duration::from_millis(100);
        let host = Host::start(settings, vec![plan(isolation, "silent")]);
        online(&host.one()).await;
        let cut_off = host.one().send(&message("x")).await;
        assert!(matches!(&cut_off, SendOutcome::Unknown { detail, .. } if detail == CUT_OFF), "{cut_off:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_that_says_no_data_goes_through_connects_anew() {
    let home = Home::hostile();
    let mut settings = home.settings();
    settings.ask_after = Duration::from_millis(50);
    let mut host = Host::start(settings, vec![plan(IsolationChoice::InProcess, "unhealthy")]);
    let reason = host
        .event(|event| match event {
            AdapterEvent::State { state: AdapterState::Reconnecting { reason, .. }, .. } => Some(reason),
            _ => None,
        })
        .await;
    assert_eq!(reason, "no data goes through");
}

#[tokio::test(flavor = "multi_thread")]
async fn constructors_that_fail_are_told_apart() {
    for isolation in BOTH {
        for (mode, word, code) in [
            ("panic_in_create", "reconnecting", "create_panicked"),
            ("hang_in_create", "reconnecting", "create_timed_out"),
            ("no_such_mode", "failed", "config_refused"),
        ] {
            let home = Home::hostile();
            let mut settings = home.settings();
            if mode == "hang_in_create" {
                settings.create = Duration::from_millis(100);
            }
            let host = Host::start(settings, vec![plan(isolation, mode)]);
            until(&host.one(), word, |state| state.word() == word).await;
            assert_eq!(host.adapters.statuses()[0].code, Some(code), "{mode}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn disabling_pauses_and_enabling_starts_again() {
    let home = Home::hostile();
    let host = Host::start(home.settings(), vec![plan(IsolationChoice::InProcess, "ok")]);
    let one = host.one();
    online(&one).await;
    assert!(host.adapters.disable("one"));
    until(&one, "paused", |state| *state == AdapterState::Paused).await;
    assert!(matches!(one.send(&message("x")).await, SendOutcome::NotSent { .. }));
    assert!(host.adapters.enable("one"));
    online(&one).await;
    assert_eq!(number(&one.send(&message("x")).await), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disabled_plan_does_not_start() {
    let home = Home::hostile();
    let mut off = plan(IsolationChoice::InProcess, "ok");
    off.enabled = false;
    let host = Host::start(home.settings(), vec![off]);
    until(&host.one(), "paused", |state| *state == AdapterState::Paused).await;
    assert_eq!(host.one().manifest().label, "Hostile", "its file is known all the same");
}

#[tokio::test(flavor = "multi_thread")]
async fn reloading_makes_a_new_instance_and_a_new_plan_only_what_it_changes() {
    let home = Home::hostile();
    let mut other = plan(IsolationChoice::InProcess, "ok");
    other.instance = "other".to_owned();
    let mut host = Host::start(home.settings(), vec![plan(IsolationChoice::InProcess, "ok"), other.clone()]);
    let (one, two) = (host.one(), host.adapters.get("other").unwrap());
    online(&one).await;
    online(&two).await;
    let _ = (one.send(&message("x")).await, two.send(&message("x")).await);
    assert!(host.adapters.reload("one"));
    until(&one, "starting", |state| !state.is_online()).await;
    online(&one).await;
    assert_eq!(number(&one.send(&message("x")).await), 0);

    let mut changed = plan(IsolationChoice::InProcess, "ok");
    changed.config["token"] = "another".into();
    host.adapters.apply(vec![changed, other.clone()]);
    until(&one, "starting", |state| !state.is_online()).await;
    online(&one).await;
    assert_eq!(number(&one.send(&message("x")).await), 0);
    assert_eq!(number(&two.send(&message("x")).await), 1, "what did not change runs on");

    host.adapters.apply(vec![other]);
    assert!(host.adapters.get("one").is_none());
    host.event(|event| match event {
        AdapterEvent::State { state: AdapterState::Stopped, instance } if &*instance == "one" => Some(()),
        _ => None,
    })
    .await;
    assert!(two.is_online());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_file_does_not_take_down_what_runs_from_the_old_copy() {
    let home = Home::hostile();
    let settings = home.settings();
    let host = Host::start(settings.clone(), vec![plan(IsolationChoice::InProcess, "ok")]);
    let one = host.one();
    online(&one).await;
    assert_eq!(number(&one.send(&message("x")).await), 0);
    let mut bytes = std::fs::read(home.library()).unwrap();
    bytes.push(0);
    std::fs::write(home.library(), bytes).unwrap();

    let Outcome::Kept(refused) = host.adapters.replace("one").unwrap().outcome(PATIENCE).await else {
        panic!("it was replaced")
    };
    assert!(refused.contains("adapter add") && refused.ends_with("the running copy keeps running"), "{refused}");
    let status = host.adapters.statuses().remove(0);
    assert_eq!((status.state.as_str(), status.code), ("online", Some("changed_hash")));
    assert!(status.reason.unwrap().contains("hermes-host adapter add"));
    assert_eq!(number(&one.send(&message("x")).await), 1, "the old copy goes on");

    accept(&home.library(), "operator", &settings).unwrap();
    assert_eq!(host.adapters.replace("one").unwrap().outcome(PATIENCE).await, Outcome::Online);
    online(&one).await;
    assert_eq!(number(&one.send(&message("x")).await), 0);
    assert_eq!(host.adapters.statuses()[0].code, None);
    host.adapters.disable("one");
    assert!(host.adapters.replace("one").is_none(), "one that is off does not start");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_failed_is_tried_again_by_the_next_plan_although_nothing_of_it_changed() {
    let home = Home::empty();
    let plans = || vec![plan(IsolationChoice::InProcess, "ok")];
    let host = Host::start(home.settings(), plans());
    until(&host.one(), "failed", |state| matches!(state, AdapterState::Failed { .. })).await;
    let begun = host.adapters.apply(plans());
    assert!(matches!(begun[0].outcome(PATIENCE).await, Outcome::Failed(_)), "its library is still missing");
    std::fs::copy(hostile_library(), home.library()).unwrap();
    let begun = host.adapters.apply(plans());
    assert_eq!(begun[0].outcome(PATIENCE).await, Outcome::Online);
    assert!(host.adapters.apply(plans()).is_empty(), "what runs is left alone");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_waits_for_a_start_hears_what_the_platform_said() {
    for isolation in BOTH {
        let home = Home::hostile();
        let host = Host::start(home.settings(), vec![plan(isolation, "ok")]);
        online(&host.one()).await;
        host.adapters.apply(Vec::new());
        let begun = host.adapters.apply(vec![plan(isolation, "connect_fatal")]);
        let failed = Outcome::Failed("the token is revoked; set a new token".to_owned());
        assert_eq!(begun[0].outcome(PATIENCE).await, failed);
        assert_eq!(host.adapters.replace("one").unwrap().outcome(PATIENCE).await, failed);
        let begun = host.adapters.apply(vec![plan(isolation, "connect_retry")]);
        assert_eq!(begun[0].outcome(PATIENCE).await, Outcome::NoLink("the platform is down".to_owned()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_send_that_the_host_itself_cuts_off_did_not_break_the_adapter() {
    for isolation in BOTH {
        let home = Home::hostile();
        let mut settings = home.settings();
        settings.end = Duration::from_millis(200);
        let host = Host::start(settings, vec![plan(isolation, "hang_in_send")]);
        let one = host.one();
        online(&one).await;
        let cut = tokio::spawn({
            let one = one.clone();
            async move { one.send(&message("x")).await }
        });
        // Answered after the send was begun: calls of one instance are taken in order.
        while !cut.is_finished() && one.hint(method::HEALTH, b"{}".to_vec()).await.is_ok() {
            host.adapters.disable("one");
        }
        let outcome = cut.await.unwrap();
        assert!(!died(&outcome), "{outcome:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_library_says_about_its_link_becomes_its_state() {
    let home = Home::hostile();
    let host = Host::start(home.settings(), vec![plan(IsolationChoice::InProcess, "ok")]);
    let one = host.one();
    online(&one).await;
    let _ = one.send(&message("link degraded")).await;
    until(&one, "degraded", |state| state.word() == "degraded").await;
    assert!(one.is_online(), "a degraded link still sends");
    let _ = one.send(&message("link online")).await;
    until(&one, "online", |state| state.word() == "online").await;
    let _ = one.send(&message("link lost")).await;
    until(&one, "reconnecting", |state| state.word() == "reconnecting").await;
    assert!(!one.is_online());
    assert_eq!(host.adapters.statuses()[0].reason.as_deref(), Some("as it was told"));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_data_takes_failures_back() {
    let home = Home::hostile();
    let host = Host::start(home.settings(), vec![plan(IsolationChoice::InProcess, "connect_second")]);
    let one = host.one();
    online(&one).await;
    assert_eq!(one.state(), AdapterState::Online { failures: 1 }, "being connected proves nothing");
    let _ = one.send(&message("x")).await;
    assert_eq!(one.state(), AdapterState::Online { failures: 0 });
}

#[tokio::test(flavor = "multi_thread")]
async fn announcements_and_counters_are_told() {
    let home = Home::hostile();
    let mut host = Host::start(home.settings(), vec![plan(IsolationChoice::InProcess, "ok")]);
    let one = host.one();
    online(&one).await;
    let _ = one.send(&message("announce http://127.0.0.1:1/?key=s3cret-token")).await;
    let url = host
        .event(|event| match event {
            AdapterEvent::Announced { url, .. } => Some(url),
            _ => None,
        })
        .await;
    assert_eq!(url, "http://127.0.0.1:1/?key=***");
    for _ in 0..3 {
        let _ = one.send(&message("metric received")).await;
    }
    // A later call is answered after the earlier ones were taken.
    let _ = one.send(&message("secret token")).await;
    assert_eq!(one.metrics().get("received"), Some(&3.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn events_and_granted_methods_reach_the_host_and_nothing_else_does() {
    for isolation in BOTH {
        let home = Home::hostile();
        let host = Host::start(home.settings(), vec![plan(isolation, "ok")]);
        let one = host.one();
        online(&one).await;
        number(&one.send(&message("emit m:1:1")).await);
        number(&one.send(&message("secret token")).await);
        assert!(refused_with(&one.send(&message("secret mode")).await, "not_found"));
        assert!(refused_with(&one.send(&message("call sessions.list")).await, "not_granted"), "not named in `uses`");
        assert!(refused_with(&one.send(&message("call models.list")).await, "not_granted"), "not granted");
        assert!(refused_with(&one.send(&message("call dance")).await, "unsupported"));
        let calls = host.services.calls.lock().unwrap().clone();
        assert_eq!(calls, [("one".to_owned(), "emit".to_owned()), ("one".to_owned(), "dance".to_owned())]);
        host.adapters.shutdown(PATIENCE).await;
    }
    let home = Home::hostile();
    let mut granted = plan(IsolationChoice::InProcess, "ok");
    granted.granted = BTreeSet::from(["models.list".to_owned()]);
    let host = Host::start(home.settings(), vec![granted]);
    online(&host.one()).await;
    number(&host.one().send(&message("call models.list")).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_has_a_bound_on_what_it_asks_at_once() {
    let home = Home::hostile();
    let mut settings = home.settings();
    settings.host_calls_max = 4;
    settings.send = PATIENCE;
    let services = Services { silent: BTreeSet::from(["emit"]), ..Services::default() };
    let host = Host::with(settings, vec![plan(IsolationChoice::InProcess, "ok")], services);
    let one = host.one();
    online(&one).await;
    let emit = message("emit m:1:1");
    for _ in 0..4 {
        let (one, emit) = (one.clone(), emit.clone());
        tokio::spawn(async move { one.send(&emit).await });
    }
    let asked = async {
        while host.services.calls.lock().unwrap().len() < 4 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, asked).await.expect("four calls stay open");
    assert!(refused_with(&one.send(&emit).await, "busy"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_platform_that_answers_proves_little_while_the_host_does_not_take_what_it_says() {
    let home = Home::hostile();
    let host = Host::start(home.settings(), vec![plan(IsolationChoice::InProcess, "connect_second")]);
    let one = host.one();
    online(&one).await;
    assert_eq!(one.state().failures(), 1);
    host.services.full.store(true, Ordering::Relaxed);
    assert!(refused_with(&one.send(&message("emit m:1:1")).await, "unavailable"));
    number(&one.send(&message("proved")).await);
    assert_eq!(one.state().failures(), 1, "the next wait would be longer");
    host.services.full.store(false, Ordering::Relaxed);
    number(&one.send(&message("emit m:1:1")).await);
    assert_eq!(one.state().failures(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_belongs_to_one_instance() {
    let home = Home::hostile();
    let settings = home.settings();
    let folder = credential::folder(settings.runtime_dir.as_deref(), None).unwrap();
    let elsewhere = Owner { home: "/elsewhere".into(), instance: "two".to_owned() };
    for isolation in BOTH {
        let host = Host::start(settings.clone(), vec![plan(isolation, "ok")]);
        let one = host.one();
        online(&one).await;
        let other = credential::lock(&folder, "hostile", "account", &elsewhere).unwrap();
        assert!(refused_with(&one.send(&message("lock account")).await, "credential_in_use"));
        drop(other);
        number(&one.send(&message("lock account")).await);
        assert!(credential::lock(&folder, "hostile", "account", &elsewhere).is_err());
        host.adapters.shutdown(PATIENCE).await;
        assert!(credential::lock(&folder, "hostile", "account", &elsewhere).is_ok(), "it ended, so it is free");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_that_another_host_holds_is_retried_until_it_is_free() {
    let home = Home::hostile();
    let settings = home.settings();
    let folder = credential::folder(settings.runtime_dir.as_deref(), None).unwrap();
    let elsewhere = Owner { home: "/elsewhere".into(), instance: "two".to_owned() };
    for isolation in BOTH {
        let other = credential::lock(&folder, "hostile", "account", &elsewhere).unwrap();
        let host = Host::start(settings.clone(), vec![plan(isolation, "connect_locked")]);
        let one = host.one();
        until(&one, "the third failure", |state| state.failures() >= 3 && state.next_try_ms().is_some()).await;
        let status = host.adapters.statuses().remove(0);
        let reason = status.reason.unwrap_or_default();
        assert!(reason.contains("instance two of the host in /elsewhere"), "{reason}");
        assert!(status.next_try.is_some());
        drop(other);
        online(&one).await;
        host.adapters.shutdown(PATIENCE).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_records_does_not_hold_up_deliveries() {
    for isolation in BOTH {
        let home = Home::hostile();
        let host = Host::start(home.settings(), vec![plan(isolation, "flood")]);
        online(&host.one()).await;
        assert_eq!(number(&host.one().send(&message("x")).await), 0);
        assert_eq!(number(&host.one().send(&message("x")).await), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_without_a_section_are_available() {
    let home = Home::hostile();
    std::fs::write(home.plugins().join("broken.so"), "text").unwrap();
    let host = Host::start(home.settings(), Vec::new());
    let statuses = host.adapters.statuses();
    let told: Vec<(&str, &str, Option<&str>)> =
        statuses.iter().map(|status| (status.name.as_str(), status.state.as_str(), status.code)).collect();
    assert_eq!(told, [("broken.so", "failed", Some("not_a_library")), ("hostile", "available", None)]);
    assert!(serde_json::to_value(&statuses).unwrap()[1].get("code").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_in_any_language_is_an_adapter() {
    let home = Home::empty();
    let mut any = plan(IsolationChoice::Auto, "ok");
    any.plugin = "snake".to_owned();
    any.config = json!({});
    any.command = Some(vec!["python3".to_owned(), "-c".to_owned(), SNAKE.to_owned()]);
    let host = Host::start(home.settings(), vec![any]);
    let one = host.one();
    online(&one).await;
    assert_eq!(number(&one.send(&message("hello")).await), 41);
    assert_eq!(one.manifest().label, "Snake");
    assert_eq!(one.isolation(), Some(Isolation::Process));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_is_another_plugin_than_its_section_says_is_refused() {
    let home = Home::empty();
    let mut any = plan(IsolationChoice::Auto, "ok");
    any.command = Some(vec!["python3".to_owned(), "-c".to_owned(), SNAKE.to_owned()]);
    let host = Host::start(home.settings(), vec![any]);
    until(&host.one(), "failed", |state| state.word() == "failed").await;
    let status = host.adapters.statuses().remove(0);
    assert_eq!(status.code, Some("other_plugin"));
    let reason = status.reason.unwrap();
    assert!(reason.contains("\"snake\"") && reason.contains("plugin = \"snake\""), "{reason}");
}

/// Returns the reason in `status` for a program in a folder of its own that does not stay online.
async fn why_not(command: &[&str], files: &[(&str, &str)]) -> String {
    let home = Home::empty();
    for (name, text) in files {
        std::fs::write(home.path().join(name), text).unwrap();
    }
    let mut any = plan(IsolationChoice::Auto, "ok");
    any.plugin = "snake".to_owned();
    any.command = Some(command.iter().map(|&word| word.to_owned()).collect());
    any.folder = Some(home.path().to_owned());
    let host = Host::start(home.settings(), vec![any]);
    until(&host.one(), "reconnecting", |state| state.word() == "reconnecting").await;
    host.adapters.statuses()[0].reason.clone().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_does_not_come_to_stay_says_what_to_mend() {
    let missing = why_not(&["pythonx3", "a.py"], &[]).await;
    assert!(missing.contains("`pythonx3` cannot be started"), "{missing}");
    assert!(missing.contains("correct `command` in [adapter.one]"), "{missing}");
    // Found from the folder of the file that names it.
    let prints = why_not(&["python3", "a.py"], &[("a.py", "print('Hello, world')")]).await;
    assert!(prints.contains("\"Hell\"") && prints.contains("standard output"), "{prints}");
    let exits = SNAKE.replace("if kind != 1 or method == \"run\": continue", "if method == \"run\": sys.exit(7)");
    let exited = why_not(&["python3", "./a.py"], &[("a.py", &exits)]).await;
    assert_eq!(exited, "the process exited with code 7");
}

/// The frames in another language: hello, then one answer to every call.
pub(super) const SNAKE: &str = r#"
import json, struct, sys
def read():
    head = sys.stdin.buffer.read(4)
    if len(head) < 4: sys.exit(0)
    rest = sys.stdin.buffer.read(struct.unpack("<I", head)[0])
    kind, number, status, length = struct.unpack("<BQiH", rest[:15])
    return kind, number, rest[15:15 + length].decode(), rest[15 + length:]
def write(kind, number, status, body):
    rest = struct.pack("<BQiH", kind, number, status, 0) + json.dumps(body).encode()
    sys.stdout.buffer.write(struct.pack("<I", len(rest)) + rest)
    sys.stdout.buffer.flush()
kind, _, _, hello = read()
assert kind == 5 and json.loads(hello)["protocol"] == 1
manifest = {"schema": 1, "id": "snake", "label": "Snake", "version": "1.0.0", "sdk": "1.0.0", "abi": 1}
write(5, 0, 0, {"protocol": 1, "manifest": manifest})
while True:
    kind, number, method, _ = read()
    if kind != 1 or method == "run": continue
    if method == "send":
        write(2, number, 0, {"type": "delivered", "receipt": {"message_ids": ["41"], "at_ms": 0}})
    else:
        write(2, number, 0, {})
"#;
