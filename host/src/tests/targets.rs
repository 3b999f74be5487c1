//! The targets of unrequested messages.

use hermes_protocol::{Addressed, Chat, ChatType, EventKind, RefusalKind, method};
use serde_json::{Value, json};

use super::world::{Setting, Talk, World};
use crate::engine::reply::transcript_copy;
use crate::engine::reply::transcript_copy::NOT_MIRRORED;
use crate::engine::targets::{Address, Destination, resolve};

const OWNER: &str = "access = { allowed_users = [\"7\", \"8\"], operators = [\"7\", \"8\"] }";

/// Creates a platform with these capabilities besides a limit, and this section.
fn world(section: &str, more: Value) -> World {
    let mut capabilities = Setting::default().capabilities;
    capabilities.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    World::with(Setting { section: section.to_owned(), capabilities, ..Setting::default() })
}

fn group(id: &str) -> Chat {
    Chat::new(ChatType::Group, id)
}

/// Sends a group message that is addressed to the agent.
fn says_in_group(talk: &Talk<'_>, text: &str) {
    talk.gives(&talk.event(text).addressed(Addressed::new(true, false, false)));
}

fn leads_to(world: &World, target: &str) -> Result<Chat, String> {
    match world.block_on(resolve(world.host(), target, None))? {
        Destination::Chat(address) => Ok(address.chat),
        Destination::Local => panic!("{target} stays here"),
    }
}

/// Waits until the chats with events are stored.
fn known(world: &World, count: usize) -> Vec<String> {
    world.until("the chats are known", || {
        let known = world.block_on(world.host().store.known_chats("fake")).unwrap();
        (known.len() >= count).then(|| known.into_iter().map(|known| known.name).collect())
    })
}

#[test]
fn an_adapter_reads_its_own_ids() {
    let world = world(OWNER, json!({ "resolve_target": true }));
    world.platform.answers_to(method::RESOLVE_TARGET, json!(group("-100").in_thread("17")));
    assert_eq!(leads_to(&world, "fake:-100:17"), Ok(group("-100").in_thread("17")));
    assert_eq!(world.platform.asked(method::RESOLVE_TARGET), [json!({ "target": "-100:17" })]);
}

#[test]
fn a_chat_that_spoke_is_known_by_its_id_and_by_its_name() {
    let world = world(OWNER, json!({ "resolve_target": true }));
    world.platform.answers_to(method::RESOLVE_TARGET, Value::Null);
    says_in_group(&world.talk(group("a:b").named("Ops"), "7"), "hello");
    known(&world, 1);
    assert_eq!(leads_to(&world, "fake:a:b"), Ok(group("a:b")), "an id may hold a colon");
    assert_eq!(leads_to(&world, "fake:a:b:17"), Ok(group("a:b").in_thread("17")));
    assert_eq!(leads_to(&world, "fake:@ops"), Ok(group("a:b")));
}

#[test]
fn a_stranger_does_not_become_a_name() {
    let world = world(OWNER, json!({}));
    world.talk(Chat::dm("666").named("Ops"), "666").says("hello");
    world.talk(Chat::dm("7").named("Ada"), "7").says("hello");
    assert_eq!(known(&world, 1), ["Ada"]);
}

#[test]
fn what_nobody_knows_is_an_error_that_offers_what_is_near() {
    let world = world(OWNER, json!({ "resolve_target": true }));
    world.platform.answers_to(method::RESOLVE_TARGET, Value::Null);
    let unknown = leads_to(&world, "fake:9").unwrap_err();
    assert_eq!(unknown, "fake knows no chat \"9\"; no chat has sent a message yet");
    world.talk(Chat::dm("7").named("Ada Lovelace"), "7").says("hello");
    known(&world, 1);
    let unknown = leads_to(&world, "fake:somebody").unwrap_err();
    assert_eq!(unknown, "fake knows no chat \"somebody\"; known chats: fake:7 (Ada Lovelace)");
    assert_eq!(leads_to(&world, "fake:9").unwrap_err(), "fake knows no chat \"9\"; did you mean fake:7?");
    let near = leads_to(&world, "fake:@Ada Lovelac3").unwrap_err();
    assert_eq!(near, "fake knows no chat \"@Ada Lovelac3\"; did you mean fake:@Ada Lovelace?");
    let instance = leads_to(&world, "fak:7").unwrap_err();
    assert_eq!(instance, "there is no instance \"fak\"; did you mean \"fake\"?");
    assert!(leads_to(&world, "fake:").unwrap_err().contains("use fake for its home channel"));
    assert!(leads_to(&world, "origin").unwrap_err().contains("no chat made this request"));
}

#[test]
fn two_chats_of_one_name_are_told_apart_by_their_ids() {
    let world = world(OWNER, json!({}));
    for id in ["1", "2"] {
        says_in_group(&world.talk(group(id).named("Ops"), "7"), "hello");
    }
    known(&world, 2);
    let several = leads_to(&world, "fake:@Ops").unwrap_err();
    assert!(several.contains("fake:1 (Ops)") && several.contains("fake:2 (Ops)"), "{several}");
}

#[test]
fn a_name_that_nobody_spoke_under_is_asked_of_the_adapter() {
    let world = world(OWNER, json!({ "chat_info": true }));
    world.platform.answers_to(method::CHAT_LIST, json!([group("5").named("Plans"), group("6").named("Old")]));
    assert_eq!(leads_to(&world, "fake:@plans"), Ok(group("5")));
    assert_eq!(known(&world, 2).len(), 2);
}

#[test]
fn origin_is_where_it_was_asked_for_and_local_stays_here() {
    let world = World::new();
    let origin = Address { instance: "fake".to_owned(), chat: Chat::dm("7") };
    let found = world.block_on(resolve(world.host(), "origin", Some(&origin)));
    assert_eq!(found, Ok(Destination::Chat(origin)));
    assert_eq!(world.block_on(resolve(world.host(), "local", None)), Ok(Destination::Local));
}

#[test]
fn a_missing_home_channel_says_how_to_set_it() {
    let world = world(OWNER, json!({}));
    let missing = leads_to(&world, "fake").unwrap_err();
    assert!(missing.contains("send /sethome in the chat") && missing.contains("[adapter.fake]"), "{missing}");
}

#[test]
fn a_thread_that_begins_with_the_command_is_not_stored_as_home() {
    let world = World::new();
    let talk = world.talk(Chat::dm("7"), "7");
    let mut event = talk.event("/sethome");
    event.chat.thread = event.message_id.clone();
    talk.gives(&event);
    world.until("it is home", || world.host().homes().get("fake").filter(|home| home.thread.is_none()).map(drop));
}

#[test]
fn sethome_makes_a_chat_home_with_its_thread_until_it_is_taken_back() {
    let mut world = world(OWNER, json!({ "threads": true }));
    let talk = world.talk(Chat::dm("7").named("Ada").in_thread("3"), "7");
    talk.says("/sethome");
    assert!(talk.hears(1)[0].contains("This is now the home channel of fake"));
    assert_eq!(leads_to(&world, "fake"), Ok(Chat::dm("7").in_thread("3")));
    world.settled();
    world.stop();
    world.start();
    assert_eq!(leads_to(&world, "fake"), Ok(Chat::dm("7").in_thread("3")), "it survives the host");
    let talk = world.chat("7");
    talk.says("/sethome off");
    assert!(talk.hears(1)[0].contains("no longer has a home channel"));
    assert!(leads_to(&world, "fake").is_err());
}

#[test]
fn a_configured_home_channel_wins_over_sethome_and_says_so() {
    let section = format!("{OWNER}\nhome_channel = {{ chat = \"-100\", thread = \"4\" }}");
    let world = world(&section, json!({ "resolve_target": true }));
    world.platform.answers_to(method::RESOLVE_TARGET, json!(group("-100")));
    world.is_ready();
    world.until("the home channel is read", || world.host().homes().get("fake").cloned());
    let talk = world.chat("7");
    talk.says("/sethome");
    let words = talk.hears(1).remove(0);
    assert!(words.contains("set by the operator") && words.contains("Nothing was changed"), "{words}");
    assert_eq!(leads_to(&world, "fake"), Ok(group("-100").in_thread("4")), "a full chat, read by the adapter");
}

#[test]
fn a_home_channel_follows_its_chat_when_that_moves() {
    let mut world = World::new();
    let talk = world.chat("7");
    talk.says("/sethome");
    talk.hears(1);
    let mut moved = talk.event("").of_kind(EventKind::Migrated);
    moved.migrated_to = Some("8".to_owned());
    talk.gives(&moved);
    world.until("home has moved", || (leads_to(&world, "fake") == Ok(Chat::dm("8"))).then_some(()));
    world.settled();
    world.stop();
    world.start();
    assert_eq!(leads_to(&world, "fake"), Ok(Chat::dm("8")), "also in the next life of the host");
    world.platform.answers(hermes_protocol::SendOutcome::migrated("9"));
    world.chat("8").says("where now");
    world.chat("9").hears(1);
    world.settled();
    assert_eq!(leads_to(&world, "fake"), Ok(Chat::dm("9")), "also when a send learns of it");
}

#[test]
fn a_chat_that_cannot_be_written_to_is_told_until_somebody_writes_there() {
    let mut world = World::new();
    world.platform.refuses(RefusalKind::Forbidden);
    let talk = world.chat("7");
    talk.says("question");
    talk.hears(1);
    world.settled();
    let dead = |world: &World| world.block_on(census(world)).dead;
    world.until("it is told", || (dead(&world).len() == 1).then_some(()));
    assert_eq!((dead(&world)[0].chat.id.as_str(), dead(&world)[0].why.as_str()), ("7", "forbidden: no"));
    world.stop();
    world.start();
    assert_eq!(dead(&world).len(), 1, "it is known in the next life of the host");
    world.chat("7").says("I am back");
    world.chat("7").hears(2);
    assert!(dead(&world).is_empty());
}

async fn census(world: &World) -> crate::engine::messages::Census {
    let (reply, census) = tokio::sync::oneshot::channel();
    world
        .host()
        .tell(crate::engine::messages::HostEvent::control(crate::engine::messages::Control::Census(reply)))
        .await;
    census.await.unwrap()
}

#[test]
fn what_the_host_says_by_itself_is_in_no_transcript_unless_it_is_asked_for() {
    let world = World::new();
    let talk = world.chat("7");
    talk.says("hello");
    talk.hears(1);
    world.settled();
    let transcript = || -> Vec<String> {
        let sessions = world.call("sessions.list", json!({ "sender": { "id": "7" } })).unwrap();
        let id = sessions[0]["id"].clone();
        let history = world.call("sessions.history", json!({ "sender": { "id": "7" }, "session_id": id })).unwrap();
        history.as_array().unwrap().iter().map(|row| row["content"].as_str().unwrap().to_owned()).collect()
    };
    let owes = |text: &str, mirrored: bool| {
        world.block_on(async {
            let host = world.host();
            let purpose = hermes_protocol::Purpose::Cron;
            let delivery = crate::engine::context::compose(host, "fake", Chat::dm("7"), purpose, text.to_owned()).await;
            let (id, note) = match mirrored {
                true => transcript_copy::owe(host, delivery.clone()).await.unwrap(),
                false => (host.store.owe(delivery.clone()).await.unwrap(), None),
            };
            host.carry(vec![id], vec![delivery]).await;
            note
        })
    };
    assert_eq!(owes("only said", false), None);
    assert_eq!(owes("said and kept", true), None);
    talk.hears(3);
    assert_eq!(transcript(), ["hello", "hello", "said and kept"]);
}

#[test]
fn where_several_people_have_a_conversation_each_nothing_is_mirrored_and_that_is_said() {
    let world = World::new();
    for who in ["7", "8"] {
        let talk = world.talk(group("g"), who);
        says_in_group(&talk, "hello");
    }
    world.talk(group("g"), "7").hears(2);
    let note = world.block_on(async {
        let host = world.host();
        let delivery = crate::engine::context::compose(
            host,
            "fake",
            group("g"),
            hermes_protocol::Purpose::Cron,
            "news".to_owned(),
        )
        .await;
        transcript_copy::owe(host, delivery).await.unwrap().1
    });
    assert_eq!(note, Some(NOT_MIRRORED));
}

#[test]
fn in_a_group_the_answer_to_a_command_is_for_whoever_gave_it() {
    let world = World::new();
    let talk = world.talk(group("g"), "7");
    says_in_group(&talk, "/whoami");
    says_in_group(&talk, "hello");
    talk.hears(2);
    world.chat("7").says("/whoami");
    world.chat("7").hears(1);
    let mut seen: Vec<_> = world.platform.sent().into_iter().map(|sent| (sent.chat.id, sent.ephemeral_to)).collect();
    seen.sort();
    let expected = [("7", None), ("g", None), ("g", Some("7"))].map(|(id, to)| (id.to_owned(), to.map(str::to_owned)));
    assert_eq!(seen, expected, "an answer of the agent, and one in a direct message, are for all who are there");
}

#[test]
fn a_topic_is_shown_and_renamed_where_the_platform_can() {
    let world = world(OWNER, json!({ "threads": true, "rename_thread": true }));
    let mut chat = Chat::dm("7").in_thread("3");
    chat.thread_name = Some("Plans".to_owned());
    let talk = world.talk(chat, "7");
    talk.says("/topic");
    assert!(talk.hears(1)[0].starts_with("Topic: Plans"));
    talk.says("/topic Trips");
    assert_eq!(talk.hears(2)[1], "This topic is now called \"Trips\".");
    let asked = world.platform.asked(method::RENAME_THREAD);
    assert_eq!((&asked[0]["name"], &asked[0]["chat"]["thread"]), (&json!("Trips"), &json!("3")));
    world.chat("7").says("/topic");
    assert!(world.chat("7").hears(1)[0].starts_with("This chat is not a topic"));
}

#[test]
fn a_platform_that_cannot_rename_a_topic_says_so() {
    let world = world(OWNER, json!({ "threads": true }));
    let talk = world.talk(Chat::dm("7").in_thread("3"), "7");
    talk.says("/topic Trips");
    assert_eq!(talk.hears(1)[0], "I cannot rename topics on Fake; please rename it in Fake itself.");
    assert!(world.platform.asked(method::RENAME_THREAD).is_empty());
}
