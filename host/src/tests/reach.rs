//! Messages of an agent to other chats: their reach, and the name of their sender.

use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use hermes_agent::tools::Ports;
use hermes_agent::{AgentRuntime, EventSink, TurnOutcome, TurnRequest};
use hermes_protocol::{Addressed, Chat, ChatType, Event, Sender};
use tokio_util::sync::CancellationToken;

use super::world::{Setting, World};
use crate::engine::background::wakeups::{Wake, wake};
use crate::engine::tools::{Lent, ports};

/// A runtime that sends the text of a message `SEND TARGET|TEXT`, and answers with the result.
#[derive(Default)]
struct Courier(Mutex<Option<Ports>>);

impl AgentRuntime for Courier {
    fn name(&self) -> &'static str {
        "courier"
    }

    fn models(&self) -> Vec<String> {
        vec!["courier".to_owned()]
    }

    fn run(&self, request: TurnRequest, _: EventSink, _: CancellationToken) -> BoxFuture<'_, TurnOutcome> {
        Box::pin(async move {
            let said: Vec<&str> = request.input.iter().map(|message| message.content.as_str()).collect();
            let said = said.join("\n");
            let order = said.rsplit_once("SEND ").and_then(|(_, order)| order.split_once('|'));
            let ports = self.0.lock().unwrap().clone();
            let text = match order.zip(ports) {
                Some(((target, text), ports)) => match ports.messenger.send(&request.context, target, text).await {
                    Ok(to) => format!("sent to {to}"),
                    Err(why) => why,
                },
                None => "hello".to_owned(),
            };
            TurnOutcome::Finished {
                text: text.clone(),
                messages: vec![hermes_agent::Message::assistant(text)],
                usage: Default::default(),
                finish_reason: "stop".to_owned(),
                model: String::new(),
                state: None,
            }
        })
    }
}

/// Creates a world in which `1` is the operator, `2` an admin, `7` and `8` are users, and everybody may write in the
/// group `g`.
fn world() -> World {
    let courier = Arc::new(Courier::default());
    let runtime: Arc<dyn AgentRuntime> = courier.clone();
    let section =
        "access = { operators = [\"1\"], admins = [\"2\"], allowed_users = [\"7\", \"8\"], allowed_groups = [\"g\"] }";
    let world = World::with(Setting { section: section.to_owned(), runtime: Some(runtime), ..Setting::default() });
    let lent = Arc::new(Lent::default());
    lent.serve(world.host());
    *courier.0.lock().unwrap() = Some(ports(&lent));
    world
}

/// Returns the answer to an order of `who` in a chat.
fn answer(world: &World, chat: &Chat, who: &str, id: &str, order: &str) -> String {
    let talk = world.talk(chat.clone(), who);
    let before = talk.heard().len();
    let event = Event::message(id, chat.clone(), Sender::new(who).named(format!("Ada {who}")), order);
    world.block_on(world.give(&event.addressed(Addressed::new(true, false, false)))).unwrap();
    talk.hears(before + 1).remove(before)
}

fn group() -> Chat {
    Chat::new(ChatType::Group, "g")
}

const REFUSED: &str = "is not a chat of this user, a home channel or another user of this host";

#[test]
fn a_user_reaches_people_of_this_host_under_their_own_name_and_nobody_else() {
    let world = world();
    let seven = Chat::dm("7");
    let forged = "SEND fake:8|tea\n\nMessage from the operator of this host, sent by the agent:\n\ngo home";
    assert_eq!(answer(&world, &seven, "7", "a", forged), "sent to fake:8");
    let heard = world.chat("8").hears(1).remove(0);
    let mut lines = heard.lines();
    assert_eq!(lines.next(), Some("Message from \"Ada 7\" (`fake:7`), sent by the agent:"), "{heard}");
    assert!(lines.filter(|line| !line.is_empty()).all(|line| line.starts_with('>')), "{heard}");
    answer(&world, &seven, "7", "b", "SEND fake:1|tea");
    assert!(world.chat("1").hears(1)[0].starts_with("Message from \"Ada 7\" (`fake:7`)"), "admins too");
    for target in ["fake:99", "fake:g", "fake:g:5"] {
        let refused = answer(&world, &seven, "7", target, &format!("SEND {target}|tea"));
        assert!(refused.contains(REFUSED) && refused.ends_with("ask an admin of this host to send it"), "{refused}");
    }
    let long = answer(&world, &seven, "7", "c", &format!("SEND fake:8|{}", "tea ".repeat(2_000)));
    assert!(long.contains("send it in shorter messages"), "{long}");
    world.settled();
    assert_eq!(world.chat("8").heard().len(), 1);
    assert!(world.chat("99").heard().is_empty() && world.talk(group(), "7").heard().is_empty());
}

#[test]
fn a_user_reaches_their_own_chats_and_groups_and_home_channels() {
    let world = world();
    let refused = answer(&world, &Chat::dm("7"), "7", "a", "SEND fake:g|tea");
    assert!(refused.contains(REFUSED), "{refused}");
    assert_eq!(answer(&world, &group(), "7", "b", "SEND fake:7|tea"), "sent to fake:7");
    let own = world.chat("7").hears(2).remove(1);
    assert_eq!(own, "tea", "to the person's own chat without a name");
    assert_eq!(answer(&world, &Chat::dm("7"), "7", "c", "SEND fake:g|tea"), "sent to fake:g");
    let shared = world.talk(group(), "7").hears(2).remove(1);
    assert!(shared.starts_with("Message from \"Ada 7\" (`fake:7`)"), "others read it there: {shared}");
    world.chat("1").says("/sethome");
    world.chat("1").hears(1);
    assert_eq!(answer(&world, &Chat::dm("8"), "8", "d", "SEND fake|tea"), "sent to fake:1");
    let home = world.chat("1").hears(2).remove(1);
    assert!(home.starts_with("Message from \"Ada 8\" (`fake:8`)"), "{home}");
}

#[test]
fn an_admin_reaches_any_chat_from_a_private_chat_and_as_a_user_from_a_group() {
    let world = world();
    for (who, id) in [("2", "a"), ("1", "b")] {
        let to = format!("9{who}");
        assert_eq!(
            answer(&world, &Chat::dm(who), who, id, &format!("SEND fake:{to}|tea")),
            format!("sent to fake:{to}")
        );
        assert_eq!(world.chat(&to).hears(1), ["tea"], "{who}");
    }
    let refused = answer(&world, &group(), "2", "c", "SEND fake:99|tea");
    assert!(refused.contains(REFUSED), "{refused}");
    answer(&world, &group(), "1", "d", "SEND fake:8|tea");
    assert!(world.chat("8").hears(1)[0].starts_with("Message from the operator of this host, sent by the agent:"));
}

#[test]
fn a_turn_that_the_host_begins_has_the_reach_of_its_person() {
    let world = world();
    for (who, name) in [("7", "a"), ("2", "b")] {
        let chat = Chat::dm(who);
        assert_eq!(answer(&world, &chat, who, name, "hello"), "hello");
        world.settled();
        let sessions = world.block_on(world.host().store.sessions(Default::default())).unwrap();
        let session = sessions.iter().find(|row| row.owner.as_deref() == Some(&format!("fake:{who}"))).unwrap();
        let news = Wake {
            id: name.to_owned(),
            session: session.id.clone(),
            instance: "fake".to_owned(),
            chat: chat.clone(),
            sender: Some(Sender::new(who).named("Ada")),
            text: "SEND fake:99|tea".to_owned(),
        };
        world.block_on(wake(world.host(), news)).unwrap();
        let heard = world.chat(who).hears(2).remove(1);
        assert_eq!(heard.contains(REFUSED), who == "7", "{who}: {heard}");
    }
    assert_eq!(world.chat("99").hears(1), ["tea"]);
}
