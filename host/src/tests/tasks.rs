//! Tasks from the view of a chat: created in one conversation, ended in another, reported where they were created.

mod runs;
mod stops;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use hermes_agent::questions::{ApprovalRequest, TurnQuestion};
use hermes_agent::tools::Ports;
use hermes_agent::tools::ports::TaskAction;
use hermes_agent::{AgentRuntime, BackgroundProcess, EventSink, Message, OwnedProcess, TurnOutcome, TurnRequest};
use hermes_core::approvals::Answer;
use hermes_core::context::TurnContext;
use hermes_core::ids::SessionId;
use hermes_protocol::{Chat, ChatType};
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::world::{Setting, World};
use crate::engine::tools::{Lent, ports};
use hermes_store::Viewer;

/// An agent that carries out requested operations on tasks, and reports the result.
struct Clerk {
    ports: watch::Sender<Option<Ports>>,
    wishes: Mutex<VecDeque<TaskAction>>,
    heard: Mutex<Vec<(TurnContext, String)>>,
    /// The background commands, with their sessions.
    left: Mutex<Vec<(SessionId, BackgroundProcess)>>,
    /// The answers to its questions.
    answers: Mutex<Vec<Answer>>,
}

impl Clerk {
    async fn work(&self, request: TurnRequest, events: EventSink) -> TurnOutcome {
        let said = request.input.last().map(|message| message.content.clone()).unwrap_or_default();
        self.heard.lock().unwrap().push((request.context.clone(), said.clone()));
        if said.ends_with("hang on") {
            std::future::pending::<()>().await;
        }
        if said.ends_with("ask first") {
            let approval = ApprovalRequest { action: "burn it".to_owned(), ..ApprovalRequest::default() };
            let answer = events.ask(TurnQuestion::Approval(approval)).await;
            self.answers.lock().unwrap().push(answer);
        }
        let mut done = Vec::new();
        for _ in said.matches("act") {
            let Some(wish) = self.wishes.lock().unwrap().pop_front() else { break };
            done.push(self.act(&request.context, wish).await);
        }
        if said.ends_with("and wait") {
            std::future::pending::<()>().await;
        }
        let text = match done.is_empty() {
            true => format!("heard: {}", said.lines().last().unwrap_or_default()),
            false => done.join(", "),
        };
        TurnOutcome::Finished {
            messages: vec![Message::assistant(text.clone())],
            text,
            usage: Default::default(),
            finish_reason: "stop".to_owned(),
            model: String::new(),
            state: None,
        }
    }

    async fn act(&self, context: &TurnContext, wish: TaskAction) -> String {
        let mut lent = self.ports.subscribe();
        let lent = lent.wait_for(Option::is_some).await.unwrap().clone().unwrap();
        match lent.tasks.act(context, wish).await {
            Ok(done) => format!("{} {}", done["task"].as_str().unwrap(), done["state"].as_str().unwrap()),
            Err(why) => why,
        }
    }
}

impl AgentRuntime for Clerk {
    fn name(&self) -> &'static str {
        "clerk"
    }

    fn models(&self) -> Vec<String> {
        vec!["clerk".to_owned()]
    }

    fn processes(&self, context: &TurnContext) -> Vec<BackgroundProcess> {
        let own = self.left.lock().unwrap().clone();
        own.into_iter()
            .filter(|(session, _)| Some(session) == context.session_id.as_ref())
            .map(|(_, left)| left)
            .collect()
    }

    fn end_process(&self, context: &TurnContext, id: &str) -> bool {
        let is_it = |(session, left): &(SessionId, BackgroundProcess)| {
            Some(session) == context.session_id.as_ref() && left.id == id
        };
        let mut left = self.left.lock().unwrap();
        let before = left.len();
        left.retain(|one| !is_it(one));
        left.len() < before
    }

    fn all_processes(&self) -> Vec<OwnedProcess> {
        let all = self.left.lock().unwrap().clone();
        let key = || "agent:main:fake:dm:7".to_owned();
        all.into_iter().map(|(session, left)| OwnedProcess { key: key(), session: Some(session), left }).collect()
    }

    fn run(&self, request: TurnRequest, events: EventSink, cancel: CancellationToken) -> BoxFuture<'_, TurnOutcome> {
        Box::pin(async move {
            let worked = cancel.run_until_cancelled(self.work(request, events)).await;
            worked.unwrap_or(TurnOutcome::Interrupted { text: String::new() })
        })
    }
}

struct Office {
    world: World,
    clerk: Arc<Clerk>,
}

impl Office {
    fn new() -> Self {
        Self::with(Setting::default())
    }

    fn with(setting: Setting) -> Self {
        let clerk = Clerk {
            ports: watch::Sender::new(None),
            wishes: Mutex::default(),
            heard: Mutex::default(),
            left: Mutex::default(),
            answers: Mutex::default(),
        };
        let clerk = Arc::new(clerk);
        let runtime: Arc<dyn AgentRuntime> = clerk.clone();
        let section = "access = { allowed_users = [\"7\", \"8\", \"9\"], admins = [\"66\"] }\n\
             session = { require_mention = false }";
        let world = World::with(Setting { runtime: Some(runtime), section: section.to_owned(), ..setting });
        let office = Self { world, clerk };
        office.opens();
        office
    }

    /// Connects the tools to the current run of the host.
    fn opens(&self) {
        let lent = Arc::new(Lent::default());
        lent.serve(self.world.host());
        self.clerk.ports.send_replace(Some(ports(&lent)));
    }

    /// Lets a sender request an operation on a task; returns the agent's first answer.
    fn act(&self, chat: &Chat, who: &str, wish: TaskAction) -> String {
        self.clerk.wishes.lock().unwrap().push_back(wish);
        let talk = self.world.talk(chat.clone(), who);
        let before = talk.heard().len();
        talk.says("act");
        // A notice about an earlier task may arrive in between.
        let is_answer = |text: &String| !text.starts_with("Task `");
        self.world.until("an answer", || talk.heard().into_iter().skip(before).find(is_answer))
    }

    /// Creates a task; returns its id.
    fn create(&self, chat: &Chat, who: &str, run: bool) -> String {
        let (title, body) = ("mend the roof".to_owned(), "before it rains".to_owned());
        let said = self.act(chat, who, TaskAction::Create { title, body, run, timeout: None });
        said.split(' ').next().unwrap().to_owned()
    }

    fn complete(&self, chat: &Chat, who: &str, task: &str) -> String {
        let result = "tight *again*".to_owned();
        self.act(chat, who, TaskAction::Complete { task: task.to_owned(), result })
    }

    fn heard(&self) -> Vec<(TurnContext, String)> {
        self.clerk.heard.lock().unwrap().clone()
    }

    fn state(&self, task: &str) -> String {
        let tasks = self.world.block_on(self.world.host().store.tasks(Viewer::Operator, true, 100)).unwrap();
        tasks.iter().find(|row| row.id == task).unwrap().state.word().to_owned()
    }
}

fn thread() -> Chat {
    let mut chat = Chat::new(ChatType::Group, "-100");
    chat.thread = Some("5".to_owned());
    chat
}

#[test]
fn what_is_made_in_a_thread_and_ended_in_another_chat_is_told_once_and_wakes_the_agent_in_that_thread() {
    let mut office = Office::new();
    let group = thread();
    let task = office.create(&group, "7", false);
    assert_eq!(office.complete(&Chat::dm("7"), "7", &task), format!("{task} completed"));
    let there = office.world.talk(group.clone(), "7").hears(3);
    assert_eq!(there[1], format!("Task `{task} mend the roof` is completed:\n\ntight *again*"));
    assert_eq!(there[2], "heard: tight *again*");
    office.world.settled();
    let turns = office.heard();
    let (context, said) = turns.last().unwrap();
    assert!(said.contains("[System: ") && said.contains(&task), "{said}");
    assert_eq!((context.thread_id.as_str(), &context.session_id), ("5", &turns[0].0.session_id));
    office.world.crash();
    office.world.start();
    office.opens();
    office.world.settled();
    assert_eq!(office.world.talk(group, "7").heard().len(), 3, "once");
    assert_eq!(office.world.chat("7").heard().len(), 1, "whoever ended it is not told");
}

#[test]
fn what_is_ended_where_it_was_made_wakes_nobody_and_a_group_sees_only_its_own() {
    let office = Office::new();
    let dm = Chat::dm("7");
    let task = office.create(&dm, "7", false);
    office.complete(&thread(), "7", &task);
    // A group sees only the tasks that were created in it.
    office.world.settled();
    assert_eq!(office.state(&task), "ready");
    let other = office.act(&thread(), "7", TaskAction::Show { task: task.clone() });
    assert_eq!(other, format!("there is no task \"{task}\""));
    let foreign = office.complete(&Chat::dm("8"), "8", &task);
    assert_eq!(foreign, format!("there is no task \"{task}\""));
    // Ended in the conversation that created it: the chat gets a notice, and no session is woken.
    office.complete(&dm, "7", &task);
    let heard = office.world.chat("7").hears(3);
    assert!(heard[2].starts_with("Task `"), "{heard:?}");
    office.world.settled();
    assert!(!office.heard().iter().any(|(_, said)| said.contains("[System: ")), "woken by what it did itself");
}

#[test]
fn whoever_made_a_task_in_a_direct_message_is_woken_there_when_another_conversation_ends_it() {
    let office = Office::new();
    let dm = Chat::dm("7");
    let task = office.create(&dm, "7", false);
    let mut elsewhere = Chat::dm("7");
    elsewhere.thread = Some("9".to_owned());
    assert_eq!(office.complete(&elsewhere, "7", &task), format!("{task} completed"));
    let there = office.world.chat("7").hears(3);
    assert_eq!(there[1], format!("Task `{task} mend the roof` is completed:\n\ntight *again*"));
    assert_eq!(there[2], "heard: tight *again*");
    let turns = office.heard();
    let (woken, said) = turns.last().unwrap();
    assert!(said.contains("[System: ") && said.contains(&task), "{said}");
    assert_eq!(woken.session_id, turns[0].0.session_id);
}

#[test]
fn a_group_shares_what_was_made_in_it() {
    let office = Office::new();
    let group = thread();
    let task = office.create(&group, "7", false);
    assert_eq!(office.act(&group, "8", TaskAction::Claim { task: task.clone() }), format!("{task} running"));
    let again = office.act(&group, "8", TaskAction::Claim { task: task.clone() });
    assert_eq!(again, format!("{task} stays running: a task that is running cannot be claimed"));
}

#[test]
fn whoever_may_not_speak_any_more_is_told_nothing_of_tasks() {
    let mut office = Office::new();
    let group = thread();
    let task = office.create(&group, "9", false);
    office.world.settled();
    office.world.crash();
    office.world.set_section("access = { allowed_users = [\"7\", \"8\"], operators = [\"7\", \"8\"] }\nsession = { require_mention = false }");
    office.world.start();
    office.opens();
    office.complete(&group, "8", &task);
    office.world.until("nothing is left to tell", || {
        office.world.block_on(office.world.host().store.tasks_untold()).unwrap().is_empty().then_some(())
    });
    office.world.settled();
    assert_eq!(office.world.talk(group, "8").heard().len(), 2, "what 9 and 8 were answered");
}

#[test]
fn what_runs_by_itself_makes_nothing_that_runs_by_itself() {
    let office = Office::new();
    let dm = Chat::dm("7");
    let wish =
        |title: &str| TaskAction::Create { title: title.to_owned(), body: String::new(), run: true, timeout: None };
    office.clerk.wishes.lock().unwrap().extend([wish("act once more"), wish("without end")]);
    let talk = office.world.talk(dm, "7");
    talk.says("act");
    let heard = talk.hears(2);
    office.world.settled();
    assert!(
        heard[1].contains("is completed") && heard[1].contains("cannot create a task that runs by itself"),
        "{heard:?}"
    );
    let tasks = office.world.block_on(office.world.host().store.tasks(Viewer::Operator, true, 100)).unwrap();
    assert_eq!(tasks.len(), 1);
}

#[test]
fn a_claim_of_a_dead_host_has_crashed_and_its_maker_hears_of_it_once() {
    let mut office = Office::new();
    let dm = Chat::dm("7");
    let task = office.create(&dm, "7", false);
    office.act(&dm, "7", TaskAction::Claim { task: task.clone() });
    office.world.settled();
    office.world.crash();
    office.world.start();
    office.opens();
    let heard = office.world.chat("7").hears(4);
    assert!(heard[2].contains("crashed: the host ended while it ran"), "{heard:?}");
    assert!(heard[3].starts_with("heard: "), "woken: {heard:?}");
    office.world.settled();
    office.world.crash();
    office.world.start();
    office.opens();
    office.world.settled();
    assert_eq!(office.world.chat("7").heard().len(), 4);
    assert_eq!(office.act(&dm, "7", TaskAction::Claim { task: task.clone() }), format!("{task} running"));
}

#[test]
fn a_burst_is_told_in_one_message_and_answered_in_one_turn() {
    let office = Office::new();
    let (group, dm) = (thread(), Chat::dm("7"));
    let tasks: Vec<String> = (0..3).map(|_| office.create(&group, "7", false)).collect();
    office.world.settled();
    let before = office.heard().len();
    // The host completes all of them within a moment.
    for task in &tasks {
        let change = hermes_core::task::TaskChange::Completed { result: "done".to_owned() };
        let by = crate::engine::background::tasks::act::By {
            viewer: Viewer::Person("fake:7".to_owned()),
            key: None,
            session: None,
        };
        let host = office.world.host();
        let done = crate::engine::background::tasks::act::change_one(host, &by, task, change, "");
        office.world.block_on(done).unwrap();
    }
    let heard = office.world.talk(group.clone(), "7").hears(5);
    let lines: Vec<String> =
        tasks.iter().map(|task| format!("- Task `{task} mend the roof` is completed: done")).collect();
    let told = heard[3..].iter().filter(|text| lines.iter().all(|line| text.contains(line))).count();
    assert_eq!(told, 1, "{heard:?}");
    office.world.settled();
    assert_eq!(office.heard().len(), before + 1, "one turn");
    assert_eq!(office.world.talk(dm, "7").heard().len(), 0);
}

#[test]
fn where_nothing_is_delivered_later_a_task_is_made_and_nobody_is_told() {
    let capabilities = serde_json::json!({
        "text": { "limit": 4096, "unit": "scalars", "dialect": "commonmark" }, "supports_async_delivery": false,
    });
    let office = Office::with(Setting { capabilities, ..Setting::default() });
    let lent = office.clerk.ports.borrow().clone().unwrap();
    let context = TurnContext {
        source: "fake".to_owned(),
        user_id: "7".to_owned(),
        owner: "fake:7".to_owned(),
        person: "fake:7".to_owned(),
        chat: Some(Chat::dm("7")),
        session_id: Some(office.world.host().new_session_id()),
        session_key: "agent:main:fake:dm:7".to_owned(),
        ..TurnContext::default()
    };
    let wish =
        TaskAction::Create { title: "a\u{1b}[31m\nb".to_owned(), body: String::new(), run: false, timeout: None };
    let made: Value = office.world.block_on(lent.tasks.act(&context, wish)).unwrap();
    assert_eq!(made["title"], "a b", "one plain line");
    let task = made["task"].as_str().unwrap().to_owned();
    let done = TaskAction::Complete { task, result: "done".to_owned() };
    office.world.block_on(lent.tasks.act(&context, done)).unwrap();
    office.world.settled();
    assert!(office.world.block_on(office.world.host().store.tasks_untold()).unwrap().is_empty());
    assert!(office.world.chat("7").heard().is_empty());
}

#[test]
fn the_host_does_a_task_by_itself_and_its_answer_is_the_result() {
    let office = Office::new();
    let group = thread();
    let task = office.create(&group, "7", true);
    let heard = office.world.talk(group.clone(), "7").hears(3);
    assert_eq!(heard[1], format!("Task `{task} mend the roof` is completed:\n\nheard: before it rains"));
    assert_eq!(heard[2], "heard: heard: before it rains", "and the agent was woken with it");
    office.world.settled();
    let turns = office.heard();
    let run = &turns[1];
    assert!(run.1.contains(&format!("you are running task {task} unattended")), "{}", run.1);
    assert_eq!((run.0.thread_id.as_str(), run.0.user_id.as_str()), ("5", "7"), "over the maker's interface");
    assert_ne!(run.0.session_id, turns[0].0.session_id, "in a session of its own");
    assert_eq!(turns[2].0.session_id, turns[0].0.session_id);
}

#[test]
fn a_task_that_the_host_was_doing_has_crashed_with_it_and_is_not_done_again() {
    let mut office = Office::new();
    let dm = Chat::dm("7");
    let title = "hang on".to_owned();
    let wish = TaskAction::Create { title, body: String::new(), run: true, timeout: None };
    let said = office.act(&dm, "7", wish);
    let task = said.split(' ').next().unwrap().to_owned();
    office.world.until("its turn runs", || (office.heard().len() == 2).then_some(()));
    office.world.crash();
    office.world.start();
    office.opens();
    let heard = office.world.chat("7").hears(2);
    assert!(heard[1].contains("crashed"), "{heard:?}");
    office.world.chat("7").hears(3);
    office.world.settled();
    assert_eq!(office.heard().len(), 3, "a turn that was woken, and none that does it again");
    assert_eq!(office.state(&task), "crashed");
}

#[test]
fn what_runs_in_the_background_is_a_task_and_nobody_is_told_twice() {
    let office = Office::new();
    office.world.chat("7").says("/background count the stars");
    let heard = office.world.chat("7").hears(2);
    assert!(heard[1].contains("heard: count the stars"), "{heard:?}");
    office.world.settled();
    let tasks = office.world.block_on(office.world.host().store.tasks(Viewer::Person("fake:7".to_owned()), true, 10));
    let tasks = tasks.unwrap();
    assert_eq!(tasks.len(), 1);
    assert_eq!((tasks[0].title.as_str(), tasks[0].state.word()), ("count the stars", "completed"));
    assert_eq!(tasks[0].said.as_deref(), Some("heard: count the stars"));
    office.world.settled();
    assert_eq!(office.world.chat("7").heard().len(), 2);
}

#[test]
fn a_turn_in_the_background_that_a_crash_cut_off_goes_on_with_its_task() {
    let mut office = Office::new();
    office.world.chat("7").says("/background hang on");
    office.world.until("its turn runs", || (office.heard().len() == 1).then_some(()));
    office.world.crash();
    office.world.start();
    office.opens();
    office.world.until("its turn runs again", || (office.heard().len() == 2).then_some(()));
    let tasks = office.world.block_on(office.world.host().store.tasks(Viewer::Operator, true, 10)).unwrap();
    assert_eq!((tasks.len(), tasks[0].state.word()), (1, "running"));
    assert_eq!(tasks[0].state.epoch(), Some(office.world.host().epoch));
}

#[test]
fn time_that_runs_out_is_told_and_its_turn_is_stopped() {
    let office = Office::new();
    let dm = Chat::dm("7");
    let timeout = Some(std::time::Duration::from_secs(60));
    let wish = TaskAction::Create { title: "hang on".to_owned(), body: String::new(), run: true, timeout };
    let said = office.act(&dm, "7", wish);
    let task = said.split(' ').next().unwrap().to_owned();
    office.world.until("its turn runs", || (office.heard().len() == 2).then_some(()));
    office.world.passes(std::time::Duration::from_secs(61));
    office.world.sweeps();
    let heard = office.world.chat("7").hears(2);
    assert!(heard[1].contains("ran out of time"), "{heard:?}");
    office.world.settled();
    assert_eq!(office.state(&task), "timed_out");
}

#[test]
fn tasks_are_listed_beside_what_runs_and_one_is_stopped_by_its_id() {
    let office = Office::new();
    let dm = Chat::dm("7");
    let ready = office.create(&dm, "7", false);
    let wish = TaskAction::Create { title: "hang on".to_owned(), body: String::new(), run: true, timeout: None };
    let runs = office.act(&dm, "7", wish).split(' ').next().unwrap().to_owned();
    office.world.until("its turn runs", || (office.heard().len() == 3).then_some(()));
    let talk = office.world.talk(dm, "7");
    talk.says("/agents");
    let list = talk.hears(3).remove(2);
    assert!(list.contains("`hang on` (in the background, 0 min)"), "{list}");
    assert!(list.ends_with(&format!("Tasks:\n- `{ready} mend the roof` (ready)")), "once, as a turn: {list}");
    let stranger = office.world.chat("8");
    stranger.says(&format!("/agents stop {ready}"));
    assert_eq!(stranger.hears(1), [format!("Not stopped: there is no task \"{ready}\".")]);
    talk.says(&format!("/agents stop {ready}x"));
    let near = talk.hears(4).remove(3);
    assert!(near.contains("did you mean") && near.ends_with('?'), "{near}");
    talk.says(&format!("/agents stop {runs}"));
    talk.hears(6);
    let heard = talk.heard();
    assert!(heard.contains(&format!("Given up: `{runs} hang on`.")), "{heard:?}");
    office.world.settled();
    assert_eq!(office.state(&runs), "gave_up");
    assert_eq!(office.state(&ready), "ready");
}

#[test]
fn a_group_is_not_told_what_somebody_has_the_agent_do_elsewhere() {
    let office = Office::new();
    office.world.chat("7").says("hang on");
    office.world.until("its turn runs", || (office.heard().len() == 1).then_some(()));
    let private = office.create(&Chat::dm("8"), "8", false);
    let group = office.world.talk(thread(), "7");
    group.says("/background hang on");
    group.hears(1);
    group.says("/agents");
    let list = group.hears(2).remove(1);
    assert!(list.contains("(in the background") && !list.contains("elsewhere"), "{list}");
    let group = office.world.talk(thread(), "8");
    group.says("/agents");
    let list = group.hears(3).remove(2);
    assert!(!list.contains(&private), "{list}");
}

#[test]
fn commands_in_the_background_are_listed_where_they_were_left_and_ended_by_their_name() {
    let office = Office::new();
    let talk = office.world.chat("7");
    talk.says("hello");
    talk.hears(1);
    let session = office.heard()[0].0.session_id.clone().unwrap();
    let runs_for = std::time::Duration::from_secs(130);
    let left = BackgroundProcess { id: "p1a".to_owned(), command: "sleep `9`".to_owned(), runs_for };
    office.clerk.left.lock().unwrap().push((session, left));
    talk.says("/agents");
    assert_eq!(talk.hears(2)[1], "Background commands:\n- p1a: `sleep '9'` (2 min)");
    let stranger = office.world.chat("8");
    stranger.says("/agents stop p1a");
    assert!(stranger.hears(1)[0].starts_with("Nothing of yours has that number or id"));
    talk.says("/agents stop `p1a`");
    assert_eq!(talk.hears(3)[2], "Ended: `p1a`.");
    talk.says("/agents");
    assert_eq!(talk.hears(4)[3], "Nothing is running for you.");
}
