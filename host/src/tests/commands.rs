//! Commands, as people in chats see them.

use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use hermes_agent::{AgentRuntime, EventSink, Message, TurnOutcome, TurnRequest};
use tokio_util::sync::CancellationToken;

use super::world::{Setting, World};

/// A runtime that answers with the model it was asked for and remembers what it got.
#[derive(Default)]
pub struct Recorder {
    /// Every request, oldest first.
    pub requests: Mutex<Vec<TurnRequest>>,
}

impl Recorder {
    fn last(&self) -> TurnRequest {
        self.requests.lock().unwrap().last().expect("a turn ran").clone()
    }
}

impl AgentRuntime for Recorder {
    fn name(&self) -> &'static str {
        "recorder"
    }

    fn models(&self) -> Vec<String> {
        vec!["small".to_owned(), "large".to_owned()]
    }

    fn run(&self, request: TurnRequest, _: EventSink, _: CancellationToken) -> BoxFuture<'_, TurnOutcome> {
        self.requests.lock().unwrap().push(request.clone());
        Box::pin(async move {
            let text = format!("by {}", request.model.as_deref().unwrap_or("small"));
            let mut message = Message::assistant(text.clone());
            message.reasoning = Some("I thought\nabout it".to_owned());
            TurnOutcome::Finished {
                text,
                messages: vec![message],
                usage: Default::default(),
                finish_reason: "stop".to_owned(),
                model: "small".to_owned(),
                state: None,
            }
        })
    }
}

/// 7 is an admin, 8 and 9 are users.
const SECTION: &str = "access = { allowed_users = [\"8\", \"9\"], admins = [\"7\"] }";

fn world() -> (World, Arc<Recorder>) {
    let recorder = Arc::new(Recorder::default());
    let runtime: Arc<dyn AgentRuntime> = recorder.clone();
    (World::with(Setting { section: SECTION.to_owned(), runtime: Some(runtime), ..Setting::default() }), recorder)
}

#[test]
fn a_model_chosen_for_a_conversation_answers_there_and_only_there_also_after_a_restart() {
    let (mut world, recorder) = world();
    let ada = world.chat("8");
    ada.says("/model large");
    assert_eq!(ada.hears(1)[0], "`large` answers in this conversation from the next message on.");
    ada.says("hello");
    assert_eq!(ada.hears(2)[1], "by large");
    let other = world.chat("9");
    other.says("hello");
    assert_eq!(other.hears(1)[0], "by small");
    world.settled();
    world.stop();
    world.start();
    let ada = world.chat("8");
    ada.says("again");
    assert_eq!(ada.hears(3)[2], "by large");
    assert_eq!(recorder.last().history.len(), 2, "the choice began the conversation that goes on");
    ada.says("/model reset");
    ada.says("and now");
    assert_eq!(ada.hears(5)[4], "by small");
}

#[test]
fn a_new_conversation_begins_with_nothing_chosen() {
    let (world, _) = world();
    let ada = world.chat("8");
    ada.says("/model large");
    ada.hears(1);
    ada.says("/new");
    ada.hears(2);
    ada.says("hello");
    assert_eq!(ada.hears(3)[2], "by small");
}

#[test]
fn the_list_of_models_says_which_one_answers() {
    let (world, _) = world();
    let ada = world.chat("8");
    ada.says("/model");
    assert!(ada.hears(1)[0].starts_with("- `small` (answers here)\n- `large`\n"), "{:?}", ada.heard());
    ada.says("/model LARGE");
    ada.says("/model");
    let list = &ada.hears(3)[2];
    assert!(list.starts_with("- `small` (elsewhere)\n- `large` (this conversation)\n"), "{list}");
}

#[test]
fn a_user_chooses_from_the_list_and_staff_may_name_any_model() {
    let (world, recorder) = world();
    let ada = world.chat("8");
    ada.says("/model huge");
    assert_eq!(ada.hears(1)[0], "There is no model `huge` here. Choose one of `small`, `large`.");
    let admin = world.chat("7");
    admin.says("/model huge");
    admin.hears(1);
    admin.says("hello");
    admin.hears(2);
    assert_eq!(recorder.last().model.as_deref(), Some("huge"));
}

#[test]
fn only_an_admin_chooses_the_model_of_everybody_and_it_survives_a_restart() {
    let (mut world, _) = world();
    let ada = world.chat("8");
    ada.says("/model large --global");
    assert_eq!(ada.hears(1)[0], "The model of every conversation is chosen by admins of this host.");
    ada.says("hello");
    assert_eq!(ada.hears(2)[1], "by small");
    let admin = world.chat("7");
    admin.says("/model large —global");
    admin.hears(1);
    ada.says("hello");
    assert_eq!(ada.hears(3)[2], "by large");
    world.settled();
    world.stop();
    world.start();
    let other = world.chat("9");
    other.says("hello");
    assert_eq!(other.hears(1)[0], "by large");
    world.chat("7").says("/model reset --global");
    world.chat("7").hears(2);
    other.says("hello");
    assert_eq!(other.hears(2)[1], "by small");
}
