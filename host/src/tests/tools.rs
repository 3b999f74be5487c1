//! The host services for the tools of its agent, and the results of their calls.

use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use hermes_agent::tools::ports::{Messenger, STOPPED_OUTCOME, Search, UNKNOWN_OUTCOME};
use hermes_agent::tools::{Ports, StartedCall, ToolCall};
use hermes_agent::{AgentRuntime, EventSink, Message, Role, TurnOutcome, TurnRequest};
use hermes_core::access::Tier;
use hermes_core::context::TurnContext;
use hermes_core::ids::{SessionId, TurnId};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::world::{Setting, World};
use crate::engine::run_tokens::Rights;
use crate::engine::tools::{Lent, ports};
use hermes_system::rng::SystemChance;

/// A runtime that calls one tool that ends and one that does not; with the history of these calls, it answers.
struct Worker {
    ports: watch::Sender<Option<Ports>>,
    steps: Mutex<Vec<Message>>,
}

impl Worker {
    async fn work(&self, request: TurnRequest) -> TurnOutcome {
        let mut lent = self.ports.subscribe();
        let lent = lent.wait_for(Option::is_some).await.unwrap().clone().unwrap();
        if request.steps.is_empty() {
            for n in 0..2 {
                let call = ToolCall { id: format!("c{n}"), name: "terminal".to_owned(), arguments: "{}".to_owned() };
                let started = StartedCall { n, step: n, said: format!("step {n}"), call };
                lent.ledger.started(request.turn_id, vec![started]).await.unwrap();
                if n == 0 {
                    lent.ledger.ended(request.turn_id, n, "done".to_owned()).await.unwrap();
                }
            }
            std::future::pending::<()>().await;
        }
        self.steps.lock().unwrap().clone_from(&request.steps);
        let mut messages = request.steps;
        messages.push(Message::assistant("went on"));
        TurnOutcome::Finished {
            text: "went on".to_owned(),
            messages,
            usage: Default::default(),
            finish_reason: "stop".to_owned(),
            model: String::new(),
            state: None,
        }
    }
}

impl AgentRuntime for Worker {
    fn name(&self) -> &'static str {
        "worker"
    }

    fn models(&self) -> Vec<String> {
        vec!["worker".to_owned()]
    }

    fn run(&self, request: TurnRequest, _: EventSink, cancel: CancellationToken) -> BoxFuture<'_, TurnOutcome> {
        Box::pin(async move {
            let worked = cancel.run_until_cancelled(self.work(request)).await;
            worked.unwrap_or(TurnOutcome::Interrupted { text: "step 0\n\nstep 1\n\nhalf".to_owned() })
        })
    }
}

fn world() -> (World, Arc<Worker>) {
    let worker = Arc::new(Worker { ports: watch::Sender::new(None), steps: Mutex::default() });
    let runtime: Arc<dyn AgentRuntime> = worker.clone();
    let world = World::with(Setting { runtime: Some(runtime), ..Setting::default() });
    worker.ports.send_replace(Some(ports(&lent(&world))));
    (world, worker)
}

fn lent(world: &World) -> Arc<Lent> {
    let lent = Arc::new(Lent::default());
    lent.serve(world.host());
    lent
}

/// Waits until the turn is in its second call.
fn is_in_the_middle(world: &World) {
    world.until("the second call is written", || {
        (world.block_on(world.host().store.calls_of(TurnId(1))).unwrap().len() == 2).then_some(())
    });
}

fn transcript(world: &World) -> Vec<(Role, String)> {
    let sessions = world.block_on(world.host().store.sessions(Default::default())).unwrap();
    let history = world.block_on(world.host().store.history(&sessions[0].id, 100)).unwrap();
    history.into_iter().map(|row| (row.message.role, row.message.content)).collect()
}

fn said(parts: &[(Role, &str)]) -> Vec<(Role, String)> {
    parts.iter().map(|(role, text)| (*role, (*text).to_owned())).collect()
}

#[test]
fn a_turn_that_was_cut_off_within_a_call_goes_on_and_is_told_that_nobody_knows() {
    let (mut world, worker) = world();
    world.chat("7").says("work");
    is_in_the_middle(&world);
    worker.ports.send_replace(None);
    world.crash();
    world.start();
    worker.ports.send_replace(Some(ports(&lent(&world))));
    assert_eq!(world.chat("7").hears(1), ["went on"]);
    world.settled();
    let told: Vec<String> = worker.steps.lock().unwrap().iter().map(|step| step.content.clone()).collect();
    assert_eq!(told, ["step 0", "done", "step 1", UNKNOWN_OUTCOME]);
    let expected = [
        (Role::User, "work"),
        (Role::Assistant, "step 0"),
        (Role::Tool, "done"),
        (Role::Assistant, "step 1"),
        (Role::Tool, UNKNOWN_OUTCOME),
        (Role::Assistant, "went on"),
    ];
    assert_eq!(transcript(&world), said(&expected));
}

#[test]
fn a_turn_that_is_stopped_keeps_what_it_did_in_its_transcript() {
    let (world, _worker) = world();
    world.chat("7").says("work");
    is_in_the_middle(&world);
    world.chat("7").says("/stop");
    world.chat("7").hears(1);
    world.settled();
    let transcript = transcript(&world);
    let roles: Vec<Role> = transcript.iter().map(|(role, _)| *role).collect();
    assert_eq!(roles[..5], [Role::User, Role::Assistant, Role::Tool, Role::Assistant, Role::Tool]);
    assert_eq!(transcript[4].1, STOPPED_OUTCOME, "no restart did that");
}

/// Returns the context of a turn of a person, in a private or a shared chat.
fn turn_of(user: &str, owner: &str, session: Option<SessionId>) -> TurnContext {
    TurnContext {
        source: "fake".to_owned(),
        chat_id: user.to_owned(),
        user_id: user.to_owned(),
        owner: owner.to_owned(),
        session_id: session,
        ..TurnContext::default()
    }
}

#[test]
fn an_agent_finds_only_what_whoever_asks_may_see() {
    let section = "access = { allowed_users = [\"8\", \"9\"], admins = [\"7\"] }";
    let world = World::with(Setting { section: section.to_owned(), ..Setting::default() });
    for who in ["8", "9"] {
        world.chat(who).says(&format!("pineapple of {who}"));
        world.chat(who).hears(1);
    }
    world.settled();
    let lent = lent(&world);
    let find = |context: &TurnContext| -> Vec<String> {
        let found = world.block_on(lent.search(context, "pineapple", 20)).unwrap();
        found.into_iter().map(|found| found.snippet).collect()
    };
    let own = find(&turn_of("8", "fake:8", None));
    assert!(!own.is_empty() && own.iter().all(|text| text.contains("of 8")), "{own:?}");
    assert!(find(&turn_of("10", "fake:10", None)).is_empty());
    assert!(find(&turn_of("8", "", None)).is_empty(), "nobody known: nothing but this conversation");
    let sessions = world.block_on(world.host().store.sessions(Default::default())).unwrap();
    let nines = sessions.iter().find(|row| row.owner.as_deref() == Some("fake:9")).unwrap();
    let shared = find(&turn_of("8", "", Some(nines.id.clone())));
    assert!(!shared.is_empty() && shared.iter().all(|text| text.contains("of 9")), "{shared:?}");
}

#[test]
fn an_agent_writes_to_another_chat_and_not_to_the_one_it_is_in() {
    let world = World::new();
    let lent = lent(&world);
    let mut context = turn_of("7", "operator", None);
    let rights = Rights { tier: Tier::Operator, reach: Tier::Operator, person: Some("operator".to_owned()) };
    let _lease = world.host().runs.issue(&SystemChance, rights, &mut context);
    let send = |target: &str| world.block_on(lent.send(&context, target, "tea is ready"));
    assert_eq!(send("fake:8"), Ok("fake:8".to_owned()));
    assert_eq!(world.chat("8").hears(1), ["tea is ready"]);
    assert!(send("fake:7").unwrap_err().contains("the current chat"));
    assert!(send("fak:8").unwrap_err().contains("did you mean"));
    assert!(send("local").is_err());
    assert!(send("terminal:once-1").unwrap_err().contains("nobody would receive this"));
    assert!(world.chat("7").heard().is_empty());
}
