//! Tasks that the host does by itself, and the ways to end them.

use std::sync::atomic::Ordering;

use super::*;
use crate::engine::background::wakeups;
use crate::engine::background::wakeups::Wake;
use hermes_store::{NewTask, Seat, TaskKind};

/// Returns the number of running turns of the person of these tests.
fn turns_of_seven(office: &Office) -> usize {
    office.world.host().working.of(Some("fake:7")).len()
}

fn nothing_runs(office: &Office) {
    office.world.until("nothing runs for them", || (turns_of_seven(office) == 0).then_some(()));
}

fn operator() -> crate::engine::background::tasks::act::By {
    crate::engine::background::tasks::act::By { viewer: Viewer::Operator, key: None, session: None }
}

/// Starts a task of the host that never ends.
fn run(office: &Office, title: &str) -> String {
    let before = office.heard().len();
    let task = office.act(&Chat::dm("7"), "7", wish(title)).split(' ').next().unwrap().to_owned();
    office.world.until("its turn runs", || (office.heard().len() == before + 2).then_some(()));
    task
}

#[test]
fn a_run_that_crashed_belongs_to_whoever_claims_it_and_none_of_their_turns_is_it() {
    let mut office = Office::new();
    let dm = Chat::dm("7");
    let task = run(&office, "hang on");
    office.world.crash();
    office.world.start();
    office.opens();
    office.world.chat("7").hears(3);
    assert_eq!(office.act(&dm, "7", TaskAction::Claim { task: task.clone() }), format!("{task} running"));
    office.world.settled();
    assert_eq!(office.state(&task), "running", "the turn that claimed it has not done it");
    office.world.chat("7").says("hang on");
    office.world.until("their own turn runs", || (turns_of_seven(&office) == 1).then_some(()));
    office.world.crash();
    office.world.start();
    office.opens();
    office.world.until("their own turn goes on", || (turns_of_seven(&office) == 1).then_some(()));
    assert_eq!(office.state(&task), "running", "with the task that it holds");
    let by = operator();
    office
        .world
        .block_on(crate::engine::background::tasks::give_up(office.world.host(), &by, &task, "enough"))
        .unwrap();
    let talk = office.world.chat("7");
    talk.says("/agents");
    let list =
        office.world.until("an answer", || talk.heard().into_iter().find(|text| text.contains("Running turns:")));
    assert!(list.contains("`hang on` (here"), "their own turn is not stopped for it: {list}");
}

#[test]
fn a_run_that_is_taken_from_the_host_with_the_tool_is_stopped() {
    let office = Office::new();
    let dm = Chat::dm("7");
    type Take = fn(String, String) -> TaskAction;
    let takes: [(Take, &str); 3] = [
        (|task, why| TaskAction::GiveUp { task, why }, "gave_up"),
        (|task, result| TaskAction::Complete { task, result }, "completed"),
        (|task, why| TaskAction::Block { task, why }, "blocked"),
    ];
    for (take, state) in takes {
        let task = run(&office, "hang on");
        assert_eq!(office.act(&dm, "7", take(task.clone(), "enough".to_owned())), format!("{task} {state}"));
        nothing_runs(&office);
        office.world.settled();
        assert_eq!(office.state(&task), state);
    }
}

#[test]
fn a_run_that_is_given_up_in_the_turn_that_made_it_does_not_go_on() {
    let office = Office::new();
    let wishes = [
        TaskAction::Create { title: "hang on".to_owned(), body: String::new(), run: true, timeout: None },
        TaskAction::GiveUp { task: "t".to_owned(), why: "on second thoughts".to_owned() },
    ];
    office.clerk.wishes.lock().unwrap().extend(wishes);
    let talk = office.world.chat("7");
    talk.says("act, then act");
    assert!(talk.hears(1)[0].ends_with("gave_up"));
    office.world.settled();
    nothing_runs(&office);
}

#[test]
fn a_run_that_ends_itself_wakes_whoever_made_it() {
    let office = Office::new();
    let wishes = [
        TaskAction::Create { title: "act".to_owned(), body: String::new(), run: true, timeout: None },
        TaskAction::Complete { task: "t".to_owned(), result: "forty-two".to_owned() },
    ];
    office.clerk.wishes.lock().unwrap().extend(wishes);
    let talk = office.world.chat("7");
    talk.says("act");
    let heard = talk.hears(3);
    assert!(heard[1].ends_with("is completed:\n\nforty-two"), "{heard:?}");
    assert_eq!(heard[2], "heard: forty-two", "woken");
    let turns = office.heard();
    assert_eq!(turns.last().unwrap().0.session_id, turns[0].0.session_id);
}

#[test]
fn a_run_asks_nobody_and_says_nothing_but_its_end() {
    let office = Office::new();
    let task = office.act(&Chat::dm("7"), "7", wish("ask first"));
    let task = task.split(' ').next().unwrap();
    let heard = office.world.chat("7").hears(3);
    assert!(heard[1].starts_with(&format!("Task `{task} ask first` is completed")), "{heard:?}");
    let answers = office.clerk.answers.lock().unwrap();
    let [Answer::Denied { why: Some(why) }] = answers.as_slice() else { panic!("{answers:?}") };
    assert!(why.contains("there is no user to ask"), "{why}");
}

fn wish(title: &str) -> TaskAction {
    TaskAction::Create { title: title.to_owned(), body: String::new(), run: true, timeout: None }
}

#[test]
fn what_a_run_left_behind_has_news_for_the_conversation_that_it_ran_beside() {
    let office = Office::new();
    let group = thread();
    office.act(&group, "7", wish("count"));
    office.world.talk(group.clone(), "7").hears(3);
    office.world.settled();
    let turns = office.heard();
    let (maker, run) = (turns[0].0.clone(), turns[1].0.session_id.clone().unwrap());
    let wake = Wake {
        id: "p1a:1".to_owned(),
        session: run,
        instance: "fake".to_owned(),
        chat: group.clone(),
        sender: Some(hermes_protocol::Sender::new("7")),
        text: "p1a has ended".to_owned(),
    };
    assert!(office.world.block_on(wakeups::wake(office.world.host(), wake)).unwrap());
    assert_eq!(office.world.talk(group, "7").hears(4)[3], "heard: p1a has ended");
    let turns = office.heard();
    let (woken, _) = turns.last().unwrap();
    assert_eq!((&woken.session_id, &woken.session_key), (&maker.session_id, &maker.session_key));
}

#[test]
fn a_background_turn_before_anything_was_said_has_the_conversation_that_is_said_in_next_as_its_parent() {
    let office = Office::new();
    let talk = office.world.chat("7");
    talk.says("/background count");
    talk.hears(2);
    office.world.settled();
    let aside = office.heard()[0].0.session_id.clone().unwrap();
    let row = office.world.block_on(office.world.host().store.session(&aside)).unwrap().unwrap();
    let parent = row.parent.unwrap();
    talk.says("hello");
    talk.hears(3);
    office.world.settled();
    assert_eq!(office.heard()[1].0.session_id.as_ref(), Some(&parent));
    let wake = Wake {
        id: "p1a:1".to_owned(),
        session: aside,
        instance: "fake".to_owned(),
        chat: Chat::dm("7"),
        sender: Some(hermes_protocol::Sender::new("7")),
        text: "p1a has ended".to_owned(),
    };
    assert!(office.world.block_on(wakeups::wake(office.world.host(), wake)).unwrap());
    assert_eq!(talk.hears(4)[3], "heard: p1a has ended");
    assert_eq!(office.heard().last().unwrap().0.session_id, Some(parent), "which is woken for what it left behind");
}

#[test]
fn a_host_that_rests_begins_no_run_and_one_that_waited_is_done_by_the_host_and_not_said_by_its_maker() {
    let office = Office::new();
    let dm = Chat::dm("7");
    office.world.chat("7").says("hello");
    office.world.chat("7").hears(1);
    let maker = office.heard()[0].0.clone();
    let host = office.world.host();
    host.rests.store(true, Ordering::Relaxed);
    let lent = office.clerk.ports.borrow().clone().unwrap();
    let refused = office.world.block_on(lent.tasks.act(&maker, wish("count"))).unwrap_err();
    assert!(refused.contains("draining"), "{refused}");
    // A task that is stored just before the restart.
    let sender = hermes_protocol::Sender::new("7");
    let event = hermes_protocol::Event::message("task:twaits", dm.clone(), sender.clone(), "count");
    let row = hermes_store::NewInbox {
        instance: "fake".to_owned(),
        event_id: event.event_id.clone(),
        at_ms: event.at_ms,
        received_ms: event.at_ms,
        event: serde_json::to_string(&event).unwrap(),
    };
    let worker = host.new_session_id();
    let new = NewTask {
        id: "twaits".to_owned(),
        kind: TaskKind::Run,
        profile: "main".to_owned(),
        owner: Some("fake:7".to_owned()),
        session: maker.session_id.clone().unwrap(),
        key: maker.session_key.clone(),
        title: "count".to_owned(),
        body: String::new(),
        claim: Some((host.epoch, Some(worker.clone()))),
        timeout_ms: None,
        subscriber: Some(Seat { instance: "fake".to_owned(), chat: dm, sender }),
        now_ms: host.now_ms(),
    };
    let made = host.store.task_run(new, row, vec![Message::user("the task")], 4, Vec::new());
    office.world.block_on(made).unwrap();
    let left = office.world.block_on(host.store.left_by_now()).unwrap();
    host.rests.store(false, Ordering::Relaxed);
    office.world.block_on(crate::engine::recovery::hear_again(host, &left)).unwrap();
    let heard = office.world.chat("7").hears(3);
    assert_eq!(heard[1], "Task `twaits count` is completed:\n\nheard: the task", "{heard:?}");
    assert_eq!(office.heard()[1].0.session_id, Some(worker), "in its own session");
}

#[test]
fn the_end_of_a_task_is_told_once_in_a_chat_whatever_became_of_its_conversations() {
    let office = Office::new();
    let dm = Chat::dm("7");
    let task = office.create(&dm, "7", false);
    let talk = office.world.chat("7");
    talk.says("/new");
    let before = talk.hears(2).len();
    office.act(&dm, "7", TaskAction::Subscribe { task: task.clone() });
    let by = operator();
    office
        .world
        .block_on(crate::engine::background::tasks::give_up(office.world.host(), &by, &task, "no rain"))
        .unwrap();
    assert_eq!(talk.hears(before + 2)[before + 1], format!("Task `{task} mend the roof` was given up:\n\nno rain"));
    office.world.settled();
    let untold = || office.world.block_on(office.world.host().store.tasks_untold()).unwrap();
    office.world.until("everybody is told", || untold().is_empty().then_some(()));
    office.world.settled();
    assert_eq!(talk.heard().len(), before + 2, "{:?}", talk.heard());
}

#[test]
fn too_many_open_tasks_are_not_said_to_run() {
    let office = Office::new();
    let dm = Chat::dm("7");
    office.create(&dm, "7", false);
    let maker = office.heard()[0].0.clone();
    let lent = office.clerk.ports.borrow().clone().unwrap();
    let make = || TaskAction::Create { title: "more".to_owned(), body: String::new(), run: false, timeout: None };
    while office.world.block_on(lent.tasks.act(&maker, make())).is_ok() {}
    let full = office.world.block_on(lent.tasks.act(&maker, wish("run"))).unwrap_err();
    assert_eq!(full, "there are already 100 tasks that have not ended; end or archive some first");
}
