//! The effects of every way to stop work: the stopped work, and the notices.

use tokio_util::sync::CancellationToken;

use super::*;
use crate::engine::background::tasks::act::By;

/// A helper of the conversation of the last turn.
struct Helper {
    task: String,
    stop: CancellationToken,
}

impl Office {
    /// Lets a turn delegate a task and end.
    fn hands_on(&self, chat: &Chat, who: &str, what: &str) -> Helper {
        let talk = self.world.talk(chat.clone(), who);
        let before = talk.heard().len();
        talk.says("hello");
        talk.hears(before + 1);
        self.world.settled();
        let context = self.heard().last().unwrap().0.clone();
        self.handed_on(&context, what)
    }

    fn handed_on(&self, context: &TurnContext, what: &str) -> Helper {
        let lent = self.lent();
        let stop = CancellationToken::new();
        let task = self.world.block_on(lent.tasks.began(context, what, stop.clone())).unwrap().unwrap();
        self.world.block_on(lent.wakeups.subscribe(context, &task, what)).unwrap();
        Helper { task, stop }
    }

    fn lent(&self) -> Ports {
        self.clerk.ports.borrow().clone().unwrap()
    }

    /// Ends a helper; returns whether its result still has to be reported.
    fn is_over(&self, helper: &Helper, end: Result<&str, &str>) -> bool {
        let end = end.map(str::to_owned).map_err(str::to_owned);
        self.world.block_on(self.lent().tasks.ended(&helper.task, end))
    }

    /// Returns the wake-ups of the agent.
    fn woken(&self) -> Vec<String> {
        let all = self.heard().into_iter().map(|(_, said)| said);
        all.filter(|said| said.contains("System: a background job you started")).collect()
    }

    fn is_told_of_nothing_more(&self) {
        self.world.settled();
        let untold = || self.world.block_on(self.world.host().store.tasks_untold()).unwrap();
        self.world.until("everybody is told", || untold().is_empty().then_some(()));
        self.world.settled();
    }
}

fn elsewhere() -> Chat {
    let mut chat = Chat::dm("7");
    chat.thread = Some("9".to_owned());
    chat
}

fn operator() -> By {
    By { viewer: Viewer::Operator, key: None, session: None }
}

/// The ways to stop work, including whether they start in its own conversation.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Road {
    Command,
    CommandElsewhere,
    Tool,
    ToolElsewhere,
    CommandLine,
}

impl Road {
    const ALL: [Self; 5] = [Self::Command, Self::CommandElsewhere, Self::Tool, Self::ToolElsewhere, Self::CommandLine];

    fn is_its_own_conversation(self) -> bool {
        matches!(self, Self::Command | Self::Tool)
    }

    /// Stops the work of this name in this way.
    fn stops(self, office: &Office, name: &str) {
        let chat = if self.is_its_own_conversation() { Chat::dm("7") } else { elsewhere() };
        match self {
            Self::Command | Self::CommandElsewhere => {
                let talk = office.world.talk(chat, "7");
                let before = talk.heard().len();
                talk.says(&format!("/agents stop {name}"));
                talk.hears(before + 1);
            }
            Self::Tool | Self::ToolElsewhere => {
                let why = "enough".to_owned();
                let said = office.act(&chat, "7", TaskAction::GiveUp { task: name.to_owned(), why });
                assert_eq!(said, format!("{name} gave_up"));
            }
            Self::CommandLine => {
                let by = operator();
                office
                    .world
                    .block_on(crate::engine::background::tasks::give_up(office.world.host(), &by, name, "enough"))
                    .unwrap();
            }
        }
        office.is_told_of_nothing_more();
    }
}

#[test]
fn a_stop_reaches_a_helper_by_every_road_and_its_session_hears_of_it_unless_it_was_said_there() {
    for road in Road::ALL {
        let office = Office::new();
        let helper = office.hands_on(&Chat::dm("7"), "7", "count the stars");
        road.stops(&office, &helper.task);
        assert!(helper.stop.is_cancelled(), "{road:?}");
        assert_eq!(office.state(&helper.task), "gave_up", "{road:?}");
        assert!(!office.is_over(&helper, Err("it was stopped")), "{road:?}: whoever stopped it has told that");
        let woken = office.woken();
        match road.is_its_own_conversation() {
            true => assert!(woken.is_empty(), "{road:?}: {woken:?}"),
            false => {
                assert_eq!(woken.len(), 1, "{road:?}: {woken:?}");
                assert!(woken[0].contains("(count the stars) was not completed: "), "{road:?}: {woken:?}");
            }
        }
        let watch = office.world.block_on(office.world.host().store.watch(&helper.task)).unwrap();
        assert!(watch.is_none(), "{road:?}: nobody waits for it any more");
    }
}

#[test]
fn who_hears_of_the_end_of_a_run_does_not_depend_on_what_it_was_called_by() {
    for road in Road::ALL {
        for by_number in [false, true] {
            let has_numbers = matches!(road, Road::Command | Road::CommandElsewhere);
            if by_number && !has_numbers {
                continue;
            }
            let office = Office::new();
            let dm = Chat::dm("7");
            let wish =
                TaskAction::Create { title: "hang on".to_owned(), body: String::new(), run: true, timeout: None };
            let task = office.act(&dm, "7", wish).split(' ').next().unwrap().to_owned();
            office.world.until("its turn runs", || (office.heard().len() == 2).then_some(()));
            let turn = office.world.host().working.of(Some("fake:7")).pop().unwrap().turn.to_string();
            road.stops(&office, if by_number { &turn } else { &task });
            let case = format!("{road:?}, by number: {by_number}");
            assert_eq!(office.state(&task), "gave_up", "{case}");
            let told = office.world.chat("7").heard();
            let told = told.iter().filter(|text| text.starts_with(&format!("Task `{task} hang on` was given up")));
            assert_eq!(told.count(), 1, "{case}");
            assert_eq!(office.woken().len(), usize::from(!road.is_its_own_conversation()), "{case}");
        }
    }
}

#[test]
fn the_chat_of_a_background_turn_hears_that_it_was_ended_unless_that_was_said_there() {
    for road in Road::ALL {
        let office = Office::new();
        office.world.chat("7").says("/background hang on");
        office.world.chat("7").hears(1);
        office.world.until("its turn runs", || (office.heard().len() == 1).then_some(()));
        let tasks = office.world.block_on(office.world.host().store.tasks(Viewer::Operator, false, 10)).unwrap();
        road.stops(&office, &tasks[0].id);
        assert_eq!(office.state(&tasks[0].id), "gave_up", "{road:?}");
        let told = format!("Task `{} hang on` is given up: ", tasks[0].id);
        let heard = office.world.chat("7").heard();
        let told = heard.iter().filter(|text| text.starts_with(&told)).count();
        assert_eq!(told, usize::from(!road.is_its_own_conversation()), "{road:?}: {heard:?}");
        let working = || office.world.host().working.of(Some("fake:7"));
        office.world.until("it runs no more", || working().is_empty().then_some(()));
        assert!(office.woken().is_empty(), "{road:?}");
    }
}

#[test]
fn what_a_helper_does_behind_a_turn_is_listed_until_it_ends_and_nobody_is_told() {
    let mut office = Office::new();
    let helper = office.hands_on(&Chat::dm("7"), "7", "count the stars");
    assert_eq!(office.state(&helper.task), "running");
    assert_eq!(office.world.host().helpers.of("agent:main:fake:dm:7"), 1);
    assert!(office.is_over(&helper, Ok("many")), "whoever did it tells that");
    assert_eq!(office.state(&helper.task), "completed");
    assert_eq!(office.world.host().helpers.of("agent:main:fake:dm:7"), 0);
    let context = office.heard()[0].0.clone();
    let lost = office.handed_on(&context, "and the planets");
    office.is_told_of_nothing_more();
    assert_eq!(office.world.chat("7").heard().len(), 1);
    office.world.crash();
    office.world.start();
    office.opens();
    assert_eq!(office.state(&lost.task), "crashed");
}

#[test]
fn a_host_that_died_before_it_told_how_a_helper_ended_tells_it_in_its_next_life() {
    let mut office = Office::new();
    let helper = office.hands_on(&Chat::dm("7"), "7", "count the stars");
    let lost = office.handed_on(&office.heard()[0].0.clone(), "and the planets");
    assert!(office.is_over(&helper, Ok("many")));
    office.world.crash();
    office.world.start();
    office.opens();
    office.world.block_on(crate::engine::background::wakeups::take_up(office.world.host()));
    office
        .world
        .until("both are told", || (office.woken().join(" ").matches("you delegated").count() >= 1).then_some(()));
    office.is_told_of_nothing_more();
    let woken = office.woken().join("\n");
    assert!(woken.contains("The task you delegated (count the stars) is done. Its result:\nmany"), "{woken}");
    assert!(woken.contains("(and the planets): interrupted, outcome unknown"), "{woken}");
    assert_eq!(office.state(&lost.task), "crashed");
}

#[test]
fn what_nobody_could_end_does_not_begin() {
    let office = Office::new();
    let dm = Chat::dm("7");
    office.create(&dm, "7", false);
    let maker = office.heard()[0].0.clone();
    let make = || TaskAction::Create { title: "more".to_owned(), body: String::new(), run: false, timeout: None };
    while office.world.block_on(office.lent().tasks.act(&maker, make())).is_ok() {}
    let began = office.world.block_on(office.lent().tasks.began(&maker, "count", CancellationToken::new()));
    assert!(began.unwrap_err().starts_with("there are already 100 tasks"));
    assert_eq!(office.world.host().helpers.of(&maker.session_key), 0);
}

#[test]
fn a_bare_stop_says_how_it_is_used_and_the_beginning_of_an_id_is_enough() {
    let office = Office::new();
    let talk = office.world.chat("7");
    talk.says("/agents stop");
    let usage = "Use `/agents`, or `/agents stop` with a number or an id from its list.";
    assert_eq!(talk.hears(1), [usage]);
    talk.says("/agents stopped");
    assert_eq!(talk.hears(2)[1], usage);
    let helper = office.hands_on(&Chat::dm("7"), "7", "count the stars");
    talk.says(&format!("/agents stop {}", &helper.task[..4]));
    assert_eq!(talk.hears(4)[3], format!("Given up: `{} count the stars`.", helper.task));
    let session = office.heard()[0].0.session_id.clone().unwrap();
    for id in ["p1ab", "p1ac", "p2"] {
        let left = BackgroundProcess { id: id.to_owned(), command: "sleep 9".to_owned(), runs_for: Default::default() };
        office.clerk.left.lock().unwrap().push((session.clone(), left));
    }
    talk.says("/agents stop p1a");
    assert_eq!(talk.hears(5)[4], "Several ids begin with \"p1a\" (p1ab, p1ac); give more of the id.");
    talk.says("/agents stop p1ab");
    assert_eq!(talk.hears(6)[5], "Ended: `p1ab`.");
    talk.says("/agents stop p1");
    assert_eq!(talk.hears(7)[6], "Ended: `p1ac`.");
    talk.says("/agents stop p");
    assert!(talk.hears(8)[7].starts_with("Nothing of yours has that number or id"));
}

#[test]
fn a_stop_where_no_turn_runs_says_what_does() {
    let office = Office::new();
    let talk = office.world.chat("7");
    talk.says("/stop");
    assert_eq!(talk.hears(1), ["Nothing is running."]);
    let helper = office.hands_on(&Chat::dm("7"), "7", "count the stars");
    let session = office.heard()[0].0.session_id.clone().unwrap();
    for id in ["p1", "p2"] {
        let left = BackgroundProcess { id: id.to_owned(), command: "sleep 9".to_owned(), runs_for: Default::default() };
        office.clerk.left.lock().unwrap().push((session.clone(), left));
    }
    talk.says("/background hang on");
    let before = talk.hears(3).len();
    office.world.until("its turn runs", || (office.heard().len() == 2).then_some(()));
    talk.says("/stop");
    assert_eq!(
        talk.hears(before + 1)[before],
        "No turn is running here. In the background: 2 commands, 1 turn, 1 sub-agent. `/agents` lists what is \
         running; `/agents stop ID` stops one."
    );
    assert!(!helper.stop.is_cancelled(), "and ends none of it");
    let stranger = office.world.chat("8");
    stranger.says("/stop");
    assert_eq!(stranger.hears(1), ["Nothing is running."]);
}

#[test]
fn the_operator_sees_commands_in_the_background_with_their_conversation_and_since_when() {
    use crate::engine::background::processes::{listed, meant};
    let office = Office::new();
    let command = format!("echo {} `x`", "y".repeat(200));
    for (id, minutes) in [("p1ab", 2), ("p1ac", 1)] {
        let runs_for = std::time::Duration::from_secs(60 * minutes);
        let left = BackgroundProcess { id: id.to_owned(), command: command.clone(), runs_for };
        office.clerk.left.lock().unwrap().push((SessionId("s1".to_owned()), left));
    }
    let host = office.world.host();
    let all = listed(host);
    let shown: Vec<_> = all.iter().map(|one| (one.id.as_str(), one.kind.as_str(), one.chat.as_deref())).collect();
    let chat = Some("agent:main:fake:dm:7");
    assert_eq!(shown, [("p1ab", "command", chat), ("p1ac", "command", chat)]);
    assert_eq!(all[0].title.chars().count(), 61, "{}", all[0].title);
    assert_eq!(all[1].created_ms - all[0].created_ms, 60_000);
    assert_eq!(meant(host, "p1").unwrap_err(), ["p1ab", "p1ac"]);
    assert_eq!(meant(host, "p1ac").unwrap().unwrap().id, "p1ac");
    assert_eq!((meant(host, "p").unwrap(), meant(host, "t1").unwrap()), (None, None));
}
